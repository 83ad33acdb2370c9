/* When what was told is over, and why. */
#include <math.h>

#include "detect_fixture.h"

static struct host h;

static int close_host(void **state)
{
	(void)state;
	host_close(&h);
	return 0;
}

static uint64_t wall_at(double seconds)
{
	return UINT64_C(1763000000000000000) + (uint64_t)(seconds * 1e9);
}

/* Two processes near their limit of open files, and so many beside them. */
static void tick_files(size_t n_more)
{
	host_begin(&h);
	for (pid_t pid = 10; pid < 12; pid++)
		host_add(&h, pid, 1)->open_fds = 1000;
	for (size_t i = 0; i < n_more; i++)
		host_add(&h, (pid_t)(100 + i), 10);
	host_tick(&h);
}

static const struct seen *cleared_of(pid_t pid)
{
	for (size_t i = 0; i < h.n_seen; i++)
		if (h.seen[i].change == EPISODE_CLEARED && h.seen[i].e.worst.pid == pid)
			return &h.seen[i];
	return NULL;
}

static struct proc_event end_of(pid_t pid, uint64_t start_ticks, double at)
{
	return (struct proc_event){ .wall_ns = wall_at(at),
				    .key = { pid, start_ticks },
				    .type = EVENT_EXIT,
				    .job_id = "job",
				    .details = "" };
}

/* Between two ticks, and who was told of knows when. */
static void test_a_process_ends_when_it_did(void **state)
{
	(void)state;
	host_open(&h, 5);
	tick_files(0);
	tick_files(0);
	host_begin(&h);
	host_add(&h, 11, 1)->open_fds = 1000;
	h.events[h.n_events++] = end_of(10, 100, h.now - 3);
	host_tick(&h);
	assert_non_null(cleared_of(10));
	assert_string_equal(cleared_of(10)->e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(h.now - h.step - 3));
	assert_null(cleared_of(11));
}

static void tick_zombie(pid_t pid)
{
	struct proc_sample *p;

	host_begin(&h);
	p = host_add(&h, pid, 1);
	p->state = 'Z';
	p->open_fds = 0;
	h.events[h.n_events++] = end_of(pid, 100, 7);
	host_tick(&h);
}

/* It is a zombie for a while then, or for good, of which nothing can be said any more. */
static void test_a_process_ends_before_it_is_waited_for(void **state)
{
	size_t n = 0;

	(void)state;
	host_open(&h, 5);
	tick_files(0);
	tick_files(0);
	tick_zombie(10);
	assert_non_null(cleared_of(10));
	assert_true(cleared_of(10)->at == 10);
	assert_string_equal(cleared_of(10)->e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(7));
	assert_int_equal(cleared_of(10)->e.seen_wall_ns, wall_at(5));
	assert_false(detect_follows(h.d, 10));
	while (h.now < 700)
		tick_zombie(10);
	host_begin(&h);
	host_tick(&h);
	for (size_t i = 0; i < h.n_seen; i++)
		n += h.seen[i].e.worst.type == ANOMALY_FD_EXHAUSTION && h.seen[i].e.worst.pid == 10;
	assert_int_equal(n, 2);
}

/* A run tells how its job ended after its last look. */
static void test_a_job_ends_when_it_did(void **state)
{
	const struct proc_event last = end_of(10, U64_UNKNOWN, 12);
	struct detect_ending ending = { wall_at(14), &last, 1, false };
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	tick_files(10);
	tick_files(10);
	tick_files(400);
	assert_non_null(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN));
	ending.wall_ns = wall_at(14);
	assert_int_equal(detect_end_job(h.d, &ending, &changes), 0);
	host_keep(&h, &changes);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(12));
	assert_int_equal(cleared_of(11)->e.ended_wall_ns, wall_at(14));
	assert_string_equal(cleared_of(11)->e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_int_equal(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED)->e.ended_wall_ns,
			 wall_at(14));
	assert_string_equal(
		host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED)->e.why_cleared,
		EPISODE_JOB_ENDED);
	assert_null(detect_active(h.d, 0));
}

static void test_who_is_left_is_not_said_to_have_ended(void **state)
{
	const struct proc_event last = end_of(10, 100, 6);
	const struct detect_ending ending = { wall_at(7), &last, 1, true };
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	tick_files(0);
	tick_files(0);
	assert_int_equal(detect_end_job(h.d, &ending, &changes), 0);
	host_keep(&h, &changes);
	assert_string_equal(cleared_of(10)->e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_string_equal(cleared_of(11)->e.why_cleared, EPISODE_UNWATCHED);
	assert_true(episode_end_is_unseen(&cleared_of(11)->e));
	assert_false(episode_end_is_unseen(&cleared_of(10)->e));
	assert_int_equal(cleared_of(11)->e.ended_wall_ns, wall_at(5));
}

/* Nobody looks any more, and the job goes on. */
static void test_who_ended_before_nobody_looked(void **state)
{
	const struct proc_event last = end_of(10, 100, 12);
	const struct detect_ending ending = { U64_UNKNOWN, &last, 1, true };
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	tick_files(10);
	tick_files(10);
	tick_files(400);
	assert_int_equal(detect_end_job(h.d, &ending, &changes), 0);
	host_keep(&h, &changes);
	assert_string_equal(cleared_of(10)->e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(12));
	assert_string_equal(cleared_of(11)->e.why_cleared, EPISODE_UNWATCHED);
	assert_string_equal(
		host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED)->e.why_cleared,
		EPISODE_UNWATCHED);
}

/* Who looks at several jobs hears of the end of one between two ticks. */
static void test_one_of_the_jobs_ends(void **state)
{
	const struct proc_event last = end_of(10, 100, 6);
	const struct detect_ending ending = { .wall_ns = wall_at(7),
					      .events = &last,
					      .n_events = 1 };
	const struct detect_job other = { "other", 0 }, job = { "job", 0 };
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	tick_files(10);
	tick_files(10);
	tick_files(400); /* at 10: that was heard late */
	assert_true(detect_follows(h.d, 10));
	assert_false(detect_follows(h.d, 100));
	assert_int_equal(detect_leave_job(h.d, &other, &ending, &changes), 0);
	assert_int_equal(changes.n, 0);
	assert_int_equal(detect_leave_job(h.d, &job, &ending, &changes), 0);
	host_keep(&h, &changes);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(6));
	assert_string_equal(cleared_of(10)->e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_int_equal(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED)->e.ended_wall_ns,
			 wall_at(10)); /* it did not end before it began */
	assert_null(cleared_of(11));   /* is left */
	assert_true(detect_follows(h.d, 11));
	assert_false(detect_follows(h.d, 10));
	host_begin(&h);
	host_add(&h, 11, 1)->open_fds = 1000;
	h.snap.processes[0].job_id = NULL;
	host_tick(&h);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 2);
}

/* A look after its end shows nothing of it, which is not when it was over. */
static void test_a_job_ends_before_it_is_clear(void **state)
{
	const struct detect_ending ending = { .wall_ns = wall_at(12) };
	const struct detect_job job = { "job", 0 };
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	tick_files(10);
	tick_files(10);
	tick_files(400);
	host_begin(&h);
	h.snap.progress = (struct job_progress[]){ { .job_id = "job" } };
	h.snap.n_progress = 1;
	host_tick(&h);
	assert_non_null(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN));
	assert_int_equal(detect_leave_job(h.d, &job, &ending, &changes), 0);
	host_keep(&h, &changes);
	assert_int_equal(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED)->e.ended_wall_ns,
			 wall_at(12));
	h.snap.progress = NULL;
	h.snap.n_progress = 0;
}

/* Whoever tells its end, and however late: it is over when it has happened. */
static void test_a_kill_is_a_moment(void **state)
{
	struct detect_changes changes;
	const struct seen *end;

	(void)state;
	for (int by_end = 0; by_end < 2; by_end++) {
		host_open(&h, 5);
		tick_files(0);
		host_begin(&h);
		h.events[h.n_events++] = (struct proc_event){ .wall_ns = h.snap.wall_ns,
							      .key = { 10, 100 },
							      .type = EVENT_OOM,
							      .job_id = "job",
							      .details = "" };
		host_tick(&h);
		while (!by_end && !host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED)) {
			host_begin(&h);
			host_tick(&h);
		}
		assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
		host_keep(&h, &changes);
		end = host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED);
		assert_int_equal(end->e.ended_wall_ns, wall_at(5));
		assert_int_equal(end->e.began_wall_ns, wall_at(5));
		assert_string_equal(end->e.why_cleared, EPISODE_NO_MORE);
		assert_true(by_end || end->e.cleared_wall_ns > wall_at(10));
		if (!by_end)
			host_close(&h);
	}
}

/* The wall clock is set back while it lasts. */
static void test_no_end_is_before_its_beginning(void **state)
{
	const double back = 3600;
	struct detect_changes changes;

	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 4; i++)
		tick_files(i < 2 ? 10 : 400);
	assert_non_null(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN));
	for (int i = 0; i < 6; i++) { /* and the job ends */
		host_begin(&h);
		h.snap.wall_ns = wall_at(h.now - back);
		host_tick(&h);
	}
	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	host_keep(&h, &changes);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), host_count(&h, EPISODE_BEGAN));
	for (size_t i = 0; i < h.n_seen; i++)
		if (h.seen[i].change == EPISODE_CLEARED)
			assert_true(h.seen[i].e.ended_wall_ns >= h.seen[i].e.began_wall_ns);
}

/* Ten minutes in which nobody knows are none in which it lasts. */
static void test_what_is_no_longer_measured(void **state)
{
	const struct seen *s;
	double last;

	(void)state;
	host_open(&h, 5);
	tick_files(0);
	tick_files(0);
	last = h.now - h.step;
	while (!cleared_of(10) && h.now < 2000) {
		host_begin(&h);
		host_add(&h, 10, 1)->open_fds = U64_UNKNOWN;
		host_add(&h, 11, 1)->open_fds = 1000;
		host_tick(&h);
	}
	s = cleared_of(10);
	assert_non_null(s);
	assert_string_equal(s->e.why_cleared, EPISODE_UNMEASURED);
	assert_int_equal(s->e.ended_wall_ns, wall_at(last));
	assert_int_equal(s->e.cleared_wall_ns, wall_at(s->at));
	assert_true(episode_end_is_unseen(&s->e));
}

/* An hour without power is none in which it lasts. */
static void test_what_lasted_until_the_host_was_booted(void **state)
{
	double last;

	(void)state;
	host_open(&h, 5);
	tick_files(0);
	tick_files(0);
	last = h.now - h.step;
	h.now += 3600;
	host_begin(&h);
	snprintf(h.snap.boot_id, sizeof(h.snap.boot_id), "next");
	host_tick(&h);
	assert_string_equal(cleared_of(10)->e.why_cleared, EPISODE_BOOTED);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(last));
}

/* Shorter than it takes to be sure: the end of the process is not that of its fault. */
static void test_what_was_clear_before_its_process_ended(void **state)
{
	double clear;

	(void)state;
	host_open(&h, 5);
	tick_files(0);
	tick_files(0);
	clear = h.now;
	for (int i = 0; i < 2; i++) {
		host_begin(&h);
		host_add(&h, 10, 1)->open_fds = 20;
		host_add(&h, 11, 1)->open_fds = 1000;
		host_tick(&h);
	}
	host_begin(&h);
	h.events[h.n_events++] = end_of(10, 100, h.now - 3);
	h.events[h.n_events++] = end_of(11, 100, h.now - 2);
	host_tick(&h);
	assert_int_equal(cleared_of(10)->e.ended_wall_ns, wall_at(clear));
	assert_true(cleared_of(10)->e.after_value == 20);
	assert_int_equal(cleared_of(11)->e.ended_wall_ns, wall_at(h.now - h.step - 2));
	assert_true(isnan(cleared_of(11)->e.after_value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_a_process_ends_when_it_did, close_host),
		cmocka_unit_test_teardown(test_a_process_ends_before_it_is_waited_for, close_host),
		cmocka_unit_test_teardown(test_a_job_ends_when_it_did, close_host),
		cmocka_unit_test_teardown(test_who_is_left_is_not_said_to_have_ended, close_host),
		cmocka_unit_test_teardown(test_who_ended_before_nobody_looked, close_host),
		cmocka_unit_test_teardown(test_one_of_the_jobs_ends, close_host),
		cmocka_unit_test_teardown(test_a_job_ends_before_it_is_clear, close_host),
		cmocka_unit_test_teardown(test_a_kill_is_a_moment, close_host),
		cmocka_unit_test_teardown(test_no_end_is_before_its_beginning, close_host),
		cmocka_unit_test_teardown(test_what_was_clear_before_its_process_ended, close_host),
		cmocka_unit_test_teardown(test_what_is_no_longer_measured, close_host),
		cmocka_unit_test_teardown(test_what_lasted_until_the_host_was_booted, close_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
