/*
 * stamps - timestamps that were cut off or rounded, and how much less they say.
 *
 * Where all timestamps of a rank are whole multiples of a unit (a minute, a second, a tenth of
 * one), its samples were taken up to one such unit later than they say, or half of one earlier:
 * nobody knows which. So was its onset. But it is the one or the other for all ranks of a job
 * alike, so that between ranks of one unit nothing but the unit itself is open.
 *
 * Inside of finding.c.
 */
#ifndef PROCTOR_CROSSRANK_STAMPS_H
#define PROCTOR_CROSSRANK_STAMPS_H

#include "crossrank/judge.h"

struct stamps {
	double *units; /* by number of the rank, in seconds; 0: none is large enough */
	bool is_one;   /* all ranks have the same */
};

/* Released with stamps_release(), also when it fails. -ENOMEM. */
int stamps_find(const struct rank_analysis *a, struct stamps *ret);
void stamps_release(struct stamps *s);

/* Widens the onsets of ranks with coarse timestamps as far as it matters who was first. */
void stamps_blur(struct judge_work *w, const struct stamps *s);

/* Once that is answered: widens them by what is open for all ranks alike. */
void stamps_blur_all(struct judge_work *w, const struct stamps *s);

#endif
