/* What is unknown, late, lost or counted twice: nothing is made up, and nothing vanishes. */
#include "detect_fixture.h"

#include <math.h>

static struct host h;

static struct cgroup_sample *add_cgroup(const char *path)
{
	struct cgroup_sample *c = arena_alloc(&h.snap.arena, sizeof(*c));

	assert_non_null(c);
	cgroup_sample_init(c);
	c->path = path;
	h.snap.cgroups = c;
	h.snap.n_cgroups = 1;
	return c;
}

static struct gpu_sample *add_gpu(void)
{
	struct gpu_sample *gpu = arena_alloc(&h.snap.arena, sizeof(*gpu));

	assert_non_null(gpu);
	gpu_sample_init(gpu);
	h.snap.gpus = gpu;
	h.snap.n_gpus = 1;
	return gpu;
}

static void add_oom(pid_t pid, uint64_t start_ticks, const char *job_id)
{
	h.events[h.n_events++] = (struct proc_event){
		.type = EVENT_OOM, .key = { pid, start_ticks }, .job_id = job_id, .sheet_num = 1
	};
}

/* How many kills all that was told speaks of. */
static double count_kills(enum severity severity)
{
	double n = 0;

	for (size_t i = 0; i < h.n_seen; i++)
		if (h.seen[i].e.worst.type == ANOMALY_OOM_KILL &&
		    h.seen[i].change == EPISODE_CLEARED && h.seen[i].e.worst.severity == severity)
			n += h.seen[i].e.peak_value;
	return n;
}

static void close_all(void)
{
	struct detect_changes changes;

	assert_int_equal(detect_end(h.d, &changes), 0);
	host_keep(&h, &changes);
}

/* ---- unknown is neither clear nor none ---- */

static void test_bytes_that_nobody_sees_may_move(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 80; i++) {
		struct proc_sample *p;

		host_begin(&h);
		p = host_add(&h, 10, 1);
		p->state = 'D';
		p->rchar = p->wchar = p->read_bytes = p->write_bytes = U64_UNKNOWN;
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0);
	host_close(&h);
}

static void test_pressure_that_is_lost_is_not_over(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		host_begin(&h);
		h.snap.system.psi_memory.full.avg10 = i < 10 ? 0 : i < 20 ? 50 : F64_UNKNOWN;
		host_tick(&h);
	}
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 0);
	host_close(&h);
}

static void test_brakes_that_are_lost_are_not_off(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		struct gpu_sample *gpu;

		host_begin(&h);
		gpu = add_gpu();
		gpu->temperature_c = 60;
		gpu->throttle = i < 10 ? 0 : i < 20 ? GPU_THROTTLE_HARDWARE_THERMAL : U64_UNKNOWN;
		host_tick(&h);
	}
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 0);
	host_close(&h);
}

/* Clear, a minute in which nobody knows, clear: that is no minute of clear. */
static void test_the_unknown_breaks_what_is_clear(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		struct proc_sample *p;

		host_begin(&h);
		p = host_add(&h, 10, 1);
		p->rchar = p->minor_faults = 0;
		p->cpu_percent = i < 20	   ? 100
				 : i == 20 ? 5
				 : i < 33  ? F64_UNKNOWN
				 : i == 33 ? 5
					   : 100;
		host_tick(&h);
	}
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 0);
	host_close(&h);
}

static void test_a_process_that_one_snapshot_misses(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		host_begin(&h);
		if (i != 20 && i < 40) {
			struct proc_sample *p = host_add(&h, 10, 1);

			p->cpu_percent = 100;
			p->rchar = p->minor_faults = 0;
		}
		host_tick(&h);
		assert_int_equal(host_count(&h, EPISODE_CLEARED), i >= 42);
	}
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_true(u64_to_seconds(host_find(&h, ANOMALY_RUNAWAY_PROCESS, EPISODE_CLEARED)
					   ->e.ended_wall_ns) == 1763000000 + 200);
	host_close(&h);
}

/* ---- kills ---- */

static void test_a_pid_that_is_killed_in_two_jobs(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		host_begin(&h);
		host_add(&h, 10, 1)->job_id = "a";
		host_add(&h, 20, 1)->job_id = "b";
		if (i == 10 || i == 14)
			add_oom(7, U64_UNKNOWN, i == 10 ? "a" : "b");
		host_tick(&h);
	}
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2);
	host_close(&h);
}

/* Its event, the count of its cgroup and that of the host tell of one; the host's of another. */
static void test_a_known_kill_does_not_hide_another(void **state)
{
	(void)state;
	host_open(&h, 1);
	for (int i = 0; i < 90; i++) {
		host_begin(&h);
		add_cgroup("/job")->oom_kills = i >= 10;
		host_add(&h, 10, 1)->cgroup = "/job";
		h.snap.system.oom_kills_total = (uint64_t)(i >= 10) + (i >= 15);
		if (i == 10)
			add_oom(11, 200, "job");
		host_tick(&h);
	}
	close_all();
	assert_true(count_kills(SEVERITY_CRITICAL) == 1);
	assert_true(count_kills(SEVERITY_HIGH) == 0);
	assert_true(count_kills(SEVERITY_MEDIUM) == 1);
	host_close(&h);
}

/* The count of the host is that of the boot: nothing in between is lost. */
static void test_kills_while_nobody_looked(void **state)
{
	static const struct {
		double gap;
		bool is_unreadable;
	} cases[] = { { 90, false }, { 0, true } };

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		host_open(&h, 1);
		for (int i = 0; i < 60; i++) {
			if (i == 10)
				h.now += cases[k].gap;
			host_begin(&h);
			h.snap.system.oom_kills_total = i >= 10 ? 3 : 0;
			if (i == 10 && cases[k].is_unreadable)
				h.snap.system.oom_kills_total = U64_UNKNOWN;
			host_tick(&h);
		}
		close_all();
		assert_true(count_kills(SEVERITY_MEDIUM) == 3);
		host_close(&h);
	}
}

/* Who it was is known only when the count has told of it, and maybe when the cgroup is gone. */
static void test_an_event_that_comes_late_is_no_other_kill(void **state)
{
	(void)state;
	for (int is_gone = 0; is_gone < 2; is_gone++) {
		host_open(&h, 1);
		for (int i = 0; i < 90; i++) {
			host_begin(&h);
			if (i < 12 || !is_gone) {
				add_cgroup("/job")->oom_kills = i >= 10;
				host_add(&h, 10, 1)->cgroup = "/job";
			}
			h.snap.system.oom_kills_total = i >= 10;
			if (i == 20)
				add_oom(11, 200, "job");
			host_tick(&h);
		}
		close_all();
		assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
		assert_true(count_kills(is_gone ? SEVERITY_HIGH : SEVERITY_CRITICAL) == 1);
		if (!is_gone)
			assert_non_null(strstr(
				host_find(&h, ANOMALY_OOM_KILL, EPISODE_ESCALATED)->e.worst.text,
				"pid 11"));
		assert_int_equal(host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED)->e.count, 1);
		host_close(&h);
	}
}

/* Each is told, or counted with those that are not. */
static void test_no_kill_vanishes(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 120; i++) {
		host_begin(&h);
		host_add(&h, 10, 1);
		if (i % 10 == 2)
			add_oom(1000 + i, 200, "job");
		host_tick(&h);
	}
	close_all();
	assert_true(count_kills(SEVERITY_CRITICAL) == 12);
	assert_true(host_count(&h, EPISODE_BEGAN) < 12);
	host_close(&h);
}

/* ---- numbers ---- */

/* A GB a second, after a minute of nothing, of 6 that are there. */
static void test_the_rate_of_a_spike_is_that_of_its_growth(void **state)
{
	(void)state;
	host_open(&h, 1);
	for (int i = 0; i < 65; i++) {
		double mb = i <= 60 ? 100 : 100 + (i - 60) * 1024;
		const struct episode *e;

		host_begin(&h);
		h.snap.system.memory_available_bytes = (uint64_t)((6144 - (mb - 100)) * (double)MB);
		host_add(&h, 10, 1)->rss_anon_bytes = (uint64_t)(mb * (double)MB);
		host_tick(&h);
		e = detect_active(h.d, 0);
		if (i > 61) {
			assert_non_null(e);
			assert_int_equal(e->worst.severity, SEVERITY_CRITICAL);
		}
		if (i == 62)
			assert_true(e->seconds_to_limit > 2 && e->seconds_to_limit < 8);
	}
	host_close(&h);
}

/* What fills its cgroup in seconds is critical, however large the host is. */
static void test_a_spike_in_a_small_cgroup(void **state)
{
	(void)state;
	host_open(&h, 1);
	for (int i = 0; i < 72; i++) {
		double mb = i < 60 ? 100 : 100 + (i - 60) * 60;
		struct cgroup_sample *c;
		struct proc_sample *p;

		host_begin(&h);
		h.snap.system.memory_total_bytes = 65536 * MB;
		h.snap.system.memory_available_bytes = 60000 * MB;
		c = add_cgroup("/small");
		c->memory_max_bytes = 1024 * MB;
		c->memory_current_bytes = (uint64_t)(mb * (double)MB);
		p = host_add(&h, 10, 1);
		p->cgroup = "/small";
		p->rss_anon_bytes = c->memory_current_bytes;
		host_tick(&h);
	}
	assert_non_null(detect_active(h.d, 0));
	assert_int_equal(detect_active(h.d, 0)->worst.severity, SEVERITY_CRITICAL);
	host_close(&h);
}

static void test_files_after_it_is_over(void **state)
{
	const struct seen *over;

	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		host_begin(&h);
		host_add(&h, 10, 1)->open_fds = i >= 10 && i < 20 ? 1000 : 20;
		host_tick(&h);
	}
	over = host_find(&h, ANOMALY_FD_EXHAUSTION, EPISODE_CLEARED);
	assert_non_null(over);
	assert_true(over->e.after_value == 20);
	host_close(&h);
}

/* It began as waiting: what is left of that is told, and not what is available. */
static void test_waiting_after_it_is_over(void **state)
{
	const struct seen *over;

	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		host_begin(&h);
		h.snap.system.psi_memory.full.avg10 = i >= 10 && i < 20 ? 25 : 1;
		host_tick(&h);
	}
	over = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_CLEARED);
	assert_non_null(over);
	assert_true(over->e.before_value == 1 && over->e.peak_value == 25);
	assert_true(over->e.after_value == 1);
	host_close(&h);
}

static void test_what_was_before(void **state)
{
	const struct seen *runaway, *zombies;

	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		struct proc_sample *p;

		host_begin(&h);
		p = host_add(&h, 10, 1);
		p->cpu_percent = i < 10 ? 7 : 100;
		p->rchar = p->minor_faults = 0;
		host_add(&h, 20, 10)->state = i < 10 ? 'S' : 'Z';
		host_tick(&h);
	}
	runaway = host_find(&h, ANOMALY_RUNAWAY_PROCESS, EPISODE_BEGAN);
	zombies = host_find(&h, ANOMALY_ZOMBIE, EPISODE_BEGAN);
	assert_non_null(runaway);
	assert_non_null(zombies);
	assert_true(runaway->e.before_value == 7);
	assert_true(zombies->e.before_value == 0);
	host_close(&h);
}

/* However long it goes on. */
static void test_an_explosion_went_from_what_was_before_it(void **state)
{
	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 40; i++) {
		host_begin(&h);
		for (int k = 0; k < (i < 10 ? 2 : 200 + (i - 10) * 40); k++)
			host_add(&h, 1000 + k, 1);
		host_tick(&h);
	}
	assert_non_null(detect_active(h.d, 0));
	assert_non_null(strstr(detect_active(h.d, 0)->worst.text, "from 2 to 1360"));
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_that_nobody_sees_may_move),
		cmocka_unit_test(test_pressure_that_is_lost_is_not_over),
		cmocka_unit_test(test_brakes_that_are_lost_are_not_off),
		cmocka_unit_test(test_the_unknown_breaks_what_is_clear),
		cmocka_unit_test(test_a_process_that_one_snapshot_misses),
		cmocka_unit_test(test_a_pid_that_is_killed_in_two_jobs),
		cmocka_unit_test(test_a_known_kill_does_not_hide_another),
		cmocka_unit_test(test_kills_while_nobody_looked),
		cmocka_unit_test(test_an_event_that_comes_late_is_no_other_kill),
		cmocka_unit_test(test_no_kill_vanishes),
		cmocka_unit_test(test_the_rate_of_a_spike_is_that_of_its_growth),
		cmocka_unit_test(test_a_spike_in_a_small_cgroup),
		cmocka_unit_test(test_files_after_it_is_over),
		cmocka_unit_test(test_waiting_after_it_is_over),
		cmocka_unit_test(test_what_was_before),
		cmocka_unit_test(test_an_explosion_went_from_what_was_before_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
