#include "recorder/evidence.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "recorder/identity.h"
#include "detect/detect.h"
#include "sources/sources.h"

/* ---- the culprit ---- */

static bool is_more(const struct anomaly_syscall *a, const struct anomaly_syscall *b)
{
	if (f64_known(a->time_pct) && f64_known(b->time_pct) && a->time_pct != b->time_pct)
		return a->time_pct > b->time_pct;
	return a->count > b->count;
}

/* Into its place among the largest; the last of a full list makes room. */
static void insert_call(struct anomaly_evidence *e, const struct anomaly_syscall *call)
{
	size_t at = e->n_syscalls;

	if (at == ARRAY_SIZE(e->syscalls) && !is_more(call, &e->syscalls[--at]))
		return;
	for (; at > 0 && is_more(call, &e->syscalls[at - 1]); at--)
		e->syscalls[at] = e->syscalls[at - 1];
	e->syscalls[at] = *call;
	if (e->n_syscalls < ARRAY_SIZE(e->syscalls))
		e->n_syscalls++;
}

static void take_calls(const struct proc_sample *p, struct anomaly_evidence *e)
{
	uint64_t total = 0;

	e->has_syscalls = true;
	for (size_t i = 0; i < p->n_syscalls; i++)
		total = u64_add_known(total, p->syscalls[i].cpu_ns);
	for (size_t i = 0; i < p->n_syscalls; i++) {
		const struct syscall_use *use = &p->syscalls[i];
		struct anomaly_syscall call = { .count = use->count, .time_pct = F64_UNKNOWN };

		snprintf(call.name, sizeof(call.name), "%s", use->name);
		if (u64_known(use->cpu_ns) && total > 0)
			call.time_pct = 100.0 * (double)use->cpu_ns / (double)total;
		insert_call(e, &call);
	}
}

static void take_doing(const struct evidence_from *from, struct proc_key key,
		       struct anomaly_evidence *e)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct wait_state state;
	size_t n;

	/* A process may keep who looks at it waiting for a second: that is not for a daemon. */
	if (!from->looked ||
	    sources_read_waits(from->root_fd, &key, 1, from->mask, &state, from->looked) == 0 ||
	    state.kind == WAIT_UNKNOWN)
		return;
	wait_state_add(&text, &state);
	n = utf8_cut(text.data, text.len, sizeof(e->doing) - 1);
	memcpy(e->doing, text.data, n);
	e->doing[n] = '\0';
}

/* Asked before and after: it may run another program at any time. */
bool evidence_gather(const struct evidence_from *from, const struct episode *e,
		     struct anomaly_evidence *ret)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
	const struct proc_sample *p = NULL;

	anomaly_evidence_init(ret);
	if (!e->worst.has_pid || !u64_known(key.start_ticks) ||
	    !may_see(from->uid, U64_UNKNOWN, from->root_fd, key.pid))
		return false;
	for (size_t i = 0; i < from->snap->n_processes && !p; i++)
		if (from->snap->processes[i].key.pid == key.pid &&
		    from->snap->processes[i].key.start_ticks == key.start_ticks)
			p = &from->snap->processes[i];
	if (sources_read_open_files(from->root_fd, key, from->mask, ret) == 0 &&
	    !u64_known(ret->n_files_open) && p)
		ret->n_files_open = p->open_fds; /* more than are worth counting again */
	if (p && p->syscalls)
		take_calls(p, ret);
	take_doing(from, key, ret);
	if (!may_see(from->uid, U64_UNKNOWN, from->root_fd, key.pid))
		anomaly_evidence_init(ret);
	return ret->n_files > 0 || u64_known(ret->n_files_open) || ret->has_syscalls ||
	       ret->doing[0];
}

/* ---- who has the most memory of all ---- */

void around_look(int root_fd, struct snapshot *all, uint64_t boot_ns, struct around *ret)
{
	struct anomaly_host host;

	/* By eBPF it is there already; else one file of each, and not all that there are of it. */
	for (size_t i = 0; i < all->n_processes; i++)
		if (!u64_known(all->processes[i].rss_bytes))
			all->processes[i].rss_bytes =
				sources_read_rss(root_fd, all->processes[i].key.pid);
	detect_describe_host(all, &host);
	ret->boot_ns = boot_ns;
	ret->n_top_rss = host.n_top_rss;
	memcpy(ret->top_rss, host.top_rss, sizeof(ret->top_rss));
}

/* Whose memory could not be read has ended meanwhile. */
void around_tell(const struct around *around, struct anomaly_host *host)
{
	host->knows_rss = true;
	host->n_top_rss = around->n_top_rss;
	memcpy(host->top_rss, around->top_rss, sizeof(host->top_rss));
}

/* ---- a short trace ---- */

#define SUFFIX ".trace"
#define REST_FACTOR 10	  /* a tenth of the time is traced */
#define LET_GO_MS 4000	  /* strace is given 3 s of these */
#define ATTACH_SECONDS 15 /* so long after its time a tracer that is still there is stuck */

/* ---- whom ---- */

static int check(const struct evidence_trace *t, const struct evidence_from *from,
		 const struct episode *e, struct err *err)
{
	pid_t pid = (pid_t)e->worst.pid;

	if (!(from->trace_seconds > 0) || !e->worst.has_pid || !u64_known(e->worst.start_ticks))
		return err_set(err, -EINVAL, "there is no process to trace");
	if (t->tracer > 0 || clock_boot_ns() < t->next_boot_ns)
		return err_set(err, -EAGAIN, "another process was traced just before");
	if (!proc_is_alive("", pid, e->worst.start_ticks))
		return err_set(err, -ESRCH, "process %d is gone", (int)pid);
	if (!may_see(from->uid, U64_UNKNOWN, from->root_fd, pid))
		return err_set(err, -EPERM, "process %d is not its user's alone", (int)pid);
	if (proc_is_own_program(pid))
		return err_set(err, -EINVAL, "proctor does not trace itself");
	return 0;
}

/* ---- the folder ---- */

/* Makes room for one more. What cannot be removed does not keep us from going on. */
static void drop_old(const char *dir)
{
	DIR *folder = opendir(dir);
	char oldest[256] = "";
	size_t n;

	if (!folder)
		return;
	do {
		const struct dirent *entry;
		struct timespec changed = { 0 };

		n = 0;
		rewinddir(folder);
		while ((entry = readdir(folder))) {
			size_t len = strlen(entry->d_name), tail = strlen(SUFFIX);
			struct stat st;

			if (len <= tail || strcmp(entry->d_name + len - tail, SUFFIX) != 0 ||
			    fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
				continue;
			if (n++ == 0 || st.st_mtim.tv_sec < changed.tv_sec ||
			    (st.st_mtim.tv_sec == changed.tv_sec &&
			     st.st_mtim.tv_nsec < changed.tv_nsec)) {
				snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
				changed = st.st_mtim;
			}
		}
	} while (n >= EVIDENCE_TRACE_FILES && unlinkat(dirfd(folder), oldest, 0) == 0);
	closedir(folder);
}

/* "memory_leak-123.4567-1763000000000000000.trace": the episode's name. */
static int name_file(const char *dir, const struct episode *e, char *ret, size_t size,
		     struct err *err)
{
	int r;

	drop_old(dir);
	r = snprintf(ret, size, "%s/%s" SUFFIX, dir, e->name);
	if (r < 0 || (size_t)r >= size)
		return err_set(err, -ENAMETOOLONG, "the path of a trace would be too long");
	for (char *c = ret + strlen(dir) + 1; *c; c++)
		*c = *c == '/' ? '-' : *c;
	return 0;
}

/* ---- one at a time, whoever looks ---- */

#define LOCK_NAME "lock"

/* It has a byte as soon as one was made, and was written to when that began. */
static int take_lock(const char *dir, double rest_seconds, int *ret, struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	char path[PATH_BYTES + sizeof(LOCK_NAME) + 1];
	struct stat st;
	double since;

	snprintf(path, sizeof(path), "%s/" LOCK_NAME, dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0)
		st = (struct stat){ 0 };
	since = clock_ns_to_seconds(clock_wall_ns()) - (double)st.st_mtim.tv_sec;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || /* and the clock may have been set */
	    (st.st_size > 0 && since >= 0 && since < rest_seconds))
		return err_set(err, -EAGAIN, "another has traced a process just before");
	if (pwrite(fd, "1", 1, 0) != 1)
		return err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
	*ret = fd;
	fd = -1;
	return 0;
}

/* ---- the tracer ---- */

/* In the child: nothing but what may be called between fork and exec. */
static void become_tracer(const char *const *argv, pid_t parent)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || setpgid(0, 0) < 0)
		_exit(126);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (dup2(null_fd, fd) < 0)
			_exit(126);
	execv("/proc/self/exe", (char *const *)argv);
	_exit(127);
}

static int spawn(struct evidence_trace *t, double seconds, const struct anomaly *culprit,
		 struct err *err)
{
	char duration[32], bytes[32], pid_text[16], start[32];
	const char *const argv[] = { "proctor",		"trace",       "--duration",
				     duration,		"--max-bytes", bytes,
				     "--start-ticks",	start,	       "--output",
				     t->evidence.trace, pid_text,      NULL };
	pid_t parent = getpid(), pid;

	snprintf(duration, sizeof(duration), "%.0fs", ceil(seconds));
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)EVIDENCE_TRACE_BYTES);
	snprintf(pid_text, sizeof(pid_text), "%d", (int)culprit->pid);
	snprintf(start, sizeof(start), "%llu", (unsigned long long)culprit->start_ticks);
	pid = fork();
	if (pid == 0)
		become_tracer(argv, parent);
	if (pid < 0)
		return err_set(err, -errno, "cannot start a tracer: %s", strerror(errno));
	t->tracer = pid;
	t->tracer_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

static int begin(struct evidence_trace *t, const struct evidence_from *from,
		 const struct episode *e, const struct anomaly_evidence *evidence, struct err *err)
{
	CLEANUP(close_fd) int lock_fd = -1;
	double rest_seconds = REST_FACTOR * ceil(from->trace_seconds);
	uint64_t now = clock_boot_ns();
	char dir[PATH_BYTES];
	int r = check(t, from, e, err);

	if (r == 0 && snprintf(dir, sizeof(dir), "%s/traces", from->state_dir) >= (int)sizeof(dir))
		r = err_set(err, -ENAMETOOLONG, "the path of the folder for traces is too long");
	if (r == 0)
		r = path_make_dir(dir, err);
	if (r == 0)
		r = take_lock(dir, rest_seconds, &lock_fd, err);
	if (r < 0)
		return r;
	t->evidence = *evidence;
	snprintf(t->episode, sizeof(t->episode), "%s", e->name);
	r = name_file(dir, e, t->evidence.trace, sizeof(t->evidence.trace), err);
	if (r == 0)
		r = spawn(t, from->trace_seconds, &e->worst, err);
	if (r < 0)
		return r;
	t->next_boot_ns = now + (uint64_t)(rest_seconds * 1e9);
	t->stuck_boot_ns = now + (uint64_t)((ceil(from->trace_seconds) + ATTACH_SECONDS) * 1e9);
	t->lock_fd = lock_fd;
	lock_fd = -1;
	return 0;
}

int evidence_trace_begin(struct evidence_trace *t, const struct evidence_from *from,
			 const struct episode *e, struct anomaly_evidence *evidence,
			 struct err *err)
{
	struct err why = ERR_INIT;
	int r = begin(t, from, e, evidence, &why);

	if (r == 0)
		return 0;
	if (from->trace_seconds > 0) {
		snprintf(evidence->trace_missing, sizeof(evidence->trace_missing), "%.*s",
			 (int)sizeof(evidence->trace_missing) - 1, why.text);
		log_debug("no trace of process %lld: %s", (long long)e->worst.pid, why.text);
	}
	return err_set(err, r, "%s", why.text);
}

/* ---- its end ---- */

/* One that could not be traced leaves an empty file: that is no evidence. */
static void judge_file(struct anomaly_evidence *e)
{
	struct stat st;

	if (stat(e->trace, &st) == 0 && st.st_size > 0)
		return;
	unlink(e->trace);
	e->trace[0] = '\0';
	snprintf(e->trace_missing, sizeof(e->trace_missing), "nothing of it could be traced");
}

/* Somebody else may wait for all our children. */
static bool is_over(const struct evidence_trace *t, int timeout_ms)
{
	struct pollfd p = { .fd = t->tracer_fd, .events = POLLIN };

	if (t->tracer_fd >= 0)
		return poll(&p, 1, timeout_ms) > 0;
	return waitpid(t->tracer, NULL, WNOHANG) != 0;
}

static bool take_end(struct evidence_trace *t)
{
	waitpid(t->tracer, NULL, WNOHANG);
	close_fd(&t->tracer_fd);
	close_fd(&t->lock_fd);
	t->ended = t->tracer;
	t->tracer = 0;
	judge_file(&t->evidence);
	return true;
}

bool evidence_trace_has_ended(struct evidence_trace *t)
{
	if (t->tracer <= 0)
		return false;
	if (!is_over(t, 0)) {
		/* It bounds itself; this is for one that hangs. */
		if (clock_boot_ns() > t->stuck_boot_ns)
			kill(t->tracer, SIGKILL);
		return false;
	}
	return take_end(t);
}

bool evidence_trace_stop(struct evidence_trace *t)
{
	if (t->tracer <= 0)
		return false;
	kill(t->tracer, SIGTERM);
	if (!is_over(t, LET_GO_MS)) {
		kill(t->tracer, SIGKILL);
		is_over(t, LET_GO_MS);
	}
	return take_end(t);
}
