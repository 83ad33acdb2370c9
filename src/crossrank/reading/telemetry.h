/*
 * telemetry - the records of many ranks in memory, as analysis wants them.
 *
 *	struct telemetry *t = telemetry_new();
 *
 *	telemetry_add(t, &event);	for each, in the order of the files
 *	telemetry_sort(t);
 *
 * A sample takes 48 bytes. What most samples of a rank have in common (who wrote
 * it, on which host, of which job) is kept once, as an identity. Rows of a store are
 * added like records of a file: fill a struct telemetry_event.
 */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "crossrank/reading/event.h"

struct sample {
	int64_t timestamp_ns;
	int64_t used_bytes, reserved_bytes, allocated_bytes, change_bytes;
	uint32_t identity;
	int32_t device; /* -1: none; those that no device has are the largest */
};

struct identity {
	int64_t rank, world_size, pid, sampling_interval_ms;
	struct text job_id, host, session_id;
	struct event_clock clock;
	/* Counted along. */
	uint64_t n_samples;
	uint64_t first_sample; /* its number among all events */
	int64_t last_ns;       /* of all events, samples or not */
	int64_t total_bytes;   /* of the device, as said last; EVENT_UNKNOWN */
	size_t stream;	       /* its place + 1; 0: none yet */
};

/* The samples of one rank; by (time, pid, host) once telemetry_sort() was called. */
struct stream {
	int64_t rank;
	struct sample *samples;
	size_t n, cap;
};

/* A phase begins or ends. */
struct boundary {
	int64_t timestamp_ns, sequence, thread_id, rank;
	struct text session_id, scope_id, thread_name;
	struct text label; /* the path, "train / step" */
	int depth;	   /* parts of the path */
	bool is_enter;
};

/*
 * A record of the type "rank_start": the rank's process was started then. Or of "rank_end": the
 * rank has ended, and its record is whole; device_used_bytes is the most that it ever held. Or a
 * sample with the CPU or GPU time that the rank has used.
 */
struct rank_moment {
	int64_t rank, timestamp_ns;
	int64_t amount; /* bytes; of times ns */
	uint32_t identity;
};

struct rank_moments {
	struct rank_moment *items; /* by (rank, time) once telemetry_sort() was called */
	size_t n, cap;
};

struct telemetry {
	struct arena arena;
	struct identity *identities;
	struct stream *streams;
	struct boundary *boundaries;
	int64_t *markers; /* times of records that name a collective operation ("all_reduce") */
	struct rank_moments starts, ends, uses[N_USES];
	size_t n_identities, n_streams, n_boundaries, n_markers;
	size_t identities_cap, streams_cap, boundaries_cap, markers_cap;
	uint64_t n_events, n_samples;
	struct map by_hash;   /* of identities; chains of equal hashes are probed */
	struct map by_rank;   /* of streams */
	uint32_t recent[256]; /* identity + 1 that was seen last, by the low bits of its rank */
};

static inline const struct identity *identity_of(const struct telemetry *t, const struct sample *s)
{
	return &t->identities[s->identity];
}

/* Behind the samples that have the same identity as the one at `from`. */
static inline size_t stream_run_end(const struct stream *s, size_t from)
{
	size_t end = from + 1;

	while (end < s->n && s->samples[end].identity == s->samples[from].identity)
		end++;
	return end;
}

/* NULL when memory runs out. */
struct telemetry *telemetry_new(void);
struct telemetry *telemetry_free(struct telemetry *t); /* NULL is fine. Returns NULL. */
void telemetry_cleanup(struct telemetry **t);	       /* for CLEANUP() */

/* Keeps what analysis needs of the event. -ENOMEM; -E2BIG: more identities than there is room for.
 */
int telemetry_add(struct telemetry *t, const struct telemetry_event *ev);

/* Puts each rank's samples in order, equal ones as they came, and the markers too. -ENOMEM. */
int telemetry_sort(struct telemetry *t);

/* The last of a rank's at ns or before; NULL: there is none. They are sorted. */
const struct rank_moment *telemetry_find_moment(const struct rank_moments *moments, int64_t rank,
						int64_t ns);

/* Whether a collective operation was named from from_ns to to_ns; t is sorted. */
bool telemetry_has_marker(const struct telemetry *t, int64_t from_ns, int64_t to_ns);
