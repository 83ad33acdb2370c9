/*
 * snapshot - the host and its processes at one moment.
 *
 * sources/ fills it, jobs/ says which process belongs to which job, and
 * everybody else reads it. Sizes are bytes and times are nanoseconds as the
 * kernel gave them; the JSON has the units of the contract (MB, seconds).
 * A value that could not be read is unknown (base/unknown.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_cursor.h"

#define BOOT_ID_BYTES 37 /* 36 characters and a NUL */
#define COMM_BYTES 64	 /* the kernel's 15, or more for kernel threads of newer kernels */
#define SHEET_NONE (-1)
#define RANK_NONE (-1)
#define SIGCHLD_UNKNOWN (-1)

/* A process: pids are reused, so pid and start time together (and the boot, in the snapshot). */
struct proc_key {
	pid_t pid;
	uint64_t start_ticks; /* field 22 of stat: clock ticks since boot; U64_UNKNOWN: not seen in
				 /proc */
};

static inline bool proc_key_is(const struct proc_key *a, const struct proc_key *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks;
}

/* One system call of one process: how often, and how long. */
struct syscall_use {
	const char *name; /* "read", or "syscall_N" */
	uint64_t count, errors;
	uint64_t cpu_ns;  /* on a CPU, in the call; U64_UNKNOWN: not timed */
	uint64_t wait_ns; /* asleep, until it had one again; ready and without one is neither */
};

/* Types of the members that sample_fields.def declares, by their kind. */
#define SAMPLE_TYPE_PID pid_t
#define SAMPLE_TYPE_CHAR char
#define SAMPLE_TYPE_U64 uint64_t
#define SAMPLE_TYPE_LIMIT uint64_t /* FD_LIMIT_UNLIMITED is known */
#define SAMPLE_TYPE_SECONDS uint64_t
#define SAMPLE_TYPE_MB uint64_t
#define SAMPLE_TYPE_F64 double

/*
 * What one process was doing: its values are the rows of sample_fields.def, by name. Pointers live
 * in the snapshot's arena (or are NULL: unknown).
 */
struct proc_sample {
	struct proc_key key;
	signed char ignores_sigchld; /* 1: whoever it starts is waited for by nobody; or
				       SIGCHLD_UNKNOWN, as in the record */
	char comm[COMM_BYTES];	     /* raw bytes, as the kernel has them */
	const char
		*command; /* masked, at most 500 bytes; "[comm]" for those without a command line */
	uint64_t boot_ns; /* CLOCK_BOOTTIME when stat was read */
	uint64_t start_wall_ns;
	double age_seconds;   /* at the snapshot's boot_ns */
	uint64_t cpu_wait_ns; /* that it was ready to run and got no CPU; not in the record */

#define SAMPLE_RECORDED(kind_, member_, ...) SAMPLE_TYPE_##kind_ member_;
#include "model/sample_fields.def"

	uint64_t process_limit; /* soft RLIMIT_NPROC, of all that its user runs, as fd_limit. Not
				   recorded */
	uint64_t owner;		/* whose alone it is; 0: root's, or of several. Not recorded */
	const char *cgroup;	/* v2 path if there is one, else that of the v1 memory controller */
	uint64_t ns_pid;	/* pid in its innermost pid namespace */
	double gpu_idle_devices; /* on which it holds memory and does nothing; not recorded */

	const struct syscall_use *syscalls; /* since the sample before; NULL: nobody counted them */
	size_t n_syscalls;

	/* Set by jobs/; job_id is NULL for processes of no job. */
	const char *job_id;
	int64_t attempt_id; /* of the job, in the record; 0: it is not known */
	int sheet_num;
	int rank; /* or by sources/, from the environment, where the job file says nothing */
	int local_rank, world_size; /* RANK_NONE: unknown */
};

#define FD_LIMIT_UNLIMITED (UINT64_MAX - 1)

/* One line of proc/pressure: shares of time in percent, and the total stall. */
struct psi_line {
	double avg10, avg60, avg300;
	uint64_t total_us;
};

struct psi {
	struct psi_line some;
	struct psi_line full;
};

struct system_sample {
	uint64_t memory_total_bytes, memory_available_bytes, memory_used_bytes;
	uint64_t swap_total_bytes, swap_free_bytes;
	double load1, load5, load15;
	uint64_t cpu_user_ns, cpu_system_ns, cpu_idle_ns, cpu_iowait_ns, cpu_steal_ns;
	unsigned cpu_count;
	struct psi psi_cpu, psi_memory, psi_io; /* NaN and U64_UNKNOWN where the kernel has none */
	uint64_t process_count;
	uint64_t forks_total;	  /* "processes" of proc/stat: since boot, threads included */
	uint64_t oom_kills_total; /* oom_kill of proc/vmstat */
	uint64_t swap_in_bytes, swap_out_bytes; /* since boot: pswpin and pswpout of proc/vmstat */
	double uptime_seconds;
};

/* How much of the CPUs' time between two samples was used, 0 to 1. Stolen time was not, and was not
 * idle either. */
double system_cpu_share(const struct system_sample *before, const struct system_sample *now);

/* Why a GPU runs slower than it could: bits of gpu_sample.throttle. */
enum gpu_throttle {
	GPU_THROTTLE_IDLE = 1 << 0, /* nothing to do */
	GPU_THROTTLE_SETTING = 1 << 1,
	GPU_THROTTLE_POWER_CAP = 1 << 2,
	GPU_THROTTLE_HARDWARE = 1 << 3,
	GPU_THROTTLE_SYNC_BOOST = 1 << 4,
	GPU_THROTTLE_THERMAL = 1 << 5,
	GPU_THROTTLE_HARDWARE_THERMAL = 1 << 6,
	GPU_THROTTLE_POWER_BRAKE = 1 << 7,
	GPU_THROTTLE_DISPLAY = 1 << 8,
};

/* The name ("power_cap") and the bit of the i-th of them; NULL: there are no more. */
const char *gpu_throttle_name(size_t i, uint64_t *ret_bit);

struct gpu_sample {
	int index;
	double utilization_pct, memory_used_mb, memory_total_mb, temperature_c;
	double power_watts;
	double energy_joules; /* since the driver was loaded */
	double sm_clock_mhz;
	uint64_t throttle;    /* bits; U64_UNKNOWN */
	uint64_t ecc_errors;  /* that could not be corrected, since the last reset */
	uint64_t last_xid;    /* of the driver's own errors; U64_UNKNOWN: none was seen */
	double top_share_pct; /* the largest of a process; NaN: none is told. It is not recorded */
	bool is_lost;	      /* its driver says so now; it is not recorded */
};

/* The memory of one cgroup that has processes of a job. */
struct cgroup_sample {
	const char *path; /* as in proc_sample.cgroup */
	uint64_t memory_current_bytes;
	uint64_t memory_high_bytes, memory_max_bytes; /* MEMORY_UNLIMITED: none is set */
	struct psi psi_memory;
	uint64_t oom_kills; /* of memory.events: in it and below, since it was made */

	/* Processes and threads in it and below; PIDS_UNLIMITED: as many as there may be. Not in
	 * the record, and of v2 alone. */
	uint64_t pids_current, pids_max;
};

#define MEMORY_UNLIMITED (UINT64_MAX - 1)
#define PIDS_UNLIMITED MEMORY_UNLIMITED

struct job_progress {
	const char *job_id;
	int64_t attempt_id; /* as of a process */
	int total_sheets;
	int last_completed_sheet;
	int current_sheet; /* SHEET_NONE between sheets */
	const char *status;
	int attempt_num; /* 0: it is not known, and then nor is whose it is; not in the record */
	uint64_t uid;
};

/* How many of its sheets are over, well or not: they run one after the other. */
int job_progress_over(const struct job_progress *p);

/* Of whose processes a snapshot tells; those of others may live and not be in it. */
enum snapshot_covers {
	COVERS_HOST, /* all jobs that there are, or that a daemon has recorded */
	COVERS_JOB,  /* one job, by its runner; the values of the host are there */
};

struct snapshot {
	uint64_t wall_ns;	     /* unix */
	uint64_t boot_ns;	     /* the same moment on CLOCK_BOOTTIME */
	char boot_id[BOOT_ID_BYTES]; /* "" unknown */
	pid_t daemon_pid;
	uint64_t daemon_rss_bytes;
	double daemon_uptime_seconds;
	struct system_sample system;

	struct proc_sample *processes; /* in the order of /proc: by pid */
	size_t n_processes, cap_processes;
	struct gpu_sample *gpus; /* NULL: nobody looked for GPUs, which is not the same as none */
	size_t n_gpus;
	struct cgroup_sample *cgroups; /* NULL: nobody looked */
	size_t n_cgroups;
	struct job_progress *progress;
	size_t n_progress;

	/*
	 * What its values stand for: NaN for the moment at which they were read, else so many
	 * seconds from wall_ns on, with averages of processes and GPUs alone: no more is kept.
	 */
	double resolution_seconds;

	enum snapshot_covers covers;
	const char *covered_job; /* the one job; NULL with COVERS_HOST, or where it had no process
				    to tell whose it was */
	int64_t recorder; /* of one from the record: who wrote it (store.h); 0: it is a minute */

	const char *pressure_level; /* "none", "low", …; NULL: nobody judged it */
	int running_jobs, active_sheets;

	struct arena arena; /* strings, gpus and progress */
};

enum snapshot_scope {
	SNAPSHOT_JOBS, /* only processes that belong to a job */
	SNAPSHOT_ALL,
};

void snapshot_init(struct snapshot *s);
void snapshot_release(struct snapshot *s);

/* Empties it for the next round and keeps its memory. */
void snapshot_reset(struct snapshot *s);

/* Everything of from into to (initialised), which then needs nothing of it; of the processes those
 * in scope. -ENOMEM leaves to empty. */
int snapshot_copy(struct snapshot *to, const struct snapshot *from, enum snapshot_scope scope);

/*
 * Whether a process of this job that is not in it was not there. Who shows several jobs at once
 * keeps, of the snapshot before, the processes of jobs that the next one does not cover.
 */
bool snapshot_covers(const struct snapshot *s, const char *job_id);

/* "host", "job" or "look". */
const char *snapshot_covers_name(enum snapshot_covers covers);

/* A new sample at the end of processes, all values unknown; NULL when memory runs out. */
struct proc_sample *snapshot_add_process(struct snapshot *s);

/* All values unknown, no job. */
void proc_sample_init(struct proc_sample *p);
void gpu_sample_init(struct gpu_sample *gpu);

/* All values unknown. */
void cgroup_sample_init(struct cgroup_sample *c);

/* SystemSnapshot as an object of the contract, with proctor's own fields beside it;
 * resolution_seconds is one of those where it is known. */
void snapshot_write_json(struct json *j, const struct snapshot *s, enum snapshot_scope scope);

/*
 * The other way. A member that is missing, or of another type, is unknown. Bytes are MB in JSON and
 * come back to the byte. Of the time in system calls JSON has only the shares: they come back as
 * shares of one second. -EINVAL: it is no snapshot.
 */
int snapshot_from_json(struct json_cursor *c, struct snapshot *ret);

/* The values of four of its keys. */
void snapshot_write_gpus(struct json *j, const struct snapshot *s);	/* null: nobody looked */
void snapshot_write_cgroups(struct json *j, const struct snapshot *s);	/* null: nobody looked */
void snapshot_write_progress(struct json *j, const struct snapshot *s); /* null: not kept */
void snapshot_write_zombie_pids(struct json *j, const struct snapshot *s,
				enum snapshot_scope scope);
uint64_t snapshot_count_zombies(const struct snapshot *s, enum snapshot_scope scope);
void psi_write_json(struct json *j, const struct psi *psi);

/* The values of syscall_counts and syscall_time_pct, which is the share of each call in their time
 * on a CPU; null where nobody counted. */
void syscall_uses_write_counts(struct json *j, const struct syscall_use *uses, size_t n);
void syscall_uses_write_times(struct json *j, const struct syscall_use *uses, size_t n);

/* One element of processes[], without its braces: others may add keys of their own. */
void proc_sample_write_fields(struct json *j, const struct proc_sample *p);
