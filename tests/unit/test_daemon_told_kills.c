/* Who was killed is asked for in the record when the host has counted a kill, and told once. */
#include "store_fixture.h"

#include "base/clock.h"
#include "daemon/told_kills.h"
#include "store_writer.h"

static void write_oom(struct store *store, const struct attempt *a, pid_t pid)
{
	const struct proc_event ev = {
		.wall_ns = clock_wall_ns(),
		.key = { pid, 7 },
		.type = EVENT_OOM,
		.status = { -1, 9 },
		.sheet_num = 1,
		.details = "it held 3 GB",
	};
	struct err err = ERR_INIT;

	must(store_write_events(store, a, &ev, 1, &err), &err);
}

/* Of a host that has counted so many. */
static void look(struct told_kills *t, struct store *store, const struct attempt *a, uint64_t kills)
{
	struct snapshot snap;

	snapshot_init(&snap);
	snap.wall_ns = clock_wall_ns();
	snap.system.oom_kills_total = kills;
	if (told_kills_are_due(t, a, &snap))
		told_kills_look(t, store, a);
	snapshot_release(&snap);
}

static void test_who_it_was(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(told_kills_release) struct told_kills t = TOLD_KILLS_INIT;
	struct attempt a = make_attempt("a"), other = make_attempt("a");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	must(store_begin_attempt(store, &other, &err), &err);
	look(&t, store, &a, 5);
	write_oom(store, &a, 42);
	write_oom(store, &other, 43);
	look(&t, store, &a, 5); /* nobody has counted it: nobody asks */
	assert_int_equal(t.n, 0);
	look(&t, store, &a, 6);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.items[0].key.pid, 42);
	assert_string_equal(t.items[0].job_id, "a");
	assert_string_equal(t.items[0].details, "it held 3 GB");
	look(&t, store, &a, 6); /* it is told once */
	assert_int_equal(t.n, 0);
	write_oom(store, &a, 44); /* the event comes after the count */
	look(&t, store, &a, 6);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.items[0].key.pid, 44);
}

static void test_what_is_known_is_no_news(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(told_kills_release) struct told_kills t = TOLD_KILLS_INIT;
	struct attempt a = make_attempt("a");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	look(&t, NULL, &a, U64_UNKNOWN); /* nothing is recorded, and nobody counts */
	look(&t, store, &a, 5);
	write_oom(store, &a, 42);
	told_kills_know(&t, &(struct proc_key){ 42, 7 });
	told_kills_know(&t, &(struct proc_key){ 100, 6 }); /* whose pid is another's now */
	look(&t, store, &a, 6);
	assert_int_equal(t.n, 0);
	for (pid_t pid = 100; pid < 100 + TOLD_KILLS_MAX + 5; pid++)
		write_oom(store, &a, pid);
	look(&t, store, &a, 50); /* the rest is told at the next look */
	assert_int_equal(t.n, TOLD_KILLS_MAX);
	look(&t, store, &a, 50);
	assert_int_equal(t.n, 5);
}

static void write_told(struct store *store, const struct attempt *a, const char *name, double n)
{
	struct episode e;
	struct err err = ERR_INIT;

	episode_init(&e);
	e.worst.type = ANOMALY_OOM_KILL;
	snprintf(e.job_id, sizeof(e.job_id), "%s", a->job_id);
	e.worst.job_id = e.job_id;
	snprintf(e.name, sizeof(e.name), "%s", name);
	snprintf(e.worst.text, sizeof(e.worst.text), "killed");
	e.unit = "kills";
	e.began_wall_ns = e.peak_wall_ns = clock_wall_ns();
	e.peak_value = e.first_value = e.worst.metric_value = n;
	e.count = 1;
	must(write_anomaly(store, a->id, &e, EPISODE_BEGAN, &err), &err);
}

static void test_what_other_runs_have_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(told_kills_release) struct told_kills t = TOLD_KILLS_INIT;
	struct attempt a = make_attempt("a"), b = make_attempt("b");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	must(store_begin_attempt(store, &b, &err), &err);
	look(&t, store, &a, 5);
	write_told(store, &a, "oom_kill/1/1", 1); /* our own */
	write_told(store, &b, "oom_kill/2/1", 9);
	look(&t, store, &a, 15);
	assert_int_equal(t.n_elsewhere, 9);
	look(&t, store, &a, 15); /* once */
	assert_int_equal(t.n_elsewhere, 0);
	write_told(store, &b, "oom_kill/2/1", 11); /* there are more */
	look(&t, store, &a, 17);
	assert_int_equal(t.n_elsewhere, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_it_was, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_known_is_no_news, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_other_runs_have_told, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
