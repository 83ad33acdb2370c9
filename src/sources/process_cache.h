/*
 * process_cache - what the collector remembers of one process from tick to tick.
 *
 * Its open files, its last CPU time (for the percentage), and what changes so
 * seldom that it is not read every time: command line, limit of files, cgroup.
 *
 * CPU time comes from two counters. stat has that of all threads, in ticks
 * (10 ms), user and system each rounded down; schedstat has nanoseconds, of the
 * first thread only. Neither says too much, so the larger is the truer; and
 * where schedstat's is the larger, all other threads together have used less
 * than two ticks. A percentage is the difference of two readings of the same
 * counter, never of one and the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/mask.h"
#include "model/snapshot.h"
#include "sources/proc_text.h"
#include "sources/rank_env.h"
#include "sources/tasks.h"

/*
 * ---- files of /proc that stay open from one tick to the next ----
 *
 * Reading again what is still open costs a third of opening it anew. And an
 * open file of /proc belongs to the process, not to its pid: after the
 * process's death it answers ESRCH, whoever has the pid by then.
 *
 * A file is kept from its second reading on, so that processes seen only once
 * cost nothing, and only while the budget lasts: above it, files are opened,
 * read and closed.
 */

struct fd_budget {
	size_t max;
	size_t used;
	bool is_short; /* an open failed for want of files: close some, keep no more */
};

/* Instead of the number of an open one. */
#define FD_UNREAD (-1)
#define FD_READ_ONCE (-2)

/* ---- what it takes to read the files of proc/PID, shared by all processes ---- */

/* The longest file is status: with the 65,536 groups that Linux allows it would be cut, and what
 * stands behind them unknown. */
#define READER_TEXT_BYTES (64 * 1024)

struct reader {
	int proc_fd; /* the folder proc; borrowed */
	struct fd_budget budget;
	bool has_fd_size; /* st_size of proc/PID/fd is the number of open files */
	const struct mask *mask;
	uint64_t page_bytes;
	uint64_t (*now_boot_ns)(void);
	struct buf command;
	char *text; /* READER_TEXT_BYTES, what was read last */
	bool has_told_odd_rank;
};

/* Takes mask, page_bytes and now_boot_ns as they stand in r; sets the rest. */
int reader_init(struct reader *r, int proc_fd);
void reader_release(struct reader *r);

/* False for a captured tree. */
bool reader_is_live(const struct reader *r);

/*
 * Reads proc/PID/<file> into r->text as io_pread_text() does, through the file that is kept or, if
 * kept is NULL, once. Returns its length. -ESRCH, -ENOENT: the process is gone.
 */
ssize_t reader_read(struct reader *r, int *kept, pid_t pid, const char *file);

/* Closes it if it is open; the next reading counts as the first. */
void reader_close(struct reader *r, int *kept);

/* ---- one process ---- */

/*
 * What changes seldom is read again after so long if the process may have run
 * since, and after so many times as long everything is, whatever seems unchanged.
 */
#define KNOWN_REFRESH_SECONDS 30
#define KNOWN_REFRESH_ALL 10

enum kept_file {
	KEPT_STAT,
	KEPT_STATM,
	KEPT_SCHEDSTAT,
	KEPT_IO,
	KEPT_STATUS,
	KEPT_FDS,
	N_KEPT_FILES
};

/* A counter of CPU time, and when it was read; both unknown before that. */
struct cpu_mark {
	uint64_t cpu_ns;
	uint64_t boot_ns;
};

struct process_cache {
	struct proc_key key;
	int files[N_KEPT_FILES]; /* those that are open, by enum kept_file */

	uint64_t start_wall_ns;
	struct cpu_mark ticks, fine; /* by stat, by schedstat */
	uint64_t cpu_ns;	     /* the most that was ever told */
	struct cpu_split split;	     /* by the task iterator */
	uint64_t ended_run_ns;	     /* the same of threads that had ended */
	bool is_by_task;	     /* the last scan had it from that, and not from /proc */

	uint64_t image;	 /* see struct pid_stat, or task_image() */
	bool is_due;	 /* the three below are to be read */
	bool may_be_old; /* the process may have run since they were read */
	uint64_t period; /* in which they were, see process_cache_fill() */
	char *command, *cgroup;
	char comm[COMM_BYTES]; /* when the command was read */
	uint64_t fd_limit, process_limit;
	uint64_t fds_at_limit; /* that were open when it was read */
	struct rank_env rank;  /* its own, or that of its parent */
	bool is_rank_read;     /* its own was, of the program that it is */

	/* As they were read one after the other, schedstat first; see process_cache_fill(). */
	bool has_usage;
	struct pid_schedstat schedstat;
	struct pid_statm statm;
	struct io_counts io;
	struct pid_status status;
	uint64_t open_fds;
};

/*
 * The environment is what a program begins with: it is read once after each exec, as soon as it is
 * known that the process is of a job, and not again. A program that is started without its
 * launcher's variables stays in its rank.
 */

/* NULL when memory runs out. */
struct process_cache *process_cache_new(pid_t pid);
struct process_cache *process_cache_free(struct process_cache *k, struct reader *r);

void process_cache_close_files(struct process_cache *k, struct reader *r);

/* From now on by the task iterator, or by /proc again: rates begin with the second sample, and what
 * is read seldom is read anew. */
void process_cache_change_rung(struct process_cache *k, struct reader *r);

/* cpu_ns and cpu_percent by what stat said at p->boot_ns. */
void process_cache_count_ticks(struct process_cache *k, struct proc_sample *p);

/*
 * Everything that stat does not say, and CPU time as fine as schedstat has it.
 * Files that cannot be read leave their values unknown.
 *
 * Most processes sleep through most ticks, and status is the dear file (as much
 * as all others together). A process with one thread that has not had a CPU
 * since its files were read (schedstat tells, to the nanosecond) cannot have
 * changed its I/O, switches, user or open files, nor whether we may see them:
 * those are carried over. Its memory the kernel may have taken all the same, so
 * statm is read always, and status is unless statm says the same as before. What
 * could slip through is a change made by others that leaves the same sizes: memory
 * shared by vfork(), files by CLONE_FILES; so now and then everything is read.
 *
 * Command line, limit and cgroup are read at first sight, after an exec and by
 * time, however seldom somebody looks: KNOWN_REFRESH_SECONDS are cut into periods
 * that begin at another moment for each pid, so that not all are read at once.
 * The limit is also read whenever half of it is used: a process that needs more
 * files raises it.
 */
void process_cache_fill(struct process_cache *k, struct reader *r, struct proc_sample *p,
			struct arena *arena);

/*
 * The same by the task iterator, whose counters are exact and of all threads: the
 * CPU values at p->boot_ns, and whether command line and cgroup are to be read.
 */
void process_cache_take_task(struct process_cache *k, const struct task_process *t,
			     struct proc_sample *p);

/* What the task iterator does not say: command, cgroup, and the open files where it could not. */
void process_cache_fill_rest(struct process_cache *k, struct reader *r, struct proc_sample *p,
			     struct arena *arena);
