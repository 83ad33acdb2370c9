/*
 * evaluate - one tick: every check that applies, for everything it applies to.
 *
 * detect.c creates and frees a struct detect and decides what a tick is; this is what happens in
 * one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "detect/checks.h"
#include "detect/detect.h"
#include "detect/episode.h"
#include "detect/host_past.h"
#include "detect/track.h"

#define EVALUATION_EARLY 64

/* Kills that were reported between two ticks: the next tick finds them in the counts. */
struct early_kills {
	uint64_t jobs[EVALUATION_EARLY]; /* hashes: see host_past_hash_job() */
	size_t n;
	uint64_t n_more; /* of any job */
};

struct detect {
	struct config_anomaly config;
	enum detect_scope scope;
	char boot_id[BOOT_ID_BYTES];
	uint64_t last_ns; /* by the clock that counts; 0: there was no tick */
	uint64_t last_wall_ns;
	double last_step; /* seconds between the last two; 0: there were none */
	struct tracks tracks;
	struct relations relations;
	struct host_past host_past;
	struct episodes episodes;
	struct early_kills early;
	struct detect_looks looks[N_ANOMALY_TYPES];
	size_t *track_of; /* of each process of the tick */
	size_t cap_track_of;
};

#define EVALUATION_KILLING 16

/* A cgroup of the tick that has counted kills. */
struct killing {
	size_t at;
	uint64_t n;
};

/* What the steps of a tick hand on. */
struct evaluation {
	struct detect *d;
	const struct snapshot *snap;
	struct tick tick;
	struct killing killing[EVALUATION_KILLING]; /* the first so many */
	size_t n_killing;
	uint64_t n_cgroup_kills; /* that only the counts of cgroups tell of */
	uint64_t n_anywhere;	 /* kills with events that may have been in any cgroup */
	struct map by_pid;	 /* of the snapshot, where somebody asked: pid -> its place */
	bool has_by_pid;
	int r; /* the first failure */
};

void evaluation_fail(struct evaluation *w, int r);

/* Statistics for detect_looks_of(). */
void evaluation_count(struct evaluation *w, const struct check *check, const struct finding *f);

/* episodes_note() of a finding. True: an episode lasts. */
bool evaluation_note(struct evaluation *w, const struct check *check, const struct subject *who,
		     const struct finding *f, struct burst *burst, bool *ret_muted);

/* Nothing is known yet. */
void finding_clear(struct finding *f);

/* The culprit of an episode of a job or cgroup; NULL: none is known. */
void subject_blame(struct subject *who, const struct track *culprit);

/* Events since the last tick: OOM kills, exits and orphans. */
void evaluate_events(struct evaluation *w, const struct detect_news *news);

/* OOM kills alone, before the tick; exits alone, after the last. */
void evaluate_kills(struct evaluation *w, const struct detect_news *news);
void evaluate_deaths(struct evaluation *w, const struct proc_event *events, size_t n);

/* Jobs, their processes and their cgroups; those no longer there are forgotten. */
void evaluate_jobs(struct evaluation *w, const struct detect_news *news);

/* The host and its GPUs. */
void evaluate_host(struct evaluation *w, const struct detect_news *news);

/* What is of it is over: at the time of its exit event, or of the first tick without it. */
void evaluate_process_end(void *evaluation, const struct track *p);
void evaluate_job_end(void *evaluation, const struct job_track *job);

/* ---- evaluate_cgroups.c ---- */

/* Which job each cgroup is of, and how many processes there is room for. */
void evaluate_homes(struct evaluation *w);
void evaluate_cgroups(struct evaluation *w, const struct detect_news *news);

/*
 * A kill of a job, at that moment, that was reported from the count of its cgroup: that episode
 * gets the victim, if it lasts. False: there is none.
 */
bool evaluate_late_kill(struct evaluation *w, const struct proc_event *ev, double at,
			struct finding *f);

/* After the last tick: kills that still wait for an event are reported. */
void evaluate_last_kills(struct evaluation *w);
