/*
 * seen - what records show of an attempt, or of a try, that has no totals.
 *
 * Totals are written at the end. While it runs, and for ever when its runner was
 * lost, there are only samples, processes, events, and the totals of the sheets
 * that have ended. All of them are lower bounds, or sampled: the evidence says so.
 */
#ifndef PROCTOR_REPORT_SEEN_H
#define PROCTOR_REPORT_SEEN_H

#include "model/job.h"

/* Fills what usage does not know of one try that has not ended. */
void seen_of_sheet(const struct attempt *a, const struct sheet_record *sheet, struct usage *usage);

/* Fills what usage does not know of the attempt. */
void seen_of_attempt(const struct attempt *a, struct usage *usage);

#endif
