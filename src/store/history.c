#include <errno.h>

#include "base/macros.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/tables.h"

static const struct row_part sample_parts[] = {
	{ &sample_process_columns, 0 },
	{ &sample_shared_columns, 0 },
	{ &sample_columns, 0 },
};

/* The tick that a sample belongs to. */
struct tick {
	int64_t id;
	int64_t attempt_id;
	uint64_t wall_ns;
	int attempt_num;
	const char *job_id; /* the query's */
};

static void read_tick(struct query *q, struct tick *tick)
{
	tick->id = query_read_i64(q);
	tick->attempt_id = query_read_i64(q);
	tick->wall_ns = (uint64_t)query_read_i64(q);
	tick->attempt_num = (int)query_read_i64(q);
	tick->job_id = query_read_text(q);
}

static int open_samples(struct store *store, pid_t pid, const struct tick *tick, struct query *q,
			struct err *err)
{
	int r = query_open(
		store, pid ? STATEMENT_HISTORY_SAMPLES_OF_PID : STATEMENT_HISTORY_SAMPLES, q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, tick->id);
	if (pid) {
		query_bind_i64(q, tick->attempt_id);
		query_bind_i64(q, pid);
	}
	return 0;
}

/* Strings stay SQLite's: they live as long as the call of fn. */
static int read_sample(struct query *q, struct proc_sample *p, struct err *err)
{
	proc_sample_init(p);
	return row_read(q, sample_parts, ARRAY_SIZE(sample_parts), p, NULL, err);
}

static int tell_tick(struct store *store, pid_t pid, const struct tick *tick, history_fn *fn,
		     void *ctx, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_samples(store, pid, tick, &q, err);

	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct history_row row = { .wall_ns = tick->wall_ns,
					   .attempt_num = tick->attempt_num };

		r = read_sample(&q, &row.sample, err);
		row.sample.job_id = tick->job_id;
		if (r == 0)
			r = fn(ctx, &row);
	}
	return r;
}

int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_HISTORY_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, (int64_t)filter->since_wall_ns);
	query_bind_text(&q, filter->job_id);
	query_bind_i64(&q, filter->pid);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct tick tick;

		read_tick(&q, &tick);
		r = tell_tick(store, filter->pid, &tick, fn, ctx, err);
	}
	return r;
}
