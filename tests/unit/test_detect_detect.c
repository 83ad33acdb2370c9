/*
 * Episodes: told when they begin, get worse and are over, and not at every tick; of one process
 * each; with what belongs to them.
 */
#include "detect_fixture.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>

static struct proc_sample *busy(struct host *h, pid_t pid)
{
	struct proc_sample *p = host_add(h, pid, 1);

	p->cpu_percent = 100;
	p->rchar = 0;
	p->minor_faults = 0;
	return p;
}

/* Two minutes busy, so many seconds not, for an hour. */
static void flap(struct host *h, double pause)
{
	host_open(h, 5);
	while (h->now < 3600) {
		host_begin(h);
		busy(h, 10)->cpu_percent = fmod(h->now, 120 + pause) < 120 ? 100 : 5;
		host_tick(h);
	}
}

static void test_an_hour_of_flapping_is_a_handful(void **state)
{
	static const double pauses[] = { 5, 60, 120, 300 };
	struct host h;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
		flap(&h, pauses[i]);
		print_message("# pause of %3.0f s: %zu events, count %llu\n", pauses[i], h.n_seen,
			      (unsigned long long)detect_active(h.d, 0)->count);
		assert_true(h.n_seen >= 1 && h.n_seen <= 9);
		if (i == 0) /* it has used more than nine tenths of a core in each minute */
			assert_int_equal(detect_active(h.d, 0)->count, 1);
		else
			assert_true(detect_active(h.d, 0)->count >= 3 || pauses[i] >= 300);
		host_close(&h);
	}
}

/* Each of many short processes has the same fault. */
static void test_many_of_one_job_are_counted(void **state)
{
	struct host h;
	const struct episode *last;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 40; tick++) {
		host_begin(&h);
		for (pid_t pid = 10; pid < 110; pid++) {
			struct proc_sample *p = busy(&h, pid);

			snprintf(p->comm, sizeof(p->comm), "c%d", (int)pid); /* none like it */
		}
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 5);
	last = &h.seen[4].e;
	assert_int_equal(last->worst.type, ANOMALY_RUNAWAY_PROCESS);
	assert_int_equal(detect_active(h.d, 4)->count, 96);
	assert_non_null(
		strstr(detect_active(h.d, 4)->worst.text, "; and 95 more processes of the job"));
	assert_null(strstr(detect_active(h.d, 3)->worst.text, " more process"));
	assert_null(detect_active(h.d, 5));
	host_close(&h);
}

/* One that is counted with others gets worse, and is told by itself: it is not one of them then. */
static void test_each_is_counted_once(void **state)
{
	struct host h;
	uint64_t n = 0;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 4; tick++) {
		host_begin(&h);
		for (pid_t pid = 10; pid < 17; pid++) {
			struct proc_sample *p = host_add(&h, pid, 1);

			p->fd_limit = 100;
			p->open_fds = tick >= 2 && pid == 16 ? 99 : 92;
		}
		host_tick(&h);
		if (tick == 1)
			assert_non_null(strstr(detect_active(h.d, 4)->worst.text,
					       "; and 2 more processes of the job"));
	}
	for (size_t i = 0; detect_active(h.d, i); i++)
		n += detect_active(h.d, i)->count;
	assert_int_equal(n, 7);
	assert_int_equal(detect_active(h.d, 5)->worst.pid, 16);
	assert_non_null(
		strstr(detect_active(h.d, 4)->worst.text, "; and 1 more process of the job"));
	host_close(&h);
}

static void test_a_pid_that_is_used_again_is_another_process(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 40; tick++) {
		host_begin(&h);
		busy(&h, 10)->key.start_ticks = (uint64_t)(100 + tick / 10);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0); /* none for a minute, though the pid is for three */
	host_close(&h);
}

static void test_a_successor_does_not_inherit(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 22; tick++) {
		host_begin(&h);
		busy(&h, 10)->key.start_ticks = tick < 20 ? 100 : 900;
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 2);
	assert_int_equal(h.seen[1].change, EPISODE_CLEARED);
	assert_true(h.seen[1].at == 100);
	assert_string_equal(h.seen[1].e.why_cleared, "the process ended");
	assert_int_equal(h.seen[1].e.worst.start_ticks, 100);
	assert_null(detect_active(h.d, 0));
	host_close(&h);
}

/* Nothing is known but that it is there. */
static void test_unknown_is_silent(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 300; tick++) {
		struct proc_sample *p;

		host_begin(&h);
		h.snap.system.memory_total_bytes = U64_UNKNOWN;
		h.snap.system.memory_available_bytes = U64_UNKNOWN;
		for (pid_t pid = 10; pid < 13; pid++) {
			p = snapshot_add_process(&h.snap);
			assert_non_null(p);
			p->key = (struct proc_key){ pid, pid == 12 ? U64_UNKNOWN : 1 };
			p->job_id = "job";
		}
		p->cpu_percent = 100; /* of one whose start nobody knows */
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0);
	host_close(&h);
}

static void test_a_value_that_is_lost_does_not_clear(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 60; tick++) {
		host_begin(&h);
		busy(&h, 10)->cpu_percent = tick < 30 ? 100 : F64_UNKNOWN;
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 1);
	assert_non_null(detect_active(h.d, 0));
	host_close(&h);
}

static void test_a_reboot_forgets(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 40; tick++) {
		host_begin(&h);
		if (tick >= 20) {
			snprintf(h.snap.boot_id, sizeof(h.snap.boot_id), "another");
			h.snap.boot_ns -= UINT64_C(900000000000);
		}
		busy(&h, 10);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 3);
	assert_string_equal(h.seen[1].e.why_cleared, "the host was booted");
	assert_true(h.seen[2].at >= 160);
	host_close(&h);
}

/* The host sleeps for hours: nobody stood still, ran away or grew in that time. */
static void test_a_gap_is_not_counted(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 30; tick++) {
		if (tick == 10)
			h.now += 8 * 3600;
		host_begin(&h);
		busy(&h, 10)->rss_anon_bytes = (tick < 10 ? 100 : 4000) * MB;
		host_add(&h, 11, 1)->state = 'T';
		host_tick(&h);
		if (tick < 20)
			assert_int_equal(h.n_seen, 0);
	}
	assert_non_null(host_find(&h, ANOMALY_RUNAWAY_PROCESS, EPISODE_BEGAN)); /* a minute later */
	assert_null(host_find(&h, ANOMALY_STUCK_PROCESS, EPISODE_BEGAN));
	assert_null(host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_BEGAN));
	host_close(&h);
}

/* A recording that has only the wall clock, which somebody sets back by a day. */
static void test_a_clock_that_is_set_back(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 60; tick++) {
		host_begin(&h);
		h.snap.boot_ns = U64_UNKNOWN;
		if (tick >= 30)
			h.snap.wall_ns -= UINT64_C(86400000000000);
		busy(&h, 10);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 3);
	assert_string_equal(h.seen[1].e.why_cleared, "the clock was set back");
	assert_true(h.seen[2].at >= 150 + 60 && h.seen[2].at <= 150 + 65);
	host_close(&h);
}

/* So many are told already, and then one is worse than all of them. */
static void test_the_worst_is_always_told(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	h.config.anomaly.zombie_duration_seconds = 5;
	detect_configure(h.d, &h.config.anomaly);
	for (int tick = 0; tick < 20; tick++) {
		host_begin(&h);
		for (pid_t pid = 10; pid < 20; pid++)
			host_add(&h, pid, 1);
		for (pid_t pid = 10; pid < 20; pid++)
			host_add(&h, pid + 100, pid)->state = 'Z';
		for (pid_t pid = 1000; tick >= 5 && pid < 1150; pid++)
			host_add(&h, pid, 19)->state = 'Z';
		host_tick(&h);
	}
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 6);
	assert_int_equal(h.seen[5].e.worst.pid, 19);
	assert_int_equal(h.seen[5].e.worst.severity, SEVERITY_HIGH);
	host_close(&h);
}

/* Where most of the memory is available, they wait at the limit of their cgroup. */
static void test_waiting_for_plenty(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 30; tick++) {
		host_begin(&h);
		h.snap.system.psi_memory.full.avg10 = 50;
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0);
	host_close(&h);
}

/* By what it was found its numbers are told, before and after. */
static void test_numbers_of_pressure(void **state)
{
	const struct seen *s;
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 60; tick++) {
		host_begin(&h);
		h.snap.system.psi_memory.full.avg10 = tick >= 10 && tick < 20 ? 25 : 1;
		h.snap.system.memory_available_bytes = 2048 * MB;
		if (tick >= 15 && tick < 20)
			h.snap.system.memory_available_bytes = 100 * MB;
		host_tick(&h);
	}
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_BEGAN);
	assert_string_equal(s->e.unit, "percent of the time waiting");
	assert_true(s->e.worst.metric_value == 25 && s->e.worst.threshold == 10);
	assert_true(s->e.before_value == 1 && s->e.first_value == 25);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_ESCALATED);
	assert_string_equal(s->e.unit, "percent available");
	assert_true(s->e.peak_value < 2 && s->e.before_value == 25);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_CLEARED);
	assert_true(s->e.after_value == 25);
	host_close(&h);
}

static void test_the_end_of_a_job_ends_its_episodes(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 5; tick++) {
		host_begin(&h);
		for (pid_t pid = 10; pid < (tick == 0 ? 12 : tick < 4 ? 400 : 10); pid++)
			host_add(&h, pid, 1);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 2);
	assert_int_equal(h.seen[0].e.worst.type, ANOMALY_PROCESS_EXPLOSION);
	assert_string_equal(h.seen[1].e.why_cleared, "the job ended");
	host_close(&h);
}

static void test_who_stops_looking_ends_all(void **state)
{
	struct detect_changes changes;
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 20; tick++) {
		host_begin(&h);
		busy(&h, 10);
		host_tick(&h);
	}
	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	assert_int_equal(changes.n, 1);
	assert_int_equal(changes.items[0].change, EPISODE_CLEARED);
	assert_int_equal(changes.items[0].episode->ended_wall_ns, h.snap.wall_ns);
	assert_int_equal(detect_end_job(h.d, NULL, &changes), 0);
	assert_int_equal(changes.n, 0);
	host_close(&h);
}

static void test_other_thresholds(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	h.config.anomaly.runaway_duration_seconds = 20;
	detect_configure(h.d, &h.config.anomaly);
	for (int tick = 0; tick < 8; tick++) {
		host_begin(&h);
		busy(&h, 10);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 1);
	assert_true(h.seen[0].at == 20);
	host_close(&h);
}

/* What scope leaves out is not looked at. */
static void test_scope(void **state)
{
	struct detect_changes changes;
	struct host h;
	size_t n = 0;

	(void)state;
	host_open(&h, 5);
	detect_free(h.d);
	h.d = detect_new(&h.config.anomaly, DETECT_HOST);
	for (int tick = 0; tick < 30; tick++) {
		const struct detect_news news = { .snap = &h.snap };

		host_begin(&h);
		busy(&h, 10);
		h.snap.system.memory_available_bytes = 100 * MB;
		assert_int_equal(detect_tick(h.d, &news, &changes), 0);
		n += changes.n;
		h.now += 5;
	}
	assert_int_equal(n, 1);
	assert_int_equal(detect_active(h.d, 0)->worst.type, ANOMALY_MEMORY_PRESSURE);
	host_close(&h);
}

/* For a while somebody else tells of the host: kills of that time are no news afterwards. */
static void test_another_scope(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 60; tick++) {
		bool is_left = tick >= 10 && tick < 40;

		detect_set_scope(h.d, is_left ? DETECT_JOBS : DETECT_ALL);
		host_begin(&h);
		host_add(&h, 10, 1);
		h.snap.system.memory_available_bytes = (is_left ? 100 : 6144) * MB;
		h.snap.system.oom_kills_total = tick < 20 ? 3 : 5;
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0);
	host_close(&h);
}

/* Thousands come and go: what they leave behind is nothing. */
static void test_what_is_gone_is_forgotten(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	for (int tick = 0; tick < 300; tick++) {
		char job[16];

		host_begin(&h);
		snprintf(job, sizeof(job), "job%d", tick);
		for (int i = 0; i < 100; i++)
			host_add(&h, 1000 + tick * 50 + i, 1)->job_id =
				arena_strdup(&h.snap.arena, job);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 0);
	assert_int_equal(detect_count_left_out(h.d), 0);
	host_close(&h); /* the sanitizers look for the rest */
}

/* ---- what an episode carries ---- */

static void test_what_the_host_was_doing(void **state)
{
	struct host h;
	const struct episode *e;

	(void)state;
	host_open(&h, 5);
	for (int tick = 0; tick < 20; tick++) {
		host_begin(&h);
		h.snap.system.load1 = 3.5;
		for (pid_t pid = 20; pid < 25; pid++) {
			struct proc_sample *p = host_add(&h, pid, 1);

			p->cpu_percent = pid;
			p->rss_bytes = (uint64_t)(1000 - pid) * MB;
			p->job_id = pid == 24 ? NULL : "other";
		}
		busy(&h, 10);
		host_tick(&h);
	}
	assert_int_equal(h.n_seen, 1);
	e = &h.seen[0].e;
	assert_true(e->host.load1 == 3.5);
	assert_int_equal(e->host.memory_available_bytes, 6144 * MB);
	assert_int_equal(e->host.n_top_cpu, 3);
	assert_int_equal(e->host.top_cpu[0].key.pid, 10);
	assert_int_equal(e->host.top_cpu[1].key.pid, 24);
	assert_int_equal(e->host.top_cpu[2].key.pid, 23);
	assert_string_equal(e->host.top_cpu[1].job_id, "");
	assert_int_equal(e->host.top_rss[0].key.pid, 20);
	assert_int_equal(e->began_wall_ns - e->full_from_wall_ns, 60000000000);
	assert_int_equal(e->full_until_wall_ns - e->began_wall_ns, 10000000000);
	host_close(&h);
}

/* Who has the most memory nobody knows where that of some is unknown; of a zombie there is none. */
static void test_memory_of_others_is_unknown(void **state)
{
	static struct host h;
	struct anomaly_host host;

	(void)state;
	host_open(&h, 5);
	host_begin(&h);
	host_add(&h, 10, 1);
	host_add(&h, 11, 1)->state = 'Z';
	h.snap.processes[1].rss_bytes = U64_UNKNOWN;
	detect_describe_host(&h.snap, &host);
	assert_true(host.knows_cpu && host.knows_rss);
	host_add(&h, 12, 1)->rss_bytes = U64_UNKNOWN;
	detect_describe_host(&h.snap, &host);
	assert_true(host.knows_cpu && !host.knows_rss);
	host_close(&h);
}

static json_t *json_of(const struct seen *s)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;
	json_t *root;

	json_init(&j, &text);
	episode_write_event(&j, &s->e, s->change, s->e.began_wall_ns);
	root = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	return root;
}

static void test_event(void **state)
{
	static const char *const keys[] = {
		"timestamp", "anomaly_type", "pid",	    "job_id", "sheet_num", "description",
		"severity",  "metric_value", "threshold",   "began",  "peak",	   "ended",
		"count",     "before_value", "after_value", "host",   "evidence"
	};
	struct anomaly_evidence evidence;
	struct host h;
	json_t *root, *culprit;

	(void)state;
	flap(&h, 300);
	anomaly_evidence_init(&evidence);
	evidence.n_files_open = 1;
	evidence.files[evidence.n_files++] = (struct anomaly_file){ 3, "/dev/null" };
	h.seen[0].e.evidence = &evidence;
	root = json_of(&h.seen[0]);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_non_null(json_object_get(root, keys[i]));
	assert_string_equal(json_string_value(json_object_get(root, "event")), "monitor.anomaly");
	assert_string_equal(json_string_value(json_object_get(root, "change")), "began");
	assert_int_equal(json_integer_value(json_object_get(root, "sheet_num")), 2);
	assert_true(json_is_null(json_object_get(root, "ended")));
	culprit = json_object_get(json_object_get(root, "evidence"), "culprit");
	assert_int_equal(json_array_size(json_object_get(culprit, "open_files")), 1);
	assert_true(json_is_null(json_object_get(culprit, "top_syscalls")));
	json_decref(root);
	host_close(&h);
}

/* What the record keeps as JSON comes back, and what nobody knew stays unknown. */
static void test_host_and_evidence_come_back(void **state)
{
	static const char *const damaged[] = {
		"{\"load_avg_1\":1",
		"{\"load_avg_1\":1} x",
		"{\"load_avg_1\":1}{}",
		"{\"load_avg_1\":1 2}",
		"{\"load_avg_1\":1,\"x\":\"\xff\"}",
	};
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct anomaly_evidence e, read_e;
	struct anomaly_host host, read_host;
	struct json j;

	(void)state;
	anomaly_host_init(&host);
	host.memory_total_bytes = 8192 * MB;
	host.load1 = 2.5;
	host.knows_cpu = true;
	host.top_cpu[host.n_top_cpu++] = (struct anomaly_process){
		.key = { 12, 34 }, .comm = "cc1", .cpu_percent = 99, .rss_bytes = U64_UNKNOWN
	};
	json_init(&j, &text);
	anomaly_host_write_json(&j, &host);
	assert_int_equal(anomaly_host_read_json(text.data, &read_host), 0);
	assert_int_equal(read_host.memory_total_bytes, 8192 * MB);
	assert_false(u64_known(read_host.memory_available_bytes));
	assert_false(f64_known(read_host.io_some));
	assert_true(read_host.knows_cpu && !read_host.knows_rss);
	assert_int_equal(read_host.running_jobs, -1);
	assert_int_equal(read_host.n_top_cpu, 1);
	assert_int_equal(read_host.top_cpu[0].key.start_ticks, 34);
	assert_string_equal(read_host.top_cpu[0].comm, "cc1");
	assert_false(u64_known(read_host.top_cpu[0].rss_bytes));

	anomaly_evidence_init(&e);
	e.has_syscalls = true;
	e.syscalls[e.n_syscalls++] = (struct anomaly_syscall){ "read", 7, F64_UNKNOWN };
	buf_reset(&text);
	json_init(&j, &text);
	anomaly_evidence_write_json(&j, &e);
	assert_int_equal(anomaly_evidence_read_json(text.data, &read_e), 0);
	assert_true(read_e.has_syscalls && read_e.n_syscalls == 1 && read_e.n_files == 0);
	assert_int_equal(read_e.syscalls[0].count, 7);
	assert_false(f64_known(read_e.syscalls[0].time_pct));
	assert_false(u64_known(read_e.n_files_open));
	assert_true(anomaly_evidence_read_json("[1]", &read_e) < 0);
	assert_true(anomaly_evidence_read_json("", &read_e) < 0);
	assert_true(anomaly_host_read_json(NULL, &read_host) < 0);
	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		assert_int_equal(anomaly_host_read_json(damaged[i], &read_host), -EBADMSG);
		assert_false(f64_known(read_host.load1));
	}
	assert_int_equal(anomaly_host_read_json(" {\"load_avg_1\":1,\"x\":[{}],\"processes\":-1,"
						"\"top_cpu\":[1,2,3,4,5],\"running_jobs\":1e3} \n",
						&read_host),
			 0);
	assert_true(read_host.load1 == 1 && !u64_known(read_host.n_processes));
	assert_true(read_host.n_top_cpu == ANOMALY_TOP && read_host.running_jobs == -1);
	assert_int_equal(anomaly_evidence_read_json("{\"open_files\":[3,{\"fd\":-1}]}", &read_e),
			 0);
	assert_int_equal(read_e.files[1].fd, -1);
}

static void test_names(void **state)
{
	enum anomaly_type type;
	enum severity severity;

	(void)state;
	for (int i = 0; i < N_ANOMALY_TYPES; i++) {
		assert_int_equal(
			anomaly_type_from_name(anomaly_type_name((enum anomaly_type)i), &type), 0);
		assert_int_equal(type, i);
	}
	assert_true(anomaly_type_from_name("fire", &type) < 0);
	assert_true(anomaly_type_from_name(NULL, &type) < 0);
	assert_int_equal(severity_from_name("critical", &severity), 0);
	assert_int_equal(severity, SEVERITY_CRITICAL);
	assert_true(severity_from_name("", &severity) < 0);
}

/* Who is left of a job is of that attempt and sheet, whatever runs under its name by then. */
static void test_who_is_left_is_of_its_attempt(void **state)
{
	static struct host h;
	const struct seen *began;

	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 60; i++) {
		struct proc_sample *p;

		host_begin(&h);
		p = host_add(&h, 10, 1);
		p->attempt_id = 3;
		if (i >= 10) {
			p->job_id = NULL;
			p->attempt_id = 0;
			p->sheet_num = SHEET_NONE;
			host_add(&h, 20, 1)->attempt_id = 4; /* the same job once more */
		}
		host_tick(&h);
	}
	began = host_find(&h, ANOMALY_ORPHAN, EPISODE_BEGAN);
	assert_non_null(began);
	assert_int_equal(began->e.attempt_id, 3);
	assert_int_equal(began->e.worst.sheet_num, 2);
	assert_string_equal(began->e.worst.job_id, "job");
	host_close(&h);
}

/* 120 processes each are no explosion, and whose it is when one has more is known. */
static void test_two_jobs_of_one_name(void **state)
{
	static struct host h;
	const struct seen *began;

	(void)state;
	host_open(&h, 5);
	for (int i = 0; i < 40; i++) {
		host_begin(&h);
		for (int k = 0; k < (i < 10 ? 2 : i < 20 ? 120 : 250); k++)
			host_add(&h, 1000 + k, 1)->attempt_id = 3;
		for (int k = 0; k < (i < 10 ? 2 : 120); k++)
			host_add(&h, 2000 + k, 1)->attempt_id = 4;
		host_tick(&h);
		if (i < 20)
			assert_int_equal(h.n_seen, 0);
	}
	began = host_find(&h, ANOMALY_PROCESS_EXPLOSION, EPISODE_BEGAN);
	assert_true(!began || began->e.attempt_id == 3);
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_hour_of_flapping_is_a_handful),
		cmocka_unit_test(test_many_of_one_job_are_counted),
		cmocka_unit_test(test_each_is_counted_once),
		cmocka_unit_test(test_a_pid_that_is_used_again_is_another_process),
		cmocka_unit_test(test_a_successor_does_not_inherit),
		cmocka_unit_test(test_unknown_is_silent),
		cmocka_unit_test(test_a_value_that_is_lost_does_not_clear),
		cmocka_unit_test(test_a_reboot_forgets),
		cmocka_unit_test(test_a_gap_is_not_counted),
		cmocka_unit_test(test_a_clock_that_is_set_back),
		cmocka_unit_test(test_the_worst_is_always_told),
		cmocka_unit_test(test_waiting_for_plenty),
		cmocka_unit_test(test_numbers_of_pressure),
		cmocka_unit_test(test_the_end_of_a_job_ends_its_episodes),
		cmocka_unit_test(test_who_stops_looking_ends_all),
		cmocka_unit_test(test_other_thresholds),
		cmocka_unit_test(test_scope),
		cmocka_unit_test(test_another_scope),
		cmocka_unit_test(test_what_is_gone_is_forgotten),
		cmocka_unit_test(test_what_the_host_was_doing),
		cmocka_unit_test(test_memory_of_others_is_unknown),
		cmocka_unit_test(test_event),
		cmocka_unit_test(test_host_and_evidence_come_back),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_who_is_left_is_of_its_attempt),
		cmocka_unit_test(test_two_jobs_of_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
