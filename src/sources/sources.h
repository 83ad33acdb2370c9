/*
 * sources - reads what the kernel says and fills snapshots with it.
 *
 * The collector reads below a root directory fd, so a captured tree is as good
 * as the live machine. A process that vanishes while it is read (or is hidden
 * from this user) is left out, a file that is missing or forbidden leaves its
 * values unknown, and nothing aborts a snapshot. Not thread-safe: one collector, one thread.
 *
 *	collector_scan(c, snap);      the host, and of every process what stat says
 *	membership_scan(m, snap, …);  (jobs/) which belong to a job
 *	collector_fill(c, snap, …);   everything else, for those asked for
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mask.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "sources/child.h"
#include "sources/sample_feed.h"
#include "sources/job_cgroup.h"
#include "sources/wait_state.h"

struct collector;

struct collector_options {
	int root_fd;		 /* "/" or a captured tree; borrowed for the collector's life */
	const struct mask *mask; /* borrowed; NULL shows command lines as they are */
	struct gpus *gpus;	 /* borrowed; NULL: nobody reads them */
	bool is_between;  /* nothing is recorded of its looks: what GPUs did is told to another */
	long clock_ticks; /* per second; 0: this machine's */
	long page_bytes;  /* 0: this machine's */
	bool want_ebpf;	  /* for who looks often: all in one read, after 40 to 100 ms of loading.
			     Where that cannot be, /proc: see collector_rung() */
	bool is_as_old;	  /* for tests: by eBPF, goes the ways of the oldest kernels */
	uint64_t (*now_boot_ns)(void); /* NULL: the real clock; a captured tree brings its own */
	uint64_t (*now_wall_ns)(void);
};

int collector_new(const struct collector_options *options, struct collector **ret, struct err *err);
struct collector *collector_free(struct collector *c);

/*
 * Empties the snapshot, then fills the host's values and one sample per
 * process with what proc/PID/stat gives: identity, parent, state, comm, CPU
 * times and percent, faults, threads, age. Fails only without /proc, memory or
 * a single file that may be opened.
 */
int collector_scan(struct collector *c, struct snapshot *s, struct err *err);

/*
 * The same for these processes only, in any order: who knows whose they are does
 * not pay for all others. process_count stays unknown.
 */
int collector_scan_some(struct collector *c, const pid_t *pids, size_t n, struct snapshot *s,
			struct err *err);

/*
 * ---- samples of another process's collector, which has eBPF (sample_feed.h) ----
 *
 * The sender writes what its last collector_scan() has shown of these processes (ascending). False:
 * that was by /proc, or there is no memory. The receiver takes each message, and scans as of the
 * last one, collector_feed_boot_ns(), which is later than any scan of its own. It reads /proc for
 * those of the processes that are not in it. -EBADMSG: the sender is to begin again.
 */
bool collector_write_feed(const struct collector *c, struct feed_sender *to, const pid_t *pids,
			  size_t n, struct buf *out);
int collector_take_feed(struct collector *c, const void *bytes, size_t n);
uint64_t collector_feed_boot_ns(const struct collector *c);
int collector_scan_fed(struct collector *c, const pid_t *pids, size_t n, struct snapshot *s,
		       struct err *err);

/*
 * The cgroups of jobs, and the rest (command, memory, I/O, switches, fds, limits, user, cgroup; by
 * eBPF all but command and cgroup are there already) for the processes in scope, and cpu_ns and
 * cpu_percent in nanoseconds where the scheduler counts them for the process (those of the scan are
 * in clock ticks). Processes that have vanished since the scan keep what they have. What cannot be
 * read is unknown.
 *
 * Not everything is read every time. A process with one thread that provably
 * has not run since its files were read (schedstat) keeps its I/O, switches,
 * user and fds, and while statm reads the same, its memory values: they are what
 * a reading would give. Command, limit and cgroup are read at first sight, when
 * the process executes another program, and after 30 s in which it may have run;
 * the limit also whenever half of it is used (known.h).
 *
 * What the kernel's numbers are: the I/O of a process contains that of the
 * children it has waited for, so never add it to theirs. Switches are told by /proc for
 * the first thread only and therefore unknown while there are others. A zombie
 * holds no memory and no files (0); one whose first thread alone has ended shows
 * none either, so there they are unknown.
 */
void collector_fill(struct collector *c, struct snapshot *s, enum snapshot_scope scope);

/* Which rung it takes, and why no better one; the texts live as long as the collector. */
struct rung collector_rung(const struct collector *c);

/* ---- one process, or one number, between two ticks ---- */

/*
 * What stat says of a process that is about to be waited for, and whether it
 * ignored SIGCHLD. Unknown where it cannot be read.
 */
void sources_read_ending(int root_fd, pid_t pid, struct proc_sample *ret);

/* The files of I/O accounting, see struct proc_sample. */
struct io_counts {
	uint64_t rchar, wchar, syscr, syscw, read_bytes, write_bytes;
};

/*
 * What all processes together have read and written that the calling process
 * has waited for so far, with all that those had waited for. Any user may know
 * this of their own children, where a zombie's own file is closed to most. Unknown
 * where the kernel does not count.
 *
 * Two of these may be compared if no other thread of the caller has read or written
 * in between, or if both were asked to leave out what other threads did: that is
 * unknown where they never pause, and one that has ended counts as a child.
 */
void sources_read_waited_io(int root_fd, bool leaves_out_threads, struct io_counts *ret);

/* The resident memory of a process; U64_UNKNOWN where it cannot be read. */
uint64_t sources_read_rss(int root_fd, pid_t pid);

/*
 * The same with each page that n processes have counting as an nth. The kernel walks all its pages
 * for it, a millisecond for some 100 MB. U64_UNKNOWN: before Linux 4.14, or of another user.
 */
uint64_t sources_read_pss(int root_fd, pid_t pid);

/* The rank of a process as its environment has it, or RANK_NONE: rank_env.h. */
int sources_read_rank(int root_fd, pid_t pid);

/* The sheet of this job that it was started for, as its environment has it, or SHEET_NONE. */
int sources_read_sheet(int root_fd, pid_t pid, const char *job_id);

/* Appends the command line, masked. -ENODATA: it has none; else -errno. */
int sources_read_command(int root_fd, pid_t pid, const struct mask *mask, struct buf *out);

/*
 * What the process has open: e's files, and how many there are (unknown where that takes too long
 * to count). Names are masked as command lines are. -ESRCH: it is gone, or the pid is another's by
 * now; else -errno.
 */
int sources_read_open_files(int root_fd, struct proc_key key, const struct mask *mask,
			    struct anomaly_evidence *e);

/*
 * How many processes the kernel has killed for lack of memory so far;
 * U64_UNKNOWN where it cannot be read.
 */
struct oom_counts {
	uint64_t host;	 /* anywhere on the host, since boot (proc/vmstat) */
	uint64_t cgroup; /* in the calling process's own cgroup, since that was made */
	bool is_cgroup_v1;
};

/*
 * The cgroup's count is of processes that died in it, whoever's memory ran out:
 * of v2 with those of the cgroups below it (memory.events), of v1 without
 * (memory.oom_control). The root of v2 has none.
 */
void sources_read_oom(int root_fd, struct oom_counts *ret);

#define SYSCALL_NAME_BYTES 24

/*
 * The name, or "syscall_N" in text for a number that has none here. All that are beyond any
 * architecture's are told as one, "syscall_other" (bpf/syscalls.h).
 * Those of 32-bit programs are "compat_N".
 */
const char *syscall_name(uint32_t nr, char text[SYSCALL_NAME_BYTES]);

/* ---- births and deaths, as the kernel tells them ---- */

enum life_type {
	LIFE_FORK,
	LIFE_EXEC,
	LIFE_EXIT,
	/* By eBPF only. */
	LIFE_ACCOUNT, /* of a process that was told dead and has now been waited for: the last word
			 on what it used. Of a few in a thousand Linux 6.18 never tells that */
	LIFE_SIGNAL, /* somebody sent it one; not told: SIGCHLD, timers, threads among themselves */
	LIFE_OOM,    /* the kernel chose it as the victim, and kills it */
};

#define LIFE_COMM_BYTES 16

struct life_event {
	enum life_type type;
	pid_t pid;	  /* of the process (thread group), never of a single thread */
	pid_t parent_pid; /* LIFE_FORK, LIFE_EXIT: of the parent; else 0 */
	uint64_t wall_ns;
	int wait_status; /* LIFE_EXIT, LIFE_ACCOUNT: as wait4() would give it */

	uint64_t uid; /* LIFE_EXIT, LIFE_ACCOUNT, LIFE_SIGNAL, LIFE_OOM: whose alone it was, 0 if of
			 several; U64_UNKNOWN: the kernel does not report it */
	uint64_t tag; /* of life_track(); 0: none */
	uint64_t start_ticks;		/* see struct proc_key; U64_UNKNOWN: not told */
	char comm[LIFE_COMM_BYTES];	/* raw bytes, NUL-terminated; "" not told */
	struct exit_account account;	/* LIFE_EXIT; LIFE_ACCOUNT, but for max_rss_bytes */
	const struct life_calls *calls; /* LIFE_EXIT: that failed; NULL: none, or not observed */
	uint64_t mono_ns;		/* of the event, on the clock of calls */

	struct life_sender {
		int signal; /* LIFE_SIGNAL */
		bool is_kernel;
		pid_t pid; /* who was on the CPU, also where the kernel sent it */
		uint64_t tag;
		char comm[LIFE_COMM_BYTES];
	} sender;

	struct life_victim {
		uint64_t rss_bytes; /* LIFE_OOM: at that moment; U64_UNKNOWN */
		uint64_t cgroup_bytes, cgroup_limit_bytes; /* of its memory cgroup; U64_UNKNOWN */
		char cgroup[64]; /* the last part of its path; "" unknown or the root */
	} victim;
};

/*
 * A process's LIFE_EXIT comes when its last thread has ended. By the proc
 * connector, for a process that had further threads before life_open_with(), or while
 * events were lost, it comes with the end of the first thread.
 */

struct life;
typedef void life_handler(void *ctx, const struct life_event *ev);

struct life_options {
	bool want_ebpf;		 /* for who listens long: loading takes 40 to 100 ms */
	bool is_tracked_only;	 /* by eBPF: only of trees given to life_track() */
	bool wants_accounts;	 /* life_want_accounts() */
	const char *why_no_ebpf; /* where it is not wanted; NULL: SOURCES_EBPF_TOO_SLOW */
	size_t ring_bytes;	 /* of the eBPF queue, a power of two; 0: 2 MiB */
	bool is_as_old;		 /* for tests: goes the ways of the oldest kernels */
};

/*
 * Begins to listen: from here on every fork, exec and exit of the host is
 * queued. Takes the best rung that there is; options may be NULL: the best without eBPF. -EPERM,
 * -EOPNOTSUPP…: not on this machine or not for this user, and err says why in one sentence.
 */
int life_open_with(const struct life_options *options, struct life **ret, struct err *err);
struct life *life_close(struct life *life);

/* Which rung it took, and why no better one; the texts live as long as it does. */
struct rung life_rung(const struct life *life);

/* The part of that reason that is about better rungs, and not about what this one lacks; "" */
const char *life_why_no_better(const struct life *life);

/*
 * The last failing calls of a process that ended with an error, the last first: "write ENOSPC 12
 * /data/x" in a line each, with the milliseconds before the end. A path or address may be missing.
 */
void life_add_calls(struct buf *out, const struct life_event *ev, const struct mask *mask);

/* The last lines that it has written to its standard error, of 512 bytes at most. */
void life_add_said(struct buf *out, const struct life_event *ev, const struct mask *mask);

/* Whether it tells of signals and OOM kills. */
bool life_sees_signals(const struct life *life);
bool life_sees_oom(const struct life *life);

/* Whether it has the failing calls of marked processes, while accounts are wanted. */
bool life_sees_calls(const struct life *life);

/*
 * Marks a process: its events, and those of all that it and its children start from
 * now on, bear the tag (not 0). To miss none, mark who is about to start the first.
 * -ESRCH: no such process. -EOPNOTSUPP: this rung cannot.
 */
int life_track(struct life *life, pid_t pid, uint64_t tag);

/*
 * The end of a process is to say whose it was, and so that of all that it starts from now on, as
 * long as they become nobody else's. uid: whose alone it is. By eBPF all ends do.
 */
void life_follow_owner(struct life *life, pid_t pid, uint64_t uid);

/* What a process is marked with; 0: nothing, or it is gone. */
uint64_t life_tag_of(struct life *life, pid_t pid);

/*
 * Whether LIFE_ACCOUNT follows each LIFE_EXIT, from now on. -EOPNOTSUPP: this rung has none.
 */
int life_want_accounts(struct life *life, bool is_wanted);

/* Becomes readable when events wait. By eBPF once until the next drain: with the first event of a
 * marked process, with an OOM kill, or when the ring is part full. */
int life_fd(const struct life *life);

/*
 * Hands over those that wait, oldest first: max (not 0) and at most a few more; the
 * others wait for the next call. Returns how many
 * messages the kernel had to drop since the last call (0: none lost; those that life_event leaves
 * out, such as of threads, count too), or -errno. By the proc connector, how many they
 * were shows only with the next message of the same CPU: until then a loss is told as 1.
 * By eBPF, an event that its CPU has not written to its end waits for the next call, with all
 * behind it.
 */
int64_t life_drain(struct life *life, size_t max, life_handler *fn, void *ctx);

/* ---- system calls ---- */

/*
 * Counts the system calls of trees of processes, in the kernel. While any tree is
 * tracked every process of the host pays some 100 ns per call, so it is armed with
 * the first and disarmed with the last.
 */
struct syscalls;

struct syscalls_options {
	unsigned time_every;  /* only one call in so many is timed, by chance: half the cost. Counts
				 stay exact. 0, 1: all are */
	unsigned max_entries; /* room for so many (process, call), 140 bytes each where used,
				 between two readings; 0: 262144. Beyond it calls count for their
				 tree */
	unsigned news_bytes;  /* room for what begins and ends between two readings, 32 bytes each,
				 and 168 for each thread: a power of two; 0: 4 MiB. Beyond it ends
				 are found out later */
	bool is_as_old;	      /* for tests: goes the ways of the oldest kernels */
	bool has_no_times;    /* for benches: calls are counted alone */
};

/* What one process has called since it was first counted. */
struct syscall_process {
	pid_t pid; /* 0: all processes of the tree that there was no room to tell apart */
	uint64_t start_ticks;
	uint64_t tag;
	bool is_ended;
	uint64_t uid; /* whose alone it is, or was at its end; 0: root's, or of several;
			 U64_UNKNOWN: some of it was one's, and some another's */
	const struct syscall_use *uses; /* by number; valid inside the call only */
	size_t n_uses;
	struct time_ledger time;  /* of its threads; on a CPU is TIME_USER alone */
	double time_variance_ns2; /* of all its time on a CPU together, where not all calls were
				     timed: the square of one standard error. 0: exact */
};
typedef void syscalls_fn(void *ctx, const struct syscall_process *p);

/* Loads it, and arms nothing. -EPERM, -EOPNOTSUPP…: err says why. options may be NULL. */
int syscalls_open(const struct syscalls_options *options, struct syscalls **ret, struct err *err);
struct syscalls *syscalls_close(struct syscalls *s);

/*
 * Whether it can be armed, which a kernel may refuse that lets it be loaded: arms it for a moment.
 * Who is about to track somebody need not ask.
 */
int syscalls_check(struct syscalls *s, struct err *err);

/*
 * Counts the process, its descendants, and all that they start from now on. Arms
 * it. A call under way is counted when it returns. A tree inside another one's counts for itself
 * alone from then on. -ESRCH: no such process. The tag is not 0.
 */
int syscalls_track(struct syscalls *s, pid_t pid, uint64_t tag);

/*
 * The same of all that the process has started and starts, each from its first program on; its own
 * calls are not counted.
 */
int syscalls_track_runner(struct syscalls *s, pid_t pid, uint64_t tag);

/*
 * Around many of these: what is below the roots is marked in one go at the end, as each walk over
 * all tasks of the host costs the same for one tree as for all. Where some are tracked already it
 * makes no difference.
 */
void syscalls_begin_many(struct syscalls *s);
int syscalls_end_many(struct syscalls *s);

/* Ceases to count that tree, and forgets what it has; with the last one it is disarmed. */
void syscalls_untrack(struct syscalls *s, uint64_t tag);
bool syscalls_is_armed(const struct syscalls *s);

/* What is missing in the counts, of one tree or another. */
struct syscalls_lost {
	uint64_t calls;	  /* that found no room to be counted in */
	uint64_t threads; /* that are not counted, or lack a call, for want of memory or of a free
			     moment */
};

/* Takes in what the kernel side has counted so far. *ret is what was lost since the last time. */
int syscalls_read(struct syscalls *s, struct syscalls_lost *ret);

/* What was last taken in: into each sample of a counted process what is new since its last one. */
void syscalls_fill(struct syscalls *s, struct snapshot *snap);

/* And the totals of every process; those that have ended are told for the last time. Of those that
 * live, where their time went is read for this. */
void syscalls_each(struct syscalls *s, syscalls_fn *fn, void *ctx);

/* The same of those of one tree that have not; the others are told later. */
void syscalls_each_living(struct syscalls *s, uint64_t tag, syscalls_fn *fn, void *ctx);

/* The same of those that have ended alone: what a tick needs to know, at a cost for those only. */
void syscalls_each_ended(struct syscalls *s, syscalls_fn *fn, void *ctx);

/*
 * The same through the program strace, which stops who calls twice at each call: tens of times
 * slower, so for who asks for it. One for each tree; told is what all its processes have
 * called together, and their time on a CPU alone. However we end, they are let go of.
 */
struct strace;

/* Whether the program is there, in PATH. */
bool sources_has_strace(void);

/* Starts it, which is a child of ours from now on. -ESRCH, -EINVAL (ourselves), -EBUSY, -ENOENT….
 */
int strace_start(pid_t pid, struct strace **ret, struct err *err);
pid_t strace_pid(const struct strace *s);

/* Waits until it holds the process. -EPERM: it may not; -ETIMEDOUT. */
int strace_await(struct strace *s, struct err *err);

/*
 * Lets go, and calls fn once with what was counted. Waits for some seconds at most, and frees s in
 * any case. -ETIMEDOUT: it was killed, and the counts are lost.
 */
int strace_end_count(struct strace *s, syscalls_fn *fn, void *ctx, struct err *err);

/* Ends it without its counts. NULL is fine. */
struct strace *strace_free(struct strace *s);

/* ---- every single call, on demand ---- */

struct trace_options {
	double seconds;	      /* at most so long */
	uint64_t max_bytes;   /* at most so much */
	int out_fd;	      /* where it goes */
	int stop_fd;	      /* ends it when readable; -1: none */
	uint64_t start_ticks; /* of the process: another that has its pid is let go; U64_UNKNOWN */
};

enum trace_end { TRACE_TIME_UP, TRACE_FULL, TRACE_STOPPED, TRACE_TARGET_ENDED };

struct trace_result {
	enum trace_end end;
	uint64_t n_bytes;
};

/*
 * Writes every system call of the process, its threads and its children as it happens,
 * through "strace -f -t", whole lines only. Always bounded, and let go of however we end:
 * where nobody reads what is written, the rest is dropped when it is time to end.
 * It slows the process down tens of times. -ESRCH, -EINVAL (a proctor, or a tracer), -EBUSY
 * (traced already), -EPERM, -ENOENT (no strace), or what writing failed with; err says it.
 */
int sources_trace(pid_t pid, const struct trace_options *options, struct trace_result *ret,
		  struct err *err);

/* ---- GPUs ---- */

/*
 * Drivers of GPUs may hang for seconds or take their process with them: they are
 * asked by a process of its own, the first time after a second, then every second, and after
 * some time every interval (of a second at least). A short run never pays for them.
 */
struct gpus;

struct gpus_options {
	int root_fd;
	double interval_seconds;
	bool at_once;		 /* the first reading, and not after a second */
	double patience_seconds; /* until a driver that does not answer is given up; 0: 30 */
	double again_seconds;	 /* until one that was given up is asked again; 0: 300 */
};

/*
 * *ret is NULL where no driver has found a GPU. Before any thread is started, and before the
 * caller becomes a subreaper.
 */
int gpus_open(const struct gpus_options *options, struct gpus **ret, struct err *err);
struct gpus *gpus_close(struct gpus *g);

/* Until there is a reading, or for so long; of drivers that crash the next ones are waited for. */
void gpus_wait(struct gpus *g, int timeout_ms);

/*
 * Readable when a reading has come. Who looks more rarely than they come must take them in between:
 * there is no room for many, and the newest would be lost. False: there will be no more.
 */
int gpus_fd(const struct gpus *g);
bool gpus_take(struct gpus *g);

/* What is wrong, or odd, with the last reading, or that none comes; NULL: nothing. */
const char *gpus_note(const struct gpus *g);

/* Who answers: "NVML"; NULL: nobody, now. */
const char *gpus_rung(const struct gpus *g);

/* Who has answered since it was opened, among the rungs. */
void gpus_tell_rung(const struct gpus *g, struct arena *arena, struct rung *rungs, size_t n);

/* What went wrong for longest since it was opened, and for how long; false: nothing. */
bool gpus_tell_trouble(const struct gpus *g, char *ret, size_t size);

/* How far apart what was read was asked: "1.00 s to 5.02 s apart"; false: nothing was. */
bool gpus_tell_pace(const struct gpus *g, char *ret, size_t size);

/* CPU time of the process that asks, so far. */
uint64_t gpus_cpu_ns(const struct gpus *g);

/*
 * For the collector: the devices of the last reading that is not too old, and who holds them. What
 * is told of processes is of the time since the look before, but for those between two.
 */
void gpus_fill(struct gpus *g, struct snapshot *s);
void gpus_fill_processes(struct gpus *g, struct snapshot *s, bool is_between);

/* Whether a driver has found a GPU. Without one "no GPUs" is known: neither of these is there. */
#define SOURCES_GPU_LOOKED_FOR \
	"/proc/driver/nvidia/gpus, /dev/nvidiactl, /dev/dxg, cards of amdgpu, i915 or xe in /dev/dri"
bool sources_has_gpu(int root_fd);

/* The worst of what drivers do: none tells anything of a GPU, one does, one crashes, hangs or has
 * lost one. */
enum gpus_told { GPUS_TOLD_NOTHING, GPUS_TOLD, GPUS_BROKEN };

/*
 * Asks them all, for doctor, each in a process of its own, which is ended if it hangs. Appends a
 * line for each answer: what is wrong, or what a question costs.
 */
enum gpus_told gpus_measure(int root_fd, struct buf *out);

/* ---- what works here ---- */

/*
 * Of a command that only asks others to do the work (srun, docker run, ssh): where that is done,
 * and what measures it there. NULL: it does it itself, as far as its words show.
 */
const char *sources_work_elsewhere(const char *command);

#define SOURCES_MAX_RUNGS 8
#define SOURCES_RUNG_SAMPLES "process samples"
#define SOURCES_RUNG_GPU "GPU"
#define SOURCES_RUNG_OOM "OOM kills"
#define SOURCES_RUNG_OOM_EBPF "eBPF oom tracepoint"
#define SOURCES_RUNG_SYSCALLS RUNG_SYSCALLS
#define SOURCES_RUNG_SYSCALLS_EBPF RUNG_SYSCALLS_EBPF
#define SOURCES_RUNG_SYSCALLS_STRACE RUNG_SYSCALLS_STRACE
#define SOURCES_RUNG_BIRTHS "births, deaths, exit codes"
#define SOURCES_RUNG_BIRTHS_POLLING "subreaper wait4 + /proc polling"

/*
 * The rung that a run of this user gets on this machine for each measurement, and
 * why not a better one. Fills up to SOURCES_MAX_RUNGS rows, returns how many. The
 * strings are constants or live in the arena. life is a listener that is open
 * already; NULL: one is opened to see.
 */
size_t sources_probe_rungs(int root_fd, struct life *life, struct arena *arena, struct rung *ret);

/* What the configuration forbids is not tried, and says so. */
struct probe_allows {
	bool ebpf;
	bool syscalls; /* by eBPF */
};
#define SOURCES_EBPF_FORBIDDEN "ebpf_enabled is false in the configuration"
#define SOURCES_EBPF_TOO_SLOW                                                                   \
	"a run does not load eBPF programs, which takes longer than most commands; the daemon " \
	"does"
#define SOURCES_SYSCALLS_FORBIDDEN "syscalls_enabled is false in the configuration"

/*
 * The same for a program that runs long and so takes eBPF where it can: tries
 * every one of its programs, which takes some tenths of a second.
 */
size_t sources_probe_ebpf_rungs(int root_fd, const struct probe_allows *allows, struct arena *arena,
				struct rung *ret);
