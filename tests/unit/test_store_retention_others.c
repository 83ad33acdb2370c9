/* Retention while others are killed, write and read. */
#include "retention_fixture.h"

#include <signal.h>
#include <time.h>

#include "rounds.h"

#define N_KILLS 60

/* ---- kills, writers and readers at the same time ---- */

static void pause_us(long us)
{
	const struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

/* Small slices, until it is done; tells of each, if somebody listens. */
static void retain_in_child(const char *db, int told_fd)
{
	struct store *store = NULL;
	struct retention run;
	int r;

	CHILD_CHECK(store_open(db, STORE_WRITE, &store, NULL) == 0);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 0; /* a piece of work each */
	do {
		r = store_retain_slice(store, &run, NULL);
		if (r == -EBUSY)
			pause_us(500);
		CHILD_CHECK(told_fd < 0 || write(told_fd, "x", 1) == 1);
	} while (r > 0 || r == -EBUSY);
	CHILD_CHECK(r == 0);
	store_close(store);
	_exit(0);
}

static pid_t start_retention(const char *db, int told_fd)
{
	pid_t pid = fork();

	if (pid == 0)
		retain_in_child(db, told_fd);
	assert_true(pid > 0);
	return pid;
}

/* A little after so many slices. */
static void kill_retention(const char *db, int n_slices, long after_us)
{
	int fds[2], status = -1;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = start_retention(db, fds[1]);
	close(fds[1]);
	while (n_slices-- > 0 && read(fds[0], &byte, 1) == 1)
		;
	pause_us(after_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	close(fds[0]);
}

/* No sample is in a chunk and in a rollup, or in neither, whenever it is killed. */
static void test_kills(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	unsigned seed = 1, n_partly = 0;

	tick_between(store, &a, 30 * HOUR, 26 * HOUR, 4 * SECOND_NS, 60);
	must_finish_at(store, &a, NOW - 26 * HOUR);
	store_close(store);
	for (int i = 0; i < ROUNDS(N_KILLS) || (n_partly == 0 && i < N_KILLS); i++) {
		kill_retention(f->db, rand_r(&seed) % 4, rand_r(&seed) % 800);
		n_partly += count(f, "chunks") > 0 && count(f, "rollups") > 0;
		assert_is_sound(f->db);
		store = must_open_fast(f->db);
		assert_int_equal(must_count_in_minutes(store), 3600 * 60);
		store_close(store);
	}
	assert_true(n_partly > 0); /* else it was not killed in the midst of it */
	store = must_open_fast(f->db);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(must_count_in_minutes(store), 3600 * 60);
	assert_int_equal(count(f, "chunks"), 0);
	store_close(store);
}

/* Two of them, a writer and readers: nothing is lost, and nothing is told twice. */
static void test_others_go_on(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	uint64_t n = 1800 * 40;
	pid_t pids[2];

	tick_between(store, &a, 30 * HOUR, 28 * HOUR, 4 * SECOND_NS, 40);
	reader = must_open(f->db, STORE_READ);
	for (int i = 0; i < 2; i++)
		pids[i] = start_retention(f->db, -1);
	for (int i = 0; i < 300; i++) {
		must_tick_at(store, &a, NOW + (uint64_t)i * SECOND_NS, 10);
		n += 10;
		if (i % 10 == 0)
			assert_int_equal(must_count_in_minutes(reader), n);
	}
	for (int i = 0; i < 2; i++) {
		int status = -1;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(must_count_in_minutes(reader), n);
	assert_int_equal(count_samples(f->db), 300 * 10);
	assert_is_sound(f->db);
}

/* What another has left is folded a piece at a time, and the tick of who does it comes between. */
static void test_ticks_of_others(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *gone = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt left = must_begin_at(gone, "left", NOW - 3 * HOUR);
	struct attempt a = must_begin_at(store, "j", NOW);
	struct err err = ERR_INIT;
	struct retention run;
	unsigned n = 0;

	for (unsigned i = 0; i < 3; i++)
		must_tick_at(gone, &left, NOW - 3 * HOUR + i * SECOND_NS, 50);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 1;
	while (raw_sql(f->db, "SELECT count(*) FROM folds") == 0) {
		assert_int_equal(store_retain_slice(store, &run, &err), 1);
		must_tick_at(store, &a, NOW + n++ * SECOND_NS, 1);
	}
	assert_int_equal(raw_sql(f->db, "SELECT n_ticks FROM folds"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 4); /* groups */
	assert_is_sound(f->db);
}

/* Who was only asleep goes on after its ticks were folded: nothing is lost. */
static void test_others_wake_up(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *asleep = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(asleep, "j", NOW - 3 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;

	for (unsigned i = 0; i < 3; i++)
		must_tick_at(asleep, &a, NOW - 3 * HOUR + i * SECOND_NS, 500);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 1;
	while (raw_sql(f->db, "SELECT count(*) FROM ticks") > 0)
		assert_int_equal(store_retain_slice(store, &run, &err), 1);
	must_tick_at(asleep, &a, NOW - 3 * HOUR + 3 * SECOND_NS, 500); /* builds on the third */
	must_retain(store, &run);
	assert_int_equal(count_samples(f->db), 4 * 500);
	must(store_check(store, 0, &err), &err);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_ticks_of_others),
		STORE_TEST(test_others_wake_up),
		STORE_TEST(test_kills),
		STORE_TEST(test_others_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
