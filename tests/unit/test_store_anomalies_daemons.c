/* Episodes whose daemon is gone, and what the next one makes of them. */
#include "anomaly_fixture.h"

#include "base/clock.h"
#include "store_writer.h"

/* A daemon that was killed has left it behind. */
static void test_a_new_daemon_ends_those_of_the_host(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct daemon_record d = { .version = "1", .started_wall_ns = START + 9 * SECOND };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 43, START);
	episode_set_job(&e, NULL);
	e.worst.has_pid = false;
	e.peak_wall_ns = START + 5 * SECOND;
	put(store, 0, &e, EPISODE_BEGAN);
	must(store_begin_daemon(store, &d, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_int_equal(h.last.ended_wall_ns, START + 5 * SECOND);
	assert_int_equal(
		count(store, (struct anomaly_filter){ .lasting_wall_ns = START + 6 * SECOND }, &h),
		1); /* that lasts */
}

/* Of a runner; of a daemon, which has no name, what ctx says. */
static enum store_alive is_gone(void *ctx, const struct attempt *a)
{
	const enum store_alive *daemon = ctx;

	return a->job_id || a->id ? STORE_DEAD : *daemon;
}

/* The one runner that saw it begin was killed. */
static void test_nobody_looks_at_the_host_any_more(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	enum store_alive daemon = STORE_ALIVE;
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	must(store_begin_daemon(store, &d, &err), &err);
	must(store_end_daemon(store, &d, START, &err), &err);
	must_begin(store, "a");
	make_episode(&e, 0, START);
	e.peak_wall_ns = START + 5 * SECOND;
	e.seen_wall_ns = START + 7 * SECOND;
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	store_set_alive_check(store, is_gone, &daemon);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 7 * SECOND);
	must(store_begin_daemon(store, &d, &err), &err);
	make_episode(&e, 0, START + 9 * SECOND);
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_false(u64_known(h.last.ended_wall_ns)); /* the daemon looks */
}

/* It was killed, and none has come since. */
static void test_a_daemon_that_vanished_does_not_look(void **state)
{
	static const enum store_alive gone[] = { STORE_DEAD, STORE_CANNOT_TELL };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	enum store_alive daemon = STORE_ALIVE;
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	must(store_begin_daemon(store, &d, &err), &err);
	make_episode(&e, 0, START);
	e.seen_wall_ns = START + 7 * SECOND;
	put(store, 0, &e, EPISODE_BEGAN);
	store_set_alive_check(store, is_gone, &daemon);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		daemon = gone[i];
		assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
		assert_int_equal(h.last.ended_wall_ns, START + 7 * SECOND);
	}
	d.started_wall_ns = clock_wall_ns(); /* a moment ago; nobody can tell */
	must(store_begin_daemon(store, &d, &err), &err);
	make_episode(&e, 0, clock_wall_ns());
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_false(u64_known(h.last.ended_wall_ns));
}

/* Who is left of a job goes on after it: nothing is over before it began. */
static void test_an_orphan_outlives_its_attempt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = must_begin(store, "a");
	const struct anomaly_filter lasting = { .lasting_wall_ns = START + 60 * SECOND };
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	attempt_init(&read);
	must(store_begin_daemon(store, &d, &err), &err);
	a.ended_wall_ns = START + 9 * SECOND;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	make_episode(&e, 42, START + 40 * SECOND); /* a leak of who is left */
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 43, START + 9 * SECOND);
	e.worst.type = ANOMALY_ORPHAN;
	put(store, a.id, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(count(store, lasting, &h), 2);
	must(store_read_attempt(store, "a", 1, &read, &err), &err);
	assert_int_equal(read.details.n_anomalies, 2);
	assert_false(u64_known(read.details.anomalies[0].ended_wall_ns));
	assert_false(u64_known(read.details.anomalies[1].ended_wall_ns));
	e.ended_wall_ns = START + 99 * SECOND;
	put(store, a.id, &e, EPISODE_CLEARED);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE ended_wall_ns"), 1);
}

static void begin_another(struct store *store, struct daemon_record *d, const char *boot_id)
{
	struct err err = ERR_INIT;

	must(store_end_daemon(store, d, START, &err), &err);
	snprintf(d->boot_id, sizeof(d->boot_id), "%s", boot_id);
	must(store_begin_daemon(store, d, &err), &err);
}

/* The next daemon goes on with one that lives, and not after a boot; without one nobody looks. */
static void test_an_orphan_outlives_the_daemon(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	must(store_begin_daemon(store, &d, &err), &err);
	a.ended_wall_ns = START;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	must_begin(store, "runs"); /* and does not look at it */
	make_episode(&e, 43, START + SECOND);
	e.worst.type = ANOMALY_ORPHAN;
	e.seen_wall_ns = START + 7 * SECOND;
	put(store, a.id, &e, EPISODE_BEGAN);
	begin_another(store, &d, a.boot_id);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	must(store_end_daemon(store, &d, START, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 7 * SECOND);
	assert_int_equal(raw_sql(f->db, "SELECT count(ended_wall_ns) FROM anomalies"), 0);
	begin_another(store, &d, "11111111-0000-4000-8000-123456789abc");
	assert_int_equal(raw_sql(f->db, "SELECT ended_wall_ns FROM anomalies"), START + 7 * SECOND);
}

/* Somebody looked a moment ago: what lasts of the host goes on with the new daemon. */
static void test_a_new_daemon_leaves_what_is_watched(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct daemon_record d = { .version = "1", .started_wall_ns = START + 65 * SECOND };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 0, START);
	put(store, 0, &e, EPISODE_BEGAN);
	raw_sql(f->db, "INSERT INTO ticks (recorder, wall_ns, data, seal)"
		       " VALUES (-1, 1700000010000000000, x'00', 0) RETURNING id");
	must(store_begin_daemon(store, &d, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	d.started_wall_ns = START + 71 * SECOND;
	must(store_begin_daemon(store, &d, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_new_daemon_ends_those_of_the_host),
		STORE_TEST(test_nobody_looks_at_the_host_any_more),
		STORE_TEST(test_a_daemon_that_vanished_does_not_look),
		STORE_TEST(test_an_orphan_outlives_its_attempt),
		STORE_TEST(test_an_orphan_outlives_the_daemon),
		STORE_TEST(test_a_new_daemon_leaves_what_is_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
