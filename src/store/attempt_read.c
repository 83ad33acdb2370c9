#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/ingest.h"
#include "store/query.h"
#include "store/tables.h"

/*
 * running - whether an attempt without an end still runs, and what that means for what it began.
 */

/* How long a runner that nobody can look at may be quiet before it counts as lost. */
#define QUIET_INTERVALS 10
#define QUIET_SECONDS 60.0

static const struct row_part attempt_parts[] = {
	{ &attempt_name_columns, 0 }, { &attempt_begin_columns, 0 },
	{ &clock_columns, 0 },	      { &attempt_progress_columns, 0 },
	{ &attempt_end_columns, 0 },  { &usage_columns, offsetof(struct attempt, usage) },
};

/* ---- the runner ---- */

int attempt_read_last_sign(struct store *store, const struct attempt *a, uint64_t *ret,
			   struct err *err)
{
	int64_t written_ns = 0;
	int r = query_read_number(store, STATEMENT_LAST_SIGN, a->id, &written_ns, err);

	*ret = u64_max_known((uint64_t)written_ns, a->started_wall_ns);
	return r < 0 ? r : 0;
}

/* A time to come counts as recent: another host's clock may be ahead of ours. */
static bool is_recent(double interval_seconds, uint64_t last_sign_ns)
{
	double quiet_seconds = ((double)clock_wall_ns() - (double)last_sign_ns) / 1e9;

	return quiet_seconds < f64_max_known(QUIET_INTERVALS * interval_seconds, QUIET_SECONDS);
}

int attempt_may_run(struct store *store, int64_t attempt_id, bool *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct attempt a;
	int r = query_first(store, STATEMENT_FIND_ATTEMPT_ROW, &q, err, attempt_id);

	if (r <= 0)
		return r;
	attempt_init(&a);
	r = row_read(&q, attempt_parts, ARRAY_SIZE(attempt_parts), &a, &arena, err);
	/* Nobody who can tell has to have said that it is dead. */
	*ret = !u64_known(a.ended_wall_ns) &&
	       !(store->alive && store->alive(store->alive_ctx, &a) == STORE_DEAD);
	return r;
}

/*
 * The attempt's row that the query stands on. Strings go into the arena; a->arena stays empty. An
 * attempt without an end runs as long as its runner lives, or its log may have the end.
 */
static int attempt_read_row(struct query *q, struct attempt *a, struct arena *arena,
			    struct err *err)
{
	struct store *store = q->store;
	uint64_t last_sign_ns = 0;
	enum store_alive alive;
	int r;

	attempt_init(a);
	r = row_read(q, attempt_parts, ARRAY_SIZE(attempt_parts), a, arena, err);
	if (r < 0 || u64_known(a->ended_wall_ns))
		return r;
	alive = store->alive ? store->alive(store->alive_ctx, a) : STORE_ALIVE;
	if (alive == STORE_CANNOT_TELL)
		r = attempt_read_last_sign(store, a, &last_sign_ns, err);
	a->is_running = alive == STORE_ALIVE ||
			(alive == STORE_CANNOT_TELL && r == 0 &&
			 is_recent(a->interval_seconds, last_sign_ns)) ||
			ingest_is_behind(store, a->id);
	a->is_lost = !a->is_running;
	return r;
}

/* ---- episodes that nobody has ended ---- */

/* Whether the last daemon may live: one that was killed has not said that it stops. */
static int has_daemon(struct store *store, bool *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct daemon_record d = { 0 };
	struct attempt as_runner;
	enum store_alive alive;
	uint64_t last_sign_ns;
	int r = query_step_with(store, STATEMENT_LAST_DAEMON, &q, err, NULL, 0);

	*ret = false;
	if (r <= 0)
		return r;
	attempt_init(&as_runner);
	snprintf(as_runner.boot_id, sizeof(as_runner.boot_id), "%s", query_read_text(&q));
	last_sign_ns = (uint64_t)query_read_i64(&q);
	r = query_read_columns(&q, &daemon_columns, &d, &arena, err);
	as_runner.runner = d.key;
	/* One that nobody can look at may be quiet, as a runner may. */
	alive = store->alive ? store->alive(store->alive_ctx, &as_runner) : STORE_ALIVE;
	*ret = r == 0 && (alive == STORE_ALIVE ||
			  (alive == STORE_CANNOT_TELL && is_recent(F64_UNKNOWN, last_sign_ns)));
	return r;
}

/* The recorder that saw it begin may have vanished, and no other may look: a daemon, or, at the
 * host, the runner of an attempt. Then all that is known is when it was last seen. */
static int end_unwatched(struct store *store, struct episode *e, struct err *err)
{
	const bool is_of_host = e->worst.type != ANOMALY_ORPHAN; /* runners look at that, too */
	CLEANUP(query_close) struct query q = QUERY_INIT;
	bool lasts;
	int r = has_daemon(store, &lasts, err);

	if (r == 0 && !lasts && is_of_host) {
		r = query_open(store, STATEMENT_LIST_WATCHERS, &q, err);
		while (r == 0 && !lasts && (r = query_step(&q, err)) > 0)
			r = attempt_may_run(store, query_read_i64(&q), &lasts, err);
	}
	if (r < 0 || lasts)
		return r < 0 ? r : 0;
	e->ended_wall_ns = episode_last_seen(e);
	e->why_cleared = EPISODE_UNSEEN;
	return 0;
}

int attempt_end_episode(struct store *store, int64_t id, uint64_t ended_wall_ns, struct episode *e,
			struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	uint64_t sign_ns;
	struct attempt a;
	int r;

	if (!u64_known(e->ended_wall_ns) && e->worst.type == ANOMALY_ORPHAN)
		return end_unwatched(store, e, err); /* it is of who is left */
	/* It may have begun later. */
	if (u64_known(e->ended_wall_ns) ||
	    (u64_known(ended_wall_ns) && e->began_wall_ns > ended_wall_ns))
		return 0;
	e->ended_wall_ns = ended_wall_ns;
	if (u64_known(ended_wall_ns)) { /* nobody has written how */
		const bool is_kill = e->worst.type == ANOMALY_OOM_KILL;

		e->why_cleared = is_kill ? EPISODE_NO_MORE : EPISODE_JOB_ENDED;
		if (is_kill) /* it is over when it has happened */
			e->ended_wall_ns = u64_max_known(e->peak_wall_ns, e->began_wall_ns);
		return 0;
	}
	if (id == 0)
		return end_unwatched(store, e, err);
	r = query_first(store, STATEMENT_FIND_ATTEMPT_ROW, &q, err, id);
	if (r > 0)
		r = attempt_read_row(&q, &a, &arena, err);
	else
		a.is_lost = false;
	if (r < 0 || !a.is_lost)
		return r;
	r = attempt_read_last_sign(store, &a, &sign_ns, err); /* the last of its life */
	if (r < 0)
		return r;
	e->ended_wall_ns = u64_max_known(sign_ns, e->began_wall_ns);
	e->why_cleared = "its job was lost";
	return 0;
}

/*
 * list - attempts as they are listed, without their parts.
 */

void attempt_list_release(struct attempt_list *list)
{
	free(list->items);
	arena_release(&list->arena);
	*list = (struct attempt_list){ .arena = ARENA_INIT };
}

/* 0: this row is not for the list. */
static int list_read_row(struct query *q, const struct attempt_filter *filter, struct attempt *a,
			 struct arena *arena, struct err *err)
{
	uint64_t last_sign_ns = 0;
	int r = attempt_read_row(q, a, arena, err);
	int64_t ns = u64_known(a->started_wall_ns) ? (int64_t)a->started_wall_ns : 0;

	if (r == -EBADMSG && !filter->is_strict)
		return damage_leave_out(
			q->store, &(struct damage){ DAMAGED_ATTEMPTS, a->id, a->id, 1, ns, ns },
			err);
	/* The statement has sorted out those that ended too early; here only lost ones can have. */
	if (r < 0 || filter->since_wall_ns == 0 || !a->is_lost)
		return r < 0 ? r : 1;
	r = attempt_read_last_sign(q->store, a, &last_sign_ns, err);
	return r < 0 ? r : last_sign_ns > filter->since_wall_ns;
}

/* The newest first. */
static int open_list(struct store *store, const struct attempt_filter *filter, struct query *q,
		     struct err *err)
{
	int64_t uid = filter->uid ? (int64_t)*filter->uid : -1;
	int r;

	if (filter->submission)
		return query_ask(store, STATEMENT_FIND_SUBMISSION, q, err,
				 (int64_t)filter->submission, uid);
	r = query_open(store,
		       filter->running_only ? STATEMENT_LIST_RUNNING : STATEMENT_LIST_ATTEMPTS, q,
		       err);
	if (r < 0)
		return r;
	query_bind_text(q, filter->job_id);
	if (filter->running_only)
		return 0;
	query_bind_i64(q, (int64_t)filter->since_wall_ns);
	query_bind_i64(q, filter->latest_only);
	query_bind_i64(q, uid);
	return 0;
}

int store_list_attempts(struct store *store, const struct attempt_filter *filter,
			struct attempt_list *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { .arena = ARENA_INIT };
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	size_t cap = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = open_list(store, filter, &q, err);
	while (r >= 0 && (filter->limit == 0 || list.n < filter->limit) &&
	       (r = query_step(&q, err)) > 0) {
		struct attempt a;

		r = list_read_row(&q, filter, &a, &list.arena, err);
		if (r <= 0)
			continue;
		if (ARRAY_RESERVE(list.items, cap, list.n + 1) < 0)
			return store_no_memory(store, err);
		list.items[list.n++] = a;
	}
	if (r < 0)
		return r;
	for (size_t i = 0, k = list.n; i + 1 < k; i++) {
		struct attempt a = list.items[i];

		list.items[i] = list.items[--k];
		list.items[k] = a;
	}
	*ret = list;
	list = (struct attempt_list){ .arena = ARENA_INIT };
	return 0;
}

/*
 * read - one attempt, with all of its parts.
 */

static const struct row_part sheet_parts[] = {
	{ &sheet_columns, 0 },
	{ &usage_columns, offsetof(struct sheet_record, usage) },
};

/* ---- finding it ---- */

static int find_attempt(struct store *store, const char *job_id, int num, struct attempt *a,
			struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct arena arena = ARENA_INIT;
	int64_t job = -1;
	int r = query_find(store, STATEMENT_FIND_ATTEMPT, &q, err, V_TEXT(job_id), V_I64(num));

	if (r > 0)
		r = attempt_read_row(&q, a, &arena, err);
	else if (r == 0 && (r = job_find_row(store, job_id, &job, err)) == 0)
		r = job > 0 ? err_set(err, -ENOENT, "job %s has no attempt %d", job_id, num)
			    : err_set(err, -ENOENT,
				      "no job %s was recorded: \"proctor jobs\" lists those there "
				      "are",
				      job_id);
	a->arena = arena;
	return r;
}

/* ---- its parts ---- */

/* An array of the attempt, by the statement that reads it. */
struct array {
	enum statement id;
	const struct columns *columns;
	size_t item_size, items, n; /* where the pointer and the number are in the attempt */
};

#define ARRAY(id_, columns_, in_, member_)                                                 \
	{                                                                                  \
		STATEMENT_##id_, &(columns_), sizeof(*((struct attempt *)0)->in_ member_), \
			offsetof(struct attempt, in_ member_),                             \
			offsetof(struct attempt, in_ n_##member_)                          \
	}

static const struct array processes_array = ARRAY(READ_PROCESSES, process_columns, , processes);
static const struct array arrays[] = {
	ARRAY(READ_PHASES, phase_columns, , phases),
	ARRAY(READ_RUNGS, rung_columns, details., rungs),
	ARRAY(READ_SYSCALLS, syscall_columns, details., syscalls),
	ARRAY(READ_UNKNOWNS, unknown_columns, details., unknowns),
};

static int read_array(struct store *store, const struct array *array, struct attempt *a,
		      struct err *err)
{
	const struct row_part part = { array->columns, 0 };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, array->id, &q, err, a->id);

	return r < 0 ? r
		     : rows_read(&q, &part, 1, array->item_size, &a->arena,
				 (char *)a + array->items, (size_t *)((char *)a + array->n), err);
}

static int read_arrays(struct store *store, struct attempt *a, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(arrays); i++)
		r = read_array(store, &arrays[i], a, err);
	return r;
}

static int read_sheets(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_READ_SHEETS, &q, err, a->id);

	if (r < 0)
		return r;
	r = rows_read(&q, sheet_parts, ARRAY_SIZE(sheet_parts), sizeof(*a->sheets), &a->arena,
		      &a->sheets, &a->n_sheets, err);
	for (size_t i = 0; r == 0 && i < a->n_sheets; i++) {
		static const struct row_part part = { &rank_columns, 0 };
		CLEANUP(query_close) struct query ranks = QUERY_INIT;
		struct sheet_record *sheet = &a->sheets[i];

		r = query_ask(store, STATEMENT_READ_RANKS, &ranks, err, a->id, sheet->num,
			      sheet->try_num);
		if (r == 0)
			r = rows_read(&ranks, &part, 1, sizeof(*sheet->ranks), &a->arena,
				      &sheet->ranks, &sheet->n_ranks, err);
	}
	return r;
}

static int read_processes(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	size_t n, n_unaccounted; /* no end has told of these */
	int r = query_first(store, STATEMENT_COUNT_PROCESSES, &q, err, a->id);

	if (r <= 0)
		return r;
	n = (size_t)query_read_i64(&q);
	n_unaccounted = (size_t)query_read_i64(&q);
	if (!u64_known(a->ended_wall_ns) || n_unaccounted > 0)
		return running_totals_read(store, a, n, err);
	return read_array(store, &processes_array, a, err);
}

static int read_events(struct store *store, struct attempt *a, struct err *err)
{
	const struct damage unread = { .kind = DAMAGED_EVENTS, .recorder = a->id };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_READ_EVENTS, &q, err, a->id);

	if (r < 0)
		return r;
	r = rows_read_sound(&q, &unread, &event_columns, sizeof(*a->events), &a->arena, &a->events,
			    &a->n_events, err);
	for (size_t i = 0; r == 0 && i < a->n_events; i++)
		a->events[i].job_id = a->job_id;
	return r;
}

static int add_note(struct store *store, struct attempt *a, const char *what, const char *why,
		    struct err *err)
{
	return attempt_note(a, what, why) < 0 ? store_no_memory(store, err) : 0;
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

static int add_notes(struct store *store, struct attempt *a, struct err *err)
{
	int64_t n = 0;
	char why[160];
	int r = query_read_number(store, STATEMENT_READ_LOST_MARKS, a->id, &n, err);

	snprintf(why, sizeof(why),
		 "about %lld markers of them were lost: too many at once, more than %d phases of a "
		 "rank, or a daemon that did not read them",
		 (long long)n, PHASES_PER_RANK);
	if (r >= 0)
		r = n > 0 ? add_note(store, a, "phases", why, err) : 0;
	if (r == 0)
		r = add_gone(store, a, "events", META_EVENTS_GONE, err);
	if (r == 0)
		r = add_gone(store, a, "anomalies", META_ANOMALIES_GONE, err);
	return r < 0 ? r : add_gone(store, a, "memory and CPU over time", META_CURVES_GONE, err);
}

typedef int part_reader(struct store *store, struct attempt *a, struct err *err);

/* What they had to leave out is told by the attempt itself, each time that it is read. */
static int read_attempt(struct store *store, const char *job_id, int num,
			part_reader *const *readers, size_t n_readers, struct attempt *ret,
			struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(damages_release) struct damages met = { 0 };
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct damages before = store->damages;
	int r;

	attempt_init(&a);
	r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err); /* all as of one moment */
	if (r == 0)
		r = find_attempt(store, job_id, num, &a, err);
	store->damages = met;
	for (size_t i = 0; r == 0 && i < n_readers; i++)
		r = readers[i](store, &a, err);
	met = store->damages;
	store->damages = before;
	damages_add(&store->damages, &met);
	if (r == 0 && met.n + met.n_more > 0) {
		damages_write(store, &met, &why);
		buf_add_str(&why, ": damaged in the database, and left out");
		r = add_note(store, &a, "damaged", why.data, err);
	}
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
		read_sheets, read_processes, read_events, anomalies_read,
		read_arrays, add_notes,	     series_read,
	};

	return read_attempt(store, job_id, num, readers, ARRAY_SIZE(readers), ret, err);
}

int store_read_progress(struct store *store, const char *job_id, int num, struct attempt *ret,
			struct err *err)
{
	static part_reader *const readers[] = { read_sheets };

	return read_attempt(store, job_id, num, readers, ARRAY_SIZE(readers), ret, err);
}
