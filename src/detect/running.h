/*
 * running - an episode that lasts, and what it is called by.
 *
 * The name is what it is, whose, and since when. Up to its last slash it is the same for all who
 * see the same: by that the record knows what it has already, and who takes over goes on with it.
 */
#ifndef PROCTOR_DETECT_RUNNING_H
#define PROCTOR_DETECT_RUNNING_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/episode.h"

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
	double told;	    /* when it began or got worse */
	const char *ending; /* why it ends with the next tick; NULL: it does not */
	unsigned n_missed;  /* looks that have not shown what was adopted */
	uint64_t n_more;    /* other processes of the job that are counted with it… */
	size_t n_own_bytes; /* …and told in its text after so many bytes of its own */
	bool is_of_process; /* and not of a job or cgroup whose culprit is named */
	bool is_unmet;	    /* it was adopted, and not found yet in what is there */
	bool was_clear;	    /* since it was last over its threshold */
	bool is_over;
};

/* What tells one from others that run. */
uint64_t episode_hash(enum anomaly_type type, const struct subject *who, const char *boot_id);

/* By its type, who it is of and when it began. */
void episode_write_name(struct episode *e, const struct subject *who, const char *boot_id);

/* Of this attempt, or of one of its processes. */
bool episode_is_of(const struct episode *e, const char *job_id, int64_t attempt_id);

/* By its name: what is of a job or cgroup may have a culprit, and is not of that. */
bool episode_is_of_process(const struct episode *e);

/* episode_hash() of one that has a name and an attempt. -EINVAL: that is no name of ours. */
int episode_read_hash(const struct episode *e, uint64_t *ret);

/* ---- episode.c ---- */

/* The one that runs; NULL. */
struct running *episodes_find(struct episodes *es, uint64_t hash);

/* A change of this tick. -ENOMEM. */
int episodes_tell(struct episodes *es, enum episode_change change, const struct running *r);

/* ---- episode_end.c ---- */

#define EPISODES_SILENCE_SECONDS 600 /* after which what nobody can measure any more is over */

/* A check says so, with this value: it ends where that has lasted. */
int episodes_be_clear(struct episodes *es, struct running *r, const struct moment *m, double value);

/* At this moment; after: the last value, or NaN. */
int episodes_end_one(struct episodes *es, struct running *r, const struct moment *m, double after,
		     const char *why);

/* Nobody has seen when: it lasted until it was last seen. */
int episodes_end_unseen(struct episodes *es, struct running *r, const struct moment *m,
			const char *why);

#endif
