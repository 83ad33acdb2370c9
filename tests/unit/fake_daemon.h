/*
 * fake_daemon - a daemon that is played by a child, for programs that see libproctor as others do.
 */
#ifndef PROCTOR_TESTS_FAKE_DAEMON_H
#define PROCTOR_TESTS_FAKE_DAEMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
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
#define SHORT_MS 50

struct fake {
	char dir[32], path[64];
	pid_t pid;
};

/* What it does with a client: all of its life. */
typedef void serve_fn(FILE *in, FILE *out);

static inline int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0)
		_exit(100);
	return fd;
}

static inline void serve_all(int fd, serve_fn *serve)
{
	for (;;) {
		int client = accept(fd, NULL, NULL);
		FILE *in = fdopen(client, "r"), *out = fdopen(dup(client), "w");

		serve(in, out);
		fclose(in);
		fclose(out);
	}
}

static inline void fake_start_as(struct fake *f, serve_fn *serve, uid_t uid)
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

static inline void fake_start(struct fake *f, serve_fn *serve)
{
	fake_start_as(f, serve, geteuid());
}

static inline void fake_stop(struct fake *f)
{
	kill(f->pid, SIGKILL);
	assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
	unlink(f->path);
	rmdir(f->dir);
}

static inline struct proctor *must_open(const struct fake *f)
{
	struct proctor *p = proctor_new();

	if (proctor_open(p, f->path) < 0)
		fail_msg("%s", proctor_error(p));
	return p;
}

static inline int id_of(const char *request)
{
	const char *id = strstr(request, "\"id\":");

	return id ? atoi(id + 5) : 0;
}

static inline void answer(FILE *out, const char *request, const char *result)
{
	fprintf(out, "{\"jsonrpc\":\"2.0\",\"result\":%s,\"id\":%d}\n", result, id_of(request));
	fflush(out);
}

static inline void tell(FILE *out, const char *topic, int k)
{
	fprintf(out,
		"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"topic\":\"%s\","
		"\"timestamp\":1700000000.5,\"data\":{\"k\":%d}}}\n",
		topic, k);
}

static inline void tell_lost(FILE *out, int count)
{
	fprintf(out, "{\"method\":\"event\",\"params\":{\"topic\":\"lost\",\"count\":%d}}\n",
		count);
}

/* The request is its own answer. */
static inline void serve_mirror(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		answer(out, line, line);
	}
}

struct heard {
	struct proctor *p;
	unsigned n, n_lost, n_notices, n_asked;
	int last_k;
	unsigned stop_at;
	const char *ask; /* this method, about each event */
};

static inline int on_event(void *ctx, const struct proctor_event *event)
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

#endif
