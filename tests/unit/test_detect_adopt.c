/* What another has begun goes on with who takes over, under its name. */
#include <errno.h>

#include "detect_fixture.h"

static struct host h;

static int close_host(void **state)
{
	(void)state;
	host_close(&h);
	return 0;
}

/* A parent, and a child that it has not waited for. */
static void tick_family(bool has_zombie)
{
	host_begin(&h);
	host_add(&h, 10, 1);
	if (has_zombie)
		host_add(&h, 11, 10)->state = 'Z';
	host_tick(&h);
}

/* Whoever looked so far is gone, and what lasted is taken over by another. */
static void take_over(struct episode *ret)
{
	const struct episode *e = detect_active(h.d, 0);

	assert_non_null(e);
	assert_null(detect_active(h.d, 1));
	episode_copy(ret, e);
	h.d = detect_free(h.d);
	h.d = detect_new(&h.config.anomaly, DETECT_ALL);
	assert_non_null(h.d);
	assert_int_equal(detect_adopt(h.d, ret), 0);
	h.n_seen = 0;
}

static void begin_zombie(struct episode *ret)
{
	host_open(&h, 5);
	while (!detect_active(h.d, 0))
		tick_family(true);
	take_over(ret);
	assert_string_equal(detect_active(h.d, 0)->name,
			    ret->name); /* and nobody need wait for it */
}

static void test_what_is_over_is_ended(void **state)
{
	struct episode e;
	double gone;

	(void)state;
	begin_zombie(&e);
	gone = h.now;
	while (h.n_seen == 0)
		tick_family(false);
	assert_int_equal(h.seen[0].change, EPISODE_CLEARED);
	assert_string_equal(h.seen[0].e.name, e.name);
	assert_int_equal(h.seen[0].e.began_wall_ns, e.began_wall_ns);
	assert_true(u64_to_seconds(h.seen[0].e.ended_wall_ns) == 1763000000 + gone);
	while (h.n_seen == 1)
		tick_family(true);
	assert_int_equal(h.seen[1].change, EPISODE_BEGAN);
	assert_string_not_equal(h.seen[1].e.name, e.name);
}

/* Who begins to look sees a zombie only when it has been one for a while. */
static void test_what_lasts_is_not_told_again(void **state)
{
	struct episode e;

	(void)state;
	begin_zombie(&e);
	h.config.anomaly.clear_seconds = 10;
	h.d = detect_free(h.d);
	h.d = detect_new(&h.config.anomaly, DETECT_ALL);
	assert_int_equal(detect_adopt(h.d, &e), 0);
	for (int i = 0; i < 30; i++)
		tick_family(true);
	assert_int_equal(h.n_seen, 0);
	assert_int_equal(detect_active(h.d, 0)->count, 1);
	assert_string_equal(detect_active(h.d, 0)->name, e.name);
}

static void test_a_process_that_is_gone(void **state)
{
	struct episode e;

	(void)state;
	begin_zombie(&e);
	for (int i = 0; i < 4; i++) {
		host_begin(&h);
		host_add(&h, 12, 1);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 1);
	assert_int_equal(h.seen[0].change, EPISODE_CLEARED);
	assert_string_equal(h.seen[0].e.why_cleared, "the process ended while nobody looked");
	assert_true(episode_end_is_unseen(&h.seen[0].e));
	assert_int_equal(h.seen[0].e.ended_wall_ns, e.seen_wall_ns);
}

static void test_it_gets_worse(void **state)
{
	struct episode e;

	(void)state;
	begin_zombie(&e);
	for (int i = 0; i < 10; i++) {
		host_begin(&h);
		host_add(&h, 10, 1);
		for (int k = 0; k < 12; k++)
			host_add(&h, 20 + k, 10)->state = 'Z';
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 1);
	assert_int_equal(h.seen[0].change, EPISODE_ESCALATED);
	assert_int_equal(h.seen[0].e.worst.severity, SEVERITY_MEDIUM);
	assert_string_equal(h.seen[0].e.name, e.name);
}

static void tick_host(uint64_t available_mb, const char *boot_id)
{
	host_begin(&h);
	snprintf(h.snap.boot_id, sizeof(h.snap.boot_id), "%s", boot_id);
	h.snap.system.memory_available_bytes = available_mb * MB;
	host_tick(&h);
}

static void begin_pressure(struct episode *ret)
{
	host_open(&h, 5);
	tick_host(500, "boot");
	tick_host(500, "boot");
	take_over(ret);
}

static void test_of_the_host(void **state)
{
	struct episode e;

	(void)state;
	begin_pressure(&e);
	tick_host(500, "boot");
	assert_int_equal(h.n_seen, 0);
	while (h.n_seen == 0)
		tick_host(6000, "boot");
	assert_int_equal(h.seen[0].change, EPISODE_CLEARED);
	assert_string_equal(h.seen[0].e.name, e.name);
	assert_string_equal(h.seen[0].e.unit, e.unit);
}

/* Nobody knows how long it lasted: till it was last seen. */
static void test_of_a_boot_before(void **state)
{
	struct episode e;

	(void)state;
	begin_pressure(&e);
	tick_host(500, "another boot");
	assert_int_equal(h.n_seen, 2);
	assert_int_equal(h.seen[0].change, EPISODE_CLEARED);
	assert_true(e.seen_wall_ns > e.peak_wall_ns);
	assert_int_equal(h.seen[0].e.ended_wall_ns, e.seen_wall_ns);
	assert_int_equal(h.seen[1].change, EPISODE_BEGAN);
}

/* A daemon does: it tells the end, and we nothing. */
static void test_who_looks_at_the_host_no_more(void **state)
{
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	tick_host(500, "boot");
	assert_int_equal(h.n_seen, 1);
	detect_set_scope(h.d, DETECT_JOBS);
	assert_null(detect_active(h.d, 0));
	tick_host(500, "boot");
	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	assert_int_equal(changes.n, 0);
	assert_int_equal(h.n_seen, 1);
}

/* Both have seen it, and it is that of who saw it first. */
static void test_what_runs_already_takes_the_older_name(void **state)
{
	const struct episode *own;
	struct episode e;

	(void)state;
	begin_pressure(&e);
	h.d = detect_free(h.d);
	h.d = detect_new(&h.config.anomaly, DETECT_ALL);
	tick_host(500, "boot");
	own = detect_active(h.d, 0);
	assert_string_not_equal(own->name, e.name);
	assert_int_equal(detect_adopt(h.d, &e), 0);
	assert_string_equal(own->name, e.name);
	assert_int_equal(own->began_wall_ns, e.began_wall_ns);
	assert_null(detect_active(h.d, 1));
}

/* A runner tells how it was at the handover when the daemon goes on with it already. */
static void test_the_worst_of_both_stays(void **state)
{
	const struct episode *own;
	struct episode e;

	(void)state;
	begin_pressure(&e);
	tick_host(500, "boot");
	own = detect_active(h.d, 0);
	e.peak_value = e.worst.metric_value = own->peak_value / 2; /* less is worse here */
	e.peak_wall_ns = own->peak_wall_ns - 1;
	e.count = 7;
	snprintf(e.worst.text, sizeof(e.worst.text), "it was worse");
	assert_int_equal(detect_adopt(h.d, &e), 0);
	assert_true(own->peak_value == e.peak_value);
	assert_int_equal(own->peak_wall_ns, e.peak_wall_ns);
	assert_string_equal(own->worst.text, "it was worse");
	assert_int_equal(own->count, 7);
	e.peak_value *= 3;
	e.count = 2;
	assert_int_equal(detect_adopt(h.d, &e), 0);
	assert_true(own->peak_value * 3 == e.peak_value);
	assert_int_equal(own->count, 7);
}

static void test_what_makes_no_sense(void **state)
{
	struct episode e, bad;

	(void)state;
	begin_pressure(&e);
	episode_copy(&bad, &e);
	bad.unit = "furlongs";
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
	bad.unit = NULL;
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
	episode_copy(&bad, &e);
	snprintf(bad.name, sizeof(bad.name), "memory_pressure/0123456789abcde/1");
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
	snprintf(bad.name, sizeof(bad.name), "memory_pressure");
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
	episode_copy(&bad, &e);
	bad.ended_wall_ns = e.peak_wall_ns;
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
	episode_copy(&bad, &e);
	bad.worst.has_pid = true;
	bad.worst.pid = INT64_MAX;
	bad.worst.start_ticks = 7;
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
	episode_copy(&bad, &e);
	bad.worst.type = ANOMALY_SWAP_STORM; /* that is not what its name says */
	assert_int_equal(detect_adopt(h.d, &bad), -EINVAL);
}

/* Nobody has looked at it: whoever comes next goes on with it. */
static void test_an_end_before_the_first_look(void **state)
{
	struct detect_changes changes;
	struct episode e;

	(void)state;
	begin_zombie(&e);
	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	assert_int_equal(changes.n, 0);
}

/* ---- how long it was stuck ---- */

#define MOVES '+'

/* One process in this state, beside two like it that go on. */
static void tick_stuck(char how)
{
	host_begin(&h);
	for (pid_t pid = 10; pid < 13; pid++)
		host_add(&h, pid, 1);
	if (how != MOVES) {
		h.snap.processes[0].state = how;
		h.snap.processes[0].cpu_ns = h.snap.processes[0].rchar = 0;
	}
	host_tick(&h);
}

/* It is so from the beginning, until 20 s after it was told, and then nobody looks for a while. */
static void begin_stuck(char how, double gap, struct episode *ret)
{
	host_open(&h, 5);
	while (!detect_active(h.d, 0))
		tick_stuck(how);
	for (int i = 0; i < 4; i++)
		tick_stuck(how);
	take_over(ret);
	h.now += gap;
}

/* Stopped, or in state D: its time goes on. */
static void test_how_long_it_was_stuck_goes_on(void **state)
{
	const char how[] = { 'T', 'D' };
	struct episode e;

	(void)state;
	for (size_t i = 0; i < sizeof(how); i++) {
		if (i > 0)
			host_close(&h);
		begin_stuck(how[i], 20, &e);
		for (int k = 0; k < 3; k++)
			tick_stuck(how[i]);
		assert_true(detect_active(h.d, 0)->peak_value == h.now - h.step);
		assert_string_equal(detect_active(h.d, 0)->name, e.name);
		assert_int_equal(h.n_seen, 0);
	}
}

/* Whether others go on has to be seen first; then it is as bad as it would have been. */
static void test_how_long_it_stood_still_goes_on(void **state)
{
	struct episode e;

	(void)state;
	begin_stuck('S', 20, &e);
	while (h.n_seen == 0 && h.now < 1000)
		tick_stuck('S');
	assert_int_equal(h.n_seen, 1);
	assert_int_equal(h.seen[0].change, EPISODE_ESCALATED);
	assert_string_equal(h.seen[0].e.name, e.name);
	assert_true(h.seen[0].e.peak_value == h.seen[0].at);
	assert_true(h.seen[0].at <=
		    345 + 300 + 5); /* when it is seen again: not after 600 s more */
}

/* It moves, or may have moved while nobody looked. */
static void test_how_long_it_was_stuck_begins_anew(void **state)
{
	struct episode e;

	(void)state;
	begin_stuck('S', 20, &e);
	tick_stuck('S');
	tick_stuck(MOVES);
	while (h.n_seen == 0 && h.now < 800)
		tick_stuck('S');
	assert_int_equal(h.n_seen, 1);
	assert_int_equal(h.seen[0].change, EPISODE_CLEARED);
	host_close(&h);
	begin_stuck('T', 100, &e);
	for (int i = 0; i < 4; i++)
		tick_stuck('T');
	assert_true(detect_active(h.d, 0)->peak_value == e.peak_value);
}

static void tick_files(uint64_t n_open)
{
	host_begin(&h);
	host_add(&h, 10, 1)->open_fds = n_open;
	host_tick(&h);
}

/* How many are open is seen at once; only of a trend nobody knows for a while. */
static void test_files_that_are_closed_again(void **state)
{
	struct episode e;
	double closed;

	(void)state;
	host_open(&h, 5);
	while (!detect_active(h.d, 0))
		tick_files(1000);
	take_over(&e);
	tick_files(1000);
	closed = h.now;
	while (h.n_seen == 0 && h.now - closed < h.config.anomaly.fd_exhaustion_horizon_seconds)
		tick_files(10);
	assert_int_equal(h.n_seen, 1);
	assert_int_equal(h.seen[0].change, EPISODE_CLEARED);
	assert_true(h.now - closed <= h.config.anomaly.clear_seconds + 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_what_is_over_is_ended, close_host),
		cmocka_unit_test_teardown(test_what_lasts_is_not_told_again, close_host),
		cmocka_unit_test_teardown(test_a_process_that_is_gone, close_host),
		cmocka_unit_test_teardown(test_it_gets_worse, close_host),
		cmocka_unit_test_teardown(test_of_the_host, close_host),
		cmocka_unit_test_teardown(test_of_a_boot_before, close_host),
		cmocka_unit_test_teardown(test_who_looks_at_the_host_no_more, close_host),
		cmocka_unit_test_teardown(test_what_runs_already_takes_the_older_name, close_host),
		cmocka_unit_test_teardown(test_the_worst_of_both_stays, close_host),
		cmocka_unit_test_teardown(test_what_makes_no_sense, close_host),
		cmocka_unit_test_teardown(test_an_end_before_the_first_look, close_host),
		cmocka_unit_test_teardown(test_how_long_it_was_stuck_goes_on, close_host),
		cmocka_unit_test_teardown(test_how_long_it_stood_still_goes_on, close_host),
		cmocka_unit_test_teardown(test_how_long_it_was_stuck_begins_anew, close_host),
		cmocka_unit_test_teardown(test_files_that_are_closed_again, close_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
