/*
 * Which attempts there are, which of them run, and which were lost.
 */
#include "store_fixture.h"

#include "base/clock.h"
#include "store_writer.h"

static enum store_alive is_first_runner(void *ctx, const struct attempt *a)
{
	(*(int *)ctx)++;
	assert_string_equal(a->boot_id, "6b8a4f1e-0000-4000-8000-123456789abc");
	assert_string_equal(a->host, "host");
	assert_int_equal(a->pid_ns, 4026531836);
	assert_int_equal(a->runner.start_ticks, 99);
	return a->runner.pid == 1 ? STORE_ALIVE : STORE_DEAD;
}

static void begin(struct store *store, const char *job_id, pid_t runner, uint64_t started,
		  uint64_t ended)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	a.runner.pid = runner;
	a.started_wall_ns = started;
	must(store_begin_attempt(store, &a, &err), &err);
	if (!u64_known(ended))
		return;
	a.ended_wall_ns = ended;
	a.outcome = OUTCOME_FAILURE;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
}

static void test_running_and_lost(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct attempt_filter all = { 0 };
	struct err err = ERR_INIT;
	int n_calls = 0;

	begin(store, "ended", 2, 100, 200);
	begin(store, "runs", 1, 100, U64_UNKNOWN);
	begin(store, "lost", 2, 100, U64_UNKNOWN);
	must(store_list_attempts(store, &all, &list, &err), &err);
	assert_true(!list.items[0].is_running && !list.items[0].is_lost);
	assert_true(list.items[1].is_running && !list.items[1].is_lost);
	assert_true(list.items[2].is_running && !list.items[2].is_lost); /* nobody looked */
	attempt_list_release(&list);

	store_set_alive_check(store, is_first_runner, &n_calls);
	must(store_list_attempts(store, &all, &list, &err), &err);
	assert_true(!list.items[0].is_running && !list.items[0].is_lost);
	assert_true(list.items[1].is_running && !list.items[1].is_lost);
	assert_true(!list.items[2].is_running && list.items[2].is_lost);
	assert_int_equal(n_calls, 2); /* who has ended is not looked for */
}

static enum store_alive nobody_can_tell(void *ctx, const struct attempt *a)
{
	(void)ctx;
	(void)a;
	return STORE_CANNOT_TELL;
}

#define SECOND UINT64_C(1000000000)

static void begin_quietly(struct store *store, struct attempt *a, const char *job_id,
			  double interval_seconds, uint64_t started_wall_ns)
{
	struct err err = ERR_INIT;

	*a = make_attempt(job_id);
	a->interval_seconds = interval_seconds;
	a->started_wall_ns = started_wall_ns;
	must(store_begin_attempt(store, a, &err), &err);
}

/* On another host, or in another pid namespace: only what was written tells. */
static void test_a_runner_out_of_sight(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(attempt_release) struct attempt back;
	CLEANUP(snapshot_release) struct snapshot snap;
	static const char *const runs[] = { "young", "slow", "ticked", "sheet", "clock ahead" };
	const uint64_t now = clock_wall_ns();
	struct sheet_record sheet = { .num = 1, .try_num = 1, .outcome = OUTCOME_SUCCESS };
	struct attempt_filter all = { 0 };
	struct err err = ERR_INIT;
	struct attempt a;

	attempt_init(&back);
	snapshot_init(&snap);
	store_set_alive_check(store, nobody_can_tell, NULL);
	begin_quietly(store, &a, "young", 1, now - 30 * SECOND);
	begin_quietly(store, &a, "quiet", 1, now - 90 * SECOND);
	begin_quietly(store, &a, "slow", 60, now - 300 * SECOND);
	begin_quietly(store, &a, "slow and quiet", 60, now - 900 * SECOND);
	begin_quietly(store, &a, "ticked", 1, now - 900 * SECOND);
	snap.wall_ns = now - 10 * SECOND;
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	begin_quietly(store, &a, "sheet", 1, now - 900 * SECOND);
	sheet.started_wall_ns = now - 500 * SECOND;
	sheet.ended_wall_ns = now - 10 * SECOND;
	must(store_write_sheets(store, &a, &sheet, 1, &err), &err);
	begin_quietly(store, &a, "clock ahead", 1, now + 900 * SECOND);
	begin_quietly(store, &a, "unknown", F64_UNKNOWN, U64_UNKNOWN);

	must(store_list_attempts(store, &all, &list, &err), &err);
	assert_int_equal(list.n, 8);
	for (size_t i = 0; i < list.n; i++) {
		bool should_run = false;

		for (size_t k = 0; k < ARRAY_SIZE(runs); k++)
			should_run |= strcmp(list.items[i].job_id, runs[k]) == 0;
		assert_int_equal(list.items[i].is_running, should_run);
		assert_int_equal(list.items[i].is_lost, !should_run);
	}
	/* By their start; unknown is before all others. */
	assert_string_equal(list.items[0].job_id, "unknown");
	assert_string_equal(list.items[list.n - 1].job_id, "clock ahead");
	must(store_read_attempt(store, "ticked", 0, &back, &err), &err);
	assert_true(back.is_running);
}

/* The jobs of a list, by their ids: "a1 b1 ". */
static const char *list_names(struct store *store, const struct attempt_filter *filter, char *ret)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct err err = ERR_INIT;
	size_t len = 0;

	must(store_list_attempts(store, filter, &list, &err), &err);
	ret[0] = '\0';
	for (size_t i = 0; i < list.n; i++)
		len += (size_t)sprintf(ret + len, "%s%d ", list.items[i].job_id,
				       list.items[i].attempt_num);
	return ret;
}

static enum store_alive is_dead(void *ctx, const struct attempt *a)
{
	(void)ctx;
	(void)a;
	return STORE_DEAD;
}

static int keep_episode(void *ctx, const struct anomaly_row *row)
{
	episode_copy(ctx, &row->episode);
	return 0;
}

/* Nobody is left to say that what went on when the runner was killed is over. */
static void test_an_anomaly_is_over_with_a_lost_attempt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("a");
	struct err err = ERR_INIT;
	struct episode e, read;

	attempt_init(&back);
	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	fill_snapshot(&snap, "a", 1, 0);
	snap.wall_ns = a.started_wall_ns + 50 * SECOND;
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	episode_init(&e);
	snprintf(e.name, sizeof(e.name), "memory_leak/1");
	e.unit = "MB";
	e.began_wall_ns = a.started_wall_ns + 20 * SECOND;
	must(write_anomaly(store, a.id, &e, EPISODE_BEGAN, &err), &err);

	must(store_read_anomalies(store, &(struct anomaly_filter){ 0 }, keep_episode, &read, &err),
	     &err);
	assert_false(u64_known(read.ended_wall_ns)); /* it may still run */
	store_set_alive_check(store, is_dead, NULL);
	must(store_read_anomalies(store, &(struct anomaly_filter){ 0 }, keep_episode, &read, &err),
	     &err);
	assert_int_equal(read.ended_wall_ns, snap.wall_ns);
	assert_string_equal(read.why_cleared, "its job was lost");
	must(store_read_attempt(store, "a", 0, &back, &err), &err);
	assert_true(back.is_lost && back.details.n_anomalies == 1);
	assert_int_equal(back.details.anomalies[0].ended_wall_ns, snap.wall_ns);
	assert_string_equal(back.details.anomalies[0].why_cleared, "its job was lost");
	attempt_release(&a);
}

static void test_lists_are_filtered(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt seen = make_attempt("d");
	struct err err = ERR_INIT;
	int n_calls = 0;
	char names[256];

	snapshot_init(&snap);
	store_set_alive_check(store, is_first_runner, &n_calls);
	assert_string_equal(list_names(store, &(struct attempt_filter){ 0 }, names), "");
	begin(store, "a", 2, 100, 200);
	begin(store, "b", 2, 100, 300);
	begin(store, "a", 1, 100, U64_UNKNOWN);
	begin(store, "c", 2, 100, U64_UNKNOWN); /* lost, last seen at 100 */
	begin(store, "b", 2, 100, 400);
	seen.started_wall_ns = 100; /* lost too, but was seen at its tick */
	must(store_begin_attempt(store, &seen, &err), &err);
	fill_snapshot(&snap, "d", 1, 0);
	snap.wall_ns = 1000;
	must(write_tick(store, &seen, &snap, NULL, NULL, 0, &err), &err);

	assert_string_equal(list_names(store, &(struct attempt_filter){ 0 }, names),
			    "a1 b1 a2 c1 b2 d1 ");
	assert_string_equal(list_names(store, &(struct attempt_filter){ .job_id = "b" }, names),
			    "b1 b2 ");
	assert_string_equal(list_names(store, &(struct attempt_filter){ .job_id = "z" }, names),
			    "");
	assert_string_equal(
		list_names(store, &(struct attempt_filter){ .latest_only = true }, names),
		"a2 c1 b2 d1 ");
	assert_string_equal(list_names(store, &(struct attempt_filter){ .limit = 2 }, names),
			    "b2 d1 ");
	assert_string_equal(
		list_names(store, &(struct attempt_filter){ .since_wall_ns = 300 }, names),
		"a2 b2 d1 ");
	/* A lost one that is left out does not count towards the limit. */
	assert_string_equal(list_names(store,
				       &(struct attempt_filter){ .since_wall_ns = 250, .limit = 4 },
				       names),
			    "b1 a2 b2 d1 ");
	assert_string_equal(list_names(store,
				       &(struct attempt_filter){
					       .job_id = "a", .latest_only = true, .limit = 1 },
				       names),
			    "a2 ");
}

/* Two users may use the same name. */
static void test_a_list_of_one_user(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	const uint64_t root = 0, user = 1000, nobody = 65534;
	struct attempt theirs = make_attempt("a");
	struct err err = ERR_INIT;
	char names[256];

	theirs.uid = user;
	must(store_begin_attempt(store, &theirs, &err), &err);
	theirs = make_attempt("a");
	theirs.uid = root;
	must(store_begin_attempt(store, &theirs, &err), &err);
	assert_string_equal(list_names(store, &(struct attempt_filter){ .uid = &user }, names),
			    "a1 ");
	assert_string_equal(
		list_names(store,
			   &(struct attempt_filter){ .job_id = "a", .uid = &root, .limit = 1 },
			   names),
		"a2 ");
	assert_string_equal(list_names(store, &(struct attempt_filter){ .uid = &nobody }, names),
			    "");
	/* The last of the one does not hide that of the other. */
	theirs = make_attempt("a");
	theirs.uid = user;
	must(store_begin_attempt(store, &theirs, &err), &err);
	assert_string_equal(
		list_names(store, &(struct attempt_filter){ .latest_only = true }, names),
		"a2 a3 ");
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_running_and_lost),
		STORE_TEST(test_a_runner_out_of_sight),
		STORE_TEST(test_an_anomaly_is_over_with_a_lost_attempt),
		STORE_TEST(test_lists_are_filtered),
		STORE_TEST(test_a_list_of_one_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
