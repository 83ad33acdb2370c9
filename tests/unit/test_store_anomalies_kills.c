/* A kill that several have seen is one, of whoever was killed. */
#include "anomaly_fixture.h"

/* Several runs have seen it, each a moment later, and each tells that no other came. */
static void test_a_kill_of_the_host_is_one(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct episode runs[3];
	struct heard h;

	for (size_t i = 0; i < 3; i++) {
		make_episode(&runs[i], 0, START + i * SECOND / 4);
		runs[i].worst.type = ANOMALY_OOM_KILL;
		put(store, 0, &runs[i], EPISODE_BEGAN);
	}
	for (size_t i = 0; i < 3; i++)
		end_as(store, 0, &runs[i], runs[i].began_wall_ns, EPISODE_NO_MORE);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 2);
	make_episode(&runs[0], 0, START + 5 * SECOND); /* another one */
	runs[0].worst.type = ANOMALY_OOM_KILL;
	put(store, 0, &runs[0], EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
}

/* after: seconds. */
static void make_kill(struct episode *e, const char *job_id, pid_t pid, uint64_t start_ticks,
		      uint64_t after)
{
	make_episode(e, pid, START + after * SECOND);
	e->worst.type = ANOMALY_OOM_KILL;
	e->worst.start_ticks = start_ticks;
	snprintf(e->name, sizeof(e->name), "oom_kill/%s.%d.%llx/%llu", job_id, (int)pid,
		 (unsigned long long)start_ticks, (unsigned long long)after);
}

/* A runner knows the pid of its child, the daemon also when that began: it was killed once. */
static void test_a_kill_that_two_have_seen(void **state)
{
	static const struct {
		uint64_t start_ticks, after;
		pid_t pid;
		size_t n_rows;
	} cases[] = {
		{ U64_UNKNOWN, 1, 42, 1 },  { 77, 1, 42, 1 },
		{ 78, 1, 42, 2 },	    /* another with the same pid */
		{ U64_UNKNOWN, 60, 42, 2 }, /* maybe another */
		{ U64_UNKNOWN, 1, 43, 2 },
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		size_t k = i % ARRAY_SIZE(cases), first = i / ARRAY_SIZE(cases);
		struct episode e[2];
		char job_id[16];
		struct attempt a;
		struct heard h;

		snprintf(job_id, sizeof(job_id), "job%zu", i);
		a = must_begin(store, job_id);
		make_kill(&e[0], job_id, 42, 77, 0);
		make_kill(&e[1], job_id, cases[k].pid, cases[k].start_ticks, cases[k].after);
		put(store, a.id, &e[first], EPISODE_BEGAN);
		put(store, a.id, &e[!first], EPISODE_BEGAN);
		assert_int_equal(count(store, (struct anomaly_filter){ .job_id = job_id }, &h),
				 cases[k].n_rows);
	}
}

/* Each begins and ends it; the second 20 s later. It is told by the one who was first. */
static void put_by_two(struct store *store, int64_t attempt, struct episode e[2])
{
	for (int i = 0; i < 2; i++)
		put(store, attempt, &e[i], EPISODE_BEGAN);
	for (int i = 0; i < 2; i++) {
		e[i].ended_wall_ns = e[i].began_wall_ns + (i ? 20 : 1) * SECOND;
		e[i].why_cleared = i ? "it was clear for long enough" : EPISODE_UNWATCHED;
		put(store, attempt, &e[i], EPISODE_CLEARED);
	}
}

/* A runner that was there when its command was killed, and the daemon, which waits a while. */
static void test_a_kill_ends_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode e[2];
	struct heard h;

	make_kill(&e[0], "a", 42, U64_UNKNOWN, 0);
	make_kill(&e[1], "a", 42, 77, 1);
	put_by_two(store, a.id, e);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, e[0].ended_wall_ns);
	assert_string_equal(h.last.name, e[0].name);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 2);
}

/* The other has seen no more of it, and later: what was told stands. */
static void test_a_kill_is_as_it_was_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode e[2];
	struct heard h;

	for (int i = 0; i < 2; i++) {
		make_kill(&e[i], "a", 42, 77, i ? 1 : 0);
		e[i].seen_wall_ns = e[i].began_wall_ns;
		snprintf(e[i].worst.text, sizeof(e[i].worst.text), "it had %d MB", i ? 4 : 62);
	}
	put(store, a.id, &e[0], EPISODE_BEGAN);
	e[0].ended_wall_ns = START;
	e[0].why_cleared = EPISODE_NO_MORE;
	put(store, a.id, &e[0], EPISODE_CLEARED);
	put(store, a.id, &e[1], EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_string_equal(h.last.worst.text, "it had 62 MB");
	assert_int_equal(h.last.peak_wall_ns, START);
	assert_int_equal(h.last.seen_wall_ns, START);
	assert_int_equal(h.last.ended_wall_ns, START);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_kill_of_the_host_is_one),
		STORE_TEST(test_a_kill_that_two_have_seen),
		STORE_TEST(test_a_kill_ends_once),
		STORE_TEST(test_a_kill_is_as_it_was_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
