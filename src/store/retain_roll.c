#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/fold_times.h"
#include "store/retain.h"
#include "store/rollup.h"
#include "store/tables.h"
#include "store/totals.h"

/*
 * The oldest fold goes first, and with each chunk of it those of the same process in
 * the recorder's next folds of the hour: so a row of minutes is mostly written once.
 */
#define GROUP_FOLDS 8

struct old_fold {
	int64_t id;
	struct fold_times times;
};

struct rolling {
	struct slice *slice;
	struct store *store;
	struct retention_result *result;
	uint64_t first_hour; /* minutes before it are too old to be kept */
	struct old_fold folds[GROUP_FOLDS];
	unsigned n_folds;
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
	g->n_folds = 0;
	g->hour = -1;
	g->bytes = (struct buf)BUF_INIT;
	return g;
}

/* ---- the group ---- */

static int run_for(struct store *store, enum statement id, int64_t key, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, key);
	return query_run(&q, err);
}

/* One that nobody can tell the times of is gone with its chunks. */
static int drop_damaged(struct rolling *g, int64_t fold, struct err *err)
{
	g->result->n_damaged++;
	return run_for(g->store, STATEMENT_DROP_FOLD, fold, err);
}

static int read_group(struct rolling *g, struct query *q, struct err *err)
{
	int r;

	while ((r = query_step(q, err)) > 0) {
		struct old_fold *fold = &g->folds[g->n_folds];
		const void *data;
		size_t len;

		fold->id = query_read_i64(q);
		data = query_read_blob(q, &len);
		r = fold_times_read(data, len, &g->t, &fold->times);
		if (r == -ENOMEM)
			return store_no_memory(g->store, err);
		fold->times.n = r < 0 ? 0 : fold->times.n;
		g->n_folds++;
	}
	return r;
}

/* From now on nobody takes them for whole. Those that are damaged have no ticks. */
static int claim_group(struct rolling *g, struct err *err)
{
	unsigned n = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < g->n_folds; i++) {
		if (g->folds[i].times.n == 0) {
			r = drop_damaged(g, g->folds[i].id, err);
			continue;
		}
		g->folds[n] = g->folds[i];
		r = run_for(g->store, STATEMENT_CLAIM_FOLD, g->folds[n++].id, err);
	}
	g->n_folds = n;
	return r;
}

/* 1: there is something to do, which may have been to drop what is damaged. 0: nothing is left. */
static int load_group(struct rolling *g, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(query_close) struct query oldest = QUERY_INIT, group = QUERY_INIT;
	int64_t recorder, first_ns;
	int r = query_open(g->store, STATEMENT_OLDEST_FOLD, &oldest, err);

	if (r < 0)
		return r;
	query_bind_i64(&oldest, cutoff_ns);
	r = query_step(&oldest, err);
	if (r <= 0)
		return r;
	recorder = query_read_i64(&oldest);
	first_ns = query_read_i64(&oldest);
	r = query_open(g->store, STATEMENT_FOLDS_OF_HOUR, &group, err);
	if (r < 0)
		return r;
	query_bind_i64(&group, first_ns);
	query_bind_i64(&group, (int64_t)((uint64_t)first_ns / HOUR_NS * HOUR_NS + HOUR_NS - 1));
	query_bind_i64(&group, cutoff_ns);
	query_bind_i64(&group, recorder);
	query_bind_i64(&group, GROUP_FOLDS);
	g->n_folds = 0;
	r = read_group(g, &group, err);
	if (r == 0)
		r = claim_group(g, err);
	return r < 0 ? r : 1;
}

/* ---- the minutes of a process ---- */

static int save_hour(struct rolling *g, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = g->hour < 0 ? 0 : query_open(g->store, STATEMENT_PUT_ROLLUP, &q, err);

	if (r < 0 || g->hour < 0)
		return r;
	buf_reset(&g->bytes);
	rollup_write(&g->bytes, &g->rollup, &g->t);
	if (buf_error(&g->bytes) < 0)
		return store_no_memory(g->store, err);
	query_bind_i64(&q, g->hour << ROLLUP_BITS | g->process);
	query_bind_blob(&q, g->bytes.data, g->bytes.len);
	g->hour = -1;
	return query_run(&q, err);
}

/* What is there of it already; what cannot be read is lost. */
static int open_hour(struct rolling *g, int64_t hour, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(g->store, STATEMENT_READ_ROLLUP, &q, err);

	if (r < 0)
		return r;
	rollup_init(&g->rollup);
	query_bind_i64(&q, hour << ROLLUP_BITS | g->process);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	g->hour = hour;
	if (r == 0)
		return 0;
	data = query_read_blob(&q, &len);
	if (rollup_read(data, len, &g->t, &g->rollup) < 0) {
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
			rollup_minute_add(&g->rollup.minutes[minute % ROLLUP_MINUTES], &g->samples,
					  from, to, fold->times.ids);
	}
	return r;
}

/* ---- its chunks ---- */

/* 1: the chunk is in samples. 0: there is none, or it is damaged. */
static int read_chunk(struct rolling *g, const struct old_fold *fold, int64_t id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(g->store, STATEMENT_READ_CHUNK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	data = query_read_blob(&q, &len);
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
	int64_t id = fold->id << CHUNK_BITS | g->process;
	int r = read_chunk(g, fold, id, err);

	if (r > 0 && owner == OWNER_UNFINISHED)
		totals_add(&g->totals, &g->samples);
	if (r > 0 && owner != OWNER_GONE) {
		g->result->n_samples += g->samples.n;
		r = add_samples(g, fold, err);
	}
	if (r >= 0)
		r = run_for(g->store, STATEMENT_DROP_CHUNK, id, err);
	return r;
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

/* Its chunks in the group from fold number k on; those before have none any more. */
static int roll_process(struct rolling *g, int64_t process, unsigned k, struct err *err)
{
	enum owner owner;
	int r;

	g->process = process;
	totals_init(&g->totals);
	r = find_owner(g, &owner, err);
	for (unsigned i = k; r == 0 && i < g->n_folds; i++)
		r = take_chunk(g, &g->folds[i], owner, err);
	if (r == 0)
		r = save_hour(g, err);
	if (r == 0 && owner == OWNER_UNFINISHED)
		r = keep_totals(g, err);
	return r;
}

/* The process of the first chunk that the fold has left; 0 too if there is none. */
static int next_process(struct rolling *g, const struct old_fold *fold, int64_t *ret,
			struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_FIRST_CHUNK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->id);
	r = query_step(&q, err);
	if (r > 0)
		*ret = query_read_i64(&q);
	return r;
}

/* At least one process of it, since the slice has asked already. 1: the slice is over. */
static int roll_fold(struct rolling *g, unsigned k, struct err *err)
{
	int64_t process = 0;
	int r;

	while ((r = next_process(g, &g->folds[k], &process, err)) > 0) {
		r = roll_process(g, process, k, err);
		if (r == 0)
			r = slice_goes_on(g->slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
	}
	if (r == 0)
		r = run_for(g->store, STATEMENT_DROP_FOLD, g->folds[k].id, err);
	if (r == 0)
		g->result->n_folds++;
	return r;
}

int retain_roll(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(rolling_free) struct rolling *g = rolling_new(slice);
	int r = g ? 0 : store_no_memory(slice->store, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = load_group(g, cutoff_ns, err);
		if (r <= 0)
			return r;
		r = 0;
		for (unsigned k = 0; r == 0 && k < g->n_folds; k++)
			r = roll_fold(g, k, err);
	}
	return r < 0 ? r : 1;
}
