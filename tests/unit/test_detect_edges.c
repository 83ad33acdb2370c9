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

static void add_oom_now(pid_t pid)
{
	add_oom(pid, 200, "job");
	h.events[h.n_events - 1].wall_ns = h.snap.wall_ns;
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

	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	host_keep(&h, &changes);
}

/* So many ticks; the scene says what is to be seen at the i-th. The host is closed with the test.
 */
static void play(double step, int n, void (*scene)(int i))
{
	host_open(&h, step);
	for (int i = 0; i < n; i++) {
		host_begin(&h);
		scene(i);
		host_tick(&h);
	}
}

static int close_host(void **state)
{
	(void)state;
	host_close(&h);
	return 0;
}

/* ---- unknown is neither clear nor none ---- */

static void bytes_that_nobody_sees_may_move(int i)
{
	struct proc_sample *p = host_add(&h, 10, 1);
	p->state = 'D';
	p->rchar = p->wchar = p->read_bytes = p->write_bytes = U64_UNKNOWN;
	(void)i;
}

static void test_bytes_that_nobody_sees_may_move(void **state)
{
	(void)state;
	play(5, 80, bytes_that_nobody_sees_may_move);
	assert_int_equal(h.n_seen, 0);
}

static void pressure_that_is_lost_is_not_over(int i)
{
	h.snap.system.memory_available_bytes = 2048 * MB;
	h.snap.system.psi_memory.full.avg10 = i < 10 ? 0 : i < 20 ? 50 : F64_UNKNOWN;
}

static void test_pressure_that_is_lost_is_not_over(void **state)
{
	(void)state;
	play(5, 60, pressure_that_is_lost_is_not_over);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 0);
}

static void brakes_that_are_lost_are_not_off(int i)
{
	struct gpu_sample *gpu = add_gpu();
	gpu->temperature_c = 60;
	gpu->throttle = i < 10 ? 0 : i < 20 ? GPU_THROTTLE_HARDWARE_THERMAL : U64_UNKNOWN;
}

static void test_brakes_that_are_lost_are_not_off(void **state)
{
	(void)state;
	play(5, 60, brakes_that_are_lost_are_not_off);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 0);
}

/* Clear, a minute in which nobody knows, clear: that is no minute of clear. */
static void the_unknown_breaks_what_is_clear(int i)
{
	struct proc_sample *p = host_add(&h, 10, 1);
	p->rchar = p->minor_faults = 0;
	p->cpu_percent = i < 20 ? 100 : i == 20 ? 5 : i < 33 ? F64_UNKNOWN : i == 33 ? 5 : 100;
}

static void test_the_unknown_breaks_what_is_clear(void **state)
{
	(void)state;
	play(5, 60, the_unknown_breaks_what_is_clear);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 0);
}

static void a_process_that_one_snapshot_misses(int i)
{
	struct proc_sample *p = i != 20 && i < 40 ? host_add(&h, 10, 1) : NULL;

	if (!p)
		return;
	p->cpu_percent = 100;
	p->rchar = p->minor_faults = 0;
}

static void test_a_process_that_one_snapshot_misses(void **state)
{
	const struct seen *over;

	(void)state;
	play(5, 60, a_process_that_one_snapshot_misses);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_int_equal(host_count(&h, EPISODE_CLEARED), 1);
	over = host_find(&h, ANOMALY_RUNAWAY_PROCESS, EPISODE_CLEARED);
	assert_true(over->at == 210); /* two ticks after the first without it */
	assert_true(u64_to_seconds(over->e.ended_wall_ns) == 1763000000 + 200);
}

/* Its job was over before any tick has shown it. */
static void left_by_a_short_job(int i)
{
	host_add(&h, 10, 1)->job_id = NULL;
	host_add(&h, 11, 1)->job_id = NULL; /* of no job, ever */
	if (i == 1)
		h.events[h.n_events++] = (struct proc_event){ .type = EVENT_ORPHAN,
							      .key = { 10, 100 },
							      .job_id = "short",
							      .sheet_num = 3,
							      .wall_ns = h.snap.wall_ns };
}

static void test_an_orphan_of_a_job_that_no_tick_has_seen(void **state)
{
	const struct seen *s;

	(void)state;
	play(5, 20, left_by_a_short_job);
	assert_int_equal(h.n_seen, 1);
	s = host_find(&h, ANOMALY_ORPHAN, EPISODE_BEGAN);
	assert_non_null(s);
	assert_int_equal(s->e.worst.pid, 10);
	assert_string_equal(s->e.worst.job_id, "short");
	assert_int_equal(s->e.worst.sheet_num, 3);
	assert_true(s->at == 35);
}

/* ---- kills ---- */

static void a_pid_that_is_killed_in_two_jobs(int i)
{
	host_add(&h, 10, 1)->job_id = "a";
	host_add(&h, 20, 1)->job_id = "b";
	if (i == 10 || i == 14)
		add_oom(7, U64_UNKNOWN, i == 10 ? "a" : "b");
}

static void test_a_pid_that_is_killed_in_two_jobs(void **state)
{
	(void)state;
	play(5, 60, a_pid_that_is_killed_in_two_jobs);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2);
}

/* Its event, the count of its cgroup and that of the host tell of one; the host's of another. */
static void a_known_kill_does_not_hide_another(int i)
{
	add_cgroup("/job")->oom_kills = i >= 10;
	host_add(&h, 10, 1)->cgroup = "/job";
	h.snap.system.oom_kills_total = (uint64_t)(i >= 10) + (i >= 15);
	if (i == 10)
		add_oom(11, 200, "job");
}

static void test_a_known_kill_does_not_hide_another(void **state)
{
	(void)state;
	play(1, 90, a_known_kill_does_not_hide_another);
	close_all();
	assert_true(count_kills(SEVERITY_CRITICAL) == 1);
	assert_true(count_kills(SEVERITY_HIGH) == 0);
	assert_true(count_kills(SEVERITY_MEDIUM) == 1);
}

static void kills_in_a_gap(int i)
{
	h.snap.system.oom_kills_total = i >= 10 ? 3 : 0;
	if (i == 9)
		h.now += 90; /* until the next look */
}

static void kills_that_cannot_be_read(int i)
{
	h.snap.system.oom_kills_total = i > 10 ? 3 : i == 10 ? U64_UNKNOWN : 0;
}

/* The count of the host is that of the boot: nothing in between is lost. */
static void test_kills_while_nobody_looked(void **state)
{
	(void)state;
	play(1, 60, kills_in_a_gap);
	close_all();
	assert_true(count_kills(SEVERITY_MEDIUM) == 3);
	host_close(&h);
	play(1, 60, kills_that_cannot_be_read);
	close_all();
	assert_true(count_kills(SEVERITY_MEDIUM) == 3);
}

static void an_event_that_comes_late(int i)
{
	add_cgroup("/job")->oom_kills = i >= 10;
	host_add(&h, 10, 1)->cgroup = "/job";
	if (i < 10)
		host_add(&h, 11, 10)->key.start_ticks = 200;
	h.snap.system.oom_kills_total = i >= 10;
	if (i == 20)
		add_oom(11, 200, "job");
}

/* Who it was is known only when the count has told of it. */
static void test_an_event_that_comes_late_is_no_other_kill(void **state)
{
	const struct seen *worse;

	(void)state;
	play(1, 90, an_event_that_comes_late);
	close_all();
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	worse = host_find(&h, ANOMALY_OOM_KILL, EPISODE_ESCALATED);
	if (!worse) {
		fail_msg("nobody says who it was");
		return;
	}
	assert_non_null(strstr(worse->e.worst.text, "pid 11"));
	assert_int_equal(worse->e.worst.severity, SEVERITY_CRITICAL);
	assert_int_equal(worse->e.count, 1);
}

static void an_event_of_who_was_not_seen(int i)
{
	an_event_that_comes_late(i);
	if (i < 10)
		h.snap.n_processes--;
}

/* The count told of nobody; it was the job's after all, and is not lost. */
static void test_an_event_of_who_was_not_seen(void **state)
{
	(void)state;
	play(1, 90, an_event_of_who_was_not_seen);
	close_all();
	assert_true(count_kills(SEVERITY_MEDIUM) == 1);
	assert_true(count_kills(SEVERITY_CRITICAL) == 1);
}

static void an_event_after_the_cgroup(int i)
{
	an_event_that_comes_late(i);
	if (i < 12)
		return;
	h.snap.n_cgroups = 0;
	h.snap.n_processes = 0;
}

static void test_an_event_that_comes_when_its_cgroup_is_gone(void **state)
{
	(void)state;
	play(1, 90, an_event_after_the_cgroup);
	close_all();
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_true(count_kills(SEVERITY_HIGH) == 1);
}

/* A worker, of which only the count tells; and then the first process, with which all ends. */
static void a_kill_after_a_kill(int i)
{
	add_cgroup("/job")->oom_kills = i >= 40 ? 2 : i >= 10;
	h.snap.system.oom_kills_total = i >= 40 ? 2 : i >= 10;
	host_add(&h, 10, 1)->cgroup = "/job";
	if (i < 10)
		host_add(&h, 12, 10);
	if (i == 40)
		add_oom_now(11);
	if (i < 40)
		return;
	h.snap.n_cgroups = 0;
	h.snap.n_processes = 0;
}

static void test_a_kill_after_one_that_was_told_is_another(void **state)
{
	(void)state;
	play(1, 90, a_kill_after_a_kill);
	close_all();
	assert_true(count_kills(SEVERITY_HIGH) == 1);
	assert_true(count_kills(SEVERITY_CRITICAL) == 1);
}

/* Four were of another run, which has told of them. */
static void test_kills_that_others_tell(void **state)
{
	struct detect_news news = { .snap = &h.snap };
	struct detect_changes changes;

	(void)state;
	host_open(&h, 1);
	for (int i = 0; i < 90; i++) {
		host_begin(&h);
		add_cgroup("/job")->oom_kills = i >= 10 ? 4 : 0;
		host_add(&h, 10, 1)->cgroup = "/job";
		h.snap.system.oom_kills_total = i >= 10 ? 5 : 0;
		news.n_kills_elsewhere = i == 11 ? 4 : 0;
		assert_int_equal(detect_tick(h.d, &news, &changes), 0);
		host_keep(&h, &changes);
		h.now += h.step;
	}
	close_all();
	assert_true(count_kills(SEVERITY_HIGH) == 0);
	assert_true(count_kills(SEVERITY_MEDIUM) == 1);
}

/* Two, and then one more while the first are still told of. */
static void more_kills_of_a_cgroup(int i)
{
	add_cgroup("/job")->oom_kills = i >= 20 ? 3 : i >= 10 ? 2 : 0;
	host_add(&h, 10, 1)->cgroup = "/job";
	for (int k = i < 10 ? 3 : i < 20 ? 1 : 0; k > 0; k--)
		host_add(&h, 10 + k, 10)->cgroup = "/job";
}

static void test_more_kills_of_a_cgroup(void **state)
{
	(void)state;
	play(1, 60, more_kills_of_a_cgroup);
	close_all();
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
	assert_true(count_kills(SEVERITY_HIGH) == 3);
	assert_non_null(strstr(h.seen[h.n_seen - 1].e.worst.text, "killed 3 processes"));
	assert_int_equal(h.seen[h.n_seen - 1].e.count, 3);
}

/* The kernel says how much it had when it was killed: what a look saw before is not said, too. */
static void a_kill_with_its_size(int i)
{
	host_add(&h, 10, 1);
	if (i < 10)
		host_add(&h, 11, 10)->key.start_ticks = 200;
	if (i != 10)
		return;
	add_oom_now(11);
	h.events[0].details = EVENT_OOM_WORDS ": it held 99 MB";
}

static void test_a_kill_with_its_size(void **state)
{
	const struct seen *s;

	(void)state;
	play(1, 20, a_kill_with_its_size);
	s = host_find(&h, ANOMALY_OOM_KILL, EPISODE_BEGAN);
	assert_non_null(s);
	assert_string_equal(s->e.worst.text,
			    "the kernel killed worker (pid 11) for want of memory: it held 99 MB");
}

/* The last look has shown it dying, when most of its memory was gone. */
static void a_kill_of_who_was_seen_dying(int i)
{
	struct proc_sample *p;

	host_add(&h, 10, 1);
	if (i < 11) {
		p = host_add(&h, 11, 10);
		p->key.start_ticks = 200;
		p->rss_anon_bytes = (i < 10 ? 62 : 4) * MB;
	}
	if (i == 11)
		add_oom_now(11);
}

static void test_a_kill_of_who_was_seen_dying(void **state)
{
	const struct seen *s;

	(void)state;
	play(1, 20, a_kill_of_who_was_seen_dying);
	s = host_find(&h, ANOMALY_OOM_KILL, EPISODE_BEGAN);
	assert_non_null(s);
	assert_non_null(strstr(s->e.worst.text, "worker (pid 11), which had up to 62 MB, for"));
}

/* Each is told, or counted with those that are not. */
static void no_kill_vanishes(int i)
{
	host_add(&h, 10, 1);
	if (i % 10 == 2)
		add_oom(1000 + i, 200, "job");
}

static void test_no_kill_vanishes(void **state)
{
	(void)state;
	play(5, 120, no_kill_vanishes);
	close_all();
	assert_true(count_kills(SEVERITY_CRITICAL) == 12);
	assert_true(host_count(&h, EPISODE_BEGAN) < 12);
}

/* ---- numbers ---- */

/* A GB a second, after a minute of nothing, of 6 that are there. */
static void the_rate_of_a_spike(int i)
{
	double mb = i <= 60 ? 100 : 100 + (i - 60) * 1024;

	h.snap.system.memory_available_bytes = (uint64_t)((6144 - (mb - 100)) * (double)MB);
	host_add(&h, 10, 1)->rss_anon_bytes = (uint64_t)(mb * (double)MB);
}

static void test_the_rate_of_a_spike_is_that_of_its_growth(void **state)
{
	const struct seen *s;

	(void)state;
	play(1, 65, the_rate_of_a_spike);
	s = host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_BEGAN);
	assert_non_null(s);
	assert_true(s->at <= 62);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	s = host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_ESCALATED); /* it goes on */
	assert_non_null(s);
	assert_true(s->at <= 63);
	assert_int_equal(s->e.worst.severity, SEVERITY_CRITICAL);
	assert_true(s->e.seconds_to_limit > 2 && s->e.seconds_to_limit < 8);
}

/* What fills its cgroup in seconds is critical, however large the host is. */
static void a_spike_in_a_small_cgroup(int i)
{
	double mb = i < 60 ? 100 : 100 + (i - 60) * 60;
	struct cgroup_sample *c = add_cgroup("/small");
	struct proc_sample *p = host_add(&h, 10, 1);

	h.snap.system.memory_total_bytes = 65536 * MB;
	h.snap.system.memory_available_bytes = 60000 * MB;
	c->memory_max_bytes = 1024 * MB;
	c->memory_current_bytes = (uint64_t)(mb * (double)MB);
	p->cgroup = "/small";
	p->rss_anon_bytes = c->memory_current_bytes;
}

static void test_a_spike_in_a_small_cgroup(void **state)
{
	(void)state;
	play(1, 72, a_spike_in_a_small_cgroup);
	assert_non_null(detect_active(h.d, 0));
	assert_int_equal(detect_active(h.d, 0)->worst.severity, SEVERITY_CRITICAL);
}

/* Jobs of its kind take more than that elsewhere: that does not make it fit. */
static void a_usual_spike_in_a_small_cgroup(int i)
{
	a_spike_in_a_small_cgroup(i);
	h.usual = (struct detect_usual){ .job_id = "job",
					 .cpu_percent = F64_UNKNOWN,
					 .wall_seconds = F64_UNKNOWN,
					 .cpu_seconds = F64_UNKNOWN,
					 .rss_bytes = 1800 * MB };
}

static void test_a_usual_spike_in_a_small_cgroup(void **state)
{
	(void)state;
	play(1, 76, a_usual_spike_in_a_small_cgroup);
	assert_non_null(host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_BEGAN));
}

static void files_after_it_is_over(int i)
{
	host_add(&h, 10, 1)->open_fds = i >= 10 && i < 20 ? 1000 : 20;
}

static void test_files_after_it_is_over(void **state)
{
	const struct seen *over;

	(void)state;
	play(5, 60, files_after_it_is_over);
	over = host_find(&h, ANOMALY_FD_EXHAUSTION, EPISODE_CLEARED);
	assert_non_null(over);
	assert_true(over->e.after_value == 20);
}

/* It began as waiting: what is left of that is told, and not what is available. */
static void waiting_after_it_is_over(int i)
{
	h.snap.system.memory_available_bytes = 2048 * MB;
	h.snap.system.psi_memory.full.avg10 = i >= 10 && i < 20 ? 25 : 1;
}

static void test_waiting_after_it_is_over(void **state)
{
	const struct seen *over;

	(void)state;
	play(5, 60, waiting_after_it_is_over);
	over = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_CLEARED);
	assert_non_null(over);
	assert_true(over->e.before_value == 1 && over->e.peak_value == 25);
	assert_true(over->e.after_value == 1);
}

static void what_was_before(int i)
{
	struct proc_sample *p = host_add(&h, 10, 1);
	p->cpu_percent = i < 10 ? 7 : 100;
	p->rchar = p->minor_faults = 0;
	host_add(&h, 20, 10)->state = i < 10 ? 'S' : 'Z';
}

static void test_what_was_before(void **state)
{
	const struct seen *runaway, *zombies;

	(void)state;
	play(5, 60, what_was_before);
	runaway = host_find(&h, ANOMALY_RUNAWAY_PROCESS, EPISODE_BEGAN);
	zombies = host_find(&h, ANOMALY_ZOMBIE, EPISODE_BEGAN);
	assert_non_null(runaway);
	assert_non_null(zombies);
	assert_true(runaway->e.before_value == 7);
	assert_true(zombies->e.before_value == 0);
}

/* However long it goes on. */
static void an_explosion_went_from_what_was_before_it(int i)
{
	for (int k = 0; k < (i < 10 ? 2 : 200 + (i - 10) * 40); k++)
		host_add(&h, 1000 + k, 1);
}

static void test_an_explosion_went_from_what_was_before_it(void **state)
{
	(void)state;
	play(5, 40, an_explosion_went_from_what_was_before_it);
	assert_non_null(detect_active(h.d, 0));
	assert_non_null(strstr(detect_active(h.d, 0)->worst.text, "from 2 to 1360"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_bytes_that_nobody_sees_may_move, close_host),
		cmocka_unit_test_teardown(test_pressure_that_is_lost_is_not_over, close_host),
		cmocka_unit_test_teardown(test_brakes_that_are_lost_are_not_off, close_host),
		cmocka_unit_test_teardown(test_the_unknown_breaks_what_is_clear, close_host),
		cmocka_unit_test_teardown(test_a_process_that_one_snapshot_misses, close_host),
		cmocka_unit_test_teardown(test_an_orphan_of_a_job_that_no_tick_has_seen,
					  close_host),
		cmocka_unit_test_teardown(test_a_pid_that_is_killed_in_two_jobs, close_host),
		cmocka_unit_test_teardown(test_a_known_kill_does_not_hide_another, close_host),
		cmocka_unit_test_teardown(test_kills_while_nobody_looked, close_host),
		cmocka_unit_test_teardown(test_a_kill_after_one_that_was_told_is_another,
					  close_host),
		cmocka_unit_test_teardown(test_an_event_that_comes_late_is_no_other_kill,
					  close_host),
		cmocka_unit_test_teardown(test_an_event_that_comes_when_its_cgroup_is_gone,
					  close_host),
		cmocka_unit_test_teardown(test_an_event_of_who_was_not_seen, close_host),
		cmocka_unit_test_teardown(test_kills_that_others_tell, close_host),
		cmocka_unit_test_teardown(test_more_kills_of_a_cgroup, close_host),
		cmocka_unit_test_teardown(test_a_kill_with_its_size, close_host),
		cmocka_unit_test_teardown(test_a_kill_of_who_was_seen_dying, close_host),
		cmocka_unit_test_teardown(test_no_kill_vanishes, close_host),
		cmocka_unit_test_teardown(test_the_rate_of_a_spike_is_that_of_its_growth,
					  close_host),
		cmocka_unit_test_teardown(test_a_spike_in_a_small_cgroup, close_host),
		cmocka_unit_test_teardown(test_a_usual_spike_in_a_small_cgroup, close_host),
		cmocka_unit_test_teardown(test_files_after_it_is_over, close_host),
		cmocka_unit_test_teardown(test_waiting_after_it_is_over, close_host),
		cmocka_unit_test_teardown(test_what_was_before, close_host),
		cmocka_unit_test_teardown(test_an_explosion_went_from_what_was_before_it,
					  close_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
