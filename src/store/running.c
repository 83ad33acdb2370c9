/*
 * running - whether an attempt without an end still runs, and what that means for what it began.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/read.h"
#include "store/rows.h"
#include "store/tables.h"

/* How long a runner that nobody can look at may be quiet before it counts as lost. */
#define QUIET_INTERVALS 10
#define QUIET_SECONDS 60.0

static const struct row_part attempt_parts[] = {
	{ &attempt_name_columns, 0 },
	{ &attempt_begin_columns, 0 },
	{ &attempt_progress_columns, 0 },
	{ &attempt_end_columns, 0 },
	{ &usage_columns, offsetof(struct attempt, usage) },
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

static int judge_alive(struct store *store, const struct attempt *a, bool *ret, struct err *err)
{
	enum store_alive alive = store->alive ? store->alive(store->alive_ctx, a) : STORE_ALIVE;
	uint64_t last_sign_ns = 0;
	int r;

	*ret = alive == STORE_ALIVE;
	if (alive != STORE_CANNOT_TELL)
		return 0;
	r = attempt_read_last_sign(store, a, &last_sign_ns, err);
	*ret = r == 0 && is_recent(a->interval_seconds, last_sign_ns);
	return r;
}

/* An attempt without an end runs as long as its runner lives. */
static int judge_running(struct store *store, struct attempt *a, struct err *err)
{
	bool is_alive = false;
	int r;

	if (u64_known(a->ended_wall_ns))
		return 0;
	r = judge_alive(store, a, &is_alive, err);
	a->is_running = is_alive;
	a->is_lost = !is_alive;
	return r;
}

/* Nobody who can tell has to have said that it is dead. */
static bool is_dead(const struct store *store, const struct attempt *a)
{
	return store->alive && store->alive(store->alive_ctx, a) == STORE_DEAD;
}

/* Its row: 1, and the query stands at it; 0: there is none. */
static int find_row(struct store *store, int64_t id, struct query *q, struct err *err)
{
	int r = query_open(store, STATEMENT_FIND_ATTEMPT_ROW, q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, id);
	return query_step(q, err);
}

int attempt_may_run(struct store *store, int64_t attempt_id, bool *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct attempt a;
	int r = find_row(store, attempt_id, &q, err);

	if (r <= 0)
		return r;
	attempt_init(&a);
	r = row_read(&q, attempt_parts, ARRAY_SIZE(attempt_parts), &a, &arena, err);
	*ret = !u64_known(a.ended_wall_ns) && !is_dead(store, &a);
	return r;
}

int store_has_attempt(struct store *store, int64_t attempt_id, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, STATEMENT_HAS_ATTEMPT, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	return query_step(&q, err);
}

int attempt_read_row(struct query *q, struct attempt *a, struct arena *arena, struct err *err)
{
	int r;

	attempt_init(a);
	r = row_read(q, attempt_parts, ARRAY_SIZE(attempt_parts), a, arena, err);
	return r < 0 ? r : judge_running(q->store, a, err);
}

/* ---- episodes that nobody has ended ---- */

/* The last sign of an attempt that was lost; of others it stays as it is. */
static int read_lost_sign(struct store *store, int64_t id, uint64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct attempt a;
	int r = find_row(store, id, &q, err);

	if (r <= 0)
		return r;
	r = attempt_read_row(&q, &a, &arena, err);
	return r == 0 && a.is_lost ? attempt_read_last_sign(store, &a, ret, err) : r;
}

/* A daemon that was killed has not said that it stops. One that nobody can look at may be quiet,
 * as a runner may. */
static bool daemon_may_look(const struct store *store, const struct attempt *as_runner,
			    uint64_t last_sign_ns)
{
	enum store_alive alive =
		store->alive ? store->alive(store->alive_ctx, as_runner) : STORE_ALIVE;

	return alive == STORE_ALIVE ||
	       (alive == STORE_CANNOT_TELL && is_recent(F64_UNKNOWN, last_sign_ns));
}

static int has_daemon(struct store *store, bool *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct daemon_record d = { 0 };
	struct attempt as_runner;
	uint64_t last_sign_ns;
	int r = query_open(store, STATEMENT_LAST_DAEMON, &q, err);

	*ret = false;
	if (r == 0)
		r = query_step(&q, err);
	if (r <= 0)
		return r;
	attempt_init(&as_runner);
	snprintf(as_runner.boot_id, sizeof(as_runner.boot_id), "%s", query_read_text(&q));
	last_sign_ns = (uint64_t)query_read_i64(&q);
	r = query_read_columns(&q, &daemon_columns, &d, &arena, err);
	as_runner.runner = d.key;
	*ret = r == 0 && daemon_may_look(store, &as_runner, last_sign_ns);
	return r;
}

/* Whether anybody may look: a daemon, or, at the host, the runner of an attempt. */
static int is_watched(struct store *store, bool is_of_host, bool *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = has_daemon(store, ret, err);

	if (r < 0 || *ret || !is_of_host)
		return r;
	r = query_open(store, STATEMENT_LIST_WATCHERS, &q, err);
	if (r < 0)
		return r;
	while (!*ret && (r = query_step(&q, err)) > 0) {
		r = attempt_may_run(store, query_read_i64(&q), ret, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

/* Whoever has seen it begin may have vanished. Then all that is known is when it was last seen. */
static int end_unwatched(struct store *store, struct episode *e, struct err *err)
{
	const bool is_of_host = e->worst.type != ANOMALY_ORPHAN; /* runners look at that, too */
	bool lasts;
	int r = is_watched(store, is_of_host, &lasts, err);

	if (r < 0 || lasts)
		return r;
	e->ended_wall_ns = episode_last_seen(e);
	e->why_cleared = EPISODE_UNSEEN;
	return 0;
}

/* Nobody has written how; a kill is over when it has happened. */
static void end_with_attempt(struct episode *e)
{
	const bool is_kill = e->worst.type == ANOMALY_OOM_KILL;

	e->why_cleared = is_kill ? EPISODE_NO_MORE : EPISODE_JOB_ENDED;
	if (is_kill)
		e->ended_wall_ns = u64_max_known(e->peak_wall_ns, e->began_wall_ns);
}

int attempt_end_episode(struct store *store, int64_t id, uint64_t ended_wall_ns, struct episode *e,
			struct err *err)
{
	uint64_t sign_ns = U64_UNKNOWN;
	int r;

	if (!u64_known(e->ended_wall_ns) && e->worst.type == ANOMALY_ORPHAN)
		return end_unwatched(store, e, err); /* it is of who is left */
	/* It may have begun later. */
	if (u64_known(e->ended_wall_ns) ||
	    (u64_known(ended_wall_ns) && e->began_wall_ns > ended_wall_ns))
		return 0;
	e->ended_wall_ns = ended_wall_ns;
	if (u64_known(ended_wall_ns)) {
		end_with_attempt(e);
		return 0;
	}
	if (id == 0)
		return end_unwatched(store, e, err);
	r = read_lost_sign(store, id, &sign_ns, err);
	if (r < 0 || !u64_known(sign_ns))
		return r;
	e->ended_wall_ns = u64_max_known(sign_ns, e->began_wall_ns);
	e->why_cleared = "its job was lost";
	return 0;
}
