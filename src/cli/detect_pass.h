/*
 * detect_pass - one walk through the record, as who recorded it saw it: of an attempt, or of the
 * host.
 */
#ifndef PROCTOR_CLI_DETECT_PASS_H
#define PROCTOR_CLI_DETECT_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "cli/detect_counted.h"
#include "cli/detect_ends.h"
#include "cli/detect_found.h"
#include "cli/detect_watchers.h"
#include "detect/detect.h"
#include "store/store.h"

/* OOM kills of all jobs, by time. Begins with KILLS_INIT. */
struct kills {
	struct proc_event *items;
	size_t n, cap;
	struct arena arena;
};

#define KILLS_INIT                  \
	{                           \
		.arena = ARENA_INIT \
	}

void kills_release(struct kills *kills);

/* Once for all passes: a kill in one job explains what the cgroup of another has counted. */
int kills_read(struct store *store, const struct event_filter *filter, struct kills *ret,
	       struct err *err);

/* The caller sets those up to err; the rest begins with zeros. */
struct pass {
	struct detect *d;
	const struct kills *kills;
	struct counted_list *counted; /* an attempt adds to them, and the host leaves them out */
	struct found_list *list;
	const struct watchers *watchers; /* of the host; NULL */
	const struct attempt *attempt;	 /* NULL: it is the host that is looked at */
	struct detect_usual usual;	 /* job_id NULL: nothing is known of jobs of its kind */
	struct err *err;

	struct store *store;
	struct event_list news;		/* for the next look */
	uint64_t looked_wall_ns;	/* when the attempt was last looked at; 0: never */
	bool has_left;			/* the attempt is over, and its detector has been told */
	size_t next_kill, next_counted; /* the first that were not handed out */
	uint64_t n_host_kills;		/* the host's count at the last snapshot */
	uint64_t n_unseen_kills;	/* of these, that it counted while nobody looked */
	struct map homes; /* cgroups in which it had a process: hash of the path -> 1 */
	struct cgroup_sample *cgroups; /* those of a snapshot */
	size_t cap_cgroups;
	uint64_t last_wall_ns, last_boot_ns; /* of the last snapshot; 0: there was none */
	char boot_id[BOOT_ID_BYTES];
};

void pass_release(struct pass *p);

/* Where the attempt is over, what lasts ends. Otherwise it is found as it was last. */
int pass_run(struct store *store, struct pass *p, const struct snapshot_filter *filter);

#endif
