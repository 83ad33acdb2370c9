/* Planted loops and processes that stand still, and work that looks like these and is none. */
#include "detect_scenes.h"

static void busy(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->state = 'R';
	p->cpu_percent = t < 30 ? 5 : 100;
	p->cpu_ns = (uint64_t)(t * 1e9);
	p->rchar = 1000;
	p->minor_faults = 500;
}

static void test_busy_loop(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 1200, busy);
	s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 25);
	assert_int_equal(s->e.worst.severity, SEVERITY_LOW);
	assert_true(s->at <= 95);
	s = host_find(&h, ANOMALY_RUNAWAY_PROCESS, EPISODE_ESCALATED);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_int_equal(h.n_seen, 2);
	host_close(&h);
}

static void working(struct host *h, double t)
{
	busy(h, t + 100);
	h->snap.processes[0].minor_faults = (uint64_t)(t * 1000);
	h->snap.processes[0].cpu_percent = 800;
}

static void test_work_is_not_a_loop(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 500, working);
	assert_quiet(&h);
	host_close(&h);
	host_open(&h, 5);
	h.usual = (struct detect_usual){ "job", 0, 100, F64_UNKNOWN, 1e6, U64_UNKNOWN };
	play(&h, 3600, busy);
	assert_quiet(&h);
	assert_true(detect_looks_of(h.d, ANOMALY_RUNAWAY_PROCESS).n_usual > 600);
	host_close(&h);
}

/* Such jobs use a core for ten minutes: after twenty it is not what they do. */
static void test_what_is_usual_ends(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	h.usual = (struct detect_usual){ "job", 0, 100, 600, F64_UNKNOWN, U64_UNKNOWN };
	play(&h, 1800, busy);
	s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 25);
	assert_true(s->at > 1225 && s->at <= 1240);
	assert_non_null(strstr(s->e.worst.text, "jobs of its kind use 100 % at most"));
	host_close(&h);
}

/* One of them was busy for a moment: that makes no core usual. */
static void test_a_short_peak_is_not_usual_for_long(void **state)
{
	const double most_seconds[] = { 5, 100 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(most_seconds); i++) {
		struct host h;
		const struct seen *s;

		host_open(&h, 5);
		h.usual =
			(struct detect_usual){ "job", 0, 100, 3600, most_seconds[i], U64_UNKNOWN };
		play(&h, 600, busy);
		s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 25);
		assert_true(s->at <= 25 + (i == 0 ? 70 : 225));
		assert_true(i == 0 || s->at > 25 + 200);
		assert_true((detect_looks_of(h.d, ANOMALY_RUNAWAY_PROCESS).n_usual > 0) == (i > 0));
		host_close(&h);
	}
}

/* Of four that others do not let run: a loop, one that works, one that hardly runs, one at rest. */
static void contended(struct host *h, double t)
{
	static const struct {
		double cpu_percent, wait_percent, faults_per_second;
	} cases[] = { { 50, 49, 10 }, { 50, 49, 40 }, { 2, 97, 0 }, { 50, 0, 10 } };

	for (int i = 0; i < (int)ARRAY_SIZE(cases); i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->state = 'R';
		p->cpu_percent = cases[i].cpu_percent;
		p->cpu_ns = (uint64_t)(t * cases[i].cpu_percent * 1e7);
		p->cpu_wait_ns = (uint64_t)(t * cases[i].wait_percent * 1e7);
		p->minor_faults = (uint64_t)(t * cases[i].faults_per_second);
		p->rchar = 1000;
	}
}

static void test_a_loop_that_has_to_share_its_core(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 120, contended);
	s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 0);
	assert_int_equal(s->e.worst.pid, 10);
	assert_true(s->at <= 70);
	assert_true(fabs(s->e.worst.metric_value - 99) < 0.1);
	assert_non_null(strstr(s->e.worst.text, "used 50 % of a core and waited for one in 49 %"));
	assert_int_equal(h.n_seen, 1);
	host_close(&h);
}

/* Others take its core in turns: a wait of two looks is counted at the second. */
static void contended_in_turns(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);
	int tick = (int)(t / 5 + 0.5);

	p->state = 'R';
	p->cpu_percent = tick % 2 ? 65 : 35;
	p->cpu_ns = (uint64_t)(t * 0.5e9);
	p->cpu_wait_ns = (uint64_t)((double)(tick / 2) * 4.9e9);
	p->minor_faults = p->rchar = 0;
	p = host_add(h, 11, 1); /* works with breaks: 80 % on average */
	p->cpu_percent = tick % 5 ? 100 : 0;
	p->cpu_ns = (uint64_t)(t * 0.8e9);
	p->minor_faults = p->rchar = 0;
	snprintf(p->comm, sizeof(p->comm), "other");
}

static void test_a_loop_is_judged_by_the_window(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, contended_in_turns);
	s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 0);
	assert_int_equal(s->e.worst.pid, 10);
	assert_true(s->at <= 130);
	assert_true(s->e.worst.metric_value >= 90);
	assert_int_equal(h.n_seen, 1);
	host_close(&h);
}

/* Four of one pool compute, or one of them is in a loop. */
static int n_computing;

static void pool(struct host *h, double t)
{
	for (int i = 0; i < 4; i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->state = 'R';
		p->cpu_percent = i < n_computing ? 100 : 20;
		p->cpu_ns = (uint64_t)(t * p->cpu_percent * 1e7);
		p->minor_faults = p->rchar = 0;
	}
}

static void test_who_does_as_its_siblings_works(void **state)
{
	struct host h;

	(void)state;
	for (n_computing = 1; n_computing <= 4; n_computing++) {
		host_open(&h, 5);
		play(&h, 300, pool);
		assert_int_equal(host_count(&h, EPISODE_BEGAN), n_computing < 3 ? n_computing : 0);
		host_close(&h);
	}
}

/* Eight threads that have half of a core together. */
static void contended_threads(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->state = 'R';
	p->threads = 8;
	p->cpu_percent = 50;
	p->cpu_ns = (uint64_t)(t * 5e8);
	p->cpu_wait_ns = (uint64_t)(t * 7.5e9);
	p->rchar = 1000;
	p->minor_faults = 10;
}

static void test_threads_wait_more_than_all_of_the_time(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 120, contended_threads);
	s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 0);
	assert_non_null(strstr(s->e.worst.text, "its threads waited for one, 7.5 s in a second"));
	assert_null(strstr(s->e.worst.text, "750"));
	assert_true(detect_looks_of(h.d, ANOMALY_RUNAWAY_PROCESS).n_judged > 0);
	assert_int_equal(detect_looks_of(h.d, ANOMALY_GPU_HOT).n_silent, 0); /* there is none */
	assert_true(detect_looks_of(h.d, ANOMALY_SWAP_STORM).n_judged == 0 &&
		    detect_looks_of(h.d, ANOMALY_SWAP_STORM).n_silent > 0);
	host_close(&h);
}

/* Three of a kind, of which one stands still; and their parent, which waits for them. */
static void stuck(struct host *h, double t)
{
	(void)t;
	for (pid_t pid = 10; pid < 13; pid++) {
		struct proc_sample *p = host_add(h, pid, 9);

		if (pid == 12) {
			p->cpu_ns = 12345;
			p->rchar = 77;
		}
	}
	snprintf(host_add(h, 9, 1)->comm, COMM_BYTES, "sh");
	h->snap.processes[3].cpu_ns = 1000;
	h->snap.processes[3].rchar = 1000;
}

static void test_stuck(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 700, stuck);
	s = begin_of(&h, ANOMALY_STUCK_PROCESS, 0);
	assert_int_equal(s->e.worst.pid, 12);
	assert_true(s->at <= 310);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	host_close(&h);
}

static void all_still(struct host *h, double t)
{
	stuck(h, t);
	for (size_t i = 0; i < h->snap.n_processes; i++) {
		h->snap.processes[i].cpu_ns = 1000;
		h->snap.processes[i].rchar = 1000;
	}
}

/* It has started some of its kind of late, which now belong to its own parent. */
static void with_newcomers(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 9);

	p->cpu_ns = 1000;
	p->rchar = 1000;
	for (int i = 0; i < 3; i++)
		host_add(h, 1000 + (int)t + i, 9);
}

static void test_who_is_new_does_not_make_others_stuck(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 1200, with_newcomers);
	assert_quiet(&h);
	host_close(&h);
}

static void test_who_waits_with_all_others_is_not_stuck(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 3600, all_still);
	assert_quiet(&h);
	host_close(&h);
}

static void in_the_kernel(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1), *slow = host_add(h, 11, 1);

	p->state = 'D';
	p->rchar = 1000;
	slow->state = 'D';
	slow->rchar = (uint64_t)(t * 10);
}

static void test_waiting_for_the_kernel(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 120, in_the_kernel);
	s = begin_of(&h, ANOMALY_STUCK_PROCESS, 0);
	assert_int_equal(s->e.worst.pid, 10);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	s = begin_of(&h, ANOMALY_IO_STALL, 0);
	assert_int_equal(s->e.worst.pid, 11);
	assert_int_equal(s->e.worst.severity, SEVERITY_LOW);
	host_close(&h);
}

/* What it wrote before it hung is no progress: no byte has moved since. */
static void hung_after_a_write(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->state = t < 50 ? 'S' : 'D';
	p->rchar = 1000;
	p->wchar = t < 50 ? 0 : 80;
}

static void test_who_hangs_after_a_write_is_stuck(void **state)
{
	const struct seen *s;
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 170, hung_after_a_write);
	s = begin_of(&h, ANOMALY_STUCK_PROCESS, 50);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_null(host_find(&h, ANOMALY_IO_STALL, EPISODE_BEGAN));
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy_loop),
		cmocka_unit_test(test_work_is_not_a_loop),
		cmocka_unit_test(test_what_is_usual_ends),
		cmocka_unit_test(test_a_short_peak_is_not_usual_for_long),
		cmocka_unit_test(test_a_loop_that_has_to_share_its_core),
		cmocka_unit_test(test_a_loop_is_judged_by_the_window),
		cmocka_unit_test(test_who_does_as_its_siblings_works),
		cmocka_unit_test(test_threads_wait_more_than_all_of_the_time),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_who_is_new_does_not_make_others_stuck),
		cmocka_unit_test(test_who_waits_with_all_others_is_not_stuck),
		cmocka_unit_test(test_waiting_for_the_kernel),
		cmocka_unit_test(test_who_hangs_after_a_write_is_stuck),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
