/*
 * page - what the report says, in which order; a writer of doc.h says how it looks.
 *
 * A section that has nothing to say is left out.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "report/doc/doc.h"
#include "report/facts.h"

/* The whole page. -ENOMEM. */
int page_write(struct doc *d, const struct facts *f);

/* "wall time 2 s, of runs like it 1 s (900 ms to 1.1 s)": of which it had more than usual. */
void page_add_beyond_usual(struct buf *out, const struct attempt *a);

/* For qsort() of pointers to episodes: the worst first, then the earliest. */
int page_compare_anomalies(const void *left, const void *right);

/* Sections in a file of their own: page_parts.c. */
void page_add_anomalies(struct doc *d, const struct facts *f);
void page_add_sheets(struct doc *d, const struct facts *f);
void page_add_phases(struct doc *d, const struct facts *f);
void page_add_processes(struct doc *d, const struct facts *f);
void page_add_exits(struct doc *d, const struct facts *f);

/*
 * ---- memory and CPU over time, drawn with block characters ----
 *
 * Each of CHART_COLUMNS columns shows the highest value of its stretch of time.
 * A column is empty where nothing is known: zero draws a line, unknown does not.
 */

#define CHART_COLUMNS 64
#define CHART_ROWS 3

/* A stretch of time in equal columns. */
struct chart_span {
	uint64_t from_ns, to_ns;
	double interval_seconds; /* between two samples */
};

/* The highest value of each column, NaN where unknown. */
enum chart_value { CHART_MEMORY, CHART_CPU };
void chart_resample(const struct attempt *a, const struct chart_span *span, enum chart_value value,
		    double ret[CHART_COLUMNS]);

/* Appends memory, CPU, sheets and the time axis as lines; nothing when there are no samples. */
void chart_add(struct buf *out, const struct attempt *a);
