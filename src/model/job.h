/*
 * job - what was asked for, and what came of it.
 *
 * A job has an id and attempts (each time it is run). An attempt has sheets
 * (its steps, numbered from 1), a sheet has tries (retries) and, where asked
 * for, ranks. Everything here is plain data: jobs/ makes it, store/ keeps it,
 * report/ tells it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "model/snapshot.h"

#define JOB_ID_MAX 128 /* bytes, without the NUL */

/* Letters, digits, '.', '_', '-', ':', '/', '@', '+'; not empty, at most JOB_ID_MAX, no leading '-'
 * or '.'. */
bool job_id_is_valid(const char *id);

#define JOB_LOG_NAME_BYTES (JOB_ID_MAX + sizeof(".log"))

/* The file that the output of a submitted job goes to: "ID.log". A '/' is a '%', which no id has,
 * so that no two jobs have one file. */
void job_log_name(const char *id, char ret[JOB_LOG_NAME_BYTES]);

/* ---- what was asked for ---- */

struct env_entry {
	const char *name;
	const char *value;
};

struct sheet_spec {
	int num;	  /* 1, 2, … or what --sheet says */
	const char *name; /* NULL: none given */
	const char *const
		*argv;	     /* NULL-terminated; a shell string is { "/bin/sh", "-c", string } */
	const char *workdir; /* NULL: where proctor is */
	const struct env_entry *env; /* added to the environment; never stored */
	size_t n_env;
	int retries;		/* further tries after the first */
	double timeout_seconds; /* per try; NaN: none */
	bool stop_on_failure;
	int ranks; /* copies; 1 without RANK variables unless is_ranked */
	bool is_ranked;
};

/* What a job may use at most. */
struct job_limits {
	uint64_t memory_bytes;	/* U64_UNKNOWN: as much as there is */
	uint64_t max_processes; /* and threads; U64_UNKNOWN */
	double cpus;		/* 1.5: one and a half cores; NaN */
};

#define JOB_MEMORY_MIN_BYTES (UINT64_C(4) << 20) /* less does not start a program */
#define JOB_PROCESSES_MAX 4194304
#define JOB_CPUS_MIN 0.01
#define JOB_CPUS_MAX 65536
#define TIMEOUT_MAX_SECONDS (3650.0 * 86400)

#define JOB_LIMITS_NONE                                                                        \
	{                                                                                      \
		.memory_bytes = U64_UNKNOWN, .max_processes = U64_UNKNOWN, .cpus = F64_UNKNOWN \
	}

struct job_spec {
	const char *job_id; /* NULL: one is made up */
	bool is_new_id;	    /* made for this run: no other has it */
	struct job_limits limits;
	const struct sheet_spec *sheets;
	size_t n_sheets;
	struct arena arena; /* owns all of the above */
};

void job_spec_init(struct job_spec *spec);
void job_spec_release(struct job_spec *spec);

/* One command as its only sheet; argv is borrowed. -ENOMEM. */
int job_spec_set_command(struct job_spec *spec, const char *const *argv, int sheet_num,
			 double timeout_seconds);

/* ---- what came of it ---- */

enum outcome {
	OUTCOME_NONE, /* still running, or nobody knows */
	OUTCOME_SUCCESS,
	OUTCOME_FAILURE,
	OUTCOME_CANCELLED,
	OUTCOME_TIMEOUT,
	OUTCOME_OOM,
};

/* For enums whose values index a table of names: the value goes to *ret. -EINVAL: no such name. */
int enum_from_name(const char *const *names, size_t n, const char *name, void *ret);

/* "success", …; NULL for OUTCOME_NONE. */
const char *outcome_name(enum outcome outcome);
/* The other way; OUTCOME_NONE for anything unknown or NULL. */
enum outcome outcome_from_name(const char *name);

/*
 * Why something ended, waits or was slow: the one word of the sentence in "reason" that rules and
 * programs go by. The names are those of docs/output.md.
 */
enum cause_kind {
	CAUSE_NONE, /* it succeeded, or none is known beyond its exit code */
	CAUSE_MEMORY,
	CAUSE_MEMORY_LIKELY, /* the kernel's count rose, and which process it killed is not known */
	CAUSE_DISK_FULL,
	CAUSE_LOCK,
	CAUSE_WAIT,
	CAUSE_STOPPED,
	CAUSE_BUSY,
	CAUSE_TIME_LIMIT,
	CAUSE_CRASH,
	CAUSE_SIGNAL,
	CAUSE_CANCELLED,
	CAUSE_NOT_FOUND,
	CAUSE_CHILD,
	/* By the call that failed last. */
	CAUSE_MISSING_FILE,
	CAUSE_PERMISSION,
	CAUSE_FILE_LIMIT,
	CAUSE_CONNECTION,
	CAUSE_FAILED_CALL,
	/* Of one that was slower or larger than usual; these are in no record. */
	CAUSE_DISK,
	CAUSE_PAGE_FAULT,
	CAUSE_GPU,
	CAUSE_PIPE,
	CAUSE_SOCKET,
	CAUSE_FUTEX,
	CAUSE_MEMORY_STALL,
	CAUSE_DISK_STALL,
	CAUSE_CPU,
	CAUSE_WORK,
	CAUSE_LARGER,
	N_CAUSES,
};

/* NULL for CAUSE_NONE, and the other way for NULL. -EINVAL: no such name. */
const char *cause_name(enum cause_kind kind);
int cause_from_name(const char *name, enum cause_kind *ret);

struct cause {
	enum cause_kind kind;
	pid_t pid;	 /* the process that failed first, or that explains the wait; -1 */
	pid_t other_pid; /* that holds the lock, or has the other end of the pipe; -1 */
};

#define CAUSE_INIT                 \
	{                          \
		CAUSE_NONE, -1, -1 \
	}

/* Where the number for a peak or a total came from. Said beside it in every report. */
enum evidence {
	EVIDENCE_UNKNOWN,
	EVIDENCE_EXACT,	      /* the kernel's own accounting, nothing missed */
	EVIDENCE_SAMPLED,     /* seen by looking now and then */
	EVIDENCE_LOWER_BOUND, /* certainly not less, maybe more */
	EVIDENCE_UPPER_BOUND, /* certainly not more, maybe less */
};
const char *evidence_name(
	enum evidence evidence); /* "exact", "sampled", "at least", "at most", "unknown" */
enum evidence evidence_from_name(const char *name);

/* What the kernel has counted in the cgroup of an attempt, exactly. */
struct cgroup_use {
	uint64_t peak_memory_bytes; /* of all processes at one moment, page cache included */
	uint64_t cache_bytes;	    /* page cache at the end, which the kernel could take back */
	uint64_t cpu_ns, user_ns, system_ns;
	uint64_t throttled_ns; /* in which the limit of CPU time kept threads from running */
	uint64_t peak_tasks;   /* processes and threads at once */
	uint64_t memory_hits;  /* times that the memory limit was reached */
	uint64_t task_hits;    /* processes and threads that the limit kept from starting */
	uint64_t oom_kills;
	uint64_t cpu_stall_ns, memory_stall_ns, io_stall_ns; /* PSI "some" of the job alone */
};

/* The limits that were asked for, and what the cgroup has counted; without a cgroup all unknown. */
struct containment {
	struct job_limits limits;
	struct cgroup_use use;
};

/* What an attempt, a sheet or a rank used. Unknown where it could not be measured. */
struct usage {
	uint64_t wall_ns;
	uint64_t user_ns, system_ns; /* of all processes that were waited for by anyone */
	enum evidence cpu_evidence;
	uint64_t peak_rss_bytes; /* largest simultaneous sum over the tree */
	enum evidence peak_rss_evidence;
	/* The same with shared pages counted once, sampled; unknown: none were seen to be shared.
	 */
	uint64_t peak_memory_bytes;
	uint64_t max_process_rss_bytes; /* largest high-water mark of one process */
	enum evidence max_process_rss_evidence;
	uint64_t rchar, wchar, syscr, syscw;
	uint64_t read_bytes, write_bytes;
	enum evidence io_evidence;
	uint64_t minor_faults, major_faults;
	uint64_t voluntary_switches, involuntary_switches;
	uint64_t spawn_count; /* processes born in it, however short */
	enum evidence spawn_evidence;
	uint64_t peak_processes; /* most alive at once; as exact as spawn_count */
	double peak_cpu_percent; /* highest between two samples, whole tree */

	/* Sampled, all three. */
	uint64_t peak_gpu_bytes; /* largest simultaneous sum over the tree and all GPUs */
	uint64_t gpu_busy_ns;	 /* one GPU's time: two that are busy count twice */
	uint64_t gpu_idle_ns;	 /* for each process and GPU: it held memory, and did nothing */

	const char *time; /* where it went: time_ledger_write(); NULL: not known */
};

void usage_init(struct usage *u); /* all unknown */

/* What it took from the host at its peak: with shared pages once, as far as that is known. */
uint64_t usage_memory_bytes(const struct usage *u);

/* On a host that has no GPU nobody uses one, sampled or not. */
void usage_set_no_gpu(struct usage *u);

/* How a try, a rank or an attempt ended. Both unknown (-1) while it runs or when nobody saw it end.
 */
struct exit_status {
	int exit_code; /* 0 to 255, or -1 */
	int signal;    /* what killed it, or -1 */
};

/* From a status of wait4(). */
struct exit_status exit_status_from_wait(int wait_status);
/* What a shell would say: the code, or 128 + signal; -1 if neither is known. */
int exit_status_to_shell(struct exit_status status);

struct rank_record {
	int rank;
	pid_t pid;
	struct exit_status status;
	uint64_t ended_wall_ns; /* U64_UNKNOWN while running */
};

/* One try of one sheet. */
struct sheet_record {
	int num;
	int try_num;	     /* 1 for the first */
	const char *name;    /* or NULL */
	const char *command; /* masked */
	int total_ranks;     /* 1 without ranks */
	uint64_t started_wall_ns, ended_wall_ns;
	enum outcome outcome;
	const char *reason; /* the evidence in one sentence: "exit code 1", "rank 3 was first:
			       signal 9" */
	struct cause cause;
	struct exit_status status;
	struct usage usage;
	struct rank_record *ranks; /* NULL when not ranked */
	size_t n_ranks;
};

/* One process of the attempt, from birth to death as far as it was seen. */
struct proc_record {
	struct proc_key key;
	pid_t ppid;
	int sheet_num, rank;
	int local_rank, world_size; /* as its launcher has it; RANK_NONE: unknown */
	const char *command;	    /* NULL: gone before it could be read */
	uint64_t uid;
	uint64_t born_wall_ns, died_wall_ns; /* U64_UNKNOWN where not seen */
	struct exit_status status;
	uint64_t user_ns, system_ns;
	uint64_t max_rss_bytes;
	enum evidence evidence;	    /* of the peak: EXACT from exit accounting, else SAMPLED */
	enum evidence cpu_evidence; /* of the CPU time; UNKNOWN: as that of the peak */
	uint64_t rchar, wchar, read_bytes, write_bytes;
	uint64_t major_faults;
	uint64_t max_threads, max_fds;
	uint64_t max_gpu_bytes, gpu_busy_ns, gpu_idle_ns; /* sampled */
	uint64_t n_samples;
	const char *syscalls;	  /* syscall_text_write(); NULL: nobody counted them */
	const char *time;	  /* time_ledger_write(); NULL: not known */
	const char *stderr_tail;  /* its last lines there, masked; NULL: none, or not observed */
	const char *failed_calls; /* life_add_calls(); NULL: none, or not observed */
	bool is_unaccounted; /* the attempt's end was stored without it: samples tell what it says,
				and nothing how it ended */
};

void proc_record_init(struct proc_record *p);

/* A line of failed_calls, "write ENOSPC 12 /data/x": 12 ms before the end of its process. */
struct failed_call {
	char call[24];
	char error[24];
	uint64_t before_end_ms;
	const char *object; /* a path or an address, not NUL-terminated; len 0: not known */
	size_t object_len;
};

/* The next line; false: there is none, or the text is of another kind. */
bool failed_call_next(const char **text, struct failed_call *ret);

/*
 * What a process used in its life, all its threads together, as far as the
 * kernel tells it.
 */
struct exit_account {
	uint64_t cpu_ns; /* what the scheduler counted; as told at its end, up to a clock tick too
			    little */
	uint64_t user_ns, system_ns; /* cpu_ns, split by where the clock ticks fell */
	uint64_t max_rss_bytes;	     /* of the program it was last */
	uint64_t minor_faults, major_faults;
	uint64_t rchar, wchar, read_bytes, write_bytes; /* with those of children waited for */
};

/* All unknown. */
void exit_account_init(struct exit_account *a);

/*
 * Into the record of its process. What samples or wait4 have told is not less true, so the larger
 * counts. Its CPU time may lack a clock tick.
 */
void proc_record_account(struct proc_record *p, const struct exit_account *account);

/*
 * What another source knows of a process, and of its end, into its record. How and when it ended
 * stays as it is where that is known, and so does exact CPU time; of the rest the larger counts.
 * The same again changes nothing. The command is borrowed.
 */
void proc_record_merge_end(struct proc_record *p, const struct proc_record *end);

/* What is said of a process that is left of its job. */
#define EVENT_ORPHAN_WORDS "lives on after the end of its job"

/* What the details of a signal begin with that proctor has sent, and those of one from a process of
 * the same job end with. */
#define EVENT_BY_PROCTOR "sent by proctor"
#define EVENT_OF_THIS_JOB ", of this job"

/* What the details of an OOM kill that the kernel has told of begin with. */
#define EVENT_OOM_WORDS "killed by the kernel for want of memory"

enum event_type {
	EVENT_SPAWN,
	EVENT_EXIT,
	EVENT_SIGNAL,
	EVENT_KILL,
	EVENT_OOM,
	EVENT_ORPHAN, /* lives on, and its job is over */
	N_EVENT_TYPES,
};
const char *event_type_name(enum event_type type);
/* A signal, a kill or an OOM kill. */
bool event_type_is_signal(enum event_type type);
/* -EINVAL: no such type. */
int event_type_from_name(const char *name, enum event_type *ret);

#define EVENT_COMM_BYTES 16

struct proc_event {
	uint64_t wall_ns;
	struct proc_key key;
	enum event_type type;
	struct exit_status status;
	const char *job_id;
	int64_t attempt_id; /* in the record; 0: it is not known */
	int sheet_num;
	const char *details;	     /* "" for none */
	char comm[EVENT_COMM_BYTES]; /* of who was killed for want of memory, as the kernel told it,
					raw; "": not told. Not in the record */
};

void proc_event_write_json(struct json *j, const struct proc_event *ev);
/* The same without its braces: others may add keys of their own. */
void proc_event_write_fields(struct json *j, const struct proc_event *ev);

#define PHASE_NAME_MAX 256 /* characters */

/* What a process of the job said it was doing, from when to when. */
struct phase_record {
	const char *name;
	const char *path; /* with those of the same process around it: "epoch/load" */
	pid_t pid;
	int rank;
	uint64_t entered_wall_ns, left_wall_ns; /* U64_UNKNOWN: not left (yet) */
};

/* Not empty, at most PHASE_NAME_MAX characters of UTF-8, none of which controls anything. */
bool phase_name_is_valid(const char *name);

/* An object, without its braces. */
void phase_record_write_fields(struct json *j, const struct phase_record *phase);

/* Which rung of the ladder measured something, and why not a better one. */
struct rung {
	const char *measurement; /* "process samples", … */
	const char *rung;
	const char *reason; /* why no better; "" if it is the best there is */
};

#define RUNG_SYSCALLS "syscall counts and time"
#define RUNG_SYSCALLS_EBPF "eBPF counts per process and call"
#define RUNG_SYSCALLS_STRACE "strace -c"
#define RUNG_UNKNOWN "unknown" /* nobody measures it */

#define RUNG_CGROUP "limits and totals of the tree"
#define RUNG_CGROUP_OWN "a cgroup of the job"

/* What could not be measured, and why. */
struct unknown_note {
	const char *what;
	const char *why;
};

/* What notes are about that somebody asks for. */
#define NOTE_SYSCALL_TIMES "syscall times" /* they are known, but not exactly */
#define NOTE_FAILED_CALLS "failed_calls"
#define NOTE_UNWRITTEN "what the daemon has seen" /* it has not written down all of it yet */

/* The tree of the job at one tick: what charts are drawn from. */
struct series_point {
	uint64_t wall_ns;
	int sheet_num;
	uint64_t rss_bytes;
	double cpu_percent;
	uint64_t n_processes;
};

struct episode;
struct standing;

/* Which rank of an attempt was first, in the few words of a report. Texts are the attempt's. */
struct rank_finding {
	uint64_t n_ranks; /* with samples */
	int64_t world_size;
	uint64_t n_samples;
	const char *measure; /* "rss" or "gpu_memory" */
	const char
		*verdict; /* "named", "cannot_tell", "none"; NULL: samples are not there any more */
	const char *kind; /* "first" or "alone"; NULL unless named */
	int64_t rank;	  /* the culprit; -1 unless named */
	double probability;	 /* NaN unless named */
	uint64_t onset_wall_ns;	 /* U64_UNKNOWN unless named */
	const char *phase;	 /* at the onset, of several the likely one; NULL: none */
	bool is_phase_ambiguous; /* there were several, or one that began or ended about then */
	bool has_passed;	 /* not named: one rank rose alone, once, and gave it back */
	const char *reason;	 /* one sentence, or two */
	const char *remedy;	 /* what would settle it; "" */
	const char *cpu;	 /* whose CPU rate departs from the others'; "": none does */
	const char *gpu;	 /* whose GPU rate does */
};

/* A measurement whose rung is how far apart drivers were asked: "1.00 s to 5.02 s apart". */
#define RUNG_GPU_READINGS "GPU readings"

/* A note that its GPU time was not always told. Where the time is known, it is at least that. */
#define NOTE_GPU_TIME "gpu_seconds"

/* The same of the time in which memory was held in vain. */
#define NOTE_GPU_IDLE_TIME "gpu_idle_seconds"

/* An attempt with everything known about it. Pointers live in the arena. */
#define ATTEMPT_IN_LOG (-1)

/* What a report has beside how it ended and what it used. */
struct attempt_details {
	struct rung *rungs;
	size_t n_rungs;
	struct unknown_note *unknowns;
	size_t n_unknowns;
	struct syscall_use *syscalls; /* of all its processes while somebody counted them, the most
					 time first; none: nobody has */
	size_t n_syscalls;
	struct series_point *series;
	size_t n_series;
	struct episode
		*anomalies; /* model/anomaly.h; a note of unknowns says where nobody looked */
	size_t n_anomalies;
	const struct rank_finding *telemetry; /* NULL: it has no ranks, or
						 nobody looked */
	const struct standing *standing; /* model/run_record.h; NULL: there are no runs like it, or
					    nobody looked */
};

struct attempt {
	int64_t id; /* the store's handle; 0: it is not recorded; ATTEMPT_IN_LOG: not stored yet */
	const char *job_id;
	int attempt_num;
	bool is_running;
	bool is_lost;	     /* its runner vanished without a word of the end */
	bool is_attached;    /* something else started it: the runner is what was attached */
	const char *command; /* masked; of a job file, its name */
	uint64_t argv_hash;
	uint64_t input_bytes; /* of the files that its commands name; U64_UNKNOWN: none */
	uint64_t input_hash;  /* of these files; 0: none */
	uint64_t uid;
	uint64_t submission; /* a number that no other has; U64_UNKNOWN: it was not submitted */
	const char *host;
	const char *workdir;
	char boot_id[BOOT_ID_BYTES];
	struct proc_key runner;
	uint64_t pid_ns; /* inode of the pid namespace that runner.pid is of; U64_UNKNOWN */
	struct clock_quality clock; /* of the host, when it began */
	double interval_seconds;
	uint64_t started_wall_ns, ended_wall_ns;
	enum outcome outcome;
	const char *reason; /* evidence for the outcome, one sentence */
	struct cause cause;
	struct exit_status status;
	int total_sheets, last_completed_sheet, current_sheet;
	struct usage usage;
	struct containment contained;

	struct sheet_record *sheets;
	size_t n_sheets;
	struct proc_record *processes;
	size_t n_processes;
	struct proc_event *events;
	size_t n_events;
	struct phase_record *phases;
	size_t n_phases;
	struct attempt_details details;

	struct arena arena;
};

/* A daemon, from its start to its end: who records jobs that others run. */
struct daemon_record {
	int64_t id; /* the store's handle */
	char boot_id[BOOT_ID_BYTES];
	struct proc_key key;
	const char *version;
	uint64_t started_wall_ns;
};

void attempt_init(struct attempt *a);
void attempt_release(struct attempt *a);

/* One more thing that is unknown, and why: both are copied. */
int attempt_note(struct attempt *a, const char *what, const char *why);

/* The first note of it; NULL: there is none. And by what it was measured; NULL: not recorded. */
const struct unknown_note *attempt_find_note(const struct attempt *a, const char *what);
const char *attempt_find_rung(const struct attempt *a, const char *measurement);

/*
 * How many different pids its processes and events have. A pid that was used twice
 * counts once: how many processes there were is usage.spawn_count. Exact if every
 * process is listed. U64_UNKNOWN: none is, or memory ran out.
 */
uint64_t attempt_count_pids(const struct attempt *a, enum evidence *ret_evidence);

/* Whether any of its processes has a rank. */
bool attempt_has_ranks(const struct attempt *a);

/* False: one that waited, and was over before anybody ran it: its start is its end. */
bool attempt_has_begun(const struct attempt *a);

/* "running" or "done" (queued comes with the daemon). */
const char *attempt_status_name(const struct attempt *a);

/*
 * An element of "jobs --json" with this status, without its braces: others may add keys of their
 * own. Where attempt_num is 0 nobody has begun it: neither that nor how many sheets it has is
 * known.
 */
void attempt_write_fields(struct json *j, const struct attempt *a, const char *status);

/*
 * ---- what a process has called, as one line of text: "read 10 1 2000 -;futex 3 0 5 90" ----
 *
 * For each call its name, how often, errors, nanoseconds on a CPU and without one; - is unknown.
 */

void syscall_text_write(struct buf *out, const struct syscall_use *uses, size_t n);

/* Into the arena; the text may be anything. -EBADMSG: it is not of this kind; -ENOMEM. */
int syscall_text_read(const char *text, struct arena *arena, struct syscall_use **ret,
		      size_t *ret_n);
