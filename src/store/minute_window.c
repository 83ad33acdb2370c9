#include "store/minute_window.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/fold_times.h"
#include "store/process.h"
#include "store/query.h"
#include "store/read.h"
#include "store/rollup.h"

#define ROWS_MAX 32768	 /* about 20 MB; of a single minute there may be more */
#define FEW_PROCESSES 64 /* are looked for one by one */

/* A process in a minute. */
struct open_minute {
	int64_t process;
	uint64_t minute;
	struct rollup_minute sums;
};

struct minute_window {
	struct store *store;
	pid_t pid; /* 0: any */
	bool is_filtered, rollups_only;
	int64_t job;	 /* its row; 0: any */
	int64_t *wanted; /* processes, by id */
	size_t n_wanted, cap_wanted;
	uint64_t from, to; /* the window, in minutes: to is not part of it */
	struct open_minute *rows;
	size_t n, cap;
	const struct open_minute **sorted; /* those */
	size_t cap_sorted;
	struct map row_of;     /* row_key() -> its place in rows */
	struct map process_of; /* id -> struct process * */
	struct arena arena;    /* those */
	/* the fold whose samples are added, or what is folded for it */
	int64_t fold, recorder, first_ns, last_ns;
	uint64_t n_ticks;
	struct fold_times times;
	struct rollup rollup;
	struct table samples, t;
};

void minute_window_free(struct minute_window **m)
{
	if (!*m)
		return;
	free((*m)->wanted);
	free((*m)->rows);
	free((*m)->sorted);
	map_release(&(*m)->row_of);
	map_release(&(*m)->process_of);
	arena_release(&(*m)->arena);
	free(*m);
	*m = NULL;
}

static void clear_window(struct minute_window *m)
{
	m->n = 0;
	map_clear(&m->row_of);
	map_clear(&m->process_of);
	arena_release(&m->arena);
	m->arena = (struct arena)ARENA_INIT;
}

/* ---- whose ---- */

static int want(struct minute_window *m, int64_t process, struct err *err)
{
	if (m->n_wanted == m->cap_wanted) {
		size_t cap = m->cap_wanted ? m->cap_wanted * 2 : 64;
		int64_t *wanted = reallocarray(m->wanted, cap, sizeof(*wanted));

		if (!wanted)
			return store_no_memory(m->store, err);
		m->wanted = wanted;
		m->cap_wanted = cap;
	}
	m->wanted[m->n_wanted++] = process;
	return 0;
}

static int list_wanted(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(m->store,
			   m->job ? STATEMENT_PROCESSES_OF_JOB : STATEMENT_PROCESSES_OF_PID, &q,
			   err);

	if (r < 0)
		return r;
	query_bind_i64(&q, m->pid);
	if (m->job)
		query_bind_i64(&q, m->job);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = want(m, query_read_i64(&q), err);
	return r;
}

static int find_wanted(struct minute_window *m, const char *job_id, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = m->is_filtered ? txn_begin(m->store, STATEMENT_BEGIN_READ, &txn, err) : 0;

	if (r < 0 || !m->is_filtered)
		return r;
	if (job_id)
		r = job_find_row(m->store, job_id, &m->job, err);
	return r < 0 ? r : list_wanted(m, err);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static bool is_wanted(const struct minute_window *m, int64_t process)
{
	return !m->is_filtered ||
	       bsearch(&process, m->wanted, m->n_wanted, sizeof(process), compare_ids);
}

/* ---- adding up ---- */

static uint64_t row_key(const struct minute_window *m, int64_t process, uint64_t minute)
{
	return (uint64_t)process * ROLLUP_MINUTES + (minute - m->from);
}

static int grow(struct minute_window *m)
{
	size_t cap = m->cap ? m->cap * 2 : 256;
	struct open_minute *rows = reallocarray(m->rows, cap, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	m->rows = rows;
	m->cap = cap;
	return 0;
}

/* The row, made if need be. -EOVERFLOW: the window should be smaller. */
static int find_row(struct minute_window *m, int64_t process, uint64_t minute,
		    struct open_minute **ret)
{
	uint64_t key = row_key(m, process, minute), place;

	if (!map_get(&m->row_of, key, &place)) {
		if (m->n >= ROWS_MAX && m->to - m->from > 1)
			return -EOVERFLOW;
		if ((m->n == m->cap && grow(m) < 0) || map_put(&m->row_of, key, m->n) < 0)
			return -ENOMEM;
		place = m->n++;
		m->rows[place].process = process;
		m->rows[place].minute = minute;
		m->rows[place].sums.n = 0;
	}
	*ret = &m->rows[place];
	return 0;
}

static int tell_failure(struct minute_window *m, int r, struct err *err)
{
	return r == -ENOMEM ? store_no_memory(m->store, err) : r;
}

/* What cannot be read of it: the samples of a process, or its minutes of the hour. */
static int leave_out(struct minute_window *m, enum damage_kind kind, int64_t id, uint64_t n,
		     struct err *err)
{
	const struct damage d = { kind, id,	     kind == DAMAGED_MINUTES ? 0 : m->recorder,
				  n,	m->first_ns, m->last_ns };

	return damage_leave_out(m->store, &d, err);
}

static bool is_in_window(const struct minute_window *m, uint64_t minute)
{
	return minute >= m->from && minute < m->to;
}

/* A table of samples, in the ticks of m->times. */
static int add_samples(struct minute_window *m, int64_t process, const void *data, size_t len,
		       struct err *err)
{
	struct open_minute *row;
	uint64_t minute;
	int r = 0;

	if (table_read(data, len, m->times.n, SAMPLE_WORDS, m->times.boot_ns, &m->samples) < 0)
		return leave_out(m, DAMAGED_SAMPLES, m->fold << CHUNK_BITS | process, 1, err);
	for (unsigned from = 0, to; r == 0 && from < m->samples.n; from = to) {
		to = rollup_find_run(&m->samples, from, m->times.wall_ns, &minute);
		if (!is_in_window(m, minute))
			continue;
		r = find_row(m, process, minute, &row);
		if (r == 0)
			rollup_minute_add(&row->sums, &m->samples, from, to, m->times.ids);
	}
	return tell_failure(m, r, err);
}

static int64_t rollup_id(int64_t process, uint64_t minute)
{
	return (int64_t)(minute / ROLLUP_MINUTES) << ROLLUP_BITS | process;
}

/* ---- what has become rollups: it is read first, so nothing is added to yet ---- */

static int add_rollup(struct minute_window *m, int64_t process, const void *data, size_t len,
		      struct err *err)
{
	struct open_minute *row;
	int r = 0;

	if (rollup_read(data, len, &m->t, &m->rollup) < 0)
		return leave_out(m, DAMAGED_MINUTES, rollup_id(process, m->from), 1, err);
	for (uint64_t minute = m->from; r == 0 && minute < m->to; minute++) {
		const struct rollup_minute *sums = &m->rollup.minutes[minute % ROLLUP_MINUTES];

		if (sums->n == 0)
			continue;
		r = find_row(m, process, minute, &row);
		if (r == 0)
			row->sums = *sums;
	}
	return tell_failure(m, r, err);
}

typedef int add_fn(struct minute_window *m, int64_t process, const void *data, size_t len,
		   struct err *err);

/* Rows of a table whose ids are high << 30 | process, those behind after, one by one… */
static int add_wanted(struct minute_window *m, enum statement id, int64_t high, int64_t after,
		      add_fn *add, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_wanted; i++) {
		CLEANUP(query_close) struct query q = QUERY_INIT;

		if (m->wanted[i] <= after)
			continue;
		r = query_open(m->store, id, &q, err);
		if (r < 0)
			return r;
		query_bind_i64(&q, high << CHUNK_BITS | m->wanted[i]);
		r = query_step(&q, err);
		if (r > 0) {
			size_t len;
			const void *data = query_read_blob(&q, &len);

			r = add(m, m->wanted[i], data, len, err);
		}
	}
	return r;
}

/* …or all of them, and those that are not wanted left out. */
static int add_range(struct minute_window *m, enum statement id, int64_t high, int64_t after,
		     add_fn *add, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(m->store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, high);
	query_bind_i64(&q, after);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t process = query_read_i64(&q);
		size_t len;
		const void *data = query_read_blob(&q, &len);

		r = is_wanted(m, process) ? add(m, process, data, len, err) : 0;
	}
	return r;
}

static int64_t begin_ns(uint64_t minute)
{
	return minute > INT64_MAX / MINUTE_NS ? INT64_MAX : (int64_t)(minute * MINUTE_NS);
}

static int add_rollups(struct minute_window *m, struct err *err)
{
	int64_t hour = (int64_t)(m->from / ROLLUP_MINUTES);

	m->first_ns = begin_ns(m->from);
	m->last_ns = begin_ns(m->to) - 1;
	return m->is_filtered && m->n_wanted <= FEW_PROCESSES
		       ? add_wanted(m, STATEMENT_READ_ROLLUP, hour, 0, add_rollup, err)
		       : add_range(m, STATEMENT_READ_ROLLUPS, hour, 0, add_rollup, err);
}

/* ---- what is there as samples ---- */

/* 1: the times of the fold's ticks are known. 0: it is damaged. */
static int read_times(struct minute_window *m, const void *head, size_t len, struct err *err)
{
	int r = fold_times_read(head, len, &m->t, &m->times);

	if (r == -EBADMSG)
		return leave_out(m, DAMAGED_TICKS, m->fold, m->n_ticks, err);
	return r < 0 ? tell_failure(m, r, err) : 1;
}

/* What of it is not in rollups: that of processes behind rolled_to. */
static int add_fold(struct minute_window *m, int64_t rolled_to, const void *head, size_t len,
		    struct err *err)
{
	int r = read_times(m, head, len, err);

	if (r <= 0)
		return r;
	return m->is_filtered && m->n_wanted <= FEW_PROCESSES
		       ? add_wanted(m, STATEMENT_READ_CHUNK, m->fold, rolled_to, add_samples, err)
		       : add_range(m, STATEMENT_READ_CHUNKS_OF_FOLD, m->fold, rolled_to,
				   add_samples, err);
}

/* From when till when, and the job: as the statements of walks have them. */
static int open_window(struct minute_window *m, enum statement id, struct query *q, struct err *err)
{
	int r = query_open(m->store, id, q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, begin_ns(m->from));
	query_bind_i64(q, begin_ns(m->to) - 1);
	query_bind_i64(q, m->job);
	return 0;
}

static int add_folds(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_window(m, STATEMENT_MINUTE_FOLDS, &q, err);

	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t rolled_to;
		const void *head;
		size_t len;

		m->fold = query_read_i64(&q);
		m->recorder = query_read_i64(&q);
		m->first_ns = query_read_i64(&q);
		m->last_ns = query_read_i64(&q);
		m->n_ticks = (uint64_t)query_read_i64(&q);
		rolled_to = query_read_i64(&q);
		head = query_read_blob(&q, &len);
		r = add_fold(m, rolled_to, head, len, err);
	}
	return r;
}

static int add_folded(struct minute_window *m, const struct folded *f, struct err *err)
{
	int r;

	m->fold = f->id;
	m->first_ns = f->first_ns;
	m->last_ns = f->last_ns;
	m->n_ticks = f->n_ticks;
	r = read_times(m, f->head.data, f->head.len, err);
	if (r <= 0)
		return r;
	r = 0;
	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i];

		if (part->list == LIST_SAMPLES && is_wanted(m, part->key))
			r = add_samples(m, part->key, f->bytes.data + part->at, part->len, err);
	}
	return r;
}

static int add_tail(struct minute_window *m, int64_t recorder, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int64_t after_id = 0;
	int r;

	m->recorder = recorder;
	while ((r = fold_read_pending(m->store, recorder, after_id, INT64_MAX, &f, err)) > 0) {
		after_id = f.id;
		r = fold_leave_out(m->store, recorder, &f, begin_ns(m->from), begin_ns(m->to) - 1,
				   err);
		if (r == 0 && f.n_ticks > 0)
			r = add_folded(m, &f, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int add_tails(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_window(m, STATEMENT_WALK_TAILS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, 0);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = add_tail(m, query_read_i64(&q), err);
	return r;
}

/* ---- who they are ---- */

/* One that is gone has no place. */
static int name_process(struct minute_window *m, int64_t id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct process *p = arena_alloc(&m->arena, sizeof(*p));
	int r = p ? query_open(m->store, STATEMENT_WALK_PROCESS, &q, err)
		  : store_no_memory(m->store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	query_bind_i64(&q, 0);
	query_bind_i64(&q, 0);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	r = process_read(&q, &m->arena, p, err);
	if (r == 0 && map_put(&m->process_of, (uint64_t)id, (uint64_t)(uintptr_t)p) < 0)
		r = store_no_memory(m->store, err);
	return r;
}

static int compare_rows(const void *a, const void *b)
{
	const struct open_minute *x = *(const struct open_minute *const *)a;
	const struct open_minute *y = *(const struct open_minute *const *)b;

	if (x->minute != y->minute)
		return x->minute < y->minute ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

static int name_processes(struct minute_window *m, struct err *err)
{
	uint64_t place;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++)
		if (!map_get(&m->process_of, (uint64_t)m->rows[i].process, &place))
			r = name_process(m, m->rows[i].process, err);
	return r;
}

/* ---- the window ---- */

static int read_rows(struct minute_window *m, struct err *err)
{
	static int (*const readers[])(struct minute_window *, struct err *) = {
		add_rollups,
		add_folds,
		add_tails,
	};
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(m->store, STATEMENT_BEGIN_READ, &txn, err);

	for (size_t i = 0; r == 0 && i < (m->rollups_only ? 1 : ARRAY_SIZE(readers)); i++)
		r = readers[i](m, err);
	return r < 0 ? r : name_processes(m, err);
}

static int sort_rows(struct minute_window *m, struct err *err)
{
	if (m->n > m->cap_sorted) {
		const struct open_minute **sorted =
			reallocarray(m->sorted, m->cap, sizeof(struct open_minute *));

		if (!sorted)
			return store_no_memory(m->store, err);
		m->sorted = sorted;
		m->cap_sorted = m->cap;
	}
	for (size_t i = 0; i < m->n; i++)
		m->sorted[i] = &m->rows[i];
	if (m->n > 0)
		qsort(m->sorted, m->n, sizeof(struct open_minute *), compare_rows);
	return 0;
}

int minute_window_read(struct minute_window *m, uint64_t from, uint64_t to, struct err *err)
{
	int r;

	m->from = from;
	m->to = to;
	clear_window(m);
	r = read_rows(m, err);
	if (r == 0)
		r = sort_rows(m, err);
	if (r < 0)
		m->n = 0;
	return r;
}

size_t minute_window_count(const struct minute_window *m)
{
	return m->n;
}

uint64_t minute_window_minute(const struct minute_window *m, size_t i)
{
	return m->sorted[i]->minute;
}

int64_t minute_window_process(const struct minute_window *m, size_t i)
{
	return m->sorted[i]->process;
}

int minute_window_row(struct minute_window *m, size_t i, struct minute_row *ret, struct err *err)
{
	const struct open_minute *open = m->sorted[i];
	const struct process *p;
	uint64_t place;

	if (!map_get(&m->process_of, (uint64_t)open->process, &place))
		return 0;
	p = (const struct process *)(uintptr_t)place;
	*ret = (struct minute_row){ .wall_ns = open->minute * MINUTE_NS,
				    .attempt_num = p->attempt_num };
	process_at(p, open->sums.last_tick, &ret->last);
	if (rollup_minute_tell(&open->sums, ret) == 0)
		return 1;
	m->first_ns = begin_ns(open->minute);
	m->last_ns = begin_ns(open->minute + 1) - 1;
	return leave_out(m, DAMAGED_MINUTES, rollup_id(open->process, open->minute), 1, err);
}

/* ---- a new one ---- */

int minute_window_new(struct store *store, const struct window_filter *filter,
		      struct minute_window **ret, struct err *err)
{
	CLEANUP(minute_window_free) struct minute_window *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return store_no_memory(store, err);
	m->store = store;
	m->pid = filter->pid;
	m->is_filtered = filter->job_id || filter->pid;
	m->rollups_only = filter->rollups_only;
	r = find_wanted(m, filter->job_id, err);
	if (r == 0)
		*ret = TAKE_PTR(m);
	return r;
}

bool minute_window_is_empty(const struct minute_window *m)
{
	return m->is_filtered && m->n_wanted == 0;
}
