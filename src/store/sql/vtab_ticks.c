#include "store/sql/vtab.h"

#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/query.h"
#include "store/rollup.h"

/* What is kept at most, in folds and in their processes (each takes up to 30 KB). */
#define KEPT_FOLDS 32
#define KEPT_PROCESSES 2048

/* ---- folds that are kept ---- */

static struct open_fold *free_folds(struct open_fold *fold)
{
	while (fold) {
		struct open_fold *next = fold->next;

		open_fold_free(fold);
		fold = next;
	}
	return NULL;
}

/* Always the first one, and as many of the others as fit. */
static void trim_kept(struct vtab_ticks *t)
{
	size_t n_folds = 0, n_processes = 0;

	for (struct open_fold *fold = t->kept; fold; fold = fold->next) {
		n_processes += fold->n_processes;
		if (++n_folds >= KEPT_FOLDS || n_processes >= KEPT_PROCESSES)
			fold->next = free_folds(fold->next);
	}
}

static void keep(struct vtab_ticks *t, struct open_fold *fold)
{
	fold->next = t->kept;
	t->kept = fold;
}

/* Moves the fold that has the tick to the front; false: none has it. */
static bool find_kept(struct vtab_ticks *t, int64_t tick_id)
{
	for (struct open_fold **at = &t->kept; *at; at = &(*at)->next) {
		struct open_fold *fold = *at;

		if (!open_fold_go_to(fold, tick_id))
			continue;
		*at = fold->next;
		keep(t, fold);
		t->fold = fold;
		return true;
	}
	return false;
}

/* ---- one by its id ---- */

/* Each recorder's first fold that ends with the tick or behind it may have it. */
static int open_folded(struct vtab_ticks *t, int64_t tick_id, const struct fold_filter *filter,
		       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct fold_filter heads = *filter;
	int64_t found = 0;
	int r = query_ask(t->store, STATEMENT_FIND_FOLDS, &q, err, tick_id);

	heads.heads_only = true;
	while (found == 0 && r == 0 && (r = query_step(&q, err)) > 0) {
		struct open_fold *fold = NULL;
		int64_t id = query_read_i64(&q);

		r = open_fold_read(t->store, id, &heads, &fold, err);
		r = r == -ENOENT ? 0 : r;
		found = fold && open_fold_go_to(fold, tick_id) ? id : 0;
		open_fold_free(fold);
	}
	if (r >= 0 && found > 0) {
		struct open_fold *fold = NULL;

		r = open_fold_read(t->store, found, filter, &fold, err);
		r = r == -ENOENT ? 0 : r;
		if (fold)
			keep(t, fold);
	}
	return r < 0 ? r : 0;
}

/* 1: it was written as one. 0: there is none. */
static int find_tick(struct vtab_ticks *t, const struct vtab_filter *f, struct err *err)
{
	const struct fold_filter all = {
		.until_wall_ns = UINT64_MAX,
		.last_id = INT64_MAX,
		.heads_only = f->n_words == 0,
		.n_words = f->n_words,
	};
	int64_t recorder = 0;
	int r;

	if (t->n_words != f->n_words)
		t->kept = free_folds(t->kept);
	t->n_words = f->n_words;
	if (find_kept(t, f->tick_id))
		return 1;
	r = query_read_number(t->store, STATEMENT_FIND_TICK, f->tick_id, &recorder, err);
	if (r >= 0)
		r = recorder ? open_fold_read_pending(t->store, recorder, &all, &t->kept, err)
			     : open_folded(t, f->tick_id, &all, err);
	if (r < 0)
		return r;
	r = find_kept(t, f->tick_id);
	trim_kept(t);
	return r;
}

/* ---- a minute by its id ---- */

/* Its hour, or the minute alone where that is too much. */
static int read_hour(struct vtab_ticks *t, uint64_t minute, struct err *err)
{
	int r = t->window ? 0 : minute_window_new(t->store, NULL, 0, true, &t->window, err);

	if (r < 0 || (minute >= t->from && minute < t->to))
		return r;
	t->from = minute / ROLLUP_MINUTES * ROLLUP_MINUTES;
	t->to = t->from + ROLLUP_MINUTES;
	r = minute_window_read(t->window, t->from, t->to, err);
	if (r == -EOVERFLOW) {
		t->from = minute;
		t->to = minute + 1;
		r = minute_window_read(t->window, t->from, t->to, err);
	}
	if (r < 0)
		t->to = t->from; /* nothing is in it */
	return r;
}

static int find_minute(struct vtab_ticks *t, uint64_t minute, struct err *err)
{
	int r = read_hour(t, minute, err);

	if (r < 0)
		return r;
	do
		t->minute = minute_window_rows(t->window, t->minute.first + t->minute.n, false);
	while (t->minute.n > 0 && t->minute.minute < minute);
	if (t->minute.minute != minute)
		t->minute.n = 0;
	return t->minute.n > 0;
}

/* ---- all of a time ---- */

int vtab_ticks_next(struct vtab_ticks *t, struct err *err)
{
	int r = t->timeline ? timeline_next(t->timeline, err) : 0;

	t->fold = r > 0 ? timeline_fold(t->timeline) : NULL;
	t->minute = (struct minute_rows){ 0 };
	if (r > 0 && !t->fold)
		t->minute = timeline_minute(t->timeline);
	return r;
}

int vtab_ticks_begin(struct vtab_ticks *t, struct store *store, const struct vtab_filter *f,
		     struct err *err)
{
	const struct timeline_filter filter = {
		.job_id = f->job_id,
		.pid = f->pid,
		.since_wall_ns = f->since_wall_ns,
		.until_wall_ns = f->until_wall_ns,
		.newest_first = f->newest_first,
		.heads_only = f->n_words == 0,
		.n_words = f->n_words,
	};
	int r;

	t->store = store;
	t->fold = NULL;
	t->minute = (struct minute_rows){ 0 };
	timeline_close(&t->timeline);
	if (f->is_empty)
		return 0;
	if (!f->has_tick) {
		r = timeline_open(store, &filter, true, &t->timeline, err);
		return r < 0 ? r : vtab_ticks_next(t, err);
	}
	if (f->tick_id >= 0)
		return find_tick(t, f, err);
	return f->tick_id < -(int64_t)(INT64_MAX / MINUTE_NS)
		       ? 0
		       : find_minute(t, (uint64_t)-f->tick_id, err);
}

void vtab_ticks_release(struct vtab_ticks *t)
{
	timeline_close(&t->timeline);
	minute_window_free(&t->window);
	t->kept = free_folds(t->kept);
	t->fold = NULL;
}

/* ---- the moment ---- */

int64_t vtab_ticks_id(const struct vtab_ticks *t)
{
	return t->fold ? open_fold_tick(t->fold)->id : -(int64_t)t->minute.minute;
}

void vtab_ticks_time(const struct vtab_ticks *t, uint64_t *ret_wall_ns, double *ret_resolution)
{
	*ret_wall_ns = t->fold ? open_fold_tick(t->fold)->wall_ns : t->minute.minute * MINUTE_NS;
	*ret_resolution = t->fold ? F64_UNKNOWN : MINUTE_SECONDS;
}
