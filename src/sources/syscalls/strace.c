#include "sources/syscalls/strace.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/path.h"
#include "base/unknown.h"
#include "sources/sources.h"

/* Bounds what hostile text can take; Linux has fewer calls. */
#define MAX_ROWS 4096
#define MAX_NUMBER_BYTES 64

/* % time, seconds, usecs/call, calls, and the name; errors may stand before it. */
enum { WORD_PCT, WORD_SECONDS, WORD_USECS, WORD_CALLS, MIN_WORDS = 5, MAX_WORDS };

struct word {
	const char *start;
	size_t len;
};

void strace_summary_release(struct strace_summary *s)
{
	arena_release(&s->arena);
	*s = (struct strace_summary){ .arena = ARENA_INIT };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Returns how many words the line has, MAX_WORDS + 1 for too many. */
static size_t split(const char *line, const char *end, struct word words[MAX_WORDS])
{
	size_t n = 0;

	for (;;) {
		const char *start;

		while (line < end && is_blank(*line))
			line++;
		if (line == end)
			return n;
		if (n == MAX_WORDS)
			return n + 1;
		start = line;
		while (line < end && !is_blank(*line))
			line++;
		words[n++] = (struct word){ start, (size_t)(line - start) };
	}
}

static bool is_name(struct word w)
{
	static const char unnamed[] = "syscall_0x";

	for (size_t i = 0; i < w.len; i++)
		if (!isalnum((unsigned char)w.start[i]) && w.start[i] != '_')
			return false;
	if (w.len > strlen(unnamed) && memcmp(w.start, unnamed, strlen(unnamed)) == 0)
		return false;
	return !isdigit((unsigned char)w.start[0]) &&
	       !(w.len == 5 && memcmp(w.start, "total", 5) == 0) &&
	       !(w.len == 8 && memcmp(w.start, "subtotal", 8) == 0);
}

/* Digits, and a fraction at most: "29.13", "5". */
static bool parse_decimal(struct word w, double *ret)
{
	char text[MAX_NUMBER_BYTES];

	if (w.len >= sizeof(text) || !isdigit((unsigned char)w.start[0]))
		return false;
	for (size_t i = 0; i < w.len; i++)
		if (!isdigit((unsigned char)w.start[i]) && w.start[i] != '.')
			return false;
	memcpy(text, w.start, w.len);
	text[w.len] = '\0';
	return num_parse_f64(text, ret) == 0;
}

/* Too large for 64 bits is unknown, and still a number. */
static bool parse_count(struct word w, uint64_t *ret)
{
	int r = num_parse_u64_n(w.start, w.len, ret);

	if (r == -ERANGE)
		*ret = U64_UNKNOWN;
	return r == 0 || r == -ERANGE;
}

static bool parse_row(const char *line, const char *end, struct strace_row *ret,
		      struct word *ret_name)
{
	struct word words[MAX_WORDS];
	size_t n = split(line, end, words);
	uint64_t usecs;

	if (n < MIN_WORDS || n > MAX_WORDS || !is_name(words[n - 1]))
		return false;
	*ret = (struct strace_row){ 0 };
	*ret_name = words[n - 1];
	return parse_decimal(words[WORD_PCT], &ret->time_pct) &&
	       parse_decimal(words[WORD_SECONDS], &ret->seconds) &&
	       parse_count(words[WORD_USECS], &usecs) &&
	       parse_count(words[WORD_CALLS], &ret->count) &&
	       (n == MIN_WORDS || parse_count(words[WORD_CALLS + 1], &ret->errors));
}

static struct strace_row *find_row(struct strace_summary *s, struct word name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strlen(s->rows[i].name) == name.len &&
		    memcmp(s->rows[i].name, name.start, name.len) == 0)
			return &s->rows[i];
	return NULL;
}

static int add_row(struct strace_summary *s, struct word name, const struct strace_row *row)
{
	struct strace_row *place = find_row(s, name);
	const char *copy;

	if (!place && s->n == MAX_ROWS)
		return 0;
	copy = place ? place->name : arena_strndup(&s->arena, name.start, name.len);
	if (!copy)
		return -ENOMEM;
	if (!place)
		place = &s->rows[s->n++];
	*place = *row;
	place->name = copy;
	return 0;
}

int strace_parse(const char *text, struct strace_summary *ret)
{
	CLEANUP(strace_summary_release) struct strace_summary s = { .arena = ARENA_INIT };
	struct strace_row row;
	struct word name;
	const char *end;
	size_t n_lines = 1;
	int r = 0;

	for (end = text; n_lines < MAX_ROWS && (end = strchr(end, '\n')); end++)
		n_lines++;
	s.rows = arena_alloc(&s.arena, n_lines * sizeof(*s.rows));
	if (!s.rows)
		return -ENOMEM;
	for (; *text && r == 0; text = *end ? end + 1 : end) {
		end = text + strcspn(text, "\n");
		if (parse_row(text, end, &row, &name))
			r = add_row(&s, name, &row);
	}
	if (r < 0)
		return r;
	*ret = s;
	s = (struct strace_summary){ .arena = ARENA_INIT };
	return 0;
}

/* ---- running it ---- */

#define ATTACH_NS UINT64_C(5000000000)
#define DETACH_NS UINT64_C(5000000000)
#define MAX_TABLE_BYTES (1 << 20) /* more is not a table */
#define MAX_WORDS_BYTES 65536	  /* the first it says: why it does not attach */
#define STATUS_BYTES 8192

struct strace {
	pid_t pid, target; /* of strace, and of whom it holds */
	int pid_fd;	   /* strace may be waited for by others, and its pid be somebody else's */
	int fd;		   /* what it says; does not block */
	int table_fd;	   /* a file in memory */
	struct buf text;   /* the beginning of what it says */
};

bool sources_has_strace(void)
{
	return path_has_program("strace");
}

/* ---- checking ---- */

/* A number in proc/PID/status; -1: not there. */
static int read_status(pid_t pid, const char *key, int64_t *ret)
{
	CLEANUP(close_fd) int root_fd = proc_open_root(NULL);
	char text[STATUS_BYTES];
	const char *at;
	uint64_t v;

	if (root_fd < 0)
		return -ENODATA;
	if (proc_read_text(root_fd, pid, "status", text, sizeof(text)) <= 0)
		return -ESRCH;
	at = strstr(text, key);
	if (!at)
		return -ENODATA;
	at += strlen(key);
	at += strspn(at, "\t ");
	if (num_scan_u64(&at, &v) < 0)
		return -ENODATA;
	*ret = (int64_t)v;
	return 0;
}

int strace_check(pid_t pid, struct err *err)
{
	int64_t tracer = 0, group = pid;

	if (pid <= 0)
		return err_set(err, -EINVAL, "%d is not the id of a process", (int)pid);
	if (read_status(pid, "\nTgid:", &group) == -ESRCH)
		return err_set(err, -ESRCH, "there is no process %d", (int)pid);
	if (group == getpid())
		return err_set(err, -EINVAL, "proctor does not trace itself");
	if (read_status(pid, "\nTracerPid:", &tracer) == 0 && tracer != 0)
		return err_set(err, -EBUSY, "process %d is already traced, by process %d", (int)pid,
			       (int)tracer);
	return 0;
}

/* Whom it traces; 0: nobody. */
static pid_t find_traced(pid_t pid)
{
	CLEANUP(dir_close) DIR *proc = opendir("/proc");
	int64_t tracer;
	pid_t other;

	while (proc && (other = dir_next_pid(proc)) > 0)
		if (read_status(other, "\nTracerPid:", &tracer) == 0 && tracer == pid)
			return other;
	return 0;
}

/*
 * The same of a process that somebody has named: it is no proctor either, and traces nobody.
 * Looks at every process of the host. -EINVAL.
 */
static int strace_check_chosen(pid_t pid, struct err *err)
{
	int r = strace_check(pid, err);
	pid_t traced;

	if (r < 0)
		return r;
	if (proc_is_own_program(pid))
		return err_set(err, -EINVAL, "process %d is a proctor, which does not trace itself",
			       (int)pid);
	traced = find_traced(pid);
	if (traced > 0)
		return err_set(err, -EINVAL, "process %d is a tracer itself, of process %d",
			       (int)pid, (int)traced);
	return 0;
}

/* ---- running it ---- */

/* With a table it counts, and writes that there; else it writes each call, as what it says. */
static pid_t fork_strace(const struct strace *s, int out_fd)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		char target[16], table[64];
		bool counts = s->table_fd >= 0;
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGINT, SIG_DFL);
		/*
		 * In the child. The signal comes also when we are killed: strace then lets go and
		 * ends. A group of its own, so that a Ctrl-C is ours to answer.
		 */
		snprintf(target, sizeof(target), "%d", (int)s->target);
		snprintf(table, sizeof(table), "/proc/self/fd/%d", s->table_fd);
		if (prctl(PR_SET_PDEATHSIG, SIGINT) < 0 || getppid() != parent)
			_exit(126);
		if (setpgid(0, 0) < 0 || dup2(out_fd, STDERR_FILENO) < 0 ||
		    (counts && fcntl(s->table_fd, F_SETFD, 0) < 0))
			_exit(126);
		if (counts)
			execlp("strace", "strace", "-c", "-f", "-o", table, "-p", target,
			       (char *)NULL);
		else
			execlp("strace", "strace", "-t", "-f", "-p", target, (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* The flags are those of the end that strace writes to; ours does not block. */
static int spawn(struct strace *s, int flags, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot run strace: %s", strerror(errno));
	s->fd = ends[0];
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(ends[1], F_SETFL, flags);
	s->pid = fork_strace(s, ends[1]);
	close(ends[1]);
	if (s->pid < 0)
		return err_set(err, -EAGAIN, "cannot run strace: no new process can be started");
	s->pid_fd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	return s->pid_fd < 0 ? err_set(err, -errno, "cannot run strace: %s", strerror(errno)) : 0;
}

/* Until it has said this (NULL: until its end), has ended, or time is up. */
static int read_until(struct strace *s, const char *words, uint64_t deadline_ns)
{
	struct pollfd fd = { .fd = s->fd, .events = POLLIN };
	char bytes[4096];

	while (!(words && strstr(s->text.data, words))) {
		ssize_t n;

		if (clock_boot_ns() >= deadline_ns)
			return -ETIMEDOUT;
		(void)poll(&fd, 1, 50);
		n = read(s->fd, bytes, sizeof(bytes));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0 && s->text.len < MAX_WORDS_BYTES)
			buf_add(&s->text, bytes, (size_t)n);
	}
	return 0;
}

static void send_signal(const struct strace *s, int sig)
{
	(void)syscall(SYS_pidfd_send_signal, s->pid_fd, sig, NULL, 0);
}

struct strace *strace_free(struct strace *s)
{
	if (!s)
		return NULL;
	if (s->pid_fd >= 0) {
		send_signal(s, SIGKILL);
		while (waitid(P_PIDFD, (id_t)s->pid_fd, NULL, WEXITED) < 0 && errno == EINTR)
			;
	} else if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close_fd(&s->pid_fd);
	close_fd(&s->fd);
	close_fd(&s->table_fd);
	buf_release(&s->text);
	free(s);
	return NULL;
}

static void drop(struct strace **s)
{
	*s = strace_free(*s);
}

pid_t strace_pid(const struct strace *s)
{
	return s->pid;
}

#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD of the kernel's sched.h, since 2.6 */

/* Why nobody may trace it; NULL: somebody else may. */
static const char *why_nobody(pid_t pid)
{
	char text[1024], state;
	unsigned flags, n_threads;
	const char *rest;

	if (proc_read_text(AT_FDCWD, pid, "stat", text, sizeof(text)) < 0)
		return NULL;
	rest = strrchr(text, ')'); /* the name may hold anything */
	if (!rest ||
	    sscanf(rest, ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u",
		   &state, &flags, &n_threads) != 3)
		return NULL;
	if (state == 'Z' && n_threads > 1)
		return "goes on without its first thread, by which strace would take hold of it";
	if (state == 'Z')
		return "has ended, and waits for its parent";
	return flags & KERNEL_THREAD ? "is a thread of the kernel" : NULL;
}

/* 0: it has attached. */
static int explain(const struct strace *s, struct err *err)
{
	const char *text = s->text.data;
	pid_t pid = s->target;
	size_t n = strcspn(text, "\n");
	bool is_refused = strstr(text, "Operation not permitted") != NULL;
	const char *why = is_refused ? why_nobody(pid) : NULL;

	if (strstr(text, " attached"))
		return 0;
	if (why)
		return err_set(err, -EPERM, "process %d cannot be traced: it %s", (int)pid, why);
	if (is_refused)
		return err_set(
			err, -EPERM,
			"process %d cannot be traced by this user (another user's, or ptrace is restricted here)",
			(int)pid);
	if (strstr(text, "No such process"))
		return err_set(err, -ESRCH, "process %d is gone", (int)pid);
	if (!*text)
		return err_set(err, -ENOENT, "strace is not installed, or cannot be run");
	return err_set(err, -EIO, "strace failed: %.*s", (int)n, text);
}

static int new_strace(pid_t target, struct strace **ret, struct err *err)
{
	*ret = malloc(sizeof(**ret));
	if (!*ret)
		return err_set(err, -ENOMEM, "out of memory");
	**ret = (struct strace){
		.target = target, .pid_fd = -1, .fd = -1, .table_fd = -1, .text = BUF_INIT
	};
	return 0;
}

int strace_start(pid_t pid, struct strace **ret, struct err *err)
{
	CLEANUP(drop) struct strace *s = NULL;
	int r = strace_check(pid, err);

	if (r == 0)
		r = new_strace(pid, &s, err);
	if (r < 0)
		return r;
	/*
	 * It has a line to say of each process that it follows, and nobody listens before the end:
	 * what the pipe has no room for is lost rather than waited with. The table has a file of
	 * its own.
	 */
	s->table_fd = memfd_create("strace", MFD_CLOEXEC);
	if (s->table_fd < 0)
		return err_set(err, -errno, "cannot run strace: %s", strerror(errno));
	r = spawn(s, O_NONBLOCK, err);
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

int strace_await(struct strace *s, struct err *err)
{
	int r = read_until(s, " attached", clock_boot_ns() + ATTACH_NS);

	if (r < 0)
		return err_set(err, r, "strace did not attach to process %d: %s", (int)s->target,
			       strerror(-r));
	return explain(s, err);
}

int strace_detach(struct strace *given, struct strace_summary *ret, struct err *err)
{
	CLEANUP(drop) struct strace *s = given;
	int r;
	CLEANUP(buf_release) struct buf table = BUF_INIT;

	send_signal(s, SIGINT);
	r = read_until(s, NULL, clock_boot_ns() + DETACH_NS);
	if (r < 0)
		return err_set(err, r, "strace did not let go in time and was killed");
	/* Whoever was there called something, were it to end: without a table strace was ended. */
	r = lseek(s->table_fd, 0, SEEK_SET) < 0 ? -errno
						: io_read_fd(s->table_fd, MAX_TABLE_BYTES, &table);
	if (r < 0)
		return err_set(err, r, "cannot read the table of strace: %s", strerror(-r));
	if (table.len == 0)
		return err_set(err, -ENODATA, "strace has left no table");
	if (strace_parse(table.data, ret) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* ---- its table as calls ---- */

#define NS_PER_SECOND 1e9

/* What no program calls: how the kernel goes on with a call that strace has interrupted. */
#define OWN_DOING "restart_syscall"

int strace_end_count(struct strace *s, syscalls_fn *fn, void *ctx, struct err *err)
{
	CLEANUP(strace_summary_release) struct strace_summary summary = { .arena = ARENA_INIT };
	struct syscall_process told = { .start_ticks = U64_UNKNOWN,
					.is_ended = true,
					.uid = U64_UNKNOWN };
	struct syscall_use *uses;
	int r = strace_detach(s, &summary, err);

	if (r < 0)
		return r;
	uses = arena_alloc(&summary.arena, (summary.n + 1) * sizeof(*uses));
	if (!uses)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < summary.n; i++) {
		const struct strace_row *row = &summary.rows[i];
		double ns = row->seconds * NS_PER_SECOND; /* on a CPU: of others it knows nothing */

		if (strcmp(row->name, OWN_DOING) == 0)
			continue;
		uses[told.n_uses++] = (struct syscall_use){
			.name = row->name,
			.count = row->count,
			.errors = row->errors,
			.cpu_ns = ns >= 0 && ns < (double)INT64_MAX ? (uint64_t)llround(ns)
								    : U64_UNKNOWN,
			.wait_ns = U64_UNKNOWN,
		};
	}
	told.uses = uses;
	fn(ctx, &told);
	return 0;
}

/* ---- every system call of a process, as strace writes them, bounded in time and size ---- */

#define PIECE_BYTES 65536
#define LAST_WORDS_NS UINT64_C(3000000000) /* for strace to let go */
#define POLL_MS 100

struct trace {
	const struct trace_options *options;
	struct strace *strace; /* its text is what was not written yet: the beginning of a line,
				  mostly */
	int out_fd;	       /* the caller's, or our own that does not block */
	int own_fd;	       /* -1: none */
	struct trace_result result;
	uint64_t deadline_ns;
	bool is_over;
};

static void release(struct trace *t)
{
	strace_free(t->strace);
	close_fd(&t->own_fd);
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
	struct buf *text = &t->strace->text;
	const char *last = memrchr(text->data, '\n', text->len);
	size_t n = last ? (size_t)(last - text->data) + 1 : 0;
	uint64_t room = t->options->max_bytes - t->result.n_bytes;
	size_t done = 0;

	if (n > room) {
		last = memrchr(text->data, '\n', (size_t)room);
		n = last ? (size_t)(last - text->data) + 1 : 0;
		finish(t, TRACE_FULL);
	}
	/* The process stands still while nobody reads: no longer than it may be traced. */
	while (done < n && await_room(t)) {
		size_t piece = n - done < PIPE_BUF ? n - done : PIPE_BUF;
		ssize_t written = write(t->out_fd, text->data + done, piece);

		if (written < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		done += written > 0 ? (size_t)written : 0;
	}
	t->result.n_bytes += done;
	memmove(text->data, text->data + n, text->len - n);
	buf_truncate(text, text->len - n);
	if (text->len > PIECE_BYTES) /* no line is as long: give up rather than grow */
		finish(t, TRACE_FULL);
	return 0;
}

/* ---- reading ---- */

static int read_piece(struct trace *t)
{
	char bytes[PIECE_BYTES];
	ssize_t n = read(t->strace->fd, bytes, sizeof(bytes));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		finish(t, TRACE_TARGET_ENDED);
	buf_add(&t->strace->text, bytes, (size_t)n);
	return buf_error(&t->strace->text);
}

static int step(struct trace *t)
{
	struct pollfd fds[] = { { .fd = t->strace->fd, .events = POLLIN },
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

/*
 * Asks it to let go, and reads on while it does, so that it does not wait for us. What is read is
 * kept, but for what a busy process fills it with.
 */
static void let_go(struct trace *t)
{
	send_signal(t->strace, SIGINT);
	(void)read_until(t->strace, NULL, clock_boot_ns() + LAST_WORDS_NS);
}

/* strace first says that it attached, or why not. */
static int await_attach(struct trace *t, struct err *err)
{
	int r = read_until(t->strace, "\n", t->deadline_ns);

	if (r == -ETIMEDOUT)
		return err_set(err, r, "strace did not attach to process %d in time",
			       (int)t->strace->target);
	if (r < 0)
		return err_set(err, r, "cannot read what strace writes: %s", strerror(-r));
	return explain(t->strace, err);
}

/* Who is attached keeps its pid: only now it is certain who that is. */
static int check_target(struct trace *t, struct err *err)
{
	uint64_t start_ticks;

	if (!u64_known(t->options->start_ticks) ||
	    (proc_start_ticks(t->strace->target, &start_ticks) == 0 &&
	     start_ticks == t->options->start_ticks))
		return 0;
	let_go(t);
	return err_set(err, -ESRCH, "process %d is gone, and another has its number",
		       (int)t->strace->target);
}

int sources_trace(pid_t pid, const struct trace_options *options, struct trace_result *ret,
		  struct err *err)
{
	CLEANUP(release) struct trace t = { .options = options, .own_fd = -1 };
	struct buf *text;
	int r = strace_check_chosen(pid, err);

	if (r == 0)
		r = new_strace(pid, &t.strace, err);
	if (r < 0)
		return r;
	open_output(&t);
	r = spawn(t.strace, 0, err);
	t.deadline_ns = clock_boot_ns() + (uint64_t)(options->seconds * 1e9);
	if (r == 0)
		r = await_attach(&t, err);
	if (r == 0)
		r = check_target(&t, err);
	if (r < 0)
		return r;
	while (r == 0 && !t.is_over)
		r = step(&t);
	if (t.result.end != TRACE_TARGET_ENDED)
		let_go(&t);
	text = &t.strace->text;
	if (r == 0 && t.result.end != TRACE_FULL && text->len > 0) {
		/* The call that a process is stuck in never returns: its line has no end, and is
		 * what matters. */
		if (text->data[text->len - 1] != '\n')
			buf_add_char(text, '\n');
		r = buf_error(text) < 0 ? buf_error(text) : write_lines(&t);
	}
	*ret = t.result;
	return r < 0 ? err_set(err, r, "cannot write the trace: %s", strerror(-r)) : 0;
}
