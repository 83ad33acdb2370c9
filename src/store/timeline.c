#include "store/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/query.h"
#include "store/rollup.h"

/* Where ticks are: a fold, or what a recorder has not folded yet (its tail). */
struct place {
	bool is_tail;
	int64_t id; /* of the fold or the recorder */
	uint64_t first_ns, last_ns;
	int64_t last_fold; /* of the recorder of a tail: folds behind it are made of the tail */
};

/* A part of the time: an hour of which there are minutes, or what lies between such hours. */
struct period {
	uint64_t first_ns, last_ns;
	bool has_minutes;
};

struct timeline {
	struct store *store;
	struct timeline_filter filter; /* of the period */
	char *job_id;
	uint64_t since_ns, until_ns; /* of all */
	uint64_t first_ns, last_ns;  /* what is left, behind the period */
	bool is_over;		     /* nothing is */
	uint64_t width;		     /* of periods with minutes, at most, in minutes */

	/* The ticks of the period: */
	struct fold_filter ticks;
	struct process_set wanted;
	struct place *places; /* in the order in which they may have the next one */
	size_t n_places, cap, next_place;
	struct open_fold *open;	   /* those that have one to tell, in no order */
	struct open_fold *current; /* NULL: none */
	bool has_tick;		   /* it is not told yet */

	struct minute_window *window; /* NULL: no minutes are wanted */
	struct minute_rows minute;    /* the next one; n is 0 if there is none in the period */
	bool is_at_minute;	      /* it is where we are */
	struct fold_tick told;	      /* where we were last (id 0: a minute)… */
	bool has_told;		      /* …if we were anywhere */
};

static void drop_ticks(struct timeline *t)
{
	for (struct open_fold *fold = t->open, *next; fold; fold = next) {
		next = fold->next;
		open_fold_free(fold);
	}
	t->open = t->current = NULL;
	t->has_tick = false;
	t->n_places = t->next_place = 0;
}

/* ---- what there is ---- */

static int list_places(struct timeline *t, bool is_tail, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(t->store, is_tail ? STATEMENT_WALK_TAILS : STATEMENT_WALK_FOLDS, &q, err,
			  query_as_i64(t->ticks.since_wall_ns),
			  query_as_i64(t->ticks.until_wall_ns), t->wanted.job, t->filter.pid);

	if (r < 0)
		return r;
	while ((r = query_step(&q, err)) > 0) {
		struct place *place;

		if (ARRAY_RESERVE(t->places, t->cap, t->n_places + 1) < 0)
			return store_no_memory(t->store, err);
		place = &t->places[t->n_places++];
		*place = (struct place){ .is_tail = is_tail, .id = query_read_i64(&q) };
		place->first_ns = (uint64_t)query_read_i64(&q);
		place->last_ns = (uint64_t)query_read_i64(&q);
		place->last_fold = query_read_i64(&q);
	}
	return r;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->first_ns != y->first_ns)
		return x->first_ns < y->first_ns ? -1 : 1;
	if (x->is_tail != y->is_tail)
		return x->is_tail ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_places_newest_first(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->last_ns != y->last_ns)
		return x->last_ns > y->last_ns ? -1 : 1;
	return compare_places(b, a);
}

/* The places of the period. */
static int plan_ticks(struct timeline *t, const struct period *p, struct err *err)
{
	int r;

	t->ticks.since_wall_ns = p->first_ns;
	t->ticks.until_wall_ns = p->last_ns;
	r = list_places(t, false, err);
	if (r == 0)
		r = list_places(t, true, err);
	if (r == 0 && t->n_places > 0)
		qsort(t->places, t->n_places, sizeof(*t->places),
		      t->filter.newest_first ? compare_places_newest_first : compare_places);
	return r;
}

/* What was opened is in order from now on. */
static void add_open(struct timeline *t, struct open_fold *fold)
{
	while (fold) {
		struct open_fold *next = fold->next;

		for (unsigned i = 0, k = fold->n_ticks; t->filter.newest_first && i + 1 < k; i++) {
			struct fold_tick tick = fold->ticks[i];

			fold->ticks[i] = fold->ticks[--k];
			fold->ticks[k] = tick;
		}
		fold->next = t->open;
		t->open = fold;
		fold = next;
	}
}

static int open_fold_at(struct timeline *t, int64_t id, struct err *err)
{
	struct open_fold *fold = NULL;
	int r = open_fold_read(t->store, id, &t->ticks, &fold, err);

	add_open(t, fold);
	if (r == -ENOENT) /* what it had is in minutes by now */
		r = t->window ? -ESTALE : 0;
	return r;
}

static int open_place(struct timeline *t, const struct place *place, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct open_fold *pending = NULL;
	int r;

	if (place->last_ns < t->ticks.from.wall_ns)
		return 0;
	r = txn_begin(t->store, STATEMENT_BEGIN_READ, &txn, err);
	if (r < 0)
		return r;
	if (!place->is_tail)
		return open_fold_at(t, place->id, err);
	r = query_ask(t->store, STATEMENT_WALK_NEW_FOLDS, &q, err, place->id, place->last_fold);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = open_fold_at(t, query_read_i64(&q), err);
	if (r == 0)
		r = open_fold_read_pending(t->store, place->id, &t->ticks, &pending, err);
	add_open(t, pending);
	return r;
}

/* The tick that was told is behind us; a fold without another one is closed. */
static void leave_tick(struct timeline *t)
{
	struct open_fold **fold = &t->open;

	if (!t->current || ++t->current->current < t->current->n_ticks) {
		t->current = NULL;
		return;
	}
	while (*fold != t->current)
		fold = &(*fold)->next;
	*fold = t->current->next;
	open_fold_free(t->current);
	t->current = NULL;
}

static struct open_fold *find_first(const struct timeline *t)
{
	struct open_fold *first = NULL;

	for (struct open_fold *fold = t->open; fold; fold = fold->next) {
		const struct fold_tick *tick = open_fold_tick(fold);

		if (!first ||
		    (t->filter.newest_first ? fold_tick_is_before(open_fold_tick(first), tick)
					    : fold_tick_is_before(tick, open_fold_tick(first))))
			first = fold;
	}
	return first;
}

/*
 * 1: the next tick is the current one. 0: no more. -ESTALE, beside minutes, and err is not set:
 * what comes next has become minutes since it was planned.
 */
static int next_tick(struct timeline *t, struct err *err)
{
	struct open_fold *first;

	leave_tick(t);
	first = find_first(t);
	while (t->next_place < t->n_places) {
		const struct place *place = &t->places[t->next_place];
		int r;

		/* It has no tick that comes before the first of those that are open. */
		if (first &&
		    (t->filter.newest_first ? place->last_ns < open_fold_tick(first)->wall_ns
					    : place->first_ns > open_fold_tick(first)->wall_ns))
			break;
		t->next_place++;
		r = open_place(t, place, err);
		if (r < 0)
			return r;
		first = find_first(t);
	}
	t->current = first;
	return first ? 1 : 0;
}

void timeline_close(struct timeline **t)
{
	if (!*t)
		return;
	drop_ticks(*t);
	free((*t)->places);
	process_set_release(&(*t)->wanted);
	minute_window_free(&(*t)->window);
	free((*t)->job_id);
	free(*t);
	*t = NULL;
}

int timeline_open(struct store *store, const struct timeline_filter *filter, bool with_minutes,
		  struct timeline **ret, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = calloc(1, sizeof(*t));
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r;

	if (!t || (filter->job_id && !(t->job_id = strdup(filter->job_id))))
		return store_no_memory(store, err);
	t->store = store;
	t->filter = *filter;
	t->filter.job_id = t->job_id;
	t->first_ns = t->since_ns = filter->since_wall_ns;
	t->last_ns = t->until_ns = filter->until_wall_ns ? filter->until_wall_ns : UINT64_MAX;
	t->is_over = t->first_ns > t->last_ns;
	if (filter->minutes_only) {
		t->first_ns -= t->first_ns % MINUTE_NS;
		t->last_ns = u64_add(t->last_ns, MINUTE_NS - 1 - t->last_ns % MINUTE_NS);
	}
	t->width = ROLLUP_MINUTES;
	t->ticks = (struct fold_filter){
		.wanted = &t->wanted,
		.from = filter->from,
		.last_id = filter->last_id,
		.heads_only = filter->heads_only,
		.n_words = filter->n_words,
	};
	r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);
	if (r == 0 && !filter->minutes_only)
		r = process_set_find(&t->wanted, store, filter->job_id, filter->pid, err);
	if (r == 0 && !filter->last_id)
		r = query_read_number(store, STATEMENT_LAST_TICK, 0, &t->ticks.last_id, err);
	if (r >= 0)
		r = 0;
	if (r == 0 && with_minutes)
		r = minute_window_new(store, filter->job_id, filter->pid, !filter->minutes_only,
				      &t->window, err);
	if (r == 0)
		*ret = TAKE_PTR(t);
	return r;
}

/* ---- periods ---- */

/*
 * What is left up to the next hour that has minutes, or of that hour, or to the end if there is
 * none; not more minutes than the window could take.
 */
static int next_period(struct timeline *t, struct period *ret, struct err *err)
{
	bool newest_first = t->filter.newest_first;
	uint64_t at = newest_first ? t->last_ns : t->first_ns, width_ns = t->width * MINUTE_NS;
	uint64_t begin, end;
	int64_t hour = 0;
	int r = 0;

	*ret = (struct period){ t->first_ns, t->last_ns, false };
	if (!t->window || minute_window_is_empty(t->window))
		return 0;
	if (t->filter.minutes_only) { /* of ticks, too */
		r = query_read_number(t->store,
				      newest_first ? STATEMENT_PREVIOUS_RECORDED
						   : STATEMENT_NEXT_RECORDED,
				      query_as_i64(at), &hour, err);
		hour = hour > 0 ? (int64_t)((uint64_t)hour / HOUR_NS) : 0;
	} else {
		r = query_read_number(t->store,
				      newest_first ? STATEMENT_PREVIOUS_HOUR : STATEMENT_NEXT_HOUR,
				      (int64_t)(at / HOUR_NS), &hour, err);
	}
	if (r <= 0)
		return r;
	begin = (uint64_t)hour * HOUR_NS;
	end = begin + HOUR_NS - 1;
	if (end < ret->first_ns || begin > ret->last_ns)
		return 0;
	if (newest_first && end < ret->last_ns) {
		ret->first_ns = end + 1;
		return 0;
	}
	if (!newest_first && begin > ret->first_ns) {
		ret->last_ns = begin - 1;
		return 0;
	}
	*ret = (struct period){ begin > ret->first_ns ? begin : ret->first_ns,
				end < ret->last_ns ? end : ret->last_ns, true };
	if (ret->last_ns - ret->first_ns < width_ns)
		return 0;
	if (newest_first)
		ret->first_ns = (ret->last_ns / MINUTE_NS + 1) * MINUTE_NS - width_ns;
	else
		ret->last_ns = ret->first_ns / MINUTE_NS * MINUTE_NS + width_ns - 1;
	return 0;
}

/* ---- the minutes of a period ---- */

/* The next of them stands in t->minute: n is 0 if there is none. */
static void find_minute(struct timeline *t)
{
	const struct minute_rows *m = &t->minute;
	bool newest_first = t->filter.newest_first;

	t->minute =
		minute_window_rows(m->window, m->first + (newest_first ? 0 : m->n), newest_first);
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
	t->minute = minute_window_rows(t->window, t->filter.newest_first ? SIZE_MAX : 0,
				       t->filter.newest_first);
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
	drop_ticks(t);
	return t->filter.minutes_only ? 0 : plan_ticks(t, p, err);
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
	if (t->filter.newest_first) {
		t->is_over = p.first_ns <= t->first_ns;
		t->last_ns = p.first_ns - 1;
	} else {
		t->is_over = p.last_ns >= t->last_ns;
		t->first_ns = p.last_ns + 1;
	}
	return 1;
}

/* ---- moments ---- */

/* The next tick, in has_tick. */
static int find_tick(struct timeline *t, struct err *err)
{
	int r = 0;

	while (!t->has_tick && (r = next_tick(t, err)) > 0) {
		const struct fold_tick *tick = open_fold_tick(t->current);

		/* Several recorders may have a tick of the same time: what is planned anew begins
		 * with that. */
		t->has_tick =
			!t->has_told || tick->wall_ns != t->told.wall_ns ||
			(t->filter.newest_first ? tick->id < t->told.id : tick->id > t->told.id);
	}
	if (r == -ESTALE) { /* what was planned is not there any more: it is planned anew */
		drop_ticks(t);
		t->minute.n = 0;
		t->is_over = false;
		if (t->filter.newest_first)
			t->last_ns = t->has_told ? t->told.wall_ns : t->until_ns;
		else
			t->first_ns = t->has_told ? t->told.wall_ns : t->since_ns;
		return 0;
	}
	return r < 0 ? r : 0;
}

int timeline_next(struct timeline *t, struct err *err)
{
	uint64_t minute_ns, tick_ns;
	int r = 1;

	if (t->is_at_minute)
		find_minute(t);
	else
		t->has_tick = false;
	t->is_at_minute = false;
	while (r > 0) {
		r = find_tick(t, err);
		if (r < 0)
			return r;
		/* Of the same time a minute comes before a tick, and against the order of time
		 * after it. */
		minute_ns = t->minute.minute * MINUTE_NS;
		tick_ns = t->has_tick ? open_fold_tick(t->current)->wall_ns : 0;
		t->is_at_minute = t->minute.n > 0 &&
				  (!t->has_tick || (t->filter.newest_first ? minute_ns > tick_ns
									   : minute_ns <= tick_ns));
		if (t->has_tick || t->is_at_minute) {
			t->told = (struct fold_tick){ .wall_ns = t->minute.minute * MINUTE_NS };
			if (!t->is_at_minute)
				t->told = *open_fold_tick(t->current);
			t->has_told = true;
			return 1;
		}
		r = go_on(t, err);
	}
	return r;
}

const struct open_fold *timeline_fold(const struct timeline *t)
{
	return t->is_at_minute ? NULL : t->current;
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

int minute_rows_snapshot(struct store *store, const struct minute_rows *m, bool with_attempts,
			 struct snapshot *ret, struct err *err)
{
	CLEANUP(counts_release) struct counts c = { MAP_INIT, MAP_INIT };
	int r = 0;

	ret->wall_ns = m->minute * MINUTE_NS;
	ret->resolution_seconds = MINUTE_SECONDS;
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct proc_sample *p;
		struct minute_row row;
		uint64_t job;

		r = minute_window_row(m->window, m->first + i, &row, err);
		if (r <= 0)
			continue;
		p = snapshot_add_process(ret);
		if (!p)
			return store_no_memory(store, err);
		minute_row_sample(&row, p);
		if (with_attempts)
			p->attempt_id = row.attempt_id;
		job = hash_bytes(hash_bytes(HASH_INIT, &p->attempt_id, sizeof(p->attempt_id)),
				 p->job_id, strlen(p->job_id));
		r = map_put(&c.jobs, job, 0);
		if (r == 0 && p->sheet_num >= 0)
			r = map_put(&c.sheets, hash_bytes(job, &p->sheet_num, sizeof(p->sheet_num)),
				    0);
		if (r < 0)
			return store_no_memory(store, err);
	}
	if (r == 0)
		r = minute_window_gpus(m->window, m->minute, ret, err);
	ret->running_jobs = (int)c.jobs.len;
	ret->active_sheets = (int)c.sheets.len;
	return r;
}

/* ---- samples ---- */

static int tell_samples(struct store *store, const struct open_fold *fold, history_fn *fn,
			void *ctx, struct err *err)
{
	struct history_row row = {
		.wall_ns = open_fold_tick(fold)->wall_ns,
		.resolution_seconds = F64_UNKNOWN,
		.n_samples = 1,
	};

	for (size_t i = 0; i < fold->n_processes; i++) {
		const struct process *process;
		int r = open_fold_sample(store, fold, i, &row.sample, &process, err);

		if (r > 0) {
			row.attempt_num = process->attempt_num;
			r = fn(ctx, &row);
		}
		if (r != 0)
			return r;
	}
	return 0;
}

static int tell_minute(const struct minute_rows *m, history_fn *fn, void *ctx, struct err *err)
{
	struct history_row row = {
		.wall_ns = m->minute * MINUTE_NS,
		.resolution_seconds = MINUTE_SECONDS,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct minute_row minute;

		r = minute_window_row(m->window, m->first + i, &minute, err);
		if (r <= 0)
			continue;
		row.attempt_num = minute.attempt_num;
		row.n_samples = minute.n_samples;
		minute_row_sample(&minute, &row.sample);
		r = fn(ctx, &row);
	}
	return r;
}

int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = NULL;
	const struct timeline_filter moments = {
		.job_id = filter->job_id,
		.pid = filter->pid,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns,
	};
	int r = timeline_open(store, &moments, filter->with_minutes, &t, err);

	while (r == 0 && (r = timeline_next(t, err)) > 0) {
		const struct open_fold *fold = timeline_fold(t);
		const struct minute_rows minute = timeline_minute(t);

		r = fold ? tell_samples(store, fold, fn, ctx, err)
			 : tell_minute(&minute, fn, ctx, err);
	}
	return r;
}

/* ---- minutes ---- */

int store_read_minutes(struct store *store, const struct history_filter *filter, minute_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = NULL;
	const struct timeline_filter minutes = { .job_id = filter->job_id,
						 .pid = filter->pid,
						 .since_wall_ns = filter->since_wall_ns,
						 .until_wall_ns = filter->until_wall_ns,
						 .minutes_only = true };
	int r = timeline_open(store, &minutes, true, &t, err);

	while (r == 0 && (r = timeline_next(t, err)) > 0) {
		const struct minute_rows *m = &t->minute;
		struct minute_row row;

		r = 0;
		for (size_t i = 0; r == 0 && i < m->n; i++)
			if ((r = minute_window_row(m->window, m->first + i, &row, err)) > 0)
				r = fn(ctx, &row);
	}
	return r;
}

/* ---- snapshots ---- */

/* The oldest of the newest n ticks becomes the first that the filter wants. */
static int limit_to_newest(struct store *store, struct timeline_filter *filter, size_t n,
			   struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = NULL;
	struct timeline_filter heads = *filter;
	size_t i = 0;
	int r;

	heads.newest_first = heads.heads_only = true;
	r = timeline_open(store, &heads, false, &t, err);
	while (r == 0 && i < n && (r = timeline_next(t, err)) > 0) {
		filter->last_id = t->ticks.last_id;
		if (++i == n)
			filter->from = *open_fold_tick(timeline_fold(t));
		r = 0;
	}
	return r;
}

int store_read_snapshots(struct store *store, const struct snapshot_filter *filter, snapshot_fn *fn,
			 void *ctx, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct timeline_filter moments = {
		.job_id = filter->job_id,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns,
	};
	int r = 0;

	snapshot_init(&snap);
	if (filter->limit > 0 && !filter->with_minutes)
		r = limit_to_newest(store, &moments, filter->limit, err);
	if (r == 0)
		r = timeline_open(store, &moments, filter->with_minutes, &t, err);
	while (r == 0 && (r = timeline_next(t, err)) > 0) {
		const unsigned parts = FOLD_ALL | (filter->with_attempts ? FOLD_ATTEMPTS : 0);
		const struct open_fold *fold = timeline_fold(t);

		snapshot_reset(&snap);
		r = fold ? open_fold_snapshot(store, fold, parts, &snap, err)
			 : minute_rows_snapshot(store, &t->minute, filter->with_attempts, &snap,
						err);
		/* One that does not cover the job says nothing of it: not that it was gone. */
		if (r == 0 && (!filter->job_id || snapshot_covers(&snap, filter->job_id)))
			r = fn(ctx, &snap);
	}
	return r;
}
