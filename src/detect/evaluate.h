/*
 * evaluate - one tick: every check that applies, for everything it applies to.
 *
 * detect.c creates and frees a struct detect and decides what a tick is; this is what happens in
 * one.
 */
#ifndef PROCTOR_DETECT_EVALUATE_H
#define PROCTOR_DETECT_EVALUATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/checks.h"
#include "detect/detect.h"
#include "detect/episode.h"
#include "detect/relations.h"
#include "detect/host_past.h"
#include "detect/track.h"

#define EVALUATION_EARLY 64

/* Kills that were told between two ticks: the next finds them in the counts. */
struct early_kills {
	uint64_t jobs[EVALUATION_EARLY]; /* hashes: see evaluation_hash_job() */
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
	struct detect_change *changes;
	size_t cap_changes;
};

#define EVALUATION_KILLING 16

/* A cgroup of the tick that has counted kills. */
struct killing {
	size_t at;
	uint64_t n;
};

/* Kills that events tell of, for who counts them: one walk through the events. */
struct kill_news {
	uint64_t n_anywhere;  /* of jobs that are in no cgroup that is known: a short one is killed
				 before anybody has seen which it is in */
	struct map by_job;    /* hash of the others -> how many */
	uint64_t n_elsewhere; /* that somebody else has told of, of other jobs */
};

/* Cgroups that have told of kills by their count, each with the next of the same job. */
struct late_index {
	bool is_made;
	struct map first; /* hash of the job -> the first of them */
	uint16_t next[HOST_PAST_CGROUPS];
};

/* What the steps of a tick hand on. */
struct evaluation {
	struct detect *d;
	const struct snapshot *snap;
	struct tick tick;
	struct moment moment;
	struct killing killing[EVALUATION_KILLING]; /* the first so many */
	size_t n_killing;
	uint64_t n_cgroup_kills; /* that only the counts of cgroups tell of */
	struct kill_news kills;	 /* of the events */
	struct late_index late;
	struct map by_pid; /* of the snapshot, where somebody asked: pid -> its place */
	bool has_by_pid;
	int r; /* the first failure */
};

void evaluation_note_failure(struct evaluation *w, int r);

/* For who asks what could be judged: see detect_looks_of(). */
void evaluation_count(struct evaluation *w, const struct check *check, const struct finding *f);

/* What a check says. Whether an episode lasts. */
bool evaluation_note(struct evaluation *w, const struct check *check, const struct subject *who,
		     const struct finding *f, struct burst *burst, bool *ret_muted);

/* Nothing is known yet. */
void finding_clear(struct finding *f);

/* s: its sample; NULL: it is not there any more. */
/* What is of a job or cgroup has a culprit; NULL: none is known. */
void subject_blame(struct subject *who, const struct track *culprit);

/* What the steps have made. */
void evaluation_release(struct evaluation *w);

/* look_events.c: kills, deaths and orphans that events tell of; kills alone, before the tick; and
 * deaths alone, after the last. */
void evaluate_events(struct evaluation *w, const struct detect_news *news);
void evaluate_kills(struct evaluation *w, const struct detect_news *news);
void evaluate_deaths(struct evaluation *w, const struct proc_event *events, size_t n);

/* look_cgroups.c */
uint64_t evaluation_hash_job(const char *job_id, int64_t attempt_id);
void evaluate_homes(struct evaluation *w); /* whose each is, and how many processes may be there */
void evaluate_cgroups(struct evaluation *w, const struct detect_news *news);

/*
 * A kill of a job, at that moment, that the count of its cgroup has told of: that episode gets who
 * it was, if it lasts. False: none has.
 */
bool evaluate_late_kill(struct evaluation *w, const struct proc_event *ev, double at,
			struct finding *f);

/* Nobody will look any more: kills that still wait for an event are told. */
void evaluate_last_kills(struct evaluation *w);

/* Nobody will look any more: those that are known to have ended, or all where none is left. */
void evaluate_last_processes(struct evaluation *w, bool leaves_processes);
void evaluate_last_jobs(struct evaluation *w); /* they are over */

/* One of several is: those of its processes with it that are known to have ended. */
void evaluate_left_job(struct evaluation *w, const struct detect_job *left);

/* Jobs, their processes and their cgroups; what is no longer there is forgotten. */
void evaluate_jobs(struct evaluation *w, const struct detect_news *news);

/* The host and its GPUs. */
void evaluate_host(struct evaluation *w, const struct detect_news *news);

#endif
