/*
 * devices - what a rank uses on all its devices together.
 *
 * Samplers write one record per device at each tick. The reference takes them for one series, and
 * so does compat; a rank's memory is their sum.
 */
#ifndef PROCTOR_CROSSRANK_DEVICES_H
#define PROCTOR_CROSSRANK_DEVICES_H

#include "crossrank/analysis.h"

/* Sets total of each of a->ranks: its own stream itself where there is one device. -ENOMEM. */
int devices_add_up(struct rank_analysis *a);

#endif
