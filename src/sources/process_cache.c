#include "sources/process_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/proc_text.h"

/* For the store, pipes to jobs, and all clients that a daemon may have: at most half of what there
 * is. */
#define RESERVED_FILES 768

/* The kernel holds a page of text for each: all together they take this part of the memory at most.
 */
#define KEPT_PART_OF_MEMORY 128

#define PATH_MAX_BYTES 64 /* a pid, a slash, one of our file names */

/* From the soft RLIMIT_NOFILE as it is now, less a reserve for the rest of the program. */
static struct fd_budget fd_budget_from_limit(void)
{
	struct fd_budget b = { 0 };
	struct rlimit limit;
	long pages = sysconf(_SC_PHYS_PAGES);
	size_t files;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || pages < 0)
		return b;
	files = limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
	b.max = files / 2 > RESERVED_FILES ? files - RESERVED_FILES : files / 2;
	if (b.max > (size_t)pages / KEPT_PART_OF_MEMORY)
		b.max = (size_t)pages / KEPT_PART_OF_MEMORY;
	return b;
}

void reader_close(struct reader *r, int *kept)
{
	if (*kept >= 0) {
		close(*kept);
		r->budget.used--;
	}
	*kept = FD_UNREAD;
}

static int open_file(struct reader *r, pid_t pid, const char *file, int flags)
{
	char path[PATH_MAX_BYTES];
	int fd;

	snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
	fd = openat(r->proc_fd, path, flags | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0)
		return fd;
	if (errno == EMFILE || errno == ENFILE)
		r->budget.is_short = true;
	return -errno;
}

/* Whether a file that is opened now is to stay open. */
static bool is_worth_keeping(const struct reader *r, int kept)
{
	const struct fd_budget *budget = &r->budget;

	return kept == FD_READ_ONCE && budget->used < budget->max && !budget->is_short;
}

static void keep(struct reader *r, int *kept, int fd)
{
	*kept = fd;
	r->budget.used++;
}

ssize_t reader_read(struct reader *r, int *kept, pid_t pid, const char *file)
{
	CLEANUP(close_fd) int fd = -1;
	ssize_t n;

	if (kept && *kept >= 0) {
		n = io_pread_text(*kept, r->text, READER_TEXT_BYTES);
		if (n < 0)
			reader_close(r, kept);
		return n;
	}
	fd = open_file(r, pid, file, O_RDONLY);
	if (fd < 0)
		return fd;
	n = io_pread_text(fd, r->text, READER_TEXT_BYTES);
	if (n < 0 || !kept)
		return n;
	if (is_worth_keeping(r, *kept))
		keep(r, kept, TAKE_FD(fd));
	else
		*kept = FD_READ_ONCE;
	return n;
}

/* ---- what it takes to read the files of proc/PID ---- */

static bool is_procfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

int reader_init(struct reader *r, int proc_fd)
{
	struct stat st;

	r->proc_fd = proc_fd;
	/*
	 * Since Linux 6.2 st_size of proc/PID/fd is the number of open files; before,
	 * it is always 0, and in a captured tree it is the size of some folder. A
	 * single 0 would not tell an old kernel from a process without files, but we
	 * ourselves do have files open: so our own entry decides, once.
	 */
	r->has_fd_size =
		is_procfs(proc_fd) && fstatat(proc_fd, "self/fd", &st, 0) == 0 && st.st_size > 0;
	r->command = (struct buf)BUF_INIT;
	r->text = malloc(READER_TEXT_BYTES);
	/* The files of a captured tree have no process: one that is replaced would stay as it was.
	 */
	if (is_procfs(proc_fd))
		r->budget = fd_budget_from_limit();
	return r->text ? 0 : -ENOMEM;
}

bool reader_is_live(const struct reader *r)
{
	return is_procfs(r->proc_fd);
}

void reader_release(struct reader *r)
{
	buf_release(&r->command);
	free(r->text);
	r->text = NULL;
}

/*
 * Number of open files of a process; U64_UNKNOWN: not for this user, or it is gone. O_PATH needs no
 * right to list the folder, and makes the later question the cheapest there is.
 */
static uint64_t reader_count_fds(struct reader *r, int *kept, pid_t pid)
{
	char path[PATH_MAX_BYTES];
	struct stat st;

	if (!r->has_fd_size) {
		CLEANUP(dir_close) DIR *dir = NULL;
		const struct dirent *entry;
		uint64_t n = 0;

		snprintf(path, sizeof(path), "%d/fd", (int)pid);
		dir = dir_open_at(r->proc_fd, path);
		if (!dir)
			return U64_UNKNOWN;
		errno = 0;
		while ((entry = readdir(dir)))
			if (isdigit((unsigned char)entry->d_name[0]))
				n++;
		return errno == 0 ? n : U64_UNKNOWN;
	}
	if (*kept < 0 && is_worth_keeping(r, *kept)) {
		int fd = open_file(r, pid, "fd", O_PATH);

		if (fd < 0)
			return U64_UNKNOWN;
		keep(r, kept, fd);
	}
	if (*kept >= 0 && fstat(*kept, &st) < 0) {
		reader_close(r, kept);
		return U64_UNKNOWN;
	}
	if (*kept < 0) {
		snprintf(path, sizeof(path), "%d/fd", (int)pid);
		if (fstatat(r->proc_fd, path, &st, 0) < 0)
			return U64_UNKNOWN;
		*kept = FD_READ_ONCE;
	}
	return st.st_size < 0 ? 0 : (uint64_t)st.st_size;
}

#define NS_PER_SECOND UINT64_C(1000000000)

static const struct cpu_mark unknown_mark = { U64_UNKNOWN, U64_UNKNOWN };

struct process_cache *process_cache_new(pid_t pid)
{
	struct process_cache *k = malloc(sizeof(*k));

	if (!k)
		return NULL;
	*k = (struct process_cache){
		.key = { .pid = pid, .start_ticks = U64_UNKNOWN },
		.files = { [0 ... N_KEPT_FILES - 1] = FD_UNREAD },
		.start_wall_ns = U64_UNKNOWN,
		.ticks = unknown_mark,
		.fine = unknown_mark,
		.cpu_ns = U64_UNKNOWN,
		.ended_run_ns = U64_UNKNOWN,
		.is_due = true,
		.fd_limit = U64_UNKNOWN,
		.process_limit = U64_UNKNOWN,
		.fds_at_limit = U64_UNKNOWN,
		.open_fds = U64_UNKNOWN,
		.rank = { RANK_NONE, RANK_NONE, RANK_NONE },
	};
	return k;
}

void process_cache_close_files(struct process_cache *k, struct reader *r)
{
	for (size_t i = 0; i < N_KEPT_FILES; i++)
		reader_close(r, &k->files[i]);
}

struct process_cache *process_cache_free(struct process_cache *k, struct reader *r)
{
	if (!k)
		return NULL;
	process_cache_close_files(k, r);
	free(k->command);
	free(k->cgroup);
	free(k);
	return NULL;
}

/* Keeps the old one when memory runs out. */
static void replace_string(char **where, const char *s, size_t n)
{
	char *copy = strndup(s, n);

	if (!copy)
		return;
	free(*where);
	*where = copy;
}

static void read_command(struct process_cache *k, struct reader *r, const struct proc_sample *p)
{
	ssize_t n;

	n = reader_read(r, NULL, k->key.pid, "cmdline");
	/* Who ends has given up its memory, and its command line with it, some time before it is a
	 * zombie. */
	if (n < 0 || (n == 0 && k->command && strcmp(k->comm, p->comm) == 0))
		return;
	memcpy(k->comm, p->comm, sizeof(k->comm));
	buf_reset(&r->command);
	if (n > 0)
		mask_command(r->mask, r->text, (size_t)n, &r->command);
	if (r->command.len == 0) {
		buf_add_char(&r->command, '[');
		mask_command(NULL, p->comm, strlen(p->comm), &r->command);
		buf_add_char(&r->command, ']');
	}
	if (buf_error(&r->command) == 0)
		replace_string(&k->command, r->command.data, r->command.len);
}

static void read_limits(struct process_cache *k, struct reader *r)
{
	if (reader_read(r, NULL, k->key.pid, "limits") < 0)
		return;
	k->fd_limit = pid_limit_parse(r->text, LIMIT_OPEN_FILES);
	k->process_limit = pid_limit_parse(r->text, LIMIT_PROCESSES);
}

static void read_cgroup(struct process_cache *k, struct reader *r)
{
	const char *path;
	size_t n;

	if (reader_read(r, NULL, k->key.pid, "cgroup") < 0)
		return;
	path = pid_cgroup_parse(r->text, &n);
	if (path)
		replace_string(&k->cgroup, path, n);
}

/* Whose job it is may become known long after its first sight. */
static void read_rank(struct process_cache *k, struct reader *r, const struct proc_sample *p)
{
	struct rank_env env;

	if (k->is_rank_read || !p->job_id)
		return;
	k->is_rank_read = true;
	env = rank_env_read(r->proc_fd, k->key.pid, r->text, READER_TEXT_BYTES);
	/* Once, as the ranks of a job have the same launcher, and so have most jobs of a host. The
	 * value may be anything and is not shown. */
	if (env.odd && !r->has_told_odd_rank)
		log_warning("the %s of process %d is no rank of a job, or no number of ranks: it "
			    "is left out, and so are others like it",
			    env.odd, (int)k->key.pid);
	r->has_told_odd_rank |= env.odd != NULL;
	if (env.rank != RANK_NONE)
		k->rank = env;
}

/* The number of the period of KNOWN_REFRESH_SECONDS that the sample falls into. */
static uint64_t period_of(const struct proc_sample *p)
{
	uint64_t spread = (uint64_t)p->key.pid % KNOWN_REFRESH_SECONDS;

	return (p->boot_ns / NS_PER_SECOND + spread) / KNOWN_REFRESH_SECONDS;
}

/*
 * False: what it had stays. A zombie has no command line, and with cgroup v1 it is back in the
 * root. What it had before still says best what it was.
 */
static bool begin_seldom(struct process_cache *k, const struct proc_sample *p)
{
	if (k->is_due)
		k->is_rank_read = false;
	k->is_due = false;
	k->may_be_old = false;
	k->period = period_of(p);
	return p->state != 'Z' || !k->command;
}

/* ---- CPU time ---- */

/* 100 is one core. To 1/100: more is noise of when it was read, and takes room to keep. */
static double cpu_percent(struct cpu_mark now, struct cpu_mark before)
{
	uint64_t used = u64_delta(now.cpu_ns, before.cpu_ns);
	uint64_t elapsed = u64_delta(now.boot_ns, before.boot_ns);

	if (!u64_known(used) || !u64_known(elapsed) || elapsed == 0)
		return F64_UNKNOWN;
	return round(10000.0 * (double)used / (double)elapsed) / 100.0;
}

/* The first thread may be replaced by another at exec, and what it had used is in ticks then. */
static void tell_cpu(struct process_cache *k, struct proc_sample *p, uint64_t cpu_ns)
{
	k->cpu_ns = u64_max_known(k->cpu_ns, cpu_ns);
	p->cpu_ns = k->cpu_ns;
}

/* Each rung has counters of its own. */
void process_cache_change_rung(struct process_cache *k, struct reader *r)
{
	process_cache_close_files(k, r);
	k->ticks = k->fine = unknown_mark;
	k->ended_run_ns = U64_UNKNOWN;
	k->has_usage = false;
	k->is_due = true;
}

void process_cache_count_ticks(struct process_cache *k, struct proc_sample *p)
{
	struct cpu_mark now = { u64_add(p->user_ns, p->system_ns), p->boot_ns };

	/* Not filled in the snapshot before: it is no longer "the one before". */
	if (u64_known(k->fine.boot_ns) && k->fine.boot_ns < k->ticks.boot_ns)
		k->fine = unknown_mark;
	p->cpu_percent = cpu_percent(now, k->ticks);
	k->ticks = now;
	tell_cpu(k, p, now.cpu_ns);
}

/* run_ns is the process's only while it is not behind the ticks; else those stand as they are. */
static void count_fine(struct process_cache *k, struct proc_sample *p, struct cpu_mark now)
{
	bool is_whole = u64_known(u64_delta(now.cpu_ns, k->ticks.cpu_ns));
	double percent = cpu_percent(now, k->fine);

	k->fine = is_whole ? now : unknown_mark;
	if (!is_whole)
		return;
	if (f64_known(percent))
		p->cpu_percent = percent;
	tell_cpu(k, p, now.cpu_ns);
}

/* ---- usage ---- */

/*
 * A file that cannot be read is as good as an empty one: everything in it is unknown. One that is
 * not for this user stays so until the process itself changes who it is, for which it has to run.
 */
static const char *read_or_empty(struct process_cache *k, struct reader *r, enum kept_file file,
				 const char *name)
{
	ssize_t n = reader_read(r, &k->files[file], k->key.pid, name);

	if (n >= 0)
		return r->text;
	if (n != -EACCES && n != -EPERM)
		k->has_usage = false;
	return "";
}

/* Makes statm, io, status and the fds what they are now, reading only what may have changed. */
static void read_usage(struct process_cache *k, struct reader *r, bool at_rest)
{
	struct pid_statm statm = { U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN };
	bool has_statm = reader_read(r, &k->files[KEPT_STATM], k->key.pid, "statm") >= 0 &&
			 pid_statm_parse(r->text, &statm) == 0;
	bool is_same = statm.size == k->statm.size && statm.resident == k->statm.resident &&
		       statm.shared == k->statm.shared;

	if (!at_rest) {
		pid_io_parse(read_or_empty(k, r, KEPT_IO, "io"), &k->io);
		k->open_fds = reader_count_fds(r, &k->files[KEPT_FDS], k->key.pid);
	}
	if (!at_rest || !has_statm || !is_same)
		pid_status_parse(read_or_empty(k, r, KEPT_STATUS, "status"), &k->status);
	k->statm = statm;
}

/*
 * A first thread that ended before the others is a zombie whose files answer
 * for a process without memory or open files, which the process is not.
 */
static bool is_headless(const struct proc_sample *p)
{
	return p->state == 'Z' && p->threads > 1;
}

/* A process may lower its limit. That matters where it opens more and more files, and where half of
 * those that it may have are open. */
#define GROWN_FDS 16

static void read_all(struct process_cache *k, struct reader *r, struct proc_sample *p)
{
	struct pid_schedstat before = k->schedstat;
	bool may_rest = k->has_usage && p->state != 'R', at_rest;
	/* Else it cannot be known whether the process ran. */
	bool is_read = reader_read(r, &k->files[KEPT_SCHEDSTAT], k->key.pid, "schedstat") >= 0 &&
		       pid_schedstat_parse(r->text, &k->schedstat) == 0;

	/*
	 * At rest: the process cannot have run since io and status were read. A task on a CPU shows
	 * an old run_ns until its next clock tick, so one that runs is never at rest.
	 */
	count_fine(
		k, p,
		(struct cpu_mark){ is_read ? k->schedstat.run_ns : U64_UNKNOWN, r->now_boot_ns() });
	k->has_usage = is_read && p->threads == 1;
	if (k->has_usage) /* as the switches below */
		p->cpu_wait_ns = k->schedstat.wait_ns;
	at_rest = may_rest && k->has_usage && before.run_ns == k->schedstat.run_ns &&
		  before.slices == k->schedstat.slices;

	if (k->is_due || period_of(p) / KNOWN_REFRESH_ALL != k->period / KNOWN_REFRESH_ALL)
		at_rest = false;
	k->may_be_old = k->may_be_old || !at_rest;
	if ((k->is_due || (k->may_be_old && period_of(p) != k->period)) && begin_seldom(k, p)) {
		read_command(k, r, p);
		read_limits(k, r);
		read_cgroup(k, r);
	}
	read_rank(k, r, p);
	read_usage(k, r, at_rest);
	if (!at_rest) {
		bool is_near = u64_known(k->open_fds) && u64_known(k->fd_limit) &&
			       (k->open_fds >= k->fd_limit / 2 ||
				(u64_known(k->fds_at_limit) &&
				 k->open_fds >= k->fds_at_limit + GROWN_FDS));

		/* It was read with the rest, or is read again. */
		if (is_near)
			read_limits(k, r);
		if (is_near || !u64_known(k->fds_at_limit))
			k->fds_at_limit = k->open_fds;
	}
}

void process_cache_fill(struct process_cache *k, struct reader *r, struct proc_sample *p,
			struct arena *arena)
{
	read_all(k, r, p);
	p->command = arena_strdup(arena, k->command);
	p->cgroup = arena_strdup(arena, k->cgroup);
	p->fd_limit = k->fd_limit;
	p->process_limit = k->process_limit;
#define COPY(member_, ...) p->member_ = k->io.member_;
	PID_IO(COPY)
#undef COPY
	/* status counts those of the first thread only, which is the whole only without others. */
#define COPY(member_, ...) p->member_ = k->status.member_;
	if (p->threads == 1) {
		PID_STATUS_THREAD(COPY)
	}
	p->uid = k->status.uid;
	p->ignores_sigchld = k->status.ignores_sigchld;
	p->ns_pid = k->status.ns_pid;
	if (is_headless(p)) {
		p->state = '?'; /* it has not ended, and nobody knows what the others do */
		return;
	}
	p->rss_bytes = pages_to_bytes(k->statm.resident, r->page_bytes);
	p->vms_bytes = pages_to_bytes(k->statm.size, r->page_bytes);
	PID_STATUS_MEMORY(COPY)
#undef COPY
	p->open_fds = k->open_fds;
}

/* ---- by the task iterator ---- */

/* Bits of the kernel's task state. Those that /proc tells, lowest first, have the letters below. */
#define STATE_REPORTED 0x7fu
#define STATE_IDLE 0x402u /* uninterruptible, and not to be counted as load */
#define STATE_RTLOCK_WAIT 0x1000u
#define STATE_FROZEN 0x8000u

char task_state_letter(uint32_t state)
{
	static const char letters[] = "RSDTtXZP";
	uint32_t told = state & STATE_REPORTED;

	if ((state & STATE_IDLE) == STATE_IDLE)
		return 'I';
	if (state & (STATE_RTLOCK_WAIT | STATE_FROZEN))
		return 'D';
	return told == 0 ? letters[0] : letters[32 - __builtin_clz(told)];
}

/* Not hash_bytes(): this is done for every process of the host at every tick. */
uint64_t task_image(const struct task_process *t)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t name[2], h = t->exec_id;

	memcpy(name, t->comm, sizeof(name));
	h = (h ^ t->arg_start) * odd;
	h = (h ^ t->arg_end ^ (h >> 29)) * odd;
	h = (h ^ name[0] ^ (h >> 29)) * odd;
	return (h ^ name[1] ^ (h >> 29)) * odd;
}

static uint64_t soft_limit(uint64_t limit)
{
	return limit > FD_LIMIT_UNLIMITED ? FD_LIMIT_UNLIMITED : limit;
}

/* The parts of a sum that is exact are read one after the other: one may be below zero. */
static uint64_t counted_bytes(int64_t pages, uint64_t page_bytes)
{
	return pages > 0 ? (uint64_t)pages * page_bytes : 0;
}

void task_fill_sample(const struct task_process *t, uint64_t page_bytes, struct proc_sample *p)
{
	const struct task_counts *c = &t->own;
	int64_t rss_pages = t->file_pages + t->anon_pages + t->shmem_pages;

	p->ppid = (pid_t)t->parent_pid;
	p->state = task_state_letter(t->head.state);
	memcpy(p->comm, t->comm, strnlen(t->comm, sizeof(t->comm)));
	p->ignores_sigchld = t->ignores_sigchld != 0;
	p->uid = t->uid;
	p->owner = t->owner;
	p->ns_pid = t->ns_pid;
	p->threads = t->threads;
	p->fd_limit = soft_limit(t->fd_limit);
	p->process_limit = soft_limit(t->process_limit);
	p->child_user_ns = t->child_user_ns;
	p->child_system_ns = t->child_system_ns;
	if (c->wait_ns > 0) /* else nobody counts */
		p->cpu_wait_ns = c->wait_ns;
	p->minor_faults = c->minor_faults;
	p->major_faults = c->major_faults;
	p->voluntary_switches = c->voluntary_switches;
	p->involuntary_switches = c->involuntary_switches;
	p->rchar = c->rchar;
	p->wchar = c->wchar;
	p->syscr = c->syscr;
	p->syscw = c->syscw;
	p->read_bytes = c->read_bytes;
	p->write_bytes = c->write_bytes;
	if (is_headless(p))
		return;
	p->open_fds = t->open_fds == TASK_NO_COUNT ? U64_UNKNOWN : t->open_fds;
	p->rss_bytes = counted_bytes(rss_pages, page_bytes);
	p->vms_bytes = t->vms_pages * page_bytes;
	if (!t->has_memory)
		return; /* 0 and 0, and /proc has no lines for the rest */
	p->hwm_bytes = u64_max_known(t->hwm_pages * page_bytes, p->rss_bytes);
	p->rss_file_bytes = counted_bytes(t->file_pages, page_bytes);
	p->rss_anon_bytes = counted_bytes(t->anon_pages, page_bytes);
	p->rss_shmem_bytes = counted_bytes(t->shmem_pages, page_bytes);
	p->swap_bytes = counted_bytes(t->swap_pages, page_bytes);
	p->page_table_bytes = counted_bytes(t->page_table_bytes, 1);
}

void task_split_cpu(const struct task_counts *c, struct cpu_split *split)
{
	uint64_t system_ns;

	if (c->run_ns <= split->user_ns + split->system_ns)
		return;
	/* Of a process that has used any tick at all, without overflow. */
	system_ns = c->system_ns == 0 ? 0
				      : (uint64_t)((__uint128_t)c->run_ns * c->system_ns /
						   ((__uint128_t)c->system_ns + c->user_ns));
	if (system_ns < split->system_ns)
		system_ns = split->system_ns;
	if (c->run_ns - system_ns < split->user_ns)
		system_ns = c->run_ns - split->user_ns;
	*split = (struct cpu_split){ c->run_ns - system_ns, system_ns };
}

void process_cache_take_task(struct process_cache *k, const struct task_process *t,
			     struct proc_sample *p)
{
	uint64_t image = task_image(t);
	struct cpu_mark now = { t->own.run_ns, p->boot_ns };

	if (u64_known(k->fine.cpu_ns) && k->fine.cpu_ns != now.cpu_ns)
		k->may_be_old = true;
	p->cpu_percent = cpu_percent(now, k->fine);
	k->fine = now;
	tell_cpu(k, p, now.cpu_ns);
	task_split_cpu(&t->own, &k->split);
	p->user_ns = k->split.user_ns;
	p->system_ns = k->split.system_ns;
	/* A thread that ends takes its waits along: what all others have waited since is not known.
	 */
	if (u64_known(k->ended_run_ns) && k->ended_run_ns != t->ended_run_ns)
		p->cpu_wait_ns = U64_UNKNOWN;
	k->ended_run_ns = t->ended_run_ns;
	if (k->image != image)
		k->is_due = true;
	k->image = image;
}

void process_cache_fill_rest(struct process_cache *k, struct reader *r, struct proc_sample *p,
			     struct arena *arena)
{
	if ((k->is_due || (k->may_be_old && period_of(p) != k->period)) && begin_seldom(k, p)) {
		read_command(k, r, p);
		read_cgroup(k, r);
	}
	read_rank(k, r, p);
	p->command = arena_strdup(arena, k->command);
	p->cgroup = arena_strdup(arena, k->cgroup);
	if (is_headless(p))
		p->state = '?';
	else if (!u64_known(p->open_fds))
		p->open_fds = reader_count_fds(r, &k->files[KEPT_FDS], k->key.pid);
}
