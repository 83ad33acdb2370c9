/*
 * Attempts, sheets, processes, samples, snapshots and events as rows: a constant array of fields
 * for each, from which the members in JSON and the columns of the export as CSV are written.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/csv.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "model/sample_fields.h"
#include "model/snapshot.h"
#include "model/time_ledger.h"
#include "report/facts.h"
#include "report/report.h"

struct row_field {
	const char *name;
	int kind;
	size_t offset;
	bool has_exact; /* in CSV the number as it was measured has a column too, behind all fields
			 */
	void (*write)(struct json *j, const void *field);
};

#define FIELD(name_, struct_, field_, kind_, ...)                                                 \
	{                                                                                         \
		.name = name_, .kind = FIELD_##kind_, .offset = offsetof(struct struct_, field_), \
		__VA_ARGS__                                                                       \
	}
#define FIELD_EXACT(...) FIELD(__VA_ARGS__, .has_exact = true)
#define FIELD_JSON(name_, offset_, write_)                                            \
	{                                                                             \
		.name = name_, .kind = FIELD_LIST, .offset = offset_, .write = write_ \
	}
#define FIELD_OF_ALL(name_, kind_)                   \
	{                                            \
		.name = name_, .kind = FIELD_##kind_ \
	}

struct row_fields {
	const struct row_field *items;
	size_t n;
	size_t n_csv; /* so many of the first are in CSV alone */
};

#define ROW_FIELDS(items_, n_csv_)                               \
	{                                                        \
		items_, sizeof(items_) / sizeof(*items_), n_csv_ \
	}

/* ---- one value ---- */

#define ROOM 20

/* False: it is no text. NULL: it is unknown. */
static bool text_of(int kind, const void *at, char room[ROOM], const char **ret)
{
	switch (kind) {
	case FIELD_STRING:
		*ret = *(const char *const *)at;
		return true;
	case FIELD_COMM:
	case FIELD_NAME:
		*ret = *(const char *)at ? at : NULL;
		return true;
	case FIELD_CHAR:
		snprintf(room, ROOM, "%c", *(const char *)at);
		*ret = room[0] == '?' ? NULL : room;
		return true;
	case FIELD_HEX:
		snprintf(room, ROOM, "%016llx", *(const unsigned long long *)at);
		*ret = room;
		return true;
	case FIELD_OUTCOME:
		*ret = outcome_name(*(const enum outcome *)at);
		return true;
	case FIELD_CAUSE:
		*ret = cause_name(*(const enum cause_kind *)at);
		return true;
	case FIELD_EVIDENCE:
		*ret = evidence_name(*(const enum evidence *)at);
		return true;
	case FIELD_EVENT_TYPE:
		*ret = event_type_name(*(const enum event_type *)at);
		return true;
	case FIELD_STATUS:
		*ret = attempt_status_name(at);
		return true;
	default:
		return false;
	}
}

/* What is neither text nor a list, as JSON has it. Returns its end, which is no NUL. */
static char *put_plain(int kind, const void *at, char text[JSON_NUMBER_BYTES])
{
	if (kind == FIELD_ZOMBIES)
		return json_put_u64(text, snapshot_count_zombies(at, SNAPSHOT_ALL));
	if (kind == FIELD_INTERVAL)
		return json_put_f64(text,
				    *(const double *)at > 0 ? *(const double *)at : F64_UNKNOWN);
	if (kind == FIELD_BOOL)
		return stpcpy(text, *(const bool *)at ? "true" : "false");
	return member_put_number(text, (enum field_kind)kind, at);
}

static void write_json_fields(struct json *j, const struct row_fields *fields, const void *from)
{
	for (size_t i = fields->n_csv; i < fields->n; i++) {
		const struct row_field *f = &fields->items[i];
		const void *at = (const char *)from + f->offset;
		char room[ROOM], plain[JSON_NUMBER_BYTES];
		const char *text;

		json_key(j, f->name);
		if (f->write) {
			f->write(j, at);
		} else if (text_of(f->kind, at, room, &text)) {
			json_str(j, text);
		} else {
			json_raw(j, plain, (size_t)(put_plain(f->kind, at, plain) - plain));
		}
	}
}

static void add_list(struct csv *c, const struct row_field *f, const void *at)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	f->write(&j, at);
	if (buf_error(&text) < 0)
		c->json.out->failed = true;
	csv_text(c, strcmp(text.data, "null") == 0 ? NULL : text.data);
}

/* Where it is to stand: of a long list there are millions. */
static void add_plain(struct csv *c, int kind, const void *at)
{
	char *text = json_room(&c->json, JSON_NUMBER_BYTES + 1), *end;

	if (!text)
		return;
	if (c->json.need_comma)
		*text++ = ',';
	end = put_plain(kind, at, text);
	json_room_end(&c->json, *text == 'n' ? text : end, false); /* null */
}

static void add_cells(struct csv *c, const struct row_fields *fields, const void *from)
{
	for (size_t i = 0; i < fields->n; i++) {
		const struct row_field *f = &fields->items[i];
		const void *at = (const char *)from + f->offset;
		char room[ROOM];
		const char *text;

		if (f->write) {
			add_list(c, f, at);
		} else if (text_of(f->kind, at, room, &text)) {
			csv_text(c, text);
		} else {
			add_plain(c, f->kind, at);
		}
	}
	for (size_t i = 0; i < fields->n; i++)
		if (fields->items[i].has_exact)
			csv_u64(c,
				*(const uint64_t *)((const char *)from + fields->items[i].offset));
}

/* "rss_mb" is "rss_bytes" as it was measured, "cpu_seconds" is "cpu_ns", and "ended" "ended_ns". */
static void add_names(struct csv *c, const struct row_fields *fields)
{
	char name[64];

	for (size_t i = 0; i < fields->n; i++)
		csv_word(c, fields->items[i].name);
	for (size_t i = 0; i < fields->n; i++) {
		const struct row_field *f = &fields->items[i];
		const char *unit = strstr(f->name, f->kind == FIELD_MB ? "_mb" : "_seconds");
		int n = (int)(unit ? (size_t)(unit - f->name) : strlen(f->name));

		snprintf(name, sizeof(name), "%.*s%s", n, f->name,
			 f->kind == FIELD_MB ? "_bytes" : "_ns");
		if (f->has_exact)
			csv_word(c, name);
	}
}

/* ---- all numbers of an attempt or a sheet, and behind them the evidence of each ---- */

#define NUMBER(id_, key_, label_, kind_, member_, ...) \
	FIELD(key_, figures, member_, kind_,           \
	      .has_exact = (int)FIELD_##kind_ == FIELD_SECONDS || (int)FIELD_##kind_ == FIELD_MB),
#define ITS_EVIDENCE(id_, key_, ...) \
	FIELD(key_ "_evidence", figures, evidence[FIGURE_##id_], EVIDENCE),

static const struct row_field attempt_figures[] = {
#define FIGURE NUMBER
#include "report/figures.def"
#define FIGURE ITS_EVIDENCE
#include "report/figures.def"
};
static const struct row_field sheet_figures[] = {
#define FIGURE NUMBER
#define FIGURE_OF_ATTEMPT(...)
#include "report/figures.def"
#define FIGURE ITS_EVIDENCE
#define FIGURE_OF_ATTEMPT(...)
#include "report/figures.def"
};
static const struct row_fields figure_fields[] = {
	[false] = ROW_FIELDS(sheet_figures, 0),
	[true] = ROW_FIELDS(attempt_figures, 0),
};

void rows_write_figures(struct json *j, const struct figures *f, bool is_attempt)
{
	const struct row_field *items = figure_fields[is_attempt].items;
	const struct row_fields numbers = { items, figure_fields[is_attempt].n / 2, 0 };

	write_json_fields(j, &numbers, f);
	json_key_object(j, "evidence");
	for (size_t i = 0; i < numbers.n; i++) {
		const void *at = (const char *)f + items[numbers.n + i].offset;

		json_key_string(j, items[i].name, evidence_name(*(const enum evidence *)at));
	}
}

/* ---- samples ---- */

struct sample_row {
	uint64_t wall_ns;
	double resolution_seconds;
	uint64_t n_samples;
	int attempt_num;
	struct proc_sample p;
};

static void write_COUNTS(struct json *j, const void *sample)
{
	const struct proc_sample *p = sample;

	syscall_uses_write_counts(j, p->syscalls, p->n_syscalls);
}

static void write_TIMES(struct json *j, const void *sample)
{
	const struct proc_sample *p = sample;

	syscall_uses_write_times(j, p->syscalls, p->n_syscalls);
}

static const struct row_field sample_items[] = {
	FIELD("timestamp", sample_row, wall_ns, SECONDS),
	FIELD("job_id", sample_row, p.job_id, STRING),
	FIELD("attempt", sample_row, attempt_num, PID),
	FIELD("sheet_num", sample_row, p.sheet_num, INT),
	FIELD("rank", sample_row, p.rank, INT),
#define SAMPLE_FIELD(kind_, member_, key_, help_) FIELD(key_, sample_row, p.member_, kind_),
#define SAMPLE_CALLS(kind_, key_, help_) \
	FIELD_JSON(key_, offsetof(struct sample_row, p), write_##kind_),
#define SAMPLE_JOB(...) /* they come first */
#include "model/sample_fields.def"
	FIELD("timestamp_ns", sample_row, wall_ns, U64),
#define SAMPLE_EXACT(member_, key_, where_, help_) FIELD(key_, sample_row, p.member_, U64),
#include "model/sample_fields.def"
	FIELD("resolution_seconds", sample_row, resolution_seconds, F64),
	FIELD("samples", sample_row, n_samples, U64),
};
static const struct row_fields sample_fields_of_row = ROW_FIELDS(sample_items, 0);

void report_csv_sample(struct csv *c, uint64_t wall_ns, double resolution_seconds,
		       uint64_t n_samples, int attempt_num, const struct proc_sample *p)
{
	const struct sample_row row = { wall_ns, resolution_seconds, n_samples, attempt_num, *p };

	add_cells(c, &sample_fields_of_row, &row);
	csv_end_row(c);
}

/* ---- snapshots ---- */

static void write_zombie_pids(struct json *j, const void *snapshot)
{
	snapshot_write_zombie_pids(j, snapshot, SNAPSHOT_ALL);
}

static void write_progress(struct json *j, const void *snapshot)
{
	snapshot_write_progress(j, snapshot);
}

static void write_cgroups(struct json *j, const void *snapshot)
{
	snapshot_write_cgroups(j, snapshot);
}

static void write_gpus(struct json *j, const void *snapshot)
{
	snapshot_write_gpus(j, snapshot);
}

#define PSI_LINE(name_, field_)                                       \
	FIELD(name_ "_avg10", snapshot, field_.avg10, F64),           \
		FIELD(name_ "_avg60", snapshot, field_.avg60, F64),   \
		FIELD(name_ "_avg300", snapshot, field_.avg300, F64), \
		FIELD(name_ "_total_us", snapshot, field_.total_us, U64)

#define HAS_EXACT true
#define HAS_PLAIN false

static const struct row_field snapshot_items[] = {
	FIELD_EXACT("timestamp", snapshot, wall_ns, SECONDS),
#define HOST_MEMBER(kind_, member_, key_, exact_, help_) \
	FIELD(key_, snapshot, member_, kind_, .has_exact = HAS_##exact_),
#define HOST_FIELD(kind_, member_, key_, scale_, exact_, help_) \
	FIELD(key_, snapshot, system.member_, kind_, .has_exact = HAS_##exact_),
#define HOST_PSI(member_, key_, help_) \
	PSI_LINE(key_ "_some", system.member_.some), PSI_LINE(key_ "_full", system.member_.full),
#include "model/host_fields.def"
	FIELD_JSON("gpus", 0, write_gpus),
	FIELD_JSON("zombie_pids", 0, write_zombie_pids),
	FIELD_OF_ALL("zombie_count", ZOMBIES),
	FIELD_JSON("job_progress", 0, write_progress),
	FIELD("conductor_uptime_seconds", snapshot, daemon_uptime_seconds, F64),
	FIELD("resolution_seconds", snapshot, resolution_seconds, F64),
	FIELD_JSON("cgroups", 0, write_cgroups),
};
static const struct row_fields snapshot_fields = ROW_FIELDS(snapshot_items, 0);

void report_csv_snapshot(struct csv *c, const struct snapshot *s)
{
	add_cells(c, &snapshot_fields, s);
	csv_end_row(c);
}

/* ---- events ---- */

struct event_row {
	int attempt_num;
	struct proc_event ev;
};

static const struct row_field event_items[] = {
	FIELD_EXACT("timestamp", event_row, ev.wall_ns, SECONDS),
	FIELD("job_id", event_row, ev.job_id, STRING),
	FIELD("attempt", event_row, attempt_num, PID),
	FIELD("sheet_num", event_row, ev.sheet_num, INT),
	FIELD("pid", event_row, ev.key.pid, PID),
	FIELD("event_type", event_row, ev.type, EVENT_TYPE),
	FIELD("exit_code", event_row, ev.status.exit_code, INT),
	FIELD("signal_num", event_row, ev.status.signal, INT),
	FIELD("details", event_row, ev.details, STRING),
	FIELD("start_ticks", event_row, ev.key.start_ticks, U64),
};
static const struct row_fields event_fields = ROW_FIELDS(event_items, 0);

void report_csv_event(struct csv *c, int attempt_num, const struct proc_event *ev)
{
	const struct event_row row = { attempt_num, *ev };

	add_cells(c, &event_fields, &row);
	csv_end_row(c);
}

/* ---- jobs: one row per attempt ---- */

static void write_time(struct json *j, const void *field)
{
	time_ledger_write_json(j, *(const char *const *)field);
}

static const struct row_field job_items[] = {
	FIELD("job_id", attempt, job_id, STRING),
	FIELD("attempt", attempt, attempt_num, PID),
	FIELD_OF_ALL("status", STATUS),
	FIELD("outcome", attempt, outcome, OUTCOME),
	FIELD("exit_code", attempt, status.exit_code, INT),
	FIELD("signal", attempt, status.signal, INT),
	FIELD_EXACT("started", attempt, started_wall_ns, SECONDS),
	FIELD_EXACT("ended", attempt, ended_wall_ns, SECONDS),
	FIELD("total_sheets", attempt, total_sheets, INT),
	FIELD("last_completed_sheet", attempt, last_completed_sheet, INT),
	FIELD("current_sheet", attempt, current_sheet, INT),
	FIELD("lost", attempt, is_lost, BOOL),
	FIELD("reason", attempt, reason, STRING),
	FIELD("cause", attempt, cause.kind, CAUSE),
	FIELD("command", attempt, command, STRING),
	FIELD("argv_hash", attempt, argv_hash, HEX),
	FIELD("uid", attempt, uid, U64),
	FIELD("host", attempt, host, STRING),
	FIELD("workdir", attempt, workdir, STRING),
	FIELD("boot_id", attempt, boot_id, COMM),
	FIELD("interval_seconds", attempt, interval_seconds, INTERVAL),
	FIELD_JSON("time", offsetof(struct attempt, usage.time), write_time),
};
static const struct row_fields job_fields = ROW_FIELDS(job_items, 0);

void rows_write_attempt(struct json *j, const struct attempt *a)
{
	write_json_fields(j, &job_fields, a);
}

static int write_job(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	add_cells(c, &job_fields, f->a);
	add_cells(c, &figure_fields[true], &f->figures);
	csv_end_row(c);
	return fn(ctx);
}

/* ---- sheets: one row per try ---- */

struct sheet_row {
	const char *job_id;
	int attempt_num;
	struct sheet_record sheet;
};

static const struct row_field rank_items[] = {
	FIELD("rank", rank_record, rank, PID),
	FIELD("pid", rank_record, pid, PID),
	FIELD("exit_code", rank_record, status.exit_code, INT),
	FIELD("signal", rank_record, status.signal, INT),
	FIELD("ended", rank_record, ended_wall_ns, SECONDS),
};

static void write_ranks(struct json *j, const void *from)
{
	static const struct row_fields fields = ROW_FIELDS(rank_items, 0);
	const struct sheet_record *sheet = from;

	json_begin_array(j);
	for (size_t i = 0; i < sheet->n_ranks; i++) {
		json_begin_object(j);
		write_json_fields(j, &fields, &sheet->ranks[i]);
		json_end_object(j);
	}
	json_end_array(j);
}

static const struct row_field sheet_items[] = {
	FIELD("job_id", sheet_row, job_id, STRING),
	FIELD("attempt", sheet_row, attempt_num, PID),
	FIELD("sheet_num", sheet_row, sheet.num, PID),
	FIELD("name", sheet_row, sheet.name, STRING),
	FIELD("command", sheet_row, sheet.command, STRING),
	FIELD("try", sheet_row, sheet.try_num, PID),
	FIELD("outcome", sheet_row, sheet.outcome, OUTCOME),
	FIELD("reason", sheet_row, sheet.reason, STRING),
	FIELD("cause", sheet_row, sheet.cause.kind, CAUSE),
	FIELD("exit_code", sheet_row, sheet.status.exit_code, INT),
	FIELD("signal", sheet_row, sheet.status.signal, INT),
	FIELD_EXACT("started", sheet_row, sheet.started_wall_ns, SECONDS),
	FIELD_EXACT("ended", sheet_row, sheet.ended_wall_ns, SECONDS),
	FIELD("total_ranks", sheet_row, sheet.total_ranks, PID),
	FIELD_JSON("ranks", offsetof(struct sheet_row, sheet), write_ranks),
	FIELD_JSON("time", offsetof(struct sheet_row, sheet.usage.time), write_time),
};
static const struct row_fields sheet_fields = ROW_FIELDS(sheet_items, 5);

void rows_write_try(struct json *j, const struct sheet_record *sheet)
{
	const struct sheet_row row = { .sheet = *sheet };

	write_json_fields(j, &sheet_fields, &row);
}

static int write_sheets(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < f->n_sheets; i++)
		for (size_t k = 0; r == 0 && k < f->sheets[i].n_tries; k++) {
			const struct sheet_record *sheet = f->sheets[i].tries[k];
			const struct sheet_row row = { f->a->job_id, f->a->attempt_num, *sheet };
			struct figures figures;

			figures_of_sheet(f->a, sheet, &figures);
			add_cells(c, &sheet_fields, &row);
			add_cells(c, &figure_fields[false], &figures);
			csv_end_row(c);
			r = fn(ctx);
		}
	return r;
}

/* ---- processes ---- */

struct process_row {
	const char *job_id;
	int attempt_num;
	struct proc_record
		p; /* when it was born, and how its CPU time is known, as facts.h has it */
};

static void write_calls_text(struct json *j, const void *field)
{
	json_write_calls(j, *(const char *const *)field);
}

/* null: none, or not observed. */
static void write_failed_calls(struct json *j, const void *from)
{
	const char *text = *(const char *const *)from;
	struct failed_call call;

	if (!text) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	while (failed_call_next(&text, &call)) {
		CLEANUP(buf_release) struct buf object = BUF_INIT;

		buf_add(&object, call.object, call.object_len);
		json_begin_object(j);
		json_key_string(j, "syscall", call.call);
		json_key_string(j, "error", call.error);
		json_key_f64(j, "seconds_before_end", (double)call.before_end_ms / 1e3);
		json_key_string(j, "object", object.len > 0 ? object.data : NULL);
		json_end_object(j);
	}
	json_end_array(j);
}

static const struct row_field process_items[] = {
	FIELD("job_id", process_row, job_id, STRING),
	FIELD("attempt", process_row, attempt_num, PID),
#define PROCESS_FIELD(member_, stored_, column_, kind_, key_, exact_) \
	FIELD(key_, process_row, p.member_, kind_, .has_exact = HAS_##exact_),
#include "model/process_fields.def"
	FIELD_JSON("syscalls", offsetof(struct process_row, p.syscalls), write_calls_text),
	FIELD_JSON("time", offsetof(struct process_row, p.time), write_time),
	FIELD_JSON("failed_calls", offsetof(struct process_row, p.failed_calls),
		   write_failed_calls),
};
static const struct row_fields process_fields = ROW_FIELDS(process_items, 2);

static struct process_row process_row_of(const struct facts *f, const struct proc_record *p)
{
	struct process_row row = { f->a->job_id, f->a->attempt_num, *p };

	row.p.born_wall_ns = facts_born_ns(f, p);
	row.p.cpu_evidence = facts_cpu_evidence(p);
	return row;
}

void rows_write_process(struct json *j, const struct facts *f, const struct proc_record *p)
{
	const struct process_row row = process_row_of(f, p);

	write_json_fields(j, &process_fields, &row);
}

static int write_processes(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->a->n_processes; i++) {
		const struct process_row row = process_row_of(f, &f->a->processes[i]);

		add_cells(c, &process_fields, &row);
		csv_end_row(c);
		r = fn(ctx);
	}
	return r;
}

/* ---- tables ---- */

static const struct {
	const struct row_fields *fields;
	/* Of those with a row for each attempt, sheet or process of one. */
	int (*write)(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx);
	bool has_figures; /* behind the columns */
} tables[] = {
	[REPORT_SAMPLES] = { &sample_fields_of_row },
	[REPORT_SNAPSHOTS] = { &snapshot_fields },
	[REPORT_EVENTS] = { &event_fields },
	[REPORT_JOBS] = { &job_fields, write_job, true },
	[REPORT_SHEETS] = { &sheet_fields, write_sheets, true },
	[REPORT_PROCESSES] = { &process_fields, write_processes },
};

void report_csv_heading(struct csv *c, enum report_table table)
{
	add_names(c, tables[table].fields);
	if (tables[table].has_figures)
		add_names(c, &figure_fields[table == REPORT_JOBS]);
	csv_end_row(c);
}

int report_csv_attempt(struct csv *c, enum report_table table, const struct attempt *a,
		       report_row_fn *fn, void *ctx)
{
	struct facts f;
	int r = facts_init(&f, a);

	if (r < 0)
		return r;
	r = tables[table].write(c, &f, fn, ctx);
	facts_release(&f);
	return r;
}
