#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/tables.h"

/* More than a host has at once; beyond it the cache starts anew instead of growing for ever. */
#define SEEN_MAX 65536

/* ---- which row a process has ---- */

static void forget_processes(struct store *store)
{
	map_clear(&store->seen.row_ids);
	map_clear(&store->seen.fingerprints);
	store->seen.n_ticks = -1;
}

static void remember_attempt(struct store *store, int64_t attempt_id)
{
	if (store->seen.attempt_id != attempt_id || store->seen.row_ids.len >= SEEN_MAX)
		forget_processes(store);
	store->seen.attempt_id = attempt_id;
}

/*
 * Pids are below 2^22 (the kernel's PID_MAX_LIMIT), and 2^42 clock ticks are
 * centuries, so both fit into one number; false for a key that does not.
 */
static bool process_cache_key(struct proc_key key, uint64_t *ret)
{
	const uint64_t limit = UINT64_C(1) << 42;
	uint64_t start = u64_known(key.start_ticks) ? key.start_ticks : limit - 1;

	if (key.pid < 0 || key.pid >= 1 << 22 || start >= limit)
		return false;
	*ret = (uint64_t)key.pid << 42 | start;
	return true;
}

/* Eight bytes at a time: this is done for every sample. */
static uint64_t hash_string(uint64_t h, const char *s)
{
	size_t len = s ? strlen(s) + 1 : 0;

	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = 0;

		memcpy(&word, s + at, len - at < 8 ? len - at : 8);
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return h * 31 + len;
}

/* Of what can change about a process in its row: exec gives it another command. */
static uint64_t process_fingerprint(const struct proc_sample *p)
{
	const int belongs[] = { p->sheet_num, p->rank };
	uint64_t h = hash_bytes(HASH_INIT, belongs, sizeof(belongs));

	h = hash_string(h, p->comm);
	h = hash_string(h, p->command);
	return hash_string(h, p->cgroup);
}

static int put_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		       int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SEE_PROCESS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_columns(&q, &sample_process_columns, p);
	query_bind_columns(&q, &sample_shared_columns, p);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	*ret_id = query_read_i64(&q);
	return query_run(&q, err);
}

/* True and the row's id if the row is there and says what p says. */
static bool find_seen(const struct store *store, uint64_t key, const struct proc_sample *p,
		      uint64_t fingerprint, int64_t *ret_id)
{
	uint64_t id, known;

	if (!map_get(&store->seen.row_ids, key, &id) ||
	    !map_get(&store->seen.fingerprints, key, &known))
		return false;
	/* The command line of a zombie is gone; the row keeps the one it lived with. */
	if (known != fingerprint && p->state != 'Z')
		return false;
	*ret_id = (int64_t)id;
	return true;
}

/* The row of this process, made or brought up to date if need be. */
static int see_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		       int64_t *ret_id, struct err *err)
{
	uint64_t fingerprint = process_fingerprint(p);
	uint64_t key = 0;
	bool is_cacheable = process_cache_key(p->key, &key);
	int r;

	if (is_cacheable && find_seen(store, key, p, fingerprint, ret_id))
		return 0;
	r = put_process(store, attempt_id, p, ret_id, err);
	if (r < 0 || !is_cacheable)
		return r;
	if (map_put(&store->seen.row_ids, key, (uint64_t)*ret_id) < 0 ||
	    map_put(&store->seen.fingerprints, key, fingerprint) < 0)
		return err_set(err, -ENOMEM, "no memory left to record a tick");
	return 0;
}

/* ---- the tick ---- */

static int list_process(struct tick_room *room, size_t n, int64_t id, size_t index)
{
	if (n == room->cap) {
		size_t cap = room->cap ? room->cap * 2 : 64;
		struct listed_process *listed = reallocarray(room->listed, cap, sizeof(*listed));

		if (!listed)
			return -ENOMEM;
		room->listed = listed;
		room->cap = cap;
	}
	room->listed[n] = (struct listed_process){ id, index };
	return 0;
}

static bool is_of_job(const struct proc_sample *p, const struct attempt *a)
{
	return p->job_id && (p->job_id == a->job_id || strcmp(p->job_id, a->job_id) == 0);
}

/* The rows of the attempt's processes, as they stand in the snapshot. */
static int list_processes(struct store *store, const struct attempt *a, const struct snapshot *snap,
			  size_t *ret_n, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		int64_t id = 0;
		int r;

		if (!is_of_job(p, a))
			continue;
		r = see_process(store, a->id, p, &id, err);
		if (r < 0)
			return r;
		if (list_process(&store->room, n++, id, i) < 0)
			return store_no_memory(store, err);
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

/* The tick with n of the listed processes, into store->room.bytes. */
static int encode_tick(struct store *store, const struct snapshot *snap,
		       const struct series_point *point, size_t n, struct err *err)
{
	struct tick_room *room = &store->room;
	struct tick_head head;
	int64_t previous = 0;

	tick_head_init(&head, snap, point);
	buf_reset(&room->bytes);
	tick_write_head(&room->bytes, &head, n);
	for (size_t i = 0; i < n; i++) {
		tick_write_sample(&room->bytes, &head, previous, room->listed[i].id,
				  &snap->processes[room->listed[i].index]);
		previous = room->listed[i].id;
	}
	return buf_error(&room->bytes) < 0 ? store_no_memory(store, err) : 0;
}

static int add_tick(struct store *store, int64_t attempt_id, uint64_t wall_ns, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_TICK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	if (u64_known(wall_ns))
		query_bind_i64(&q, (int64_t)wall_ns);
	else
		query_bind_text(&q, NULL);
	query_bind_blob(&q, store->room.bytes.data, store->room.bytes.len);
	return query_run(&q, err);
}

static int count_ticks(struct store *store, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_COUNT_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, store->seen.attempt_id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	store->seen.n_ticks = query_read_i64(&q);
	store->seen.n_tick_bytes = query_read_i64(&q);
	return 0;
}

/* The tick was added: counts it, and folds when there are enough. */
static int fold_if_due(struct store *store, struct err *err)
{
	struct seen_processes *seen = &store->seen;
	int r = 0;

	if (seen->n_ticks < 0)
		r = count_ticks(store, err);
	else {
		seen->n_ticks++;
		seen->n_tick_bytes += (int64_t)store->room.bytes.len;
	}
	if (r < 0 || (seen->n_ticks < FOLD_TICKS && seen->n_tick_bytes < FOLD_BYTES))
		return r;
	seen->n_ticks = -1;
	return fold_some(store, seen->attempt_id, err);
}

static int write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		      const struct series_point *point, const struct proc_event *events,
		      size_t n_events, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	size_t n = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = list_processes(store, a, snap, &n, err);
	if (r == 0)
		r = encode_tick(store, snap, point, sort_listed(store->room.listed, n), err);
	if (r == 0)
		r = add_tick(store, a->id, snap->wall_ns, err);
	if (r == 0)
		r = fold_if_due(store, err);
	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_EVENT, a->id, &event_columns, events, n_events,
			       sizeof(*events), err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		     const struct series_point *point, const struct proc_event *events,
		     size_t n_events, struct err *err)
{
	int r;

	remember_attempt(store, a->id);
	r = write_tick(store, a, snap, point, events, n_events, err);
	if (r < 0)
		forget_processes(store); /* rows that it added are gone again */
	return r;
}
