/* A wall clock that jumps ahead makes nothing old, unless it stands by it or somebody vouches. */
#include "retention_fixture.h"

#include "base/clock.h"

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
#define YEAR (365 * DAY)

/* Boot clocks begin at 0 with each boot. */
static struct retention must_run(struct store *store, const char *boot_id, uint64_t wall_ns,
				 uint64_t boot_ns, bool is_synchronised)
{
	struct retention_clock clock = { .boot_ns = boot_ns, .is_synchronised = is_synchronised };
	struct retention run;

	snprintf(clock.boot_id, sizeof(clock.boot_id), "%s", boot_id);
	store_retain_begin(&run, &default_policy, wall_ns, &clock);
	must_retain(store, &run);
	return run;
}

/* An attempt with an event, a tick and an end, at NOW; and a run of retention then. */
static struct store *make_record(const struct fixture *f)
{
	struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW);
	const struct proc_event ev = { .wall_ns = NOW, .key = { 1, 1 }, .details = "" };
	struct err err = ERR_INIT;

	must_tick_at(store, &a, NOW, 3);
	must(store_write_events(store, &a, &ev, 1, &err), &err);
	must_finish_at(store, &a, NOW + SECOND_NS);
	must_run(store, "a", NOW, HOUR, false);
	return store;
}

static bool is_all_there(const struct fixture *f)
{
	return raw_sql(f->db, "SELECT count(*) FROM chunks") == 1 &&
	       raw_sql(f->db, "SELECT count(*) FROM events") == 1;
}

static uint64_t read_hold(struct store *store, uint64_t now_wall_ns)
{
	struct err err = ERR_INIT;
	uint64_t until = 1;

	must(store_read_retention_hold(store, now_wall_ns, &until, &err), &err);
	return until;
}

/* Who only asks is told what a run would do, before one has judged the clock and after. */
static void assert_foreseen(struct store *store, uint64_t later)
{
	struct retention_clock clock = { .boot_ns = 2 * HOUR, .boot_id = "a" };
	struct retention p;
	struct err err = ERR_INIT;

	must(store_preview_retention(store, &default_policy, later, &clock, &p, &err), &err);
	assert_true(p.held_until_ns == later + 7 * DAY);
	assert_int_equal(p.result.n_folds, 0);
	clock.is_synchronised = true;
	must(store_preview_retention(store, &default_policy, later, &clock, &p, &err), &err);
	assert_true(p.held_until_ns == 0);
	assert_int_equal(p.result.n_folds, 1);
}

static void test_a_jump(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = make_record(f);
	const uint64_t later = NOW + 14 * YEAR;
	struct retention run;

	assert_foreseen(store, later);
	assert_true(read_hold(store, later) == 0);
	run = must_run(store, "a", later, 2 * HOUR, false);
	assert_true(is_all_there(f));
	assert_true(run.held_until_ns == later + 7 * DAY);
	assert_true(read_hold(store, later) == later + 7 * DAY);
	assert_foreseen(store, later);
	must_run(store, "a", later + 6 * DAY, 2 * HOUR + 6 * DAY, false); /* for as long as that… */
	assert_true(is_all_there(f));
	run = must_run(store, "a", later + 8 * DAY, 2 * HOUR + 8 * DAY, false); /* …and no longer */
	assert_true(run.held_until_ns == 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 0);
}

/* No run of retention has looked at the clocks yet: who made the database has. */
static void test_a_jump_of_a_young_one(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_clock clock = retention_clock_now();
	const uint64_t now = clock_wall_ns(), later = now + 40 * DAY;
	struct attempt a = must_begin_at(store, "j", now);
	struct retention run;

	clock.is_synchronised = false;
	must_tick_at(store, &a, now, 3);
	must_finish_at(store, &a, now + SECOND_NS);
	store_retain_begin(&run, &default_policy, later, &clock);
	must_retain(store, &run);
	assert_true(run.held_until_ns == later + 7 * DAY);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 1);
}

/* The clock was wrong, and is put right: all is as it was. */
static void test_a_jump_and_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = make_record(f);

	must_run(store, "a", NOW + 14 * YEAR, 2 * HOUR, false);
	must_run(store, "a", NOW + 2 * HOUR, 3 * HOUR, false);
	assert_true(is_all_there(f));
	assert_true(read_hold(store, NOW + 2 * HOUR) == 0);
	must_run(store, "a", NOW + 25 * HOUR, 26 * HOUR, false); /* it is a day old by now */
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 1);
}

/* One that others vouch for, a machine that was off or asleep for days, and one off for a year. */
static void test_what_is_believed(void **state)
{
	static const struct {
		const char *boot_id;
		uint64_t wall_ns, boot_ns;
		bool is_synchronised, is_believed;
	} cases[] = {
		{ "a", NOW + YEAR, 2 * HOUR, true, true },
		{ "a", NOW + 3 * DAY, HOUR + 3 * DAY, false, true },
		{ "b", NOW + 3 * DAY, 1, false, true },
		{ "b", NOW + YEAR, 1, false, false },
		{ "a", NOW + 3 * DAY, 2 * HOUR, false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *f = NULL;
		struct store *store;

		assert_int_equal(fixture_setup((void **)&f), 0);
		store = make_record(f);
		must_run(store, cases[i].boot_id, cases[i].wall_ns, cases[i].boot_ns,
			 cases[i].is_synchronised);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks") == 0,
				 cases[i].is_believed);
		store_close(store);
		fixture_teardown((void **)&f);
	}
}

/* Room is made also while nobody knows how late it is. */
static void test_room_is_made(void **state)
{
	struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct retention_clock clock = { .boot_ns = 2 * HOUR, .boot_id = "a" };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = make_record(f);
	struct retention run;

	policy.max_bytes = 1;
	store_retain_begin(&run, &policy, NOW + YEAR, &clock);
	must_retain(store, &run);
	assert_true(run.held_until_ns > 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_jump),	  STORE_TEST(test_a_jump_of_a_young_one),
		STORE_TEST(test_a_jump_and_back), cmocka_unit_test(test_what_is_believed),
		STORE_TEST(test_room_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
