/* Planted leaks of files, explosions of processes and threads, zombies and orphans. */
#include "detect_scenes.h"

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
	assert_non_null(strstr(s->e.worst.text, "(threshold: 922, or all within 10 min)"));
	assert_non_null(strstr(s->e.worst.text, "; at this rate all are open in "));
	s = host_find(&h, ANOMALY_FD_EXHAUSTION, EPISODE_ESCALATED);
	assert_int_equal(s->e.worst.severity, SEVERITY_HIGH);
	assert_int_equal(h.seen[h.n_seen - 1].e.worst.severity, SEVERITY_CRITICAL);
	assert_non_null(strstr(detect_active(h.d, 0)->worst.text, "(threshold: 922), "));
	assert_non_null(strstr(detect_active(h.d, 0)->worst.text, " ago; there can be no more"));
	host_close(&h);
}

/* A shell with more files than the program that it becomes, which then leaks. */
static void fd_leak_after_exec(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	snprintf(p->comm, sizeof(p->comm), "%s", t < 1 ? "bash" : "python3");
	p->open_fds = t < 1 ? 7 : (uint64_t)fmin(5 + 10 * (t - 1), 200);
	p->fd_limit = 200;
}

static void test_an_exec_begins_anew(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 0.5);
	h.config.anomaly.fd_exhaustion_horizon_seconds = 20;
	detect_configure(h.d, &h.config.anomaly);
	play(&h, 20, fd_leak_after_exec);
	assert_true(begin_of(&h, ANOMALY_FD_EXHAUSTION, 1)->at < 8);
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

/* The limit of the cgroup, in which another has twenty. */
static void bomb_in_a_cgroup(struct host *h, double t)
{
	static struct cgroup_sample c;
	double n = t < 30 ? 1 : fmin(100, pow(2, t - 30));

	for (int i = 0; i < (int)n; i++)
		host_add(h, 10 + i, 1)->cgroup = "/a";
	cgroup_sample_init(&c);
	c.path = "/a";
	c.pids_current = (uint64_t)n + 20;
	c.pids_max = 120;
	h->snap.cgroups = &c;
	h->snap.n_cgroups = 1;
}

/* Alone in it, and each has three threads: they count there. */
static void bomb_of_threads_in_a_cgroup(struct host *h, double t)
{
	static struct cgroup_sample c;
	double n = t < 30 ? 1 : fmin(100, pow(2, t - 30));

	for (int i = 0; i < (int)n; i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->cgroup = "/a";
		p->threads = 3;
	}
	cgroup_sample_init(&c);
	c.path = "/a";
	c.pids_current = 3 * (uint64_t)n;
	c.pids_max = 300;
	h->snap.cgroups = &c;
	h->snap.n_cgroups = 1;
}

static void test_a_fork_bomb_of_threads_in_a_cgroup(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 60, bomb_of_threads_in_a_cgroup);
	s = begin_of(&h, ANOMALY_PROCESS_EXPLOSION, 30);
	assert_true(s->e.worst.metric_value == 100);
	assert_non_null(strstr(s->e.worst.text, "(threshold: 90, as its cgroup has room for 100)"));
	host_close(&h);
}

/* Nearly full, and always so. */
static void crowd_in_a_cgroup(struct host *h, double t)
{
	(void)t;
	bomb_in_a_cgroup(h, 1000);
}

static void bomb_in_a_roomy_cgroup(struct host *h, double t)
{
	bomb_in_a_cgroup(h, t);
	h->snap.cgroups[0].pids_max = PIDS_UNLIMITED;
}

/* Others fill it, while the job grows a little. */
static void crowd_of_others(struct host *h, double t)
{
	static struct cgroup_sample c;
	int n = t < 30 ? 1 : 4;

	for (int i = 0; i < n; i++)
		host_add(h, 10 + i, 1)->cgroup = "/a";
	cgroup_sample_init(&c);
	c.path = "/a";
	c.pids_current = (uint64_t)(t < 30 ? 990 : 999 + n);
	c.pids_max = 1000;
	h->snap.cgroups = &c;
	h->snap.n_cgroups = 1;
}

static void test_others_fill_the_cgroup(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 60, crowd_of_others);
	assert_quiet(&h);
	host_close(&h);
}

/* One of them may start nobody, as programs in a sandbox; the others may. */
static void one_in_a_sandbox(struct host *h, double t)
{
	for (int i = 0; i < (t < 30 ? 1 : 4); i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->uid = 65534;
		p->process_limit = i == 3 ? 0 : 1000;
	}
}

static void test_one_that_may_start_nobody(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 60, one_in_a_sandbox);
	assert_quiet(&h);
	host_close(&h);
}

static void test_a_fork_bomb_in_a_cgroup(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 60, bomb_in_a_cgroup);
	s = begin_of(&h, ANOMALY_PROCESS_EXPLOSION, 30);
	assert_true(s->e.worst.metric_value == 100);
	assert_true(s->e.worst.threshold == 90);
	assert_non_null(strstr(s->e.worst.text, "(threshold: 90, as its cgroup has room for 100)"));
	host_close(&h);
	host_open(&h, 1);
	play(&h, 60, crowd_in_a_cgroup);
	assert_quiet(&h);
	host_close(&h);
	host_open(&h, 1);
	play(&h, 60, bomb_in_a_roomy_cgroup);
	assert_quiet(&h);
	host_close(&h);
}

static void assert_told_below_150(scene *bomb)
{
	struct host h;
	const struct seen *s;

	host_open(&h, 1);
	play(&h, 60, bomb);
	s = begin_of(&h, ANOMALY_PROCESS_EXPLOSION, 30);
	assert_true(s->e.worst.metric_value == 144);
	assert_non_null(strstr(s->e.worst.text, "(threshold: 135, as its user may have 150)"));
	host_close(&h);
}

static void test_a_fork_bomb_below_a_limit(void **state)
{
	struct host h;

	(void)state;
	assert_told_below_150(bomb_below_a_limit);
	host_open(&h, 1);
	play(&h, 60, bomb_of_root); /* which has no limit */
	assert_null(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN));
	host_close(&h);
}

/* The same, and one that was first in a sandbox. */
static void bomb_beside_a_sandbox(struct host *h, double t)
{
	bomb_below_a_limit(h, t);
	h->snap.processes[0].process_limit = 0;
}

/* Each of its first sixty has allowed itself something else, less and more. */
static void bomb_of_many_limits(struct host *h, double t)
{
	bomb_below_a_limit(h, t);
	for (size_t i = 0; i < h->snap.n_processes && i < 60; i++)
		h->snap.processes[i].process_limit = 100 + 2 * i;
}

static void test_a_fork_bomb_beside_lower_limits(void **state)
{
	(void)state;
	assert_told_below_150(bomb_beside_a_sandbox);
	assert_told_below_150(bomb_of_many_limits);
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
	assert_non_null(strstr(s->e.worst.text, " processes within the last "));
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
	assert_non_null(strstr(s->e.worst.text, " threads within the last "));
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

/* Between two ticks, and who tells of it knows when. */
static void test_an_orphan_since_its_job_ended(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 20);
	for (int i = 0; i < 4; i++) {
		host_begin(&h);
		host_add(&h, 10, 1)->job_id = i < 2 ? "job" : NULL;
		if (i == 2)
			h.events[h.n_events++] = (struct proc_event){
				.wall_ns = h.snap.wall_ns - UINT64_C(15000000000),
				.key = { 10, 100 },
				.type = EVENT_ORPHAN,
				.job_id = "job",
			};
		host_tick(&h);
	}
	s = begin_of(&h, ANOMALY_ORPHAN, 0);
	assert_true(s->at == 60);
	assert_true(fabs(s->e.worst.metric_value - 35) < 0.1);
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fd_leak),
		cmocka_unit_test(test_an_exec_begins_anew),
		cmocka_unit_test(test_fd_leak_has_its_own_window),
		cmocka_unit_test(test_a_fork_bomb_below_a_limit),
		cmocka_unit_test(test_a_fork_bomb_beside_lower_limits),
		cmocka_unit_test(test_a_fork_bomb_in_a_cgroup),
		cmocka_unit_test(test_a_fork_bomb_of_threads_in_a_cgroup),
		cmocka_unit_test(test_others_fill_the_cgroup),
		cmocka_unit_test(test_one_that_may_start_nobody),
		cmocka_unit_test(test_files_of_the_first_minute),
		cmocka_unit_test(test_many_fds),
		cmocka_unit_test(test_fork_bomb),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_zombies),
		cmocka_unit_test(test_orphan),
		cmocka_unit_test(test_an_orphan_since_its_job_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
