#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "daemon/phase_owner.h"
#include "model/snapshot.h"
#include "sources/sources.h"

#define IS_TEXT_SHELL(words) phase_is_text_shell(words, sizeof(words))

static void test_shells_that_run_a_text(void **state)
{
	(void)state;
	assert_true(IS_TEXT_SHELL("sh\0-c\0proctor phase enter a; true"));
	assert_true(IS_TEXT_SHELL("/bin/bash\0-lc\0x"));
	assert_true(IS_TEXT_SHELL("bash\0-o\0pipefail\0-ec\0x"));
	assert_true(IS_TEXT_SHELL("dash\0--posix\0-c\0x"));
	assert_false(IS_TEXT_SHELL("sh\0script.sh\0-c"));
	assert_false(IS_TEXT_SHELL("bash\0--norc\0script.sh"));
	assert_false(IS_TEXT_SHELL("bash\0-o"));
	assert_false(IS_TEXT_SHELL("sh"));
	assert_false(IS_TEXT_SHELL("python3\0-c\0x"));
	assert_false(IS_TEXT_SHELL("fresh\0-c\0x"));
	assert_false(phase_is_text_shell("", 0));
	assert_false(phase_is_text_shell("sh\0-c", 5)); /* without its end */
}

/* A process, its end of a pipe that keeps it, and the pid that it has told. */
struct started {
	pid_t pid, told;
	int input;
};

/* Runs argv, which writes a pid to its stdout and then reads its stdin to the end. */
static struct started start(const char *const *argv)
{
	int in[2], out[2];
	char text[32] = "";
	struct started ret;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	ret.pid = fork();
	assert_true(ret.pid >= 0);
	if (ret.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	assert_true(read(out[0], text, sizeof(text) - 1) > 0);
	close(out[0]);
	ret.told = (pid_t)strtol(text, NULL, 10);
	ret.input = in[1];
	return ret;
}

static void stop(struct started *p)
{
	close(p->input);
	waitpid(p->pid, NULL, 0);
}

static void test_the_program_above_a_text_is_the_owner(void **state)
{
	static const char text[] = "sh -c 'sh -c \"echo \\$\\$; cat; :\"; :'; :\n";
	const char *argv[] = { "bash", "/dev/fd/9", NULL };
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int script[2];
	struct started p;

	(void)state;
	assert_int_equal(pipe(script), 0);
	assert_true(write(script[1], text, strlen(text)) > 0);
	close(script[1]);
	assert_int_equal(dup2(script[0], 9), 9);
	p = start(argv);
	close(9);
	close(script[0]);
	assert_true(p.told > 0 && p.told != p.pid);
	assert_int_equal(phase_owner_find(root_fd, p.told, getpid()), p.pid);
	assert_int_not_equal(phase_owner_find(root_fd, p.told, p.pid), p.pid); /* the runner's */
	assert_true(phase_are_kin(&root_fd, p.pid, p.told));
	assert_true(phase_are_kin(&root_fd, p.told, getpid()));
	assert_false(phase_are_kin(&root_fd, p.told, 999999999));
	stop(&p);
	assert_int_equal(phase_owner_find(root_fd, p.told, getpid()), p.told); /* it is gone */
}

static void test_the_first_process_of_a_rank_is_the_owner(void **state)
{
	const char *argv[] = { "env", "PROCTOR_RANK=3", "sh", "-c", "sh -c 'echo $$; cat; :'; :",
			       NULL };
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct started p = start(argv);

	(void)state;
	assert_int_equal(sources_read_rank(root_fd, p.told), 3);
	assert_int_equal(sources_read_rank(root_fd, getpid()), RANK_NONE);
	assert_int_equal(phase_owner_find(root_fd, p.told, 1), p.pid);
	stop(&p);
}

/* A part of a script that was forked is its own: others may run beside it. */
static void test_a_part_of_a_script_is_its_own(void **state)
{
	const char *argv[] = { "bash", "-c", "(echo $BASHPID; cat; :); :", NULL };
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct started p = start(argv);

	(void)state;
	assert_int_not_equal(p.told, p.pid);
	assert_int_equal(phase_owner_find(root_fd, p.told, getpid()), p.told);
	stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shells_that_run_a_text),
		cmocka_unit_test(test_the_program_above_a_text_is_the_owner),
		cmocka_unit_test(test_the_first_process_of_a_rank_is_the_owner),
		cmocka_unit_test(test_a_part_of_a_script_is_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
