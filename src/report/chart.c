#include "report/chart.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "report/figures.h"
#include "report/format.h"
#include "report/report.h"

#define LABEL_COLUMNS 8
#define LEVELS 8 /* of a block character */

/* A sample speaks for the time to its neighbour, unless that is further away than this many
 * intervals: then samples were missed. */
#define REACH_INTERVALS 2.5

static size_t column_of(const struct chart_span *span, uint64_t ns)
{
	double share = (double)(ns - span->from_ns) / (double)(span->to_ns - span->from_ns);

	return share >= 1 ? CHART_COLUMNS - 1 : (size_t)(share * CHART_COLUMNS);
}

static bool is_inside(const struct chart_span *span, uint64_t ns)
{
	return ns >= span->from_ns && ns <= span->to_ns;
}

/* The sample holds from from_ns to to_ns; the column that holds only to_ns is another's. */
static void raise_span(const struct chart_span *span, uint64_t from_ns, uint64_t to_ns,
		       double value, double columns[])
{
	size_t first, last;

	if (!isfinite(value) || !is_inside(span, from_ns))
		return;
	first = column_of(span, from_ns);
	last = column_of(span, to_ns < span->to_ns ? to_ns : span->to_ns);
	if (last > first && to_ns < span->to_ns)
		last--;
	for (size_t i = first; i <= last; i++)
		if (isnan(columns[i]) || columns[i] < value)
			columns[i] = value;
}

static void clear_columns(double columns[])
{
	for (size_t i = 0; i < CHART_COLUMNS; i++)
		columns[i] = NAN;
}

static uint64_t reach_ns(const struct chart_span *span)
{
	return (uint64_t)(REACH_INTERVALS * span->interval_seconds * 1e9);
}

/* Memory is what it was at the sample, until the next one says otherwise. */
void chart_resample_memory(const struct attempt *a, const struct chart_span *span,
			   double ret[CHART_COLUMNS])
{
	clear_columns(ret);
	for (size_t i = 0; i < a->n_series; i++) {
		const struct series_point *p = &a->series[i];
		uint64_t next = i + 1 < a->n_series ? a->series[i + 1].wall_ns : span->to_ns;
		uint64_t end = p->wall_ns + reach_ns(span);

		raise_span(span, p->wall_ns, next < end ? next : end,
			   u64_known(p->rss_bytes) ? (double)p->rss_bytes : NAN, ret);
	}
}

/* CPU percent is about the time since the sample before. */
void chart_resample_cpu(const struct attempt *a, const struct chart_span *span,
			double ret[CHART_COLUMNS])
{
	clear_columns(ret);
	for (size_t i = 0; i < a->n_series; i++) {
		const struct series_point *p = &a->series[i];
		uint64_t before = i > 0 ? a->series[i - 1].wall_ns : span->from_ns;
		uint64_t reach = reach_ns(span);
		uint64_t begin = p->wall_ns > reach ? p->wall_ns - reach : 0;

		raise_span(span, before > begin ? before : begin, p->wall_ns, p->cpu_percent, ret);
	}
}

/* From start to end, or to the last that is known; at least wide enough to divide by. */
static struct chart_span span_of(const struct attempt *a)
{
	const struct series_point *first = &a->series[0], *last = &a->series[a->n_series - 1];
	struct chart_span span = { .from_ns = first->wall_ns,
				   .to_ns = u64_max_known(figures_last_seen(a), last->wall_ns),
				   .interval_seconds = a->interval_seconds };

	if (a->started_wall_ns < span.from_ns)
		span.from_ns = a->started_wall_ns;
	if (span.to_ns <= span.from_ns)
		span.to_ns = span.from_ns + 1;
	if (!(span.interval_seconds > 0))
		span.interval_seconds = (double)(last->wall_ns - first->wall_ns) / 1e9 /
					(double)(a->n_series > 1 ? a->n_series - 1 : 1);
	return span;
}

static double highest(const double columns[])
{
	double max = NAN;

	for (size_t i = 0; i < CHART_COLUMNS; i++)
		if (isfinite(columns[i]) && !(columns[i] <= max))
			max = columns[i];
	return max;
}

/* The part of a column that falls into a row (0 is the lowest). What is known draws something. */
static const char *block(double value, double max, int row)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	double share = max > 0 && value > 0 ? value / max : 0;
	int level = (int)ceil(share * CHART_ROWS * LEVELS);

	if (!isfinite(value))
		return blocks[0];
	level = (level < 1 ? 1 : level) - row * LEVELS;
	return blocks[level < 0 ? 0 : level > LEVELS ? LEVELS : level];
}

static void add_label(struct buf *out, const char *label, const char *axis)
{
	buf_printf(out, "%*s %s", LABEL_COLUMNS, label, axis);
}

static void end_line(struct buf *out)
{
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_add_char(out, '\n');
}

/* The highest value stands at the top row, the name in the middle, zero at the bottom. */
static void add_plot(struct buf *out, const char *name, const char *top, const double columns[])
{
	double max = highest(columns);

	for (int row = CHART_ROWS - 1; row >= 0; row--) {
		const char *label = row == CHART_ROWS - 1 ? top : row > 0 ? name : "0";

		add_label(out, label, row == CHART_ROWS - 1 || row == 0 ? "┤" : "│");
		for (size_t i = 0; i < CHART_COLUMNS; i++)
			buf_add_str(out, block(columns[i], max, row));
		end_line(out);
	}
}

#define NO_SHEET INT_MIN

/* "│5" in as many columns as the sheet has; one of the two where there is no room for both. */
static void add_sheet(struct buf *out, int num, size_t room)
{
	char label[16] = "";
	size_t n = 0;

	if (num != NO_SHEET)
		n = (size_t)snprintf(label, sizeof(label), "%d", num);
	if (n < room)
		buf_printf(out, "%s%-*s", n ? "│" : " ", (int)room - 1, label);
	else if (n == room)
		buf_add_str(out, label);
	else
		buf_printf(out, "%s%*s", "│", (int)room - 1, "");
}

static void add_sheets(struct buf *out, const struct attempt *a, const struct chart_span *span)
{
	int starts[CHART_COLUMNS];

	for (size_t i = 0; i < CHART_COLUMNS; i++)
		starts[i] = NO_SHEET;
	for (size_t i = 0; i < a->n_sheets; i++)
		if (is_inside(span, a->sheets[i].started_wall_ns))
			starts[column_of(span, a->sheets[i].started_wall_ns)] = a->sheets[i].num;
	add_label(out, "sheet", " ");
	for (size_t i = 0, end; i < CHART_COLUMNS; i = end) {
		for (end = i + 1; end < CHART_COLUMNS && starts[end] == NO_SHEET;)
			end++;
		add_sheet(out, starts[i], end - i);
	}
	end_line(out);
}

void chart_add(struct buf *out, const struct attempt *a)
{
	CLEANUP(buf_release) struct buf top = BUF_INIT, middle = BUF_INIT, end = BUF_INIT;
	double columns[CHART_COLUMNS];
	struct chart_span span;
	uint64_t width;

	if (a->n_series == 0)
		return;
	span = span_of(a);
	chart_resample_memory(a, &span, columns);
	if (isfinite(highest(columns))) {
		report_add_bytes(&top, (uint64_t)highest(columns));
		add_plot(out, "memory", top.data, columns);
	}
	chart_resample_cpu(a, &span, columns);
	if (isfinite(highest(columns))) {
		buf_reset(&top);
		format_percent(&top, highest(columns));
		add_plot(out, "CPU", top.data, columns);
	}
	if (a->n_sheets > 1)
		add_sheets(out, a, &span);
	/* Beginning, middle and end, in time since the attempt's start. */
	width = span.to_ns - span.from_ns;
	report_add_duration(&middle, width / 2);
	report_add_duration(&end, width);
	add_label(out, "time", " ");
	buf_printf(out, "%-*s%-*s%*s\n", CHART_COLUMNS / 2, "0 s", CHART_COLUMNS / 4, middle.data,
		   CHART_COLUMNS / 4, end.data);
}
