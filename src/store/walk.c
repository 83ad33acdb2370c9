#include "store/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/read.h"

/* Where ticks are: a fold, or what a recorder has not folded yet (its tail). */
struct place {
	bool is_tail;
	int64_t id; /* of the fold or the recorder */
	uint64_t first_ns, last_ns;
	union {
		int64_t rolled_to; /* of a fold, when it was listed */
		int64_t last_fold; /* of the recorder: folds behind it are made of the tail */
	};
};

struct walk {
	struct store *store;
	struct fold_filter filter;
	bool newest_first;
	struct place *places; /* in the order in which they may have the next tick */
	size_t n_places, cap, next_place;
	struct open_fold *open; /* those that have a tick to tell, in no order */
	struct open_fold *current;
};

static struct open_fold *open_folds_free(struct open_fold *fold)
{
	while (fold) {
		struct open_fold *next = fold->next;

		open_fold_free(fold);
		fold = next;
	}
	return NULL;
}

void walk_close(struct walk **walk)
{
	if (!*walk)
		return;
	open_folds_free((*walk)->open);
	free((*walk)->places);
	free(*walk);
	*walk = NULL;
}

const struct open_fold *walk_fold(const struct walk *walk)
{
	return walk->current;
}

/* ---- what there is ---- */

static int list_places(struct walk *w, bool is_tail, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(w->store, is_tail ? STATEMENT_WALK_TAILS : STATEMENT_WALK_FOLDS, &q,
			   err);

	if (r < 0)
		return r;
	query_bind_i64(&q, query_as_i64(w->filter.since_wall_ns));
	query_bind_i64(&q, query_as_i64(w->filter.until_wall_ns));
	query_bind_i64(&q, w->filter.job);
	query_bind_i64(&q, w->filter.pid);
	while ((r = query_step(&q, err)) > 0) {
		struct place *place;

		if (ARRAY_RESERVE(w->places, w->cap, w->n_places + 1) < 0)
			return store_no_memory(w->store, err);
		place = &w->places[w->n_places++];
		*place = (struct place){ .is_tail = is_tail, .id = query_read_i64(&q) };
		place->first_ns = (uint64_t)query_read_i64(&q);
		place->last_ns = (uint64_t)query_read_i64(&q);
		if (is_tail)
			place->last_fold = query_read_i64(&q);
		else
			place->rolled_to = query_read_i64(&q);
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

/* ---- the newest so many ---- */

struct times {
	struct fold_tick *items;
	size_t n, cap;
};

static void times_release(struct times *times)
{
	free(times->items);
}

static int add_time(const struct walk *w, struct times *times, struct fold_tick tick,
		    struct err *err)
{
	if (tick.wall_ns < w->filter.since_wall_ns || tick.wall_ns > w->filter.until_wall_ns)
		return 0;
	if (ARRAY_RESERVE(times->items, times->cap, times->n + 1) < 0)
		return store_no_memory(w->store, err);
	times->items[times->n++] = tick;
	return 0;
}

static int add_fold_times(const struct walk *w, const struct place *place, struct times *times,
			  struct err *err)
{
	struct fold_tick ticks[CODEC_ROWS];
	unsigned n = 0;
	int r = open_fold_read_times(w->store, place->id, ticks, &n, err);

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = add_time(w, times, ticks[i], err);
	return r;
}

/* Those that cannot be read are none of the newest. */
static bool is_lost(const struct fold_lost *lost, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (lost[i].id == id)
			return true;
	return false;
}

/* The ticks from after_id on, up to the last of f. */
static int add_pending_times(const struct walk *w, int64_t recorder, int64_t after_id,
			     const struct folded *f, struct times *times, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(w->store, STATEMENT_WALK_TICK_TIMES, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, recorder);
	query_bind_i64(&q, after_id);
	query_bind_i64(&q, f->id);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct fold_tick tick = { .id = query_read_i64(&q) };

		tick.wall_ns = (uint64_t)query_read_i64(&q);
		if (!is_lost(f->lost, f->n_lost, tick.id))
			r = add_time(w, times, tick, err);
	}
	return r;
}

static int add_tail_times(const struct walk *w, const struct place *place, struct times *times,
			  struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int64_t after_id = 0;
	int r;

	while ((r = fold_read_pending(w->store, place->id, after_id, INT64_MAX, &f, err)) > 0) {
		r = add_pending_times(w, place->id, after_id, &f, times, err);
		if (r < 0)
			return r;
		after_id = f.id;
	}
	return r;
}

static int compare_newest_first(const void *a, const void *b)
{
	return fold_tick_is_before(a, b) ? 1 : fold_tick_is_before(b, a) ? -1 : 0;
}

static int compare_last_first(const void *a, const void *b)
{
	const struct place *x = *(const struct place *const *)a;
	const struct place *y = *(const struct place *const *)b;

	return x->last_ns < y->last_ns ? 1 : x->last_ns > y->last_ns ? -1 : 0;
}

/* From the latest place back, until no other can have one of them. */
static int find_newest(struct walk *w, const struct place **latest, size_t newest, struct err *err)
{
	CLEANUP(times_release) struct times times = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n_places; i++) {
		if (times.n >= newest) {
			qsort(times.items, times.n, sizeof(*times.items), compare_newest_first);
			times.n = newest;
			if (latest[i]->last_ns < times.items[newest - 1].wall_ns)
				break;
		}
		r = latest[i]->is_tail ? add_tail_times(w, latest[i], &times, err)
				       : add_fold_times(w, latest[i], &times, err);
	}
	if (r < 0 || times.n < newest)
		return r;
	qsort(times.items, times.n, sizeof(*times.items), compare_newest_first);
	w->filter.from = times.items[newest - 1];
	return 0;
}

static int limit_to_newest(struct walk *w, size_t newest, struct err *err)
{
	CLEANUP(free_ptr) const struct place **latest = NULL;

	if (newest == 0 || w->n_places == 0)
		return 0;
	latest = reallocarray(NULL, w->n_places, sizeof(*latest));
	if (!latest)
		return store_no_memory(w->store, err);
	for (size_t i = 0; i < w->n_places; i++)
		latest[i] = &w->places[i];
	qsort(latest, w->n_places, sizeof(*latest), compare_last_first);
	return find_newest(w, latest, newest, err);
}

/* ---- opening ---- */

static int plan(struct walk *w, const struct walk_filter *filter, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(w->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0 && filter->job_id)
		r = job_find_row(w->store, filter->job_id, &w->filter.job, err);
	if (r == 0)
		r = query_read_number(w->store, STATEMENT_LAST_TICK, 0, &w->filter.last_id, err);
	if (r >= 0)
		r = list_places(w, false, err);
	if (r == 0)
		r = list_places(w, true, err);
	if (r < 0)
		return r;
	if (w->n_places > 0)
		qsort(w->places, w->n_places, sizeof(*w->places),
		      w->newest_first ? compare_places_newest_first : compare_places);
	return limit_to_newest(w, filter->newest, err);
}

int walk_open(struct store *store, const struct walk_filter *filter, struct walk **ret,
	      struct err *err)
{
	CLEANUP(walk_close) struct walk *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return store_no_memory(store, err);
	w->store = store;
	w->newest_first = filter->newest_first;
	w->filter = (struct fold_filter){
		.pid = filter->pid,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns ? filter->until_wall_ns : UINT64_MAX,
		.heads_only = filter->heads_only,
		.n_words = filter->n_words,
		.also_rolled = filter->skips_rolled, /* since it was listed, when it was not */
	};
	r = plan(w, filter, err);
	if (r == 0)
		*ret = TAKE_PTR(w);
	return r;
}

/* ---- on the way ---- */

static void reverse_ticks(struct open_fold *fold)
{
	for (unsigned i = 0, k = fold->n_ticks; i + 1 < k; i++) {
		struct fold_tick tick = fold->ticks[i];

		fold->ticks[i] = fold->ticks[--k];
		fold->ticks[k] = tick;
	}
}

static void add_open(struct walk *w, struct open_fold *fold)
{
	if (!fold)
		return;
	if (w->newest_first)
		reverse_ticks(fold);
	fold->next = w->open;
	w->open = fold;
}

static int open_fold_at(struct walk *w, int64_t id, int64_t rolled_to, struct err *err)
{
	struct open_fold *fold = NULL;
	int r;

	w->filter.after_process = w->filter.also_rolled ? rolled_to : 0;
	r = open_fold_read(w->store, id, &w->filter, &fold, err);
	add_open(w, fold);
	if (r == -ENOENT) /* what it had is in rollups by now */
		r = w->filter.also_rolled ? -ESTALE : 0;
	return r;
}

static int open_new_folds(struct walk *w, const struct place *tail, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(w->store, STATEMENT_WALK_NEW_FOLDS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, tail->id);
	query_bind_i64(&q, tail->last_fold);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = open_fold_at(w, query_read_i64(&q), 0, err);
	return r;
}

static int open_pending(struct walk *w, int64_t recorder, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int64_t after_id = 0;
	int r;

	while ((r = fold_read_pending(w->store, recorder, after_id, w->filter.last_id, &f, err)) >
	       0) {
		struct open_fold *fold = NULL;

		after_id = f.id;
		r = fold_leave_out(w->store, recorder, &f, query_as_i64(w->filter.since_wall_ns),
				   query_as_i64(w->filter.until_wall_ns), err);
		if (r == 0 && f.n_ticks > 0)
			r = open_fold_take(w->store, recorder, &f, &w->filter, &fold, err);
		add_open(w, fold);
		if (r < 0)
			return r;
	}
	return r;
}

static int open_place(struct walk *w, const struct place *place, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r;

	if (place->last_ns < w->filter.from.wall_ns)
		return 0;
	r = txn_begin(w->store, STATEMENT_BEGIN_READ, &txn, err);
	if (r < 0)
		return r;
	if (!place->is_tail)
		return open_fold_at(w, place->id, place->rolled_to, err);
	r = open_new_folds(w, place, err);
	return r < 0 ? r : open_pending(w, place->id, err);
}

/* The tick that was told is behind us; a fold without another one is closed. */
static void leave_tick(struct walk *w)
{
	struct open_fold **fold = &w->open;

	if (!w->current || ++w->current->current < w->current->n_ticks) {
		w->current = NULL;
		return;
	}
	while (*fold != w->current)
		fold = &(*fold)->next;
	*fold = w->current->next;
	open_fold_free(w->current);
	w->current = NULL;
}

static const struct fold_tick *tick_of(const struct open_fold *fold)
{
	return &fold->ticks[fold->current];
}

static bool is_told_before(const struct walk *w, const struct fold_tick *a,
			   const struct fold_tick *b)
{
	return w->newest_first ? fold_tick_is_before(b, a) : fold_tick_is_before(a, b);
}

static struct open_fold *find_first(const struct walk *w)
{
	struct open_fold *first = NULL;

	for (struct open_fold *fold = w->open; fold; fold = fold->next)
		if (!first || is_told_before(w, tick_of(fold), tick_of(first)))
			first = fold;
	return first;
}

/* Whether the place may have a tick that is told before this one. */
static bool may_be_before(const struct walk *w, const struct place *place,
			  const struct fold_tick *tick)
{
	return w->newest_first ? place->last_ns >= tick->wall_ns : place->first_ns <= tick->wall_ns;
}

int walk_next(struct walk *w, struct err *err)
{
	struct open_fold *first;
	int r;

	leave_tick(w);
	first = find_first(w);
	while (w->next_place < w->n_places &&
	       (!first || may_be_before(w, &w->places[w->next_place], tick_of(first)))) {
		r = open_place(w, &w->places[w->next_place++], err);
		if (r < 0)
			return r;
		first = find_first(w);
	}
	w->current = first;
	return first ? 1 : 0;
}
