/*
 * pattern - what is believed about failures, and since when.
 *
 * There are three kinds. A RESOURCE_ANOMALY is one that came, of which program. A
 * RESOURCE_CORRELATION is what the reference
 * implementation would store: a score and tags. A FINDING is a rule, frozen when it
 * was found: among runs of the class those on one side of the threshold fail more
 * often. Runs that ended later than what it was found on judge it.
 */
#ifndef PROCTOR_MODEL_PATTERN_H
#define PROCTOR_MODEL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define PATTERN_FINDING "FINDING"
#define PATTERN_CORRELATION "RESOURCE_CORRELATION"
#define PATTERN_ANOMALY "RESOURCE_ANOMALY"

struct pattern {
	const char *type, *name; /* together they are its identity */
	const char *tags;	 /* with a line break between two */
	const char *description; /* as it was when it was found */
	uint64_t n_jobs;	 /* that it rests on */
	uint64_t occurrences;	 /* analyses that have found it; times that the anomaly came */
	const char *jobs;	 /* of an anomaly the last 50, with a line break between two */
	double confidence;	 /* of a correlation; NaN */
	uint64_t first_wall_ns, last_wall_ns;

	/* Of a finding. */
	const char *grade; /* "supported", "confirmed"; NULL: a correlation */
	const char *label; /* of the class; or NULL */
	uint64_t class_key;
	const char *feature;
	bool is_above;
	double threshold;
	double p;
	double rate_in, rate_out, base_rate; /* that it predicts, and of all runs by then */
	uint64_t frozen_wall_ns;	     /* later runs are unseen */

	/* What these later runs said. */
	uint64_t n_later, n_later_failed;
	double later_p;		    /* of Fisher's test on them alone, to the side predicted */
	double brier, brier_base;   /* of the rule, and of the base rate; smaller is better */
	uint64_t n_looks;	    /* at them that the error was spent on */
	uint64_t confirmed_wall_ns; /* U64_UNKNOWN: not yet */
	uint64_t lapsed_wall_ns;    /* the newest analysis has not found it; U64_UNKNOWN: it has */
	uint64_t retired_wall_ns;   /* U64_UNKNOWN: it holds */
	const char *retired_why;
};

void pattern_init(struct pattern *p); /* all unknown */

struct pattern_list {
	struct pattern *items;
	size_t n, cap;
	struct arena arena; /* owns the strings */
};

/* A new one at the end, all unknown; NULL: no memory. */
struct pattern *pattern_list_add(struct pattern_list *list);
void pattern_list_release(struct pattern_list *list);

#endif
