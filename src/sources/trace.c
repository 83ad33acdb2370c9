/*
 * trace - every system call of a process, as strace writes them, bounded in time and size.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/unknown.h"
#include "sources/sources.h"
#include "sources/strace.h"

#define PIECE_BYTES 65536
#define LAST_WORDS_MS 3000 /* for strace to let go */
#define POLL_MS 100

struct trace {
	const struct trace_options *options;
	pid_t target, strace;
	int fd;
	struct buf text; /* what was read and not written: the beginning of a line, mostly */
	struct trace_result result;
	uint64_t deadline_ns;
	bool is_over;
};

static void release(struct trace *t)
{
	strace_end(t->strace);
	close_fd(&t->fd);
	buf_release(&t->text);
}

static void finish(struct trace *t, enum trace_end why)
{
	t->result.end = why;
	t->is_over = true;
}

/* The whole lines of the first n bytes, as many as still fit. */
static int write_lines(struct trace *t)
{
	const char *last = memrchr(t->text.data, '\n', t->text.len);
	size_t n = last ? (size_t)(last - t->text.data) + 1 : 0;
	uint64_t room = t->options->max_bytes - t->result.n_bytes;
	int r;

	if (n > room) {
		last = memrchr(t->text.data, '\n', (size_t)room);
		n = last ? (size_t)(last - t->text.data) + 1 : 0;
		finish(t, TRACE_FULL);
	}
	r = io_write_all(t->options->out_fd, t->text.data, n);
	if (r < 0)
		return r;
	t->result.n_bytes += n;
	memmove(t->text.data, t->text.data + n, t->text.len - n);
	buf_truncate(&t->text, t->text.len - n);
	if (t->text.len > PIECE_BYTES) /* no line is as long: give up rather than grow */
		finish(t, TRACE_FULL);
	return 0;
}

static int read_piece(struct trace *t)
{
	char bytes[PIECE_BYTES];
	ssize_t n = read(t->fd, bytes, sizeof(bytes));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		finish(t, TRACE_TARGET_ENDED);
	buf_add(&t->text, bytes, (size_t)n);
	return buf_error(&t->text);
}

static int step(struct trace *t)
{
	struct pollfd fds[] = { { .fd = t->fd, .events = POLLIN },
				{ .fd = t->options->stop_fd, .events = POLLIN } };
	int r = 0;

	if (clock_boot_ns() >= t->deadline_ns)
		finish(t, TRACE_TIME_UP);
	if (poll(fds, ARRAY_SIZE(fds), POLL_MS) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[1].revents & POLLIN)
		finish(t, TRACE_STOPPED);
	if (!t->is_over && fds[0].revents)
		r = read_piece(t);
	return r < 0 ? r : write_lines(t);
}

/* Asks it to let go, and reads on while it does, so that it does not wait for us. */
static void let_go(struct trace *t)
{
	uint64_t deadline_ns = clock_boot_ns() + LAST_WORDS_MS * UINT64_C(1000000);
	struct pollfd fd = { .fd = t->fd, .events = POLLIN };
	char bytes[PIECE_BYTES];

	kill(t->strace, SIGINT);
	while (clock_boot_ns() < deadline_ns) {
		(void)poll(&fd, 1, POLL_MS);
		if (read(t->fd, bytes, sizeof(bytes)) == 0)
			return;
	}
}

/* strace first says that it attached, or why not. */
static int await_attach(struct trace *t, struct err *err)
{
	int r = 0;

	while (r == 0 && !t->is_over && !strchr(t->text.data, '\n')) {
		struct pollfd fd = { .fd = t->fd, .events = POLLIN };

		if (clock_boot_ns() >= t->deadline_ns)
			return err_set(err, -ETIMEDOUT,
				       "strace did not attach to process %d in time",
				       (int)t->target);
		(void)poll(&fd, 1, POLL_MS);
		r = read_piece(t);
	}
	if (r < 0)
		return err_set(err, r, "cannot read what strace writes: %s", strerror(-r));
	if (!strstr(t->text.data, " attached"))
		return strace_explain(t->text.data, t->target, err);
	return 0;
}

/* Who is attached keeps its pid: only now it is certain who that is. */
static int check_target(struct trace *t, struct err *err)
{
	uint64_t start_ticks;

	if (!u64_known(t->options->start_ticks) ||
	    (proc_start_ticks(t->target, &start_ticks) == 0 &&
	     start_ticks == t->options->start_ticks))
		return 0;
	let_go(t);
	return err_set(err, -ESRCH, "process %d is gone, and another has its number",
		       (int)t->target);
}

int sources_trace(pid_t pid, const struct trace_options *options, struct trace_result *ret,
		  struct err *err)
{
	CLEANUP(release)
	struct trace t = { .options = options, .target = pid, .fd = -1, .text = BUF_INIT };
	int r = strace_check(pid, err);

	if (r < 0)
		return r;
	r = strace_spawn(pid, "-t", &t.strace, &t.fd, err);
	if (r < 0)
		return r;
	t.deadline_ns = clock_boot_ns() + (uint64_t)(options->seconds * 1e9);
	r = await_attach(&t, err);
	if (r == 0)
		r = check_target(&t, err);
	if (r < 0)
		return r;
	while (r == 0 && !t.is_over)
		r = step(&t);
	if (t.result.end != TRACE_TARGET_ENDED)
		let_go(&t);
	*ret = t.result;
	return r < 0 ? err_set(err, r, "cannot write the trace: %s", strerror(-r)) : 0;
}
