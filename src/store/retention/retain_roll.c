/*
 * retain_roll - samples become minutes.
 *
 * The oldest fold and its recorder's next ones of the same hour are taken together, so that a row
 * of minutes is mostly written once. They are marked first, with their GPUs becoming minutes:
 * from then on they are read as minutes alone. Then process after process: its minutes are written
 * and its chunks removed in one transaction, so a sample is in one of the two, whenever that ends.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/rollup.h"
#include "store/retention/retain.h"
#include "store/tables.h"

#define GROUP_FOLDS 8

struct old_fold {
	int64_t id;
	int64_t next; /* the first process that is not in minutes; 0: all are */
	bool is_whole, is_rolled;
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
	struct minute_sums gpus;
	struct gpu_work gpu_work;
	struct buf bytes;
};

static void rolling_free(struct rolling **g)
{
	if (!*g)
		return;
	minute_sums_release(&(*g)->gpus);
	buf_release(&(*g)->bytes);
	free(*g);
}

static int put_rollup(struct rolling *g, int64_t id, struct err *err)
{
	return buf_error(&g->bytes) < 0 ? store_no_memory(g->store, err)
					: query_put(g->store, STATEMENT_PUT_ROLLUP, err, V_I64(id),
						    V_BLOB(id, g->bytes.data, g->bytes.len));
}

/* ---- the minutes of a process ---- */

static int save_hour(struct rolling *g, struct err *err)
{
	int64_t id;

	if (g->hour < 0)
		return 0;
	id = g->hour << ROLLUP_BITS | g->process;
	buf_reset(&g->bytes);
	rollup_write(&g->bytes, &g->rollup, ROLLUP_SAMPLES, &g->t);
	g->hour = -1;
	return put_rollup(g, id, err);
}

/* With what is there of it already; what cannot be read is lost. */
static int go_to_hour(struct rolling *g, int64_t hour, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t id = hour << ROLLUP_BITS | g->process;
	int r = g->hour == hour ? 0 : save_hour(g, err);

	if (r < 0 || g->hour == hour)
		return r;
	rollup_init(&g->rollup);
	r = query_first(g->store, STATEMENT_READ_ROLLUP, &q, err, id);
	g->hour = r < 0 ? -1 : hour;
	if (r > 0) {
		size_t len;
		const void *data = query_read_blob(&q, id, &len);

		if (rollup_read(data, len, ROLLUP_SAMPLES, &g->t, &g->rollup) < 0) {
			g->result->n_damaged++;
			rollup_init(&g->rollup);
		}
	}
	return r < 0 ? r : 0;
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

/* Whose a process is: nobody's, if its attempt was removed. */
enum chunk_owner { OWNER_GONE, OWNER_ENDED, OWNER_UNFINISHED };

/* Its samples in a fold are added to its minutes, and removed. */
static int take_chunk(struct rolling *g, struct old_fold *fold, enum chunk_owner owner,
		      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t id = fold->id << CHUNK_BITS | g->process;
	const struct fold_times *times = &fold->times;
	int r = query_first(g->store, STATEMENT_READ_CHUNK, &q, err, id);

	if (r > 0 && owner != OWNER_GONE) {
		size_t len;
		const void *data = query_read_blob(&q, id, &len);

		r = 0;
		if (table_read(data, len, times->n, SAMPLE_WORDS, times->boot_ns, &g->samples) <
		    0) {
			g->result->n_damaged++;
		} else {
			if (owner == OWNER_UNFINISHED)
				totals_add(&g->totals, &g->samples);
			g->result->n_samples += g->samples.n;
			r = add_samples(g, fold, err);
		}
	}
	query_close(&q);
	return r < 0 ? r : query_exec(g->store, STATEMENT_DROP_CHUNK, err, id);
}

/* Its chunks in all folds of the group. */
static int roll_process(struct rolling *g, int64_t process, struct err *err)
{
	CLEANUP(query_close) struct query found = QUERY_INIT;
	struct proc_record record;
	enum chunk_owner owner;
	int r = query_first(g->store, STATEMENT_FIND_OWNER, &found, err, process);

	owner = r <= 0 ? OWNER_GONE : query_read_i64(&found) ? OWNER_ENDED : OWNER_UNFINISHED;
	g->process = process;
	totals_init(&g->totals);
	for (unsigned i = 0; r >= 0 && i < g->n_folds; i++) {
		if (g->folds[i].next != process)
			continue;
		r = take_chunk(g, &g->folds[i], owner, err);
		g->folds[i].next = 0;
		if (r == 0)
			r = query_read_number(g->store, STATEMENT_FIRST_CHUNK, g->folds[i].id,
					      &g->folds[i].next, err);
	}
	if (r >= 0)
		r = save_hour(g, err);
	if (r < 0 || owner != OWNER_UNFINISHED)
		return r;
	/* Until the attempt ends, with the process's own account, this is all that tells of them.
	 */
	proc_record_init(&record);
	totals_tell(&g->totals, &record);
	return query_put(g->store, STATEMENT_RAISE_PROCESS, err,
			 V_COLUMNS(&process_total_columns, &record),
			 V_I64((int64_t)record.n_samples), V_I64(process));
}

/* ---- GPUs ---- */

/* Those of a fold in one hour. What cannot be read is lost, and keeps nothing else back. */
static int roll_gpu_hour(struct rolling *g, const struct old_fold *fold, const void *head,
			 size_t len, uint64_t hour, struct err *err)
{
	bool any = false;
	int r;

	minute_sums_begin(&g->gpus, hour * ROLLUP_MINUTES, (hour + 1) * ROLLUP_MINUTES);
	r = gpu_minutes_read_row(g->store, &g->gpus, &g->gpu_work, err);
	if (r == -EBADMSG) {
		g->result->n_damaged++;
		minute_sums_begin(&g->gpus, g->gpus.from, g->gpus.to);
	} else if (r < 0) {
		return r;
	}
	r = gpu_minutes_add_fold(&g->gpus, head, len, &fold->times, &g->gpu_work, &any);
	if (r == -EBADMSG)
		g->result->n_damaged++;
	else if (r < 0)
		return r == -ENOMEM ? store_no_memory(g->store, err) : r;
	if (!any)
		return 0;
	buf_reset(&g->bytes);
	gpu_minutes_write(&g->bytes, &g->gpus, &g->gpu_work);
	return put_rollup(g, gpu_minutes_row_id(&g->gpus), err);
}

static int roll_gpus(struct rolling *g, const struct old_fold *fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	uint64_t hour = 0, next = g->first_hour;
	const void *head;
	size_t len;
	int r = fold->times.has_gpus ? query_first(g->store, STATEMENT_READ_FOLD, &q, err, fold->id)
				     : 0;

	if (r <= 0)
		return r;
	head = query_read_blob(&q, fold->id, &len);
	for (r = 0; r == 0; next = hour + 1) {
		hour = UINT64_MAX; /* the first that has a tick, from next on */
		for (unsigned i = 0; i < fold->times.n; i++) {
			uint64_t of_tick = fold->times.wall_ns[i] / HOUR_NS;

			hour = of_tick >= next && of_tick < hour ? of_tick : hour;
		}
		if (hour == UINT64_MAX)
			return 0;
		r = roll_gpu_hour(g, fold, head, len, hour, err);
	}
	return r;
}

/* ---- the folds of an hour ---- */

/* 1: there is something to do, which may have been to drop what is damaged. 0: nothing is left. */
static int load_hour(struct rolling *g, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(query_close) struct query oldest = QUERY_INIT, q = QUERY_INIT;
	int64_t recorder, first_ns;
	unsigned n = 0;
	int r = query_first(g->store, STATEMENT_OLDEST_FOLD, &oldest, err, cutoff_ns);

	g->n_folds = 0;
	if (r <= 0)
		return r;
	recorder = query_read_i64(&oldest);
	first_ns = query_read_i64(&oldest);
	r = query_ask(g->store, STATEMENT_FOLDS_OF_HOUR, &q, err, first_ns,
		      (int64_t)((uint64_t)first_ns / HOUR_NS * HOUR_NS + HOUR_NS - 1), cutoff_ns,
		      recorder, GROUP_FOLDS);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct old_fold *fold = &g->folds[g->n_folds++];
		const void *data;
		size_t len;

		fold->id = query_read_i64(&q);
		fold->is_rolled = query_read_i64(&q);
		data = query_read_some_blob(&q, fold->id, &len, &fold->is_whole);
		r = fold_times_read(data, len, fold->is_whole, &g->t, &fold->times);
		if (r == -ENOMEM)
			return store_no_memory(g->store, err);
		fold->times.n = r < 0 ? 0 : fold->times.n;
		r = 0;
	}
	for (unsigned i = 0; r >= 0 && i < g->n_folds; i++) {
		struct old_fold *fold = &g->folds[n];

		*fold = g->folds[i];
		if (fold->times.n == 0) { /* when its ticks were cannot be told: it goes */
			g->result->n_damaged++;
			r = query_exec(g->store, STATEMENT_DROP_FOLD, err, fold->id);
			continue;
		}
		n++;
		if (!fold->is_rolled)
			r = roll_gpus(g, fold, err);
		if (r >= 0 && !fold->is_rolled) {
			g->result->n_damaged += !fold->is_whole; /* what is behind the times */
			r = query_exec(g->store, STATEMENT_BEGIN_ROLLING, err, fold->id);
		}
		fold->next = 0;
		if (r >= 0)
			r = query_read_number(g->store, STATEMENT_FIRST_CHUNK, fold->id,
					      &fold->next, err);
	}
	g->n_folds = n;
	return r < 0 ? r : 1;
}

/* At least one process of it, since the slice has asked already. 1: the slice is over. */
static int roll_hour(struct rolling *g, struct err *err)
{
	int r = 0;

	for (;;) {
		int64_t process = 0;

		for (unsigned i = 0; i < g->n_folds; i++) {
			int64_t next = g->folds[i].next;

			process = next && (process == 0 || next < process) ? next : process;
		}
		if (process == 0)
			break;
		r = roll_process(g, process, err);
		if (r < 0)
			return r;
		r = slice_goes_on(g->slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
	}
	for (unsigned i = 0; r >= 0 && i < g->n_folds; i++) {
		r = query_exec(g->store, STATEMENT_DROP_FOLD, err, g->folds[i].id);
		g->result->n_folds++;
	}
	return r < 0 ? r : 0;
}

int retain_roll(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(rolling_free) struct rolling *g = malloc(sizeof(*g));
	int r = g ? 0 : store_no_memory(slice->store, err);

	if (r < 0)
		return r;
	g->slice = slice;
	g->store = slice->store;
	g->result = &slice->run->result;
	g->first_hour = (uint64_t)retain_minutes_cutoff(slice->run) / HOUR_NS;
	g->hour = -1;
	g->gpus = (struct minute_sums){ 0 };
	g->bytes = (struct buf)BUF_INIT;
	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = load_hour(g, cutoff_ns, err);
		if (r <= 0)
			return r;
		r = roll_hour(g, err);
	}
	return r < 0 ? r : 1;
}
