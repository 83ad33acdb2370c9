#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/retain.h"
#include "store/rollup.h"

/* A statement that counts rows before ? and the bytes that they take, about. */
static int count_before(struct store *store, enum statement id, int64_t before, uint64_t *ret_n,
			uint64_t *bytes, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, before);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	*ret_n = (uint64_t)query_read_i64(&q);
	*bytes += (uint64_t)query_read_i64(&q);
	return 0;
}

/* How many samples a chunk has stands at its beginning. */
static int count_samples(struct store *store, int64_t cutoff_ns, struct retention_preview *ret,
			 struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	int r = t ? query_open(store, STATEMENT_OLD_CHUNKS, &q, err) : store_no_memory(store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, cutoff_ns);
	while ((r = query_step(&q, err)) > 0) {
		int64_t id = query_read_i64(&q);
		size_t len;
		const void *data = query_read_blob(&q, id, &len);

		ret->removable_bytes += len;
		if (table_read(data, len, CODEC_ROWS, 0, NULL, t) < 0)
			ret->result.n_damaged++;
		else
			ret->result.n_samples += t->n;
	}
	return r;
}

static int count_minutes(struct store *store, int64_t cutoff_ns, struct retention_preview *ret,
			 struct err *err)
{
	int64_t hour = (int64_t)((uint64_t)cutoff_ns / HOUR_NS);

	return count_before(store, STATEMENT_SIZE_OLD_ROLLUPS, hour << ROLLUP_BITS,
			    &ret->result.n_minutes, &ret->removable_bytes, err);
}

static int read_space(struct store *store, const struct retention_policy *policy,
		      struct retention_preview *ret, struct err *err)
{
	uint64_t used_bytes = 0;
	int r = space_read(store, &ret->result.bytes_before, &used_bytes, err);

	ret->result.bytes_after = U64_UNKNOWN;
	ret->result.beside_bytes = space_beside(store, policy);
	ret->result.wal_bytes = space_of_wal(store);
	used_bytes += ret->result.beside_bytes;
	if (policy->max_bytes && used_bytes > policy->max_bytes + ret->removable_bytes)
		ret->result.over_bytes = used_bytes - policy->max_bytes - ret->removable_bytes;
	return r;
}

int store_preview_retention(struct store *store, const struct retention_policy *policy,
			    uint64_t now_wall_ns, const struct retention_clock *clock,
			    struct retention_preview *ret, struct err *err)
{
	struct retention run = { .policy = *policy, .now_wall_ns = now_wall_ns, .clock = *clock };
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct retention_preview p = { 0 };
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = retain_foresee_hold(store, &run, err);
	if (r == 0)
		r = count_before(store, STATEMENT_SIZE_OLD_FOLDS, retain_full_cutoff(&run),
				 &p.result.n_folds, &p.removable_bytes, err);
	if (r == 0)
		r = count_samples(store, retain_full_cutoff(&run), &p, err);
	if (r == 0)
		r = count_minutes(store, retain_minutes_cutoff(&run), &p, err);
	if (r == 0)
		r = count_before(store, STATEMENT_SIZE_OLD_POINTS, retain_curves_cutoff(&run),
				 &p.result.n_curves, &p.removable_bytes, err);
	if (r == 0)
		r = count_before(store, STATEMENT_SIZE_OLD_EVENTS, retain_events_cutoff(&run),
				 &p.result.n_events, &p.removable_bytes, err);
	if (r == 0)
		r = count_before(store, STATEMENT_SIZE_OLD_ANOMALIES, retain_events_cutoff(&run),
				 &p.result.n_anomalies, &p.removable_bytes, err);
	if (r == 0)
		r = read_space(store, policy, &p, err);
	p.held_until_ns = run.held_until_ns;
	if (r == 0)
		*ret = p;
	return r;
}
