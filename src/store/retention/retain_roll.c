/*
 * retain_roll - samples become minutes.
 *
 * The oldest fold and its recorder's next ones of the same hour are taken together, so that a row
 * of minutes is mostly written once. They are marked first, with their GPUs becoming minutes:
 * from then on they are read as minutes alone. Then group after group: its minutes are written
 * and its chunks removed in one transaction, so a sample is in one of the two, whenever that ends.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/rollup.h"
#include "store/retention/retain.h"
#include "store/tables.h"

#define GROUP_FOLDS 6 /* an hour at the default interval */

struct old_fold {
	int64_t id;
	int64_t next; /* the first group that is not in minutes; NO_GROUP: all are */
	bool is_rolled;
	struct fold_times times;
};
#define NO_GROUP INT64_MAX

/* A process of the group whose samples are being taken. */
struct old_process {
	bool is_taken;	 /* some of them are */
	bool has_hour;	 /* it has minutes in the hour… */
	bool is_changed; /* …and some of them are new */
	enum owner {
		OWNER_GONE,
		OWNER_ENDED,
		OWNER_UNFINISHED
	} owner;	      /* its attempt was removed,
				 or has told of it… */
	struct totals totals; /* …or not yet: what they tell until then */
	struct rollup rollup; /* of the hour */
};

struct rolling {
	struct slice *slice;
	struct store *store;
	struct retention_result *result;
	uint64_t first_hour; /* minutes before it are too old to be kept */
	struct old_fold folds[GROUP_FOLDS];
	unsigned n_folds;
	int64_t group;
	struct old_process processes[GROUP_PROCESSES];
	int64_t hour;	      /* whose minutes are being made */
	struct table samples; /* that are being taken */
	struct table t;	      /* room to work in */
	struct minute_sums gpus;
	struct gpu_work gpu_work;
	struct buf raw, item, bytes;
};

static void rolling_free(struct rolling **g)
{
	if (!*g)
		return;
	minute_sums_release(&(*g)->gpus);
	buf_release(&(*g)->gpu_work.raw);
	buf_release(&(*g)->raw);
	buf_release(&(*g)->item);
	buf_release(&(*g)->bytes);
	free(*g);
}

static int put_rollup(struct rolling *g, int64_t id, struct err *err)
{
	return buf_error(&g->bytes) < 0 ? store_no_memory(g->store, err)
					: query_put(g->store, STATEMENT_PUT_ROLLUP, err, V_I64(id),
						    V_BLOB(id, g->bytes.data, g->bytes.len));
}

/* ---- the minutes of a group ---- */

static int save_hour(struct rolling *g, struct err *err)
{
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	bool is_changed = false;

	for (int64_t i = 0; i < GROUP_PROCESSES; i++) {
		is_changed |= g->processes[i].is_changed;
		if (!g->processes[i].has_hour)
			continue;
		buf_reset(&g->item);
		rollup_write(&g->item, &g->processes[i].rollup, ROLLUP_SAMPLES, &g->t);
		item_write(&raw, g->group | i, g->item.data, g->item.len);
	}
	if (!is_changed)
		return 0;
	buf_reset(&g->bytes);
	pack_write(&g->bytes, &raw);
	return put_rollup(g, g->hour << ROLLUP_BITS | g->group, err);
}

/* With what is there of it already; what cannot be read is lost. */
static int open_hour(struct rolling *g, int64_t hour, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	int64_t id = hour << ROLLUP_BITS | g->group, process;
	struct item_reader items;
	const void *data;
	size_t len;
	int r = query_first(g->store, STATEMENT_READ_ROLLUP, &q, err, id);

	g->hour = hour;
	for (size_t i = 0; i < GROUP_PROCESSES; i++)
		g->processes[i].has_hour = g->processes[i].is_changed = false;
	if (r <= 0)
		return r;
	r = query_read_pack(&q, id, &raw, err);
	items = item_reader(&raw, g->group);
	while (r == 0 && (r = item_read(&items, &process, &data, &len)) > 0) {
		struct old_process *p = &g->processes[process & GROUP_MASK];

		p->has_hour = rollup_read(data, len, ROLLUP_SAMPLES, &g->t, &p->rollup) >= 0;
		r = p->has_hour ? 0 : -EBADMSG;
	}
	g->result->n_damaged += r == -EBADMSG;
	return r == -EBADMSG ? 0 : r;
}

/* Those of the hour. */
static void add_samples(struct rolling *g, struct old_process *p, const struct old_fold *fold)
{
	for (unsigned from = 0, to; from < g->samples.n; from = to) {
		uint64_t minute;

		to = rollup_find_run(&g->samples, from, fold->times.wall_ns, &minute);
		if (minute / ROLLUP_MINUTES != (uint64_t)g->hour)
			continue;
		if (!p->has_hour)
			rollup_init(&p->rollup);
		p->has_hour = p->is_changed = true;
		rollup_minute_add(&p->rollup.minutes[minute % ROLLUP_MINUTES], ROLLUP_SAMPLES,
				  &g->samples, from, to, fold->times.ids);
	}
}

/* The samples of the group in a fold are added to its minutes of the hour. */
static int take_chunk(struct rolling *g, struct old_fold *fold, bool is_first, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t id = fold->id << CHUNK_BITS | g->group, process;
	struct item_reader items;
	const void *data;
	size_t len;
	int r = query_first(g->store, STATEMENT_READ_CHUNK, &q, err, id);

	if (r <= 0)
		return r;
	r = query_read_pack(&q, id, &g->raw, err);
	items = item_reader(&g->raw, g->group);
	while (r == 0 && (r = item_read(&items, &process, &data, &len)) > 0) {
		struct old_process *p = &g->processes[process & GROUP_MASK];

		if (!p->is_taken) {
			CLEANUP(query_close) struct query owner = QUERY_INIT;

			r = query_first(g->store, STATEMENT_FIND_OWNER, &owner, err, process);
			if (r < 0)
				break;
			p->is_taken = true;
			p->owner = r == 0		    ? OWNER_GONE
				   : query_read_i64(&owner) ? OWNER_ENDED
							    : OWNER_UNFINISHED;
			totals_init(&p->totals);
		}
		r = 0;
		if (p->owner == OWNER_GONE)
			continue;
		if (table_read(data, len, fold->times.n, SAMPLE_WORDS, fold->times.boot_ns,
			       &g->samples) < 0) {
			g->result->n_damaged += is_first;
			continue;
		}
		if (is_first && p->owner == OWNER_UNFINISHED)
			totals_add(&p->totals, &g->samples);
		g->result->n_samples += is_first ? g->samples.n : 0;
		add_samples(g, p, fold);
	}
	g->result->n_damaged += r == -EBADMSG && is_first;
	return r == -EBADMSG ? 0 : r;
}

/* From which hour to which its ticks were; those of hours that are too old are dropped. */
static void find_hours(const struct old_fold *fold, uint64_t *ret_first, uint64_t *ret_last)
{
	*ret_first = UINT64_MAX;
	*ret_last = 0;
	for (unsigned i = 0; i < fold->times.n; i++) {
		uint64_t hour = fold->times.wall_ns[i] / HOUR_NS;

		*ret_first = hour < *ret_first ? hour : *ret_first;
		*ret_last = hour > *ret_last ? hour : *ret_last;
	}
}

static int find_next(struct rolling *g, struct old_fold *fold, struct err *err)
{
	int r;

	fold->next = NO_GROUP;
	r = query_read_number(g->store, STATEMENT_FIRST_CHUNK, fold->id, &fold->next, err);
	return r < 0 ? r : 0;
}

/* The group's samples in all folds that are taken together, hour by hour. */
static int roll_hours(struct rolling *g, struct err *err)
{
	uint64_t hour = 0, first, last;
	int r = 0;

	for (uint64_t next = 0; r == 0; next = hour + 1) {
		hour = UINT64_MAX; /* the first, from next on, that one of them touches */
		for (unsigned i = 0; i < g->n_folds; i++) {
			find_hours(&g->folds[i], &first, &last);
			first = first > next ? first : next;
			if (g->folds[i].next == g->group && first <= last)
				hour = first < hour ? first : hour;
		}
		if (hour == UINT64_MAX)
			return 0;
		r = open_hour(g, (int64_t)hour, err);
		for (unsigned i = 0; r == 0 && i < g->n_folds; i++) {
			find_hours(&g->folds[i], &first, &last);
			if (g->folds[i].next == g->group && first <= hour && hour <= last)
				r = take_chunk(g, &g->folds[i], first == hour, err);
		}
		if (r == 0 && hour >= g->first_hour)
			r = save_hour(g, err);
	}
	return r;
}

static int roll_group(struct rolling *g, int64_t group, struct err *err)
{
	int r;

	g->group = group;
	for (size_t i = 0; i < GROUP_PROCESSES; i++)
		g->processes[i].is_taken = false;
	r = roll_hours(g, err);
	for (unsigned i = 0; r == 0 && i < g->n_folds; i++) {
		if (g->folds[i].next != group)
			continue;
		r = query_exec(g->store, STATEMENT_DROP_CHUNK, err,
			       g->folds[i].id << CHUNK_BITS | group);
		if (r == 0)
			r = find_next(g, &g->folds[i], err);
	}
	/* Until its attempt ends, with the process's own account, this is all that tells of its
	 * samples. */
	for (int64_t i = 0; r == 0 && i < GROUP_PROCESSES; i++) {
		const struct old_process *p = &g->processes[i];
		struct proc_record record;

		if (!p->is_taken || p->owner != OWNER_UNFINISHED)
			continue;
		proc_record_init(&record);
		totals_tell(&p->totals, &record);
		r = query_put(g->store, STATEMENT_RAISE_PROCESS, err,
			      V_COLUMNS(&process_total_columns, &record),
			      V_I64((int64_t)record.n_samples), V_I64(group | i));
	}
	return r;
}

/* ---- GPUs ---- */

/* Those of a fold in one hour. What cannot be read is lost, and keeps nothing else back. */
static int roll_gpu_hour(struct rolling *g, const struct old_fold *fold, struct fold_reader things,
			 uint64_t hour, struct err *err)
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
	r = gpu_minutes_add_fold(&g->gpus, things, &fold->times, &g->gpu_work, &any);
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
	CLEANUP(fold_strings_release) struct fold_strings strings = { 0 };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	uint64_t hour = 0, next = g->first_hour;
	struct fold_reader things;
	int r = query_first(g->store, STATEMENT_READ_FOLD, &q, err, fold->id);

	if (r > 0)
		r = query_read_pack(&q, fold->id, &g->raw, err);
	g->t.n = fold->times.n;
	if (r == 0)
		r = fold_read_head(&things, g->raw.data, g->raw.len, &g->t, &strings);
	g->result->n_damaged += r == -EBADMSG; /* what is behind the times */
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	for (; r == 0; next = hour + 1) {
		hour = UINT64_MAX; /* the first that has a tick, from next on */
		for (unsigned i = 0; i < fold->times.n; i++) {
			uint64_t of_tick = fold->times.wall_ns[i] / HOUR_NS;

			hour = of_tick >= next && of_tick < hour ? of_tick : hour;
		}
		if (hour == UINT64_MAX)
			return 0;
		r = roll_gpu_hour(g, fold, things, hour, err);
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
	struct retention *run = g->slice->run;
	int r = query_first(g->store, STATEMENT_OLDEST_FOLD, &oldest, err, cutoff_ns, run->owner,
			    run->owner < 0 ? INT64_MIN : run->after_fold_ns);

	g->n_folds = 0;
	if (r <= 0)
		return r;
	recorder = query_read_i64(&oldest);
	first_ns = run->after_fold_ns = query_read_i64(&oldest);
	r = query_ask(g->store, STATEMENT_FOLDS_OF_HOUR, &q, err, first_ns,
		      (int64_t)((uint64_t)first_ns / HOUR_NS * HOUR_NS + HOUR_NS - 1), cutoff_ns,
		      recorder, GROUP_FOLDS);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct old_fold *fold = &g->folds[g->n_folds++];
		const void *data;
		size_t len;

		fold->id = query_read_i64(&q);
		fold->is_rolled = query_read_i64(&q);
		data = query_read_blob(&q, fold->id, &len);
		r = fold_times_read(data, len, &g->t, &fold->times);
		if (r == -ENOMEM)
			return store_no_memory(g->store, err);
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
		if (r >= 0 && !fold->is_rolled)
			r = query_exec(g->store, STATEMENT_BEGIN_ROLLING, err, fold->id);
		if (r >= 0)
			r = find_next(g, fold, err);
	}
	g->n_folds = n;
	return r < 0 ? r : 1;
}

/* At least one group of it, since the slice has asked already. 1: the slice is over. */
static int roll_hour(struct rolling *g, struct err *err)
{
	int r = 0;

	for (;;) {
		int64_t group = NO_GROUP;

		for (unsigned i = 0; i < g->n_folds; i++)
			group = g->folds[i].next < group ? g->folds[i].next : group;
		if (group == NO_GROUP)
			break;
		r = roll_group(g, group, err);
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
	g->gpus = (struct minute_sums){ 0 };
	g->raw = g->item = g->bytes = g->gpu_work.raw = (struct buf)BUF_INIT;
	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = load_hour(g, cutoff_ns, err);
		if (r <= 0)
			return r;
		r = roll_hour(g, err);
	}
	return r < 0 ? r : 1;
}
