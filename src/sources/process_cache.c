#include "sources/process_cache.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/unknown.h"
#include "sources/proc_text.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static const struct cpu_mark unknown_mark = { U64_UNKNOWN, U64_UNKNOWN };

struct process_cache *process_cache_new(pid_t pid)
{
	struct process_cache *k = malloc(sizeof(*k));
	const struct fd_cache unread = FD_CACHE_INIT;

	if (!k)
		return NULL;
	*k = (struct process_cache){
		.key = { .pid = pid, .start_ticks = U64_UNKNOWN },
		.stat_file = unread,
		.statm_file = unread,
		.schedstat_file = unread,
		.io_file = unread,
		.status_file = unread,
		.fd_file = unread,
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

void process_cache_close_files(struct process_cache *k, struct fd_budget *budget)
{
	struct fd_cache *files[] = { &k->stat_file, &k->statm_file,  &k->schedstat_file,
				     &k->io_file,   &k->status_file, &k->fd_file };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		fd_cache_close(files[i], budget);
}

struct process_cache *process_cache_free(struct process_cache *k, struct fd_budget *budget)
{
	if (!k)
		return NULL;
	process_cache_close_files(k, budget);
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

static void add_comm(struct buf *out, const char *comm)
{
	buf_add_char(out, '[');
	mask_command(NULL, comm, strlen(comm), out);
	buf_add_char(out, ']');
}

/* Who ends has given up its memory, and its command line with it, some time before it is a zombie.
 */
static bool is_same_program(const struct process_cache *k, const struct proc_sample *p)
{
	return k->command && strcmp(k->comm, p->comm) == 0;
}

static void read_command(struct process_cache *k, struct reader *r, const struct proc_sample *p)
{
	ssize_t n;

	n = reader_read(r, NULL, k->key.pid, "cmdline");
	if (n < 0 || (n == 0 && is_same_program(k, p)))
		return;
	memcpy(k->comm, p->comm, sizeof(k->comm));
	buf_reset(&r->command);
	if (n > 0)
		mask_command(r->mask, r->text, (size_t)n, &r->command);
	if (r->command.len == 0)
		add_comm(&r->command, p->comm);
	if (buf_error(&r->command) == 0)
		replace_string(&k->command, r->command.data, r->command.len);
}

static void read_limits(struct process_cache *k, struct reader *r)
{
	if (reader_read(r, NULL, k->key.pid, "limits") < 0)
		return;
	k->fd_limit = pid_limits_parse(r->text);
	k->process_limit = pid_limits_parse_processes(r->text);
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

/*
 * Once, as the ranks of a job have the same launcher, and so have most jobs of a host; later ones
 * are not told. The value may be anything and is not shown.
 */
static void tell_odd_rank(const struct process_cache *k, struct reader *r, const char *name)
{
	if (!r->has_told_odd_rank)
		log_warning("the %s of process %d is no rank of a job, or no number of ranks: it "
			    "is left out, and so are others like it",
			    name, (int)k->key.pid);
	r->has_told_odd_rank = true;
}

/* Whose job it is may become known long after its first sight. */
static void read_rank(struct process_cache *k, struct reader *r, const struct proc_sample *p)
{
	struct rank_env env;

	if (k->is_rank_read || !p->job_id)
		return;
	k->is_rank_read = true;
	env = rank_env_read(r->proc_fd, k->key.pid, r->text, READER_TEXT_BYTES);
	if (env.odd)
		tell_odd_rank(k, r, env.odd);
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
 * A zombie has no command line, and with cgroup v1 it is back in the root. What
 * it had before still says best what it was.
 */
static bool is_remembered_zombie(const struct process_cache *k, const struct proc_sample *p)
{
	return p->state == 'Z' && k->command;
}

/* False: as it is a zombie, what it had stays. */
static bool begin_seldom(struct process_cache *k, const struct proc_sample *p)
{
	if (k->is_due)
		k->is_rank_read = false;
	k->is_due = false;
	k->may_be_old = false;
	k->period = period_of(p);
	return !is_remembered_zombie(k, p);
}

static void read_seldom(struct process_cache *k, struct reader *r, const struct proc_sample *p)
{
	if (!begin_seldom(k, p))
		return;
	read_command(k, r, p);
	read_limits(k, r);
	read_cgroup(k, r);
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

/* -ENODATA and the like: it cannot be known whether the process ran. */
static int read_schedstat(struct process_cache *k, struct reader *r, struct pid_schedstat *ret)
{
	ssize_t n = reader_read(r, &k->schedstat_file, k->key.pid, "schedstat");

	return n < 0 ? (int)n : pid_schedstat_parse(r->text, ret);
}

/*
 * True if the process cannot have run since io and status were read; else
 * remembers when they are read now. A task on a CPU shows an old run_ns until
 * its next clock tick, so one that runs is never at rest.
 */
static bool is_at_rest(struct process_cache *k, struct reader *r, struct proc_sample *p)
{
	struct pid_schedstat before = k->schedstat;
	bool may_rest = k->has_usage && p->state != 'R';
	bool is_read = read_schedstat(k, r, &k->schedstat) == 0;

	count_fine(
		k, p,
		(struct cpu_mark){ is_read ? k->schedstat.run_ns : U64_UNKNOWN, r->now_boot_ns() });
	k->has_usage = is_read && p->threads == 1;
	if (k->has_usage) /* as the switches below */
		p->cpu_wait_ns = k->schedstat.wait_ns;
	return may_rest && k->has_usage && before.run_ns == k->schedstat.run_ns &&
	       before.slices == k->schedstat.slices;
}

static bool read_statm(struct process_cache *k, struct reader *r, struct pid_statm *ret)
{
	return reader_read(r, &k->statm_file, k->key.pid, "statm") >= 0 &&
	       pid_statm_parse(r->text, ret) == 0;
}

static bool is_same_statm(const struct pid_statm *a, const struct pid_statm *b)
{
	return a->size == b->size && a->resident == b->resident && a->shared == b->shared;
}

/*
 * A file that cannot be read is as good as an empty one: everything in it is unknown. One that is
 * not for this user stays so until the process itself changes who it is, for which it has to run.
 */
static const char *read_or_empty(struct process_cache *k, struct reader *r, struct fd_cache *file,
				 const char *name)
{
	ssize_t n = reader_read(r, file, k->key.pid, name);

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
	bool has_statm = read_statm(k, r, &statm);

	if (!at_rest) {
		pid_io_parse(read_or_empty(k, r, &k->io_file, "io"), &k->io);
		k->open_fds = reader_count_fds(r, &k->fd_file, k->key.pid);
	}
	if (!at_rest || !has_statm || !is_same_statm(&statm, &k->statm))
		pid_status_parse(read_or_empty(k, r, &k->status_file, "status"), &k->status);
	k->statm = statm;
}

static void copy_memory(const struct process_cache *k, uint64_t page_bytes, struct proc_sample *p)
{
	p->rss_bytes = pages_to_bytes(k->statm.resident, page_bytes);
	p->vms_bytes = pages_to_bytes(k->statm.size, page_bytes);
#define COPY(member_, ...) p->member_ = k->status.member_;
	PID_STATUS_MEMORY(COPY)
#undef COPY
}

static void copy_counters(const struct process_cache *k, struct proc_sample *p)
{
#define COPY(member_, ...) p->member_ = k->io.member_;
	PID_IO(COPY)
#undef COPY
	/* status counts those of the first thread only, which is the whole only without others. */
#define COPY(member_, ...) p->member_ = k->status.member_;
	if (p->threads == 1) {
		PID_STATUS_THREAD(COPY)
	}
#undef COPY
	p->uid = k->status.uid;
	p->ignores_sigchld = k->status.ignores_sigchld;
	p->ns_pid = k->status.ns_pid;
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

static bool is_limit_near(const struct process_cache *k)
{
	if (!u64_known(k->open_fds) || !u64_known(k->fd_limit))
		return false;
	return k->open_fds >= k->fd_limit / 2 ||
	       (u64_known(k->fds_at_limit) && k->open_fds >= k->fds_at_limit + GROWN_FDS);
}

/* It was read with the rest, or is read again. */
static void check_fd_limit(struct process_cache *k, struct reader *r)
{
	bool is_near = is_limit_near(k);

	if (is_near)
		read_limits(k, r);
	if (is_near || !u64_known(k->fds_at_limit))
		k->fds_at_limit = k->open_fds;
}

static void read_all(struct process_cache *k, struct reader *r, struct proc_sample *p)
{
	bool at_rest = is_at_rest(k, r, p);

	if (k->is_due || period_of(p) / KNOWN_REFRESH_ALL != k->period / KNOWN_REFRESH_ALL)
		at_rest = false;
	k->may_be_old = k->may_be_old || !at_rest;
	if (k->is_due || (k->may_be_old && period_of(p) != k->period))
		read_seldom(k, r, p);
	read_rank(k, r, p);
	read_usage(k, r, at_rest);
	if (!at_rest)
		check_fd_limit(k, r);
}

void process_cache_fill(struct process_cache *k, struct reader *r, struct proc_sample *p,
			struct arena *arena)
{
	read_all(k, r, p);
	p->command = arena_strdup(arena, k->command);
	p->cgroup = arena_strdup(arena, k->cgroup);
	p->fd_limit = k->fd_limit;
	p->process_limit = k->process_limit;
	copy_counters(k, p);
	if (is_headless(p)) {
		p->state = '?'; /* it has not ended, and nobody knows what the others do */
		return;
	}
	copy_memory(k, r->page_bytes, p);
	p->open_fds = k->open_fds;
}

/* ---- by the task iterator ---- */

static void count_task(struct process_cache *k, const struct task_process *t, struct proc_sample *p)
{
	struct cpu_mark now = { t->own.run_ns, p->boot_ns };

	if (u64_known(k->fine.cpu_ns) && k->fine.cpu_ns != now.cpu_ns)
		k->may_be_old = true;
	p->cpu_percent = cpu_percent(now, k->fine);
	k->fine = now;
	tell_cpu(k, p, now.cpu_ns);
	task_split_cpu(&t->own, &k->split);
	p->user_ns = k->split.user_ns;
	p->system_ns = k->split.system_ns;
}

/* A thread that ends takes its waits along: what all others have waited since is not known. */
static void check_wait(struct process_cache *k, const struct task_process *t, struct proc_sample *p)
{
	if (u64_known(k->ended_run_ns) && k->ended_run_ns != t->ended_run_ns)
		p->cpu_wait_ns = U64_UNKNOWN;
	k->ended_run_ns = t->ended_run_ns;
}

void process_cache_take_task(struct process_cache *k, const struct task_process *t,
			     struct proc_sample *p)
{
	uint64_t image = task_image(t);

	count_task(k, t, p);
	check_wait(k, t, p);
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
		p->open_fds = reader_count_fds(r, &k->fd_file, k->key.pid);
}
