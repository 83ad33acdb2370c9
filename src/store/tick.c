#include "store/handle.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/query.h"
#include "store/tables.h"

void tick_owners_release(struct tick_owners *owners)
{
	free(owners->by_id);
	map_release(&owners->by_key);
}

/* ---- by row ---- */

static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* One that has no row, or is there twice, is not there again. */
static int sort_attempts(struct tick_owners *owners, const struct tick_record *record)
{
	size_t n = 0;

	owners->n = 0;
	if (ARRAY_RESERVE(owners->by_id, owners->cap, record->n_attempts) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < record->n_attempts; i++)
		if (record->attempts[i]->id > 0)
			owners->by_id[n++] = (struct owner){ record->attempts[i]->id, i };
	if (n > 1)
		qsort(owners->by_id, n, sizeof(*owners->by_id), compare_owners);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || owners->by_id[i].id != owners->by_id[i - 1].id)
			owners->by_id[owners->n++] = owners->by_id[i];
	return 0;
}

static const struct attempt *find_id(const struct tick_owners *owners,
				     const struct tick_record *record, int64_t id)
{
	size_t low = 0, high = owners->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (owners->by_id[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == owners->n || owners->by_id[low].id != id)
		return NULL;
	return record->attempts[owners->by_id[low].index];
}

/* ---- by the job, whose address comes before its name ---- */

static uint64_t address_key(const char *job_id)
{
	return (uint64_t)(uintptr_t)job_id;
}

static uint64_t name_key(const char *job_id)
{
	return hash_bytes(HASH_INIT, job_id, strlen(job_id));
}

/* The first counts. */
static int add_key(struct map *m, uint64_t key, size_t index)
{
	uint64_t first;

	return map_get(m, key, &first) ? 0 : map_put(m, key, index);
}

int tick_owners_fill(struct tick_owners *owners, const struct tick_record *record)
{
	int r = sort_attempts(owners, record);

	map_clear(&owners->by_key);
	for (size_t i = 0; r == 0 && i < record->n_attempts; i++) {
		const char *job_id = record->attempts[i]->job_id;

		r = add_key(&owners->by_key, address_key(job_id), i);
		if (r == 0 && record->owner == TICK_BY_NAME)
			r = add_key(&owners->by_key, name_key(job_id), i);
	}
	return r;
}

/* Two names of one hash: the map has the first of them. */
static const struct attempt *search(const struct tick_record *record, const char *job_id)
{
	for (size_t i = 0; i < record->n_attempts; i++)
		if (strcmp(record->attempts[i]->job_id, job_id) == 0)
			return record->attempts[i];
	return NULL;
}

static bool is_job(const struct tick_record *record, const struct attempt *a, const char *job_id)
{
	return a->job_id == job_id ||
	       (record->owner == TICK_BY_NAME && strcmp(a->job_id, job_id) == 0);
}

static const struct attempt *find_job(const struct tick_owners *owners,
				      const struct tick_record *record, const char *job_id)
{
	const struct attempt *a;
	uint64_t i;

	if (!job_id)
		return NULL;
	if (record->n_attempts == 1)
		return is_job(record, record->attempts[0], job_id) ? record->attempts[0] : NULL;
	if (map_get(&owners->by_key, address_key(job_id), &i) &&
	    record->attempts[i]->job_id == job_id)
		return record->attempts[i];
	if (record->owner != TICK_BY_NAME || !map_get(&owners->by_key, name_key(job_id), &i))
		return NULL;
	a = record->attempts[i];
	return strcmp(a->job_id, job_id) == 0 ? a : search(record, job_id);
}

const struct attempt *tick_owner_of_process(const struct tick_owners *owners,
					    const struct tick_record *record,
					    const struct proc_sample *p)
{
	if (record->owner != TICK_BY_ID)
		return find_job(owners, record, p->job_id);
	return p->job_id ? find_id(owners, record, p->attempt_id) : NULL;
}

const struct attempt *tick_owner_of_event(const struct tick_owners *owners,
					  const struct tick_record *record,
					  const struct proc_event *ev)
{
	const struct attempt *a = find_job(owners, record, ev->job_id);

	return !a && record->n_attempts == 1 ? record->attempts[0] : a;
}

/* ---- which row each process has ---- */

/* More than a host has at once; beyond it the cache starts anew instead of growing for ever. */
#define SEEN_MAX 65536

/*
 * The row of this process, made or brought up to date if need be. If the transaction fails, what is
 * remembered of it is wrong.
 */
static int seen_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
			int64_t *ret_id, struct err *err)
{
	uint64_t fingerprint =
		process_fingerprint(fingerprint_number(HASH_INIT, (uint64_t)attempt_id), p);
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct process_entry *known;
	int r;

	if (store->seen.n >= SEEN_MAX)
		process_index_clear(&store->seen);
	known = process_index_find(&store->seen, p->key);
	/* The command line of a zombie is gone; the row keeps the one it lived with. */
	if (known && (known->fingerprint == fingerprint || p->state == 'Z')) {
		*ret_id = known->number;
		return 0;
	}
	r = query_ask(store, STATEMENT_SEE_PROCESS, &q, err, attempt_id);
	if (r < 0)
		return r;
	query_bind_columns(&q, &sample_process_columns, p);
	query_bind_columns(&q, &sample_shared_columns, p);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	*ret_id = query_read_i64(&q);
	r = query_run(&q, err);
	if (r < 0)
		return r;
	if (known) {
		known->fingerprint = fingerprint;
		known->number = *ret_id;
		return 0;
	}
	if (process_index_add(&store->seen, p->key, fingerprint, *ret_id) < 0)
		return store_no_memory(store, err);
	return 0;
}

/* ---- a snapshot becomes the words of a tick ---- */

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

/* Retention folds what a recorder has left, also that of one who was only asleep. */
static int check_before(struct store *store, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct tick_writing *w = &store->writing;
	int r = w->before_id
			? query_first(store, STATEMENT_HAS_TICK, &q, err, w->before_id, w->recorder)
			: 0;

	if (r == 0)
		w->before_id = 0;
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
	if (tick_fill_host(&w->now, record->snap) < 0 ||
	    fill_points(&w->now, &w->owners, record) < 0 ||
	    tick_fill_samples(&w->now, &w->call_names, record->snap, w->listed, n) < 0)
		return store_no_memory(store, err);
	tick_write(&w->bytes, &w->now, w->before_id ? &w->before : NULL, w->before_id);
	return buf_error(&w->bytes) < 0 ? store_no_memory(store, err) : 0;
}

static int add_tick(struct store *store, uint64_t wall_ns, int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_ADD_TICK, &q, err, store->writing.recorder);

	if (r < 0)
		return r;
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
		r = encode_tick(store, record, n, err);
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
	w->recorder = recorder;
	w->before_id = 0;
	w->n_pending = -1;
	w->n_fold = FOLD_TICKS;
	process_index_clear(&store->seen);
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
	return w->n_pending >= w->n_fold || w->segment_bytes >= FOLD_BYTES;
}

/* The tick is safe by now, so a fold that fails is no failure: it is tried again later. But in a
 * batch it may have done half of it. */
static int fold_if_due(struct store *store, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct tick_writing *w = &store->writing;
	int r;

	if (!is_fold_due(store))
		return 0;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = fold_all(store, w->recorder, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	w->before_id = 0;
	w->n_fold = r < 0 ? w->n_pending + FOLD_TICKS / 4 : FOLD_TICKS;
	w->n_pending = r < 0 ? w->n_pending : -1;
	return store->is_batch ? r : 0;
}

int store_write_tick(struct store *store, int64_t recorder, const struct tick_record *record,
		     struct err *err)
{
	int64_t id = 0;
	int r;

	begin_recorder(store, recorder);
	r = write_tick(store, record, &id, err);
	if (r < 0) {
		process_index_clear(&store->seen); /* rows that it added are gone again */
		store->writing.before_id = 0;
		return r;
	}
	remember_tick(&store->writing, id);
	if (store_check_disk(store, NULL) < 0) /* what comes next does not hang on what may go */
		store->writing.before_id = 0;
	return fold_if_due(store, store->is_batch ? err : NULL);
}
