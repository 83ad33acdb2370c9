/*
 * Ticks that two fold at once: retention, which takes a recorder that was quiet for one
 * that is gone, and the recorder itself. Another handle acts just before each statement
 * of a call, one after the other: each tick must be there once, and readable.
 */
#include "retention_fixture.h"

#include "store/fold.h"

#include "rounds.h"

#define N_PROCESSES 2
#define NEXT_STATEMENT (ARE_ALL_ROUNDS ? 1 : 4)

/* What one handle does just before a statement of another. */
struct intruder {
	unsigned at, n_seen; /* before statement number at, from 1 */
	void (*act)(struct intruder *self);
	struct store *store;
	struct attempt *a;
	uint64_t wall_ns;   /* of the next tick */
	unsigned n_written; /* ticks */
	bool was_shut_out;  /* the other had the lock */
};

static int on_statement(unsigned type, void *ctx, void *stmt, void *sql)
{
	struct intruder *in = ctx;

	(void)type;
	(void)stmt;
	if (strncmp(sql, "--", 2) == 0) /* of a trigger */
		return 0;
	if (++in->n_seen == in->at)
		in->act(in);
	return 0;
}

static void watch(struct store *victim, struct intruder *in)
{
	assert_int_equal(sqlite3_trace_v2(victim->db, SQLITE_TRACE_STMT, on_statement, in),
			 SQLITE_OK);
}

static void unwatch(struct store *victim)
{
	sqlite3_trace_v2(victim->db, 0, NULL, NULL);
}

/* ---- what is done ---- */

static int tick_once(struct store *store, const struct attempt *a, uint64_t wall_ns,
		     struct err *err)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct series_point point = { .wall_ns = wall_ns, .sheet_num = 1 };

	snapshot_init(&snap);
	fill_snapshot(&snap, a->job_id, N_PROCESSES, (unsigned)(wall_ns / SECOND_NS % 100000));
	snap.wall_ns = wall_ns;
	return write_tick(store, a, &snap, &point, NULL, 0, err);
}

static void write_ticks(struct store *store, const struct attempt *a, uint64_t from_ns, unsigned n)
{
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < n; i++)
		must(tick_once(store, a, from_ns + i * SECOND_NS, &err), &err);
}

static void act_tick(struct intruder *in)
{
	struct err err = ERR_INIT;
	int r = tick_once(in->store, in->a, in->wall_ns, &err);

	in->was_shut_out = r == -EBUSY;
	if (!in->was_shut_out)
		must(r, &err);
	in->n_written += r == 0;
}

/* A run of retention, as far as it comes. */
static void act_retain(struct intruder *in)
{
	const struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct err err = ERR_INIT;
	struct retention run;
	int r;

	store_retain_begin(&run, &policy, NOW, NULL);
	while ((r = store_retain_slice(in->store, &run, &err)) > 0)
		;
	in->was_shut_out = r == -EBUSY;
	if (!in->was_shut_out)
		must(r, &err);
}

/* ---- what must have come of it ---- */

struct seen {
	uint64_t *times;
	size_t n;
};

static int see(void *ctx, const struct snapshot *snap)
{
	struct seen *seen = ctx;

	assert_int_equal(snap->n_processes, N_PROCESSES);
	seen->times = reallocarray(seen->times, seen->n + 1, sizeof(*seen->times));
	assert_non_null(seen->times);
	seen->times[seen->n++] = snap->wall_ns;
	return 0;
}

/* All of n ticks, each once. */
static void assert_whole(const struct fixture *f, size_t n)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_READ);
	struct seen seen = { 0 };
	struct err err = ERR_INIT;

	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, see, &seen, &err), &err);
	assert_int_equal(seen.n, n);
	for (size_t i = 1; i < n; i++)
		assert_true(seen.times[i] > seen.times[i - 1]);
	free(seen.times);
	assert_int_equal(must_count_in_minutes(store), n * N_PROCESSES);
	must(store_check(store, 0, &err), &err);
	assert_is_sound(f->db);
}

/* ---- the races ---- */

struct race {
	struct fixture *f;
	struct store *recorder, *other, *third;
	struct attempt a;
	size_t n; /* ticks that were written */
};

static void race_begin(struct race *race, unsigned n_ticks)
{
	*race = (struct race){ 0 };
	assert_int_equal(fixture_setup((void **)&race->f), 0);
	race->recorder = must_open_fast(race->f->db);
	race->other = must_open_fast(race->f->db);
	race->third = must_open_fast(race->f->db);
	store_set_lock_timeout(race->recorder, 0); /* both are this thread: to wait is of no use */
	race->a = must_begin_at(race->recorder, "j", NOW - 2 * HOUR);
	write_ticks(race->recorder, &race->a, NOW - 2 * HOUR, n_ticks);
	race->n = n_ticks;
}

/* The recorder goes on, over the next folds and to its end. */
static void race_end(struct race *race)
{
	write_ticks(race->recorder, &race->a, NOW, FOLD_TICKS + 7);
	race->n += FOLD_TICKS + 7;
	assert_whole(race->f, race->n);
	must_finish_at(race->recorder, &race->a, NOW + HOUR);
	assert_whole(race->f, race->n);
	store_close(race->recorder);
	store_close(race->other);
	store_close(race->third);
	fixture_teardown((void **)&race->f);
}

/* The recorder writes a tick while retention folds those before. */
static void test_a_tick_while_others_fold(void **state)
{
	bool was_reached = true, was_shut_out = false, was_let_in = false;

	(void)state;
	for (unsigned at = 1; was_reached; at += NEXT_STATEMENT) {
		struct race race;
		struct intruder in = { .at = at, .act = act_tick, .wall_ns = NOW - MINUTE };
		struct intruder retention = { 0 };

		race_begin(&race, 50);
		in.store = race.recorder;
		in.a = &race.a;
		retention.store = race.other;
		watch(race.other, &in);
		act_retain(&retention);
		unwatch(race.other);
		was_reached = in.n_seen >= at;
		was_shut_out |= in.was_shut_out;
		was_let_in |= in.n_written > 0;
		race.n += in.n_written;
		race_end(&race);
	}
	assert_true(was_shut_out && was_let_in); /* it came before, in the midst, and after */
}

/* Retention folds while the recorder does: with a tick that is due to fold… */
static void test_others_fold_at_a_tick(void **state)
{
	bool was_reached = true, was_shut_out = false;
	unsigned n_folded = 0;

	(void)state;
	for (unsigned at = 1; was_reached; at += NEXT_STATEMENT) {
		struct race race;
		struct intruder in = { .at = at, .act = act_retain };

		race_begin(&race, FOLD_TICKS - 1);
		in.store = race.other;
		watch(race.recorder, &in);
		write_ticks(race.recorder, &race.a, NOW - 90 * MINUTE, 1);
		unwatch(race.recorder);
		race.n++;
		was_reached = in.n_seen >= at;
		was_shut_out |= in.was_shut_out;
		n_folded += !in.was_shut_out;
		assert_true(raw_sql(race.f->db, "SELECT count(*) FROM ticks") < FOLD_TICKS);
		race_end(&race);
	}
	assert_true(was_shut_out && n_folded > 0);
}

/* …and at the end of its run. */
static void test_others_fold_at_the_end(void **state)
{
	bool was_reached = true;

	(void)state;
	for (unsigned at = 1; was_reached; at += NEXT_STATEMENT) {
		struct race race;
		struct intruder in = { .at = at, .act = act_retain };

		race_begin(&race, 70);
		in.store = race.other;
		watch(race.recorder, &in);
		must_finish_at(race.recorder, &race.a, NOW - 90 * MINUTE);
		unwatch(race.recorder);
		was_reached = in.n_seen >= at;
		assert_int_equal(raw_sql(race.f->db, "SELECT count(*) FROM ticks"), 0);
		race_end(&race);
	}
}

/* Two others at once. */
static void test_two_others_fold(void **state)
{
	bool was_reached = true;

	(void)state;
	for (unsigned at = 1; was_reached; at += NEXT_STATEMENT) {
		struct race race;
		struct intruder in = { .at = at, .act = act_retain }, first = { 0 };

		race_begin(&race, 50);
		in.store = race.third;
		first.store = race.other;
		watch(race.other, &in);
		act_retain(&first);
		unwatch(race.other);
		was_reached = in.n_seen >= at;
		race_end(&race);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tick_while_others_fold),
		cmocka_unit_test(test_others_fold_at_a_tick),
		cmocka_unit_test(test_others_fold_at_the_end),
		cmocka_unit_test(test_two_others_fold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
