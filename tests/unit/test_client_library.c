#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <proctor/proctor.h>

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define NOBODY 65534
#define SHORT_MS 50
#define KEPT_EVENTS 4096 /* while an answer is awaited */

/* ---- a daemon that is played by a child ---- */

struct fake {
	char dir[32], path[64];
	pid_t pid;
};

/* What it does with a client: all of its life. */
typedef void serve_fn(FILE *in, FILE *out);

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0)
		_exit(100);
	return fd;
}

static void serve_all(int fd, serve_fn *serve)
{
	for (;;) {
		int client = accept(fd, NULL, NULL);
		FILE *in = fdopen(client, "r"), *out = fdopen(dup(client), "w");

		serve(in, out);
		fclose(in);
		fclose(out);
	}
}

static void fake_start_as(struct fake *f, serve_fn *serve, uid_t uid)
{
	int ready[2];
	char byte;

	strcpy(f->dir, "/tmp/proctor-client-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(chmod(f->dir, 0777), 0);
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	assert_int_equal(pipe(ready), 0);
	f->pid = fork();
	assert_true(f->pid >= 0);
	if (f->pid == 0) {
		int fd;

		signal(SIGPIPE, SIG_IGN);
		if (uid != geteuid() && setuid(uid) < 0)
			_exit(100);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = listen_at(f->path);
		(void)!write(ready[1], "", 1);
		serve_all(fd, serve);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
}

static void fake_start(struct fake *f, serve_fn *serve)
{
	fake_start_as(f, serve, geteuid());
}

static void fake_stop(struct fake *f)
{
	kill(f->pid, SIGKILL);
	assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
	unlink(f->path);
	rmdir(f->dir);
}

static struct proctor *must_open(const struct fake *f)
{
	struct proctor *p = proctor_new();

	if (proctor_open(p, f->path) < 0)
		fail_msg("%s", proctor_error(p));
	return p;
}

/* ---- what it says ---- */

static int id_of(const char *request)
{
	const char *id = strstr(request, "\"id\":");

	return id ? atoi(id + 5) : 0;
}

static void answer(FILE *out, const char *request, const char *result)
{
	fprintf(out, "{\"jsonrpc\":\"2.0\",\"result\":%s,\"id\":%d}\n", result, id_of(request));
	fflush(out);
}

static void tell(FILE *out, const char *topic, int k)
{
	fprintf(out,
		"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"topic\":\"%s\","
		"\"timestamp\":1700000000.5,\"data\":{\"k\":%d}}}\n",
		topic, k);
}

static void tell_lost(FILE *out, int count)
{
	fprintf(out, "{\"method\":\"event\",\"params\":{\"topic\":\"lost\",\"count\":%d}}\n",
		count);
}

/* The request is its own answer. */
static void serve_mirror(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		answer(out, line, line);
	}
}

/* The request is the data of the error. */
static void serve_refusals(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		fprintf(out, "{\"error\":{\"code\":-32602,\"data\":%s},\"id\":%d}\n", line,
			id_of(line));
		fflush(out);
	}
}

static void serve_errors(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		if (strstr(line, "\"fine\""))
			answer(out, line, "[1,null,0.5,\"a\"]");
		else
			fprintf(out,
				"{\"error\":{\"code\":%s,\"message\":\"no '%s'\",\"data\":{\"a\": 1}},"
				"\"id\":%d}\n",
				strstr(line, "\"odd\"") ? "-1" : "-32001", "x", id_of(line));
		fflush(out);
	}
}

/* "burst" n: n events, then the answer. "loss": a notice, then the answer. */
static void serve_events(FILE *in, FILE *out)
{
	char line[1024];
	int k = 0;

	while (fgets(line, sizeof(line), in)) {
		const char *n = strstr(line, "\"params\":[");

		for (int i = 0; n && i < atoi(n + 10); i++)
			tell(out, "job.started", k++);
		if (strstr(line, "\"loss\""))
			tell_lost(out, 7);
		answer(out, line, "null");
		if (strstr(line, "\"after\""))
			tell(out, "job.completed", k++);
		fflush(out);
	}
}

/* Answers the second request only, and the first after it. */
static void serve_late(FILE *in, FILE *out)
{
	char first[1024], second[1024];

	if (!fgets(first, sizeof(first), in) || !fgets(second, sizeof(second), in))
		return;
	answer(out, first, "\"late\"");
	answer(out, second, "\"right\"");
	(void)!fgets(first, sizeof(first), in);
}

/* Closes after the first request, without a word. */
static void serve_once(FILE *in, FILE *out)
{
	char line[1024];

	(void)!fgets(line, sizeof(line), in);
	(void)out;
}

/* ---- without a daemon ---- */

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

/* ---- calls ---- */

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

static void test_errors(void **state)
{
	struct proctor *p;
	struct fake f;
	char *json;

	(void)state;
	fake_start(&f, serve_errors);
	p = must_open(&f);
	assert_int_equal(proctor_call(p, "missing", NULL, &json), -ENOENT);
	assert_null(json);
	assert_string_equal(proctor_error(p), "no 'x'");
	assert_int_equal(proctor_error_code(p), -32001);
	assert_string_equal(proctor_error_data(p), "{\"a\":1}");

	/* What was said before is not said of this. */
	assert_int_equal(proctor_call(p, "fine", "[\n]", &json), -EINVAL);
	assert_int_equal(proctor_error_code(p), 0);
	assert_null(proctor_error_data(p));
	assert_int_equal(proctor_call(p, NULL, NULL, &json), -EINVAL);

	assert_int_equal(proctor_call(p, "odd", NULL, &json), -EREMOTEIO);
	assert_int_equal(proctor_error_code(p), -1);
	assert_int_equal(proctor_call(p, "fine", NULL, NULL), 0);
	assert_int_equal(proctor_call(p, "fine", NULL, &json), 0);
	assert_string_equal(json, "[1,null,0.5,\"a\"]");
	assert_string_equal(proctor_error(p), "");
	assert_int_equal(proctor_error_code(p), 0);
	proctor_free_text(json);
	proctor_free(p);
	fake_stop(&f);
}

static void test_late_answer(void **state)
{
	struct proctor *p;
	struct fake f;
	char *json;

	(void)state;
	fake_start(&f, serve_late);
	p = must_open(&f);
	proctor_set_timeout(p, -1);
	/* The time to wait for a job is its own, and for this call only. */
	assert_int_equal(proctor_wait(p, "a", SHORT_MS, &json), -ETIMEDOUT);
	assert_null(json);
	assert_int_equal(proctor_status(p, &json), 0);
	assert_string_equal(json, "\"right\"");
	proctor_free_text(json);
	proctor_free(p);
	fake_stop(&f);
}

/* The daemon goes, is noticed, and is found again. SIGPIPE would end this program. */
static void test_gone(void **state)
{
	struct proctor *p;
	struct fake f;

	(void)state;
	signal(SIGPIPE, SIG_DFL);
	fake_start(&f, serve_once);
	p = must_open(&f);
	assert_int_equal(proctor_status(p, NULL), -ECONNRESET);
	assert_non_null(strstr(proctor_error(p), "closed the connection"));
	for (int i = 0; i < 3; i++)
		assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	assert_int_equal(proctor_open(p, f.path), 0);
	assert_int_equal(proctor_status(p, NULL), -ECONNRESET);
	fake_stop(&f);
	assert_int_equal(proctor_open(p, f.path), -ENOENT);
	assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	proctor_free(p);
}

/* ---- events ---- */

struct heard {
	struct proctor *p;
	unsigned n, n_lost, n_notices, n_asked;
	int last_k;
	unsigned stop_at;
	const char *ask; /* this method, about each event */
};

static int on_event(void *ctx, const struct proctor_event *event)
{
	struct heard *h = ctx;
	int k;

	h->n++;
	if (strcmp(event->topic, "lost") == 0) {
		assert_true(isnan(event->timestamp));
		assert_int_equal(sscanf(event->data, "{\"count\":%d}", &k), 1);
		assert_int_equal(event->n_lost, k);
		h->n_lost += (unsigned)k;
		h->n_notices++;
		return 0;
	}
	assert_true(event->timestamp == 1700000000.5);
	assert_int_equal(sscanf(event->data, "{\"k\":%d}", &k), 1);
	assert_int_equal(event->n_lost, 0);
	assert_true(k > h->last_k);
	h->last_k = k;
	if (h->ask) {
		assert_int_equal(proctor_call(h->p, h->ask, NULL, NULL), 0);
		h->n_asked++;
	}
	return h->n == h->stop_at;
}

static int drain(struct proctor *p)
{
	int n = 0, r;

	while ((r = proctor_listen(p, SHORT_MS)) > 0)
		n += r;
	assert_int_equal(r, 0);
	assert_string_equal(proctor_error(p), "");
	return n;
}

static void test_events(void **state)
{
	struct heard heard = { .last_k = -1 };
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_events);
	heard.p = p = must_open(&f);
	assert_int_equal(proctor_listen(p, 0), -EINVAL);
	assert_int_equal(proctor_call(p, "burst", "[2]", NULL), 0); /* nobody wants them */
	assert_int_equal(proctor_subscribe(p, NULL, on_event, &heard), -EINVAL);
	assert_int_equal(proctor_subscribe(p, "job.*", NULL, &heard), -EINVAL);
	assert_int_equal(proctor_subscribe(p, "job.*, sheet.*", on_event, &heard), 0);
	assert_int_equal(proctor_subscribe(p, "*", on_event, &heard), -EALREADY);
	assert_int_equal(proctor_listen(p, SHORT_MS), 0);

	assert_int_equal(proctor_call(p, "burst", "[5]", NULL), 0);
	assert_int_equal(heard.n, 0); /* not inside a call */
	heard.stop_at = 2;
	assert_int_equal(proctor_listen(p, -1), 2);
	assert_int_equal(proctor_listen(p, 0), 3);
	assert_int_equal(heard.last_k, 6);
	assert_int_equal(proctor_listen(p, 0), 0);

	/* A callback asks, and what comes meanwhile is handed over after it. */
	heard.ask = "after";
	heard.stop_at = heard.n + 10;
	assert_int_equal(proctor_call(p, "after", NULL, NULL), 0);
	while (heard.n < heard.stop_at) /* each call takes what has come by then */
		assert_true(proctor_listen(p, -1) > 0);
	assert_int_equal(heard.n_asked, 10);
	proctor_free(p);
	fake_stop(&f);
}

static void test_topics(void **state)
{
	static const struct {
		const char *topics, *params;
	} rows[] = {
		{ "*", "[\"*\"]" },
		{ "job.*,sheet.failed", "[\"job.*\",\"sheet.failed\"]" },
		{ " job.* ,, a\"b ,", "[\"job.*\",\"a\\\"b\"]" },
		{ "", "[]" },
	};
	struct heard heard = { 0 };
	char wanted[512];
	struct fake f;

	(void)state;
	fake_start(&f, serve_refusals);
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct proctor *p = must_open(&f);

		snprintf(wanted, sizeof(wanted),
			 "{\"jsonrpc\":\"2.0\",\"method\":\"events.subscribe\","
			 "\"params\":{\"topics\":%s},\"id\":1}",
			 rows[i].params);
		assert_int_equal(proctor_subscribe(p, rows[i].topics, on_event, &heard), -EINVAL);
		assert_string_equal(proctor_error_data(p), wanted);
		assert_int_equal(proctor_listen(p, 0), -EINVAL);
		proctor_free(p);
	}
	fake_stop(&f);
}

/* However many come while an answer is awaited: the newest are kept, the others counted. */
static void test_lost(void **state)
{
	struct heard heard = { .last_k = -1 };
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_events);
	p = must_open(&f);
	assert_int_equal(proctor_subscribe(p, "*", on_event, &heard), 0);
	assert_int_equal(proctor_call(p, "loss", "[3]", NULL), 0);
	assert_int_equal(drain(p), 4);
	assert_int_equal(heard.n_lost, 7);
	assert_int_equal(heard.n_notices, 1);

	assert_int_equal(proctor_call(p, "loss", "[1]", NULL),
			 0); /* what a notice told is not lost */
	assert_int_equal(proctor_call(p, "burst", "[10000]", NULL), 0);
	assert_int_equal(drain(p), KEPT_EVENTS + 1);
	assert_int_equal(heard.n_lost, 7 + 1 + 7 + 10000 - KEPT_EVENTS);
	assert_int_equal(heard.n_notices, 2);
	assert_int_equal(heard.last_k, 10003);
	proctor_free(p);
	fake_stop(&f);
}

static void test_poll(void **state)
{
	struct heard heard = { .last_k = -1 };
	struct pollfd poll_fd = { .events = POLLIN };
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_events);
	p = must_open(&f);
	poll_fd.fd = proctor_fd(p);
	assert_true(poll_fd.fd >= 0);
	assert_true(fcntl(poll_fd.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(proctor_subscribe(p, "*", on_event, &heard), 0);
	assert_int_equal(proctor_listen(p, 0), 0);
	for (unsigned n = 1; n <= 20; n++) {
		assert_int_equal(proctor_call(p, "after", NULL, NULL), 0);
		while (proctor_listen(p, 0) > 0)
			;
		while (heard.n < n) {
			assert_int_equal(poll(&poll_fd, 1, -1), 1);
			assert_true(proctor_listen(p, 0) >= 0);
		}
	}
	proctor_free(p);
	fake_stop(&f);
}

/* ---- fork ---- */

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

/* ---- a daemon that is none ---- */

static const char *said; /* set before the fork */

static void serve_said(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		fputs(said, out);
		fflush(out);
	}
}

static void serve_endless_line(FILE *in, FILE *out)
{
	static const char block[65536] = { [0 ... 65535] = '[' };
	char line[1024];

	(void)!fgets(line, sizeof(line), in);
	while (fwrite(block, sizeof(block), 1, out) == 1)
		;
}

/* What the daemon answers to a subscription and to a call, and what comes of the call. */
static void test_nonsense(void **state)
{
	static const struct {
		const char *said;
		int result;
	} rows[] = {
		{ "", -ETIMEDOUT },
		{ "{\"jsonrpc\":\"2.0\",\"result\":nu", -ETIMEDOUT },
		{ "{\"result\":1,\"id\":77}\n", -ETIMEDOUT },
		{ "{\"result\":1,\"id\":\"1\"}\n", -ETIMEDOUT },
		{ "{\"result\":1,\"id\":1.0}\n", -ETIMEDOUT },
		{ "{\"result\":1}\n[]\n{}\nnull\n17\n\"a\"\n", -ETIMEDOUT },
		{ "{\"method\":\"event\"}\n{\"method\":\"event\",\"params\":[]}\n", -ETIMEDOUT },
		{ "{\"method\":\"event\",\"params\":{\"topic\":5}}\n", -ETIMEDOUT },
		{ "{\"method\":\"event\",\"params\":{\"topic\":\"lost\",\"count\":-1}}\n",
		  -ETIMEDOUT },
		{ "hello\n", -EBADMSG },
		{ "\n", -EBADMSG },
		{ "\x80\xff\x01\n", -EBADMSG },
		{ "{\"result\":1e999,\"id\":1}\n", -EBADMSG },
		{ "{\"result\":99999999999999999999,\"id\":1}\n", -EBADMSG },
		{ "{\"id\":1}\n", -EBADMSG },
		{ "{\"id\":1,\"error\":5}\n", -EREMOTEIO },
		{ "{\"id\":null,\"error\":{\"code\":\"x\",\"message\":7}}\n", -EREMOTEIO },
	};

	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct heard heard = { 0 };
		struct proctor *p;
		struct fake f;
		char *json;

		said = rows[i].said;
		fake_start(&f, serve_said);
		p = must_open(&f);
		proctor_set_timeout(p, SHORT_MS);
		if (proctor_status(p, &json) != rows[i].result)
			fail_msg("row %zu: %s", i, proctor_error(p));
		assert_null(json);
		assert_string_not_equal(proctor_error(p), "");
		assert_true(proctor_subscribe(p, "*", on_event, &heard) < 0);
		proctor_free(p);
		fake_stop(&f);
	}
}

static void test_endless_line(void **state)
{
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_endless_line);
	p = must_open(&f);
	proctor_set_timeout(p, -1);
	assert_int_equal(proctor_status(p, NULL), -EMSGSIZE);
	assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	proctor_free(p);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_no_daemon),
		cmocka_unit_test(test_stranger),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_phases_without_a_daemon),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_late_answer),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_topics),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_and_ask),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_endless_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
