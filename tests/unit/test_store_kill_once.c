/*
 * Kills in the midst of what is done once: an attempt ends, an end that waited beside the
 * database is taken in.
 */
#include "store_fixture.h"

#include <signal.h>
#include <time.h>

#include "rounds.h"
#include "store/handle.h"
#include "store_writer.h"

#define N_PROCESSES 5

static void pause_us(long us)
{
	const struct timespec pause = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&pause, NULL);
}

#define N_KILLS_EACH ROUNDS(30)

/* Runs fn in a child, which is killed after so long; true: it had come to its end before. */
static bool kill_after(void (*fn)(const struct fixture *f, int go_fd), const struct fixture *f,
		       long after_us)
{
	int fds[2], status = -1;
	char ready;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		fn(f, fds[1]);
		_exit(0);
	}
	assert_true(pid > 0);
	close(fds[1]);
	assert_int_equal(read(fds[0], &ready, 1), 1); /* it is about to begin */
	pause_us(after_us);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fds[0]);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFEXITED(status);
}

/* From before the work to behind it: how long it took so far is learned on the way. */
struct span {
	long us;
	unsigned n_early, n_late;
};

static long choose_moment(struct span *span, unsigned *seed)
{
	return rand_r(seed) % (span->us + 1);
}

static void note_outcome(struct span *span, bool was_done)
{
	span->n_early += !was_done;
	span->n_late += was_done;
	if (span->n_late == 0)
		span->us = 2 * span->us + 50;
	else
		span->us = (was_done ? span->us * 3 / 4 : span->us * 5 / 4) + 50;
}

#define N_TICKS 10

static void begin_run(const struct fixture *f, struct attempt *a)
{
	struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	*a = make_attempt("j");
	store->syncs_log = false; /* a kill, no cut */
	must(store_begin_attempt(store, a, &err), &err);
	for (unsigned k = 0; k < N_TICKS; k++) {
		fill_snapshot(&snap, "j", N_PROCESSES, k);
		must(write_tick(store, a, &snap, NULL, NULL, 0, &err), &err);
	}
	store_close(store);
	a->ended_wall_ns = a->started_wall_ns + 1;
	a->outcome = OUTCOME_SUCCESS;
	a->reason = "exit code 0";
}

static struct attempt the_run; /* that the child ends */

static void finish(const struct fixture *f, int go_fd)
{
	struct store *store = NULL;

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
	CHILD_CHECK(write(go_fd, "x", 1) == 1);
	CHILD_CHECK(store_finish_attempt(store, &the_run, NULL, 0, NULL) == 0);
}

/* Until the moments span it all, however fast the machine is. */
static bool goes_on(const struct span *span, int n)
{
	bool has_both = span->n_early > 0 && span->n_late > 0;

	return n < N_KILLS_EACH || (!has_both && n < 300);
}

/* Ended with all that belongs to it, or not at all; and who comes next can end it. */
static void test_kills_at_the_end(void **state)
{
	struct span span = { .us = 500 };
	unsigned seed = 2;

	(void)state;
	for (int i = 0; goes_on(&span, i); i++) {
		struct fixture *f = NULL;
		struct err err = ERR_INIT;
		struct store *store;

		assert_int_equal(fixture_setup((void **)&f), 0);
		begin_run(f, &the_run);
		note_outcome(&span, kill_after(finish, f, choose_moment(&span, &seed)));
		store = must_open(f->db, STORE_WRITE);
		assert_is_sound(f->db);
		assert_int_equal(raw_sql(f->db, COUNT_TICKS), N_TICKS);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks") == 0,
				 raw_sql(f->db, "SELECT outcome NOT NULL FROM attempts"));
		must(store_finish_attempt(store, &the_run, NULL, 0, &err), &err);
		store_close(store);
		assert_int_equal(count_samples(f->db), N_TICKS * N_PROCESSES);
		fixture_teardown((void **)&f);
	}
	assert_true(span.n_early > 0 && span.n_late > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kills_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
