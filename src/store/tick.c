#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"

/* ---- which row each process has ---- */

/* More than a host has at once; beyond it the cache starts anew instead of growing for ever. */
#define PROCESS_ROWS_MAX 65536

/*
 * The row of this process, made or brought up to date if need be. If the transaction fails, what is
 * remembered of it is wrong.
 */
static int see_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		       int64_t *ret_id, struct err *err)
{
	uint64_t fingerprint =
		process_fingerprint(fingerprint_number(HASH_INIT, (uint64_t)attempt_id), p);
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct process_entry *known;
	int r;

	if (store->process_rows.n >= PROCESS_ROWS_MAX)
		process_index_clear(&store->process_rows);
	known = process_index_find(&store->process_rows, p->key);
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
	if (process_index_add(&store->process_rows, p->key, fingerprint, *ret_id) < 0)
		return store_no_memory(store, err);
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

/* The rows of the attempt's processes, as they stand in the snapshot. */
static int list_processes(struct store *store, const struct attempt *a, const struct snapshot *snap,
			  size_t *ret_n, struct err *err)
{
	struct tick_writing *w = &store->writing;
	size_t n = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		int64_t id = 0;
		int r;

		if (!p->job_id || strcmp(p->job_id, a->job_id) != 0)
			continue;
		r = see_process(store, a->id, p, &id, err);
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

/* The tick with n of the listed processes, into store->writing.bytes. */
static int encode_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		       const struct series_point *point, size_t n, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct tick_writing *w = &store->writing;
	int64_t before_ns = (int64_t)w->before.head[HOST_WALL_NS];
	uint64_t *words;
	int r = 1;

	if (w->n_segment >= FOLD_TICKS || w->segment_bytes >= FOLD_BYTES ||
	    fold_has_gap(before_ns, (int64_t)snap->wall_ns))
		w->before_id = 0;
	/* Retention folds what a recorder has left, also that of one that was only asleep. */
	if (w->before_id)
		r = query_first(store, STATEMENT_HAS_TICK, &q, err, w->before_id, w->recorder);
	if (r < 0)
		return r;
	if (r == 0)
		w->before_id = 0;
	tick_reset(&w->now);
	buf_reset(&w->bytes);
	words = tick_fill_host(&w->now, snap) < 0 ? NULL : tick_add(&w->now, LIST_POINTS, a->id);
	if (!words)
		return store_no_memory(store, err);
	if (point)
		point_to_words(point, words);
	else
		memset(words, 0xff, POINT_WORDS * sizeof(*words)); /* all unknown */
	if (tick_fill_samples(&w->now, &w->call_names, snap, w->listed, n) < 0)
		return store_no_memory(store, err);
	tick_write(&w->bytes, &w->now, w->before_id ? &w->before : NULL, w->before_id);
	return buf_error(&w->bytes) < 0 ? store_no_memory(store, err) : 0;
}

static int write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		      const struct series_point *point, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	uint64_t wall_ns = snap->wall_ns;
	struct tick_writing *w = &store->writing;
	struct tick written;
	int64_t id;
	size_t n = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = list_processes(store, a, snap, &n, err);
	if (r == 0)
		r = encode_tick(store, a, snap, point, n, err);
	if (r == 0)
		r = query_put(store, STATEMENT_ADD_TICK, err, V_I64(w->recorder),
			      V_I64_IF(u64_known(wall_ns), (int64_t)wall_ns),
			      V_BLOB((int64_t)wall_ns, w->bytes.data, w->bytes.len));
	id = sqlite3_last_insert_rowid(store->db);
	if (r == 0 && id > TICK_ID_MAX)
		r = refuse_full(store, "ticks", err);
	if (r < 0)
		return r;
	if (w->before_id == 0) {
		w->n_segment = 0;
		w->segment_bytes = 0;
	}
	written = w->now; /* the next tick may differ from this one */
	w->now = w->before;
	w->before = written;
	w->before_id = id;
	w->n_segment++;
	w->segment_bytes += w->bytes.len;
	/* What is written so far becomes a fold, where it is enough. */
	if (w->n_pending >= 0)
		w->n_pending++;
	else
		r = query_read_number(store, STATEMENT_COUNT_TICKS, w->recorder, &w->n_pending,
				      err);
	if (r >= 0 && (w->n_pending >= FOLD_TICKS || w->segment_bytes >= FOLD_BYTES)) {
		w->before_id = 0;
		w->n_pending = -1;
		r = fold_all(store, w->recorder, err);
	}
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		     const struct series_point *point, struct err *err)
{
	struct tick_writing *w = &store->writing;
	int r;

	if (w->recorder != a->id) {
		w->recorder = a->id;
		w->before_id = 0;
		w->n_pending = -1;
		process_index_clear(&store->process_rows);
	}
	r = write_tick(store, a, snap, point, err);
	if (r < 0) { /* rows that it added are gone again */
		process_index_clear(&store->process_rows);
		w->before_id = 0;
		w->n_pending = -1;
	}
	return r;
}
