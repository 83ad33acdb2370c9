#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "jobs/jobs.h"
#include "jobs/spawn.h"

static void on_held(void *ctx, pid_t pid)
{
	*(pid_t *)ctx = pid;
}

static void test_who_waits_is_told(void **state)
{
	const char *const argv[] = { "sh", "-c", "exit 7", NULL };
	const struct sheet_spec sheet = { .argv = argv };
	struct inherited inherited;
	struct spawned spawned;
	struct err err = ERR_INIT;
	pid_t held = 0;
	int status;

	(void)state;
	inherited_note(&inherited);
	assert_int_equal(spawn_command(&(struct spawn_request){ .sheet = &sheet,
								.rank = RANK_NONE,
								.job_id = "j",
								.inherited = &inherited,
								.held = on_held,
								.ctx = &held },
				       &spawned, &err),
			 0);
	assert_int_equal(held, spawned.pid);
	assert_int_equal(waitpid(spawned.pid, &status, 0), spawned.pid);
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void stop_here(int sig)
{
	(void)sig;
	raise(SIGSTOP);
}

/* From now on whoever changes its folder is stopped there first: nobody in the parent does. */
static void trap_chdir(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_chdir, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	signal(SIGSYS, stop_here);
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		skip();
}

/* Ctrl-Z right after the fork: it is counted all the same, as nothing of the command has run. */
static void test_who_is_stopped_on_its_way_is_told_too(void **state)
{
	const char *const argv[] = { "true", NULL };
	const struct sheet_spec sheet = { .argv = argv, .workdir = "/" };
	struct inherited inherited;
	struct spawned spawned;
	struct err err = ERR_INIT;
	pid_t held = 0;

	(void)state;
	inherited_note(&inherited);
	trap_chdir();
	spawn_command(&(struct spawn_request){ .sheet = &sheet,
					       .rank = RANK_NONE,
					       .job_id = "j",
					       .inherited = &inherited,
					       .held = on_held,
					       .ctx = &held },
		      &spawned, &err);
	assert_true(spawned.pid > 0);
	assert_int_equal(held, spawned.pid);
	kill(spawned.pid, SIGKILL);
	waitpid(spawned.pid, NULL, 0);
}

/* As the shell of the command sees it; the last of two entries counts, and its own PATH finds it.
 */
static void test_environment(void **state)
{
	const char *const argv[] = { "sh", "-c",
				     "test \"$A$PROCTOR_SHEET$LOCAL_RANK$WORLD_SIZE\" = second214"
				     " && test -n \"$KEPT\" && test $PATH = /bin",
				     NULL };
	const struct env_entry env[] = { { "A", "first" }, { "A", "second" }, { "PATH", "/bin" } };
	const struct sheet_spec sheet = {
		.argv = argv, .num = 2, .ranks = 4, .env = env, .n_env = ARRAY_SIZE(env)
	};
	struct inherited inherited;
	struct spawned spawned;
	struct err err = ERR_INIT;
	CLEANUP(free_ptr) char *path = NULL;
	int status = -1;

	(void)state;
	setenv("KEPT", "1", 1);
	path = strdup(getenv("PATH"));
	setenv("PATH", "/nowhere", 1);
	inherited_note(&inherited);
	assert_int_equal(spawn_command(&(struct spawn_request){ .sheet = &sheet,
								.rank = 1,
								.job_id = "j",
								.inherited = &inherited },
				       &spawned, &err),
			 0);
	assert_int_equal(waitpid(spawned.pid, &status, 0), spawned.pid);
	assert_int_equal(status, 0);
	assert_string_equal(getenv("PATH"), "/nowhere"); /* ours is as it was */
	assert_null(getenv("A"));
	setenv("PATH", path, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_who_waits_is_told),
		cmocka_unit_test(test_who_is_stopped_on_its_way_is_told_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
