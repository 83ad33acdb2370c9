#include "bus/change.h"

#include "base/unknown.h"

enum topic change_topic(enum change change, const struct attempt *a,
			const struct sheet_record *sheet)
{
	switch (change) {
	case CHANGE_JOB_STARTED:
		return TOPIC_JOB_STARTED;
	case CHANGE_SHEET_STARTED:
		return TOPIC_SHEET_STARTED;
	case CHANGE_SHEET_ENDED:
		return sheet->outcome == OUTCOME_SUCCESS ? TOPIC_SHEET_COMPLETED
							 : TOPIC_SHEET_FAILED;
	case CHANGE_JOB_ENDED:
		break;
	}
	if (a->outcome == OUTCOME_CANCELLED)
		return TOPIC_JOB_CANCELLED;
	return a->outcome == OUTCOME_SUCCESS ? TOPIC_JOB_COMPLETED : TOPIC_JOB_FAILED;
}

static void write_sheet(struct json *j, const struct sheet_record *sheet)
{
	json_key_i64(j, "sheet_num", sheet->num);
	json_key_i64(j, "try", sheet->try_num);
	json_key_string(j, "name", sheet->name);
	json_key_string(j, "outcome", outcome_name(sheet->outcome));
	json_key_int(j, "exit_code", sheet->status.exit_code);
	json_key_int(j, "signal", sheet->status.signal);
	json_key_string(j, "reason", sheet->reason);
	json_key_f64(j, "started", u64_to_seconds(sheet->started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(sheet->ended_wall_ns));
}

static void write_job(struct json *j, const struct attempt *a)
{
	json_key_string(j, "command", a->command);
	json_key_string(j, "status", attempt_status_name(a));
	json_key_string(j, "outcome", outcome_name(a->outcome));
	json_key_int(j, "exit_code", a->status.exit_code);
	json_key_int(j, "signal", a->status.signal);
	json_key_string(j, "reason", a->reason);
	json_key_bool(j, "lost", a->is_lost);
	json_key_f64(j, "started", u64_to_seconds(a->started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(a->ended_wall_ns));
}

uint64_t change_time(enum change change, const struct attempt *a, const struct sheet_record *sheet)
{
	switch (change) {
	case CHANGE_JOB_STARTED:
		return a->started_wall_ns;
	case CHANGE_SHEET_STARTED:
		return sheet->started_wall_ns;
	case CHANGE_SHEET_ENDED:
		return sheet->ended_wall_ns;
	case CHANGE_JOB_ENDED:
		return a->ended_wall_ns;
	}
	return U64_UNKNOWN;
}

/* A beginning is told as it was, also when the end is known by now. */
static struct attempt begun_attempt(const struct attempt *a)
{
	struct attempt begun = *a;

	begun.is_running = true;
	begun.is_lost = false;
	begun.outcome = OUTCOME_NONE;
	begun.status = (struct exit_status){ -1, -1 };
	begun.reason = NULL;
	begun.ended_wall_ns = U64_UNKNOWN;
	return begun;
}

static struct sheet_record begun_sheet(const struct sheet_record *sheet)
{
	struct sheet_record begun = *sheet;

	begun.outcome = OUTCOME_NONE;
	begun.status = (struct exit_status){ -1, -1 };
	begun.reason = NULL;
	begun.ended_wall_ns = U64_UNKNOWN;
	return begun;
}

static void write_whose(struct json *j, enum change change, const struct attempt *a,
			const struct sheet_record *sheet)
{
	json_key_string(j, "event", topic_name(change_topic(change, a, sheet)));
	json_key_f64(j, "timestamp", u64_to_seconds(change_time(change, a, sheet)));
	json_key_string(j, "job_id", a->job_id);
	json_key_i64(j, "attempt", a->attempt_num);
}

void change_write_fields(struct json *j, enum change change, const struct attempt *a,
			 const struct sheet_record *sheet)
{
	const struct attempt job = change == CHANGE_JOB_STARTED ? begun_attempt(a) : *a;

	write_whose(j, change, a, sheet);
	if (!sheet) {
		write_job(j, &job);
	} else {
		const struct sheet_record told =
			change == CHANGE_SHEET_STARTED ? begun_sheet(sheet) : *sheet;

		write_sheet(j, &told);
	}
}
