/*
 * stamps - timestamps that were cut off or rounded, and how much less they say.
 *
 * Where all timestamps of a rank are whole seconds, or tenths, hundredths or thousandths of one,
 * its samples were taken up to one such unit later than they say, or half of one earlier: nobody
 * knows which. So was its onset.
 *
 * Inside of finding.c.
 */
#ifndef PROCTOR_CROSSRANK_STAMPS_H
#define PROCTOR_CROSSRANK_STAMPS_H

#include "crossrank/judge.h"

/* Widens the onsets of ranks with coarse timestamps. */
void stamps_blur(struct judge_work *w);

#endif
