/*
 * orphans - processes that live on when their job is over.
 *
 * A runner ends what its commands leave behind, unless it is told to leave it, or is
 * killed itself. Whoever watched the job knows who belonged to it: those that are
 * handed over when it ends, and that a later look still shows, are its orphans, and
 * so is what they start. The number that is kept is bounded.
 */
#ifndef PROCTOR_JOBS_ORPHANS_H
#define PROCTOR_JOBS_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/snapshot.h"

#define ORPHANS_MAX 4096

struct orphan {
	struct proc_key key;
	int64_t attempt_id;
	uint64_t uid; /* of the job's owner */
	int attempt_num, sheet_num;
	const char *job_id;
	bool is_found; /* a look after the end of the job has shown it */
	unsigned look;
};

struct orphans;

struct orphans *orphans_new(void); /* NULL: no memory */
struct orphans *orphans_free(struct orphans *o);

/* It belonged to a job that is over; what it says is copied. -ENOMEM, -ENOSPC. */
int orphans_suspect(struct orphans *o, const struct orphan *suspect);

/*
 * A look: calls found for each that is seen for the first time since its job ended, and
 * forgets those that are gone. Zombies are gone. Processes of jobs that run are no orphans.
 * found must not change the orphans. -ENOMEM: as far as it got.
 */
typedef void orphans_found_fn(void *ctx, const struct orphan *orphan, const struct proc_sample *p);
int orphans_look(struct orphans *o, const struct snapshot *snap, orphans_found_fn *found,
		 void *ctx);

/* Those that were found and are not yet gone. */
size_t orphans_count(const struct orphans *o);

#endif
