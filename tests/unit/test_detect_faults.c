/*
 * Planted faults: each is found, and how long that takes is printed. Beside each stands what
 * looks like it and is none.
 */
#include "detect_fixture.h"

#include <math.h>

/* Ticks until so many seconds have passed; fn makes the processes. */
typedef void scene(struct host *h, double t);

static void play(struct host *h, double seconds, scene *fn)
{
	double from = h->now;

	while (h->now - from < seconds) {
		host_begin(h);
		fn(h, h->now - from);
		host_tick(h);
	}
}

/* planted: when, in seconds. */
static const struct seen *begin_of(struct host *h, enum anomaly_type type, double planted)
{
	const struct seen *s = host_find(h, type, EPISODE_BEGAN);

	if (!s) {
		host_print(h);
		fail_msg("no %s was found", anomaly_type_name(type));
		return NULL;
	}
	print_message("# found after %3.0f s: %s: %s\n", s->at - planted, anomaly_type_name(type),
		      s->e.worst.text);
	assert_true(s->at >= planted);
	return s;
}

static void assert_quiet(struct host *h)
{
	if (h->n_seen > 0)
		host_print(h);
	assert_int_equal(h->n_seen, 0);
}

/* ---- memory ---- */

static void leak(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->rss_anon_bytes = (uint64_t)((100 + t * 0.5) * 1048576); /* 30 MB a minute */
}

static void test_leak(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 600, leak);
	s = begin_of(&h, ANOMALY_MEMORY_LEAK, 0);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_true(fabs(s->e.seconds_to_limit - 6144 / 0.5) < 600);
	assert_true(fabs(s->e.before_value - 100) < 10);
	assert_true(s->at < 330);
	assert_int_equal(s->e.worst.pid, 10);
	assert_string_equal(s->e.worst.job_id, "job");
	assert_int_equal(s->e.worst.sheet_num, 2);
	assert_int_equal(h.n_seen, 1);
	host_close(&h);
}

static void fast_leak(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->rss_anon_bytes = (uint64_t)((100 + t * 4) * 1048576);
	h->snap.system.memory_available_bytes -= (uint64_t)(t * 4 * 1048576);
}

/* What has an hour left is told before the window is over. */
static void test_a_fast_leak_is_told_early(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 900, fast_leak);
	assert_true(begin_of(&h, ANOMALY_MEMORY_LEAK, 0)->at < 150);
	assert_non_null(host_find(&h, ANOMALY_MEMORY_LEAK, EPISODE_ESCALATED));
	host_close(&h);
}

/* Grows and gives back, loads once and stays, or breathes with the page cache. */
static void no_leak(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)((50 + fmod(t, 60) * 4) * 1048576);
	host_add(h, 11, 1)->rss_anon_bytes = (uint64_t)((50 + fmin(t, 100)) * 1048576);
	host_add(h, 12, 1)->rss_bytes = (uint64_t)((50 + t) * 1048576);
	host_add(h, 13, 1)->rss_anon_bytes = (uint64_t)((2 + t * 0.01) * 1048576);
}

static void test_no_leak(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 3600, no_leak);
	for (size_t i = 0; i < h.n_seen; i++) /* the first tooth is a spike, and a small one */
		assert_int_equal(h.seen[i].e.worst.severity, SEVERITY_LOW);
	assert_null(host_find(&h, ANOMALY_MEMORY_LEAK, EPISODE_BEGAN));
	host_close(&h);
}

static void spike(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);
	double mb = t < 60 ? 100 : fmin(100 + (t - 60) * 200, 5000);

	p->rss_anon_bytes = (uint64_t)(mb * 1048576);
	h->snap.system.memory_available_bytes = (uint64_t)((6144 - mb) * 1048576);
}

static void test_spike(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, spike);
	s = begin_of(&h, ANOMALY_MEMORY_SPIKE, 60);
	assert_true(s->at <= 62);
	assert_true(fabs(s->e.before_value - 100) < 1);
	s = host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_ESCALATED);
	assert_non_null(s);
	assert_true(s->e.worst.severity >= SEVERITY_MEDIUM);
	s = host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_CLEARED);
	assert_non_null(s);
	assert_true(s->e.peak_value > 4000);
	assert_true(s->e.worst.severity >= SEVERITY_HIGH);
	assert_string_equal(s->e.why_cleared, "it was clear for long enough");
	host_close(&h);
}

/* A small one doubles; a new one starts up. */
static void no_spike(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = t < 60 ? 2 * MB : 4 * MB;
	if (t >= 60)
		host_add(h, 11, 1)->rss_anon_bytes =
			(uint64_t)(fmin(1 + (t - 60) * 40, 400) * 1048576);
}

static void test_no_spike(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, no_spike);
	assert_quiet(&h);
	host_close(&h);
}

/* Loads 300 MB within 3 s, and takes as much again when it is 20 s old. */
static void early_spike(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);
	double mb = 10 + fmin(t, 3) * 100 + (t < 20 ? 0 : 300);

	p->age_seconds = t;
	p->rss_anon_bytes = (uint64_t)(mb * 1048576);
}

/* Most jobs are short. */
static void test_a_spike_soon_after_the_start(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	for (int step = 1; step <= 5; step += 4) {
		host_open(&h, step);
		play(&h, 40, early_spike);
		s = begin_of(&h, ANOMALY_MEMORY_SPIKE, 20);
		assert_true(s->at <= 25);
		assert_true(fabs(s->e.before_value - 310) < 1);
		assert_int_equal(h.n_seen, 1);
		host_close(&h);
	}
}

/* At once, for half a minute without a rest, after a while, and given back in part. */
static void loading(struct host *h, double t)
{
	const double mb[] = {
		10 + fmin(t, 2) * 300,
		10 + fmin(t, 35) * 20,
		t < 8 ? 30 : 500,
		t < 10 ? 900 : fmin(500 + fmax(t - 20, 0) * 40, 900),
	};

	for (int i = 0; i < (int)ARRAY_SIZE(mb); i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->age_seconds = t;
		p->rss_anon_bytes = (uint64_t)(mb[i] * 1048576);
	}
}

static void test_loading_is_no_spike(void **state)
{
	struct host h;

	(void)state;
	for (int step = 1; step <= 5; step += 4) {
		host_open(&h, step);
		play(&h, 120, loading);
		assert_quiet(&h);
		host_close(&h);
	}
}

/* What is told of the threshold does not change while it grows. */
static void test_the_threshold_is_that_of_the_beginning(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, spike);
	for (size_t i = 0; i < h.n_seen; i++)
		assert_true(h.seen[i].e.worst.threshold == 164);
	host_close(&h);
}

static void test_what_is_usual_is_no_news(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	h.usual = (struct detect_usual){ "job", 0, F64_UNKNOWN, F64_UNKNOWN, 6000 * MB };
	play(&h, 300, spike);
	assert_quiet(&h);
	host_close(&h);
}

static void pressure(struct host *h, double t)
{
	h->snap.system.memory_available_bytes = t < 30	  ? 6144 * MB
						: t < 60  ? 700 * MB
						: t < 90  ? 300 * MB
						: t < 120 ? 900 * MB
							  : 6144 * MB;
}

static void test_pressure(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, pressure);
	s = begin_of(&h, ANOMALY_MEMORY_PRESSURE, 30);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_false(s->e.worst.has_pid);
	assert_null(s->e.worst.job_id);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_ESCALATED);
	assert_int_equal(s->e.worst.severity, SEVERITY_HIGH);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_CLEARED);
	assert_true(s->at >= 180); /* 11 % is not enough, and then it takes a minute */
	assert_true(fabs(s->e.peak_value - 300.0 / 81.92) < 0.1);
	assert_true(fabs(s->e.after_value - 75) < 0.1);
	assert_int_equal(h.n_seen, 3);
	host_close(&h);
}

static void stalled(struct host *h, double t)
{
	h->snap.system.psi_memory.full.avg10 = t < 60 ? 0 : 50;
	h->snap.system.psi_io.full.avg10 = t < 60 ? 0 : 60;
	h->snap.system.swap_in_bytes = (uint64_t)(fmax(t - 60, 0) * 10) * MB;
	h->snap.system.swap_out_bytes = (uint64_t)(fmax(t - 60, 0) * 10) * MB;
}

static void test_the_host_stalls(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, stalled);
	assert_int_equal(begin_of(&h, ANOMALY_MEMORY_PRESSURE, 60)->e.worst.severity,
			 SEVERITY_CRITICAL);
	assert_true(begin_of(&h, ANOMALY_IO_STALL, 60)->at <= 95);
	assert_int_equal(begin_of(&h, ANOMALY_SWAP_STORM, 60)->e.worst.severity, SEVERITY_HIGH);
	host_close(&h);
}

/* ---- CPU and progress ---- */

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
	h.usual = (struct detect_usual){ "job", 0, 100, F64_UNKNOWN, U64_UNKNOWN };
	play(&h, 3600, busy);
	assert_quiet(&h);
	host_close(&h);
}

/* Such jobs use a core for ten minutes: after twenty it is not what they do. */
static void test_what_is_usual_ends(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	h.usual = (struct detect_usual){ "job", 0, 100, 600, U64_UNKNOWN };
	play(&h, 1800, busy);
	s = begin_of(&h, ANOMALY_RUNAWAY_PROCESS, 25);
	assert_true(s->at > 1225 && s->at <= 1240);
	assert_non_null(strstr(s->e.worst.text, "jobs of its kind use 100 % at most"));
	host_close(&h);
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

/* ---- counts ---- */

static void fd_leak(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->open_fds = (uint64_t)fmin(10 + t, 1024);
}

static void test_fd_leak(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 1100, fd_leak);
	s = begin_of(&h, ANOMALY_FD_EXHAUSTION, 0);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_true(s->at < 500);
	assert_true(fabs(s->e.seconds_to_limit - (1014 - s->at)) < 20);
	s = host_find(&h, ANOMALY_FD_EXHAUSTION, EPISODE_ESCALATED);
	assert_int_equal(s->e.worst.severity, SEVERITY_HIGH);
	assert_int_equal(h.seen[h.n_seen - 1].e.worst.severity, SEVERITY_CRITICAL);
	host_close(&h);
}

/* How leaks of memory are looked for has nothing to do with it. */
static void test_fd_leak_has_its_own_window(void **state)
{
	double found[2];
	struct host h;

	(void)state;
	for (int i = 0; i < 2; i++) {
		host_open(&h, 5);
		h.config.anomaly.memory_leak_window_seconds = i ? 3000 : 300;
		detect_configure(h.d, &h.config.anomaly);
		play(&h, 1100, fd_leak);
		found[i] = begin_of(&h, ANOMALY_FD_EXHAUSTION, 0)->at;
		host_close(&h);
	}
	assert_true(found[0] == found[1]);
}

/* A fork bomb that the limit of its user stops long before the threshold. */
static void bomb_below_a_limit(struct host *h, double t)
{
	double n = t < 30 ? 1 : fmin(144, pow(2, t - 30));

	for (int i = 0; i < (int)n; i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->uid = 65534;
		p->process_limit = 150;
	}
}

static void bomb_of_root(struct host *h, double t)
{
	bomb_below_a_limit(h, t);
	for (size_t i = 0; i < h->snap.n_processes; i++)
		h->snap.processes[i].uid = 0;
}

static void test_a_fork_bomb_below_a_limit(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 60, bomb_below_a_limit);
	s = begin_of(&h, ANOMALY_PROCESS_EXPLOSION, 30);
	assert_true(s->e.worst.metric_value == 144);
	host_close(&h);
	host_open(&h, 1);
	play(&h, 60, bomb_of_root); /* which has no limit */
	assert_null(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN));
	host_close(&h);
}

/* Opens what it needs in its first minute, and no more: half of what it may. */
static void opens_its_files(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->open_fds = (uint64_t)(5 + 3 * fmin(t, 63));
	p->fd_limit = 400;
}

static void test_files_of_the_first_minute(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, opens_its_files);
	host_print(&h);
	for (size_t i = 0; i < h.n_seen; i++)
		assert_true(h.seen[i].e.worst.severity <= SEVERITY_MEDIUM);
	host_close(&h);
}

/* Many files are nothing by themselves, and a limit that nobody knows is no limit. */
static void many_fds(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1), *q = host_add(h, 11, 1);

	(void)t;
	p->open_fds = 5000;
	p->fd_limit = 1048576;
	q->open_fds = 5000;
	q->fd_limit = t < 60 ? U64_UNKNOWN : FD_LIMIT_UNLIMITED;
}

static void test_many_fds(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, many_fds);
	assert_quiet(&h);
	host_close(&h);
}

/* Doubles each second until the limit on processes stops it. */
static void fork_bomb(struct host *h, double t)
{
	int n = (int)fmin(t < 10 ? 2 : pow(2, t - 9), 300);

	for (int i = 0; i < n; i++)
		host_add(h, 1000 + i, 1);
}

static void test_fork_bomb(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 60, fork_bomb);
	s = begin_of(&h, ANOMALY_PROCESS_EXPLOSION, 10);
	assert_true(s->at <= 20);
	assert_string_equal(s->e.worst.job_id, "job");
	assert_false(s->e.worst.has_pid);
	assert_int_equal(h.n_seen, 1);
	host_close(&h);
}

static void threads(struct host *h, double t)
{
	host_add(h, 10, 1)->threads = t < 40 ? 8 : (uint64_t)(8 + (t - 40) * 50);
	host_add(h, 11, 1)->threads = 2000; /* always has */
}

static void test_threads(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 100, threads);
	s = begin_of(&h, ANOMALY_THREAD_EXPLOSION, 40);
	assert_int_equal(s->e.worst.pid, 10);
	assert_non_null(host_find(&h, ANOMALY_THREAD_EXPLOSION, EPISODE_ESCALATED));
	host_close(&h);
}

static void zombies(struct host *h, double t)
{
	int n = t < 100 ? 1 : 12;

	host_add(h, 9, 1);
	for (int i = 0; i < n; i++)
		host_add(h, 100 + i, 9)->state = 'Z';
	host_add(h, 200 + (int)t, 9)->state = 'Z'; /* each is waited for in time */
	host_add(h, 50, 7)->state = 'Z';	   /* of a parent that is not of the job */
}

static void test_zombies(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 200, zombies);
	s = begin_of(&h, ANOMALY_ZOMBIE, 0);
	assert_int_equal(s->e.worst.pid, 9); /* the parent */
	assert_true(s->at <= 30);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2);
	assert_false(h.seen[1].e.worst.has_pid);
	assert_non_null(strstr(h.seen[1].e.worst.text, "pid 7, which is not of the job"));
	s = host_find(&h, ANOMALY_ZOMBIE, EPISODE_ESCALATED);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_true(s->e.peak_value == 12);
	host_close(&h);
}

static void outlived(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	if (t < 60)
		host_add(h, 11, 1);
	else
		p->job_id = NULL;
}

static void test_orphan(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 120, outlived);
	s = begin_of(&h, ANOMALY_ORPHAN, 60);
	assert_int_equal(s->e.worst.pid, 10);
	assert_string_equal(s->e.worst.job_id, "job");
	assert_true(s->at >= 90 && s->at <= 95);
	host_close(&h);
}

/* ---- kills ---- */

static void kill_one(struct host *h, double t)
{
	struct cgroup_sample *c = arena_alloc(&h->snap.arena, sizeof(*c));

	assert_non_null(c);
	cgroup_sample_init(c);
	c->path = "/job";
	c->memory_max_bytes = 100 * MB;
	c->memory_current_bytes = t < 60 ? 50 * MB : 99 * MB;
	c->oom_kills = t < 60 ? 4 : 5;
	h->snap.cgroups = c;
	h->snap.n_cgroups = 1;
	h->snap.system.oom_kills_total = c->oom_kills;
	host_add(h, 10, 1)->cgroup = "/job";
	if (t == 60)
		h->events[h->n_events++] = (struct proc_event){ .type = EVENT_OOM,
								.key = { 11, 200 },
								.job_id = "job",
								.sheet_num = 2,
								.comm = "short" };
}

static void test_oom(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 200, kill_one);
	s = begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(s->e.worst.pid, 11);
	assert_string_equal(s->e.comm, "short"); /* no look has shown it */
	assert_non_null(strstr(s->e.worst.text, "killed short (pid 11)"));
	assert_int_equal(s->e.worst.severity, SEVERITY_CRITICAL);
	assert_int_equal(s->e.worst.sheet_num, 2);
	assert_true(s->at == 60);
	s = host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED);
	assert_true(s->at >= 120);
	assert_int_equal(begin_of(&h, ANOMALY_MEMORY_PRESSURE, 60)->e.worst.severity, SEVERITY_LOW);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2);
	host_close(&h);
}

/* ---- a cgroup ---- */

struct cgroup_case {
	double stall;		 /* PSI full of the last 10 s */
	uint64_t high, max, has; /* MB */
	enum severity severity;
	bool is_clear;
};

static struct cgroup_case at_hand;

static void strained(struct host *h, double t)
{
	struct cgroup_sample *c = arena_alloc(&h->snap.arena, sizeof(*c));

	assert_non_null(c);
	cgroup_sample_init(c);
	c->path = "/job";
	c->memory_high_bytes = at_hand.high ? at_hand.high * MB : MEMORY_UNLIMITED;
	c->memory_max_bytes = at_hand.max ? at_hand.max * MB : MEMORY_UNLIMITED;
	c->memory_current_bytes = t < 60 || t >= 120 ? 10 * MB : at_hand.has * MB;
	c->psi_memory.full.avg10 = t < 60 || t >= 120 ? 0 : at_hand.stall;
	h->snap.cgroups = c;
	h->snap.n_cgroups = 1;
	host_add(h, 10, 1)->cgroup = "/job";
}

static void test_a_cgroup_under_pressure(void **state)
{
	static const struct cgroup_case cases[] = {
		{ 0, 100, 0, 96, SEVERITY_LOW, false },	 /* memory.high alone */
		{ 0, 0, 100, 96, SEVERITY_LOW, false },	 /* memory.max alone */
		{ 0, 100, 200, 94, SEVERITY_LOW, true }, /* not quite */
		{ 12, 0, 0, 50, SEVERITY_MEDIUM, false },
		{ 25, 0, 0, 50, SEVERITY_HIGH, false },
		{ 45, 100, 0, 99, SEVERITY_CRITICAL, false },
		{ 9, 0, 0, 50, SEVERITY_LOW, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct seen *s;
		struct host h;

		at_hand = cases[i];
		host_open(&h, 5);
		play(&h, 300, strained);
		assert_int_equal(h.n_seen, cases[i].is_clear ? 0 : 2);
		s = cases[i].is_clear ? NULL : begin_of(&h, ANOMALY_MEMORY_PRESSURE, 60);
		assert_true(!s || s->e.worst.severity == cases[i].severity);
		assert_true(!s || strcmp(s->e.worst.job_id, "job") == 0);
		host_close(&h);
	}
}

/* Thresholds are the configuration's. */
static void test_how_full_a_cgroup_may_be(void **state)
{
	struct host h;

	(void)state;
	at_hand = (struct cgroup_case){ .max = 100, .has = 85 };
	host_open(&h, 5);
	h.config.anomaly.memory_pressure_cgroup_percent = 80;
	detect_configure(h.d, &h.config.anomaly);
	play(&h, 300, strained);
	assert_int_equal(h.n_seen, 2);
	host_close(&h);
}

static void kill_unseen(struct host *h, double t)
{
	kill_one(h, t);
	h->n_events = 0;
	if (t < 60)
		host_add(h, 11, 10)->cgroup = "/job";
}

/* Its cgroup has counted a kill, and the job has lost no process: it was of others. */
static void kill_beside(struct host *h, double t)
{
	kill_one(h, t);
	h->n_events = 0;
}

static void test_a_kill_of_others_in_its_cgroup(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 100, kill_beside);
	s = begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_null(s->e.worst.job_id);
	assert_non_null(strstr(s->e.worst.text, "of the cgroup /job"));
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2); /* and the pressure, not the host's */
	host_close(&h);
}

/* One of two jobs in a cgroup has lost a process; the kill may be of either. */
static void kill_shared(struct host *h, double t)
{
	kill_unseen(h, t);
	host_add(h, 20, 1)->job_id = "other";
	h->snap.processes[h->snap.n_processes - 1].cgroup = "/job";
}

static void test_a_kill_in_a_cgroup_of_two_jobs(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 100, kill_shared);
	s = begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_null(s->e.worst.job_id);
	host_close(&h);
}

/* One that was too short to be seen is known by its end. */
static void kill_short(struct host *h, double t)
{
	kill_beside(h, t);
	if (t == 60)
		h->events[h->n_events++] = (struct proc_event){
			.type = EVENT_EXIT, .key = { 12, 300 }, .job_id = "job", .status = { -1, 9 }
		};
}

static void test_a_kill_of_who_was_never_seen(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 100, kill_short);
	assert_int_equal(begin_of(&h, ANOMALY_OOM_KILL, 60)->e.worst.severity, SEVERITY_HIGH);
	host_close(&h);
}

/* Nobody saw who it was: the counts of the cgroup and of the host tell. */
static void test_oom_by_count(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 100, kill_unseen);
	s = begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(s->e.worst.severity, SEVERITY_HIGH);
	assert_string_equal(s->e.worst.job_id, "job");
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2); /* and the pressure, not the host's */
	host_close(&h);
}

/* The count comes first, and the runner tells of it at the next tick. */
static void kill_told_late(struct host *h, double t)
{
	kill_one(h, t == 65 ? 60 : t);
	if (t == 60)
		h->n_events = 0;
	if (t < 65)
		host_add(h, 11, 10)->key.start_ticks = 200;
}

/* The kernel tells of it between two ticks; the counts of the next one have it as well. */
static void kill_told_at_once(struct host *h, double t)
{
	struct snapshot between;
	struct detect_changes changes;
	struct detect_news news = { .snap = &between, .events = h->events };

	kill_one(h, t);
	if (t < 60)
		host_add(h, 11, 10)->key.start_ticks = 200;
	if (t != 60)
		return;
	between = h->snap;
	between.n_processes = between.n_cgroups = 0; /* nothing is looked at */
	between.wall_ns -= 2500000000;
	between.boot_ns -= 2500000000;
	news.n_events = h->n_events;
	h->n_events = 0;
	assert_int_equal(detect_note_kills(h->d, &news, &changes), 0);
	assert_int_equal(changes.n, 1);
	assert_int_equal(changes.items[0].episode->began_wall_ns, between.wall_ns);
	host_keep(h, &changes);
}

static void test_one_kill_is_one_episode(void **state)
{
	const struct seen *s;
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 200, kill_told_late);
	s = begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(s->e.worst.severity, SEVERITY_CRITICAL);
	assert_string_equal(s->e.comm, "worker");
	assert_non_null(strstr(s->e.worst.text, "worker (pid 11)"));
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2); /* and the pressure */
	host_close(&h);

	host_open(&h, 5);
	play(&h, 200, kill_told_at_once);
	s = begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(s->e.worst.severity, SEVERITY_CRITICAL);
	assert_string_equal(s->e.comm, "worker");
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2); /* and the pressure: it is told once */
	assert_non_null(host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED));
	host_close(&h);
}

/* The cgroup goes with its last process, before anybody has said who was killed. */
static void test_a_kill_in_a_cgroup_that_is_gone(void **state)
{
	struct detect_changes changes;
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 62, kill_unseen);
	host_begin(&h);
	host_tick(&h);
	host_begin(&h);
	host_tick(&h);
	assert_int_equal(begin_of(&h, ANOMALY_OOM_KILL, 60)->e.worst.severity, SEVERITY_HIGH);
	assert_string_equal(host_find(&h, ANOMALY_OOM_KILL, EPISODE_BEGAN)->e.worst.job_id, "job");
	host_close(&h);

	host_open(&h, 1);
	play(&h, 61, kill_unseen);
	assert_null(host_find(&h, ANOMALY_OOM_KILL, EPISODE_BEGAN));
	assert_int_equal(detect_end(h.d, &changes), 0);
	host_keep(&h, &changes);
	assert_int_equal(begin_of(&h, ANOMALY_OOM_KILL, 60)->e.worst.severity, SEVERITY_HIGH);
	assert_non_null(host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED));
	host_close(&h);
}

/* ---- GPUs ---- */

static void gpu(struct host *h, double t)
{
	struct gpu_sample *g = arena_alloc(&h->snap.arena, 2 * sizeof(*g));

	assert_non_null(g);
	gpu_sample_init(&g[0]);
	g[0].utilization_pct = t < 60 ? 80 : 0;
	g[0].memory_used_mb = 70000;
	g[0].memory_total_mb = 80000;
	g[0].temperature_c = t < 600 ? 60 : 92;
	g[0].throttle = GPU_THROTTLE_IDLE | GPU_THROTTLE_POWER_CAP; /* as it should */
	gpu_sample_init(&g[1]);
	g[1].index = 1;
	g[1].utilization_pct = 101;
	g[1].memory_used_mb = t < 60 ? 1000 : 79500;
	g[1].memory_total_mb = 80000;
	g[1].throttle = t < 60 ? U64_UNKNOWN : GPU_THROTTLE_HARDWARE_THERMAL;
	h->snap.gpus = g;
	h->snap.n_gpus = 2;
}

static void test_gpus(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 700, gpu);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_MEMORY, 60)->e.gpu, 1);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_HOT, 60)->e.gpu, 1);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_HOT, 60)->e.worst.severity, SEVERITY_HIGH);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_IDLE, 60)->e.gpu, 0);
	assert_true(begin_of(&h, ANOMALY_GPU_IDLE, 60)->at <= 365);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 4);
	host_close(&h);
}

/* ---- how severe ---- */

struct rule {
	double celsius, memory_percent; /* of a GPU; NaN: there is none */
	uint64_t throttle;
	double swap_mb, stall; /* a second; PSI full */
	enum anomaly_type type;
	int severity; /* -1: nothing is told */
};

static struct rule rule_at_hand;

static void break_rule(struct host *h, double t)
{
	struct gpu_sample *g = arena_alloc(&h->snap.arena, sizeof(*g));

	assert_non_null(g);
	gpu_sample_init(g);
	g->index = 0;
	g->temperature_c = rule_at_hand.celsius;
	g->throttle = rule_at_hand.throttle;
	g->utilization_pct = 50;
	g->memory_total_mb = 1000;
	g->memory_used_mb = 10 * rule_at_hand.memory_percent;
	h->snap.gpus = g;
	h->snap.n_gpus = f64_known(rule_at_hand.celsius);
	h->snap.system.swap_in_bytes = (uint64_t)(t * rule_at_hand.swap_mb) * MB;
	h->snap.system.swap_out_bytes = 0;
	h->snap.system.psi_memory.full.avg10 = rule_at_hand.stall;
}

static void test_how_severe(void **state)
{
	static const struct rule rules[] = {
		{ 84, 10, 0, 0, 0, ANOMALY_GPU_HOT, -1 },
		{ 85, 10, 0, 0, 0, ANOMALY_GPU_HOT, SEVERITY_MEDIUM },
		{ 90, 10, 0, 0, 0, ANOMALY_GPU_HOT, SEVERITY_HIGH },
		{ 95, 10, 0, 0, 0, ANOMALY_GPU_HOT, SEVERITY_CRITICAL },
		{ 60, 10, GPU_THROTTLE_POWER_BRAKE, 0, 0, ANOMALY_GPU_HOT, SEVERITY_MEDIUM },
		{ 60, 10, GPU_THROTTLE_THERMAL, 0, 0, ANOMALY_GPU_HOT, SEVERITY_HIGH },
		{ 60, 10, GPU_THROTTLE_POWER_CAP, 0, 0, ANOMALY_GPU_HOT, -1 },
		{ 60, 94, 0, 0, 0, ANOMALY_GPU_MEMORY, -1 },
		{ 60, 95, 0, 0, 0, ANOMALY_GPU_MEMORY, SEVERITY_LOW },
		{ 60, 99, 0, 0, 0, ANOMALY_GPU_MEMORY, SEVERITY_MEDIUM },
		{ NAN, 0, 0, 15, 0, ANOMALY_SWAP_STORM, -1 },
		{ NAN, 0, 0, 16, 0, ANOMALY_SWAP_STORM, SEVERITY_MEDIUM },
		{ NAN, 0, 0, 16, 10, ANOMALY_SWAP_STORM, SEVERITY_HIGH },
		{ NAN, 0, 0, 64, 0, ANOMALY_SWAP_STORM, SEVERITY_HIGH },
		{ NAN, 0, 0, 64, 10, ANOMALY_SWAP_STORM, SEVERITY_CRITICAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct seen *s;
		struct host h;

		rule_at_hand = rules[i];
		host_open(&h, 5);
		play(&h, 60, break_rule);
		s = host_find(&h, rules[i].type, EPISODE_BEGAN);
		assert_int_equal(s ? (int)s->e.worst.severity : -1, rules[i].severity);
		host_close(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leak),
		cmocka_unit_test(test_a_fast_leak_is_told_early),
		cmocka_unit_test(test_no_leak),
		cmocka_unit_test(test_spike),
		cmocka_unit_test(test_no_spike),
		cmocka_unit_test(test_a_spike_soon_after_the_start),
		cmocka_unit_test(test_loading_is_no_spike),
		cmocka_unit_test(test_the_threshold_is_that_of_the_beginning),
		cmocka_unit_test(test_what_is_usual_is_no_news),
		cmocka_unit_test(test_pressure),
		cmocka_unit_test(test_the_host_stalls),
		cmocka_unit_test(test_busy_loop),
		cmocka_unit_test(test_work_is_not_a_loop),
		cmocka_unit_test(test_what_is_usual_ends),
		cmocka_unit_test(test_a_loop_that_has_to_share_its_core),
		cmocka_unit_test(test_threads_wait_more_than_all_of_the_time),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_who_is_new_does_not_make_others_stuck),
		cmocka_unit_test(test_who_waits_with_all_others_is_not_stuck),
		cmocka_unit_test(test_waiting_for_the_kernel),
		cmocka_unit_test(test_fd_leak),
		cmocka_unit_test(test_fd_leak_has_its_own_window),
		cmocka_unit_test(test_a_fork_bomb_below_a_limit),
		cmocka_unit_test(test_files_of_the_first_minute),
		cmocka_unit_test(test_many_fds),
		cmocka_unit_test(test_fork_bomb),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_zombies),
		cmocka_unit_test(test_orphan),
		cmocka_unit_test(test_oom),
		cmocka_unit_test(test_oom_by_count),
		cmocka_unit_test(test_a_kill_of_others_in_its_cgroup),
		cmocka_unit_test(test_a_kill_in_a_cgroup_of_two_jobs),
		cmocka_unit_test(test_a_kill_of_who_was_never_seen),
		cmocka_unit_test(test_a_cgroup_under_pressure),
		cmocka_unit_test(test_how_full_a_cgroup_may_be),
		cmocka_unit_test(test_one_kill_is_one_episode),
		cmocka_unit_test(test_a_kill_in_a_cgroup_that_is_gone),
		cmocka_unit_test(test_gpus),
		cmocka_unit_test(test_how_severe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
