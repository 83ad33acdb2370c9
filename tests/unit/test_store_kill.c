#include "store_fixture.h"

#include <signal.h>
#include <time.h>

#include "rounds.h"
#include "store_writer.h"

#define N_KILLS ROUNDS(200)
#define N_PROCESSES 5

/* Writes ticks for ever and says so after each; only a signal ends it. */
static void write_ticks(const char *db, bool waits, int told_fd)
{
	struct attempt a = make_attempt("j");
	struct snapshot snap;
	struct store *store = NULL;

	snapshot_init(&snap);
	CHILD_CHECK(store_open(db, STORE_WRITE, &store, NULL) == 0);
	if (!waits)
		store_leave_disk(store); /* which has nothing to do with who is killed */
	CHILD_CHECK(store_begin_attempt(store, &a, NULL) == 0);
	for (unsigned k = 0;; k++) {
		fill_snapshot(&snap, "j", N_PROCESSES, k);
		CHILD_CHECK(write_tick(store, &a, &snap, NULL, NULL, 0, NULL) == 0);
		CHILD_CHECK(write(told_fd, "x", 1) == 1);
	}
}

static void pause_us(long us)
{
	const struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

/* Takes in what the writer tells until it has told of so many ticks, or has ended. */
static int64_t read_told(int fd, int64_t told, int64_t enough)
{
	char bytes[4096];
	ssize_t n = 1;

	while (told < enough && (n = read(fd, bytes, sizeof(bytes))) > 0)
		told += n;
	return told;
}

/* How many ticks a writer said it had written, before it was killed a little after so many. */
static int64_t kill_a_writer(const char *db, bool waits, int64_t n_ticks, long after_us)
{
	int fds[2], status = -1;
	int64_t told;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		write_ticks(db, waits, fds[1]);
	assert_true(pid > 0);
	close(fds[1]);
	told = read_told(fds[0], 0, n_ticks);
	pause_us(after_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	told = read_told(fds[0], told, INT64_MAX);
	close(fds[0]);
	return told;
}

/*
 * Each time: the database opens, is sound, and has all that was told, and at most the one
 * tick more that was written and not yet told. Every third writer gets as far as a fold.
 */
static void kill_many(const struct fixture *f, bool waits)
{
	unsigned seed = 1;
	int64_t before = 0, n_told = 0;

	for (int i = 0; i < N_KILLS; i++) {
		int64_t n_ticks = rand_r(&seed) % (i % 3 == 0 ? 260 : 40);
		int64_t told = kill_a_writer(f->db, waits, n_ticks, rand_r(&seed) % 3000);
		int64_t now;

		store_close(must_open(f->db, STORE_WRITE));
		assert_is_sound(f->db);
		now = raw_sql(f->db, COUNT_TICKS);
		assert_in_range(now - before, told, told + 1);
		before = now;
		n_told += told;
	}
	assert_int_equal(count_samples(f->db), N_PROCESSES * raw_sql(f->db, COUNT_TICKS));
	assert_true(n_told > N_KILLS);
	assert_true(raw_sql(f->db, "SELECT count(*) FROM folds") > 0);
}

static void test_many_kills(void **state)
{
	kill_many(*state, true);
}

static void test_many_kills_while_another_waits(void **state)
{
	kill_many(*state, false);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_many_kills),
		STORE_TEST(test_many_kills_while_another_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
