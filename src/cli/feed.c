#include "cli/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/unknown.h"
#include "bus/bus.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "query/query.h"
#include "report/report.h"

/*
 * How long after it happened something may still be written: a runner that waits for
 * the disk or for others, a clock that is set. What is older was printed, or is of before.
 */
#define LATE_NS UINT64_C(600000000000)

struct feed {
	struct store *store;
	struct feed_options options;
	struct event_log_lines
		lines; /* of this round: all but a first round's events of processes */
	size_t n_passed;
	struct map told[2];	 /* identities of what was printed lately, and before that */
	uint64_t turned_boot_ns; /* when the older one was emptied */
	int64_t last_event_id;	 /* of the processes' */
	bool has_begun;
	uint64_t n_told;
};

struct feed *feed_new(struct store *store, const struct feed_options *options)
{
	struct feed *feed = calloc(1, sizeof(*feed));

	if (!feed)
		return NULL;
	feed->store = store;
	feed->options = *options;
	feed->lines.text = (struct buf)BUF_INIT;
	feed->turned_boot_ns = clock_boot_ns();
	if (options->is_from_now)
		feed->options.since_wall_ns = clock_wall_ns();
	return feed;
}

struct feed *feed_free(struct feed *feed)
{
	if (!feed)
		return NULL;
	event_log_lines_release(&feed->lines);
	map_release(&feed->told[0]);
	map_release(&feed->told[1]);
	free(feed);
	return NULL;
}

uint64_t feed_count(const struct feed *feed)
{
	return feed->n_told;
}

/* ---- lines ---- */

void feed_add_heading(struct buf *out)
{
	buf_add_str(out, "TIME                     ATTEMPT  SHEET      PID  EVENT            "
			 "STATUS    JOB                       DETAILS\n");
}

void feed_add_columns(struct buf *out, const struct feed_columns *line)
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
	show_text(out, line->job_id ? line->job_id : "-", 24);
	cli_add_text(out, line->details ? line->details : "", line->is_long ? 240 : 60);
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_add_char(out, '\n');
}

/* "03:45:08.120  job.failed, job train: exit code 3" */
static void add_brief(struct buf *out, const struct feed_columns *line, const struct twins *twins)
{
	const char *job_id = line->job_id ? line->job_id : "-";
	char room[TWINS_NAME_BYTES];

	show_moment(out, line->wall_ns);
	buf_printf(out, "  %s", line->event);
	if (line->pid > 0)
		buf_printf(out, " pid %d", (int)line->pid);
	buf_add_str(out, ", job ");
	show_job(out, twins_name(twins, job_id, line->attempt_num, room));
	if (line->sheet_num >= 0)
		buf_printf(out, ", sheet %d", line->sheet_num);
	if (line->details && line->details[0])
		buf_add_str(out, ": ");
	cli_add_text(out, line->details ? line->details : "", line->is_long ? 240 : 60);
	buf_add_char(out, '\n');
}

/* The columns of an item; details has room for those of an anomaly. */
static struct feed_columns columns_of(const struct event_log_item *item, struct buf *details)
{
	const struct sheet_record *sheet = item->sheet;
	const struct attempt *a = item->attempt;
	bool is_end = item->change == CHANGE_JOB_ENDED || item->change == CHANGE_SHEET_ENDED;
	struct feed_columns line = {
		.wall_ns = item->wall_ns,
		.attempt_num = item->attempt_num,
		.sheet_num = SHEET_NONE,
		.status = { -1, -1 },
		.job_id = item->job_id,
	};

	if (a) {
		line.sheet_num = sheet ? sheet->num : SHEET_NONE;
		line.event = topic_name(change_topic(item->change, a, sheet));
		line.details = sheet ? sheet->command : a->command;
		if (is_end) {
			line.status = sheet ? sheet->status : a->status;
			line.details = sheet ? sheet->reason : a->reason;
		}
	} else if (item->phase) {
		line.pid = item->phase->phase.pid;
		line.event = topic_name(item->is_enter ? TOPIC_PHASE_ENTER : TOPIC_PHASE_EXIT);
		line.details = item->phase->phase.path;
	} else if (item->episode) {
		const struct anomaly *worst = &item->episode->worst;

		buf_printf(details, "%s, %s: %s", episode_change_name(item->episode_change),
			   severity_name(worst->severity), worst->text); /* "began, high: …" */
		line.sheet_num = worst->sheet_num;
		line.pid = worst->has_pid ? (pid_t)worst->pid : 0;
		line.event = topic_name(TOPIC_ANOMALY);
		line.details = details->data;
		line.is_long = true;
	} else {
		line.sheet_num = item->event->event.sheet_num;
		line.pid = item->event->event.key.pid;
		line.event = event_type_name(item->event->event.type);
		line.status = item->event->event.status;
		line.details = item->event->event.details;
	}
	return line;
}

static void write_item(const struct feed *feed, struct buf *out, const struct event_log_item *item)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	struct feed_columns line;

	if (feed->options.json) {
		event_log_write_json(out, item);
		buf_add_char(out, '\n');
		return;
	}
	line = columns_of(item, &details);
	if (feed->options.is_brief)
		add_brief(out, &line, feed->options.twins);
	else
		feed_add_columns(out, &line);
}

/* Appends those up to a time to out, and counts them. When all are passed they are forgotten. */
static void pass_lines(struct feed *feed, uint64_t until_wall_ns, struct buf *out)
{
	struct event_log_lines *lines = &feed->lines;

	for (; feed->n_passed < lines->n; feed->n_passed++) {
		const struct event_log_line *line = &lines->items[feed->n_passed];

		if (line->wall_ns > until_wall_ns)
			return;
		buf_add(out, lines->text.data + line->at, line->len);
		feed->n_told++;
	}
	lines->n = feed->n_passed = 0;
	buf_reset(&lines->text);
}

/* ---- what was printed ---- */

/* True if it is new, and in the time that is asked for. */
static bool is_new(struct feed *feed, uint64_t id, uint64_t wall_ns)
{
	uint64_t before;
	bool was_told =
		map_get(&feed->told[0], id, &before) || map_get(&feed->told[1], id, &before);

	map_put(&feed->told[0], id, 1);
	return !was_told && u64_known(wall_ns) && wall_ns >= feed->options.since_wall_ns &&
	       (!feed->options.until_wall_ns || wall_ns <= feed->options.until_wall_ns);
}

/* Identities that are not asked for any more are forgotten. */
static void turn(struct feed *feed)
{
	struct map older = feed->told[1];

	if (clock_boot_ns() - feed->turned_boot_ns < 2 * LATE_NS)
		return;
	map_clear(&older);
	feed->told[1] = feed->told[0];
	feed->told[0] = older;
	feed->turned_boot_ns = clock_boot_ns();
}

/* From when on something may have happened that was not printed. */
static uint64_t window_start(const struct feed *feed)
{
	uint64_t now = clock_wall_ns();

	if (!feed->has_begun)
		return feed->options.since_wall_ns;
	return now > LATE_NS ? now - LATE_NS : 0;
}

/*
 * The end of an anomaly is recorded a tick or two after the end of its attempt. It is printed once,
 * so it waits for that record for so long.
 */
#define END_LATE_NS UINT64_C(30000000000)

static int add_item(void *ctx, const struct event_log_item *item)
{
	struct feed *feed = ctx;

	if (feed->options.is_following && item->is_inferred &&
	    item->episode_change == EPISODE_CLEARED &&
	    item->wall_ns + END_LATE_NS > clock_wall_ns())
		return 0;
	if (!is_new(feed, item->id, item->wall_ns))
		return 0;
	if (event_log_lines_begin(&feed->lines, item->wall_ns, 0) < 0)
		return -ENOMEM;
	write_item(feed, &feed->lines.text, item);
	return buf_error(&feed->lines.text);
}

/* ---- events of processes, and all together ---- */

struct telling {
	struct feed *feed;
	struct output *out;
};

static struct event_log_item item_of(const struct event_row *row)
{
	return (struct event_log_item){ .wall_ns = row->event.wall_ns,
					.job_id = row->event.job_id,
					.attempt_num = row->attempt_num,
					.event = row };
}

/* There may be more of them than memory holds: the others' lines come in between. */
static int print_recorded(void *ctx, const struct event_row *row)
{
	const struct event_log_item item = item_of(row);
	struct telling *t = ctx;
	uint64_t wall_ns = row->event.wall_ns;

	if (row->id > t->feed->last_event_id)
		return 0; /* written meanwhile: the next round's */
	pass_lines(t->feed, wall_ns - (row->event.type != EVENT_SPAWN && wall_ns > 0),
		   &t->out->buf);
	write_item(t->feed, &t->out->buf, &item);
	t->feed->n_told++;
	return output_pass(t->out);
}

static int add_event(void *ctx, const struct event_row *row)
{
	const struct event_log_item item = item_of(row);
	struct feed *feed = ctx;
	uint64_t wall_ns = row->event.wall_ns;

	if (feed->options.until_wall_ns && wall_ns > feed->options.until_wall_ns)
		return 0;
	/* of the same time, processes begin after the others of these and end before them */
	if (event_log_lines_begin(&feed->lines, wall_ns, row->event.type == EVENT_SPAWN ? 1 : -1) <
	    0)
		return -ENOMEM;
	write_item(feed, &feed->lines.text, &item);
	return buf_error(&feed->lines.text);
}

int feed_read_others(struct feed *feed, struct err *err)
{
	const struct event_filter filter = { .job_id = feed->options.job_id,
					     .since_wall_ns = window_start(feed) };
	int r = event_log_read(feed->store, &filter, add_item, feed, err);

	event_log_lines_sort(&feed->lines);
	return r;
}

void feed_pass_others(struct feed *feed, uint64_t until_wall_ns, struct output *out)
{
	pass_lines(feed, until_wall_ns, &out->buf);
}

bool feed_take_other(struct feed *feed, uint64_t until_wall_ns, uint64_t *ret_wall_ns,
		     const char **ret_text, size_t *ret_len)
{
	const struct event_log_line *line;

	if (feed->n_passed == feed->lines.n ||
	    feed->lines.items[feed->n_passed].wall_ns > until_wall_ns)
		return false;
	line = &feed->lines.items[feed->n_passed++];
	*ret_wall_ns = line->wall_ns;
	*ret_text = feed->lines.text.data + line->at;
	*ret_len = line->len > 0 ? line->len - 1 : 0;
	return true;
}

/* A further round ingests logs first: without a daemon no other process does. */
int feed_read(struct feed *feed, struct output *out, struct err *err)
{
	const struct feed_options *o = &feed->options;
	const struct event_filter filter = { o->job_id, o->since_wall_ns, o->until_wall_ns };
	bool is_first = !feed->has_begun;
	int r;

	if (!is_first)
		store_take_in(feed->store, NULL);
	r = store_follow_events(feed->store, is_first ? NULL : o->job_id, &feed->last_event_id,
				is_first ? NULL : add_event, feed, err);
	if (r == 0)
		r = feed_read_others(feed, err);
	if (r == 0 && is_first && !o->is_from_now)
		r = store_read_events(feed->store, &filter, print_recorded,
				      &(struct telling){ feed, out }, err);
	if (r < 0)
		return r;
	pass_lines(feed, UINT64_MAX, &out->buf);
	feed->has_begun = true;
	turn(feed);
	return buf_error(&out->buf);
}
