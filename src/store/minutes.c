#include "store/store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/rollup.h"
#include "store/query.h"

/* ---- sums ---- */

#define ROWS_MAX 32768 /* about 20 MB */

void minute_sums_release(struct minute_sums *s)
{
	free(s->rows);
	free(s->sorted);
	map_release(&s->row_of);
}

void minute_sums_begin(struct minute_sums *s, uint64_t from, uint64_t to)
{
	s->from = from;
	s->to = to;
	s->n = 0;
	map_clear(&s->row_of);
}

/*
 * The row, made if need be; it may move when another is made. NULL: there is no room for the
 * minute. -EOVERFLOW: there are too many, but for a single minute there may be as many as there
 * are. -ENOMEM
 */
static int find_sum(struct minute_sums *s, int64_t process, uint64_t minute,
		    struct rollup_minute **ret)
{
	uint64_t key = (uint64_t)process * ROLLUP_MINUTES + (minute - s->from), place;

	*ret = NULL;
	if (minute < s->from || minute >= s->to)
		return 0;
	if (!map_get(&s->row_of, key, &place)) {
		if (s->n >= ROWS_MAX && s->to - s->from > 1)
			return -EOVERFLOW;
		if (ARRAY_RESERVE(s->rows, s->cap, s->n + 1) < 0 ||
		    map_put(&s->row_of, key, s->n) < 0)
			return -ENOMEM;
		place = s->n++;
		s->rows[place].process = process;
		s->rows[place].minute = minute;
		s->rows[place].sums.n = 0;
	}
	*ret = &s->rows[place].sums;
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct minute_sum *x = *(const struct minute_sum *const *)a;
	const struct minute_sum *y = *(const struct minute_sum *const *)b;

	if (x->minute != y->minute)
		return x->minute < y->minute ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

static int sort_sums(struct minute_sums *s)
{
	if (ARRAY_RESERVE(s->sorted, s->cap_sorted, s->n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		s->sorted[i] = &s->rows[i];
	if (s->n > 0)
		qsort(s->sorted, s->n, sizeof(struct minute_sum *), compare_rows);
	return 0;
}

/* ---- GPUs ---- */

#define GPU_MINUTES_PROCESS 1 /* no group has it */

static bool is_index(uint64_t word)
{
	return word <= INT32_MAX;
}

int gpu_minutes_add_fold(struct minute_sums *s, struct fold_reader things,
			 const struct fold_times *times, struct gpu_work *work, bool *ret_any)
{
	const struct table *t = &work->t;
	int r;

	while ((r = fold_read_thing(&things, LIST_GPUS, &work->t)) > 0) {
		for (unsigned from = 0, to; from < t->n; from = to) {
			uint64_t minute, index = t->columns[GPU_INDEX][from];
			struct rollup_minute *sums = NULL;
			unsigned end = rollup_find_run(t, from, times->wall_ns, &minute);

			/* The rows of a minute, as long as they are of one GPU. */
			for (to = from + 1; to < end && t->columns[GPU_INDEX][to] == index; to++)
				;
			r = is_index(index) ? find_sum(s, (int64_t)index, minute, &sums) : 0;
			if (r < 0)
				return r;
			if (!sums)
				continue;
			rollup_minute_add(sums, ROLLUP_GPUS, t, from, to, times->ids);
			*ret_any = true;
		}
	}
	return r;
}

int64_t gpu_minutes_row_id(const struct minute_sums *s)
{
	return (int64_t)(s->from / ROLLUP_MINUTES) << ROLLUP_BITS | GPU_MINUTES_PROCESS;
}

int gpu_minutes_read_row(struct store *store, struct minute_sums *s, struct gpu_work *work,
			 struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *p, *end;
	int r = query_first(store, STATEMENT_READ_ROLLUP, &q, err, gpu_minutes_row_id(s));

	if (r <= 0)
		return r;
	r = query_read_pack(&q, gpu_minutes_row_id(s), &work->raw, err);
	if (r < 0)
		return r;
	for (p = work->raw.data, end = p + work->raw.len; p < end;) {
		ssize_t n = rollup_read(p, (size_t)(end - p), ROLLUP_GPUS, &work->t, &work->rollup);

		if (n < 0)
			return (int)n;
		for (uint64_t minute = s->from; minute < s->to; minute++) {
			const struct rollup_minute *from =
				&work->rollup.minutes[minute % ROLLUP_MINUTES];
			struct rollup_minute *sums;

			if (from->n == 0)
				continue;
			if (!is_index(from->last[GPU_INDEX]))
				return -EBADMSG;
			r = find_sum(s, (int64_t)from->last[GPU_INDEX], minute, &sums);
			if (r < 0)
				return r == -ENOMEM ? store_no_memory(store, err) : r;
			*sums = *from;
		}
		p += n;
	}
	return 0;
}

void gpu_minutes_write(struct buf *out, const struct minute_sums *s, struct gpu_work *work)
{
	buf_reset(&work->raw);
	for (int64_t gpu = -1, next;; gpu = next) {
		next = INT64_MAX; /* the least index above that of the one before */
		for (size_t i = 0; i < s->n; i++)
			if (s->rows[i].process > gpu && s->rows[i].process < next)
				next = s->rows[i].process;
		if (next == INT64_MAX)
			break;
		rollup_init(&work->rollup);
		for (size_t i = 0; i < s->n; i++)
			if (s->rows[i].process == next)
				work->rollup.minutes[s->rows[i].minute % ROLLUP_MINUTES] =
					s->rows[i].sums;
		rollup_write(&work->raw, &work->rollup, ROLLUP_GPUS, &work->t);
	}
	pack_write(out, &work->raw);
}

/* ---- a window ---- */

struct minute_window {
	struct store *store;
	bool rollups_only;
	struct process_set wanted;
	struct minute_sums sums, gpus;
	struct map process_of;	 /* id -> struct process * */
	struct arena arena;	 /* those */
	struct fold_times times; /* of the fold whose samples are added */
	struct rollup rollup;
	struct table samples, t;
	struct gpu_work work;
};

void minute_window_free(struct minute_window **m)
{
	if (!*m)
		return;
	process_set_release(&(*m)->wanted);
	minute_sums_release(&(*m)->sums);
	minute_sums_release(&(*m)->gpus);
	map_release(&(*m)->process_of);
	arena_release(&(*m)->arena);
	buf_release(&(*m)->work.raw);
	free(*m);
	*m = NULL;
}

int minute_window_new(struct store *store, const char *job_id, pid_t pid, bool rollups_only,
		      struct minute_window **ret, struct err *err)
{
	CLEANUP(minute_window_free) struct minute_window *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return store_no_memory(store, err);
	m->store = store;
	m->work.raw = (struct buf)BUF_INIT;
	m->rollups_only = rollups_only;
	r = process_set_find(&m->wanted, store, job_id, pid, err);
	if (r == 0)
		*ret = TAKE_PTR(m);
	return r;
}

bool minute_window_is_empty(const struct minute_window *m)
{
	return m->wanted.is_filtered && m->wanted.n == 0;
}

/* r, with its sentence where it has none yet. */
static int window_fail(const struct minute_window *m, int r, struct err *err)
{
	return r == -ENOMEM ? store_no_memory(m->store, err) : r;
}

/* The minutes of a process, or of the GPUs, in the hour cannot be read. */
static int leave_minutes_out(struct minute_window *m, int64_t process, uint64_t from, uint64_t to,
			     struct err *err)
{
	const struct damage d = { .kind = DAMAGED_MINUTES,
				  .id = (int64_t)(from / ROLLUP_MINUTES) << ROLLUP_BITS | process,
				  .n = 1,
				  .first_ns = minute_begin_ns(from),
				  .last_ns = minute_begin_ns(to) - 1 };

	return damage_leave_out(m->store, &d, err);
}

/* ---- what is in it: rollups come first, so nothing is added to them yet ---- */

static int add_rollup(struct minute_window *m, int64_t process, const void *data, size_t len,
		      struct err *err)
{
	int r = 0;

	if (rollup_read(data, len, ROLLUP_SAMPLES, &m->t, &m->rollup) < 0)
		return leave_minutes_out(m, group_of(process), m->sums.from, m->sums.to, err);
	for (uint64_t minute = m->sums.from; r == 0 && minute < m->sums.to; minute++) {
		const struct rollup_minute *from = &m->rollup.minutes[minute % ROLLUP_MINUTES];
		struct rollup_minute *sums;

		if (from->n == 0)
			continue;
		r = find_sum(&m->sums, process, minute, &sums);
		if (r == 0)
			*sums = *from;
	}
	return window_fail(m, r, err);
}

/* Where samples are still there, snapshots have the GPUs themselves. */
static int add_rollups(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const uint64_t from = m->sums.from, to = m->sums.to;
	int r = 0;

	if (m->rollups_only)
		r = gpu_minutes_read_row(m->store, &m->gpus, &m->work, err);
	if (r == -EBADMSG)
		r = leave_minutes_out(m, GPU_MINUTES_PROCESS, from, to, err);
	if (r == 0)
		r = query_ask(m->store, STATEMENT_READ_ROLLUPS, &q, err,
			      (int64_t)(from / ROLLUP_MINUTES));
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t row = query_read_i64(&q), group = row & CHUNK_PROCESS_MAX, process;
		struct item_reader items;
		const void *data;
		size_t len;

		r = 0;
		if (group != group_of(group) || !process_set_has_group(&m->wanted, group))
			continue;
		r = query_read_pack(&q, row, &m->work.raw, err);
		items = item_reader(&m->work.raw, group);
		while (r == 0 && (r = item_read(&items, &process, &data, &len)) > 0)
			r = process_set_has(&m->wanted, process)
				    ? add_rollup(m, process, data, len, err)
				    : 0;
		if (r == -EBADMSG)
			r = leave_minutes_out(m, group, from, to, err);
	}
	return r;
}

/* A table of samples, in the ticks of m->times. */
static int add_samples(void *ctx, int64_t process, const void *data, size_t len, struct err *err)
{
	struct minute_window *m = ctx;
	int r = 0;

	if (table_read(data, len, m->times.n, SAMPLE_WORDS, m->times.boot_ns, &m->samples) < 0)
		return -EBADMSG;
	for (unsigned from = 0, to; r == 0 && from < m->samples.n; from = to) {
		struct rollup_minute *sums;
		uint64_t minute;

		to = rollup_find_run(&m->samples, from, m->times.wall_ns, &minute);
		r = find_sum(&m->sums, process, minute, &sums);
		if (r == 0 && sums)
			rollup_minute_add(sums, ROLLUP_SAMPLES, &m->samples, from, to,
					  m->times.ids);
	}
	return window_fail(m, r, err);
}

static int add_fold(void *ctx, const struct fold_ref *fold, struct err *err)
{
	struct minute_window *m = ctx;
	int r = fold_times_read(fold->times, fold->times_len, &m->t, &m->times);

	if (r == 0 && !fold_lasts(m->times.wall_ns, m->times.n, fold->first_ns, fold->last_ns))
		r = -EBADMSG;
	if (r == -EBADMSG)
		return fold_leave_out(m->store, fold, DAMAGED_TICKS, fold->id, fold->n_ticks, err);
	return r < 0 ? window_fail(m, r, err)
		     : fold_each_samples(m->store, fold, &m->wanted, add_samples, m, err);
}

static int add_folds(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query folds = QUERY_INIT, tails = QUERY_INIT;
	const int64_t first_ns = minute_begin_ns(m->sums.from);
	const int64_t last_ns = minute_begin_ns(m->sums.to) - 1;
	int r = query_ask(m->store, STATEMENT_MINUTE_FOLDS, &folds, err, first_ns, last_ns,
			  m->wanted.job, !m->rollups_only);

	if (r == 0)
		r = folds_read(&folds, add_fold, m, err);
	if (r < 0 || m->rollups_only)
		return r;
	r = query_ask(m->store, STATEMENT_WALK_TAILS, &tails, err, first_ns, last_ns, m->wanted.job,
		      0);
	while (r == 0 && (r = query_step(&tails, err)) > 0)
		r = folds_read_pending(m->store, query_read_i64(&tails), first_ns, last_ns,
				       INT64_MAX, add_fold, m, err);
	return r;
}

/* Who they are. One that is gone has no place. */
static int name_processes(struct minute_window *m, struct err *err)
{
	uint64_t place;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->sums.n; i++) {
		CLEANUP(query_close) struct query q = QUERY_INIT;
		int64_t id = m->sums.rows[i].process;
		struct process *p;

		if (map_get(&m->process_of, (uint64_t)id, &place))
			continue;
		p = arena_alloc(&m->arena, sizeof(*p));
		r = p ? query_first(m->store, STATEMENT_WALK_PROCESS, &q, err, id)
		      : store_no_memory(m->store, err);
		if (r <= 0)
			continue;
		r = process_read(&q, &m->arena, p, err);
		if (r == 0 && map_put(&m->process_of, (uint64_t)id, (uint64_t)(uintptr_t)p) < 0)
			r = store_no_memory(m->store, err);
	}
	return r;
}

int minute_window_read(struct minute_window *m, uint64_t from, uint64_t to, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r;

	minute_sums_begin(&m->sums, from, to);
	minute_sums_begin(&m->gpus, from, to);
	map_clear(&m->process_of);
	arena_release(&m->arena);
	m->arena = (struct arena)ARENA_INIT;
	r = txn_begin(m->store, STATEMENT_BEGIN_READ, &txn, err);
	if (r == 0)
		r = add_rollups(m, err);
	if (r == 0)
		r = add_folds(m, err);
	if (r == 0)
		r = name_processes(m, err);
	if (r == 0)
		r = window_fail(m, sort_sums(&m->sums), err);
	if (r == 0)
		r = window_fail(m, sort_sums(&m->gpus), err);
	if (r < 0)
		m->sums.n = m->gpus.n = 0;
	return r;
}

struct minute_rows minute_window_rows(struct minute_window *m, size_t at, bool newest_first)
{
	const struct minute_sum **rows = m->sums.sorted;
	struct minute_rows ret = { .window = m, .first = at < m->sums.n ? at : m->sums.n };

	if (newest_first ? ret.first == 0 : ret.first == m->sums.n)
		return ret;
	ret.minute = rows[newest_first ? ret.first - 1 : ret.first]->minute;
	for (; newest_first && ret.first > 0 && rows[ret.first - 1]->minute == ret.minute; ret.n++)
		ret.first--;
	while (!newest_first && ret.first + ret.n < m->sums.n &&
	       rows[ret.first + ret.n]->minute == ret.minute)
		ret.n++;
	return ret;
}

int minute_window_row(struct minute_window *m, size_t i, struct minute_row *ret, struct err *err)
{
	const struct minute_sum *sum = m->sums.sorted[i];
	const struct process *p;
	uint64_t place;

	if (!map_get(&m->process_of, (uint64_t)sum->process, &place))
		return 0;
	p = (const struct process *)(uintptr_t)place;
	*ret = (struct minute_row){ .wall_ns = sum->minute * MINUTE_NS,
				    .attempt_num = p->attempt_num,
				    .attempt_id = p->attempt_id,
				    .process = sum->process };
	process_at(p, sum->sums.last_tick, &ret->last);
	if (rollup_minute_tell(&sum->sums, ret) == 0)
		return 1;
	return leave_minutes_out(m, group_of(sum->process), sum->minute, sum->minute + 1, err);
}

/* The averages of what goes up and down, of all else the last. */
int minute_window_gpus(struct minute_window *m, uint64_t minute, struct snapshot *ret,
		       struct err *err)
{
	const struct minute_sums *s = &m->gpus;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->rows[i].minute == minute;
	if (n == 0)
		return 0;
	ret->gpus = arena_alloc(&ret->arena, n * sizeof(*ret->gpus));
	if (!ret->gpus)
		return store_no_memory(m->store, err);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		if (s->sorted[i]->minute == minute)
			r = rollup_minute_tell_gpu(&s->sorted[i]->sums, &ret->gpus[ret->n_gpus++]);
	return r == -EBADMSG ? leave_minutes_out(m, GPU_MINUTES_PROCESS, minute, minute + 1, err)
			     : r;
}

/* An average of whole things is rounded to one of them. */
static uint64_t whole(double average)
{
	return f64_known(average) && average < (double)INT64_MAX ? (uint64_t)llround(average)
								 : U64_UNKNOWN;
}

/* An average as the member of a sample, by its kind. */
#define AVERAGE_F64(average_) (average_)
#define AVERAGE_U64(average_) whole(average_)
#define AVERAGE_MB(average_) whole(average_)

void minute_row_sample(const struct minute_row *row, struct proc_sample *ret)
{
	*ret = row->last;
#define SAMPLE_GAUGE(kind_, member_, ...) ret->member_ = AVERAGE_##kind_(row->avg.member_);
#include "model/sample_fields.def"
	ret->hwm_bytes = row->max.hwm_bytes; /* an average of high-water marks is none */
}
