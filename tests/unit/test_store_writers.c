#include "store_fixture.h"

#include <signal.h>
#include <time.h>

#include "store/handle.h" /* to make its disk small */

#include "rounds.h"
#include "store_writer.h"

#define N_WRITERS 4
#define N_ATTEMPTS 20
#define N_TICKS 5
#define N_PROCESSES 10

/* One run from open to close, as "proctor run" does it. */
static void child_run(const struct fixture *f, int n_ticks)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct sheet_record sheet = { .num = 1, .try_num = 1, .total_ranks = 1 };
	struct attempt a = make_attempt("j");
	struct store *store = NULL;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == 0);
	CHILD_CHECK(store_begin_attempt(store, &a, &err) == 0);
	CHILD_CHECK(store_write_sheets(store, &a, &sheet, 1, &err) == 0);
	for (int k = 0; k < n_ticks; k++) {
		fill_snapshot(&snap, "j", N_PROCESSES, (unsigned)k);
		CHILD_CHECK(write_tick(store, &a, &snap, NULL, NULL, 0, &err) == 0);
	}
	a.ended_wall_ns = a.started_wall_ns + 1;
	CHILD_CHECK(store_finish_attempt(store, &a, NULL, 0, &err) == 0);
	store_close(store);
}

static pid_t start_writer(const struct fixture *f, int n_attempts, int n_ticks)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; i < n_attempts; i++)
			child_run(f, n_ticks);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

/* They also race to make the file. */
static void test_writers_side_by_side_lose_nothing(void **state)
{
	struct fixture *f = *state;
	pid_t pids[N_WRITERS];

	for (int i = 0; i < N_WRITERS; i++)
		pids[i] = start_writer(f, N_ATTEMPTS, N_TICKS);
	for (int i = 0; i < N_WRITERS; i++) {
		int status = -1;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_is_sound(f->db);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM jobs"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE ended_wall_ns > 0"),
			 N_WRITERS * N_ATTEMPTS);
	assert_int_equal(raw_sql(f->db, "SELECT count(DISTINCT attempt_num) FROM attempts"),
			 N_WRITERS * N_ATTEMPTS);
	assert_int_equal(raw_sql(f->db, "SELECT max(attempt_num) FROM attempts"),
			 N_WRITERS * N_ATTEMPTS);
	assert_int_equal(raw_sql(f->db, COUNT_TICKS), N_WRITERS * N_ATTEMPTS * N_TICKS);
	assert_int_equal(count_samples(f->db), N_WRITERS * N_ATTEMPTS * N_TICKS * N_PROCESSES);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM processes"),
			 N_WRITERS * N_ATTEMPTS * N_PROCESSES);
}

static void pause_us(long us)
{
	const struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

#define N_KILLS ROUNDS(40)
#define MAX_KILLS 400 /* each comes later than the one before: some ticks are written then */

/* No half of a tick is ever there, and the next writer goes on. */
static void test_kill_at_any_moment(void **state)
{
	struct fixture *f = *state;

	for (int round = 0;
	     round < N_KILLS || (round < MAX_KILLS && raw_sql(f->db, COUNT_TICKS) <= 5); round++) {
		pid_t pid = start_writer(f, 1, 1000000);
		int status = -1;

		pause_us(round * 700);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		store_close(must_open(f->db, STORE_WRITE));
		assert_is_sound(f->db);
	}
	assert_int_equal(count_samples(f->db), 10 * raw_sql(f->db, COUNT_TICKS));
	assert_true(raw_sql(f->db, COUNT_TICKS) > 5);
	assert_int_equal(waitpid(start_writer(f, 1, 1), NULL, 0) > 0, 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE ended_wall_ns > 0"),
			 1);
}

/* What write_tick() said is there, is there. */
static void test_what_returned_is_durable(void **state)
{
	struct fixture *f = *state;
	int pipe_fds[2], status;
	int64_t told = 0;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0) {
		struct attempt a = make_attempt("j");
		struct snapshot snap;
		struct store *store = NULL;

		snapshot_init(&snap);
		CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
		CHILD_CHECK(store_begin_attempt(store, &a, NULL) == 0);
		for (unsigned k = 0;; k++) {
			fill_snapshot(&snap, "j", N_PROCESSES, k);
			CHILD_CHECK(write_tick(store, &a, &snap, NULL, NULL, 0, NULL) == 0);
			CHILD_CHECK(write(pipe_fds[1], "x", 1) == 1);
		}
	}
	assert_true(pid > 0);
	close(pipe_fds[1]);
	while (told < 500 && read(pipe_fds[0], &byte, 1) == 1)
		told++;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	while (read(pipe_fds[0], &byte, 1) == 1)
		told++;
	close(pipe_fds[0]);
	assert_true(told >= 500);
	assert_in_range(raw_sql(f->db, COUNT_TICKS), told, told + 1);
}

/* All that a tick of the fixture's job can leave behind. */
#define COUNT_ALL COUNT_TICKS " + (SELECT count(*) FROM processes) + (SELECT count(*) FROM events)"

/* Wherever in the tick the room runs out, nothing of it is kept, and the next is whole. */
static void test_a_tick_without_room_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct proc_event events[] = { { .wall_ns = 1, .details = "a" }, { .wall_ns = 2 } };
	struct series_point point = { .wall_ns = 1 };
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;
	int n_failed = 0;

	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	for (unsigned k = 0; k < 60; k++) {
		int64_t before = raw_sql(f->db, COUNT_ALL);
		int64_t n_pages = raw_sql(f->db, "PRAGMA page_count");
		const int n =
			200; /* new processes each time: some pages of them, some of samples */
		char limit[64];
		int r;

		fill_snapshot(&snap, "j", n, k);
		for (int i = 0; i < n; i++)
			snap.processes[i].key.start_ticks += k * UINT64_C(1000);
		snprintf(limit, sizeof(limit), "PRAGMA max_page_count = %d",
			 (int)n_pages + (int)k % 8);
		assert_int_equal(sqlite3_exec(store->db, limit, NULL, NULL, NULL), SQLITE_OK);
		r = write_tick(store, &a, &snap, &point, events, 2, &err);
		sqlite3_exec(store->db, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL);
		if (r < 0) {
			assert_int_equal(r, -ENOSPC);
			assert_int_equal(raw_sql(f->db, COUNT_ALL), before);
			n_failed++;
			must(write_tick(store, &a, &snap, &point, events, 2, &err), &err);
		}
		assert_int_equal(raw_sql(f->db, COUNT_ALL), before + 1 + n + 2);
		assert_int_equal(count_samples(f->db), n * ((int)k + 1));
	}
	assert_in_range(n_failed, 20, 59);
	assert_is_sound(f->db);
}

static void test_many_processes_at_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	const size_t n = 50000;
	struct proc_record *processes = calloc(n, sizeof(*processes));
	struct proc_event *events = calloc(2 * n, sizeof(*events));
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	assert_true(processes && events);
	attempt_init(&back);
	must(store_begin_attempt(store, &a, &err), &err);
	for (size_t i = 0; i < n; i++) {
		proc_record_init(&processes[i]);
		processes[i].key = (struct proc_key){ (pid_t)(i % 32768) + 1, i };
		processes[i].born_wall_ns = i;
		processes[i].command = "true";
		events[2 * i] = (struct proc_event){ .wall_ns = i, .type = EVENT_SPAWN };
		events[2 * i + 1] = (struct proc_event){ .wall_ns = i, .type = EVENT_EXIT };
	}
	a.processes = processes;
	a.n_processes = n;
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, events, 2 * n, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_processes, n);
	assert_int_equal(back.n_events, 2 * n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(back.processes[i].key.start_ticks, i);
	free(processes);
	free(events);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_writers_side_by_side_lose_nothing),
		STORE_TEST(test_kill_at_any_moment),
		STORE_TEST(test_what_returned_is_durable),
		STORE_TEST(test_a_tick_without_room_leaves_nothing),
		STORE_TEST(test_many_processes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
