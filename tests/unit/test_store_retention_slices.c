/* When retention is done, in pieces, and what it meets on the way. */
#include "retention_fixture.h"

/* ---- when ---- */

static void test_once_an_hour(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;

	assert_int_equal(retention_is_due(store, NOW, &err), 1);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(retention_is_due(store, NOW, &err), 0);
	assert_int_equal(retention_is_due(store, NOW + HOUR - 1, &err), 0);
	assert_int_equal(retention_is_due(store, NOW + HOUR, &err), 1);
	assert_int_equal(retention_is_due(store, NOW - 1, &err), 1); /* set back */
}

/* Too much does not wait for the hour, but nobody does it beside another or minute by minute. */
static void test_room_does_not_wait(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	uint64_t now = NOW, over = 1;
	struct err err = ERR_INIT;

	must(store_read_over(store, &policy, &over, &err), &err);
	assert_int_equal(over, 0);
	policy.max_bytes = 1;
	must(store_read_over(store, &policy, &over, &err), &err);
	assert_true(over > 100000);
	policy.max_bytes = 0; /* no limit */
	must(store_read_over(store, &policy, &over, &err), &err);
	assert_int_equal(over, 0);

	must_retain_at(store, &default_policy, now);
	assert_int_equal(store_claim_retention(store, true, now + 59 * SECOND_NS, &err), 0);
	assert_int_equal(store_claim_retention(store, false, now + 60 * SECOND_NS, &err), 0);
	assert_int_equal(store_claim_retention(store, true, now + 60 * SECOND_NS, &err), 1);
	assert_int_equal(store_claim_retention(store, true, now + 120 * SECOND_NS, &err), 0);
	assert_int_equal(store_claim_retention(store, true, now + HOUR, &err),
			 1); /* who claimed it is gone */
	must_retain_at(store, &default_policy, now + HOUR);
	assert_int_equal(store_claim_retention(store, true, now + HOUR + 60 * SECOND_NS, &err), 1);
}

/* Slices are small: there are many, and each leaves the database as it should be. */
static void test_slices(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;
	unsigned n = 0;

	tick_between(store, &a, 30 * HOUR, 25 * HOUR, 60 * SECOND_NS, 130);
	must_finish_at(store, &a, NOW - 25 * HOUR);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 0; /* a piece of work each */
	while (store_retain_slice(store, &run, &err) > 0) {
		n++;
		assert_int_equal(retention_is_due(store, NOW, &err), 1);
		if (n % 4 == 0)
			assert_int_equal(must_count_in_minutes(store), 300 * 130);
	}
	assert_true(n >= 3 * 3); /* chunks */
	assert_int_equal(run.result.n_samples, 300 * 130);
	assert_int_equal(retention_is_due(store, NOW, &err), 0);
}

/* An hour of a job that is over, older than what is kept in full. */
static void record_old_hour(struct store *store, uint64_t every_ns, int n_processes)
{
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);

	tick_between(store, &a, 30 * HOUR, 29 * HOUR, every_ns, n_processes);
	must_finish_at(store, &a, NOW - 29 * HOUR);
}

/* What the attempt's processes tell of themselves so far. */
static void assert_so_far(struct store *store, const char *job_id, size_t n, uint64_t n_samples)
{
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;

	attempt_init(&a);
	must(store_read_attempt(store, job_id, 0, &a, &err), &err);
	assert_int_equal(a.n_processes, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(a.processes[i].n_samples, n_samples);
}

/*
 * Between slices some processes of a fold are in minutes and others are not: it is read
 * whole, at full resolution until all of it is in minutes, and by no reader twice.
 */
static void test_half_a_fold_is_told_as_minutes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;
	unsigned n_half = 0;
	int r;

	tick_between(store, &a, 30 * HOUR, 30 * HOUR - 4 * MINUTE, SECOND_NS, 200);
	assert_int_equal(count(f, "folds"), 2);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 0; /* a piece of work each */
	while ((r = store_retain_slice(store, &run, &err)) > 0) {
		int64_t n_whole = raw_sql(f->db, "SELECT count(*) FROM folds "
						 " WHERE NOT is_rolled");

		n_half += raw_sql(f->db, "SELECT count(*) FROM folds WHERE is_rolled") > 0;
		assert_int_equal(count_samples(f->db), n_whole * 120 * 200);
		assert_int_equal(must_count_in_minutes(store), 240 * 200);
		assert_so_far(store, "j", 200, 240);
	}
	must(r, &err);
	assert_in_range(n_half, 12, 16); /* after each group but the last */
	assert_int_equal(count(f, "chunks") + count(f, "folds"), 0);
	assert_int_equal(must_count_in_minutes(store), 240 * 200);
	assert_so_far(store, "j", 200, 240);
}

struct disturbed {
	struct store *other;
	struct retention run;
	size_t n;
};

/* Now and then a little more of what is not read yet is gone. */
static int retain_a_little(void *ctx, const struct snapshot *snap)
{
	struct disturbed *d = ctx;
	struct err err = ERR_INIT;

	assert_int_equal(snap->n_processes, 30);
	if (d->n++ % 10 == 0)
		assert_true(store_retain_slice(d->other, &d->run, &err) >= 0);
	return 0;
}

/* Who reads while it goes on is told whole ticks, or none. */
static void test_a_reader_in_the_midst_of_it(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *other = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct disturbed d = { .other = other };
	struct err err = ERR_INIT;

	tick_between(store, &a, 30 * HOUR, 29 * HOUR, 2 * SECOND_NS, 30);
	must_finish_at(store, &a, NOW - 29 * HOUR);
	store_retain_begin(&d.run, &default_policy, NOW, NULL);
	d.run.slice_ns = 0; /* a piece of work each */
	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, retain_a_little, &d, &err),
	     &err);
	assert_in_range(d.n, 120, 1799);
	must_retain(other, &d.run);
	assert_int_equal(d.run.result.n_samples, 1800 * 30);
}

static void test_a_lock_is_not_waited_for(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;
	struct retention run;
	sqlite3 *other = NULL;

	store_retain_begin(&run, &default_policy, NOW, NULL);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_retain_slice(store, &run, &err), -EBUSY);
	assert_int_equal(store_retain_slice(store, &run, &err), -EBUSY);
	assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	must_retain(store, &run);
}

static int refuse_commit(void *ctx)
{
	(void)ctx;
	return 1;
}

/* What could not be written is not counted, and is done again. */
static void test_a_slice_that_fails(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;
	struct retention run;

	record_old_hour(store, 10 * SECOND_NS, 3);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	sqlite3_commit_hook(store->db, refuse_commit, NULL);
	assert_true(store_retain_slice(store, &run, &err) < 0);
	assert_int_equal(run.result.n_samples + run.result.n_folds, 0);
	assert_int_equal(must_count_in_minutes(store), 360 * 3);
	sqlite3_commit_hook(store->db, NULL, NULL);
	must_retain(store, &run);
	assert_int_equal(run.result.n_samples, 360 * 3);
	assert_int_equal(must_count_in_minutes(store), 360 * 3);
}

static void test_a_reader_cannot(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct err err = ERR_INIT;
	struct retention run;

	store_close(must_open_fast(f->db));
	reader = must_open(f->db, STORE_READ);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	assert_true(store_retain_slice(reader, &run, &err) < 0);
}

/* ---- damage ---- */

static void test_damage_is_dropped(void **state)
{
	static const struct {
		const char *sql;
		uint64_t n_lost; /* samples: a fold of both processes has twice 120 */
	} damages[] = {
		{ "UPDATE chunks SET data = x'01ffff' WHERE id = (SELECT min(id) FROM chunks)",
		  2 * 120 },
		{ "UPDATE folds SET times = zeroblob(99) WHERE id = (SELECT min(id) FROM folds)",
		  2 * 120 },
		{ "UPDATE points SET data = x'02'", 0 },
		{ "UPDATE rollups SET data = x'01' WHERE id = (SELECT min(id) FROM rollups)",
		  2 * 120 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		CLEANUP(store_cleanup) struct store *store = NULL;
		struct retention_policy policy = default_policy;
		struct retention_result result;
		struct attempt a;
		char path[192];

		snprintf(path, sizeof(path), "%s/%zu.db", f->dir, i);
		store = must_open_fast(path);
		a = must_begin_at(store, "j", NOW - 30 * HOUR);
		tick_between(store, &a, 30 * HOUR, 30 * HOUR - 4 * MINUTE, SECOND_NS, 2);
		must_finish_at(store, &a, NOW - 29 * HOUR);
		if (strstr(damages[i].sql, "rollups")) /* the first of two folds becomes one */
			must_retain_at(store, &default_policy, NOW - 6 * HOUR + 3 * MINUTE);
		raw_sql(path, damages[i].sql);
		policy.downsampled_days = strstr(damages[i].sql, "points") ? 0 : 7;
		result = must_retain_at(store, &policy, NOW);
		assert_int_equal(result.n_damaged > 0, 1);
		if (policy.downsampled_days)
			assert_int_equal(must_count_in_minutes(store), 2 * 240 - damages[i].n_lost);
		assert_int_equal(raw_sql(path, "SELECT count(*) FROM folds"), 0);
	}
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_once_an_hour),
		STORE_TEST(test_room_does_not_wait),
		STORE_TEST(test_slices),
		STORE_TEST(test_half_a_fold_is_told_as_minutes),
		STORE_TEST(test_a_reader_in_the_midst_of_it),
		STORE_TEST(test_a_lock_is_not_waited_for),
		STORE_TEST(test_a_slice_that_fails),
		STORE_TEST(test_a_reader_cannot),
		STORE_TEST(test_damage_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
