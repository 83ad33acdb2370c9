/* Kills for want of memory, and cgroups that are short of it. */
#include "detect_scenes.h"

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

/* The kernel takes its time to take the memory of one that it has killed. */
static void dying(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->fd_limit = 100;
	p->open_fds = t < 65 ? 10 : 99;
	if (t == 60)
		h->events[h->n_events++] =
			(struct proc_event){ .type = EVENT_OOM, .key = p->key, .job_id = "job" };
}

static void test_nothing_begins_after_a_kill(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 80, dying);
	begin_of(&h, ANOMALY_OOM_KILL, 60);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1);
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
	assert_int_equal(s->e.worst.sheet_num, SHEET_NONE);
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
	assert_int_equal(s->e.worst.sheet_num, 2);	    /* that it was in */
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 2); /* and the pressure, not the host's */
	host_close(&h);
}

/* The next sheet has begun by the look that shows the count. */
static void kill_before_the_next_sheet(struct host *h, double t)
{
	kill_unseen(h, t);
	for (size_t i = 0; t >= 60 && i < h->snap.n_processes; i++)
		h->snap.processes[i].sheet_num = 3;
}

static void test_the_sheet_of_a_kill_by_count(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 100, kill_before_the_next_sheet);
	assert_int_equal(begin_of(&h, ANOMALY_OOM_KILL, 60)->e.worst.sheet_num, 2);
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
	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	host_keep(&h, &changes);
	assert_int_equal(begin_of(&h, ANOMALY_OOM_KILL, 60)->e.worst.severity, SEVERITY_HIGH);
	assert_non_null(host_find(&h, ANOMALY_OOM_KILL, EPISODE_CLEARED));
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_oom),
		cmocka_unit_test(test_nothing_begins_after_a_kill),
		cmocka_unit_test(test_oom_by_count),
		cmocka_unit_test(test_the_sheet_of_a_kill_by_count),
		cmocka_unit_test(test_a_kill_of_others_in_its_cgroup),
		cmocka_unit_test(test_a_kill_in_a_cgroup_of_two_jobs),
		cmocka_unit_test(test_a_kill_of_who_was_never_seen),
		cmocka_unit_test(test_a_cgroup_under_pressure),
		cmocka_unit_test(test_how_full_a_cgroup_may_be),
		cmocka_unit_test(test_one_kill_is_one_episode),
		cmocka_unit_test(test_a_kill_in_a_cgroup_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
