/*
 * tally_internal - what the two parts of the tally share.
 *
 * tally.c follows processes from birth to death, keeps what happened to them and settles the
 * accounts; tally_samples.c takes snapshots in.
 */
#ifndef PROCTOR_JOBS_TALLY_INTERNAL_H
#define PROCTOR_JOBS_TALLY_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "jobs/account.h"
#include "jobs/tally.h"
#include "model/peaks.h"

#define CPU_MARKS 8

/* A proc_record and what only the tally wants to know about it. */
struct entry {
	struct proc_record record;
	struct gpu_time gpu;
	unsigned serial; /* of the try that it belongs to */
	bool is_root;
	bool fork_was_told; /* by the kernel; a root is announced by the runner first */
	bool has_children;
	unsigned n_execs; /* its mark is of the last program alone */
	bool ignores_sigchld;
};

/* How much CPU time the tree had used at a moment. */
struct cpu_mark {
	uint64_t boot_ns;
	uint64_t total_ns;
};

struct tally {
	const char *job_id;
	bool sees_births;
	struct entry *entries;
	size_t n, cap;
	uint64_t n_unlisted;
	struct map alive; /* pid -> index into entries, or UNLISTED */
	uint64_t n_living;

	unsigned serial; /* of the try that runs; a sheet may be tried more than once */
	bool sheet_is_open;
	bool sheet_is_alone; /* nothing of an earlier try runs beside it */
	struct account attempt, sheet;
	uint64_t tick_boot_ns;	  /* of the last snapshot; U64_UNKNOWN: none yet */
	uint64_t since_tick_ns;	  /* between it and the one before */
	struct peaks ended_peaks; /* of the sheets that are over; they come one after the other */

	struct cpu_mark marks[CPU_MARKS]; /* oldest first */
	size_t n_marks;
	uint64_t reaped_cpu_ns; /* of all that was waited for by us */

	struct proc_event *events;
	size_t n_events, cap_events, n_stored, n_notable;
	uint64_t n_events_unlisted;
	uint64_t n_lost;

	struct map commands;	    /* hash -> string */
	struct proc_record *listed; /* what tally_processes() hands out */
	struct arena arena;
};

/* The account of the try that runs, if this is of it; what an earlier one left running is not. */
struct account *tally_try_account(struct tally *t, const struct entry *e);

/* The same command line is kept once. NULL: too many different ones, or no memory. */
const char *tally_keep_command(struct tally *t, const char *command);

/* NULL: not known to live, or counted without an entry. */
struct entry *tally_find_alive(const struct tally *t, pid_t pid);

/* It is counted, and has no entry. */
bool tally_is_unlisted(const struct tally *t, pid_t pid);

/*
 * Counts the process, and lists it while there is room (NULL: there is none). It
 * is of its parent's try, if that is known. Entries may move.
 */
struct entry *tally_add_entry(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank);

void tally_note_birth(struct tally *t, struct entry *e, uint64_t wall_ns);

/*
 * A parent that ignores SIGCHLD has its children waited for by the kernel, which
 * adds what they used to nobody's account. NULL: it is not known to live.
 */
struct entry *tally_note_parent(struct tally *t, pid_t pid);

#endif
