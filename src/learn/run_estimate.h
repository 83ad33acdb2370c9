/*
 * run_estimate - what the next run will need, from what those before it did.
 *
 * Peak memory: up to 18 runs the largest seen, from 19 on the order statistic that
 * covers the next run in 95 % of cases (stats/order.h); the probability, n / (n + 1)
 * for few runs, is part of the answer, and so is what four in five stayed within. Where runs need
 * more and more each counts as what it would need now. A run that was killed for want of memory
 * would have needed more: it stands for 1.2 times what it had, and counts as none
 * that the estimate covers. After a change of level only the runs since count.
 * CPU time: the median, and the 90 % quantile in the same way; there runs that took too
 * long and were ended for that are lower bounds as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "model/run_record.h"

#define ESTIMATE_PEAK_LEVEL 0.95
#define ESTIMATE_CPU_LEVEL 0.90
#define ESTIMATE_ENOUGH 3     /* runs: with fewer a coarser class is asked, if it has them */
#define ESTIMATE_MAX_RUNS 200 /* the newest of a class: more would only be older */

/* From the newest runs of one class, oldest first. None that counts: ret is "no data". -ENOMEM. */
int estimate_from_runs(const struct run_record *runs, size_t n, struct estimate *ret);

/*
 * The ladder: the finest class that has enough runs, else the finest that has any.
 * Begins with "no data" and, as long as that is not enough, is given runs of the next
 * rung, oldest first. -ENOMEM.
 *
 *	for (rung = 0; rung < RUNG_COUNT && !estimate_is_enough(&e); rung++)
 *		r = estimate_try_rung(runs, n, rung, &e);
 */
bool estimate_is_enough(const struct estimate *e);
int estimate_try_rung(const struct run_record *runs, size_t n, enum run_rung rung,
		      struct estimate *e);

/* Whether the run, which has ended, stayed within it. */
struct estimate_score estimate_judge(const struct estimate *e, const struct run_record *run);

/*
 * Several runs one after the other, as the sheets of a job are: the largest peak,
 * the sum of CPU times. No data if one of them has none.
 */
void estimate_add_step(struct estimate *all, const struct estimate *step);

/*
 * The fields of an answer, without braces: estimated_peak_memory_mb,
 * estimated_cpu_seconds, confidence, and what stands behind them. calibration may be
 * NULL.
 */
void estimate_write_fields(struct json *j, const struct estimate *e,
			   const struct calibration *calibration);
