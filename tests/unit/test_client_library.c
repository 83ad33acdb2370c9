/* libproctor: what it asks; where there is no daemon, or one of a stranger; after a fork. */
#include "fake_daemon.h"

#include <fcntl.h>

#define NOBODY 65534

static void test_nothing(void **state)
{
	struct proctor *p = proctor_new();
	char *json = (char *)"untouched";

	(void)state;
	assert_true(proctor_version()[0] >= '0' && proctor_version()[0] <= '9');
	assert_null(proctor_free(NULL));
	assert_int_equal(proctor_open(NULL, NULL), -EINVAL);
	assert_int_equal(proctor_status(NULL, &json), -EINVAL);
	assert_null(json);
	assert_int_equal(proctor_report(NULL, "a", 0, NULL), -EINVAL);
	assert_int_equal(proctor_wait(NULL, "a", 0, NULL), -EINVAL);
	assert_int_equal(proctor_subscribe(NULL, "*", NULL, NULL), -EINVAL);
	assert_int_equal(proctor_listen(NULL, 0), -EINVAL);
	assert_int_equal(proctor_fd(NULL), -ENOTCONN);
	assert_int_equal(proctor_error_code(NULL), 0);
	assert_null(proctor_error_data(NULL));
	assert_string_not_equal(proctor_error(NULL), "");
	proctor_set_timeout(NULL, 1);
	proctor_free_text(NULL);

	assert_string_equal(proctor_error(p), "");
	assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	assert_int_equal(proctor_listen(p, 0), -ENOTCONN);
	assert_int_equal(proctor_fd(p), -ENOTCONN);
	assert_null(proctor_free(p));
}

static void test_no_daemon(void **state)
{
	struct proctor *p = proctor_new();
	char longest[200];

	(void)state;
	memset(longest, 'p', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(proctor_open(p, "/proc/no-such/socket"), -ENOENT);
	assert_non_null(strstr(proctor_error(p), "no daemon is running"));
	assert_int_equal(proctor_error_code(p), 0);
	assert_int_equal(proctor_open(p, longest), -ENAMETOOLONG);

	setenv("PROCTOR_HOME", "/proc/no-such", 1);
	setenv("XDG_RUNTIME_DIR", "/proc/no-such", 1);
	assert_int_equal(proctor_open(p, NULL), -ENOENT);
	assert_non_null(strstr(proctor_error(p), "/proc/no-such/proctor.sock"));
	unsetenv("PROCTOR_HOME");
	unsetenv("XDG_RUNTIME_DIR");
	proctor_free(p);
}

static void test_stranger(void **state)
{
	struct proctor *p;
	struct fake f;

	(void)state;
	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	p = proctor_new();
	fake_start_as(&f, serve_mirror, NOBODY);
	assert_int_equal(proctor_open(p, f.path), -EPERM);
	assert_non_null(strstr(proctor_error(p), "neither root nor this user"));
	assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	fake_stop(&f);
	proctor_free(p);
}

static int report_of(struct proctor *p, char **ret)
{
	return proctor_report(p, "a\"b", 0, ret);
}

static int report_of_attempt(struct proctor *p, char **ret)
{
	return proctor_report(p, "a", 3, ret);
}

static int context_of_host(struct proctor *p, char **ret)
{
	return proctor_context(p, 0, ret);
}

static int context_of_process(struct proctor *p, char **ret)
{
	return proctor_context(p, 17, ret);
}

static int admit(struct proctor *p, char **ret)
{
	return proctor_admit(p, "{\"x\":[1]}", ret);
}

static int estimate(struct proctor *p, char **ret)
{
	const char *const argv[] = { "make", "a \"b\"", NULL };

	return proctor_estimate(p, argv, ret);
}

static int estimate_nothing(struct proctor *p, char **ret)
{
	return proctor_estimate(p, NULL, ret);
}

static int estimate_file(struct proctor *p, char **ret)
{
	return proctor_estimate_file(p, "sheets:\n", ret);
}

static int cancel(struct proctor *p, char **ret)
{
	return proctor_cancel(p, "a", ret);
}

static int cancel_nothing(struct proctor *p, char **ret)
{
	return proctor_cancel(p, NULL, ret);
}

static int submit(struct proctor *p, char **ret)
{
	return proctor_submit(p, "sheets:\n", NULL, ret);
}

static int submit_as(struct proctor *p, char **ret)
{
	return proctor_submit(p, "s", "a", ret);
}

static int wait_for_job(struct proctor *p, char **ret)
{
	return proctor_wait(p, "a", 60000, ret);
}

static int events(struct proctor *p, char **ret)
{
	return proctor_events(p, NULL, 0, ret);
}

static int events_of_job(struct proctor *p, char **ret)
{
	return proctor_events(p, "a", 7, ret);
}

/* A call, and the method and params that the daemon gets. */
static void test_methods(void **state)
{
	static const struct {
		int (*call)(struct proctor *p, char **ret);
		const char *method, *params;
	} rows[] = {
		{ proctor_status, "daemon.status", NULL },
		{ proctor_top, "daemon.top", NULL },
		{ proctor_jobs, "job.list", NULL },
		{ events, "daemon.events", "{}" },
		{ events_of_job, "daemon.events", "{\"limit\":7,\"job_id\":\"a\"}" },
		{ report_of, "job.report", "{\"job_id\":\"a\\\"b\"}" },
		{ report_of_attempt, "job.report", "{\"job_id\":\"a\",\"attempt\":3}" },
		{ context_of_host, "resource.context", "{}" },
		{ context_of_process, "resource.context", "{\"pid\":17}" },
		{ admit, "admit", "{\"x\":[1]}" },
		{ estimate, "estimate", "{\"command\":[\"make\",\"a \\\"b\\\"\"]}" },
		{ estimate_nothing, "estimate", "{\"command\":[]}" },
		{ estimate_file, "estimate", "{\"file\":\"sheets:\\n\"}" },
		{ cancel, "job.cancel", "{\"job_id\":\"a\"}" },
		{ cancel_nothing, "job.cancel", "{\"job_id\":null}" },
		{ submit, "job.submit", "{\"file\":\"sheets:\\n\",\"workdir\":\"/\"}" },
		{ submit_as, "job.submit", "{\"file\":\"s\",\"workdir\":\"/\",\"job_id\":\"a\"}" },
		{ wait_for_job, "job.wait", "{\"job_id\":\"a\",\"timeout_seconds\":60.0}" },
	};
	char wanted[512], *json;
	int here = open(".", O_RDONLY);
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_mirror);
	p = must_open(&f);
	assert_int_equal(chdir("/"), 0);
	for (size_t i = 0; i < ROWS(rows); i++) {
		const char *params = rows[i].params;

		snprintf(wanted, sizeof(wanted),
			 "{\"jsonrpc\":\"2.0\",\"method\":\"%s\"%s%s,\"id\":%zu}", rows[i].method,
			 params ? ",\"params\":" : "", params ? params : "", i + 1);
		assert_int_equal(rows[i].call(p, &json), 0);
		assert_string_equal(json, wanted);
		proctor_free_text(json);
	}
	assert_int_equal(proctor_phase_enter(p, "load"), 0);
	assert_int_equal(proctor_phase_exit(p, "load"), 0);
	assert_int_equal(fchdir(here), 0);
	close(here);
	proctor_free(p);
	fake_stop(&f);
}

/* Without a daemon the runner of the job is told, in a file that the environment names. */
static void test_phases_without_a_daemon(void **state)
{
	char path[] = "/tmp/proctor-client-XXXXXX", text[512] = "", pid[32];
	struct proctor *p = proctor_new();
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	unsetenv("PROCTOR_PHASES");
	assert_int_equal(proctor_phase_enter(p, "load"), -ENOTCONN);
	setenv("PROCTOR_PHASES", path, 1);
	assert_int_equal(proctor_phase_enter(p, "lo\"ad"), 0);
	assert_int_equal(proctor_phase_exit(p, "lo\"ad"), 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	snprintf(pid, sizeof(pid), "\"pid\":%d", (int)getpid());
	assert_non_null(strstr(text, "{\"enter\":\"lo\\\"ad\""));
	assert_non_null(strstr(text, "}\n{\"method\":\"phase\",\"params\":{\"exit\":"));
	assert_non_null(strstr(text, pid));
	unlink(path);
	assert_int_equal(proctor_phase_exit(p, "load"), -ENOTCONN);
	unsetenv("PROCTOR_PHASES");
	close(fd);
	proctor_free(p);
}

/* 0: all as it should be. */
static int child_of(struct proctor *p, const struct fake *f)
{
	if (proctor_status(p, NULL) != -EBADFD || !strstr(proctor_error(p), "forked"))
		return 1;
	if (proctor_subscribe(p, "*", on_event, NULL) != -EBADFD || proctor_listen(p, 0) != -EBADFD)
		return 2;
	if (proctor_open(p, f->path) < 0 || proctor_status(p, NULL) < 0)
		return 3;
	return proctor_free(p) ? 4 : 0;
}

static void test_fork(void **state)
{
	struct proctor *p;
	struct fake f;
	int status;
	pid_t pid;

	(void)state;
	fake_start(&f, serve_mirror);
	p = must_open(&f);
	assert_int_equal(proctor_status(p, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		proctor_free(p); /* closes the child's copy only */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(proctor_status(p, NULL), 0);
	proctor_free(p);
	fake_stop(&f);
}

/* One at a time is served: the child asks while its parent has no connection but that one. */
static void test_fork_and_ask(void **state)
{
	struct fake f, other;
	struct proctor *p;
	int status;
	pid_t pid;

	(void)state;
	fake_start(&f, serve_mirror);
	fake_start(&other, serve_mirror);
	p = must_open(&f);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child_of(p, &other));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(proctor_status(p, NULL), 0);
	proctor_free(p);
	fake_stop(&f);
	fake_stop(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_no_daemon),
		cmocka_unit_test(test_stranger),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_phases_without_a_daemon),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_and_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
