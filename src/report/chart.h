/*
 * chart - memory and CPU over time, drawn with block characters.
 *
 * Each of CHART_COLUMNS columns shows the highest value of its stretch of time.
 * A column is empty where nothing is known: zero draws a line, unknown does not.
 */
#ifndef PROCTOR_REPORT_CHART_H
#define PROCTOR_REPORT_CHART_H

#include <stddef.h>

#include "base/buf.h"
#include "model/job.h"

#define CHART_COLUMNS 64
#define CHART_ROWS 3

/* A stretch of time in equal columns. */
struct chart_span {
	uint64_t from_ns, to_ns;
	double interval_seconds; /* between two samples */
};

/* The highest value of each column, NaN where unknown. */
void chart_resample_memory(const struct attempt *a, const struct chart_span *span,
			   double ret[CHART_COLUMNS]);
void chart_resample_cpu(const struct attempt *a, const struct chart_span *span,
			double ret[CHART_COLUMNS]);

/* Appends memory, CPU, sheets and the time axis as lines; nothing when there are no samples. */
void chart_add(struct buf *out, const struct attempt *a);

#endif
