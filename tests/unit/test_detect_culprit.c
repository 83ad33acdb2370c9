/* What is of a job or cgroup as a whole names its sheet and who is most to blame. */
#include "detect_fixture.h"

#include "detect/episode.h"

static struct host h;

static int close_host(void **state)
{
	(void)state;
	host_close(&h);
	return 0;
}

/* A shell, who starts so many, and one who has two children. */
static void tick_storm(int n)
{
	static struct job_progress progress = { .job_id = "job", .current_sheet = 3 };

	host_begin(&h);
	h.snap.progress = &progress;
	h.snap.n_progress = 1;
	host_add(&h, 10, 1);
	snprintf(host_add(&h, 11, 10)->comm, COMM_BYTES, "storm");
	host_add(&h, 12, 10);
	for (int i = 0; i < 2; i++)
		host_add(&h, 20 + i, 12);
	for (int i = 0; i < n; i++)
		host_add(&h, 100 + i, 11);
	host_tick(&h);
	h.snap.progress = NULL; /* it is not the arena's */
	h.snap.n_progress = 0;
}

static void begin_storm(void)
{
	host_open(&h, 5);
	for (int i = 0; i < 20; i++)
		tick_storm(3);
	tick_storm(400);
}

static void test_who_starts_most_processes(void **state)
{
	const struct seen *s;

	(void)state;
	begin_storm();
	s = host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN);
	assert_non_null(s);
	assert_true(s->e.worst.has_pid);
	assert_int_equal(s->e.worst.pid, 11);
	assert_int_equal(s->e.worst.start_ticks, 100);
	assert_string_equal(s->e.comm, "storm");
	assert_int_equal(s->e.worst.sheet_num, 3);
}

/* It is of the job: it goes on without who was to blame, and ends with the job. */
static void test_it_is_not_of_its_culprit(void **state)
{
	(void)state;
	begin_storm();
	for (int k = 0; k < 4; k++) {
		host_begin(&h);
		host_add(&h, 10, 1);
		for (int i = 0; i < 400; i++)
			host_add(&h, 100 + i, 10);
		host_tick(&h);
	}
	assert_null(host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED));
	for (int k = 0; k < 4; k++) {
		host_begin(&h);
		host_tick(&h);
	}
	assert_string_equal(
		host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_CLEARED)->e.why_cleared,
		EPISODE_JOB_ENDED);
}

static void test_who_takes_over_knows_that(void **state)
{
	struct episode e;

	(void)state;
	begin_storm();
	episode_copy(&e, detect_active(h.d, 0));
	h.d = detect_free(h.d);
	h.d = detect_new(&h.config.anomaly, DETECT_ALL);
	assert_int_equal(detect_adopt(h.d, &e), 0);
	h.n_seen = 0;
	for (int k = 0; k < 5; k++) {
		host_begin(&h);
		for (int i = 0; i < 400; i++)
			host_add(&h, 100 + i, 1);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0);
	assert_string_equal(detect_active(h.d, 0)->name, e.name);
	assert_int_equal(detect_active(h.d, 0)->worst.pid, 11);
}

/* Two jobs, one after the other or at a time, in a cgroup that is full or not. */
static void tick_cgroup(const char *other_job, bool is_full)
{
	struct cgroup_sample *c;
	struct proc_sample *p;

	host_begin(&h);
	c = arena_alloc(&h.snap.arena, sizeof(*c));
	assert_non_null(c);
	cgroup_sample_init(c);
	c->path = "/jobs";
	c->memory_max_bytes = 100 * MB;
	c->memory_high_bytes = MEMORY_UNLIMITED;
	c->memory_current_bytes = (is_full ? 98 : 20) * MB;
	h.snap.cgroups = c;
	h.snap.n_cgroups = 1;
	host_add(&h, 10, 1)->cgroup = "/jobs";
	p = host_add(&h, 11, 1);
	p->rss_anon_bytes = 60 * MB;
	p->cgroup = "/jobs/below";
	snprintf(p->comm, sizeof(p->comm), "large");
	p = host_add(&h, 12, 1);
	p->rss_anon_bytes = 90 * MB;
	p->cgroup = "/jobs-of-others";
	if (other_job) {
		p = host_add(&h, 20, 1);
		p->job_id = other_job;
		p->cgroup = "/jobs";
	}
	host_tick(&h);
}

static void test_who_has_the_most_memory(void **state)
{
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	tick_cgroup(NULL, false);
	tick_cgroup(NULL, true);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_BEGAN);
	assert_non_null(s);
	assert_int_equal(s->e.worst.pid, 11);
	assert_string_equal(s->e.comm, "large");
	assert_int_equal(s->e.worst.sheet_num, 2);
	assert_string_equal(s->e.worst.job_id, "job");
	tick_cgroup("other", true); /* it was told of that job, and is the same */
	assert_int_equal(h.n_seen, 1);
}

static void test_a_cgroup_of_two_jobs_is_of_none(void **state)
{
	struct episode e;

	(void)state;
	host_open(&h, 5);
	tick_cgroup("other", false);
	tick_cgroup("other", true);
	tick_cgroup("other", true);
	assert_int_equal(h.n_seen, 1);
	assert_null(h.seen[0].e.worst.job_id);
	assert_int_equal(h.seen[0].e.worst.type, ANOMALY_MEMORY_PRESSURE);
	assert_int_equal(h.seen[0].e.worst.pid, 11);
	episode_copy(&e, detect_active(h.d, 0)); /* and who takes over goes on with it */
	h.d = detect_free(h.d);
	h.d = detect_new(&h.config.anomaly, DETECT_ALL);
	assert_int_equal(detect_adopt(h.d, &e), 0);
	tick_cgroup("other", true);
	assert_int_equal(h.n_seen, 1);
}

static void note(struct episodes *es, uint64_t cgroup, double now, size_t *n_begin)
{
	const struct finding f = { .stand = STAND_OVER, .value = 1, .text = "over" };
	const struct tick m = { .config = &h.config.anomaly, .snap = &h.snap, .now = now };
	const struct subject who = { .kind = OF_CGROUP, .cgroup = cgroup, .gpu = -1 };
	bool is_muted;

	episodes_begin_tick(es);
	*n_begin += episodes_would_begin(es, &m, ANOMALY_MEMORY_PRESSURE, &who);
	assert_true(episodes_note(es, &m, checks_of_type(ANOMALY_MEMORY_PRESSURE), &who, &f, NULL,
				  &is_muted) >= 0);
}

/* It takes a walk through all processes: not while it lasts, nor where there is no room for it. */
static void test_it_is_found_out_once(void **state)
{
	struct episodes es = { 0 };
	size_t n_begin = 0;

	(void)state;
	host_open(&h, 5);
	host_begin(&h);
	for (int i = 0; i < 3; i++)
		note(&es, 1, i, &n_begin);
	assert_int_equal(n_begin, 1);
	for (uint64_t k = 2; k <= EPISODES_MAX + 10; k++)
		note(&es, k, 4, &n_begin);
	assert_int_equal(n_begin, EPISODES_MAX);
	episodes_release(&es);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_who_starts_most_processes, close_host),
		cmocka_unit_test_teardown(test_it_is_not_of_its_culprit, close_host),
		cmocka_unit_test_teardown(test_who_takes_over_knows_that, close_host),
		cmocka_unit_test_teardown(test_who_has_the_most_memory, close_host),
		cmocka_unit_test_teardown(test_a_cgroup_of_two_jobs_is_of_none, close_host),
		cmocka_unit_test_teardown(test_it_is_found_out_once, close_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
