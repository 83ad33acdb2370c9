/*
 * cut_events - of whom not all events are listed, so that nobody counts the rest as all.
 */
#include "base/macros.h"
#include "store/query.h"
#include "store/read.h"

#define MAX_NAMED 8 /* attempts in one sentence */

static void name_attempt(struct query *q, size_t i, struct buf *out)
{
	const char *job_id = query_read_text(q);
	int64_t num = query_read_i64(q);
	const char *why = query_read_text(q);

	if (i == MAX_NAMED)
		buf_add_str(out, ", and more");
	else if (i < MAX_NAMED)
		buf_printf(out, "%sjob %s, attempt %lld: %s", i ? "; " : "", job_id ? job_id : "-",
			   (long long)num, why ? why : "-");
}

int store_tell_cut_events(struct store *store, const struct event_filter *filter, struct buf *out,
			  struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job = 0;
	size_t n = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0 && filter->job_id)
		r = job_find_row(store, filter->job_id, &job, err);
	if (r == 0)
		r = query_open(store, STATEMENT_CUT_EVENTS, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, job);
	query_bind_i64(&q, query_as_i64(filter->since_wall_ns));
	query_bind_i64(&q, filter->until_wall_ns ? query_as_i64(filter->until_wall_ns) : INT64_MAX);
	while ((r = query_step(&q, err)) > 0)
		name_attempt(&q, n++, out);
	return r < 0 ? r : n > 0;
}
