#include "store/gpu_minutes.h"

#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/failure.h"
#include "store/query.h"

/* ---- adding up ---- */

/* Rows from up to to are of one minute; those of another GPU at the same place begin anew. */
static unsigned find_run(const struct table *t, unsigned from, const uint64_t *wall_ns,
			 uint64_t *ret_minute)
{
	unsigned to = rollup_find_run(t, from, wall_ns, ret_minute);

	for (unsigned i = from + 1; i < to; i++)
		if (t->columns[GPU_INDEX][i] != t->columns[GPU_INDEX][from])
			return i;
	return to;
}

static bool is_index(uint64_t word)
{
	return word <= INT32_MAX;
}

static int add_table(struct minute_sums *s, const struct table *t, const struct fold_times *times,
		     bool *any)
{
	int r = 0;

	for (unsigned from = 0, to; r == 0 && from < t->n; from = to) {
		uint64_t minute, index = t->columns[GPU_INDEX][from];
		struct minute_sum *row;

		to = find_run(t, from, times->wall_ns, &minute);
		if (!minute_sums_has_room_for(s, minute) || !is_index(index))
			continue;
		r = minute_sums_find(s, (int64_t)index, minute, &row);
		if (r == 0)
			rollup_minute_add(&row->sums, ROLLUP_GPUS, t, from, to, times->ids);
		*any = true;
	}
	return r;
}

int gpu_minutes_add_fold(struct minute_sums *s, const void *head, size_t len,
			 const struct fold_times *times, struct gpu_work *work, bool *ret_any)
{
	const uint8_t *data = head;
	struct fold_reader reader = { data + times->things_at, data + len, times->n };
	bool any = false;
	int r;

	while ((r = fold_read_thing(&reader, LIST_GPUS, &work->t)) > 0) {
		r = add_table(s, &work->t, times, &any);
		if (r < 0)
			break;
	}
	if (ret_any && any)
		*ret_any = true;
	return r;
}

/* ---- the row of an hour ---- */

static int take_minutes(struct minute_sums *s, const struct rollup *rollup)
{
	int r = 0;

	for (uint64_t minute = s->from; r == 0 && minute < s->to; minute++) {
		const struct rollup_minute *sums = &rollup->minutes[minute % ROLLUP_MINUTES];
		struct minute_sum *row;

		if (sums->n == 0)
			continue;
		if (!is_index(sums->last[GPU_INDEX]))
			return -EBADMSG;
		r = minute_sums_find(s, (int64_t)sums->last[GPU_INDEX], minute, &row);
		if (r == 0)
			row->sums = *sums;
	}
	return r;
}

int gpu_minutes_add_row(struct minute_sums *s, const void *data, size_t len, struct gpu_work *work)
{
	const uint8_t *p = data, *end = p + len;

	if (len == 0)
		return -EBADMSG;
	while (p < end) {
		ssize_t n = rollup_read(p, (size_t)(end - p), ROLLUP_GPUS, &work->t, &work->rollup);
		int r = n < 0 ? (int)n : take_minutes(s, &work->rollup);

		if (r < 0)
			return r;
		p += n;
	}
	return 0;
}

int64_t gpu_minutes_row_id(const struct minute_sums *s)
{
	return (int64_t)(s->from / ROLLUP_MINUTES) << ROLLUP_BITS | GPU_MINUTES_PROCESS;
}

int gpu_minutes_read_row(struct store *store, struct minute_sums *s, struct gpu_work *work,
			 struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(store, STATEMENT_READ_ROLLUP, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, gpu_minutes_row_id(s));
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	data = query_read_blob(&q, gpu_minutes_row_id(s), &len);
	r = gpu_minutes_add_row(s, data, len, work);
	return r == -ENOMEM ? store_no_memory(store, err) : r;
}

/* The least index above this one; -1: there is none. */
static int64_t next_gpu(const struct minute_sums *s, int64_t index)
{
	int64_t least = -1;

	for (size_t i = 0; i < s->n; i++) {
		int64_t gpu = s->rows[i].process;

		if (gpu > index && (least < 0 || gpu < least))
			least = gpu;
	}
	return least;
}

void gpu_minutes_write(struct buf *out, const struct minute_sums *s, struct gpu_work *work)
{
	for (int64_t gpu = next_gpu(s, -1); gpu >= 0; gpu = next_gpu(s, gpu)) {
		rollup_init(&work->rollup);
		for (size_t i = 0; i < s->n; i++)
			if (s->rows[i].process == gpu)
				work->rollup.minutes[s->rows[i].minute % ROLLUP_MINUTES] =
					s->rows[i].sums;
		rollup_write(out, &work->rollup, ROLLUP_GPUS, &work->t);
	}
}

/* ---- telling ---- */

static size_t count_gpus(const struct minute_sums *s, uint64_t minute)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->rows[i].minute == minute;
	return n;
}

int gpu_minutes_tell(const struct minute_sums *s, uint64_t minute, struct snapshot *ret)
{
	size_t n = count_gpus(s, minute);
	int r = 0;

	if (n == 0)
		return 0;
	ret->gpus = arena_alloc(&ret->arena, n * sizeof(*ret->gpus));
	if (!ret->gpus)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < s->n; i++)
		if (s->sorted[i]->minute == minute)
			r = rollup_minute_tell_gpu(&s->sorted[i]->sums, &ret->gpus[ret->n_gpus++]);
	return r;
}
