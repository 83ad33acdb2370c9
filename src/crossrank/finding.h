/*
 * finding - which rank began first, or why nobody can tell.
 *
 * Unlike compat it rests on when things happened, not on who was sampled first: the onset
 * of each rank's rise is a distribution, the clocks of different hosts have an error, and a
 * rank is named when it was first with a probability of FINDING_NAMED or more. Peers are the
 * control group: what all ranks do together is the workload's doing.
 */
#ifndef PROCTOR_CROSSRANK_FINDING_H
#define PROCTOR_CROSSRANK_FINDING_H

#include "base/json.h"
#include "crossrank/analysis.h"
#include "crossrank/rises.h"

#define FINDING_NAMED 0.9

enum verdict { VERDICT_NAMED, VERDICT_CANNOT_TELL, VERDICT_NONE };

enum why {
	WHY_FIRST,	  /* named: it began before the others */
	WHY_ALONE,	  /* named: nobody else rose then */
	WHY_TOO_CLOSE,	  /* cannot tell: onsets overlap */
	WHY_CLOCKS,	  /* cannot tell: a clock that follows nothing */
	WHY_UNSEEN,	  /* cannot tell: a rank rose already, or was not recorded then */
	WHY_LOADED,	  /* cannot tell: one rose as much at its start */
	WHY_MISSING,	  /* cannot tell: some ranks have no record at all */
	WHY_SMALL,	  /* cannot tell: the first rise is none like those that follow */
	WHY_UNRELATED,	  /* cannot tell: the others rose at times of their own */
	WHY_OTHER_BEFORE, /* cannot tell: another was the first when they rose like that before */
	WHY_MAY_PASS,	  /* cannot tell: ranks rose like that before, and gave it back */
	WHY_USUAL,	  /* cannot tell: another rank rises like that again and again */
	WHY_THIN,	  /* cannot tell: a sample or two show it, and others stick out as far */
	WHY_WAVES,	  /* cannot tell: memory goes up and down smoothly */
	WHY_ONE_RANK,	  /* cannot tell: nobody to compare with */
	WHY_OWN_START,	  /* cannot tell: one rose first, and started as much before the others */
	WHY_IN_ORDER,	  /* cannot tell: ranks rose in the order of their starts */
	WHY_MIXED,	  /* cannot tell: a rank has records of two processes at once */
	WHY_NO_SAMPLES,	  /* cannot tell: there are none */
	WHY_FEW,	  /* cannot tell: too few samples of a rank, which may have risen */
	WHY_HIDDEN,  /* cannot tell: a rank goes up and down by so much that a rise is lost in it */
	WHY_NO_RISE, /* none */
	WHY_SHARED,  /* none: all together */
	WHY_START,   /* none: each so long after its own start */
	WHY_COLLECTIVE, /* none: all around a collective operation */
};

struct candidate {
	const struct rank *rank;
	const struct rise *rise;
	const struct rise
		*main;	    /* its first large one of the episode, often the same; NULL: none */
	double probability; /* of having been first */
	double earliest;    /* when it can have begun, in seconds after the origin */
	double latest;	    /* when it surely had, or was seen */
	bool is_shared;	    /* most ranks have such a one then */
	bool is_given_back; /* most of it, while its process went on */
	bool is_taken;	    /* a small one that is a member already: of one episode, and no more */
	size_t clock;
};

struct first_cause {
	enum verdict verdict;
	enum why why;
	int64_t origin_ns;	      /* times in rises are seconds after this */
	struct candidate *candidates; /* who rose in the episode, most likely first first */
	size_t n_candidates;
	const struct rank *rank; /* who was named */
	double lead;		 /* seconds before the next; NaN: nobody else rose */
	double lead_below;	 /* WHY_SHARED: nobody led by so much, in seconds; else NaN */
	struct phase_place phase;
	double least_mib; /* WHY_NO_RISE: nobody gained more for good; else NaN */
	/* WHY_UNSEEN, WHY_LOADED, WHY_CLOCKS, WHY_MIXED, WHY_OTHER_BEFORE, WHY_MAY_PASS, WHY_USUAL,
	 * WHY_THIN, WHY_FEW, WHY_HIDDEN: because of this one */
	const struct rank *unseen;
	bool is_unnamed_host; /* WHY_CLOCKS: nobody knows which clock that one has */
	/* Without ranks that are stray (strays.h). */
	size_t n_ranks;
	uint64_t n_missing;
	size_t n_episodes, n_shared;
	bool has_passed; /* named, and all that rose gave it back and went on */
	bool is_apart;	 /* named, and nothing but the others are close to each other */
	size_t n_risen;	 /* ranks that were compared with who seemed to be first, and that one */
	/* Clocks. */
	size_t n_clocks;
	double clock_error;  /* the largest, in seconds */
	bool has_free_clock; /* one follows nothing, or nobody knows whose it is: no error bounds it
			      */
	bool is_assumed;     /* somebody did not say */
	/* The rises of each rank, in the order of a->ranks; their items are the analysis's. */
	struct rise_list *rises;
};

/* -ENOMEM. Returns what finding_free() takes. */
int finding_make(struct rank_analysis *a, const struct rank_analysis_options *options,
		 struct first_cause **ret);
struct first_cause *finding_free(struct first_cause *f); /* NULL is fine. Returns NULL. */

const char *finding_verdict_name(enum verdict verdict);
const char *finding_why_name(enum why why);

/* One sentence, or two: what was found, and on what evidence. */
void finding_add_reason(struct buf *out, const struct rank_analysis *a,
			const struct first_cause *f);

/* What would settle it; nothing unless the verdict is "cannot tell". */
void finding_add_remedy(struct buf *out, const struct rank_analysis *a,
			const struct first_cause *f);

/* "12 ms" or "2.1 s": in a sentence one unit is enough. */
void finding_add_seconds(struct buf *out, double seconds);

/*
 * Of having been first; NaN, unknown, where that cannot be told for another reason than that the
 * onsets are too close: what was drawn is of the rises that were seen then, and of no others.
 */
double finding_probability(const struct first_cause *f, const struct candidate *c);

/* A time of a rise as a timestamp of the records. */
int64_t finding_ns(const struct first_cause *f, double seconds);

void finding_write_json(struct json *j, const struct rank_analysis *a, const struct first_cause *f);

#endif
