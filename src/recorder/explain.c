/*
 * explain - why a try ended as it did, beyond the status of its command: for the reason in its
 * record, which is what "jobs", "report" and the summary show first.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "recorder/run_internal.h"

/* ---- a time limit: what its processes wait for ---- */

#define WAITS_MAX 1000 /* processes that are looked at */

void explain_time_limit(struct run *run, struct buf *why, struct cause *ret)
{
	const struct wait_state *worst;
	struct proc_key *keys;
	const pid_t *pids;
	size_t n_pids = 0, n = 0;
	pid_t looker = 0;

	run->n_waits = 0;
	pids = membership_pids(run->members, &n_pids);
	keys = arena_alloc(&run->snap.arena, (WAITS_MAX + 1) * sizeof(*keys));
	free(run->waits);
	run->waits = calloc(WAITS_MAX, sizeof(*run->waits));
	if (!pids || !keys || !run->waits)
		return;
	for (size_t i = 0; i < n_pids && n < WAITS_MAX; i++) {
		const struct job_member *member = membership_find(run->members, pids[i]);

		/* What an earlier sheet left running on purpose does not hold this one up. */
		if (member && (!run->options->leave_background ||
			       member->sheet_num == run_current_sheet(run)))
			keys[n++] = member->key;
	}
	run->n_waits =
		sources_read_waits(run->root_fd, keys, n, run->options->mask, run->waits, &looker);
	if (looker > 0)
		(void)membership_add_stranger(run->members, looker);
	worst = wait_state_pick(run->waits, run->n_waits);
	if (!worst)
		return;
	wait_state_add_process(why, worst);
	buf_add_str(why, " was ");
	wait_state_add(why, worst);
	*ret = wait_state_cause(worst);
}

void explain_signalled(const struct run *run, pid_t pid, struct buf *out)
{
	for (size_t i = 0; i < run->n_waits; i++) {
		if (run->waits[i].key.pid != pid)
			continue;
		buf_add_str(out, "; it was ");
		wait_state_add(out, &run->waits[i]);
		return;
	}
}

/* ---- the first process to fail ---- */

/* Signals by which a program ends for what it has done itself. */
static bool is_fault(int sig)
{
	static const int faults[] = { SIGILL,  SIGTRAP, SIGABRT, SIGBUS, SIGFPE,
				      SIGSEGV, SIGSYS,	SIGXCPU, SIGXFSZ };

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		if (sig == faults[i])
			return true;
	return false;
}

/*
 * Whether the end of the child can be what its parent failed for. Scripts end their helpers by a
 * signal, and the reader of a pipe its writer: such an end counts where the parent passes it on, or
 * where it came from outside.
 */
static bool counts(const struct proc_record *parent, const struct proc_record *child,
		   explain_outside_fn *is_from_outside, void *ctx)
{
	const struct exit_status end = child->status;

	if (end.signal < 0 || is_fault(end.signal))
		return end.signal >= 0 || end.exit_code > 0;
	return parent->status.exit_code == 128 + end.signal || is_from_outside(ctx, child);
}

/* So long after its last child a parent still ends because of it. One that goes on has done with
 * it. */
#define GOES_ON_NS UINT64_C(250000000)

/*
 * The child whose failure its parent passed on: the first that failed after the parent had started
 * its last. A shell and make go on after a failure that they ignore, and start nothing after one
 * that counts; but they may wait for others.
 */
static const struct proc_record *find_failed_child(const struct proc_record *all, size_t n,
						   const struct proc_record *parent,
						   explain_outside_fn *is_from_outside, void *ctx)
{
	const struct proc_record *failed = NULL;
	uint64_t last_born_ns = 0, last_died_ns = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n; i++) {
			const struct proc_record *p = &all[i];

			if (p->ppid != parent->key.pid || !u64_known(p->born_wall_ns) ||
			    p->born_wall_ns < parent->born_wall_ns ||
			    p->born_wall_ns > parent->died_wall_ns)
				continue;
			if (p->born_wall_ns > last_born_ns)
				last_born_ns = p->born_wall_ns;
			if (!u64_known(p->died_wall_ns) || p->died_wall_ns > parent->died_wall_ns)
				continue;
			if (p->died_wall_ns > last_died_ns)
				last_died_ns = p->died_wall_ns;
			if (pass == 1 && p->died_wall_ns >= last_born_ns &&
			    (!failed || p->died_wall_ns < failed->died_wall_ns) &&
			    counts(parent, p, is_from_outside, ctx))
				failed = p;
		}
	return parent->died_wall_ns - last_died_ns <= GOES_ON_NS ? failed : NULL;
}

const struct proc_record *explain_first_failed(const struct proc_record *all, size_t n, pid_t root,
					       explain_outside_fn *is_from_outside, void *ctx)
{
	const struct proc_record *found = NULL;

	for (size_t i = 0; i < n; i++) /* of several with this number, the last */
		if (all[i].key.pid == root)
			found = &all[i];
	if (!found || !u64_known(found->born_wall_ns) || !u64_known(found->died_wall_ns))
		return NULL;
	/* What was killed by a signal did not fail for its child's sake. A child ends before its
	 * parent, and one with the parent's number is none, so this ends. */
	while (found->status.signal < 0) {
		const struct proc_record *child =
			find_failed_child(all, n, found, is_from_outside, ctx);

		if (!child || child->key.pid == found->key.pid)
			break;
		found = child;
	}
	return found->key.pid == root ? NULL : found;
}

/* "cc1plus (pid 12)": the program, without folder and arguments. */
static void add_program(struct buf *out, const struct proc_record *p)
{
	const char *command = p->command && p->command[0] ? p->command : NULL;
	size_t length = command ? strcspn(command, " ") : 0, from = 0;

	if (!command) {
		buf_printf(out, "process %d", (int)p->key.pid);
		return;
	}
	for (size_t i = 0; i < length; i++)
		if (command[i] == '/' && i + 1 < length)
			from = i + 1;
	buf_add(out, command + from, length - from);
	buf_printf(out, " (pid %d)", (int)p->key.pid);
}

/* ---- short of memory ---- */

/* The job held a good part of the memory, or there was hardly any left, when it was last seen. */
static bool was_short_of_memory(const struct run *run)
{
	const struct system_sample *sys = &run->snap.system;
	uint64_t total = sys->memory_total_bytes, rss = run->curve.last.rss_bytes;

	if (!u64_known(total))
		return false;
	return (u64_known(rss) && rss > total / 4) ||
	       (u64_known(sys->memory_available_bytes) && sys->memory_available_bytes < total / 10);
}

/* A process with less is not what the kernel kills for its memory. */
#define VICTIM_MIN_BYTES (UINT64_C(8) << 20)

/* A daemon that the kernel tells of each kill has followed the run all the time. */
static bool knows_kills(const struct run *run)
{
	const struct link_state *state = link_state(run->link);

	return state->is_there && !state->is_rough && !state->was_broken && !state->began_late &&
	       state->n_lost == 0;
}

static void add_refused_starts(const struct run *run, struct buf *why)
{
	struct cgroup_use use;

	if (!run->containing.cgroup || !u64_known(run->options->spec->limits.max_processes))
		return;
	job_cgroup_read(run->containing.cgroup, &use);
	if (u64_known(use.task_hits) && use.task_hits > 0)
		buf_printf(why, "%sthe job's limit of %llu processes and threads was reached",
			   why->len > 0 ? "; " : "",
			   (unsigned long long)run->options->spec->limits.max_processes);
}

/* The kernel enforces a limit of the job's own, and it was reached; else another one, above it. */
static bool has_reached_memory_limit(const struct run *run)
{
	struct cgroup_use use;

	if (!run->containing.cgroup || !u64_known(run->options->spec->limits.memory_bytes) ||
	    u64_known(run->containing.watched.memory_bytes))
		return false;
	job_cgroup_read(run->containing.cgroup, &use);
	return u64_known(use.memory_hits) && use.memory_hits > 0;
}

/*
 * A daemon that follows us knows of each kill. Else the count of our own cgroup is about the job;
 * that of the host is about any process, so it is called a guess.
 */
static enum cause_kind was_oom_killed(struct run *run, const struct proc_record *p,
				      uint64_t wall_ns, struct buf *why)
{
	struct oom_counts now;
	uint64_t here, host;
	const char *details = tally_find_oom(run->tally, p->key.pid);
	enum cause_kind kind;

	if (details) {
		buf_add_str(why, details);
		return CAUSE_MEMORY;
	}
	run_read_oom(run, &now);
	here = u64_delta(now.cgroup, run->ending.oom_before.cgroup);
	host = u64_delta(now.host, run->ending.oom_before.host);
	if (!(u64_known(here) && here > 0) && !(u64_known(host) && host > 0))
		return CAUSE_NONE;
	if (knows_kills(run) ||
	    (u64_known(p->max_rss_bytes) && p->max_rss_bytes < VICTIM_MIN_BYTES))
		return CAUSE_NONE;
	if (u64_known(here) && here > 0 && has_reached_memory_limit(run)) {
		kind = CAUSE_MEMORY;
		buf_add_str(why, "the job's memory limit of ");
		num_add_bytes(why, run->options->spec->limits.memory_bytes);
		buf_add_str(why, " was reached");
	} else if (u64_known(here) && here > 0) {
		kind = CAUSE_MEMORY;
		buf_printf(why, "its cgroup's count of out-of-memory kills rose by %llu",
			   (unsigned long long)here);
	} else {
		kind = was_short_of_memory(run) ? CAUSE_MEMORY_LIKELY : CAUSE_NONE;
		buf_printf(
			why,
			kind != CAUSE_NONE
				? "probably out of memory: the host's count of such kills rose by %llu, "
				  "and memory was short"
				: "the host's count of out-of-memory kills rose by %llu meanwhile, which "
				  "need not be this job's",
			(unsigned long long)host);
	}
	if (kind != CAUSE_NONE)
		tally_oom(run->tally, p->key.pid, p->sheet_num, why->data, wall_ns);
	return kind;
}

/* ---- a full disk ---- */

#define FULL_BYTES 65536 /* less than that is no room for a program's output */
#define MOUNTS_BYTES (1 << 20)

/*
 * Whether all that is mounted on the way to a path is on this machine, by the text of
 * /proc/self/mountinfo: a server that is gone would keep us waiting, whatever we ask it.
 */
static bool is_local(char *mounts, const char *path)
{
	static const char *const types[] = { "ext2",  "ext3",  "ext4", "xfs",	  "btrfs",
					     "tmpfs", "f2fs",  "vfat", "overlay", "zfs",
					     "ramfs", "exfat", "jfs",  "bcachefs" };
	char *rest;

	if (strpbrk(path, " \t\n\\")) /* which are written in another way there */
		return false;
	for (char *line = strtok_r(mounts, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *behind = strstr(line, " - ");
		char point[PATH_MAX], type[32];
		bool is_known = false;
		size_t n;

		if (!behind || sscanf(line, "%*d %*d %*s %*s %4095s", point) != 1 ||
		    sscanf(behind, " - %31s", type) != 1)
			return false;
		n = strcmp(point, "/") == 0 ? 0 : strlen(point);
		if (strncmp(path, point, n) != 0 || (path[n] && path[n] != '/'))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(types); i++)
			is_known |= strcmp(type, types[i]) == 0;
		if (!is_known)
			return false;
	}
	return true;
}

static bool add_if_full(struct buf *out, const char *path)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
	CLEANUP(buf_release) struct buf mounts = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	struct statvfs fs;

	if (!path || path[0] != '/' ||
	    io_read_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_BYTES, &mounts) < 0 ||
	    !is_local(mounts.data, path))
		return false;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0 || fstatvfs(fd, &fs) < 0 || fs.f_blocks == 0 || (fs.f_flag & ST_RDONLY))
		return false;
	if ((uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize < FULL_BYTES)
		buf_printf(out, "%sthe disk of %s is full", out->len > 0 ? "; " : "", path);
	else if (fs.f_files > 0 && fs.f_favail == 0)
		buf_printf(out, "%sthe disk of %s has no inode left", out->len > 0 ? "; " : "",
			   path);
	else
		return false;
	return true;
}

/* Where a command most likely writes: its directory, and that of temporary files. */
static bool add_full_disks(struct run *run, struct buf *why)
{
	const struct sheet_record *sheet = runner_current_sheet(run->runner);
	const char *workdir = run->attempt->workdir, *temporary = getenv("TMPDIR");
	bool is_full;

	for (size_t i = 0; sheet && i < run->options->spec->n_sheets; i++) {
		const struct sheet_spec *spec = &run->options->spec->sheets[i];

		if (spec->num != sheet->num)
			continue;
		if (spec->workdir)
			workdir = spec->workdir;
		for (size_t k = 0; k < spec->n_env; k++)
			if (strcmp(spec->env[k].name, "TMPDIR") == 0)
				temporary = spec->env[k].value;
	}
	is_full = add_if_full(why, workdir);
	return add_if_full(why, temporary && temporary[0] ? temporary : "/tmp") || is_full;
}

/* ---- the call that failed ---- */

/* An end comes so soon after the call that it is for. */
#define SOON_MS 1000

/*
 * Errors that a program seldom lives with: the last such call before the end is what it failed for.
 * Others need more evidence.
 */
static const struct {
	int error;
	enum cause_kind kind;
	enum {
		RARE,
		HANDLED, /* programs try another way: it counts if what they print agrees */
		USUAL,	 /* programs look for files that need not be there, and test their rights */
	} how;
} errors[] = {
	{ ENOSPC, CAUSE_DISK_FULL, RARE },	    { EDQUOT, CAUSE_DISK_FULL, RARE },
	{ EROFS, CAUSE_PERMISSION, RARE },	    { EACCES, CAUSE_PERMISSION, HANDLED },
	{ EPERM, CAUSE_PERMISSION, HANDLED },	    { EMFILE, CAUSE_FILE_LIMIT, RARE },
	{ ENFILE, CAUSE_FILE_LIMIT, RARE },	    { ECONNREFUSED, CAUSE_CONNECTION, HANDLED },
	{ ECONNRESET, CAUSE_CONNECTION, HANDLED },  { EHOSTUNREACH, CAUSE_CONNECTION, HANDLED },
	{ ENETUNREACH, CAUSE_CONNECTION, HANDLED }, { ETIMEDOUT, CAUSE_CONNECTION, HANDLED },
	{ EADDRINUSE, CAUSE_CONNECTION, RARE },	    { EIO, CAUSE_FAILED_CALL, RARE },
	{ EFBIG, CAUSE_FAILED_CALL, RARE },	    { ENOMEM, CAUSE_FAILED_CALL, RARE },
	{ EAGAIN, CAUSE_FAILED_CALL, HANDLED },	    { ENOENT, CAUSE_MISSING_FILE, USUAL },
	{ ENOTDIR, CAUSE_MISSING_FILE, USUAL },	    { EISDIR, CAUSE_FAILED_CALL, USUAL },
	{ EEXIST, CAUSE_FAILED_CALL, USUAL },
};

/* The file is an argument in "cat /x", or part of a message, "cat: /x: …"; not in "cat /xy". */
static bool names(const char *text, const struct failed_call *call)
{
	const char *at = text;
	size_t n = call->object_len;

	while (at && n > 1 && (at = memmem(at, strlen(at), call->object, n)) != NULL) {
		if ((at == text || strchr(" '\"=:\n`", at[-1])) &&
		    (!at[n] || strchr(" '\"=:;,.)\n", at[n])))
			return true;
		at++;
	}
	return false;
}

/* The last call that can be what it failed for. Returns its error in words; NULL: there is none. */
static const char *add_failed_call(const struct proc_record *p, struct buf *why, struct cause *ret)
{
	const char *text = p->failed_calls;
	struct failed_call call;

	while (failed_call_next(&text, &call) && call.before_end_ms <= SOON_MS) {
		const bool is_to = strncmp(call.call, "write", 5) == 0 ||
				   strncmp(call.call, "pwrite", 6) == 0 ||
				   strcmp(call.call, "connect") == 0;
		size_t i = 0;

		while (i < ARRAY_SIZE(errors) &&
		       strcmp(strerrorname_np(errors[i].error), call.error) != 0)
			i++;
		if (i == ARRAY_SIZE(errors) ||
		    ((errors[i].how == USUAL || strstr(call.call, "access") ||
		      strcmp(call.call, "execve") == 0) &&
		     !names(p->command, &call) && !names(p->stderr_tail, &call)))
			continue;
		if (errors[i].how == HANDLED && p->stderr_tail && !names(p->stderr_tail, &call) &&
		    !strstr(p->stderr_tail, strerrordesc_np(errors[i].error)))
			continue;
		buf_printf(why, "%s%s%s%.*s failed: %s (%s)", why->len > 0 ? "; " : "", call.call,
			   call.object_len == 0 ? ""
			   : is_to		? " to "
						: " of ",
			   (int)call.object_len, call.object, strerrordesc_np(errors[i].error),
			   call.error);
		ret->kind = errors[i].kind;
		return strerrordesc_np(errors[i].error);
	}
	return NULL;
}

#define LINE_BYTES 160

/* What it has printed: the last line with this error in it, or else the last. */
static void add_last_line(const struct proc_record *p, const char *error, struct buf *why)
{
	const char *tail = p->stderr_tail, *line = NULL;
	bool is_error = false;

	for (const char *at = tail; at && *at; at += strcspn(at, "\n") + 1) {
		const bool has_error =
			error && memmem(at, strcspn(at, "\n"), error, strlen(error)) != NULL;

		if (has_error || !is_error)
			line = at;
		is_error |= has_error;
	}
	if (line)
		buf_printf(why, "%sit printed: %.*s", why->len > 0 ? "; " : "",
			   (int)utf8_cut(line, strcspn(line, "\n"), LINE_BYTES), line);
}

/* ---- who sent it ---- */

void explain_sender(const struct run *run, pid_t pid, char *text, size_t size)
{
	CLEANUP(buf_release) struct buf name = BUF_INIT;

	text[0] = '\0';
	if (pid <= 0 || run->root_fd < 0)
		return;
	proc_add_name(&name, run->root_fd, pid);
	if (name.len > 0)
		snprintf(text, size, "%s (pid %d)", name.data, (int)pid);
	else
		snprintf(text, size, "pid %d", (int)pid);
}

/* What the kernel has reported of the signal that ended the process. */
static const char *find_sender(const struct run *run, pid_t pid, int sig)
{
	size_t n;
	const struct proc_event *events = tally_events(run->tally, &n);

	for (size_t i = n; i > 0; i--)
		if (events[i - 1].key.pid == pid && events[i - 1].status.signal == sig &&
		    (events[i - 1].type == EVENT_SIGNAL || events[i - 1].type == EVENT_KILL))
			return events[i - 1].details;
	return NULL;
}

/* A process of the sheet that was killed, not by us, and no process is known to have done it. */
static bool may_be_victim(const struct run *run, const struct sheet_record *sheet,
			  const struct proc_record *p)
{
	return p->status.signal == SIGKILL && p->sheet_num == sheet->num &&
	       u64_known(p->died_wall_ns) && p->died_wall_ns >= sheet->started_wall_ns &&
	       !tally_find_oom(run->tally, p->key.pid) && !find_sender(run, p->key.pid, SIGKILL) &&
	       !(u64_known(p->max_rss_bytes) && p->max_rss_bytes < VICTIM_MIN_BYTES);
}

void explain_kills(struct run *run, const struct sheet_record *sheet, uint64_t wall_ns)
{
	const struct proc_record *processes;
	struct oom_counts now;
	uint64_t rise;
	size_t n, n_victims = 0;
	char why[160];

	run_read_oom(run, &now);
	rise = u64_delta(now.cgroup, run->ending.oom_before.cgroup);
	if (!u64_known(rise) || rise == 0)
		return;
	(void)link_barrier(run->link);
	processes = tally_processes(run->tally, &n);
	for (size_t i = 0; processes && i < n; i++)
		n_victims += may_be_victim(run, sheet, &processes[i]);
	/* The kernel counts kills and does not name them: of more that may be meant none is. */
	if (n_victims > rise) {
		snprintf(why, sizeof(why),
			 "%zu processes were killed, and the cgroup's count of out-of-memory kills "
			 "rose by %llu: which of them is not known",
			 n_victims, (unsigned long long)rise);
		attempt_note(run->attempt, "OOM kills", why);
		return;
	}
	for (size_t i = 0; processes && i < n; i++) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;

		if (may_be_victim(run, sheet, &processes[i]))
			(void)was_oom_killed(run, &processes[i], wall_ns, &text);
	}
}

/* ---- all together ---- */

static void add_cause(struct run *run, const struct proc_record *cause, struct exit_status status,
		      struct buf *why)
{
	const char *name = cause->status.signal >= 0 ? sigabbrev_np(cause->status.signal) : NULL;
	const char *sender;

	if (cause->status.signal < 0 && cause->status.exit_code == status.exit_code) {
		add_program(why, cause);
		buf_add_str(why, " failed first");
		return;
	}
	if (cause->status.signal < 0) {
		buf_add_str(why, "the last to fail before it was ");
		add_program(why, cause);
		buf_printf(why, ", with exit code %d", cause->status.exit_code);
		return;
	}
	add_program(why, cause);
	if (name)
		buf_printf(why, " was killed by SIG%s", name);
	else
		buf_printf(why, " was killed by signal %d", cause->status.signal);
	sender = find_sender(run, cause->key.pid, cause->status.signal);
	if (sender && sender[0])
		buf_printf(why, ", %s", sender);
}

/* Of a process that was killed: for lack of memory, or by a process that is not of the job. */
static bool is_from_outside(void *ctx, const struct proc_record *p)
{
	const struct run *run = ctx;
	const char *sender = find_sender(run, p->key.pid, p->status.signal);

	if (p->status.signal == SIGKILL && tally_find_oom(run->tally, p->key.pid))
		return true;
	return sender && sender[0] && !strstr(sender, EVENT_OF_THIS_JOB) &&
	       strncmp(sender, EVENT_BY_PROCTOR, strlen(EVENT_BY_PROCTOR)) != 0;
}

enum outcome explain_failure(struct run *run, pid_t pid, struct exit_status status,
			     uint64_t wall_ns, struct buf *why, struct cause *ret)
{
	CLEANUP(buf_release) struct buf oom = BUF_INIT;
	const struct proc_record *processes, *cause, *ended = NULL;
	struct exit_status at_end = status;
	enum cause_kind memory = CAUSE_NONE;
	struct proc_record unlisted;
	const char *sender, *error = NULL;
	size_t n;

	proc_record_init(&unlisted);
	unlisted.key.pid = pid;
	unlisted.sheet_num = runner_current_sheet(run->runner)->num;
	unlisted.status = status;
	(void)link_barrier(run->link); /* the daemon may know the sender of a signal */
	explain_kills(run, runner_current_sheet(run->runner), wall_ns);
	processes = tally_processes(run->tally, &n);
	cause = processes ? explain_first_failed(processes, n, pid, is_from_outside, run) : NULL;
	for (size_t i = 0; processes && i < n; i++)
		if (processes[i].key.pid == pid)
			ended = &processes[i];
	ended = cause ? cause : ended ? ended : &unlisted;
	at_end = ended->status;
	*ret = (struct cause){ at_end.signal < 0	 ? CAUSE_NONE
			       : is_fault(at_end.signal) ? CAUSE_CRASH
							 : CAUSE_SIGNAL,
			       ended->key.pid, -1 };
	if (at_end.signal < 0 && cause)
		ret->kind = CAUSE_CHILD;
	if (at_end.exit_code == 127)
		ret->kind = CAUSE_NOT_FOUND;
	if (at_end.signal == SIGKILL || at_end.exit_code == 128 + SIGKILL)
		memory = was_oom_killed(run, ended, wall_ns, &oom);
	if (memory != CAUSE_NONE) {
		ret->kind = memory;
		if (cause) {
			add_program(why, cause);
			buf_add_str(why, " was OOM-killed: ");
		}
		buf_add_str(why, oom.data);
		return OUTCOME_OOM;
	}
	buf_add_str(why, oom.data); /* a hint */
	if (cause) {
		if (why->len > 0)
			buf_add_str(why, "; ");
		add_cause(run, cause, status, why);
	} else if (status.signal >= 0) {
		sender = find_sender(run, pid, status.signal);
		if (sender && sender[0])
			buf_printf(why, "%s%s", why->len > 0 ? "; " : "", sender);
	}
	if (at_end.signal < 0 || at_end.signal == SIGBUS || at_end.signal == SIGXFSZ) {
		add_refused_starts(run, why);
		error = add_failed_call(ended, why, ret);
		if (!error && add_full_disks(run, why))
			ret->kind = CAUSE_DISK_FULL;
	}
	add_last_line(ended, error, why);
	if (ret->kind == CAUSE_NONE)
		ret->pid = -1;
	return OUTCOME_FAILURE;
}
