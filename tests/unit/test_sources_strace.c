/*
 * The table of strace against the cases of tests/golden/parsers whose kind is "strace".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/syscalls/strace.h"

static int attach(pid_t pid, struct strace **ret, struct err *err)
{
	int r = strace_start(pid, ret, err);

	return r < 0 ? r : strace_await(*ret, err);
}

#define N_GOLDEN 9

static void check_case(const json_t *root)
{
	const json_t *expected = json_object_get(root, "expected");
	const json_t *counts = json_object_get(expected, "syscall_counts");
	const json_t *pcts = json_object_get(expected, "syscall_time_pct");
	struct strace_summary s;
	const char *name;
	json_t *value;
	size_t i = 0;

	assert_int_equal(strace_parse(json_string_value(json_object_get(root, "input")), &s), 0);
	assert_int_equal(s.n, json_object_size(counts));
	json_object_foreach((json_t *)counts, name, value)
	{
		assert_string_equal(s.rows[i].name, name); /* the order as well */
		if (json_is_integer(value))
			assert_int_equal(s.rows[i].count, json_integer_value(value));
		else
			assert_false(u64_known(s.rows[i].count)); /* beyond 64 bits */
		assert_true(s.rows[i].time_pct == json_number_value(json_object_get(pcts, name)));
		i++;
	}
	strace_summary_release(&s);
}

/* jansson has no integers beyond 64 bits: those it reads as reals, if told to. */
static json_t *load(const char *path)
{
	json_error_t error;
	json_t *root = json_load_file(path, JSON_DECODE_INT_AS_REAL, &error);

	return root;
}

static bool is_strace(const json_t *root)
{
	return strcmp(json_string_value(json_object_get(root, "kind")), "strace") == 0;
}

static bool has_huge(const json_t *root)
{
	const json_t *counts = json_object_get(json_object_get(root, "expected"), "syscall_counts");
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)counts, name,
			    value) if (json_number_value(value) > 1e19) return true;
	return false;
}

/* The case with a count beyond 64 bits, whose others are small enough for a double. */
static void check_huge(const json_t *root)
{
	const json_t *counts = json_object_get(json_object_get(root, "expected"), "syscall_counts");
	struct strace_summary s;

	assert_int_equal(strace_parse(json_string_value(json_object_get(root, "input")), &s), 0);
	assert_int_equal(s.n, json_object_size(counts));
	for (size_t i = 0; i < s.n; i++) {
		double count = json_number_value(json_object_get(counts, s.rows[i].name));

		if (count > 1e19)
			assert_false(u64_known(s.rows[i].count));
		else
			assert_int_equal(s.rows[i].count, (uint64_t)count);
	}
	strace_summary_release(&s);
}

static void test_golden(void **state)
{
	const char *tests = getenv("PROCTOR_TESTS");
	char path[4096];
	int n = 0;

	(void)state;
	assert_non_null(tests);
	for (int i = 0; i < 20; i++) {
		json_t *reals, *root;

		snprintf(path, sizeof(path), "%s/golden/parsers/%03d.json", tests, i);
		reals = load(path);
		assert_non_null(reals);
		if (is_strace(reals)) {
			n++;
			root = has_huge(reals) ? NULL : json_load_file(path, 0, NULL);
			if (root)
				check_case(root);
			else
				check_huge(reals);
			json_decref(root);
		}
		json_decref(reals);
	}
	assert_int_equal(n, N_GOLDEN);
}

static void test_columns(void **state)
{
	struct strace_summary s;

	(void)state;
	assert_int_equal(
		strace_parse(" 98.42    0.050125       50124         1         3 read", &s), 0);
	assert_int_equal(s.n, 1);
	assert_true(s.rows[0].seconds == 0.050125);
	assert_int_equal(s.rows[0].errors, 3);
	strace_summary_release(&s);
	assert_int_equal(
		strace_parse(" 1 1 1 5 close\n-1 1 1 5 dup\n1 1e5 1 5 pipe\n1 0x2 1 5 poll\n"
			     "1 1 1 5 3 2 wait4\n1 1 1 5 4 9\n",
			     &s),
		0);
	assert_int_equal(s.n, 1);
	assert_string_equal(s.rows[0].name, "close");
	strace_summary_release(&s);
	assert_int_equal(strace_parse("", &s), 0);
	assert_int_equal(s.n, 0);
	strace_summary_release(&s);
}

/* ---- the program ---- */

/* Counts its calls in memory that is shared with it. */
static pid_t start_counting_caller(atomic_ulong *n_calls)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		syscall(SYS_getppid);
		atomic_fetch_add(n_calls, 1);
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
}

static atomic_ulong *share_counter(void)
{
	void *shared = mmap(NULL, sizeof(atomic_ulong), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(shared, MAP_FAILED);
	return shared;
}

static pid_t start_caller(void)
{
	atomic_ulong *n_calls = share_counter();
	pid_t pid = start_counting_caller(n_calls);

	munmap(n_calls, sizeof(*n_calls)); /* the child has it still */
	return pid;
}

/* The second of two began when it was traced, whenever the first did. */
static void await_calls(atomic_ulong *n_calls)
{
	unsigned long before = atomic_load(n_calls);

	for (int i = 0; i < 6000 && atomic_load(n_calls) < before + 2; i++)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
}

static void end_caller(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static uint64_t count_of(const struct strace_summary *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->rows[i].name, name) == 0)
			return s->rows[i].count;
	return 0;
}

static bool is_traced(pid_t pid)
{
	struct err err = ERR_INIT;

	return strace_check(pid, &err) == -EBUSY;
}

static void test_attach_and_detach(void **state)
{
	struct strace *s = NULL, *second = NULL;
	struct strace_summary table;
	struct err err = ERR_INIT;
	atomic_ulong *n_calls;
	pid_t pid;

	(void)state;
	if (!sources_has_strace())
		skip();
	n_calls = share_counter();
	pid = start_counting_caller(n_calls);
	assert_int_equal(attach(pid, &s, &err), 0);
	assert_true(is_traced(pid));
	assert_int_equal(attach(pid, &second, &err), -EBUSY);
	assert_non_null(strstr(err.text, "already traced"));
	await_calls(n_calls);
	assert_int_equal(strace_detach(s, &table, &err), 0);
	assert_true(count_of(&table, "getppid") > 0);
	assert_false(is_traced(pid));
	strace_summary_release(&table);
	end_caller(pid);
	munmap(n_calls, sizeof(*n_calls));
}

static void test_what_cannot_be_traced(void **state)
{
	struct strace *s = NULL;
	struct err err = ERR_INIT;
	pid_t pid;

	(void)state;
	assert_int_equal(attach(getpid(), &s, &err), -EINVAL);
	assert_int_equal(attach(0, &s, &err), -EINVAL);
	assert_int_equal(attach(-1, &s, &err), -EINVAL);
	pid = start_caller();
	end_caller(pid);
	assert_int_equal(attach(pid, &s, &err), -ESRCH);
	assert_null(s);
}

/* Whoever attached is killed: the process is let go of and lives on. */
static void test_a_killed_tracer_lets_go(void **state)
{
	pid_t pid, middle;
	int ready[2];
	char byte;

	(void)state;
	if (!sources_has_strace())
		skip();
	assert_int_equal(pipe(ready), 0);
	pid = start_caller();
	middle = fork();
	if (middle == 0) {
		struct strace *s = NULL;
		struct err err = ERR_INIT;

		(void)!write(ready[1], attach(pid, &s, &err) == 0 ? "y" : "n", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	end_caller(middle); /* by SIGKILL */
	for (int i = 0; i < 6000 && is_traced(pid); i++)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	assert_false(is_traced(pid));
	assert_int_equal(kill(pid, 0), 0);
	end_caller(pid);
	close(ready[0]);
	close(ready[1]);
}

#define N_FORKS 3000

/* Each of whom strace has a line to say about: more than a pipe holds. */
static pid_t start_forker(int go_fd)
{
	pid_t pid = fork();
	char byte;

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)!read(go_fd, &byte, 1);
	for (int i = 0; i < N_FORKS; i++) {
		pid_t child = fork();

		if (child == 0) {
			syscall(SYS_getppid);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	_exit(0);
}

static bool ends_soon(pid_t pid)
{
	for (int i = 0; i < 6000; i++) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return true;
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
	end_caller(pid);
	return false;
}

static void test_many_processes_do_not_fill_the_pipe(void **state)
{
	struct strace_summary table;
	struct err err = ERR_INIT;
	struct strace *s = NULL;
	int go[2];
	pid_t pid;

	(void)state;
	if (!sources_has_strace())
		skip();
	assert_int_equal(pipe(go), 0);
	pid = start_forker(go[0]);
	assert_int_equal(attach(pid, &s, &err), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_true(ends_soon(pid));
	assert_int_equal(strace_detach(s, &table, &err), 0);
	assert_int_equal(count_of(&table, "getppid"), N_FORKS);
	strace_summary_release(&table);
	close(go[0]);
	close(go[1]);
}

static void test_no_table_is_an_error(void **state)
{
	struct strace_summary table;
	struct err err = ERR_INIT;
	struct strace *s = NULL;
	pid_t pid;

	(void)state;
	if (!sources_has_strace())
		skip();
	pid = start_caller();
	assert_int_equal(attach(pid, &s, &err), 0);
	assert_int_equal(kill(strace_pid(s), SIGKILL), 0);
	assert_int_equal(strace_detach(s, &table, &err), -ENODATA);
	assert_non_null(strstr(err.text, "no table"));
	end_caller(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_attach_and_detach),
		cmocka_unit_test(test_what_cannot_be_traced),
		cmocka_unit_test(test_a_killed_tracer_lets_go),
		cmocka_unit_test(test_many_processes_do_not_fill_the_pipe),
		cmocka_unit_test(test_no_table_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
