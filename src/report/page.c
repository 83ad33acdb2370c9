#include "report/page.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "model/job.h"
#include "model/run_record.h"
#include "model/time_ledger.h"
#include "report/figures.h"
#include "report/format.h"
#include "report/report.h"
#include "report/facts.h"

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

/*
 * Memory is what it was at the sample, until the next one shows another value. CPU percent is about
 * the time since the sample before.
 */
void chart_resample(const struct attempt *a, const struct chart_span *span, enum chart_value value,
		    double ret[CHART_COLUMNS])
{
	const uint64_t reach = (uint64_t)(REACH_INTERVALS * span->interval_seconds * 1e9);
	const struct series_point *points = a->details.series;
	const size_t n = a->details.n_series;

	for (size_t i = 0; i < CHART_COLUMNS; i++)
		ret[i] = NAN;
	for (size_t i = 0; i < n; i++) {
		uint64_t at = points[i].wall_ns, end = at + reach;
		uint64_t begin = at > reach ? at - reach : 0;
		uint64_t before = i > 0 ? points[i - 1].wall_ns : span->from_ns;
		uint64_t next = i + 1 < n ? points[i + 1].wall_ns : span->to_ns;

		if (value == CHART_CPU)
			raise_span(span, before > begin ? before : begin, at, points[i].cpu_percent,
				   ret);
		else if (u64_known(points[i].rss_bytes))
			raise_span(span, at, next < end ? next : end, (double)points[i].rss_bytes,
				   ret);
	}
}

/* From start to end, or to the last that is known; at least wide enough to divide by. */
static struct chart_span span_of(const struct attempt *a)
{
	const struct series_point *first = &a->details.series[0],
				  *last = &a->details.series[a->details.n_series - 1];
	struct chart_span span = { .from_ns = first->wall_ns,
				   .to_ns = u64_max_known(figures_last_seen(a), last->wall_ns),
				   .interval_seconds = a->interval_seconds };

	if (a->started_wall_ns < span.from_ns)
		span.from_ns = a->started_wall_ns;
	if (span.to_ns <= span.from_ns)
		span.to_ns = span.from_ns + 1;
	if (!(span.interval_seconds > 0))
		span.interval_seconds =
			(double)(last->wall_ns - first->wall_ns) / 1e9 /
			(double)(a->details.n_series > 1 ? a->details.n_series - 1 : 1);
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

	if (a->details.n_series == 0)
		return;
	span = span_of(a);
	chart_resample(a, &span, CHART_MEMORY, columns);
	if (isfinite(highest(columns))) {
		report_add_bytes(&top, (uint64_t)highest(columns));
		add_plot(out, "memory", top.data, columns);
	}
	chart_resample(a, &span, CHART_CPU, columns);
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

static enum doc_mood mood_of(const struct attempt *a)
{
	switch (a->outcome) {
	case OUTCOME_SUCCESS:
		return DOC_GOOD;
	case OUTCOME_FAILURE:
	case OUTCOME_OOM:
		return DOC_BAD;
	case OUTCOME_NONE:
		return a->is_lost ? DOC_WARNING : DOC_PLAIN;
	default: /* cancelled, or its time was up */
		return DOC_WARNING;
	}
}

static void add_verdict(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf sentence = BUF_INIT;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	char word[16] = "";
	bool is_said;

	for (size_t i = 0; verdict_word(f)[i] && i + 1 < sizeof(word); i++)
		word[i] = (char)toupper((unsigned char)verdict_word(f)[i]);
	verdict_add_sentence(&sentence, f);
	verdict_add_evidence(&evidence, f);
	is_said = strstr(sentence.data, evidence.data) != NULL;
	buf_add_char(&sentence, '.');
	d->writer->verdict(d, mood_of(f->a), word, sentence.data);
	if (!is_said) {
		buf_reset(&sentence);
		buf_printf(&sentence, "Evidence: %s.", evidence.data);
		d->writer->text(d, DOC_PARAGRAPH, sentence.data);
	}
}

/* Where the time went. */
static void add_time(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct time_ledger time;

	if (!time_ledger_read(f->a->usage.time, &time))
		return;
	buf_add_str(&text, "Where the time went: ");
	time_ledger_add_summary(&text, &time);
	buf_add_char(&text, '.');
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}

static void add_identity(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = { { "job", COLUMN_LEFT },
						       { "", COLUMN_WRAP } };
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	struct buf *out;

	t.hides_titles = true;
	buf_add_str(table_cell(&t), "command");
	format_string(table_cell(&t), f->a->command);
	buf_add_str(table_cell(&t), "when");
	out = table_cell(&t);
	format_time(out, f->a->started_wall_ns);
	if (u64_known(f->a->ended_wall_ns)) {
		buf_add_str(out, " to ");
		format_time(out, f->a->ended_wall_ns);
	}
	buf_add_str(out, " (local time)");
	buf_add_str(table_cell(&t), "where");
	out = table_cell(&t);
	format_string(out, f->a->host);
	buf_add_str(out, ", uid ");
	format_count(out, f->a->uid);
	if (f->a->workdir && f->a->workdir[0])
		buf_printf(out, ", in %s", f->a->workdir);
	d->writer->table(d, &t);
}

static void add_chart(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	struct sample_gaps gaps = sample_gaps_of(f->a, false);

	chart_add(&lines, f->a);
	if (lines.len == 0)
		return;
	buf_add_str(&heading, "Memory and CPU of the tree over time (");
	format_plural(&heading, f->a->details.n_series, "sample", "s");
	if (u64_known(gaps.min_ns))
		buf_add_str(&heading, ", ");
	sample_gaps_add(&heading, &gaps);
	buf_add_str(&heading, "; 100 % is one core)");
	d->writer->text(d, DOC_SECTION, heading.data);
	d->writer->figure(d, lines.data);
}

static bool same_reason(const struct unknown_note *l, const struct unknown_note *r)
{
	return strcmp(l->why ? l->why : "", r->why ? r->why : "") == 0;
}

/* Everything that is unknown for the same reason, in one line, at the first of them. */
static void add_note(struct doc *d, const struct facts *f, size_t first)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const char *last = NULL;

	for (size_t i = 0; i < first; i++)
		if (same_reason(&f->notes[i], &f->notes[first]))
			return;
	for (size_t i = first; i < f->n_notes; i++) {
		const char *what = f->notes[i].what ? facts_note_label(f->notes[i].what) : "-";

		if (!same_reason(&f->notes[i], &f->notes[first]) ||
		    (last && strcmp(what, last) == 0))
			continue;
		buf_printf(&line, "%s%s", last ? ", " : "", what);
		last = what;
	}
	buf_add_str(&line, ": ");
	format_string(&line, f->notes[first].why);
	d->writer->text(d, DOC_ITEM, line.data);
}

static void add_rungs(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = {
		{ "measurement", COLUMN_LEFT },
		{ "by", COLUMN_LEFT },
		{ "why no better", COLUMN_WRAP },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	if (f->a->details.n_rungs == 0)
		return;
	for (size_t i = 0; i < f->a->details.n_rungs; i++) {
		const struct rung rung = facts_rung(f, i);

		format_string(table_cell(&t), rung.measurement);
		format_string(table_cell(&t), rung.rung);
		buf_add_str(table_cell(&t),
			    rung.reason && rung.reason[0] ? rung.reason : "the best there is");
	}
	d->writer->text(d, DOC_SECTION, "How it was measured");
	d->writer->table(d, &t);
}

/* ---- numbers ---- */

static void add_spawns(struct buf *out, const struct figures *f)
{
	format_count(out, f->usage.spawn_count);
	if (u64_known(f->usage.peak_processes))
		buf_printf(out, " born, %llu at once", (unsigned long long)f->usage.peak_processes);
}

static void add_calls(struct buf *out, const struct figures *f)
{
	report_add_bytes(out, f->usage.rchar);
	buf_add_str(out, " in ");
	format_plural(out, f->usage.syscr, "read", "s");
	buf_add_str(out, ", ");
	report_add_bytes(out, f->usage.wchar);
	buf_add_str(out, " in ");
	format_plural(out, f->usage.syscw, "write", "s");
}

/*
 * One line each. of and beside: the row is "-" when both are unknown, and of names its source.
 * It shows one number or two, each with the words behind it, or what add appends.
 */
struct line {
	const char *label;
	enum figure of, beside;
	const char *words, *words_beside; /* NULL: the number is not shown */
	void (*add)(struct buf *out, const struct figures *f);
};

#define ONE(label_, of_, words_)                                       \
	{                                                              \
		label_, FIGURE_##of_, FIGURE_##of_, words_, NULL, NULL \
	}
#define TWO(label_, of_, words_, beside_, words_beside_)                            \
	{                                                                           \
		label_, FIGURE_##of_, FIGURE_##beside_, words_, words_beside_, NULL \
	}

static void add_cpu_limit(struct buf *out, const struct figures *f)
{
	buf_printf(out, "%g cores, held back for ", f->contained.limits.cpus);
	figure_add_value(out, f, FIGURE_THROTTLED);
}

static const struct line lines[] = {
	ONE("wall time", WALL, ""),
	TWO("CPU time", USER, " user, ", SYSTEM, " system"),
	ONE("CPU use, average", AVERAGE_CPU, " of one core"),
	ONE("CPU use, highest", MAX_CPU, " of one core"),
	ONE("peak memory, tree", PEAK_MEMORY, ""),
	ONE("peak memory, process", MAX_PROCESS_RSS, ""),
	TWO("memory, cgroup", CGROUP_MEMORY, " at the peak; page cache at the end ", CGROUP_CACHE,
	    ""),
	TWO("memory limit", MEMORY_LIMIT, ", times reached: ", MEMORY_HITS, ""),
	TWO("process limit", TASKS_LIMIT, ", starts refused: ", TASK_HITS, ""),
	{ "CPU limit", FIGURE_CPUS_LIMIT, FIGURE_THROTTLED, NULL, NULL, add_cpu_limit },
	{ "processes", FIGURE_SPAWNS, FIGURE_MAX_PROCESSES, NULL, NULL, add_spawns },
	TWO("storage I/O", READ, " read, ", WRITE, " written"),
	{ "I/O calls", FIGURE_RCHAR, FIGURE_WCHAR, NULL, NULL, add_calls },
	TWO("page faults", MAJOR_FAULTS, " major, ", MINOR_FAULTS, " minor"),
	TWO("context switches", VOLUNTARY, " voluntary, ", INVOLUNTARY, " involuntary"),
	ONE("peak GPU memory", GPU_MEMORY, ""),
	TWO("GPU time", GPU_BUSY, " busy, ", GPU_IDLE, " held, but idle"),
};

static void add_numbers(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = {
		{ "what", COLUMN_LEFT },
		{ "value", COLUMN_LEFT },
		{ "source", COLUMN_WRAP },
	};
	const struct figures *figures = &f->figures;
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	t.hides_titles = true;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		bool has_first = figure_is_known(figures, lines[i].of);
		bool is_known = has_first || figure_is_known(figures, lines[i].beside);
		struct buf *cell;

		if (lines[i].of == FIGURE_GPU_MEMORY || lines[i].of == FIGURE_GPU_BUSY
			    ? !figures_used_gpu(figures)
			    : figure_is_optional(lines[i].of) && !has_first)
			continue; /* a job without GPU or limit is not bothered with them */
		buf_add_str(table_cell(&t), lines[i].label);
		cell = table_cell(&t);
		if (!is_known)
			buf_add_char(cell, '-');
		else if (lines[i].add)
			lines[i].add(cell, figures);
		if (is_known && lines[i].words) {
			figure_add_value(cell, figures, lines[i].of);
			buf_add_str(cell, lines[i].words);
		}
		if (is_known && lines[i].words_beside) {
			figure_add_value(cell, figures, lines[i].beside);
			buf_add_str(cell, lines[i].words_beside);
		}
		figure_add_source(table_cell(&t), figures,
				  has_first ? lines[i].of : lines[i].beside, f->a);
	}
	d->writer->text(d, DOC_SECTION, "Numbers");
	d->writer->table(d, &t);
}

/* ---- runs like this ---- */

#define NS_PER_SECOND 1e9
#define BYTES_PER_MB 1048576.0

/* A number as the page writes numbers of its kind; far too large ones are unknown. */
static void add_number(struct buf *out, double value, double unit,
		       void (*add)(struct buf *out, uint64_t v))
{
	bool is_sane = value >= 0 && value * unit < 9e18;

	add(out, is_sane ? (uint64_t)(value * unit + 0.5) : U64_UNKNOWN);
}

static void add_seconds(struct buf *out, double value)
{
	add_number(out, value, NS_PER_SECOND, report_add_duration);
}

static void add_mb(struct buf *out, double value)
{
	add_number(out, value, BYTES_PER_MB, report_add_bytes);
}

static const struct {
	const char *label;
	void (*add)(struct buf *out, double value);
} rows[STANDING_COUNT] = {
	[STANDING_WALL] = { "wall time", add_seconds },
	[STANDING_CPU] = { "CPU time", add_seconds },
	[STANDING_PEAK] = { "peak memory, tree", add_mb },
};

/* Of few others nothing is unusual yet; that it is the most so far can be stated. */
static void add_judgement(struct buf *out, const struct standing_value *v)
{
	const char *than = v->side > 0 ? "more" : "less";

	if (!f64_known(v->value) || v->n < SIMILAR_MIN_RUNS)
		buf_add_char(out, '-');
	else if (v->side == 0)
		buf_add_str(out, "as usual");
	else if (v->is_unusual)
		buf_printf(out, "%s than usual: %s than %zu of %zu", than, than,
			   v->side > 0 ? v->n_below : v->n_above, v->n);
	else
		buf_printf(out, "%s than any of %zu", than, v->n);
}

static void add_usual(struct buf *out, const struct standing_value *v,
		      void (*add)(struct buf *out, double value))
{
	add(out, v->median);
	if (v->n < 2)
		return;
	buf_add_str(out, " (");
	add(out, v->low);
	buf_add_str(out, " to ");
	add(out, v->high);
	buf_add_char(out, ')');
}

static void add_expected(struct doc *d, const struct standing *s)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct estimate *e = &s->expected;

	if (e->n_runs == 0) {
		d->writer->text(d, DOC_PARAGRAPH,
				"Nothing like it had ended when it began, so nothing was "
				"expected of it.");
		return;
	}
	buf_add_str(&text, "Expected when it began, from ");
	format_plural(&text, e->n_runs, "run", "s");
	buf_printf(&text, " by %s: peak memory of at most ", s->expected_basis);
	add_mb(&text, e->peak_rss_mb);
	buf_printf(&text, " (probability %.0f %%)", e->peak_coverage * 100);
	if (f64_known(e->cpu_seconds)) {
		buf_add_str(&text, "; CPU time of ");
		add_seconds(&text, e->cpu_seconds);
		buf_add_str(&text, " in the middle and at most ");
		add_seconds(&text, e->cpu_high_seconds);
		buf_printf(&text, " (probability %.0f %%)", e->cpu_coverage * 100);
	}
	buf_add_char(&text, '.');
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}

void page_add_beyond_usual(struct buf *out, const struct attempt *a)
{
	const struct standing *s = a->details.standing;

	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		if (!standing_is_more(s, q))
			continue;
		buf_printf(out, "%s%s ", out->len > 0 ? "; " : "", rows[q].label);
		rows[q].add(out, s->values[q].value);
		buf_add_str(out, ", of runs like it ");
		add_usual(out, &s->values[q], rows[q].add);
	}
}

/* Behind the verdict. */
static void add_beyond_usual(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf values = BUF_INIT;

	page_add_beyond_usual(&values, f->a);
	if (values.len == 0)
		return;
	buf_printf(&text, "More than usual: %s.", values.data);
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}

static void add_standing(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = {
		{ "what", COLUMN_LEFT },
		{ "this run", COLUMN_RIGHT },
		{ "usual", COLUMN_LEFT },
		{ "so it is", COLUMN_WRAP },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct standing *s = f->a->details.standing;

	if (!s)
		return;
	buf_add_str(&text, "Runs like this (");
	format_plural(&text, s->n_others, "other", "s");
	buf_printf(&text, " by %s, ", s->basis);
	format_count(&text, s->n_failed);
	buf_printf(&text, " failed; usual: of %s)",
		   s->is_by_success ? "those that succeeded" : "all of them");
	d->writer->text(d, DOC_SECTION, text.data);
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		buf_add_str(table_cell(&t), rows[q].label);
		rows[q].add(table_cell(&t), s->values[q].value);
		add_usual(table_cell(&t), &s->values[q], rows[q].add);
		add_judgement(table_cell(&t), &s->values[q]);
	}
	d->writer->table(d, &t);
	add_expected(d, s);
}

/* ---- ranks ---- */

static void add_ranks(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct rank_finding *t = f->a->details.telemetry;

	if (!t)
		return;
	buf_printf(&text, "Ranks (%llu of %lld, ", (unsigned long long)t->n_ranks,
		   (long long)t->world_size);
	format_plural(&text, t->n_samples, "sample", "s");
	buf_printf(&text, " of %s)", t->measure[0] == 'g' ? "GPU memory" : "resident memory");
	d->writer->text(d, DOC_SECTION, text.data);
	buf_reset(&text);
	if (t->rank >= 0) {
		buf_printf(&text, "Rank %lld %s", (long long)t->rank,
			   t->kind && t->kind[0] == 'a' ? "grows alone" : "was first");
		if (u64_known(t->onset_wall_ns)) {
			buf_add_str(&text, ": its memory began to rise ");
			report_add_duration(&text,
					    u64_delta(t->onset_wall_ns, f->a->started_wall_ns));
			buf_add_str(&text, " after the start");
		}
		if (t->phase)
			buf_printf(&text, ", %sin the phase %s",
				   t->is_phase_ambiguous ? "most likely " : "", t->phase);
		buf_printf(&text, " (probability %.2f). ", t->probability);
	} else if (t->verdict && t->verdict[0] == 'c') {
		buf_add_str(&text, "Inconclusive: ");
	}
	buf_add_str(&text, t->reason);
	if (t->remedy[0])
		buf_printf(&text, " %s", t->remedy);
	d->writer->text(d, DOC_PARAGRAPH, text.data);
	if (t->cpu[0])
		d->writer->text(d, DOC_PARAGRAPH, t->cpu);
	if (t->gpu[0])
		d->writer->text(d, DOC_PARAGRAPH, t->gpu);
}

/* ---- system calls ---- */

#define MAX_CALLS 10

/* On a CPU and waiting; what is unknown counts as nothing. */
static uint64_t call_time_ns(const struct syscall_use *use)
{
	return u64_add_known(u64_known(use->cpu_ns) ? use->cpu_ns : 0, use->wait_ns);
}

/* The longest first, whether they computed or waited: a lock costs no CPU time. */
static int compare_calls(const void *left, const void *right)
{
	const struct syscall_use *l = *(const struct syscall_use *const *)left;
	const struct syscall_use *r = *(const struct syscall_use *const *)right;
	uint64_t l_ns = call_time_ns(l), r_ns = call_time_ns(r);

	return l_ns != r_ns ? COMPARE(r_ns, l_ns) : COMPARE(l, r); /* else as they stand */
}

static void add_syscalls(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = {
		{ "call", COLUMN_LEFT }, { "calls", COLUMN_RIGHT }, { "errors", COLUMN_RIGHT },
		{ "CPU", COLUMN_RIGHT }, { "share", COLUMN_RIGHT }, { "waiting", COLUMN_RIGHT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	const struct attempt *a = f->a;
	CLEANUP(free_ptr)
	const struct syscall_use **calls = calloc(a->details.n_syscalls + 1, sizeof(*calls));
	uint64_t total_ns = 0;

	if (a->details.n_syscalls == 0 || !calls)
		return;
	for (size_t i = 0; i < a->details.n_syscalls; i++) {
		calls[i] = &a->details.syscalls[i];
		total_ns = u64_add_known(total_ns, calls[i]->cpu_ns);
	}
	qsort(calls, a->details.n_syscalls, sizeof(*calls), compare_calls);
	for (size_t i = 0; i < a->details.n_syscalls && i < MAX_CALLS; i++) {
		const struct syscall_use *use = calls[i];
		struct buf *share;

		format_string(table_cell(&t), use->name);
		format_count(table_cell(&t), use->count);
		format_count(table_cell(&t), use->errors);
		report_add_duration(table_cell(&t), use->cpu_ns);
		share = table_cell(&t);
		if (u64_known(use->cpu_ns) && total_ns > 0)
			buf_printf(share, "%.1f %%",
				   100.0 * (double)use->cpu_ns / (double)total_ns);
		else
			buf_add_char(share, '-');
		report_add_duration(table_cell(&t), use->wait_ns);
	}
	buf_printf(&heading, "System calls (%s",
		   facts_syscall_evidence(f) == EVIDENCE_EXACT
			   ? "all of all processes"
			   : "at least: what is missing is said below");
	if (a->details.n_syscalls > MAX_CALLS)
		buf_printf(&heading, "; the longest %d of %zu", MAX_CALLS, a->details.n_syscalls);
	buf_add_char(&heading, ')');
	d->writer->text(d, DOC_SECTION, heading.data);
	d->writer->table(d, &t);
}

/* ---- the whole page ---- */

int page_write(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf title = BUF_INIT;
	bool has_begun = false;

	buf_add_str(&title, "proctor report: job ");
	format_string(&title, f->a->job_id);
	buf_printf(&title, ", attempt %d", f->a->attempt_num);
	d->writer->text(d, DOC_TITLE, title.data);
	add_verdict(d, f);
	add_time(d, f);
	add_beyond_usual(d, f);
	add_identity(d, f);
	add_numbers(d, f);
	add_standing(d, f);
	page_add_anomalies(d, f);
	add_ranks(d, f);
	page_add_sheets(d, f);
	page_add_phases(d, f);
	page_add_processes(d, f);
	add_syscalls(d, f);
	add_chart(d, f);
	page_add_exits(d, f);
	for (size_t i = 0; i < f->n_notes; i++) {
		if (!attempt_has_ranks(f->a) && f->notes[i].what &&
		    strcmp(f->notes[i].what, "telemetry") == 0)
			continue; /* a job without ranks lacks nothing */
		if (!has_begun)
			d->writer->text(d, DOC_SECTION, "What could not be measured, and why");
		has_begun = true;
		add_note(d, f, i);
	}
	add_rungs(d, f);
	if (d->writer->end)
		d->writer->end(d);
	return buf_error(d->out);
}
