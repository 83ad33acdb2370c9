/*
 * read - one attempt, with all of its parts.
 */
#include "store/read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/anomalies.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/retain.h"
#include "store/rows.h"
#include "store/so_far.h"
#include "store/tables.h"

static const struct row_part sheet_parts[] = {
	{ &sheet_columns, 0 },
	{ &usage_columns, offsetof(struct sheet_record, usage) },
};

/* ---- finding it ---- */

int job_find_row(struct store *store, const char *job_id, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_FIND_JOB, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, job_id);
	r = query_step(&q, err);
	*ret = r > 0 ? query_read_i64(&q) : -1;
	return r < 0 ? r : 0;
}

static int fail_not_found(struct store *store, const char *job_id, int num, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_FIND_JOB, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, job_id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r > 0)
		return err_set(err, -ENOENT, "job %s has no attempt %d", job_id, num);
	return err_set(err, -ENOENT,
		       "no job %s was recorded: \"proctor jobs\" lists those there are", job_id);
}

static int find_attempt(struct store *store, const char *job_id, int num, struct attempt *a,
			struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct arena arena = ARENA_INIT;
	int r = query_open(store, STATEMENT_FIND_ATTEMPT, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, job_id);
	query_bind_i64(&q, num);
	r = query_step(&q, err);
	if (r == 0)
		return fail_not_found(store, job_id, num, err);
	if (r > 0)
		r = attempt_read_row(&q, a, &arena, err);
	a->arena = arena;
	return r;
}

/* ---- its parts ---- */

/* An array of the attempt, by the statement that reads it. */
static int read_array(struct store *store, enum statement id, const struct attempt *a,
		      const struct columns *columns, size_t item_size, struct arena *arena,
		      void *ret_items, size_t *ret_n, struct err *err)
{
	const struct row_part part = { columns, 0 };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	return rows_read(&q, &part, 1, item_size, arena, ret_items, ret_n, err);
}

static int read_ranks(struct store *store, const struct attempt *a, struct sheet_record *sheet,
		      struct arena *arena, struct err *err)
{
	static const struct row_part part = { &rank_columns, 0 };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_RANKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	query_bind_i64(&q, sheet->num);
	query_bind_i64(&q, sheet->try_num);
	return rows_read(&q, &part, 1, sizeof(*sheet->ranks), arena, &sheet->ranks, &sheet->n_ranks,
			 err);
}

static int read_sheets(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_SHEETS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	r = rows_read(&q, sheet_parts, ARRAY_SIZE(sheet_parts), sizeof(*a->sheets), &a->arena,
		      &a->sheets, &a->n_sheets, err);
	for (size_t i = 0; r == 0 && i < a->n_sheets; i++)
		r = read_ranks(store, a, &a->sheets[i], &a->arena, err);
	return r;
}

static int read_processes(struct store *store, struct attempt *a, struct err *err)
{
	struct process_count count = { 0 };
	int r = so_far_count_processes(store, a->id, &count, err);

	if (r < 0)
		return r;
	if (!u64_known(a->ended_wall_ns) || count.n_unaccounted > 0)
		return so_far_read_processes(store, a, count.n, err);
	return read_array(store, STATEMENT_READ_PROCESSES, a, &process_columns,
			  sizeof(*a->processes), &a->arena, &a->processes, &a->n_processes, err);
}

static int read_events(struct store *store, struct attempt *a, struct err *err)
{
	const struct damage unread = { .kind = DAMAGED_EVENTS, .recorder = a->id };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_EVENTS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	r = rows_read_sound(&q, &unread, &event_columns, sizeof(*a->events), &a->arena, &a->events,
			    &a->n_events, err);
	for (size_t i = 0; r == 0 && i < a->n_events; i++)
		a->events[i].job_id = a->job_id;
	return r;
}

static int read_syscalls(struct store *store, struct attempt *a, struct err *err)
{
	return read_array(store, STATEMENT_READ_SYSCALLS, a, &syscall_columns, sizeof(*a->syscalls),
			  &a->arena, &a->syscalls, &a->n_syscalls, err);
}

static int read_phases(struct store *store, struct attempt *a, struct err *err)
{
	return read_array(store, STATEMENT_READ_PHASES, a, &phase_columns, sizeof(*a->phases),
			  &a->arena, &a->phases, &a->n_phases, err);
}

static int read_clock(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_CLOCK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	r = query_step(&q, err);
	return r <= 0 ? r : query_read_columns(&q, &clock_columns, a, &a->arena, err);
}

static int read_rungs(struct store *store, struct attempt *a, struct err *err)
{
	return read_array(store, STATEMENT_READ_RUNGS, a, &rung_columns, sizeof(*a->rungs),
			  &a->arena, &a->rungs, &a->n_rungs, err);
}

static int add_note(struct store *store, struct attempt *a, const char *what, const char *why,
		    struct err *err)
{
	struct unknown_note *notes = arena_alloc(&a->arena, (a->n_unknowns + 1) * sizeof(*notes));

	if (!notes)
		return store_no_memory(store, err);
	if (a->n_unknowns > 0)
		memcpy(notes, a->unknowns, a->n_unknowns * sizeof(*notes));
	notes[a->n_unknowns].what = what;
	notes[a->n_unknowns].why = arena_strdup(&a->arena, why);
	if (!notes[a->n_unknowns].why)
		return store_no_memory(store, err);
	a->unknowns = notes;
	a->n_unknowns++;
	return 0;
}

/* What a time that meta has says about the attempt: before it there is none left. */
static int add_gone(struct store *store, struct attempt *a, const char *what, const char *key,
		    struct err *err)
{
	int64_t gone_ns = 0;
	char when[32], why[96];
	int r = meta_read(store, key, &gone_ns, err);

	if (r < 0 || gone_ns <= 0 || a->started_wall_ns > (uint64_t)gone_ns)
		return r;
	clock_format_local((uint64_t)gone_ns, when, sizeof(when));
	snprintf(why, sizeof(why),
		 "those up to %s were removed, as they were old or room was needed", when);
	return add_note(store, a, what, why, err);
}

static int add_lost_marks(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_LOST_MARKS, &q, err);
	int64_t n = 0;
	char why[160];

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	r = query_step(&q, err);
	if (r > 0)
		n = query_read_i64(&q);
	if (r < 0 || n <= 0)
		return r < 0 ? r : 0;
	snprintf(why, sizeof(why),
		 "about %lld markers of them were lost: too many at once, more than %d phases of a "
		 "rank, or a daemon that did not read them",
		 (long long)n, PHASES_PER_RANK);
	return add_note(store, a, "phases", why, err);
}

static int read_unknowns(struct store *store, struct attempt *a, struct err *err)
{
	int r = read_array(store, STATEMENT_READ_UNKNOWNS, a, &unknown_columns,
			   sizeof(*a->unknowns), &a->arena, &a->unknowns, &a->n_unknowns, err);

	if (r == 0)
		r = add_lost_marks(store, a, err);
	if (r == 0)
		r = add_gone(store, a, "events", META_EVENTS_GONE, err);
	if (r == 0)
		r = add_gone(store, a, "anomalies", META_ANOMALIES_GONE, err);
	return r < 0 ? r : add_gone(store, a, "memory and CPU over time", META_CURVES_GONE, err);
}

typedef int part_reader(struct store *store, struct attempt *a, struct err *err);

static int read_parts(struct store *store, part_reader *const *readers, size_t n_readers,
		      struct attempt *a, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_readers; i++)
		r = readers[i](store, a, err);
	return r;
}

/* What they had to leave out is told by the attempt itself, each time that it is read. */
static int read_with_damage(struct store *store, part_reader *const *readers, size_t n_readers,
			    struct attempt *a, struct err *err)
{
	CLEANUP(damages_release) struct damages met = { 0 };
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct damages before = store->damages;
	int r;

	store->damages = met;
	r = read_parts(store, readers, n_readers, a, err);
	met = store->damages;
	store->damages = before;
	damages_add(&store->damages, &met);
	if (r < 0 || met.n + met.n_more == 0)
		return r;
	damages_write(store, &met, &why);
	buf_add_str(&why, ": damaged in the database, and left out");
	return add_note(store, a, "damaged", why.data, err);
}

static int read_attempt(struct store *store, const char *job_id, int num,
			part_reader *const *readers, size_t n_readers, struct attempt *ret,
			struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r;

	attempt_init(&a);
	r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err); /* all as of one moment */
	if (r < 0)
		return r;
	r = find_attempt(store, job_id, num, &a, err);
	if (r == 0)
		r = read_with_damage(store, readers, n_readers, &a, err);
	if (r < 0)
		return r;
	*ret = a;
	attempt_init(&a);
	return 0;
}

int store_read_attempt(struct store *store, const char *job_id, int num, struct attempt *ret,
		       struct err *err)
{
	static part_reader *const readers[] = {
		read_sheets, read_processes, read_events, read_phases,	 anomalies_read,
		read_rungs,  read_unknowns,  series_read, read_syscalls, read_clock,
	};

	return read_attempt(store, job_id, num, readers, ARRAY_SIZE(readers), ret, err);
}

int store_read_progress(struct store *store, const char *job_id, int num, struct attempt *ret,
			struct err *err)
{
	static part_reader *const readers[] = { read_sheets };

	return read_attempt(store, job_id, num, readers, ARRAY_SIZE(readers), ret, err);
}
