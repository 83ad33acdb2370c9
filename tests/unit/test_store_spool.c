/* Ends of attempts that wait beside the database: taken in by the next to open it, once. */
#include "store_fixture.h"

#include <poll.h>
#include <sys/file.h>
#include <time.h>

#include "store/handle.h"
#include "store/spool_file.h"
#include "store/tables.h"

/* How a run of two sheets ended, with all that can be said about it. */
struct ending {
	struct rank_record ranks[2];
	struct sheet_record sheets[2];
	struct unknown_note notes[1];
	struct rung rungs[2];
	struct attempt a;
};

static void make_ending(struct ending *e, const char *job_id, int exit_code)
{
	struct attempt *a = &e->a;

	*a = make_attempt(job_id);
	for (int i = 0; i < 2; i++) {
		e->ranks[i] = (struct rank_record){
			.rank = i, .pid = 100 + i, .status = { i, -1 }, .ended_wall_ns = 77
		};
		e->sheets[i] = (struct sheet_record){
			.num = i + 1,
			.try_num = 1,
			.name = "a \"name\"",
			.total_ranks = 2,
			.outcome = OUTCOME_FAILURE,
		};
		usage_init(&e->sheets[i].usage);
		e->sheets[i].usage.wall_ns = 5;
	}
	e->sheets[1].ranks = e->ranks;
	e->sheets[1].n_ranks = 2;
	e->notes[0] = (struct unknown_note){ "recording", "the disk was full" };
	e->rungs[0] = (struct rung){ "memory truth", "cgroup v2", "" };
	e->rungs[1] = (struct rung){ "births", "polling", "not root" };
	a->rungs = e->rungs;
	a->n_rungs = 2;
	a->sheets = e->sheets;
	a->n_sheets = 2;
	a->unknowns = e->notes;
	a->n_unknowns = 1;
	a->ended_wall_ns = a->started_wall_ns + 1000000000;
	a->outcome = OUTCOME_FAILURE;
	a->reason = "exit code";
	a->status.exit_code = exit_code;
	a->last_completed_sheet = 1;
	a->usage.wall_ns = 123456789;
	a->usage.peak_cpu_percent = 12.5;
}

static void must_keep(const struct fixture *f, const struct attempt *a)
{
	struct err err = ERR_INIT;

	must(store_keep_end(f->db, a, &err), &err);
}

/* As the next reader finds it. */
static void assert_ended(const struct fixture *f, const char *job_id, int num, int exit_code)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_READ);
	CLEANUP(attempt_release) struct attempt back;
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_read_attempt(store, job_id, num, &back, &err), &err);
	assert_int_equal(back.outcome, OUTCOME_FAILURE);
	assert_int_equal(back.status.exit_code, exit_code);
	assert_string_equal(back.reason, "exit code");
	assert_true(back.ended_wall_ns == back.started_wall_ns + 1000000000);
	assert_int_equal(back.usage.wall_ns, 123456789);
	assert_true(back.usage.peak_cpu_percent == 12.5);
	assert_int_equal(back.n_sheets, 2);
	assert_string_equal(back.sheets[0].name, "a \"name\"");
	assert_int_equal(back.sheets[1].n_ranks, 2);
	assert_int_equal(back.sheets[1].ranks[1].status.exit_code, 1);
	assert_int_equal(back.n_rungs, 2);
	assert_string_equal(back.rungs[0].rung, "cgroup v2");
	assert_string_equal(back.rungs[1].reason, "not root");
	assert_int_equal(back.n_unknowns, 1);
	assert_string_equal(back.unknowns[0].why, "the disk was full");
	assert_string_equal(back.command, "sleep 1");
	assert_true(back.argv_hash == UINT64_C(0xfedcba9876543210));
}

static int64_t count_attempts(const struct fixture *f)
{
	return raw_sql(f->db, "SELECT count(*) FROM attempts");
}

/* Whom it has left a daemon goes on with; what else has happened is not kept. */
static void test_whom_it_has_left(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct proc_event events[] = {
		{ .wall_ns = 5, .key = { 41, 7 }, .type = EVENT_EXIT, .status = { 0, -1 } },
		{ .wall_ns = 6,
		  .key = { 42, 8 },
		  .type = EVENT_ORPHAN,
		  .status = { -1, -1 },
		  .sheet_num = 2,
		  .details = "lives on" },
	};
	CLEANUP(attempt_release) struct attempt back;
	struct err err = ERR_INIT;
	struct ending e;

	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	e.a.events = events;
	e.a.n_events = 2;
	must_keep(f, &e.a);
	must_keep(f, &e.a); /* is taken in once */
	store = store_close(store);
	assert_ended(f, "j", 1, 3);
	store = must_open(f->db, STORE_READ);
	attempt_init(&back);
	must(store_read_attempt(store, "j", 1, &back, &err), &err);
	assert_int_equal(back.n_events, 1);
	assert_int_equal(back.events[0].type, EVENT_ORPHAN);
	assert_int_equal(back.events[0].key.pid, 42);
	assert_int_equal(back.events[0].key.start_ticks, 8);
	assert_int_equal(back.events[0].wall_ns, 6);
	assert_int_equal(back.events[0].sheet_num, 2);
	assert_string_equal(back.events[0].details, "lives on");
	store_close(store);
}

/* Of an attempt that was begun, with ticks that are not folded: retention does that… */
static void test_one_that_was_begun(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;
	struct ending e;

	snapshot_init(&snap);
	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	fill_snapshot(&snap, "j", 2, 0);
	must(write_tick(store, &e.a, &snap, NULL, NULL, 0, &err), &err);
	store_close(store);
	must_keep(f, &e.a);
	assert_true(store_has_kept(f->db));
	assert_ended(f, "j", 1, 3);
	assert_false(store_has_kept(f->db));
	assert_int_equal(count_attempts(f), 1);
	assert_int_equal(count_samples(f->db), 2);
}

/* What is known of its processes then: what samples saw, and nothing of how they ended. */
static void assert_sampled(const struct fixture *f, const char *job_id)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_READ);
	CLEANUP(attempt_release) struct attempt back;
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_read_attempt(store, job_id, 1, &back, &err), &err);
	assert_int_equal(back.n_processes, 2);
	for (uint64_t i = 0; i < 2; i++) {
		const struct proc_record *p = &back.processes[i];

		assert_true(p->is_unaccounted);
		assert_int_equal(p->evidence, EVIDENCE_SAMPLED);
		assert_int_equal(p->n_samples, 3);
		assert_int_equal(p->max_rss_bytes, 4096 * (i + 1));
		assert_int_equal(p->user_ns, 2000000);
		assert_true(p->died_wall_ns == U64_UNKNOWN);
		assert_int_equal(p->status.exit_code, -1);
	}
}

/* Also when the samples themselves are gone. */
static void test_processes_are_told_by_samples(void **state)
{
	const struct retention_policy policy = { .full_resolution_hours = 1,
						 .downsampled_days = 7,
						 .events_days = 30 };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;
	struct retention run;
	struct ending e;
	int r;

	snapshot_init(&snap);
	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	for (unsigned k = 0; k < 3; k++) {
		fill_snapshot(&snap, "j", 2, k);
		must(write_tick(store, &e.a, &snap, NULL, NULL, 0, &err), &err);
	}
	must_keep(f, &e.a);
	must(store_take_in(store, &err), &err);
	assert_sampled(f, "j");
	store_retain_begin(&run, &policy, e.a.ended_wall_ns + UINT64_C(7200000000000));
	while ((r = store_retain_slice(store, &run, &err)) > 0)
		;
	must(r, &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 0);
	assert_sampled(f, "j");
}

/* …and of one that was not, also where there is no database yet. */
static void test_one_that_was_never_begun(void **state)
{
	struct fixture *f = *state;
	struct ending e;

	make_ending(&e, "j", 3);
	must_keep(f, &e.a);
	assert_int_equal(access(f->db, F_OK), -1);
	store_close(must_open(f->db, STORE_WRITE));
	assert_ended(f, "j", 1, 3);
	make_ending(&e, "j", 4);
	e.a.started_wall_ns++; /* another one */
	e.a.ended_wall_ns++;
	must_keep(f, &e.a);
	assert_ended(f, "j", 2, 4);
	assert_ended(f, "j", 1, 3);
	assert_is_sound(f->db);
}

/* After "doctor --repair" an empty database is there: who only reads finds what was kept. */
static void test_an_empty_database(void **state)
{
	struct fixture *f = *state;
	struct ending e;

	close(open(f->db, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	make_ending(&e, "j", 3);
	must_keep(f, &e.a);
	assert_ended(f, "j", 1, 3);
}

/* Who took it in may be killed before it could say so. */
static void test_taken_in_again(void **state)
{
	struct fixture *f = *state;
	char spool[192], copy[192], command[512];
	struct ending e;

	snprintf(spool, sizeof(spool), "%s-spool", f->db);
	snprintf(copy, sizeof(copy), "%s/copy", f->dir);
	make_ending(&e, "j", 3);
	must_keep(f, &e.a);
	snprintf(command, sizeof(command), "cp %s %s", spool, copy);
	assert_int_equal(system(command), 0);
	store_close(must_open(f->db, STORE_WRITE));
	for (int i = 0; i < 3; i++) {
		snprintf(command, sizeof(command), "cp %s %s", copy, spool);
		assert_int_equal(system(command), 0);
		assert_true(store_has_kept(f->db));
		assert_ended(f, "j", 1, 3);
		assert_false(store_has_kept(f->db));
	}
	assert_int_equal(count_attempts(f), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM sheets"), 2);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns"), 1);
}

/* What is in the database is right: an end that was stored as well is not replaced. */
static void test_one_that_has_its_end(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;
	struct ending e;

	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	must(store_finish_attempt(store, &e.a, NULL, 0, &err), &err);
	store_close(store);
	e.a.status.exit_code = 99;
	must_keep(f, &e.a);
	assert_ended(f, "j", 1, 3);
	assert_false(store_has_kept(f->db));
}

/* Notes are added to it: the end may be all that could be stored at first. */
static void test_notes_of_one_that_has_its_end(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct unknown_note notes[] = {
		{ "recording", "the disk was full" },
		{ "recording", "it was locked" },
		{ "history", NULL },
	};
	struct err err = ERR_INIT;
	struct ending e;

	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	must(store_finish_attempt(store, &e.a, NULL, 0, &err), &err);
	e.a.unknowns = notes;
	e.a.n_unknowns = ARRAY_SIZE(notes);
	for (int i = 0; i < 2; i++) {
		must_keep(f, &e.a);
		assert_int_equal(store_take_in(store, &err), 1);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns"), 3);
	}
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns WHERE why IS NULL"), 1);
	store_close(store);
}

/* A nearly full disk took the end alone: whom it has left and the rungs come with the record. */
static void test_rest_of_one_that_has_its_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct proc_event left[] = {
		{ .wall_ns = 6, .key = { 42, 8 }, .type = EVENT_ORPHAN, .status = { -1, -1 } },
		{ .wall_ns = 6, .key = { 43, 8 }, .type = EVENT_ORPHAN, .status = { -1, -1 } },
	};
	struct err err = ERR_INIT;
	struct ending e;

	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	e.a.n_rungs = 0;
	must(store_finish_attempt(store, &e.a, left, 1, &err), &err);
	e.a.n_rungs = 2;
	e.a.events = left;
	e.a.n_events = 2;
	left[0].wall_ns = 7; /* it is the same process */
	for (int i = 0; i < 2; i++) {
		must_keep(f, &e.a);
		assert_int_equal(store_take_in(store, &err), 1);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 2);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM rungs"), 2);
		assert_int_equal(raw_sql(f->db, "SELECT pid FROM events WHERE pid = 43"), 43);
	}
}

static void leave_it(void *ctx, bool is_wanted)
{
	(void)ctx;
	(void)is_wanted;
}

/* What is cleared is on the disk, though another thread waits for that as a rule. */
static void test_what_another_would_wait_for(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;
	struct ending e;

	store_settle_elsewhere(store, leave_it, NULL);
	make_ending(&e, "j", 3);
	must_keep(f, &e.a);
	assert_int_equal(store_take_in(store, &err), 1);
	assert_false(store_has_kept(f->db));
	assert_false(store->is_unsettled);
}

static void test_a_lock(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *reader = NULL;
	sqlite3 *other = NULL;
	struct ending e;

	store_close(must_open(f->db, STORE_WRITE));
	make_ending(&e, "j", 3);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	must_keep(f, &e.a);
	reader = must_open(f->db, STORE_READ); /* nobody waits for it */
	assert_true(store_has_kept(f->db));
	assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	assert_ended(f, "j", 1, 3);
}

/* ---- a lock that stays ---- */

#define N_LOCKED_OUT 16
#define N_TAKERS 3

static pid_t fork_keeper(const struct fixture *f, int i)
{
	pid_t pid = fork();
	struct ending e;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	make_ending(&e, "j", 3);
	e.a.runner.pid = 1000 + i;
	CHILD_CHECK(store_keep_end(f->db, &e.a, NULL) == 0);
	_exit(0);
}

/* As a daemon does, and whoever opens it meanwhile: again and again, until the pipe ends. */
static pid_t fork_taker(const struct fixture *f, int stop_fds[2])
{
	struct store *store = NULL;
	struct pollfd stop = { .fd = stop_fds[0] };
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	close(stop_fds[1]);
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
	do
		CHILD_CHECK(store_take_in(store, NULL) == 0);
	while (poll(&stop, 1, 10) == 0);
	store_close(store);
	_exit(0);
}

static void must_end_well(const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int status = -1;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

/* Who would take in waits for the database as well, and never so that others cannot append. */
static void test_a_lock_that_stays(void **state)
{
	struct fixture *f = *state;
	const struct timespec apart = { .tv_nsec = 50000000 };
	pid_t takers[N_TAKERS], keepers[N_LOCKED_OUT];
	sqlite3 *other = NULL;
	int stop_fds[2];

	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(pipe2(stop_fds, O_CLOEXEC), 0);
	for (int i = 0; i < N_TAKERS; i++) /* first: SQLite's handles do not outlive a fork */
		takers[i] = fork_taker(f, stop_fds);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	sqlite3_busy_timeout(other, 60000);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	for (int i = 0; i < N_LOCKED_OUT; i++) {
		nanosleep(&apart, NULL);
		keepers[i] = fork_keeper(f, i);
	}
	must_end_well(keepers, N_LOCKED_OUT);
	close(stop_fds[1]);
	must_end_well(takers, N_TAKERS);
	close(stop_fds[0]);
	assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(count_attempts(f), N_LOCKED_OUT);
	assert_false(store_has_kept(f->db));
}

static int count_begin(unsigned type, void *ctx, void *stmt, void *text)
{
	(void)type;
	(void)stmt;
	*(int *)ctx += strcmp(text, "BEGIN IMMEDIATE") == 0;
	return 0;
}

/* Who could not get the lock for the whole end does not wait as long for a part of it. */
static void test_a_lock_is_waited_for_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;
	sqlite3 *other = NULL;
	struct ending e;
	int n = 0;

	make_ending(&e, "j", 3);
	must(store_begin_attempt(store, &e.a, &err), &err);
	store_set_patience(store, 1);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_trace_v2(store->db, SQLITE_TRACE_STMT, count_begin, &n);
	assert_int_equal(store_finish_attempt(store, &e.a, NULL, 0, &err), -EBUSY);
	assert_int_equal(n, 1);
	sqlite3_close(other);
	must(store_finish_attempt(store, &e.a, NULL, 0, &err), &err);
}

/* Who has it open for long asks. */
static void test_while_it_is_open(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;
	struct ending e;

	assert_int_equal(store_take_in(store, &err), 0);
	for (int i = 0; i < 5; i++) {
		make_ending(&e, "j", i);
		e.a.runner.pid += i;
		must_keep(f, &e.a);
	}
	assert_int_equal(store_take_in(store, &err), 5);
	assert_int_equal(store_take_in(store, &err), 0);
	for (int i = 0; i < 5; i++)
		assert_ended(f, "j", i + 1, i);
}

/* ---- many at once ---- */

#define N_WRITERS 8
#define N_ENDS 12

static void keep_many(struct fixture *f, int writer)
{
	for (int i = 0; i < N_ENDS; i++) {
		struct ending e;

		make_ending(&e, "j", 3);
		e.a.runner.pid = writer * 1000 + i;
		CHILD_CHECK(store_keep_end(f->db, &e.a, NULL) == 0);
		if (i % 3 == 0) {
			struct store *store = NULL;

			CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
			store_close(store);
		}
	}
}

static void test_many_at_once(void **state)
{
	struct fixture *f = *state;
	pid_t pids[N_WRITERS];

	store_close(must_open(f->db, STORE_WRITE));
	for (int i = 0; i < N_WRITERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			keep_many(f, i);
			_exit(0);
		}
	}
	must_end_well(pids, N_WRITERS);
	store_close(must_open(f->db, STORE_WRITE));
	assert_false(store_has_kept(f->db));
	assert_int_equal(raw_sql(f->db, "SELECT count(DISTINCT runner_pid) FROM attempts"),
			 N_WRITERS * N_ENDS);
	assert_int_equal(count_attempts(f), N_WRITERS * N_ENDS);
	assert_is_sound(f->db);
}

/* ---- what is no spool, or half of one ---- */

static void overwrite(const char *path, off_t offset, const char *bytes, size_t n)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, offset), n);
	close(fd);
}

static uint64_t used_bytes(const char *spool)
{
	uint64_t head[2] = { 0, 0 };
	int fd = open(spool, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, head, sizeof(head)), sizeof(head));
	close(fd);
	return head[1];
}

/* The first is whole, the second is not: nothing of it is thrown away. */
static void test_damage(void **state)
{
	struct fixture *f = *state;
	CLEANUP(buf_release) struct buf told = BUF_INIT;
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct ending e;
	struct stat st;
	char spool[192], command[512];

	snprintf(spool, sizeof(spool), "%s-spool", f->db);
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(stat(spool, &st), 0);
	assert_int_equal(st.st_size, SPOOL_BYTES);
	assert_int_equal(st.st_mode & 07777, 0600);
	make_ending(&e, "j", 3);
	must_keep(f, &e.a);
	make_ending(&e, "k", 4);
	must_keep(f, &e.a);
	overwrite(spool, (off_t)used_bytes(spool) + 64 - 10, "\xff\xff\xff\xff", 4);
	store = must_open(f->db, STORE_READ);
	assert_true(store_tell_damage(store, &told));
	assert_non_null(strstr(told.data, "1 file of attempts' ends"));
	buf_reset(&told);
	assert_int_equal(store_find_set_aside(f->db, &told), 1);
	assert_int_equal(access(told.data, F_OK), 0);
	assert_ended(f, "j", 1, 3);
	assert_int_equal(count_attempts(f), 1);
	assert_false(store_has_kept(f->db));
	snprintf(command, sizeof(command), "ls %s.damaged-* >/dev/null", spool);
	assert_int_equal(system(command), 0);
}

static void test_rubbish(void **state)
{
	static const struct {
		off_t offset;
		const char *bytes;
		size_t n;
	} cases[] = {
		{ 0, "rubbish!", 8 },
		{ 0, "PctrEnd1\xff\xff\xff\xff\xff\xff\xff\xff", 16 },
		{ 0, "PctrEnd1\x0c\0\0\0\0\0\0\0", 16 },
		{ 0, "PctrEnd1\0\0\x0f\0\0\0\0\0", 16 }, /* longer than the file */
		{ 64, "\0\0\0\0", 4 },
		{ 64, "\xff\xff\xff\x7f", 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *f = NULL;
		struct ending e;
		char spool[192];

		assert_int_equal(fixture_setup((void **)&f), 0);
		snprintf(spool, sizeof(spool), "%s-spool", f->db);
		make_ending(&e, "j", 3);
		must_keep(f, &e.a);
		overwrite(spool, cases[i].offset, cases[i].bytes, cases[i].n);
		store_close(must_open(f->db, STORE_WRITE));
		assert_int_equal(count_attempts(f), 0);
		assert_false(store_has_kept(f->db)); /* it is beside, and a new one is there */
		must_keep(f, &e.a);
		assert_ended(f, "j", 1, 3);
		fixture_teardown((void **)&f);
	}
	(void)state;
}

/* ---- records of another format ---- */

/* What was kept as the only record, out of the file again. */
static void take_out(const struct fixture *f, struct buf *ret)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	const char *at;
	const void *record;
	size_t len;

	assert_int_equal(spool_file_open(f->db, &fd), 0);
	assert_int_equal(spool_file_read(fd, &bytes), 0);
	at = bytes.data;
	assert_int_equal(spool_next(&at, bytes.data + bytes.len, &record, &len), 1);
	assert_ptr_equal(at, bytes.data + bytes.len);
	buf_add(ret, record, len);
	assert_int_equal(spool_file_clear(fd), 0);
}

/* What is done to the second of three. */
enum oddity { ODD_CUT, ODD_FORMAT, ODD_TO_THE_DATABASE, ODD_BYTES, ODD_COUNT };

static void keep_odd(const struct fixture *f, enum oddity oddity, struct buf *ret)
{
	struct ending e;

	make_ending(&e, "odd", 3);
	if (oddity == ODD_TO_THE_DATABASE)
		e.ranks[1].rank = e.ranks[0].rank;
	must_keep(f, &e.a);
	take_out(f, ret);
	if (oddity == ODD_CUT)
		ret->len -= 20;
	if (oddity == ODD_FORMAT)
		ret->data[0] = 99;
}

static void flip_byte_of_second(const char *spool, size_t record_len)
{
	char byte;
	off_t at = 64 + (off_t)(used_bytes(spool) / 3) + 12 + (off_t)record_len / 2;
	int fd = open(spool, O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	close(fd);
	byte = (char)(byte ^ 1);
	overwrite(spool, at, &byte, 1);
}

/* One of three makes no sense: the others are taken in, and nothing is thrown away. */
static void test_an_odd_one_between_others(void **state)
{
	for (enum oddity oddity = 0; oddity < ODD_COUNT; oddity++) {
		CLEANUP(buf_release) struct buf odd = BUF_INIT;
		struct fixture *f = NULL;
		struct ending e;
		char spool[192], command[512];

		assert_int_equal(fixture_setup((void **)&f), 0);
		snprintf(spool, sizeof(spool), "%s-spool", f->db);
		store_close(must_open(f->db, STORE_WRITE));
		keep_odd(f, oddity, &odd);
		make_ending(&e, "one", 3);
		must_keep(f, &e.a);
		assert_int_equal(spool_file_append(f->db, odd.data, odd.len), 0);
		make_ending(&e, "two", 4);
		must_keep(f, &e.a);
		if (oddity == ODD_BYTES)
			flip_byte_of_second(spool, odd.len);
		assert_ended(f, "one", 1, 3);
		assert_ended(f, "two", 1, 4);
		assert_int_equal(count_attempts(f), 2);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM jobs"), 2);
		assert_false(store_has_kept(f->db));
		snprintf(command, sizeof(command), "ls %s.damaged-* >/dev/null", spool);
		assert_int_equal(system(command), 0);
		fixture_teardown((void **)&f);
	}
	(void)state;
}

/* Who it belongs to can write to it next time, whatever the umask was when it was made. */
static void test_mode(void **state)
{
	static const mode_t masks[] = { 0, 077, 0777 };
	struct fixture *f = *state;
	char spool[192];
	struct ending e;
	struct stat st;

	snprintf(spool, sizeof(spool), "%s-spool", f->db);
	make_ending(&e, "j", 3);
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		mode_t old = umask(masks[i]);

		must_keep(f, &e.a);
		umask(old);
		assert_int_equal(stat(spool, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(unlink(spool), 0);
	}
}

/* A link could lead anywhere, and what is longer than anybody takes in is not kept. */
static void test_what_cannot_be_kept(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct ending e;
	char spool[192], *long_text = calloc(1, SPOOL_MAX_BYTES);

	assert_non_null(long_text);
	memset(long_text, 'x', SPOOL_MAX_BYTES - 1);
	make_ending(&e, "j", 3);
	e.sheets[0].command = long_text; /* it is left out, with the sheets */
	must_keep(f, &e.a);
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(raw_sql(f->db, "SELECT exit_code FROM attempts"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM sheets"), 0);
	e.a.reason = long_text;
	assert_int_equal(store_keep_end(f->db, &e.a, &err), -EFBIG);
	assert_non_null(strstr(err.text, "-spool"));
	snprintf(spool, sizeof(spool), "%s-spool", f->db);
	assert_int_equal(unlink(spool), 0);
	assert_int_equal(symlink("/dev/null", spool), 0);
	e.a.reason = "exit code";
	assert_int_equal(store_keep_end(f->db, &e.a, &err), -ELOOP);
	assert_false(store_has_kept(f->db));
	free(long_text);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_one_that_was_begun),
		STORE_TEST(test_whom_it_has_left),
		STORE_TEST(test_processes_are_told_by_samples),
		STORE_TEST(test_one_that_was_never_begun),
		STORE_TEST(test_an_empty_database),
		STORE_TEST(test_taken_in_again),
		STORE_TEST(test_one_that_has_its_end),
		STORE_TEST(test_notes_of_one_that_has_its_end),
		STORE_TEST(test_rest_of_one_that_has_its_end),
		STORE_TEST(test_what_another_would_wait_for),
		STORE_TEST(test_a_lock),
		STORE_TEST(test_a_lock_that_stays),
		STORE_TEST(test_a_lock_is_waited_for_once),
		STORE_TEST(test_while_it_is_open),
		STORE_TEST(test_many_at_once),
		STORE_TEST(test_damage),
		STORE_TEST(test_rubbish),
		STORE_TEST(test_an_odd_one_between_others),
		STORE_TEST(test_mode),
		STORE_TEST(test_what_cannot_be_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
