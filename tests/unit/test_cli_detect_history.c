/* What a search of the record finds: OOM kills, each once and only of the job whose it was, and
 * when what lasted was over. */
#include "store_fixture.h"

#include "base/config.h"
#include "store_writer.h"
#include "cli/detect_history.h"

#define SECOND UINT64_C(1000000000)
#define START UINT64_C(1700000000000000000)

struct record {
	struct store *store;
	struct attempt a, b;
};

static void begin(struct record *r, const char *db)
{
	struct err err = ERR_INIT;

	r->store = must_open(db, STORE_WRITE);
	r->a = make_attempt("a");
	r->b = make_attempt("b");
	r->a.started_wall_ns = r->b.started_wall_ns = START;
	must(store_begin_attempt(r->store, &r->a, &err), &err);
	must(store_begin_attempt(r->store, &r->b, &err), &err);
}

static void end(struct record *r)
{
	struct err err = ERR_INIT;

	r->a.ended_wall_ns = r->b.ended_wall_ns = START + 20 * SECOND;
	must(store_finish_attempt(r->store, &r->a, NULL, 0, &err), &err);
	must(store_finish_attempt(r->store, &r->b, NULL, 0, &err), &err);
	r->store = store_close(r->store);
}

static void write_kill(const struct record *r, const struct attempt *of, double seconds)
{
	const struct proc_event ev = { .wall_ns = START + (uint64_t)(seconds * 1e9),
				       .key = { 100, 5000 },
				       .type = EVENT_OOM,
				       .status = { -1, 9 },
				       .sheet_num = 1,
				       .details = "" };
	struct err err = ERR_INIT;

	must(store_write_events(r->store, of, &ev, 1, &err), &err);
}

static void add_process(struct snapshot *s, const char *job_id, pid_t pid, const char *cgroup)
{
	struct proc_sample *p = snapshot_add_process(s);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, 5000 };
	p->state = 'S';
	p->job_id = job_id;
	p->sheet_num = 1;
	p->cgroup = cgroup;
	snprintf(p->comm, sizeof(p->comm), "worker");
}

/* Second k of both jobs, each in its cgroup, of which that of a counts kills. */
static void write_both(struct record *r, unsigned k, const char *cgroup_of_b, uint64_t n_kills)
{
	struct snapshot s;
	struct cgroup_sample cgroups[2];
	struct err err = ERR_INIT;

	snapshot_init(&s);
	s.wall_ns = START + k * SECOND;
	s.boot_ns = 1000 * SECOND + k * SECOND;
	add_process(&s, "a", 100, "/a");
	add_process(&s, "b", 200, cgroup_of_b);
	for (size_t i = 0; i < 2; i++) {
		cgroup_sample_init(&cgroups[i]);
		cgroups[i].path = i == 0 ? "/a" : "/b";
		cgroups[i].oom_kills = i == 0 ? n_kills : 0;
		cgroups[i].pids_current = cgroups[i].pids_max = 5;
	}
	s.cgroups = cgroups;
	s.n_cgroups = 2;
	must(store_write_tick(r->store, &r->a, &s, NULL, &err), &err);
	must(store_write_tick(r->store, &r->b, &s, NULL, &err), &err);
	snapshot_release(&s);
}

/* Runners that are gone and have not said how it ended. */
static enum store_alive is_alive(void *ctx, const struct attempt *a)
{
	(void)ctx;
	return strcmp(a->job_id, "lost") == 0 ? STORE_DEAD : STORE_ALIVE;
}

/* That the last one tells of. */
static double n_last_killed;

/* Of the kills that were found. */
static size_t count(const char *db, const char *job_id, enum severity severity)
{
	CLEANUP(store_cleanup) struct store *store = must_open(db, STORE_READ);
	CLEANUP(found_list_release) struct found_list list = { 0 };
	CLEANUP(config_release) struct config config;
	const struct detect_period period = { .job_id = job_id, .since_wall_ns = START - SECOND };
	struct err err = ERR_INIT;
	size_t n = 0;

	config_init(&config);
	store_set_alive_check(store, is_alive, NULL);
	must(detect_history(store, &config.anomaly, &period, &list, &err), &err);
	for (size_t i = 0; i < list.n; i++) {
		const struct anomaly *found = &list.items[i]->episode.worst;

		print_message("# %s %s: %s\n", severity_name(found->severity),
			      found->job_id ? found->job_id : "-", found->text);
		if (found->type != ANOMALY_OOM_KILL || found->severity != severity)
			continue;
		n++;
		n_last_killed = found->metric_value;
	}
	return n;
}

static void test_the_kill_that_ends_a_job(void **state)
{
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	for (unsigned k = 0; k < 5; k++)
		write_both(&r, k, "/b", k == 4); /* the last look has its count */
	write_kill(&r, &r.a, 4.5);
	end(&r);
	assert_int_equal(count(f->db, "a", SEVERITY_CRITICAL), 1);
	assert_int_equal(count(f->db, "a", SEVERITY_HIGH), 0);
	assert_int_equal(count(f->db, "b", SEVERITY_CRITICAL), 0);
}

static void test_the_kill_of_a_job_that_no_look_has_seen(void **state)
{
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	write_kill(&r, &r.a, 0.1);
	end(&r);
	assert_int_equal(count(f->db, NULL, SEVERITY_CRITICAL), 1);
}

static void test_a_cgroup_that_is_not_its_own(void **state)
{
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	for (unsigned k = 0; k < 15; k++)
		write_both(&r, k, "/b", k >= 5); /* and nobody knows who it was */
	end(&r);
	assert_int_equal(count(f->db, "b", SEVERITY_HIGH), 0);
	assert_int_equal(count(f->db, "b", SEVERITY_MEDIUM), 0);
}

static void test_a_kill_of_another_job_in_its_cgroup(void **state)
{
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	for (unsigned k = 0; k < 15; k++)
		write_both(&r, k, "/a", k >= 5);
	write_kill(&r, &r.a, 5);
	end(&r);
	assert_int_equal(count(f->db, "a", SEVERITY_CRITICAL), 1);
	assert_int_equal(count(f->db, "b", SEVERITY_HIGH), 0);
	assert_int_equal(count(f->db, "b", SEVERITY_CRITICAL), 0);
}

/* In second k: a, with so many children, in its cgroup, which counts kills, as the host does. */
static void write_counts(struct record *r, unsigned k, int n_children, uint64_t of_cgroup,
			 uint64_t of_host)
{
	struct cgroup_sample cgroup;
	struct snapshot s;
	struct err err = ERR_INIT;

	snapshot_init(&s);
	cgroup_sample_init(&cgroup);
	s.wall_ns = START + k * SECOND;
	s.boot_ns = 1000 * SECOND + k * SECOND;
	s.system.oom_kills_total = of_host;
	add_process(&s, "a", 100, "/a");
	for (int i = 1; i <= n_children; i++)
		add_process(&s, "a", 100 + i, "/a");
	cgroup.path = "/a";
	cgroup.oom_kills = of_cgroup;
	s.cgroups = &cgroup;
	s.n_cgroups = 1;
	must(store_write_tick(r->store, &r->a, &s, NULL, &err), &err);
	snapshot_release(&s);
}

/* By the counts alone: of the cgroup, which rises twice, and of the host. */
static void test_what_a_job_accounts_for_is_not_the_hosts(void **state)
{
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	for (unsigned k = 0; k < 16; k++)
		write_counts(&r, k, k < 5 ? 2 : k < 10,
			     k < 5    ? 0
			     : k < 10 ? 3
				      : 4,
			     k < 5    ? 7
			     : k < 10 ? 10
				      : 11);
	end(&r);
	assert_int_equal(count(f->db, NULL, SEVERITY_HIGH), 1);
	assert_int_equal(count(f->db, NULL, SEVERITY_MEDIUM), 0);
}

static void test_a_kill_of_somebody_else_is_the_hosts(void **state)
{
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	for (unsigned k = 0; k < 16; k++)
		write_counts(&r, k, k < 5, k < 5 ? 0 : 3, k < 5 ? 7 : 11);
	end(&r);
	assert_int_equal(count(f->db, NULL, SEVERITY_HIGH), 1);
	assert_int_equal(count(f->db, NULL, SEVERITY_MEDIUM), 1);
}

/* ---- when it was over ---- */

/* In second k: a, which has all but a few of its files open, and b. */
static void write_files(const struct record *r, unsigned k, bool has_a)
{
	struct err err = ERR_INIT;
	struct snapshot s;

	snapshot_init(&s);
	s.wall_ns = START + k * SECOND;
	s.boot_ns = 1000 * SECOND + k * SECOND;
	if (has_a) {
		add_process(&s, "a", 100, "/a");
		s.processes[0].open_fds = 1000;
		s.processes[0].fd_limit = 1024;
	}
	add_process(&s, "b", 200, "/b");
	if (has_a)
		must(store_write_tick(r->store, &r->a, &s, NULL, &err), &err);
	must(store_write_tick(r->store, &r->b, &s, NULL, &err), &err);
	snapshot_release(&s);
}

static void write_event(const struct record *r, enum event_type type, double seconds)
{
	const struct proc_event ev = { .wall_ns = START + (uint64_t)(int64_t)(seconds * 1e9),
				       .key = { 100, 5000 },
				       .type = type,
				       .status = { 0, -1 },
				       .sheet_num = 1,
				       .details = "" };
	struct err err = ERR_INIT;

	must(store_write_events(r->store, &r->a, &ev, 1, &err), &err);
}

/* a ends at 4.6 s, after five looks at both and, maybe, before more at b. */
static void write_end(const char *db, enum event_type type, double seconds, bool goes_on)
{
	struct err err = ERR_INIT;
	struct record r;

	begin(&r, db);
	for (unsigned k = 0; k < 5; k++)
		write_files(&r, k, true);
	if (seconds > 0)
		write_event(&r, type, seconds);
	r.a.ended_wall_ns = START + 4600000000;
	must(store_finish_attempt(r.store, &r.a, NULL, 0, &err), &err);
	for (unsigned k = 40; goes_on && k < 45; k++)
		write_files(&r, k, false);
	r.store = store_close(r.store);
}

/* The one of a. */
static struct episode find_end(const char *db)
{
	CLEANUP(store_cleanup) struct store *store = must_open(db, STORE_READ);
	CLEANUP(found_list_release) struct found_list list = { 0 };
	CLEANUP(config_release) struct config config;
	CLEANUP(buf_release) struct buf unread = BUF_INIT;
	const struct detect_period period = { .job_id = "a", .since_wall_ns = START - SECOND };
	struct err err = ERR_INIT;
	struct episode e;

	config_init(&config);
	must(detect_history(store, &config.anomaly, &period, &list, &err), &err);
	assert_false(store_tell_damage(store, &unread));
	assert_int_equal(list.n, 1);
	episode_copy(&e, &list.items[0]->episode);
	assert_int_equal(e.worst.type, ANOMALY_FD_EXHAUSTION);
	assert_true(e.seen_wall_ns <= e.ended_wall_ns);
	return e;
}

static void assert_process_ended(const char *db, uint64_t wall_ns)
{
	const struct episode e = find_end(db);

	assert_string_equal(e.why_cleared, EPISODE_PROCESS_ENDED);
	assert_int_equal(e.ended_wall_ns, wall_ns);
}

static void test_the_end_of_a_process(void **state)
{
	struct fixture *f = *state;

	write_end(f->db, EVENT_EXIT, 4.25, true);
	assert_process_ended(f->db, START + 4250000000);
}

static void test_the_end_of_a_process_after_the_last_look(void **state)
{
	struct fixture *f = *state;

	write_end(f->db, EVENT_EXIT, 4.25, false);
	assert_process_ended(f->db, START + 4250000000);
}

/* Nobody has told when it did. */
static void test_the_end_of_a_process_with_its_job(void **state)
{
	struct fixture *f = *state;

	write_end(f->db, EVENT_EXIT, 0, true);
	assert_process_ended(f->db, START + 4600000000);
}

/* Between two looks that show it. */
static void test_numbers_are_not_from_after_the_end(void **state)
{
	struct fixture *f = *state;

	write_end(f->db, EVENT_EXIT, 3.5, true);
	assert_process_ended(f->db, START + 3500000000);
}

static void test_who_is_left_has_not_ended(void **state)
{
	struct fixture *f = *state;
	struct episode e;

	write_end(f->db, EVENT_ORPHAN, 4.6, false);
	e = find_end(f->db);
	assert_string_equal(e.why_cleared, EPISODE_UNWATCHED);
	assert_int_equal(e.ended_wall_ns, START + 4 * SECOND);
}

/* An attempt of the job long before, with an event that is told of if it is read. */
static void write_earlier_attempt(const char *db)
{
	struct record r = { .store = must_open(db, STORE_WRITE), .a = make_attempt("a") };
	struct err err = ERR_INIT;

	r.a.started_wall_ns = START - 100 * SECOND;
	must(store_begin_attempt(r.store, &r.a, &err), &err);
	write_event(&r, EVENT_EXIT, -90);
	r.a.ended_wall_ns = START - 80 * SECOND;
	must(store_finish_attempt(r.store, &r.a, NULL, 0, &err), &err);
	r.store = store_close(r.store);
	raw_sql(db, "UPDATE events SET type = 'frozen'");
}

/* However many there are, each is asked for its own. */
static void test_the_end_is_not_looked_for_in_other_attempts(void **state)
{
	struct fixture *f = *state;

	write_earlier_attempt(f->db);
	write_end(f->db, EVENT_EXIT, 4.25, true);
	assert_process_ended(f->db, START + 4250000000);
}

static int count_cgroups(void *ctx, const struct snapshot *s)
{
	for (size_t i = 0; i < s->n_cgroups; i++) {
		assert_false(u64_known(s->cgroups[i].pids_current));
		assert_false(u64_known(s->cgroups[i].pids_max));
	}
	*(size_t *)ctx += s->n_cgroups;
	return 0;
}

/* What is not in the record is unknown, and no limit of none. */
static void test_how_many_may_be_in_a_cgroup(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = NULL;
	const struct snapshot_filter all = { 0 };
	struct err err = ERR_INIT;
	struct record r;
	size_t n = 0;

	begin(&r, f->db);
	for (unsigned k = 0; k < 3; k++)
		write_both(&r, k, "/b", 0);
	end(&r);
	store = must_open(f->db, STORE_READ);
	must(store_read_snapshots(store, &all, count_cgroups, &n, &err), &err);
	assert_int_equal(n, 12); /* two jobs, each with both */
}

/* In second k, by the runner of this attempt. */
static void write_look(struct store *store, const struct attempt *of, unsigned k, uint64_t of_host)
{
	struct err err = ERR_INIT;
	struct snapshot s;

	snapshot_init(&s);
	s.wall_ns = START + k * SECOND;
	s.boot_ns = 1000 * SECOND + k * SECOND;
	s.system.oom_kills_total = of_host;
	add_process(&s, of->job_id, 300, "/lost");
	must(write_tick(store, of, &s, NULL, NULL, 0, &err), &err);
	snapshot_release(&s);
}

/* Eleven, between two who recorded. One who was lost looked at the beginning, and then. */
static void write_unseen_kills(const char *db, struct attempt *lost, unsigned looked)
{
	struct err err = ERR_INIT;
	struct record r;

	begin(&r, db);
	if (lost) {
		must(store_begin_attempt(r.store, lost, &err), &err);
		write_look(r.store, lost, 0, 7);
	}
	for (unsigned k = 1; k < 16; k++)
		write_counts(&r, k, 0, 0, 7);
	end(&r);
	r.store = must_open(db, STORE_WRITE);
	r.a = make_attempt("a");
	r.a.started_wall_ns = START + 60 * SECOND;
	must(store_begin_attempt(r.store, &r.a, &err), &err);
	for (unsigned k = 60; k < 70; k++)
		write_counts(&r, k, 0, 0, 18);
	if (lost && looked > 0)
		write_look(r.store, lost, looked, 18);
	r.store = store_close(r.store);
}

static void test_kills_while_nobody_looked(void **state)
{
	struct fixture *f = *state;

	write_unseen_kills(f->db, NULL, 0);
	assert_int_equal(count(f->db, NULL, SEVERITY_MEDIUM), 0);
}

/* One that was killed has no end, and does not look any more for all that: however seldom it
 * looked. */
static void test_kills_after_a_watcher_was_lost(void **state)
{
	struct attempt lost = make_attempt("lost");
	struct fixture *f = *state;

	lost.started_wall_ns = START;
	lost.interval_seconds = 65;
	write_unseen_kills(f->db, &lost, 0);
	assert_int_equal(count(f->db, NULL, SEVERITY_MEDIUM), 0);
}

/* It looked as seldom as that while it lived: its next look found them. */
static void test_kills_between_two_looks_of_one_that_was_lost_later(void **state)
{
	struct attempt lost = make_attempt("lost");
	struct fixture *f = *state;

	lost.started_wall_ns = START;
	lost.interval_seconds = 65;
	write_unseen_kills(f->db, &lost, 65);
	assert_int_equal(count(f->db, NULL, SEVERITY_MEDIUM), 1);
}

/* Two who look at the host read its count before they say when, and not in the order in which they
 * say it. */
static void test_a_count_that_seems_to_fall(void **state)
{
	static const uint64_t counts[] = { 7, 8, 7, 7, 8, 8, 9, 8, 9 };
	struct fixture *f = *state;
	struct record r;

	begin(&r, f->db);
	for (unsigned k = 0; k < 20; k++)
		write_counts(&r, k, 0, 0, k < ARRAY_SIZE(counts) ? counts[k] : 9);
	write_kill(&r, &r.a, 1);
	end(&r);
	assert_int_equal(count(f->db, NULL, SEVERITY_CRITICAL), 1);
	assert_int_equal(count(f->db, NULL, SEVERITY_MEDIUM), 1);
	assert_true(n_last_killed == 1);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_the_kill_that_ends_a_job),
		STORE_TEST(test_the_kill_of_a_job_that_no_look_has_seen),
		STORE_TEST(test_a_cgroup_that_is_not_its_own),
		STORE_TEST(test_a_kill_of_another_job_in_its_cgroup),
		STORE_TEST(test_what_a_job_accounts_for_is_not_the_hosts),
		STORE_TEST(test_a_kill_of_somebody_else_is_the_hosts),
		STORE_TEST(test_the_end_of_a_process),
		STORE_TEST(test_the_end_of_a_process_after_the_last_look),
		STORE_TEST(test_the_end_of_a_process_with_its_job),
		STORE_TEST(test_who_is_left_has_not_ended),
		STORE_TEST(test_the_end_is_not_looked_for_in_other_attempts),
		STORE_TEST(test_numbers_are_not_from_after_the_end),
		STORE_TEST(test_how_many_may_be_in_a_cgroup),
		STORE_TEST(test_kills_while_nobody_looked),
		STORE_TEST(test_kills_after_a_watcher_was_lost),
		STORE_TEST(test_kills_between_two_looks_of_one_that_was_lost_later),
		STORE_TEST(test_a_count_that_seems_to_fall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
