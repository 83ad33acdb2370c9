/*
 * deaths - how the processes of an attached job ended and what each used, as the kernel told.
 *
 * There is no runner that waits for them, and most are gone before a sample sees them: so what is
 * told at the end of each is kept until the job ends, of so many at least as anybody would read.
 */
#ifndef PROCTOR_DAEMON_DEATHS_H
#define PROCTOR_DAEMON_DEATHS_H

#include "base/arena.h"
#include "base/map.h"
#include "base/json.h"
#include "jobs/jobs.h"
#include "model/job.h"
#include "rpc/rpc.h"
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
 * Whether that was heard of all who ended since this time: it comes when the kernel has done with
 * them, some milliseconds after their ends. Who ended before reaped_wall_ns and is a zombie below
 * root_fd all the same is passed over: its parent may never wait for it.
 */
bool deaths_are_complete(const struct deaths *d, int root_fd, uint64_t since_wall_ns,
			 uint64_t reaped_wall_ns);

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

/* For a runner: the member "processes", in the bytes of model/record.h. And the other way, into the
 * arena: what is none is empty. */
void deaths_write(struct json *j, const struct deaths *d);
void deaths_read(const struct rpc_value *v, struct arena *arena, struct proc_record **ret,
		 size_t *ret_n);

/* Into the record: so many ends are not among them, as nobody may hear of them. */
void deaths_note_withheld(struct attempt *a, uint64_t n);

/*
 * Into those of the attempt that are listed and not known exactly, what others were told of their
 * ends. One without a start time is known by its pid and when it ended. Changes the order of dead.
 * Returns how many of these are not known exactly all the same: the last word on them is missing.
 */
size_t deaths_complete_listed(struct proc_record *dead, size_t n, struct attempt *a);

#endif
