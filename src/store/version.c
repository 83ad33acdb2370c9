#include "store/handle.h"
#include "store/query.h"

bool store_version_is_ours(uint64_t before, uint64_t after)
{
	return before >> 32 == after >> 32;
}

int store_read_version(struct store *store, uint64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_DATA_VERSION, &q, err);

	if (r == 0)
		r = query_step(&q, err);
	if (r < 0)
		return r;
	/* SQLite counts what others write; the lower half is ours. */
	*ret = ((uint64_t)query_read_i64(&q) << 32) + store->n_attempt_writes;
	return 0;
}
