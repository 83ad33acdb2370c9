#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/unknown.h"

#define STAT_HEAD "17 (a) b) R\n(S 9) "
#define STAT_TAIL " 1 17 17 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1000 2000 99\n"

static void test_stat_is_parsed(void **state)
{
	uint64_t start = 7;
	char s = '?';

	(void)state;
	assert_int_equal(alive_parse_stat(STAT_HEAD "S" STAT_TAIL, &s, &start), 0);
	assert_int_equal(s, 'S');
	assert_int_equal(start, 4242);
	/* Field 22 may be the last there is. */
	assert_int_equal(alive_parse_stat("1 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 5",
					  &s, &start),
			 0);
	assert_int_equal(s, 'Z');
	assert_int_equal(start, 5);
	/* Two threads, of which the first has ended. */
	assert_int_equal(alive_parse_stat("1 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 2 18 5",
					  &s, &start),
			 0);
	assert_int_equal(s, '?');
}

/* A namespace of its own, which still sees the /proc of the one above. */
static void test_another_namespace_is_refused(void **state)
{
	struct err err = ERR_INIT;
	int status, root_fd = proc_open_root(&err);
	pid_t pid;

	(void)state;
	assert_true(root_fd >= 0);
	close(root_fd);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(77);
		pid = fork();
		if (pid == 0)
			_exit(proc_open_root(&err) != -EXDEV ||
			      strstr(err.text, PROC_IS_FOREIGN) == NULL ||
			      proc_start_ticks(getpid(), &(uint64_t){ 0 }) == 0);
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		printf("# another pid namespace: this user may not make one\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_rubbish_is_refused(void **state)
{
	static const char *const rubbish[] = {
		"",
		")",
		"1 (x)",
		"1 (x) ",
		"1 (x) S",
		"1 (x) S 1 2 3",
		"1 x S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 ",
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -5 1",
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5x 1",
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99999999999999999999 1",
	};
	uint64_t start = 7;
	char s = '?';

	(void)state;
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++)
		assert_int_equal(alive_parse_stat(rubbish[i], &s, &start), -EINVAL);
	assert_int_equal(start, 7);
	assert_int_equal(s, '?');
}

static void test_this_process_lives(void **state)
{
	char boot_id[ALIVE_BOOT_ID_BYTES];
	uint64_t start = 0;

	(void)state;
	proc_boot_id(boot_id);
	assert_int_equal(strlen(boot_id), 36);
	assert_int_equal(proc_start_ticks(getpid(), &start), 0);
	assert_true(start > 0);
	assert_true(proc_is_alive(boot_id, getpid(), start));
	assert_true(proc_is_alive("", getpid(), start));
	assert_true(proc_is_alive(boot_id, getpid(), U64_UNKNOWN));
	assert_false(proc_is_alive(boot_id, getpid(), start + 1));
	assert_false(proc_is_alive("00000000-0000-0000-0000-000000000000", getpid(), start));
}

static void test_the_dead_do_not(void **state)
{
	pid_t pid = fork();
	siginfo_t info;
	uint64_t start;

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_start_ticks(pid, &start), 0);
	assert_false(proc_is_alive("", pid, start)); /* a zombie */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(proc_is_alive("", pid, start));
	assert_int_equal(proc_start_ticks(pid, &start), -ENOENT);
}

static void write_below(int root_fd, const char *path, const char *text)
{
	int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* What cannot be told does not count against it. */
static void test_a_captured_tree(void **state)
{
	static const char *const dirs[] = { "proc", "proc/sys", "proc/sys/kernel",
					    "proc/sys/kernel/random", "proc/17" };
	static const char boot_file[] = "proc/sys/kernel/random/boot_id";
	char dir[] = "/tmp/proctor-alive-XXXXXX";
	int root_fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	root_fd = open(dir, O_PATH | O_DIRECTORY);
	assert_false(proc_is_alive_at(root_fd, "", 17, 4242)); /* no /proc, no process */
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(mkdirat(root_fd, dirs[i], 0700), 0);
	write_below(root_fd, "proc/17/stat", STAT_HEAD "S" STAT_TAIL);
	assert_true(proc_is_alive_at(root_fd, "any", 17, 4242));
	write_below(root_fd, boot_file, "this-boot\n");
	assert_true(proc_is_alive_at(root_fd, "this-boot", 17, 4242));
	assert_false(proc_is_alive_at(root_fd, "this-boo", 17, 4242));
	write_below(root_fd, boot_file, "far too long to be the id of a boot, so it is no such");
	assert_true(proc_is_alive_at(root_fd, "this-boot", 17, 4242));
	write_below(root_fd, "proc/17/stat", "rubbish");
	assert_true(proc_is_alive_at(root_fd, "", 17, 4242));
	write_below(root_fd, "proc/17/stat", STAT_HEAD "X" STAT_TAIL);
	assert_false(proc_is_alive_at(root_fd, "", 17, 4242));
	assert_true(proc_is_alive_at(-1, "", 17, 4242));

	assert_int_equal(unlinkat(root_fd, "proc/17/stat", 0), 0);
	assert_int_equal(unlinkat(root_fd, boot_file, 0), 0);
	for (int i = 4; i >= 0; i--)
		assert_int_equal(unlinkat(root_fd, dirs[i], AT_REMOVEDIR), 0);
	close(root_fd);
	rmdir(dir);
}

static void test_who_has_started_us(void **state)
{
	pid_t parent = getpid(), pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		pid_t child = fork();

		if (child == 0)
			_exit(!proc_is_ancestor(parent) || !proc_is_ancestor(getppid()) ||
			      proc_is_ancestor(getpid()) || proc_is_ancestor(0));
		_exit(waitpid(child, &status, 0) != child || status != 0 ||
		      proc_is_ancestor(child));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(proc_is_ancestor(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_is_parsed),
		cmocka_unit_test(test_another_namespace_is_refused),
		cmocka_unit_test(test_rubbish_is_refused),
		cmocka_unit_test(test_this_process_lives),
		cmocka_unit_test(test_the_dead_do_not),
		cmocka_unit_test(test_a_captured_tree),
		cmocka_unit_test(test_who_has_started_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
