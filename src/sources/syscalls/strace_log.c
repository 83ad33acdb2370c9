/*
 * strace_log - every system call of a process, as strace writes them, bounded in time and size.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "sources/syscalls/strace.h"

#define PIECE_BYTES 65536
#define LAST_WORDS_MS 3000 /* for strace to let go */
#define POLL_MS 100

struct trace {
	const struct trace_options *options;
	pid_t target, strace;
	int fd;
	int out_fd;	 /* the caller's, or our own that does not block */
	int own_fd;	 /* -1: none */
	struct buf text; /* what was read and not written: the beginning of a line, mostly */
	struct trace_result result;
	uint64_t deadline_ns;
	bool is_over;
};

static void release(struct trace *t)
{
	strace_end(t->strace);
	close_fd(&t->fd);
	close_fd(&t->own_fd);
	buf_release(&t->text);
}

static void finish(struct trace *t, enum trace_end why)
{
	t->result.end = why;
	t->is_over = true;
}

/* ---- writing ---- */

/*
 * A pipe that can be written to takes PIPE_BUF bytes at least, a terminal one. It is opened once
 * more, for whoever has it besides us counts on it to block.
 */
static void open_output(struct trace *t)
{
	char path[PATH_MAX];

	t->out_fd = t->options->out_fd;
	if (ttyname_r(t->out_fd, path, sizeof(path)) != 0)
		return;
	t->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->own_fd >= 0)
		t->out_fd = t->own_fd;
}

/* Waits until something can be written. False: nobody reads, and it is to end now. */
static bool await_room(struct trace *t)
{
	struct pollfd fds[] = { { .fd = t->out_fd, .events = POLLOUT },
				{ .fd = t->options->stop_fd, .events = POLLIN } };

	for (;;) {
		bool is_late = clock_boot_ns() >= t->deadline_ns;

		if (poll(fds, ARRAY_SIZE(fds), is_late ? 0 : POLL_MS) < 0 && errno != EINTR)
			return true; /* writing will say why */
		if (fds[0].revents)
			return true;
		if (is_late || fds[1].revents & POLLIN) {
			finish(t, is_late ? TRACE_TIME_UP : TRACE_STOPPED);
			return false;
		}
	}
}

/* The whole lines of the first n bytes, as many as still fit. */
static int write_lines(struct trace *t)
{
	const char *last = memrchr(t->text.data, '\n', t->text.len);
	size_t n = last ? (size_t)(last - t->text.data) + 1 : 0;
	uint64_t room = t->options->max_bytes - t->result.n_bytes;
	size_t done = 0;

	if (n > room) {
		last = memrchr(t->text.data, '\n', (size_t)room);
		n = last ? (size_t)(last - t->text.data) + 1 : 0;
		finish(t, TRACE_FULL);
	}
	/* The process stands still while nobody reads: no longer than it may be traced. */
	while (done < n && await_room(t)) {
		size_t piece = n - done < PIPE_BUF ? n - done : PIPE_BUF;
		ssize_t written = write(t->out_fd, t->text.data + done, piece);

		if (written < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		done += written > 0 ? (size_t)written : 0;
	}
	t->result.n_bytes += done;
	memmove(t->text.data, t->text.data + n, t->text.len - n);
	buf_truncate(&t->text, t->text.len - n);
	if (t->text.len > PIECE_BYTES) /* no line is as long: give up rather than grow */
		finish(t, TRACE_FULL);
	return 0;
}

/* ---- reading ---- */

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

/* What is read while it lets go is kept, but for what a busy process fills it with. */
static ssize_t read_last_words(struct trace *t)
{
	char bytes[PIECE_BYTES];
	ssize_t n = read(t->fd, bytes, sizeof(bytes));

	if (n > 0 && t->text.len < PIECE_BYTES)
		buf_add(&t->text, bytes, (size_t)n);
	return n;
}

/* Asks it to let go, and reads on while it does, so that it does not wait for us. */
static void let_go(struct trace *t)
{
	uint64_t deadline_ns = clock_boot_ns() + LAST_WORDS_MS * UINT64_C(1000000);
	struct pollfd fd = { .fd = t->fd, .events = POLLIN };

	kill(t->strace, SIGINT);
	while (clock_boot_ns() < deadline_ns) {
		(void)poll(&fd, 1, POLL_MS);
		if (read_last_words(t) == 0)
			return;
	}
}

/* The call that a process is stuck in never returns: its line has no end, and is what matters. */
static int write_last_words(struct trace *t)
{
	if (t->result.end == TRACE_FULL || t->text.len == 0)
		return 0;
	if (t->text.data[t->text.len - 1] != '\n')
		buf_add(&t->text, "\n", 1);
	return buf_error(&t->text) < 0 ? buf_error(&t->text) : write_lines(t);
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
	struct trace t = {
		.options = options, .target = pid, .fd = -1, .own_fd = -1, .text = BUF_INIT
	};
	int r = strace_check_chosen(pid, err);

	if (r < 0)
		return r;
	open_output(&t);
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
	if (r == 0)
		r = write_last_words(&t);
	*ret = t.result;
	return r < 0 ? err_set(err, r, "cannot write the trace: %s", strerror(-r)) : 0;
}
