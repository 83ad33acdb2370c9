#include "jsonl_fixture.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "rounds.h"

/*
 * Many processes at one log. A line is {"w":WRITER,"n":NUMBER,"x":"…"}: each
 * writer counts its own, and the x's differ from line to line in length and letter.
 */
#define N_WRITERS 8
#define N_LINES 2000

/* Seen by all processes of a test. */
struct shared {
	atomic_long n_written, n_seen; /* lines */
	atomic_bool is_done;	       /* no more are to come */
};

static struct shared *share(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(s, MAP_FAILED);
	return s;
}

static void format_line(struct buf *b, int writer, int n, size_t len)
{
	buf_reset(b);
	buf_printf(b, "{\"w\":%d,\"n\":%d,\"x\":\"", writer, n);
	if (buf_reserve(b, len) == 0) {
		memset(b->data + b->len, 'a' + (writer + n) % 26, len);
		b->len += len;
	}
	buf_add_str(b, "\"}");
}

/* False unless the line is one of format_line(), to its last byte. */
static bool parse_line(const struct jsonl_line *line, int *ret_writer, int *ret_n)
{
	CLEANUP(buf_release) struct buf b = BUF_INIT;
	int at = 0;

	if (sscanf(line->text, "{\"w\":%d,\"n\":%d,\"x\":\"%n", ret_writer, ret_n, &at) != 2 ||
	    (size_t)at + 2 > line->len)
		return false;
	format_line(&b, *ret_writer, *ret_n, line->len - (size_t)at - 2);
	return b.len == line->len && memcmp(b.data, line->text, b.len) == 0;
}

/* Children end with the test, whatever becomes of it. */
static pid_t must_fork(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Waits until so many of the children have ended; if one fails the rest would wait for ever. */
static void must_succeed(const pid_t *pids, size_t n, size_t n_ends)
{
	int status = 0;

	while (n_ends-- > 0 && status == 0)
		assert_true(waitpid(-1, &status, 0) > 0);
	for (size_t i = 0; status != 0 && i < n; i++)
		kill(pids[i], SIGKILL);
	while (status != 0 && waitpid(-1, NULL, 0) > 0)
		;
	assert_int_equal(status, 0);
}

/* ---- writers and a reader, all at full speed ---- */

struct race {
	const struct fixture *f;
	struct shared *s;
	uint64_t max_bytes;
	long max_unread; /* lines; writers wait for the reader when there are more */
};

static void child_write(const struct race *race, int writer)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct jsonl *log = jsonl_new(log_path(race->f, ""), race->max_bytes);

	jsonl_set_lock_timeout(log, 60000);
	for (int n = 0; n < N_LINES; n++) {
		struct err err = ERR_INIT;

		while (atomic_load(&race->s->n_written) - atomic_load(&race->s->n_seen) >=
		       race->max_unread)
			sched_yield();
		atomic_fetch_add(&race->s->n_written, 1);
		format_line(&line, writer, n, (size_t)(n * 7 + writer) % 100);
		if (jsonl_append(log, line.data, line.len, &err) < 0)
			fprintf(stderr, "%s\n", err.text);
		CHILD_CHECK(err.code == 0);
	}
	jsonl_free(log);
}

/* Each line whole, once and in its writer's order; a gap only where the reader said so. */
static void child_read(const struct race *race, struct jsonl_tail *tail, bool may_lose)
{
	int next[N_WRITERS] = { 0 };
	bool may_jump[N_WRITERS] = { false };
	struct jsonl_line line;
	bool is_done;
	int r, w, n;

	do {
		is_done = atomic_load(&race->s->is_done);
		while ((r = jsonl_tail_next(tail, &line, NULL)) > 0) {
			CHILD_CHECK(!line.is_after_loss || may_lose);
			for (int i = 0; line.is_after_loss && i < N_WRITERS; i++)
				may_jump[i] = true;
			CHILD_CHECK(parse_line(&line, &w, &n) && w >= 0 && w < N_WRITERS);
			CHILD_CHECK(n == next[w] || (n > next[w] && may_jump[w]));
			may_jump[w] = false;
			next[w] = n + 1;
			atomic_fetch_add(&race->s->n_seen, 1);
		}
		CHILD_CHECK(r == 0);
	} while (!is_done);
	for (int i = 0; i < N_WRITERS; i++)
		CHILD_CHECK(next[i] == N_LINES || may_jump[i]);
	jsonl_tail_close(tail);
}

static void start_writers(const struct race *race, pid_t *pids)
{
	for (int i = 0; i < N_WRITERS; i++) {
		pids[i] = must_fork();
		if (pids[i] == 0) {
			child_write(race, i);
			_exit(0);
		}
	}
}

static void run_race(const struct race *race, bool may_lose)
{
	pid_t pids[N_WRITERS + 1];

	pids[N_WRITERS] = must_fork();
	if (pids[N_WRITERS] == 0) {
		struct jsonl_tail *tail = NULL;

		CHILD_CHECK(jsonl_tail_open(log_path(race->f, ""), JSONL_END, &tail, NULL) == 0);
		atomic_fetch_add(&race->s->n_seen, 1); /* ready: the writers may begin */
		child_read(race, tail, may_lose);
		_exit(0);
	}
	while (atomic_load(&race->s->n_seen) == 0 && waitpid(pids[N_WRITERS], NULL, WNOHANG) == 0)
		sched_yield();
	atomic_store(&race->s->n_seen, 0);
	start_writers(race, pids);
	must_succeed(pids, ARRAY_SIZE(pids), N_WRITERS);
	atomic_store(&race->s->is_done, true);
	must_succeed(pids, ARRAY_SIZE(pids), 1);
}

/*
 * A file has about 110 lines, so there are about 140 rotations. Lines have at most 122
 * bytes: what is unread is less than the two files that may follow the one being read.
 */
static void test_a_reader_that_keeps_up_sees_all(void **state)
{
	struct race race = { *state, share(), 8192, 120 };

	run_race(&race, false);
	assert_int_equal(atomic_load(&race.s->n_seen), N_WRITERS * N_LINES);
	munmap(race.s, sizeof(*race.s));
}

static void test_a_slow_reader_is_told_what_it_missed(void **state)
{
	struct race race = { *state, share(), 1024, LONG_MAX };

	run_race(&race, true);
	assert_in_range(atomic_load(&race.s->n_seen), 1, N_WRITERS * N_LINES);
	munmap(race.s, sizeof(*race.s));
}

/* Without a reader nothing paces them; a file may only be left when it is full. */
static void test_rotation_happens_once(void **state)
{
	struct race race = { *state, share(), 300000, LONG_MAX };
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = NULL;
	pid_t writers[N_WRITERS];
	struct jsonl_line line;
	long n_lines = 0;
	int w, n;

	start_writers(&race, writers);
	must_succeed(writers, N_WRITERS, N_WRITERS);
	tail = must_tail(race.f, JSONL_OLDEST);
	while (jsonl_tail_next(tail, &line, NULL) > 0) {
		assert_true(parse_line(&line, &w, &n));
		n_lines++;
	}
	for (int i = 0; i < 3; i++) {
		static const char *const suffixes[] = { "", ".1", ".2" };
		struct stat st;

		assert_int_equal(stat(log_path(race.f, suffixes[i]), &st), 0);
		assert_in_range(st.st_size, i == 0 ? 1 : 300000 - 200, 300000);
	}
	assert_true(n_lines > 2 * 300000 / 160);
	munmap(race.s, sizeof(*race.s));
}

/* ---- kills ---- */

#define N_ROUNDS ROUNDS(200) /* of kills */
#define N_VICTIMS 3

/* Writes long lines, 2 MB in all, and tells of each; only a signal ends it. */
static void write_until_killed(const struct fixture *f, int writer, int told_fd)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct jsonl *log = jsonl_new(log_path(f, ""), 4 << 20);

	jsonl_set_lock_timeout(log, 60000);
	for (int n = 0; n < 40; n++) {
		format_line(&line, writer, n, (size_t)(n * 7919 % 100000));
		CHILD_CHECK(jsonl_append(log, line.data, line.len, NULL) == 0);
		CHILD_CHECK(write(told_fd, &writer, sizeof(writer)) == sizeof(writer));
	}
	for (;;)
		pause();
}

/* Counts what the writers told, until this many or to the end. */
static void read_told(int fd, int *told, int enough)
{
	int writer;

	while (enough-- > 0 && read(fd, &writer, sizeof(writer)) == sizeof(writer))
		told[writer]++;
}

static void pause_us(long us)
{
	const struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

/* Starts some writers and kills them a little after they have told of so many lines. */
static void kill_writers(const struct fixture *f, int n_lines, long after_us, int *told)
{
	pid_t pids[N_VICTIMS];
	int fds[2], status;

	assert_int_equal(pipe(fds), 0);
	for (int i = 0; i < N_VICTIMS; i++) {
		pids[i] = must_fork();
		if (pids[i] == 0)
			write_until_killed(f, i, fds[1]);
	}
	close(fds[1]);
	read_told(fds[0], told, n_lines);
	pause_us(after_us);
	for (int i = 0; i < N_VICTIMS; i++)
		assert_int_equal(kill(pids[i], SIGKILL), 0);
	for (int i = 0; i < N_VICTIMS; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	read_told(fds[0], told, INT_MAX);
	close(fds[0]);
}

static bool ends_with_newline(const char *path)
{
	int fd = open(path, O_RDONLY);
	char last = '\n';
	off_t size = lseek(fd, 0, SEEK_END);

	if (size > 0 && pread(fd, &last, 1, size - 1) != 1)
		last = '?';
	close(fd);
	return last == '\n';
}

/* Reads on: every line is whole, and of each writer there are as many as it told, or one more. */
static void assert_nothing_lost(struct jsonl_tail *tail, const int *told)
{
	int next[N_VICTIMS] = { 0 };
	struct jsonl_line line;
	int r, w, n;

	while ((r = jsonl_tail_next(tail, &line, NULL)) > 0) {
		assert_false(line.is_after_loss);
		assert_true(parse_line(&line, &w, &n));
		assert_in_range(w, 0, N_VICTIMS - 1);
		assert_int_equal(n, next[w]++);
	}
	assert_int_equal(r, 0);
	for (int i = 0; i < N_VICTIMS; i++)
		assert_in_range(next[i], told[i], told[i] + 1);
}

/*
 * Lines are long, so that some are killed in the middle of one. What three write before
 * the reader looks again is less than two files, so nothing may be lost.
 */
static void test_many_kills(void **state)
{
	struct fixture *f = *state;
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 4 << 20);
	unsigned seed = 1;
	int n_torn = 0;

	for (int i = 0; i < N_ROUNDS; i++) {
		int told[N_VICTIMS] = { 0 };
		struct jsonl_line line;

		kill_writers(f, rand_r(&seed) % 30, rand_r(&seed) % 1000, told);
		n_torn += !ends_with_newline(log_path(f, ""));
		assert_nothing_lost(tail, told);
		must_append(log, "{\"next\":1}");
		assert_true(ends_with_newline(log_path(f, "")));
		assert_int_equal(jsonl_tail_next(tail, &line, NULL), 1);
		assert_string_equal(line.text, "{\"next\":1}");
	}
	print_message("# after %d of %d rounds half a line was left\n", n_torn, N_ROUNDS);
}

/* ---- half lines under the eyes of a reader ---- */

/* What a writer does that is killed in the middle of a line. */
static void write_half(const struct fixture *f, const struct buf *line)
{
	int fd = open(log_path(f, ""), O_WRONLY | O_APPEND | O_CREAT, 0600);
	ssize_t half = (ssize_t)(line->len / 2);

	CHILD_CHECK(write(fd, line->data, (size_t)half) == half);
	close(fd);
}

/* It never gets far ahead, so that the reader is always where the halves are. */
static void child_replace_halves(const struct race *race, int n_rounds)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct jsonl *log = jsonl_new(log_path(race->f, ""), race->max_bytes);

	for (int n = 0; n < n_rounds; n++) {
		while (n - atomic_load(&race->s->n_seen) >= race->max_unread)
			sched_yield();
		format_line(&line, 1, n, 400000);
		write_half(race->f, &line);
		format_line(&line, 0, n, 100000 + (size_t)(n * 3700 % 200000));
		CHILD_CHECK(jsonl_append(log, line.data, line.len, NULL) == 0);
	}
	jsonl_free(log);
}

/* A reader never gets the beginning of one and the end of another. */
static void test_no_half_is_glued_to_another(void **state)
{
	struct race race = { *state, share(), 4 << 20, 2 };
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(race.f, JSONL_OLDEST);
	const int n_rounds = 2000;
	struct jsonl_line line;
	pid_t pid = must_fork();
	int w, n;

	if (pid == 0) {
		child_replace_halves(&race, n_rounds);
		_exit(0);
	}
	while (atomic_load(&race.s->n_seen) < n_rounds) {
		int r = jsonl_tail_next(tail, &line, NULL);

		if (r == 0 && waitpid(pid, NULL, WNOHANG) == 0)
			continue;
		if (r == 0) /* the writer has ended, after we looked or before */
			r = jsonl_tail_next(tail, &line, NULL);
		assert_int_equal(r, 1);
		assert_true(parse_line(&line, &w, &n) && !line.is_after_loss);
		assert_int_equal(w, 0);
		assert_int_equal(n, atomic_fetch_add(&race.s->n_seen, 1));
	}
	munmap(race.s, sizeof(*race.s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		JSONL_TEST(test_a_reader_that_keeps_up_sees_all),
		JSONL_TEST(test_a_slow_reader_is_told_what_it_missed),
		JSONL_TEST(test_rotation_happens_once),
		JSONL_TEST(test_many_kills),
		JSONL_TEST(test_no_half_is_glued_to_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
