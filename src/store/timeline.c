#include "store/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/rollup.h"

/* A part of the time: an hour of which there are minutes, or what lies between such hours. */
struct period {
	uint64_t first_ns, last_ns;
	bool has_minutes;
};

struct timeline {
	struct store *store;
	struct walk_filter filter; /* of the period */
	char *job_id;
	uint64_t since_ns, until_ns; /* of all */
	uint64_t first_ns, last_ns;  /* what is left, behind the period */
	bool is_over;		     /* nothing is */
	uint64_t width;		     /* of periods with minutes, at most, in minutes */

	struct walk *walk;
	bool has_tick;		      /* the walk stands at one that is not told yet */
	struct minute_window *window; /* NULL: no minutes are wanted */
	struct minute_rows minute;    /* the next one; n is 0 if there is none in the period */
	bool is_at_minute;	      /* it is where we are */
	struct fold_tick told;	      /* where we were last (id 0: a minute)… */
	bool has_told;		      /* …if we were anywhere */
};

void timeline_close(struct timeline **t)
{
	if (!*t)
		return;
	walk_close(&(*t)->walk);
	minute_window_free(&(*t)->window);
	free((*t)->job_id);
	free(*t);
	*t = NULL;
}

static int open_window(struct timeline *t, struct err *err)
{
	const struct window_filter filter = {
		.job_id = t->filter.job_id,
		.pid = t->filter.pid,
		.rollups_only = true,
	};

	return minute_window_new(t->store, &filter, &t->window, err);
}

int timeline_open(struct store *store, const struct walk_filter *filter, bool with_minutes,
		  struct timeline **ret, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = calloc(1, sizeof(*t));
	int r = 0;

	if (!t || (filter->job_id && !(t->job_id = strdup(filter->job_id))))
		return store_no_memory(store, err);
	t->store = store;
	t->filter = *filter;
	t->filter.job_id = t->job_id;
	t->filter.skips_rolled = with_minutes;
	t->filter.newest = with_minutes ? 0 : filter->newest;
	t->first_ns = t->since_ns = filter->since_wall_ns;
	t->last_ns = t->until_ns = filter->until_wall_ns ? filter->until_wall_ns : UINT64_MAX;
	t->is_over = t->first_ns > t->last_ns;
	t->width = ROLLUP_MINUTES;
	if (with_minutes)
		r = open_window(t, err);
	if (r == 0)
		*ret = TAKE_PTR(t);
	return r;
}

/* ---- periods ---- */

/* What is left up to the hour, or of the hour, or to the end if there is no such hour. */
static struct period choose_period(const struct timeline *t, bool has_hour, uint64_t hour)
{
	uint64_t begin = hour * HOUR_NS, end = begin + HOUR_NS - 1;
	struct period p = { t->first_ns, t->last_ns, false };

	if (!has_hour || end < p.first_ns || begin > p.last_ns)
		return p;
	if (t->filter.newest_first && end < p.last_ns)
		p.first_ns = end + 1;
	else if (!t->filter.newest_first && begin > p.first_ns)
		p.last_ns = begin - 1;
	else
		p = (struct period){
			begin > p.first_ns ? begin : p.first_ns,
			end < p.last_ns ? end : p.last_ns,
			true,
		};
	return p;
}

/* Not more minutes than the window could take. */
static void narrow(const struct timeline *t, struct period *p)
{
	uint64_t width_ns = t->width * MINUTE_NS;

	if (!p->has_minutes || p->last_ns - p->first_ns < width_ns)
		return;
	if (t->filter.newest_first)
		p->first_ns = (p->last_ns / MINUTE_NS + 1) * MINUTE_NS - width_ns;
	else
		p->last_ns = p->first_ns / MINUTE_NS * MINUTE_NS + width_ns - 1;
}

static int next_period(struct timeline *t, struct period *ret, struct err *err)
{
	bool newest_first = t->filter.newest_first;
	uint64_t at = newest_first ? t->last_ns : t->first_ns;
	int64_t hour = 0;
	int r = 0;

	if (t->window && !minute_window_is_empty(t->window))
		r = query_read_number(t->store,
				      newest_first ? STATEMENT_PREVIOUS_HOUR : STATEMENT_NEXT_HOUR,
				      (int64_t)(at / HOUR_NS), &hour, err);
	if (r < 0)
		return r;
	*ret = choose_period(t, r > 0, (uint64_t)hour);
	narrow(t, ret);
	return 0;
}

static void leave_period(struct timeline *t, const struct period *p)
{
	if (t->filter.newest_first) {
		t->is_over = p->first_ns <= t->first_ns;
		t->last_ns = p->first_ns - 1;
	} else {
		t->is_over = p->last_ns >= t->last_ns;
		t->first_ns = p->last_ns + 1;
	}
}

/* ---- the minutes of a period ---- */

/* The next of them stands in t->minute. */
static void find_minute(struct timeline *t)
{
	struct minute_rows *m = &t->minute;
	size_t n = minute_window_count(m->window), at = m->first + m->n;

	if (t->filter.newest_first)
		at = m->first;
	m->n = 0;
	if (t->filter.newest_first ? at == 0 : at == n)
		return;
	m->first = t->filter.newest_first ? at - 1 : at;
	m->n = 1;
	m->minute = minute_window_minute(m->window, m->first);
	while (t->filter.newest_first && m->first > 0 &&
	       minute_window_minute(m->window, m->first - 1) == m->minute) {
		m->first--;
		m->n++;
	}
	while (!t->filter.newest_first && m->first + m->n < n &&
	       minute_window_minute(m->window, m->first + m->n) == m->minute)
		m->n++;
}

/* Those that begin in it. */
static int read_minutes(struct timeline *t, const struct period *p, struct err *err)
{
	uint64_t from = (p->first_ns + MINUTE_NS - 1) / MINUTE_NS;
	uint64_t to = p->last_ns / MINUTE_NS + 1;
	int r;

	t->minute = (struct minute_rows){ .window = t->window };
	if (!p->has_minutes || from >= to)
		return 0;
	r = minute_window_read(t->window, from, to, err);
	if (r < 0)
		return r;
	t->minute.first = t->filter.newest_first ? minute_window_count(t->window) : 0;
	find_minute(t);
	if (t->has_told && t->minute.n > 0 && t->minute.minute * MINUTE_NS == t->told.wall_ns)
		find_minute(t); /* it was told, or some of its samples were */
	return 0;
}

/* All that says what is in the period is of one moment. -EOVERFLOW: it has to be smaller. */
static int open_period(struct timeline *t, struct period *p, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(t->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = next_period(t, p, err);
	if (r == 0)
		r = read_minutes(t, p, err);
	if (r < 0)
		return r;
	walk_close(&t->walk);
	t->filter.since_wall_ns = p->first_ns;
	t->filter.until_wall_ns = p->last_ns;
	return walk_open(t->store, &t->filter, &t->walk, err);
}

/* 1: there is another period. */
static int go_on(struct timeline *t, struct err *err)
{
	struct period p;
	int r;

	if (t->is_over)
		return 0;
	r = open_period(t, &p, err);
	while (r == -EOVERFLOW) {
		t->width /= 2;
		r = open_period(t, &p, err);
	}
	if (r < 0)
		return r;
	leave_period(t, &p);
	return 1;
}

/* ---- moments ---- */

/* Several recorders may have a tick of the same time: what is planned anew begins with that. */
static bool was_told(const struct timeline *t, const struct fold_tick *tick)
{
	if (!t->has_told || tick->wall_ns != t->told.wall_ns)
		return false;
	return t->filter.newest_first ? tick->id >= t->told.id : tick->id <= t->told.id;
}

/* A tick that the walk stands at, in has_tick. */
static int find_tick(struct timeline *t, struct err *err)
{
	int r = 0;

	while (!t->has_tick && t->walk && (r = walk_next(t->walk, err)) > 0) {
		const struct open_fold *fold = walk_fold(t->walk);

		t->has_tick = !was_told(t, &fold->ticks[fold->current]);
	}
	return r < 0 ? r : 0;
}

/* Of the same time a minute comes before a tick, and against the order of time after it. */
static bool is_minute_next(const struct timeline *t)
{
	const struct open_fold *fold;
	uint64_t tick_ns, minute_ns = t->minute.minute * MINUTE_NS;

	if (t->minute.n == 0 || !t->has_tick)
		return t->minute.n > 0;
	fold = walk_fold(t->walk);
	tick_ns = fold->ticks[fold->current].wall_ns;
	return t->filter.newest_first ? minute_ns > tick_ns : minute_ns <= tick_ns;
}

/* What was planned is not there any more: from here on, it is planned anew. */
static void plan_anew(struct timeline *t)
{
	walk_close(&t->walk);
	t->minute.n = 0;
	t->is_over = false;
	if (t->filter.newest_first)
		t->last_ns = t->has_told ? t->told.wall_ns : t->until_ns;
	else
		t->first_ns = t->has_told ? t->told.wall_ns : t->since_ns;
}

static struct fold_tick moment(const struct timeline *t)
{
	const struct open_fold *fold = timeline_fold(t);

	return fold ? fold->ticks[fold->current]
		    : (struct fold_tick){ .wall_ns = t->minute.minute * MINUTE_NS };
}

static void leave_moment(struct timeline *t)
{
	if (t->is_at_minute)
		find_minute(t);
	else
		t->has_tick = false;
	t->is_at_minute = false;
}

int timeline_next(struct timeline *t, struct err *err)
{
	int r = 1;

	leave_moment(t);
	while (r > 0) {
		r = find_tick(t, err);
		if (r < 0 && r != -ESTALE)
			return r;
		if (r == -ESTALE)
			plan_anew(t);
		t->is_at_minute = is_minute_next(t);
		if (t->has_tick || t->is_at_minute) {
			t->told = moment(t);
			t->has_told = true;
			return 1;
		}
		r = go_on(t, err);
	}
	return r;
}

const struct open_fold *timeline_fold(const struct timeline *t)
{
	return t->is_at_minute ? NULL : walk_fold(t->walk);
}

struct minute_rows timeline_minute(const struct timeline *t)
{
	return t->minute;
}

/* Jobs, and sheets of theirs, are counted by these. */
struct counts {
	struct map jobs, sheets;
};

static void counts_release(struct counts *c)
{
	map_release(&c->jobs);
	map_release(&c->sheets);
}

static int count(struct counts *c, const struct proc_sample *p)
{
	uint64_t attempt = hash_bytes(HASH_INIT, &p->attempt_id, sizeof(p->attempt_id));
	uint64_t job = hash_bytes(attempt, p->job_id, strlen(p->job_id));

	if (map_put(&c->jobs, job, 0) < 0)
		return -1;
	return p->sheet_num < 0 ? 0
				: map_put(&c->sheets,
					  hash_bytes(job, &p->sheet_num, sizeof(p->sheet_num)), 0);
}

static int add_row(struct store *store, const struct minute_row *row, bool with_attempts,
		   struct counts *c, struct snapshot *ret, struct err *err)
{
	struct proc_sample *p = snapshot_add_process(ret);

	if (!p)
		return store_no_memory(store, err);
	minute_row_sample(row, p);
	if (with_attempts)
		p->attempt_id = row->attempt_id;
	return count(c, p) < 0 ? store_no_memory(store, err) : 0;
}

int minute_rows_snapshot(struct store *store, const struct minute_rows *m, bool with_attempts,
			 struct snapshot *ret, struct err *err)
{
	CLEANUP(counts_release) struct counts c = { MAP_INIT, MAP_INIT };
	int r = 0;

	ret->wall_ns = m->minute * MINUTE_NS;
	ret->resolution_seconds = MINUTE_SECONDS;
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct minute_row row;

		r = minute_window_row(m->window, m->first + i, &row, err);
		if (r > 0)
			r = add_row(store, &row, with_attempts, &c, ret, err);
	}
	if (r == 0)
		r = minute_window_gpus(m->window, m->minute, ret, err);
	ret->running_jobs = (int)c.jobs.len;
	ret->active_sheets = (int)c.sheets.len;
	return r;
}
