/*
 * anomaly - something out of the ordinary: what, whose, how bad, from when to when.
 *
 * An anomaly is one judgement: the fields of the contract. An episode is the same
 * thing over time: it begins, may get worse, has a peak and clears. detect/ makes
 * both, store/ keeps episodes, and whoever publishes one writes it with
 * episode_write_event().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "model/job.h"
#include "model/snapshot.h"

enum anomaly_type {
	ANOMALY_MEMORY_SPIKE,
	ANOMALY_MEMORY_LEAK,
	ANOMALY_MEMORY_PRESSURE,
	ANOMALY_RUNAWAY_PROCESS,
	ANOMALY_STUCK_PROCESS,
	ANOMALY_ZOMBIE,
	ANOMALY_FD_EXHAUSTION,
	ANOMALY_THREAD_EXPLOSION,
	ANOMALY_PROCESS_EXPLOSION,
	ANOMALY_IO_STALL,
	ANOMALY_SWAP_STORM,
	ANOMALY_OOM_KILL,
	ANOMALY_GPU_MEMORY,
	ANOMALY_GPU_IDLE,
	ANOMALY_GPU_HOT,
	ANOMALY_ORPHAN,
	ANOMALY_GPU_LOST,
	ANOMALY_RANK_DIVERGED,
	N_ANOMALY_TYPES
};
const char *anomaly_type_name(enum anomaly_type type); /* "memory_spike", … */
/* -EINVAL: no such type. */
int anomaly_type_from_name(const char *name, enum anomaly_type *ret);

enum severity { SEVERITY_LOW, SEVERITY_MEDIUM, SEVERITY_HIGH, SEVERITY_CRITICAL, N_SEVERITIES };
const char *severity_name(enum severity severity); /* "low", … */
int severity_from_name(const char *name, enum severity *ret);

#define ANOMALY_TEXT_BYTES 256

/* One judgement. */
struct anomaly {
	double timestamp; /* unix seconds */
	enum anomaly_type type;
	bool has_pid; /* false: it is of no process */
	int64_t pid;
	uint64_t start_ticks;	       /* of the process; U64_UNKNOWN */
	const char *job_id;	       /* borrowed; NULL: of no job */
	int sheet_num;		       /* or SHEET_NONE */
	char text[ANOMALY_TEXT_BYTES]; /* one sentence, UTF-8 */
	enum severity severity;
	double metric_value; /* in the unit of the threshold; NaN: unknown */
	double threshold;    /* where the check begins to see something */
};

/* All unknown. */
void anomaly_init(struct anomaly *a);

/* The contract's fields, without braces. */
void anomaly_write_fields(struct json *j, const struct anomaly *a);

/* ---- what else the host was doing ---- */

#define ANOMALY_TOP 3

struct anomaly_process {
	struct proc_key key;
	char comm[COMM_BYTES];
	char job_id[JOB_ID_MAX + 1];
	double cpu_percent;
	uint64_t rss_bytes;
};

struct anomaly_host {
	uint64_t memory_total_bytes, memory_available_bytes, swap_free_bytes;
	double load1;
	double cpu_some, memory_some, memory_full, io_some, io_full; /* PSI avg10, in percent */
	uint64_t n_processes;
	int running_jobs;	   /* -1: not known */
	bool knows_cpu, knows_rss; /* that of all processes, and not of some alone: */
	struct anomaly_process top_cpu[ANOMALY_TOP], top_rss[ANOMALY_TOP];
	size_t n_top_cpu, n_top_rss;
};

void anomaly_host_init(struct anomaly_host *host);

/* ---- what was found out about the culprit when it began ---- */

#define ANOMALY_MAX_FILES 32
#define ANOMALY_MAX_SYSCALLS 10

struct anomaly_file {
	int fd;
	char target[160]; /* what the link says, cut at the end of a character */
};

struct anomaly_syscall {
	char name[32];
	uint64_t count;
	double time_pct;
};

/* Counts are of all there were; the arrays hold the first. What nobody looked at is unknown. */
struct anomaly_evidence {
	double fast_interval_seconds; /* that it was sampled at after it began; NaN: it was not */
	struct anomaly_file files[ANOMALY_MAX_FILES];
	size_t n_files;
	uint64_t n_files_open; /* U64_UNKNOWN: nobody looked */
	struct anomaly_syscall syscalls[ANOMALY_MAX_SYSCALLS];
	size_t n_syscalls;
	bool has_syscalls;
	char doing[512]; /* "waiting for a lock on /x, held by tar (pid 7)", when it began; ""
			  * unknown */
	char trace[512]; /* the file of a trace; "": none was made (yet) */
	char trace_missing[160]; /* why none was made; "": it was, or none was wanted */
};

void anomaly_evidence_init(struct anomaly_evidence *e);

/* ---- an episode ---- */

enum episode_change { EPISODE_BEGAN, EPISODE_ESCALATED, EPISODE_CLEARED, N_EPISODE_CHANGES };
const char *episode_change_name(enum episode_change change); /* "began", … */
int episode_change_from_name(const char *name, enum episode_change *ret);

/* What was told of an episode at one of its changes. */
struct episode_moment {
	enum episode_change change;
	uint64_t wall_ns;
	enum severity severity;
	double value; /* in the episode's unit; NaN */
	char text[ANOMALY_TEXT_BYTES];
};

/* Why it is over, where all that is known is that whoever saw it looks no more, or sees nothing. */
#define EPISODE_UNWATCHED "nobody looks any more"
#define EPISODE_UNSEEN "nobody looked any more"
#define EPISODE_ENDED_UNSEEN "the process ended while nobody looked"
#define EPISODE_UNMEASURED "it could no longer be measured"
#define EPISODE_BOOTED "the host was booted"

/* Why what was of a process or a job is over with that; and a kill, which is a moment. */
#define EPISODE_PROCESS_ENDED "the process ended"
#define EPISODE_JOB_ENDED "the job ended"
#define EPISODE_NO_MORE "no other was killed since"

/* What tells one from all others: its type, whose it is, and when it began. */
#define EPISODE_NAME_BYTES 192

struct episode {
	/* As of the last change. timestamp is when it began; severity, text and metric_value
	 * are those of the worst moment. */
	struct anomaly worst; /* its job_id is that below */
	char job_id[JOB_ID_MAX + 1];
	int64_t attempt_id; /* of the job, as the samples had it; 0: of none, or not known */
	char name[EPISODE_NAME_BYTES];
	char comm[COMM_BYTES]; /* of the process; "": of none */
	bool is_adopted;       /* another has begun it, and given it its name */
	int gpu;	       /* index, or -1 */
	const char *unit;      /* of metric_value: "MB", "percent", …; static */
	uint64_t began_wall_ns, peak_wall_ns, ended_wall_ns; /* ended: U64_UNKNOWN while it lasts */
	uint64_t cleared_wall_ns; /* when its end was sure, and told; U64_UNKNOWN: when it ended */
	uint64_t seen_wall_ns;	  /* when its numbers were so; U64_UNKNOWN */
	uint64_t over_wall_ns;	  /* when it was last over its threshold; U64_UNKNOWN */
	uint64_t count;		  /* how many times it came: 1, or more where it flaps; and those of
				     other processes of the job that are not told one by one */
	double before_value;	  /* before it began */
	double first_value;	  /* when it began */
	double peak_value;	  /* at its worst */
	double after_value;	  /* when it cleared; NaN where that was the end of the process */
	double seconds_to_limit;  /* an estimate at the last change; NaN: there is none */
	const char *why_cleared;  /* static; NULL while it lasts */
	struct anomaly_host host; /* when it began */
	uint64_t full_from_wall_ns, full_until_wall_ns; /* the record has the seconds around its
							   beginning at full resolution */
	const struct anomaly_evidence *evidence;	/* borrowed; NULL: nobody looked (yet) */
	/* Of one that was read from the record, instead of host and evidence: JSON, borrowed. */
	const char *host_json, *evidence_json;
};

void episode_init(struct episode *e);

/* Instead of an assignment, which would leave job_id pointing at the original. */
void episode_copy(struct episode *to, const struct episode *from);

/* The same, with all that it borrows in the arena; its evidence is left out. -ENOMEM. */
int episode_keep(struct episode *to, const struct episode *from, struct arena *arena);

/* When it was known to last. */
uint64_t episode_last_seen(const struct episode *e);

/* It has an end, which is when it was last seen: it may have lasted for longer. */
bool episode_end_is_unseen(const struct episode *e);

/* The unit in which less is worse. */
#define ANOMALY_UNIT_AVAILABLE "percent available"

/* Of what may be the same fault: by its severity, and by its peak where that has the same unit. */
bool episode_is_worse(const struct episode *e, const struct episode *than);

/* Back to the words and numbers that were told at one of its changes. */
void episode_recall(struct episode *e, const struct episode_moment *m);

/* One more of the attempt's, kept in its arena. -ENOMEM: those before are still there. */
int episode_append(struct attempt *a, const struct episode *e);

/* NULL: of none. One that is too long is cut. */
void episode_set_job(struct episode *e, const char *job_id);

/* The contract's fields of it, and the rest beside them; without braces. */
void episode_write_fields(struct json *j, const struct episode *e);

/* When that was. */
uint64_t episode_change_time(const struct episode *e, enum episode_change change);

/* One "monitor.anomaly": an object with event, change, and when that was, before the fields. */
void episode_write_event(struct json *j, const struct episode *e, enum episode_change change,
			 uint64_t wall_ns);

/* Objects: what the host was doing; what was found out about the culprit. */
void anomaly_host_write_json(struct json *j, const struct anomaly_host *host);
void anomaly_evidence_write_json(struct json *j, const struct anomaly_evidence *e);

/* The other way, as far as it can be read. -EBADMSG: it is no object; all is unknown then. */
int anomaly_host_read_json(const char *text, struct anomaly_host *ret);
int anomaly_evidence_read_json(const char *text, struct anomaly_evidence *ret);
