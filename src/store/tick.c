#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/fold_calls.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/seen.h"
#include "store/tables.h"

/* ---- a snapshot becomes the words of a tick ---- */

static int fill_head(struct tick *t, const struct snapshot *s)
{
	host_to_words(s, t->head);
	t->head[HEAD_LEVEL] = tick_add_string(t, s->pressure_level);
	t->head[HEAD_HAS_GPUS] = s->gpus ? 1 : U64_UNKNOWN;
	for (size_t i = 0; i < s->n_gpus; i++) {
		uint64_t *words = tick_add(t, LIST_GPUS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		gpu_to_words(&s->gpus[i], words);
	}
	for (size_t i = 0; i < s->n_progress; i++) {
		uint64_t *words = tick_add(t, LIST_PROGRESS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		progress_to_words(&s->progress[i], words);
		words[PROGRESS_JOB] = tick_add_string(t, s->progress[i].job_id);
		words[PROGRESS_STATUS] = tick_add_string(t, s->progress[i].status);
	}
	return 0;
}

/* Where somebody looked and there was none, a row without a path says so. */
static int fill_cgroups(struct tick *t, const struct snapshot *s)
{
	size_t n = s->cgroups && s->n_cgroups == 0 ? 1 : s->n_cgroups;

	for (size_t i = 0; i < n; i++) {
		uint64_t *words = tick_add(t, LIST_CGROUPS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		memset(words, 0xff, CGROUP_WORDS * sizeof(*words)); /* all unknown */
		if (i == s->n_cgroups)
			continue;
		words[CGROUP_PATH] = tick_add_string(t, s->cgroups[i].path);
		cgroup_to_words(&s->cgroups[i], words);
	}
	return 0;
}

/* Also of attempts without a point: that they have rows tells that they were watched. */
static int fill_points(struct tick *t, const struct tick_owners *owners,
		       const struct tick_record *record)
{
	for (size_t k = 0; k < owners->n; k++) {
		size_t i = owners->by_id[k].index;
		uint64_t *words = tick_add(t, LIST_POINTS, owners->by_id[k].id);

		if (!words)
			return -ENOMEM;
		if (record->points)
			point_to_words(&record->points[i], words);
		else
			memset(words, 0xff, POINT_WORDS * sizeof(*words)); /* all unknown */
	}
	return 0;
}

/* w->now, which is empty, from the record, with n of the listed processes. -ENOMEM. */
static int fill(struct tick_writing *w, const struct tick_record *record, size_t n)
{
	const struct snapshot *s = record->snap;
	int r = fill_head(&w->now, s);

	if (r == 0)
		r = fill_points(&w->now, &w->owners, record);
	for (size_t i = 0; r == 0 && i < n; i++) {
		uint64_t *words = tick_add(&w->now, LIST_SAMPLES, w->listed[i].id);

		if (!words)
			return -ENOMEM;
		sample_to_words(&s->processes[w->listed[i].index], s->boot_ns, words);
	}
	call_names_begin_tick(&w->call_names);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = tick_add_calls(&w->now, &w->call_names, w->listed[i].id,
				   &s->processes[w->listed[i].index]);
	return r < 0 ? r : fill_cgroups(&w->now, s);
}

/* ---- the tick ---- */

/* Ids go up for ever, and have come to where a chunk's id has no room for more of them. */
static int refuse_full(const struct store *store, const char *what, struct err *err)
{
	return err_set(err, -EOVERFLOW,
		       "the database %s has had as many %s as one can have: move it away, or set "
		       "PROCTOR_HOME to another folder",
		       store->path, what);
}

/* The rows of the attempts' processes, as they stand in the snapshot. */
static int list_processes(struct store *store, const struct tick_record *record, size_t *ret_n,
			  struct err *err)
{
	const struct snapshot *snap = record->snap;
	struct tick_writing *w = &store->writing;
	size_t n = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		const struct attempt *a = tick_owner_of_process(&w->owners, record, p);
		int64_t id = 0;
		int r;

		if (!a)
			continue;
		r = seen_process(store, a->id, p, &id, err);
		if (r == 0 && id > CHUNK_PROCESS_MAX)
			r = refuse_full(store, "processes", err);
		if (r < 0)
			return r;
		if (ARRAY_RESERVE(w->listed, w->cap, n + 1) < 0)
			return store_no_memory(store, err);
		w->listed[n++] = (struct listed_process){ id, i };
	}
	*ret_n = n;
	return 0;
}

static int compare_listed(const void *a, const void *b)
{
	const struct listed_process *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static bool is_ascending(const struct listed_process *listed, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (listed[i].id <= listed[i - 1].id)
			return false;
	return true;
}

/* By process. One that was listed twice is not worth losing the tick: the last counts. */
static size_t sort_listed(struct listed_process *listed, size_t n)
{
	size_t kept = 0;

	if (is_ascending(listed, n))
		return n;
	qsort(listed, n, sizeof(*listed), compare_listed);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || listed[i + 1].id != listed[i].id)
			listed[kept++] = listed[i];
	return kept;
}

/* Retention folds what a recorder has left, also that of one who was only asleep. */
static int check_before(struct store *store, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = store->writing.before_id ? query_open(store, STATEMENT_HAS_TICK, &q, err) : 0;

	if (r < 0 || !store->writing.before_id)
		return r;
	query_bind_i64(&q, store->writing.before_id);
	query_bind_i64(&q, store->writing.recorder);
	r = query_step(&q, err);
	if (r == 0)
		store->writing.before_id = 0;
	return r < 0 ? r : 0;
}

/* The tick with n of the listed processes, into store->writing.bytes. */
static int encode_tick(struct store *store, const struct tick_record *record, size_t n,
		       struct err *err)
{
	struct tick_writing *w = &store->writing;
	int64_t before_ns = (int64_t)w->before.head[HOST_WALL_NS];
	bool is_full = w->n_segment >= FOLD_TICKS || w->segment_bytes >= FOLD_BYTES;

	if (w->before_id && (is_full || fold_has_gap(before_ns, (int64_t)record->snap->wall_ns)))
		w->before_id = 0;
	tick_reset(&w->now);
	buf_reset(&w->bytes);
	if (fill(w, record, n) < 0)
		return store_no_memory(store, err);
	tick_write(&w->bytes, &w->now, w->before_id ? &w->before : NULL, w->before_id);
	return buf_error(&w->bytes) < 0 ? store_no_memory(store, err) : 0;
}

static int add_tick(struct store *store, uint64_t wall_ns, int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_TICK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, store->writing.recorder);
	query_bind_i64_if(&q, u64_known(wall_ns), (int64_t)wall_ns);
	query_bind_blob(&q, (int64_t)wall_ns, store->writing.bytes.data, store->writing.bytes.len);
	r = query_run(&q, err);
	*ret_id = sqlite3_last_insert_rowid(store->db);
	return r == 0 && *ret_id > TICK_ID_MAX ? refuse_full(store, "ticks", err) : r;
}

/* Each to the attempt of its job. */
static int add_events(struct store *store, const struct tick_record *record, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < record->n_events; i++) {
		const struct proc_event *ev = &record->events[i];
		const struct attempt *a = tick_owner_of_event(&store->writing.owners, record, ev);

		if (a)
			r = rows_write(store, STATEMENT_ADD_EVENT, a->id, &event_columns, ev, 1,
				       sizeof(*ev), err);
	}
	return r;
}

static int write_tick(struct store *store, const struct tick_record *record, int64_t *ret_id,
		      struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	size_t n = 0;
	int r = tick_owners_fill(&store->writing.owners, record) < 0
			? store_no_memory(store, err)
			: txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = list_processes(store, record, &n, err);
	if (r == 0)
		r = check_before(store, err);
	if (r == 0)
		r = encode_tick(store, record, sort_listed(store->writing.listed, n), err);
	if (r == 0)
		r = add_tick(store, record->snap->wall_ns, ret_id, err);
	if (r == 0)
		r = add_events(store, record, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* ---- what is written so far ---- */

static void begin_recorder(struct store *store, int64_t recorder)
{
	struct tick_writing *w = &store->writing;

	if (w->recorder == recorder)
		return;
	left_fold_free(&store->own);
	w->recorder = recorder;
	w->before_id = 0;
	w->n_pending = -1;
	w->n_fold = FOLD_TICKS;
	seen_forget(store);
}

/* The next tick may differ from this one. */
static void remember_tick(struct tick_writing *w, int64_t id)
{
	struct tick written = w->now;

	w->now = w->before;
	w->before = written;
	if (w->before_id == 0) {
		w->n_segment = 0;
		w->segment_bytes = 0;
	}
	w->before_id = id;
	w->n_segment++;
	w->segment_bytes += w->bytes.len;
}

static bool is_fold_due(struct store *store)
{
	struct tick_writing *w = &store->writing;

	if (w->n_pending >= 0)
		w->n_pending++;
	else if (query_read_number(store, STATEMENT_COUNT_TICKS, w->recorder, &w->n_pending, NULL) <
		 0)
		return false;
	return store->own || w->n_pending >= w->n_fold || w->segment_bytes >= FOLD_BYTES;
}

static uint64_t fold_until(const struct tick_writing *w)
{
	uint64_t more_ns = FOLD_SLICE_NS * w->before.lists[LIST_SAMPLES].n / FOLD_SLICE_PROCESSES;

	if (w->slice_ns == 0)
		more_ns = 0;
	return clock_boot_ns() + w->slice_ns +
	       (more_ns < FOLD_SLICE_MORE_NS ? more_ns : FOLD_SLICE_MORE_NS);
}

/* The tick is safe by now, so a fold that fails is no failure: it is tried again later. */
static void fold_if_due(struct store *store)
{
	struct tick_writing *w = &store->writing;
	int r;

	if (!is_fold_due(store))
		return;
	r = fold_own(store, w->recorder, fold_until(w), NULL);
	if (r < 0 && !store->own)
		w->n_fold = w->n_pending + FOLD_TICKS / 4;
	if (r != 0)
		return;
	w->n_fold = FOLD_TICKS;
	w->n_pending = -1;
}

int store_write_tick(struct store *store, int64_t recorder, const struct tick_record *record,
		     struct err *err)
{
	int64_t id = 0;
	int r;

	begin_recorder(store, recorder);
	r = write_tick(store, record, &id, err);
	if (r < 0) {
		seen_forget(store); /* rows that it added are gone again */
		store->writing.before_id = 0;
		return r;
	}
	remember_tick(&store->writing, id);
	if (store_check_disk(store, NULL) < 0) /* what comes next does not hang on what may go */
		store->writing.before_id = 0;
	fold_if_due(store);
	return 0;
}
