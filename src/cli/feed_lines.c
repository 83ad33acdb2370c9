#include "cli/feed_lines.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/feed.h"
#include "cli/show.h"
#include "report/report.h"

struct feed_line {
	uint64_t wall_ns;
	int rank; /* of those of the same time: what happens to processes within jobs and sheets */
	size_t seq;
	size_t at, len; /* in the text */
};

void feed_lines_release(struct feed_lines *lines)
{
	free(lines->items);
	buf_release(&lines->text);
	*lines = (struct feed_lines){ .text = BUF_INIT };
}

/* ---- for people ---- */

void feed_lines_add_heading(struct buf *out)
{
	buf_add_str(out, "TIME                     ATTEMPT  SHEET      PID  EVENT            "
			 "STATUS    JOB                       DETAILS\n");
}

void feed_lines_write_columns(struct buf *out, const struct feed_columns *line)
{
	CLEANUP(buf_release) struct buf status = BUF_INIT;
	char attempt[16] = "-", sheet[16] = "-", pid[16] = "-";

	if (line->attempt_num > 0)
		snprintf(attempt, sizeof(attempt), "%d", line->attempt_num);
	if (line->sheet_num >= 0)
		snprintf(sheet, sizeof(sheet), "%d", line->sheet_num);
	if (line->pid > 0)
		snprintf(pid, sizeof(pid), "%d", (int)line->pid);
	report_add_status(&status, line->status);
	show_moment(out, line->wall_ns);
	buf_printf(out, "  %7s  %5s  %7s  %-15s  %-8s  ", attempt, sheet, pid, line->event,
		   status.data);
	show_text(out, line->job_id, 24);
	cli_add_text(out, line->details ? line->details : "", line->is_long ? 240 : 60);
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_add_char(out, '\n');
}

/* "03:45:08.120  job.failed, job train: exit code 3" */
static void add_brief(struct buf *out, const struct feed_columns *line, const struct twins *twins)
{
	char room[TWINS_NAME_BYTES];

	show_moment(out, line->wall_ns);
	buf_printf(out, "  %s", line->event);
	if (line->pid > 0)
		buf_printf(out, " pid %d", (int)line->pid);
	buf_add_str(out, ", job ");
	show_job(out, twins_name(twins, line->job_id, line->attempt_num, room));
	if (line->sheet_num >= 0)
		buf_printf(out, ", sheet %d", line->sheet_num);
	if (line->details && line->details[0])
		buf_add_str(out, ": ");
	cli_add_text(out, line->details ? line->details : "", line->is_long ? 240 : 60);
	buf_add_char(out, '\n');
}

static void add_for_people(struct feed_lines *lines, const struct feed_columns *line)
{
	if (lines->is_brief)
		add_brief(&lines->text, line, lines->twins);
	else
		feed_lines_write_columns(&lines->text, line);
}

void feed_add_line(struct buf *out, uint64_t wall_ns, const char *event, const char *job_id,
		   const char *details)
{
	const struct feed_columns line = {
		.wall_ns = wall_ns,
		.sheet_num = SHEET_NONE,
		.event = event,
		.status = { -1, -1 },
		.job_id = job_id ? job_id : "-",
		.details = details,
	};

	feed_lines_write_columns(out, &line);
}

void feed_lines_write_event(struct buf *out, const struct event_row *row, bool json)
{
	const struct feed_columns line = {
		.wall_ns = row->event.wall_ns,
		.attempt_num = row->attempt_num,
		.sheet_num = row->event.sheet_num,
		.pid = row->event.key.pid,
		.event = event_type_name(row->event.type),
		.status = row->event.status,
		.job_id = row->event.job_id,
		.details = row->event.details,
	};

	if (json)
		show_event_json(out, row);
	else
		feed_lines_write_columns(out, &line);
}

static void write_change(struct feed_lines *lines, enum change change, const struct attempt *a,
			 const struct sheet_record *sheet)
{
	bool is_end = change == CHANGE_JOB_ENDED || change == CHANGE_SHEET_ENDED;
	const struct feed_columns line = {
		.wall_ns = change_time(change, a, sheet),
		.attempt_num = a->attempt_num,
		.sheet_num = sheet ? sheet->num : SHEET_NONE,
		.event = topic_name(change_topic(change, a, sheet)),
		.status = !is_end ? (struct exit_status){ -1, -1 }
			  : sheet ? sheet->status
				  : a->status,
		.job_id = a->job_id,
		.details = is_end ? (sheet ? sheet->reason : a->reason)
				  : (sheet ? sheet->command : a->command),
	};
	struct json j;

	if (!lines->json) {
		add_for_people(lines, &line);
		return;
	}
	json_init(&j, &lines->text);
	json_begin_object(&j);
	change_write_fields(&j, change, a, sheet);
	json_end_object(&j);
	buf_add_char(&lines->text, '\n');
}

static void write_phase(struct feed_lines *lines, const struct phase_row *row, enum topic topic)
{
	const struct phase_record *phase = &row->phase;
	const struct feed_columns line = {
		.wall_ns =
			topic == TOPIC_PHASE_ENTER ? phase->entered_wall_ns : phase->left_wall_ns,
		.attempt_num = row->attempt_num,
		.sheet_num = SHEET_NONE,
		.pid = phase->pid,
		.event = topic_name(topic),
		.status = { -1, -1 },
		.job_id = row->job_id,
		.details = phase->path,
	};
	struct json j;

	if (!lines->json) {
		add_for_people(lines, &line);
		return;
	}
	json_init(&j, &lines->text);
	json_begin_object(&j);
	json_key_string(&j, "event", topic_name(topic));
	json_key_f64(&j, "timestamp", u64_to_seconds(line.wall_ns));
	json_key_string(&j, "job_id", row->job_id);
	json_key_i64(&j, "attempt", row->attempt_num);
	phase_record_write_fields(&j, phase);
	json_end_object(&j);
	buf_add_char(&lines->text, '\n');
}

/* ---- those that wait ---- */

/* Its text begins where that of the others ends by now. */
static struct feed_line *add(struct feed_lines *lines, uint64_t wall_ns)
{
	if (lines->n == lines->cap) {
		size_t cap = lines->cap ? lines->cap * 2 : 64;
		struct feed_line *items = reallocarray(lines->items, cap, sizeof(*items));

		if (!items)
			return NULL;
		lines->items = items;
		lines->cap = cap;
	}
	lines->items[lines->n] =
		(struct feed_line){ .wall_ns = wall_ns, .seq = lines->n, .at = lines->text.len };
	return &lines->items[lines->n++];
}

void feed_lines_add_change(struct feed_lines *lines, enum change change, const struct attempt *a,
			   const struct sheet_record *sheet)
{
	struct feed_line *line = add(lines, change_time(change, a, sheet));

	if (!line)
		return;
	write_change(lines, change, a, sheet);
	line->len = lines->text.len - line->at;
}

void feed_lines_add_phase(struct feed_lines *lines, const struct phase_row *row, enum topic topic)
{
	struct feed_line *line = add(lines, topic == TOPIC_PHASE_ENTER ? row->phase.entered_wall_ns
								       : row->phase.left_wall_ns);

	if (!line)
		return;
	write_phase(lines, row, topic);
	line->len = lines->text.len - line->at;
}

/* "began, high: …" */
static void write_anomaly(struct feed_lines *lines, const struct told *told)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	struct episode shown;
	const struct anomaly *a = &shown.worst;
	struct feed_columns line;
	struct json j;

	told_episode(told, &shown);
	line = (struct feed_columns){
		.wall_ns = told->wall_ns,
		.attempt_num = told->attempt_num,
		.sheet_num = a->sheet_num,
		.pid = a->has_pid ? (pid_t)a->pid : 0,
		.event = topic_name(TOPIC_ANOMALY),
		.status = { -1, -1 },
		.job_id = a->job_id ? a->job_id : "-",
	};
	if (lines->json) {
		json_init(&j, &lines->text);
		episode_write_event(&j, &shown, told->change, told->wall_ns);
		buf_add_char(&lines->text, '\n');
		return;
	}
	buf_printf(&details, "%s, %s: %s", episode_change_name(told->change),
		   severity_name(a->severity), a->text);
	line.details = details.data;
	line.is_long = true;
	add_for_people(lines, &line);
}

void feed_lines_add_anomaly(struct feed_lines *lines, const struct told *told)
{
	struct feed_line *line = add(lines, told->wall_ns);

	if (!line)
		return;
	write_anomaly(lines, told);
	line->len = lines->text.len - line->at;
}

void feed_lines_add_event(struct feed_lines *lines, const struct event_row *row)
{
	struct feed_line *line = add(lines, row->event.wall_ns);

	if (!line)
		return;
	line->rank = row->event.type == EVENT_SPAWN ? 1 : -1;
	feed_lines_write_event(&lines->text, row, lines->json);
	line->len = lines->text.len - line->at;
}

static int compare(const void *l, const void *r)
{
	const struct feed_line *a = l, *b = r;

	if (a->wall_ns != b->wall_ns)
		return a->wall_ns < b->wall_ns ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank - b->rank;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

void feed_lines_sort(struct feed_lines *lines)
{
	if (lines->n > 1)
		qsort(lines->items, lines->n, sizeof(*lines->items), compare);
}

bool feed_lines_take(struct feed_lines *lines, uint64_t until_wall_ns, uint64_t *ret_wall_ns,
		     const char **ret_text, size_t *ret_len)
{
	const struct feed_line *line;

	if (lines->n_passed == lines->n || lines->items[lines->n_passed].wall_ns > until_wall_ns)
		return false;
	line = &lines->items[lines->n_passed++];
	*ret_wall_ns = line->wall_ns;
	*ret_text = lines->text.data + line->at;
	*ret_len = line->len > 0 ? line->len - 1 : 0;
	return true;
}

uint64_t feed_lines_until(const struct event_row *row)
{
	return row->event.wall_ns - (row->event.type != EVENT_SPAWN && row->event.wall_ns > 0);
}

void feed_lines_pass(struct feed_lines *lines, uint64_t until_wall_ns, struct buf *out,
		     uint64_t *n_passed)
{
	for (; lines->n_passed < lines->n; lines->n_passed++) {
		const struct feed_line *line = &lines->items[lines->n_passed];

		if (line->wall_ns > until_wall_ns)
			return;
		buf_add(out, lines->text.data + line->at, line->len);
		++*n_passed;
	}
	lines->n = lines->n_passed = 0;
	buf_reset(&lines->text);
}
