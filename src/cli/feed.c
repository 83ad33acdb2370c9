#include "cli/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/feed_lines.h"
#include "daemon/daemon.h"

/*
 * How long after it happened something may still be written: a runner that waits for
 * the disk or for others, a clock that is set. What is older was told, or is of before.
 */
#define LATE_NS UINT64_C(600000000000)

struct feed {
	struct store *store;
	struct feed_options options;
	struct feed_lines lines; /* of this round: all but a first round's events of processes */
	struct map told[2];	 /* what was told lately, and before that */
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
	feed_lines_release(&feed->lines);
	map_release(&feed->told[0]);
	map_release(&feed->told[1]);
	free(feed);
	return NULL;
}

uint64_t feed_count(const struct feed *feed)
{
	return feed->n_told;
}

void feed_add_heading(struct buf *out)
{
	feed_lines_add_heading(out);
}

/* ---- what was told ---- */

static uint64_t identity(int64_t row, int kind, int num, int try_num)
{
	const int64_t parts[] = { row, kind, num, try_num };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

/* True if it is new, and in the time that is asked for. */
static bool is_to_be_told(struct feed *feed, uint64_t id, uint64_t wall_ns)
{
	uint64_t before;
	bool was_told =
		map_get(&feed->told[0], id, &before) || map_get(&feed->told[1], id, &before);

	map_put(&feed->told[0], id, 1);
	return !was_told && u64_known(wall_ns) && wall_ns >= feed->options.since_wall_ns &&
	       (!feed->options.until_wall_ns || wall_ns <= feed->options.until_wall_ns);
}

/* What nobody asks for any more is forgotten. */
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

/* From when on something may have happened that was not told. */
static uint64_t window_start(const struct feed *feed)
{
	uint64_t now = clock_wall_ns();

	if (!feed->has_begun)
		return feed->options.since_wall_ns;
	return now > LATE_NS ? now - LATE_NS : 0;
}

/* ---- jobs and sheets ---- */

static void add_change(struct feed *feed, enum change change, const struct attempt *a,
		       const struct sheet_record *sheet)
{
	uint64_t wall_ns = change_time(change, a, sheet);
	uint64_t id =
		identity(a->id, (int)change, sheet ? sheet->num : 0, sheet ? sheet->try_num : 0);

	if (is_to_be_told(feed, id, wall_ns))
		feed_lines_add_change(&feed->lines, change, a, sheet);
}

static void add_sheets(struct feed *feed, const struct attempt *a)
{
	for (size_t i = 0; i < a->n_sheets; i++) {
		add_change(feed, CHANGE_SHEET_STARTED, a, &a->sheets[i]);
		if (u64_known(a->sheets[i].ended_wall_ns))
			add_change(feed, CHANGE_SHEET_ENDED, a, &a->sheets[i]);
	}
}

/* One that is gone in the meantime has nothing to tell. */
static int add_attempt(struct feed *feed, const struct attempt *listed, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_progress(feed->store, listed->job_id, listed->attempt_num, &a, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (attempt_has_begun(&a))
		add_change(feed, CHANGE_JOB_STARTED, &a, NULL);
	add_sheets(feed, &a);
	if (u64_known(a.ended_wall_ns))
		add_change(feed, CHANGE_JOB_ENDED, &a, NULL);
	return 0;
}

static int add_jobs(struct feed *feed, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = feed->options.job_id,
					       .since_wall_ns = window_start(feed) };
	int r = store_list_attempts(feed->store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		r = add_attempt(feed, &list.items[i], err);
	return r;
}

/* ---- phases ---- */

static void add_phase(struct feed *feed, const struct phase_row *row, enum topic topic)
{
	uint64_t wall_ns =
		topic == TOPIC_PHASE_ENTER ? row->phase.entered_wall_ns : row->phase.left_wall_ns;

	if (is_to_be_told(feed, identity(row->id, 100 + (int)topic, 0, 0), wall_ns))
		feed_lines_add_phase(&feed->lines, row, topic);
}

static int add_phases(struct feed *feed, struct err *err)
{
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	const struct event_filter filter = { .job_id = feed->options.job_id,
					     .since_wall_ns = window_start(feed) };
	int r = store_list_phases(feed->store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		add_phase(feed, &list.items[i], TOPIC_PHASE_ENTER);
		if (u64_known(list.items[i].phase.left_wall_ns))
			add_phase(feed, &list.items[i], TOPIC_PHASE_EXIT);
	}
	return r;
}

/* ---- anomalies ---- */

static int severity_of(const struct told *told)
{
	return (int)(told->moment ? told->moment->severity : told->episode->worst.severity);
}

/*
 * An attempt is over, and nobody has written down yet how its anomaly was then: who watches it does
 * so a tick or two later. It is told once, so it waits for that, unless nobody will.
 */
#define END_LATE_NS UINT64_C(30000000000)

static bool is_to_be_noted(const struct feed *feed, const struct told *told)
{
	uint64_t now = clock_wall_ns();

	return feed->options.is_following && told->change == EPISODE_CLEARED && !told->moment &&
	       told->wall_ns + END_LATE_NS > now;
}

static int add_anomalies(struct feed *feed, struct err *err)
{
	CLEANUP(told_list_release) struct told_list list = { 0 };
	const struct event_filter filter = { .job_id = feed->options.job_id,
					     .since_wall_ns = window_start(feed) };
	const struct told *told;
	int r = told_list_read(feed->store, &filter, &list, err);

	while (r == 0 && (told = told_take(&list, UINT64_MAX))) {
		const char *name = told->episode->name;
		bool can_come_again = told->change == EPISODE_ESCALATED;
		uint64_t id = identity((int64_t)hash_bytes(HASH_INIT, name, strlen(name)),
				       200 + (int)told->change,
				       can_come_again ? severity_of(told) : 0, 0);

		if (!is_to_be_noted(feed, told) && is_to_be_told(feed, id, told->wall_ns))
			feed_lines_add_anomaly(&feed->lines, told);
	}
	return r;
}

/* ---- events of processes, and all together ---- */

struct telling {
	struct feed *feed;
	struct output *out;
};

/* There may be more of them than memory holds: the others' lines come in between. */
static int tell_recorded(void *ctx, const struct event_row *row)
{
	struct telling *t = ctx;

	if (row->id > t->feed->last_event_id)
		return 0; /* written meanwhile: the next round's */
	feed_lines_pass(&t->feed->lines, feed_lines_until(row), &t->out->buf, &t->feed->n_told);
	feed_lines_write_event(&t->out->buf, row, t->feed->options.json);
	t->feed->n_told++;
	return output_pass(t->out);
}

static int add_new(void *ctx, const struct event_row *row)
{
	struct feed *feed = ctx;
	uint64_t wall_ns = row->event.wall_ns;

	if (!feed->options.until_wall_ns || wall_ns <= feed->options.until_wall_ns)
		feed_lines_add_event(&feed->lines, row);
	return 0;
}

int feed_read_others(struct feed *feed, struct err *err)
{
	int r;

	feed->lines.json = feed->options.json;
	feed->lines.is_brief = feed->options.is_brief;
	feed->lines.twins = feed->options.twins;
	r = add_jobs(feed, err);

	if (r == 0)
		r = add_phases(feed, err);
	if (r == 0)
		r = add_anomalies(feed, err);
	feed_lines_sort(&feed->lines);
	return r;
}

void feed_pass_others(struct feed *feed, uint64_t until_wall_ns, struct output *out)
{
	feed_lines_pass(&feed->lines, until_wall_ns, &out->buf, &feed->n_told);
}

bool feed_take_other(struct feed *feed, uint64_t until_wall_ns, uint64_t *ret_wall_ns,
		     const char **ret_text, size_t *ret_len)
{
	return feed_lines_take(&feed->lines, until_wall_ns, ret_wall_ns, ret_text, ret_len);
}

static int read_first(struct feed *feed, struct output *out, struct err *err)
{
	const struct event_filter filter = { feed->options.job_id, feed->options.since_wall_ns,
					     feed->options.until_wall_ns };
	struct telling telling = { feed, out };
	int r = store_follow_events(feed->store, NULL, &feed->last_event_id, NULL, NULL, err);

	if (r == 0)
		r = feed_read_others(feed, err);
	if (r == 0 && !feed->options.is_from_now)
		r = store_read_events(feed->store, &filter, tell_recorded, &telling, err);
	return r;
}

static int read_next(struct feed *feed, struct err *err)
{
	int r = store_follow_events(feed->store, feed->options.job_id, &feed->last_event_id,
				    add_new, feed, err);

	return r < 0 ? r : feed_read_others(feed, err);
}

int feed_read(struct feed *feed, struct output *out, struct err *err)
{
	int r;

	r = feed->has_begun ? read_next(feed, err) : read_first(feed, out, err);
	if (r < 0)
		return r;
	feed_lines_pass(&feed->lines, UINT64_MAX, &out->buf, &feed->n_told);
	feed->has_begun = true;
	turn(feed);
	return buf_error(&out->buf);
}
