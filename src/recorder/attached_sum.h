/*
 * attached_sum - what an attached job used: from what was recorded of it, and how the kernel
 * reported the ends of its processes.
 */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "jobs/jobs.h"
#include "model/job.h"
#include "sources/sources.h"

/*
 * ---- ends ----
 *
 * No runner waits for these processes, and most are gone before a sample sees them: so what the
 * kernel reports at the end of each is kept until the job ends, of so many at least as anybody
 * would read.
 */

/*
 * An end as the kernel reports it (LIFE_EXIT, LIFE_ACCOUNT). Its command is the name that the
 * kernel had for it, in the arena: its command line cannot be read any more.
 */
void death_read(const struct life_event *ev, const struct mask *mask, struct arena *arena,
		struct proc_record *ret);

/*
 * The account that comes after an end: at the end the scheduler had not counted all of its CPU
 * time, and threads that ended at the same moment may have been in no sum; now all is counted.
 */
void death_complete(struct proc_record *p, const struct life_event *ev);

#define DEATHS_MAX 10000
#define DEATHS_USER_MAX (2 * DEATHS_MAX) /* of all jobs of one user: 4 MB */

/* All zero is a good beginning. */
struct deaths {
	struct death {
		struct proc_record record;
		uint64_t minor_faults;
	} * items; /* in the order of their ends */
	size_t n, cap;
	struct map last_of;  /* pid -> index of the last that had it */
	uint64_t n_unlisted; /* there was no room for, in these or all of the user's */
	struct arena arena;  /* of commands */
};

void deaths_release(struct deaths *d);

/* One has ended (LIFE_EXIT); member is what was known of it. */
void deaths_note(struct deaths *d, const struct job_member *member, const struct life_event *ev,
		 const struct mask *mask);

/* The last word on what it used (LIFE_ACCOUNT), if it is among them. */
void deaths_complete(struct deaths *d, const struct life_event *ev);

/*
 * How many of those who ended before this time and are gone had no last word: what they have used
 * is a least amount. It is the kernel's to say, and not all kernels do so of everybody.
 */
size_t deaths_count_unaccounted(const struct deaths *d, uint64_t before_wall_ns);

/* Into the record: so many ends are not among them, as nobody may hear of them. */
void deaths_note_withheld(struct attempt *a, uint64_t n);

/*
 * ---- sums ----
 *
 * a was read from the database (processes with their ends, events, series). Adds to its processes
 * what those used that have ended, and those that no sample saw. Sets the usage, and how each
 * process ended where an event has that. births_are_told: all of them since it was attached are
 * known. What was before that is not: its sums are lower bounds in any case. -ENOMEM.
 */
int attached_sum_up(const struct deaths *d, struct attempt *a, bool births_are_told);
