/*
 * retain_gpus - the GPUs of folds whose samples become minutes: before the first process of a
 * fold, and in the transaction that notes how far that went.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/gpu_minutes.h"
#include "store/retain_group.h"

struct gpu_rolling {
	struct fold_group *group;
	struct store *store;
	struct buf heads[GROUP_FOLDS]; /* of folds that have GPUs; empty: it has none */
	struct minute_sums sums;
	struct gpu_work work;
	struct buf bytes;
};

static void gpu_rolling_free(struct gpu_rolling **g)
{
	if (!*g)
		return;
	for (unsigned i = 0; i < GROUP_FOLDS; i++)
		buf_release(&(*g)->heads[i]);
	minute_sums_release(&(*g)->sums);
	buf_release(&(*g)->bytes);
	free(*g);
}

static struct gpu_rolling *gpu_rolling_new(struct fold_group *group)
{
	struct gpu_rolling *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->group = group;
	g->store = group->store;
	g->bytes = (struct buf)BUF_INIT;
	for (unsigned i = 0; i < GROUP_FOLDS; i++)
		g->heads[i] = (struct buf)BUF_INIT;
	return g;
}

/* ---- an hour ---- */

/* What cannot be read is lost. */
static int read_row(struct gpu_rolling *g, struct err *err)
{
	int r = gpu_minutes_read_row(g->store, &g->sums, &g->work, err);

	if (r != -EBADMSG)
		return r;
	g->group->slice->run->result.n_damaged++;
	minute_sums_begin(&g->sums, g->sums.from, g->sums.to);
	return 0;
}

static int put_row(struct gpu_rolling *g, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_PUT_ROLLUP, &q, err);

	if (r < 0)
		return r;
	buf_reset(&g->bytes);
	gpu_minutes_write(&g->bytes, &g->sums, &g->work);
	if (buf_error(&g->bytes) < 0)
		return store_no_memory(g->store, err);
	query_bind_i64(&q, gpu_minutes_row_id(&g->sums));
	query_bind_blob(&q, gpu_minutes_row_id(&g->sums), g->bytes.data, g->bytes.len);
	return query_run(&q, err);
}

/* What cannot be read of one fold does not keep the others back. */
static int add_folds(struct gpu_rolling *g, bool *ret_any, struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < g->group->n; i++) {
		const struct buf *head = &g->heads[i];

		if (head->len == 0)
			continue;
		r = gpu_minutes_add_fold(&g->sums, head->data, head->len, &g->group->folds[i].times,
					 &g->work, ret_any);
		if (r == -EBADMSG) {
			g->group->slice->run->result.n_damaged++;
			r = 0;
		}
	}
	return r == -ENOMEM ? store_no_memory(g->store, err) : r;
}

static int roll_hour(struct gpu_rolling *g, uint64_t hour, struct err *err)
{
	bool any = false;
	int r;

	minute_sums_begin(&g->sums, hour * ROLLUP_MINUTES, (hour + 1) * ROLLUP_MINUTES);
	r = read_row(g, err);
	if (r == 0)
		r = add_folds(g, &any, err);
	return r == 0 && any ? put_row(g, err) : r;
}

/* ---- the group ---- */

static int read_head(struct store *store, int64_t fold, struct buf *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(store, STATEMENT_READ_FOLD, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	data = query_read_blob(&q, fold, &len);
	buf_add(ret, data, len);
	return buf_error(ret) < 0 ? store_no_memory(store, err) : 0;
}

/* Of folds that were not begun: the GPUs of the others are in minutes already. */
static bool is_wanted(const struct old_fold *fold)
{
	return fold->rolled_to == 0 && fold->times.has_gpus;
}

static int read_heads(struct gpu_rolling *g, struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < g->group->n; i++)
		if (is_wanted(&g->group->folds[i]))
			r = read_head(g->store, g->group->folds[i].id, &g->heads[i], err);
	return r;
}

/* The first hour from this one on that has a tick; UINT64_MAX: none has. */
static uint64_t next_hour(const struct fold_group *group, uint64_t from)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < group->n; i++) {
		const struct old_fold *fold = &group->folds[i];

		for (unsigned k = 0; is_wanted(fold) && k < fold->times.n; k++) {
			uint64_t hour = fold->times.wall_ns[k] / HOUR_NS;

			next = hour >= from && hour < next ? hour : next;
		}
	}
	return next;
}

int retain_roll_gpus(struct fold_group *group, uint64_t first_hour, struct err *err)
{
	CLEANUP(gpu_rolling_free) struct gpu_rolling *g = NULL;
	uint64_t hour = next_hour(group, first_hour);
	int r;

	if (hour == UINT64_MAX)
		return 0;
	g = gpu_rolling_new(group);
	r = g ? read_heads(g, err) : store_no_memory(group->store, err);
	for (; r == 0 && hour != UINT64_MAX; hour = next_hour(group, hour + 1))
		r = roll_hour(g, hour, err);
	return r;
}
