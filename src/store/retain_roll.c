#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/retain_group.h"
#include "store/rollup.h"
#include "store/tables.h"
#include "store/so_far.h"

struct rolling {
	struct slice *slice;
	struct store *store;
	struct retention_result *result;
	uint64_t first_hour; /* minutes before it are too old to be kept */
	struct fold_group group;
	int64_t process;      /* whose samples are being taken… */
	struct totals totals; /* …what they tell, until its attempt ends… */
	int64_t hour;	      /* …and the hour of it that is open; -1: none */
	struct rollup rollup;
	struct table samples; /* of the chunk that is being taken */
	struct table t;	      /* room to work in */
	struct buf bytes;
};

static void rolling_free(struct rolling **g)
{
	if (!*g)
		return;
	buf_release(&(*g)->bytes);
	free(*g);
}

static struct rolling *rolling_new(struct slice *slice)
{
	struct rolling *g = malloc(sizeof(*g));

	if (!g)
		return NULL;
	g->slice = slice;
	g->store = slice->store;
	g->result = &slice->run->result;
	g->first_hour = (uint64_t)retain_minutes_cutoff(slice->run) / HOUR_NS;
	g->hour = -1;
	g->bytes = (struct buf)BUF_INIT;
	return g;
}

/* ---- the minutes of a process ---- */

static int save_hour(struct rolling *g, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t id;
	int r;

	if (g->hour < 0)
		return 0;
	r = query_open(g->store, STATEMENT_PUT_ROLLUP, &q, err);
	if (r < 0)
		return r;
	buf_reset(&g->bytes);
	rollup_write(&g->bytes, &g->rollup, ROLLUP_SAMPLES, &g->t);
	if (buf_error(&g->bytes) < 0)
		return store_no_memory(g->store, err);
	id = g->hour << ROLLUP_BITS | g->process;
	query_bind_i64(&q, id);
	query_bind_blob(&q, id, g->bytes.data, g->bytes.len);
	g->hour = -1;
	return query_run(&q, err);
}

/* What is there of it already; what cannot be read is lost. */
static int open_hour(struct rolling *g, int64_t hour, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t id = hour << ROLLUP_BITS | g->process;
	const void *data;
	size_t len;
	int r = query_open(g->store, STATEMENT_READ_ROLLUP, &q, err);

	if (r < 0)
		return r;
	rollup_init(&g->rollup);
	query_bind_i64(&q, id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	g->hour = hour;
	if (r == 0)
		return 0;
	data = query_read_blob(&q, id, &len);
	if (rollup_read(data, len, ROLLUP_SAMPLES, &g->t, &g->rollup) < 0) {
		g->result->n_damaged++;
		rollup_init(&g->rollup);
	}
	return 0;
}

static int go_to_hour(struct rolling *g, int64_t hour, struct err *err)
{
	int r = g->hour == hour ? 0 : save_hour(g, err);

	return r < 0 || g->hour == hour ? r : open_hour(g, hour, err);
}

static int add_samples(struct rolling *g, const struct old_fold *fold, struct err *err)
{
	int r = 0;

	for (unsigned from = 0, to; r == 0 && from < g->samples.n; from = to) {
		uint64_t minute;

		to = rollup_find_run(&g->samples, from, fold->times.wall_ns, &minute);
		if (minute / ROLLUP_MINUTES < g->first_hour)
			continue;
		r = go_to_hour(g, (int64_t)(minute / ROLLUP_MINUTES), err);
		if (r == 0)
			rollup_minute_add(&g->rollup.minutes[minute % ROLLUP_MINUTES],
					  ROLLUP_SAMPLES, &g->samples, from, to, fold->times.ids);
	}
	return r;
}

/* ---- its chunks ---- */

/* 1: the chunk is in samples. 0: there is none, or it is damaged. */
static int read_chunk(struct rolling *g, const struct old_fold *fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t id = fold->id << CHUNK_BITS | g->process;
	const void *data;
	size_t len;
	int r = query_open(g->store, STATEMENT_READ_CHUNK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	data = query_read_blob(&q, id, &len);
	if (table_read(data, len, fold->times.n, SAMPLE_WORDS, fold->times.boot_ns, &g->samples) <
	    0) {
		g->result->n_damaged++;
		return 0;
	}
	return 1;
}

/* Whose a process is: nobody's, if its attempt was removed. */
enum owner { OWNER_GONE, OWNER_ENDED, OWNER_UNFINISHED };

static int take_chunk(struct rolling *g, const struct old_fold *fold, enum owner owner,
		      struct err *err)
{
	int r = read_chunk(g, fold, err);

	if (r <= 0 || owner == OWNER_GONE)
		return r < 0 ? r : 0;
	if (owner == OWNER_UNFINISHED)
		totals_add(&g->totals, &g->samples);
	g->result->n_samples += g->samples.n;
	return add_samples(g, fold, err);
}

static int find_owner(struct rolling *g, enum owner *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_FIND_OWNER, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, g->process);
	r = query_step(&q, err);
	*ret = r <= 0 ? OWNER_GONE : query_read_i64(&q) ? OWNER_ENDED : OWNER_UNFINISHED;
	return r < 0 ? r : 0;
}

/* Until the attempt ends, with the process's own account, this is all that tells of them. */
static int keep_totals(struct rolling *g, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct proc_record record;
	int r = query_open(g->store, STATEMENT_RAISE_PROCESS, &q, err);

	if (r < 0)
		return r;
	proc_record_init(&record);
	totals_tell(&g->totals, &record);
	query_bind_columns(&q, &process_total_columns, &record);
	query_bind_i64(&q, (int64_t)record.n_samples);
	query_bind_i64(&q, g->process);
	return query_run(&q, err);
}

/* Its chunks in all folds of the group. */
static int roll_process(struct rolling *g, int64_t process, struct err *err)
{
	enum owner owner;
	int r;

	g->process = process;
	totals_init(&g->totals);
	r = find_owner(g, &owner, err);
	for (unsigned i = 0; r == 0 && i < g->group.n; i++)
		if (g->group.folds[i].next == process)
			r = take_chunk(g, &g->group.folds[i], owner, err);
	if (r == 0)
		r = save_hour(g, err);
	if (r == 0 && owner == OWNER_UNFINISHED)
		r = keep_totals(g, err);
	return r < 0 ? r : fold_group_pass(&g->group, process, err);
}

/* At least one process of it, since the slice has asked already. 1: the slice is over. */
static int roll_group(struct rolling *g, struct err *err)
{
	int64_t process;
	int r = retain_roll_gpus(&g->group, g->first_hour, err), goes_on = 1;

	while (r == 0 && goes_on > 0 && (process = fold_group_next(&g->group))) {
		r = roll_process(g, process, err);
		goes_on = r < 0 ? r : slice_goes_on(g->slice, err);
	}
	if (r == 0)
		r = fold_group_mark(&g->group, err);
	if (r < 0 || goes_on <= 0)
		return r < 0 ? r : goes_on < 0 ? goes_on : 1;
	return fold_group_drop(&g->group, err);
}

int retain_roll(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(rolling_free) struct rolling *g = rolling_new(slice);
	int r = g ? 0 : store_no_memory(slice->store, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = fold_group_load(&g->group, slice, cutoff_ns, err);
		if (r <= 0)
			return r;
		r = roll_group(g, err);
	}
	return r < 0 ? r : 1;
}
