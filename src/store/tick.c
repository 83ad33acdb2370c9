#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
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

static uint64_t hash_string(uint64_t h, const char *s)
{
	return s ? hash_bytes(h, s, strlen(s) + 1) : hash_bytes(h, "", 0);
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

static int add_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		    int64_t *ret_id, struct err *err)
{
	int r = rows_write(store, STATEMENT_ADD_TICK, a->id, &tick_columns, snap, 1, sizeof(*snap),
			   err);

	*ret_id = sqlite3_last_insert_rowid(store->db);
	return r;
}

static int add_point(struct store *store, int64_t attempt_id, int64_t tick_id,
		     const struct series_point *point, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_POINT, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_i64(&q, tick_id);
	query_bind_columns(&q, &series_columns, point);
	return query_run(&q, err);
}

static int add_sample(struct query *q, const struct attempt *a, int64_t tick_id,
		      const struct proc_sample *p, struct err *err)
{
	int64_t process_id = 0;
	int r = see_process(q->store, a->id, p, &process_id, err);

	if (r < 0)
		return r;
	query_bind_i64(q, tick_id);
	query_bind_i64(q, process_id);
	query_bind_columns(q, &sample_shared_columns, p);
	query_bind_columns(q, &sample_columns, p);
	return query_run(q, err);
}

static int add_samples(struct store *store, const struct attempt *a, int64_t tick_id,
		       const struct snapshot *snap, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_SAMPLE, &q, err);

	for (size_t i = 0; r == 0 && i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];

		if (p->job_id && strcmp(p->job_id, a->job_id) == 0)
			r = add_sample(&q, a, tick_id, p, err);
	}
	return r;
}

static int write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		      const struct series_point *point, const struct proc_event *events,
		      size_t n_events, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t tick_id = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = add_tick(store, a, snap, &tick_id, err);
	if (r == 0 && point)
		r = add_point(store, a->id, tick_id, point, err);
	if (r == 0)
		r = add_samples(store, a, tick_id, snap, err);
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
