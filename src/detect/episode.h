/*
 * episode - turns the findings of checks at each tick into changes: something began, got
 * worse, and is over.
 *
 * Hysteresis: an episode is over when its check has been clear, without a break, for a
 * while (clear_seconds). If the same thing comes back soon after that, it has to be clear
 * for twice as long the next time, and so on up to an hour: what flaps is told a few
 * times and then counted. Of the processes of a job at most EPISODES_PER_JOB in
 * EPISODES_PER_SECONDS are told for each type, unless one is worse than all before it; the
 * others add to the count of the last, whose text tells of them. At most EPISODES_MAX last at a
 * time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/checks.h"
#include "detect/detect.h"
#include "model/anomaly.h"

#define EPISODES_MAX 256
#define EPISODES_PER_JOB 5
#define EPISODES_PER_SECONDS 600
#define EPISODES_REMEMBERED 256

/* Whose it is. What does not apply is 0, NULL, -1. Of a job or cgroup as a whole, key and comm are
 * the culprit's, where one is known when it begins: they do not tell it from others. */
struct subject {
	enum { OF_PROCESS, OF_JOB, OF_CGROUP, OF_GPU, OF_HOST } kind;
	struct proc_key key;
	const char *job_id;
	int64_t attempt_id;
	const char *comm;
	uint64_t cgroup; /* the hash of its path */
	int sheet_num, gpu;
};

/* An episode that lasts, and what is needed to go on with it. */
struct running {
	struct episode e;
	const struct check *check;
	uint64_t hash;
	double hold;	    /* seconds for which it has to be clear */
	double clear_since; /* NaN: it is not */
	uint64_t clear_wall_ns;
	double clear_value; /* the last, in its unit; NaN */
	double noted;	    /* when anybody last said anything; NaN: adopted, and not looked at */
	double sees_from;   /* from when on what is clear counts as such */
	double changed;	    /* when it began or got worse */
	unsigned n_missed;  /* looks that have not shown what was adopted */
	uint64_t n_more;    /* other processes of the job that are counted with it… */
	size_t n_own_bytes; /* …and told in its text after so many bytes of its own */
	bool is_of_process; /* and not of a job or cgroup whose culprit is named */
	bool is_unmet;	    /* it was adopted, and not found yet in what is there */
	bool was_clear;	    /* since it was last over its threshold */
	bool is_ending;	    /* with the next tick, as its job has ended */
	bool is_over;
};

/* One that is over, and how long it had to be clear. */
struct remembered {
	uint64_t hash;
	double ended, hold;
};

struct episodes {
	struct running *items[EPISODES_MAX];
	size_t n;
	struct remembered past[EPISODES_REMEMBERED];
	size_t next_past;
	struct detect_change *changes; /* of this tick; their episodes are valid until the next */
	size_t n_changes, cap_changes;
	uint64_t n_dropped; /* for want of room, ever */
	bool has_host;	    /* what the host is doing was found out at this tick */
	struct anomaly_host host;
};

void episodes_release(struct episodes *es);

/* A tick begins: what was over at the last one is forgotten. */
void episodes_begin_tick(struct episodes *es);

/*
 * The finding of a check. burst (NULL: no limit) counts those of the job. Returns whether an
 * episode lasts. *ret_muted (or NULL): it was counted with another. -ENOMEM.
 */
int episodes_note(struct episodes *es, const struct tick *m, const struct check *check,
		  const struct subject *who, const struct finding *f, struct burst *burst,
		  bool *ret_muted);

/* One that was counted with another will have an episode of its own. */
void episodes_take_back(struct episodes *es, enum anomaly_type type, const struct subject *who);

/* The one that lasts; NULL: none does. */
const struct episode *episodes_last(const struct episodes *es, const struct tick *m,
				    enum anomaly_type type, const struct subject *who);

/* Whether a finding that is over its threshold would begin one: to find a culprit takes a walk. */
bool episodes_would_begin(const struct episodes *es, const struct tick *m, enum anomaly_type type,
			  const struct subject *who);

/* The process is gone, since then: whatever lasted is over. */
int episodes_end(struct episodes *es, const struct tick *m, enum anomaly_type type,
		 const struct subject *who, uint64_t wall_ns);

/* The job is gone: all of it and of its cgroups is over. Its processes have their own end. */
int episodes_end_job(struct episodes *es, const struct tick *m, const struct job_track *job);

/* All of them. */
int episodes_end_all(struct episodes *es, const struct tick *m, const char *why);

/* What nobody said anything about: moments are clear; others are over after a while. */
int episodes_end_tick(struct episodes *es, const struct tick *m);

/* ---- for evaluate.c ---- */

/*
 * The name of an episode is what it is, whose, and since when. Up to its last slash it is the same
 * for all observers: by that the record recognises an episode, and another observer goes on with
 * it.
 */

/* Of this attempt, or of one of its processes. */
bool episode_is_of(const struct episode *e, const char *job_id, int64_t attempt_id);

/* ---- what another has begun ---- */

/*
 * Goes on with one that lasts by the record, under its name: attempt_id is that of our samples. If
 * the same runs here already, and began later, it becomes that. -EINVAL: it has no name, unit or
 * type by which it could be followed; -ENOSPC, -ENOMEM.
 */
int episodes_adopt(struct episodes *es, const struct config_anomaly *config,
		   const struct episode *e);

/* Before the checks of a tick: what was adopted is found in what is there, or ends. */
int episodes_meet(struct episodes *es, const struct tick *m, struct tracks *ts);
