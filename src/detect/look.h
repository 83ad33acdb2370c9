/*
 * look - one look at all there is: every check that applies, at everything it applies to.
 *
 * detect.c is the life of a struct detect and what a tick is; this is what happens in one.
 */
#ifndef PROCTOR_DETECT_LOOK_H
#define PROCTOR_DETECT_LOOK_H

#include <stddef.h>
#include <stdint.h>

#include "detect/checks.h"
#include "detect/detect.h"
#include "detect/episode.h"
#include "detect/relations.h"
#include "detect/surroundings.h"
#include "detect/track.h"

struct detect {
	struct config_anomaly config;
	enum detect_scope scope;
	char boot_id[BOOT_ID_BYTES];
	uint64_t last_ns; /* by the clock that counts; 0: there was no tick */
	uint64_t last_wall_ns;
	struct tracks tracks;
	struct relations relations;
	struct surroundings surroundings;
	struct episodes episodes;
	size_t *track_of; /* of each process of the tick */
	size_t cap_track_of;
	struct detect_change *changes;
	size_t cap_changes;
};

/* What the steps of a tick hand on. */
struct look {
	struct detect *d;
	const struct snapshot *snap;
	struct tick tick;
	struct moment moment;
	int r; /* the first failure */
};

void look_note_failure(struct look *w, int r);

/* Kills that events tell of. Before the others, which only count them. */
void look_at_kills(struct look *w, const struct detect_news *news);

/* Jobs, their processes and their cgroups; what is no longer there is forgotten. */
void look_at_jobs(struct look *w, const struct detect_news *news);

/* The host and its GPUs. */
void look_at_host(struct look *w);

#endif
