/*
 * deaths - how the processes of an attached job ended and what each used, as the kernel told.
 *
 * There is no runner that waits for them, and most are gone before a sample sees them: so what is
 * told at the end of each is kept until the job ends, of so many at least as anybody would read.
 */
#ifndef PROCTOR_RECORDER_DEATHS_H
#define PROCTOR_RECORDER_DEATHS_H

#include "base/arena.h"
#include "base/map.h"
#include "jobs/jobs.h"
#include "model/job.h"
#include "sources/sources.h"

#define DEATHS_MAX 10000
#define DEATHS_USER_MAX (2 * DEATHS_MAX) /* of all jobs of one user: 4 MB */

/* All zero is a good beginning. */
struct deaths {
	struct proc_record *items; /* in the order of their ends */
	uint64_t *minor_faults;	   /* of each */
	size_t n, cap;
	struct map last_of;  /* pid -> index of the last that had it */
	uint64_t n_unlisted; /* there was no room for */
	struct arena arena;  /* of commands */
};

void deaths_release(struct deaths *d);

/* One has ended (LIFE_EXIT); member is what was known of it. */
void deaths_note(struct deaths *d, const struct member *member, const struct life_event *ev);

/* The same where the user's others have taken all the room: it is counted. */
void deaths_leave_out(struct deaths *d);

/* The last word on what it used (LIFE_ACCOUNT), if it is among them. */
void deaths_complete(struct deaths *d, const struct life_event *ev);

/*
 * How many of those who ended before this time and are gone had no last word: what they have used
 * is a least amount. It is the kernel's to say, and not all kernels do so of everybody.
 */
size_t deaths_count_unaccounted(const struct deaths *d, uint64_t before_wall_ns);

/* Of all of them. */
uint64_t deaths_minor_faults(const struct deaths *d);

/*
 * Into the processes of an attempt that was read from the database: what those used that are
 * listed there, and those that no sample saw. -ENOMEM.
 */
int deaths_merge(const struct deaths *d, struct attempt *a);

/* Into the record: so many ends are not among them, as nobody may hear of them. */
void deaths_note_withheld(struct attempt *a, uint64_t n);

#endif
