/*
 * orphans - processes that live on when their job is over.
 *
 * A runner ends what its commands leave behind, unless it is told to leave it, or is
 * killed itself. Whoever watched the job knows who belonged to it: those that are
 * handed over when it ends, and that a later look still shows, are its orphans, and
 * so is what they start. The number that is kept is bounded.
 */
#pragma once

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
	bool is_attached;	    /* something else had started that job */
	uint64_t left_wall_ns;	    /* when that ended; U64_UNKNOWN: or it was born later */
	bool is_found;		    /* a look after the end of the job has shown it */
	bool is_judged;		    /* who looks for anomalies has heard of it */
	bool is_dead;		    /* its death was told */
	bool is_taken;		    /* it lives, and is another job's now */
	uint64_t cancelled_boot_ns; /* when it was told to end; 0: it was not. Its children inherit
				       it */
	bool is_new;		    /* no look has come since it was handed over */
	unsigned look;
};

struct orphans;

struct orphans *orphans_new(void); /* NULL: no memory */
struct orphans *orphans_free(struct orphans *o);

/* It belonged to a job that is over; what it says is copied. is_found: somebody has told of it
 * before. -ENOMEM, -ENOSPC. */
int orphans_suspect(struct orphans *o, const struct orphan *suspect);

struct orphans_ops {
	/* It is seen for the first time since its job ended. */
	void (*found)(void *ctx, const struct orphan *orphan, const struct proc_sample *p);
	/* It was found, is gone, and nobody has told of its death. */
	void (*gone)(void *ctx, const struct orphan *orphan);
};

/*
 * A look, which forgets those that are gone. Zombies are gone. Processes of jobs that run are no
 * orphans. The snapshot may be older than the end of a job: who is new is not gone by the first.
 * The ops must not change the orphans. -ENOMEM: as far as it got.
 */
int orphans_look(struct orphans *o, const struct snapshot *snap, const struct orphans_ops *ops,
		 void *ctx);

/* One that was found; NULL: it is none. Valid until the next call that takes the orphans. */
struct orphan *orphans_find(struct orphans *o, pid_t pid);

/* The one that was found after this one, or (NULL) the first; NULL: that was the last. Whose and
 * who it is stays. */
struct orphan *orphans_next(struct orphans *o, const struct orphan *after);

/* Those that were found and are not yet gone. */
size_t orphans_count(const struct orphans *o);
