#include "sources/wait_state.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/types.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "bpf/syscalls.h"
#include "sources/child.h"
#include "sources/proc_text.h"
#include "sources/sources.h"

#define TEXT_BYTES 4096
#define FDS_MAX 16	     /* that one call waits for */
#define OPEN_MAX 4096	     /* files of a process that are compared with a pipe */
#define LIST_BYTES (4 << 20) /* of a list of sockets or locks */
#define N_ARGS 6

/*
 * For all processes of a call together, as their owner may be about to end them: beyond that each
 * process is described by one thread, and sockets and locks are not looked up.
 */
#define THREADS_MAX 4096
#define LISTS_MAX 16
#define PATIENCE_MS 1000

struct budget {
	size_t threads, lists;
};

static const char *const kind_names[N_WAIT_KINDS] = {
	[WAIT_STOPPED] = "stopped", [WAIT_FILE_LOCK] = "file_lock", [WAIT_NONE] = "running",
	[WAIT_FILE] = "disk",	    [WAIT_PAGE] = "page_fault",	    [WAIT_GPU] = "gpu",
	[WAIT_SOCKET] = "socket",   [WAIT_PIPE] = "pipe",	    [WAIT_TERMINAL] = "terminal",
	[WAIT_FUTEX] = "futex",	    [WAIT_TIMER] = "timer",	    [WAIT_OTHER] = "other",
	[WAIT_SIGNAL] = "signal",   [WAIT_EVENTS] = "events",	    [WAIT_UNKNOWN] = "unknown",
	[WAIT_CHILD] = "child",	    [WAIT_ZOMBIE] = "zombie",
};

const char *wait_kind_name(enum wait_kind kind)
{
	return kind_names[kind];
}

enum time_category wait_kind_category(enum wait_kind kind)
{
	static const enum time_category categories[N_WAIT_KINDS] = {
		[WAIT_STOPPED] = TIME_STOPPED,	   [WAIT_FILE_LOCK] = TIME_FILE_LOCK,
		[WAIT_NONE] = TIME_USER,	   [WAIT_FILE] = TIME_DISK,
		[WAIT_PAGE] = TIME_PAGE_FAULT,	   [WAIT_GPU] = TIME_GPU,
		[WAIT_SOCKET] = TIME_SOCKET,	   [WAIT_PIPE] = TIME_PIPE,
		[WAIT_TERMINAL] = TIME_OTHER,	   [WAIT_FUTEX] = TIME_FUTEX,
		[WAIT_TIMER] = TIME_TIMER,	   [WAIT_OTHER] = TIME_OTHER,
		[WAIT_SIGNAL] = TIME_SIGNAL,	   [WAIT_EVENTS] = TIME_EVENTS,
		[WAIT_UNKNOWN] = TIME_UNKNOWN,	   [WAIT_CHILD] = TIME_CHILD,
		[WAIT_ZOMBIE] = N_TIME_CATEGORIES,
	};

	return categories[kind];
}

/* ---- system calls that wait ---- */

/* Where a call names what it waits for. */
enum wait_arg {
	ARG_NONE,
	ARG_FD,	   /* its first argument is a file: the file says what kind of wait it is */
	ARG_LOCK,  /* the same, which it locks */
	ARG_FCNTL, /* the same, if its second argument is a lock to wait for */
	ARG_PATH,  /* its first argument is a path */
	ARG_AT,	   /* its second argument is a path */
	ARG_POLL,
	ARG_SELECT,
	ARG_EPOLL,
};

static const struct wait_call {
	long nr;
	enum wait_arg arg;
	enum wait_kind kind; /* of a call that names no file */
	bool is_write;
} wait_calls[] = {
	{ SYS_read, ARG_FD, 0, false },
	{ SYS_readv, ARG_FD, 0, false },
	{ SYS_pread64, ARG_FD, 0, false },
	{ SYS_preadv, ARG_FD, 0, false },
	{ SYS_write, ARG_FD, 0, true },
	{ SYS_writev, ARG_FD, 0, true },
	{ SYS_pwrite64, ARG_FD, 0, true },
	{ SYS_pwritev, ARG_FD, 0, true },
	{ SYS_splice, ARG_FD, 0, false },
	{ SYS_getdents64, ARG_FD, 0, false },
	{ SYS_recvfrom, ARG_FD, 0, false },
	{ SYS_recvmsg, ARG_FD, 0, false },
	{ SYS_recvmmsg, ARG_FD, 0, false },
	{ SYS_accept, ARG_FD, 0, false },
	{ SYS_accept4, ARG_FD, 0, false },
	{ SYS_connect, ARG_FD, 0, true },
	{ SYS_sendto, ARG_FD, 0, true },
	{ SYS_sendmsg, ARG_FD, 0, true },
	{ SYS_sendmmsg, ARG_FD, 0, true },
	{ SYS_sendfile, ARG_FD, 0, true },
	{ SYS_fsync, ARG_FD, 0, true },
	{ SYS_fdatasync, ARG_FD, 0, true },
	{ SYS_syncfs, ARG_FD, 0, true },
	{ SYS_ftruncate, ARG_FD, 0, true },
	{ SYS_fallocate, ARG_FD, 0, true },
	{ SYS_close, ARG_FD, 0, true },
	{ SYS_ioctl, ARG_FD, 0, false },
	{ SYS_flock, ARG_LOCK, WAIT_FILE_LOCK, false },
	{ SYS_fcntl, ARG_FCNTL, WAIT_OTHER, false },
	{ SYS_openat, ARG_AT, WAIT_FILE, false },
	{ SYS_newfstatat, ARG_AT, WAIT_FILE, false },
	{ SYS_unlinkat, ARG_AT, WAIT_FILE, true },
	{ SYS_sync, ARG_NONE, WAIT_FILE, true },
	{ SYS_futex, ARG_NONE, WAIT_FUTEX, false },
	{ SYS_wait4, ARG_NONE, WAIT_CHILD, false },
	{ SYS_waitid, ARG_NONE, WAIT_CHILD, false },
	{ SYS_clone, ARG_NONE, WAIT_CHILD, false }, /* of vfork() */
	{ SYS_clone3, ARG_NONE, WAIT_CHILD, false },
	{ SYS_nanosleep, ARG_NONE, WAIT_TIMER, false },
	{ SYS_clock_nanosleep, ARG_NONE, WAIT_TIMER, false },
	{ SYS_rt_sigsuspend, ARG_NONE, WAIT_SIGNAL, false },
	{ SYS_rt_sigtimedwait, ARG_NONE, WAIT_SIGNAL, false },
	{ SYS_ppoll, ARG_POLL, WAIT_EVENTS, false },
	{ SYS_pselect6, ARG_SELECT, WAIT_EVENTS, false },
	{ SYS_epoll_pwait, ARG_EPOLL, WAIT_EVENTS, false },
#ifdef SYS_poll /* architectures of before 2011 have the older calls too */
	{ SYS_open, ARG_PATH, WAIT_FILE, false },
	{ SYS_stat, ARG_PATH, WAIT_FILE, false },
	{ SYS_unlink, ARG_PATH, WAIT_FILE, true },
	{ SYS_poll, ARG_POLL, WAIT_EVENTS, false },
	{ SYS_select, ARG_SELECT, WAIT_EVENTS, false },
	{ SYS_epoll_wait, ARG_EPOLL, WAIT_EVENTS, false },
	{ SYS_pause, ARG_NONE, WAIT_SIGNAL, false },
	{ SYS_vfork, ARG_NONE, WAIT_CHILD, false },
#endif
};

static const struct wait_call *find_call(long nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(wait_calls); i++)
		if (wait_calls[i].nr == nr)
			return &wait_calls[i];
	return NULL;
}

void wait_calls_fill(uint8_t *ret, size_t n)
{
	static const uint8_t by_args[] = {
		[ARG_FD] = SYSCALL_WAITS_FD,
		[ARG_FCNTL] = SYSCALL_WAITS_FCNTL,
		[ARG_POLL] = SYSCALL_WAITS_POLL,
		[ARG_SELECT] = SYSCALL_WAITS_SELECT,
		[ARG_EPOLL] = 0,
	};

	memset(ret, 0, n);
	for (size_t i = 0; i < ARRAY_SIZE(wait_calls); i++) {
		const struct wait_call *call = &wait_calls[i];
		const uint8_t by_arg = by_args[call->arg];

		if ((size_t)call->nr < n)
			ret[call->nr] = by_arg ? by_arg : (uint8_t)wait_kind_category(call->kind);
	}
}

/* ---- one process ---- */

/* The folder stays that of one process: who takes the pid later has another. */
struct looked_at {
	int root_fd;
	int fd; /* proc/PID */
	const struct mask *mask;
	struct budget *budget;
	bool is_brief; /* nothing needs a name */
};

static void show(const struct looked_at *p, const char *text, struct wait_state *w)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n;

	if (p->is_brief)
		return;
	mask_command(p->mask, text, strlen(text) + 1, &shown);
	n = utf8_cut(shown.data, shown.len, sizeof(w->object) - 1);
	memcpy(w->object, shown.data, n);
	w->object[n] = '\0';
}

/* What is not in memory would be read from its file, maybe of a server that is gone. */
static bool is_present(const struct looked_at *p, uint64_t address)
{
	CLEANUP(close_fd) int fd = openat(p->fd, "pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t page = address / (uint64_t)sysconf(_SC_PAGESIZE), entry;

	return fd >= 0 && page <= INT64_MAX / sizeof(entry) &&
	       pread(fd, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) ==
		       (ssize_t)sizeof(entry) &&
	       entry >> 63;
}

static ssize_t read_memory(const struct looked_at *p, uint64_t address, void *ret, size_t n)
{
	CLEANUP(close_fd) int fd = openat(p->fd, "mem", O_RDONLY | O_CLOEXEC);
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE);

	in_page -= address % in_page;
	if (fd < 0 || n == 0 || address > INT64_MAX - n || !is_present(p, address))
		return -1;
	if (n > in_page && !is_present(p, address + n - 1))
		n = (size_t)in_page;
	return pread(fd, ret, n, (off_t)address);
}

static void read_path(const struct looked_at *p, uint64_t address, struct wait_state *w)
{
	char path[WAIT_OBJECT_BYTES];
	ssize_t n = p->is_brief ? 0 : read_memory(p, address, path, sizeof(path) - 1);

	if (n <= 0)
		return;
	path[n] = '\0';
	show(p, path, w);
}

/* ---- sockets, in the lists of proc/PID/net ---- */

/* "0100007F:1538" and 32 digits of IPv6, in words as this machine has them. */
static void add_address(struct buf *out, const char *hex)
{
	char host[INET6_ADDRSTRLEN];
	uint32_t words[4] = { 0 };
	unsigned port;
	size_t n = strcspn(hex, ":") / 8;

	for (size_t i = 0; i < n && i < 4; i++)
		sscanf(hex + 8 * i, "%8" SCNx32, &words[i]);
	if ((n != 1 && n != 4) || sscanf(hex + 8 * n, ":%x", &port) != 1 ||
	    !inet_ntop(n == 1 ? AF_INET : AF_INET6, words, host, sizeof(host)))
		return;
	buf_printf(out, n == 1 ? "%s:%u" : "[%s]:%u", host, port);
}

static void describe_inet(const char *name, const char *local, const char *remote, unsigned state,
			  struct wait_state *w)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	bool is_listening = state == 0x0A && strncmp(name, "tcp", 3) == 0;

	buf_add_str(&out, strncmp(name, "tcp", 3) == 0 ? "TCP " : "UDP ");
	/* an unconnected socket of UDP hears all */
	w->is_listening = is_listening || strstr(remote, ":0000") != NULL;
	add_address(&out, w->is_listening ? local : remote);
	snprintf(w->object, sizeof(w->object), "%s", out.data);
}

static bool find_inet(const struct looked_at *p, const char *name, uint64_t inode,
		      struct wait_state *w)
{
	CLEANUP(buf_release) struct buf list = BUF_INIT;
	char path[16], *rest;

	snprintf(path, sizeof(path), "net/%s", name);
	if (io_read_at(p->fd, path, LIST_BYTES, &list) < 0)
		return false;
	for (char *line = strtok_r(list.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char local[48], remote[48];
		unsigned state;
		uint64_t found;

		if (sscanf(line, " %*u: %47s %47s %x %*s %*s %*s %*u %*u %" SCNu64, local, remote,
			   &state, &found) != 4 ||
		    found != inode)
			continue;
		describe_inet(name, local, remote, state, w);
		return true;
	}
	return false;
}

static void find_unix(const struct looked_at *p, uint64_t inode, struct wait_state *w)
{
	CLEANUP(buf_release) struct buf list = BUF_INIT;
	char *rest;

	snprintf(w->object, sizeof(w->object), "a Unix socket");
	if (io_read_at(p->fd, "net/unix", LIST_BYTES, &list) < 0)
		return;
	for (char *line = strtok_r(list.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		uint64_t found;
		int at = 0;

		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %" SCNu64 " %n", &found, &at) == 1 &&
		    found == inode && at > 0 && line[at])
			show(p, line + at, w);
	}
}

static void describe_socket(const struct looked_at *p, uint64_t inode, struct wait_state *w)
{
	static const char *const lists[] = { "tcp", "tcp6", "udp", "udp6" };

	if (p->budget->lists == 0)
		return;
	p->budget->lists--;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (find_inet(p, lists[i], inode, w))
			return;
	find_unix(p, inode, w);
}

/* ---- files ---- */

/* By what the kernel keeps: to ask for the file's state could ask a server that is gone. */
static uint64_t inode_of(const struct looked_at *p, uint64_t fd)
{
	char name[32], text[TEXT_BYTES];
	const char *line;
	uint64_t inode;

	snprintf(name, sizeof(name), "fdinfo/%" PRIu64, fd);
	if (io_read_text_at(p->fd, name, text, sizeof(text)) <= 0)
		return U64_UNKNOWN;
	line = strstr(text, "\nino:"); /* since Linux 5.14 */
	return line && sscanf(line, "\nino: %" SCNu64, &inode) == 1 ? inode : U64_UNKNOWN;
}

/* The function of the kernel that it sleeps in. */
static bool sleeps_in(const struct looked_at *p, const char *tid, const char *part)
{
	char path[64], text[128];

	snprintf(path, sizeof(path), "task/%.16s/wchan", tid);
	return io_read_text_at(p->fd, path, text, sizeof(text)) > 0 && strstr(text, part);
}

static bool is_terminal(const char *path)
{
	return strncmp(path, "/dev/pts/", 9) == 0 || strncmp(path, "/dev/tty", 8) == 0 ||
	       strcmp(path, "/dev/console") == 0;
}

static bool is_gpu(const char *path)
{
	return strncmp(path, "/dev/nvidia", 11) == 0 || strncmp(path, "/dev/dri/", 9) == 0 ||
	       strcmp(path, "/dev/kfd") == 0 || strcmp(path, "/dev/dxg") == 0;
}

/* Sets kind and object by what the file is. */
static void describe_file(const struct looked_at *p, uint64_t fd, struct wait_state *w)
{
	char name[32], link[PATH_MAX];

	if (fd > INT_MAX)
		return;
	snprintf(name, sizeof(name), "fd/%" PRIu64, fd);
	if (io_read_link_at(p->fd, name, link, sizeof(link)) < 0)
		return;
	if (sscanf(link, "pipe:[%" SCNu64 "]", &w->inode) == 1) {
		w->kind = WAIT_PIPE;
	} else if (sscanf(link, "socket:[%" SCNu64 "]", &w->inode) == 1) {
		w->kind = WAIT_SOCKET;
		describe_socket(p, w->inode, w);
		if (w->is_listening) /* a server that has nothing to do */
			w->kind = WAIT_EVENTS;
	} else if (is_terminal(link)) {
		w->kind = WAIT_TERMINAL;
		show(p, link, w);
	} else if (link[0] == '/') {
		w->kind = is_gpu(link)			   ? WAIT_GPU
			  : strncmp(link, "/dev/", 5) == 0 ? WAIT_OTHER
							   : WAIT_FILE;
		show(p, link, w);
	} else {
		w->kind = WAIT_EVENTS;
		show(p, link, w);
	}
}

/*
 * The first of these that has a name of its own stands for all. Of several, pipes and Unix sockets
 * are as a rule what an event loop wakes itself with.
 */
static void describe_files(const struct looked_at *p, const int *fds, size_t n,
			   struct wait_state *w)
{
	for (size_t i = 0; i < n; i++) {
		struct wait_state one = *w;
		bool is_network;

		describe_file(p, (uint64_t)fds[i], &one);
		is_network =
			strncmp(one.object, "TCP ", 4) == 0 || strncmp(one.object, "UDP ", 4) == 0;
		if (n > 1 && !is_network && one.kind != WAIT_TERMINAL)
			continue;
		if (one.kind != WAIT_EVENTS || !w->is_listening)
			*w = one;
		if (w->kind != WAIT_EVENTS)
			return;
	}
}

static void describe_poll(const struct looked_at *p, const uint64_t args[N_ARGS],
			  struct wait_state *w)
{
	size_t n = args[1] < FDS_MAX ? (size_t)args[1] : FDS_MAX, n_fds = 0;
	struct pollfd polled[FDS_MAX];
	int fds[FDS_MAX];

	if (n == 0)
		w->kind = WAIT_TIMER;
	if (n == 0 ||
	    read_memory(p, args[0], polled, n * sizeof(*polled)) != (ssize_t)(n * sizeof(*polled)))
		return;
	for (size_t i = 0; i < n; i++) {
		if (polled[i].fd < 0)
			continue;
		if (n_fds == 0)
			w->is_write = (polled[i].events & (POLLIN | POLLOUT)) == POLLOUT;
		fds[n_fds++] = polled[i].fd;
	}
	describe_files(p, fds, n_fds, w);
}

static void describe_select(const struct looked_at *p, const uint64_t args[N_ARGS],
			    struct wait_state *w)
{
	size_t bytes = args[0] < FD_SETSIZE ? ((size_t)args[0] + 63) / 64 * 8 : FD_SETSIZE / 8;
	int fds[FDS_MAX];
	size_t n = 0;
	fd_set set;

	for (int which = 1; which <= 2; which++) {
		FD_ZERO(&set);
		if (args[which] == 0 || read_memory(p, args[which], &set, bytes) != (ssize_t)bytes)
			continue;
		w->is_write = n == 0 && which == 2;
		for (int fd = 0; fd < FD_SETSIZE && n < FDS_MAX; fd++)
			if (FD_ISSET(fd, &set))
				fds[n++] = fd;
	}
	if (args[1] == 0 && args[2] == 0 && args[3] == 0)
		w->kind = WAIT_TIMER;
	describe_files(p, fds, n, w);
}

static void describe_epoll(const struct looked_at *p, uint64_t fd, struct wait_state *w)
{
	char name[32], text[TEXT_BYTES], *rest;
	int fds[FDS_MAX];
	size_t n = 0;

	snprintf(name, sizeof(name), "fdinfo/%" PRIu64, fd);
	if (io_read_text_at(p->fd, name, text, sizeof(text)) <= 0)
		return;
	for (char *line = strtok_r(text, "\n", &rest); line && n < FDS_MAX;
	     line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "tfd: %d", &fds[n]) == 1 && fds[n] >= 0)
			n++;
	describe_files(p, fds, n, w);
}

/* ---- locks ---- */

static void name_other(int root_fd, pid_t pid, struct wait_state *w)
{
	char text[TEXT_BYTES];
	struct pid_stat st;

	w->other = pid;
	if (proc_read_text(root_fd, pid, "stat", text, sizeof(text)) > 0 &&
	    pid_stat_parse(text, &st) == 0)
		memcpy(w->other_comm, st.comm, sizeof(st.comm));
}

/* Whether a process has this file open, by its name. */
static bool has_open(int root_fd, pid_t pid, const char *target)
{
	CLEANUP(dir_close) DIR *fds = NULL;
	const struct dirent *entry;
	char path[64], link[PATH_MAX];
	size_t n = 0;

	snprintf(path, sizeof(path), "proc/%d/fd", (int)pid);
	fds = dir_open_at(root_fd, path);
	while (fds && n++ < OPEN_MAX && (entry = readdir(fds)))
		if (io_read_link_at(dirfd(fds), entry->d_name, link, sizeof(link)) > 0 &&
		    strcmp(link, target) == 0)
			return true;
	return false;
}

/*
 * The kernel names the process that took the lock. A lock of flock() stays with the open file,
 * which a parent or a child of that process may have: "exec 9>file; flock 9". Then any other
 * process that has the file open, and does not wait for it, is the holder.
 */
static void name_holder(const struct looked_at *p, pid_t taker, uint64_t fd, const pid_t *waiters,
			size_t n_waiters, struct wait_state *w)
{
	CLEANUP(dir_close) DIR *proc = NULL;
	char name[32], target[PATH_MAX];
	pid_t pid;

	snprintf(name, sizeof(name), "fd/%" PRIu64, fd);
	if (io_read_link_at(p->fd, name, target, sizeof(target)) <= 0)
		return;
	if (has_open(p->root_fd, taker, target)) {
		name_other(p->root_fd, taker, w);
		return;
	}
	proc = dir_open_at(p->root_fd, "proc");
	while (proc && (pid = dir_next_pid(proc)) > 0) {
		bool is_waiter = pid == w->key.pid;

		for (size_t i = 0; i < n_waiters; i++)
			is_waiter |= waiters[i] == pid;
		if (!is_waiter && has_open(p->root_fd, pid, target)) {
			name_other(p->root_fd, pid, w);
			return;
		}
	}
	w->other = taker; /* it has ended, or this user may not see its files */
	name_other(p->root_fd, taker, w);
}

/*
 * proc/locks lists a lock, and below it with the same number those that wait for it, behind "->".
 * A lock of an open file description has no pid (-1).
 */
static void find_holder(const struct looked_at *p, uint64_t fd, struct wait_state *w)
{
	CLEANUP(buf_release) struct buf list = BUF_INIT;
	uint64_t number = 0, own_inode = inode_of(p, fd);
	pid_t waiters[64];
	size_t n_waiters = 0;
	int holder = 0;
	bool is_found = false;
	char *rest;

	if (p->budget->lists == 0)
		return;
	p->budget->lists--;
	if (io_read_at(p->root_fd, "proc/locks", LIST_BYTES, &list) < 0)
		return;
	for (char *line = strtok_r(list.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		uint64_t found, inode;
		int pid;

		if (sscanf(line, "%" SCNu64 ": -> %*s %*s %*s %d %*x:%*x:%" SCNu64, &found, &pid,
			   &inode) == 3) {
			if (found != number)
				continue;
			if (n_waiters < ARRAY_SIZE(waiters))
				waiters[n_waiters++] = pid;
			is_found |= u64_known(own_inode)
					    ? inode == own_inode &&
						      (pid == (int)w->key.pid || pid == -1)
					    : pid == (int)w->key.pid;
		} else if (sscanf(line, "%" SCNu64 ": %*s %*s %*s %d", &found, &pid) == 2) {
			if (is_found)
				break;
			number = found;
			holder = pid;
			n_waiters = 0;
		}
	}
	if (is_found && holder > 0)
		name_holder(p, holder, fd, waiters, n_waiters, w);
}

/* ---- one thread ---- */

static void describe_call(const struct looked_at *p, const char *tid, long nr,
			  const uint64_t args[N_ARGS], struct wait_state *w)
{
	const struct wait_call *call = find_call(nr);
	char text[SYSCALL_NAME_BYTES];

	snprintf(w->call, sizeof(w->call), "%s", syscall_name((uint32_t)nr, text));
	w->kind = call && call->arg != ARG_FD ? call->kind : WAIT_OTHER;
	w->is_write = call && call->is_write;
	switch (call ? call->arg : ARG_NONE) {
	case ARG_NONE:
		w->is_timed = nr == SYS_futex && args[3] != 0;
		break;
	case ARG_FD:
		describe_file(p, args[0], w);
		if (w->kind == WAIT_FILE && sleeps_in(p, tid, "pipe_"))
			w->kind = WAIT_PIPE; /* a FIFO */
		break;
	case ARG_FCNTL:
		if (args[1] != F_SETLKW && args[1] != F_OFD_SETLKW)
			break;
		/* fallthrough */
	case ARG_LOCK:
		describe_file(p, args[0], w);
		w->kind = WAIT_FILE_LOCK;
		find_holder(p, args[0], w);
		break;
	case ARG_PATH:
	case ARG_AT:
		read_path(p, args[call->arg == ARG_AT], w);
		/* until another process opens the other end of a FIFO */
		if (sleeps_in(p, tid, "wait_for_partner") || sleeps_in(p, tid, "fifo_open"))
			w->kind = WAIT_PIPE;
		break;
	case ARG_POLL: /* poll() has milliseconds, ppoll() a struct */
		w->is_timed = nr == SYS_ppoll ? args[2] != 0 : (int)args[2] >= 0;
		describe_poll(p, args, w);
		break;
	case ARG_SELECT:
		w->is_timed = args[4] != 0;
		describe_select(p, args, w);
		break;
	case ARG_EPOLL:
		w->is_timed = (int)args[3] >= 0;
		describe_epoll(p, args[0], w);
		break;
	}
}

/*
 * Numbers of system calls are those of this architecture only for programs of it. The auxiliary
 * vector of a 32-bit program has half as long words: the first is not a small number then.
 */
static bool has_our_calls(const struct looked_at *p)
{
	CLEANUP(close_fd) int fd = openat(p->fd, "auxv", O_RDONLY | O_CLOEXEC);
	unsigned long type;

	return fd >= 0 && pread(fd, &type, sizeof(type), 0) == (ssize_t)sizeof(type) && type < 256;
}

/* "0 0x3 0x7f… …", "running", or "-1 0x7ff… 0x…" for what waits outside of a call. */
static void read_call(const struct looked_at *p, const char *tid, struct wait_state *w)
{
	uint64_t args[N_ARGS] = { 0 };
	char path[64], text[256];
	long nr;
	int n;

	w->kind = w->state == 'R' ? WAIT_NONE : WAIT_UNKNOWN;
	if (w->kind == WAIT_NONE)
		return;
	snprintf(path, sizeof(path), "task/%.16s/syscall", tid);
	if (io_read_text_at(p->fd, path, text, sizeof(text)) <= 0)
		return;
	n = sscanf(text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &nr, &args[0], &args[1], &args[2], &args[3], &args[4], &args[5]);
	if (n == 0)
		w->kind = WAIT_NONE; /* "running" */
	else if (n > 0 && nr < 0)
		w->kind = WAIT_PAGE;
	else if (n == 1 + N_ARGS && has_our_calls(p))
		describe_call(p, tid, nr, args, w);
}

static bool read_thread(const struct looked_at *p, const char *tid, struct wait_state *w)
{
	char path[64], text[TEXT_BYTES];
	struct pid_stat st;

	snprintf(path, sizeof(path), "task/%.16s/stat", tid);
	if (io_read_text_at(p->fd, path, text, sizeof(text)) <= 0 || pid_stat_parse(text, &st) < 0)
		return false;
	w->tid = st.pid;
	w->state = st.state;
	if (st.state == 'Z' || st.state == 'X')
		w->kind = WAIT_ZOMBIE;
	else if (st.state == 'T' || st.state == 't')
		w->kind = WAIT_STOPPED;
	else
		read_call(p, tid, w);
	return true;
}

/* ---- processes ---- */

static bool read_process(int root_fd, struct proc_key key, const struct mask *mask,
			 struct budget *budget, struct wait_state *ret)
{
	CLEANUP(close_fd) int fd = -1;
	CLEANUP(dir_close) DIR *tasks = NULL;
	const struct dirent *entry;
	char path[32], text[TEXT_BYTES];
	size_t n_threads = 0, n_futex = 0;
	struct looked_at process;
	struct pid_stat st;
	bool is_found = false;

	snprintf(path, sizeof(path), "proc/%d", (int)key.pid);
	fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || io_read_text_at(fd, "stat", text, sizeof(text)) <= 0 ||
	    pid_stat_parse(text, &st) < 0 ||
	    (u64_known(key.start_ticks) && st.start_ticks != key.start_ticks))
		return false;
	process = (struct looked_at){ root_fd, fd, mask, budget, false };
	tasks = dir_open_at(fd, "task");
	while (tasks && (n_threads == 0 || budget->threads > 0) && (entry = readdir(tasks))) {
		struct wait_state one = { .key = { key.pid, st.start_ticks },
					  .inode = U64_UNKNOWN };

		if (entry->d_name[0] == '.' || !read_thread(&process, entry->d_name, &one))
			continue;
		n_threads++;
		budget->threads -= budget->threads > 0;
		n_futex += one.kind == WAIT_FUTEX;
		if (!is_found || one.kind < ret->kind)
			*ret = one;
		is_found = true;
	}
	if (!is_found)
		return false;
	memcpy(ret->comm, st.comm, sizeof(ret->comm));
	ret->n_threads = n_threads;
	ret->n_futex = n_futex;
	return true;
}

bool sources_count_waits(int root_fd, const struct proc_key *key, unsigned max,
			 struct wait_counts *ret)
{
	struct budget budget = { .lists = 0 };
	CLEANUP(close_fd) int fd = -1;
	CLEANUP(dir_close) DIR *tasks = NULL;
	struct looked_at process = { root_fd, -1, NULL, &budget, true };
	const struct dirent *entry;
	char path[64], text[128];

	*ret = (struct wait_counts){ 0 };
	snprintf(path, sizeof(path), "proc/%d", (int)key->pid);
	process.fd = fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tasks = fd >= 0 ? dir_open_at(fd, "task") : NULL;
	while (tasks && ret->n_threads < max && (entry = readdir(tasks))) {
		struct wait_state one = { .key = *key, .inode = U64_UNKNOWN };
		struct pid_schedstat scheduled = { .wait_ns = U64_UNKNOWN };

		if (entry->d_name[0] == '.' || !read_thread(&process, entry->d_name, &one))
			continue;
		/* Calls without a file of their own: mkdir(), rename(), exec()… */
		if (one.state == 'D' && one.kind == WAIT_OTHER)
			one.kind = WAIT_FILE;
		ret->n[one.kind]++;
		ret->n_threads++;
		snprintf(path, sizeof(path), "task/%.16s/schedstat", entry->d_name);
		if (io_read_text_at(fd, path, text, sizeof(text)) > 0)
			(void)pid_schedstat_parse(text, &scheduled);
		ret->cpu_wait_ns = u64_add(ret->cpu_wait_ns, scheduled.wait_ns);
	}
	return ret->n_threads > 0;
}

/* Whether this file, which is open in the process, can be written to, or else be read. */
static bool is_open_for(DIR *fds, const char *fd, bool is_writer)
{
	char path[64], text[TEXT_BYTES];
	const char *flags_text;
	unsigned flags;

	snprintf(path, sizeof(path), "../fdinfo/%.16s", fd);
	if (io_read_text_at(dirfd(fds), path, text, sizeof(text)) <= 0)
		return false;
	flags_text = strstr(text, "flags:");
	return flags_text && sscanf(flags_text, "flags: %o", &flags) == 1 &&
	       (flags & O_ACCMODE) != (is_writer ? O_RDONLY : O_WRONLY);
}

/* Those that wait at a pipe of which this process has the other end learn of it. */
static void offer_pipes(int root_fd, const struct wait_state *owner, struct wait_state *all,
			size_t n)
{
	CLEANUP(dir_close) DIR *fds = NULL;
	const struct dirent *entry;
	char path[64], link[64];
	size_t n_fds = 0;

	snprintf(path, sizeof(path), "proc/%d/fd", (int)owner->key.pid);
	fds = dir_open_at(root_fd, path);
	while (fds && n_fds++ < OPEN_MAX && (entry = readdir(fds))) {
		uint64_t inode;

		if (io_read_link_at(dirfd(fds), entry->d_name, link, sizeof(link)) < 0 ||
		    sscanf(link, "pipe:[%" SCNu64 "]", &inode) != 1)
			continue;
		/* Its flags are read once, if a process waits at this pipe. */
		for (size_t i = 0, looked = 0, ends[2] = { 0 }; i < n; i++) {
			struct wait_state *w = &all[i];

			if (w->kind != WAIT_PIPE || w->inode != inode || w->other != 0 ||
			    w->key.pid == owner->key.pid)
				continue;
			if (!looked) {
				ends[0] = is_open_for(fds, entry->d_name, false);
				ends[1] = is_open_for(fds, entry->d_name, true);
				looked = 1;
			}
			if (!ends[!w->is_write])
				continue;
			w->other = owner->key.pid;
			memcpy(w->other_comm, owner->comm, sizeof(w->other_comm));
		}
	}
}

struct wait_question {
	const struct proc_key *keys;
	size_t n;
	const struct mask *mask;
	struct wait_state *states;
};

/* In the child; its root directory is carried on. */
static void look_at_all(const void *ctx, int fd)
{
	const struct wait_question *q = ctx;
	struct budget budget = { .threads = THREADS_MAX, .lists = LISTS_MAX };
	size_t n = 0, n_pipes = 0;

	for (size_t i = 0; i < q->n; i++)
		if (read_process(CHILD_CARRIED_FD, q->keys[i], q->mask, &budget, &q->states[n]))
			n_pipes += q->states[n++].kind == WAIT_PIPE;
	for (size_t i = 0; i < n && n_pipes > 0; i++)
		offer_pipes(CHILD_CARRIED_FD, &q->states[i], q->states, n);
	io_write_all(fd, q->states, n * sizeof(*q->states));
}

size_t sources_read_waits(int root_fd, const struct proc_key *keys, size_t n,
			  const struct mask *mask, struct wait_state *ret, pid_t *ret_pid)
{
	const struct wait_question waits = { keys, n, mask, ret };
	const struct child_question question = { look_at_all, &waits, root_fd, PATIENCE_MS };
	ssize_t bytes = n == 0 ? 0 : child_ask(&question, ret, n * sizeof(*ret), ret_pid);

	/* In part it is of no use: the one that explains may be missing. */
	return bytes > 0 && (size_t)bytes % sizeof(*ret) == 0 ? (size_t)bytes / sizeof(*ret) : 0;
}

/* One that waits for another of the tree, at a pipe or as its parent, explains less than the other.
 */
static int rank_of(const struct wait_state *w)
{
	bool is_last = w->kind == WAIT_CHILD || w->kind == WAIT_ZOMBIE;
	bool is_second = w->kind == WAIT_PIPE && w->other != 0;

	return (int)w->kind + (is_last ? 2 : is_second ? 1 : 0) * N_WAIT_KINDS;
}

const struct wait_state *wait_state_pick(const struct wait_state *states, size_t n)
{
	const struct wait_state *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (!best || rank_of(&states[i]) < rank_of(best))
			best = &states[i];
	return best;
}

/* ---- words ---- */

/* "tar (pid 12)"; the name is what the process has made of it. */
static void add_process(struct buf *out, const char *comm, pid_t pid)
{
	utf8_add_text(out, comm, strlen(comm));
	buf_printf(out, " (pid %d)", (int)pid);
}

void wait_state_add_process(struct buf *out, const struct wait_state *w)
{
	add_process(out, w->comm, w->key.pid);
}

static void add_other(struct buf *out, const struct wait_state *w, const char *verb)
{
	if (w->other == 0)
		return;
	buf_printf(out, ", %s ", verb);
	if (w->other_comm[0])
		add_process(out, w->other_comm, w->other);
	else
		buf_printf(out, "pid %d, which has ended (a child of it may have the file)",
			   (int)w->other);
}

static void add_socket(struct buf *out, const struct wait_state *w)
{
	bool is_known = w->object[0];

	if (strcmp(w->call, "connect") == 0)
		buf_add_str(out, "waiting for a connection to ");
	else
		buf_add_str(out, w->is_write ? "waiting for room to send to "
					     : "waiting for data from ");
	buf_add_str(out, is_known ? w->object : "a socket");
}

void wait_state_add(struct buf *out, const struct wait_state *w)
{
	const char *object = w->object[0] ? w->object : NULL;

	switch (w->kind) {
	case WAIT_STOPPED:
		buf_add_str(out, w->state == 't' ? "stopped by a tracer" : "stopped by a signal");
		break;
	case WAIT_FILE_LOCK:
		buf_printf(out, "waiting for a lock on %s", object ? object : "a file");
		add_other(out, w, "held by");
		break;
	case WAIT_NONE:
		buf_add_str(out, "running");
		break;
	case WAIT_FILE:
		buf_printf(out, "waiting for the file system (%s%s%s)", w->call,
			   object ? " of " : "", object ? object : "");
		break;
	case WAIT_PAGE:
		buf_add_str(out, "waiting for a page of its memory to be read");
		break;
	case WAIT_GPU:
		buf_printf(out, "waiting for a GPU (%s%s%s)", w->call, object ? " of " : "",
			   object ? object : "");
		break;
	case WAIT_SOCKET:
		add_socket(out, w);
		break;
	case WAIT_PIPE:
		if (strncmp(w->call, "open", 4) == 0) {
			buf_printf(out, "waiting for another process to open %s",
				   object ? object : "a FIFO");
			break;
		}
		buf_printf(out, w->is_write ? "waiting for room in %s" : "waiting for data from %s",
			   object ? object : "a pipe");
		add_other(out, w, w->is_write ? "read by" : "written by");
		break;
	case WAIT_TERMINAL:
		buf_printf(out,
			   w->is_write ? "waiting to write to %s" : "waiting for input from %s",
			   object);
		break;
	case WAIT_FUTEX:
		if (w->n_futex == w->n_threads && w->n_threads > 1)
			buf_printf(out,
				   "waiting for another thread (futex), as all its %zu threads are",
				   w->n_threads);
		else if (w->n_threads == 1)
			buf_add_str(out, "waiting on a futex, without another thread");
		else
			buf_add_str(out, "waiting for another thread (futex)");
		break;
	case WAIT_TIMER:
		buf_printf(out, "sleeping (%s)", w->call);
		break;
	case WAIT_OTHER:
		buf_printf(out, "waiting in %s%s%s", w->call, object ? " of " : "",
			   object ? object : "");
		break;
	case WAIT_SIGNAL:
		buf_add_str(out, "waiting for a signal");
		break;
	case WAIT_EVENTS:
		if (w->is_listening)
			buf_printf(out, "waiting for clients at %s", object ? object : "a socket");
		else
			buf_printf(out, "waiting for events (%s)", w->call);
		break;
	case WAIT_UNKNOWN:
		buf_add_str(out, w->state == 'D'
					 ? "waiting in the kernel, in a call that this user "
					   "may not see"
					 : "waiting in a call that this user may not see");
		break;
	case WAIT_CHILD:
		buf_add_str(out, "waiting for a child");
		break;
	case WAIT_ZOMBIE:
		buf_add_str(out, "over, but its parent has not waited for it");
		break;
	case N_WAIT_KINDS:
		break;
	}
	if (w->is_timed && w->kind != WAIT_TIMER)
		buf_add_str(out, ", for a limited time");
}

struct cause wait_state_cause(const struct wait_state *w)
{
	return (struct cause){ w->kind == WAIT_STOPPED	   ? CAUSE_STOPPED
			       : w->kind == WAIT_FILE_LOCK ? CAUSE_LOCK
			       : w->kind == WAIT_NONE	   ? CAUSE_BUSY
							   : CAUSE_WAIT,
			       w->key.pid, w->other > 0 ? w->other : -1 };
}

void sources_read_kernel_stack(int root_fd, const struct wait_state *w, struct buf *out)
{
	char path[64], text[TEXT_BYTES], *rest;

	snprintf(path, sizeof(path), "proc/%d/task/%d/stack", (int)w->key.pid, (int)w->tid);
	if (io_read_text_at(root_fd, path, text, sizeof(text)) <= 0)
		return;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *name = strstr(line, "] ");

		if (name)
			buf_printf(out, "%s%.*s", out->len > 0 ? " " : "",
				   (int)strcspn(name + 2, "+"), name + 2);
	}
}

static void write_comm(struct json *j, const char *key, const char *comm)
{
	json_key_string(j, key, comm[0] ? comm : NULL);
}

void wait_state_write_fields(struct json *j, const struct wait_state *w)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	char state[] = { w->state, '\0' };

	wait_state_add(&text, w);
	json_key_i64(j, "pid", w->key.pid);
	json_key_u64(j, "start_ticks", w->key.start_ticks);
	write_comm(j, "comm", w->comm);
	json_key_string(j, "state", state);
	json_key_string(j, "waits_for", wait_kind_name(w->kind));
	json_key_string(j, "text", text.data);
	json_key_i64(j, "thread", w->tid);
	json_key_u64(j, "threads", w->n_threads);
	json_key_string(j, "syscall", w->call[0] ? w->call : NULL);
	json_key_string(j, "object", w->object[0] ? w->object : NULL);
	json_key(j, "other_pid");
	if (w->other > 0)
		json_i64(j, w->other);
	else
		json_none(j);
	write_comm(j, "other_comm", w->other_comm);
}
