#include "cli/ranks/ranks.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "report/doc/doc.h"
#include "report/report.h"

/* ---- drawings ---- */

#define WIDTH 960
#define LEFT 70
#define RIGHT 10
#define ROW 34
#define PHASE_ROW 16
#define MAX_DRAWN 64
#define MAX_SPANS 400
#define MAX_DEPTH 6
#define COLUMNS 440
#define SPARK_COLUMNS 24

/* The time that the drawing spans, and the most memory in it. */
struct frame {
	const struct rank_analysis *a;
	int64_t from_ns, to_ns;
	double peak;
};

static struct frame frame_of(const struct rank_analysis *a)
{
	struct frame f = { a, a->facts->first_ns, a->facts->last_ns, 1 };

	for (size_t i = 0; i < a->n_ranks; i++)
		f.peak = fmax(f.peak, (double)a->facts->ranks[i].peak_bytes);
	if (f.to_ns <= f.from_ns)
		f.to_ns = f.from_ns < INT64_MAX ? f.from_ns + 1 : f.from_ns;
	return f;
}

static double share_of(const struct frame *f, int64_t ns)
{
	double share = ((double)ns - (double)f->from_ns) / ((double)f->to_ns - (double)f->from_ns);

	return fmin(fmax(share, 0), 1);
}

static double x_of(const struct frame *f, int64_t ns)
{
	return LEFT + share_of(f, ns) * (WIDTH - LEFT - RIGHT);
}

/* The most of each column; NaN: there was no sample. */
static void resample(const struct frame *f, const struct stream *s, double *columns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		columns[i] = NAN;
	for (size_t i = 0; i < s->n; i++) {
		size_t c = (size_t)(share_of(f, s->samples[i].timestamp_ns) * (double)n);

		c = c < n ? c : n - 1;
		columns[c] = fmax(columns[c], (double)s->samples[i].used_bytes);
	}
}

/* ---- memory ---- */

static void add_line(struct buf *out, const struct frame *f, const struct rank *rank, double top)
{
	double columns[COLUMNS];

	resample(f, rank->total, columns, COLUMNS);
	buf_add_str(out, "<polyline fill=\"none\" stroke=\"#36c\" stroke-width=\"1.3\" points=\"");
	for (size_t i = 0; i < COLUMNS; i++) {
		double x = LEFT + ((double)i + 0.5) / COLUMNS * (WIDTH - LEFT - RIGHT);

		if (!isnan(columns[i]))
			buf_printf(out, "%.1f,%.1f ", x,
				   top + (ROW - 6) * (1 - columns[i] / f->peak) + 3);
	}
	buf_add_str(out, "\"/>\n");
}

static const struct candidate *candidate_of(const struct first_cause *finding,
					    const struct rank *rank)
{
	for (size_t i = 0; i < finding->n_candidates; i++)
		if (finding->candidates[i].rank == rank)
			return &finding->candidates[i];
	return NULL;
}

/* The interval of the onset as a band, and its middle as a line. */
static void add_onset(struct buf *out, const struct frame *f, const struct rank *rank, double top)
{
	const struct first_cause *finding = f->a->finding;
	const struct candidate *c = candidate_of(finding, rank);
	const char *colour = finding_culprit(finding) == rank ? "#c22" : "#999";
	double low, high, at;

	if (!c)
		return;
	low = x_of(f, finding_ns(finding, c->rise.low));
	high = x_of(f, finding_ns(finding, c->rise.high));
	at = x_of(f, finding_ns(finding, c->rise.best));
	buf_printf(
		out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
		"fill-opacity=\".25\"/><line class=\"onset\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
		"y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n",
		low, top + 2, fmax(high - low, 1), ROW - 4, colour, at, at, top + 2, top + ROW - 2,
		colour);
}

static void add_row(struct buf *out, const struct frame *f, const struct rank *rank, double top)
{
	buf_printf(out,
		   "<g><title>rank %lld</title><text x=\"%d\" y=\"%.1f\" "
		   "text-anchor=\"end\">rank %lld</text><line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
		   "y2=\"%.1f\" stroke=\"#8884\"/>\n",
		   (long long)rank->rank, LEFT - 8, top + ROW / 2.0 + 4, (long long)rank->rank,
		   LEFT, WIDTH - RIGHT, top + ROW - 2, top + ROW - 2);
	add_line(out, f, rank, top);
	add_onset(out, f, rank, top);
	buf_add_str(out, "</g>\n");
}

/* ---- phases ---- */

static void draw_label(struct buf *out, const char *text, size_t n)
{
	CLEANUP(buf_release) struct buf label = BUF_INIT;

	buf_add(&label, text, n);
	doc_add_html(out, label.data ? label.data : "");
}

static void add_span(struct buf *out, const struct frame *f, const struct span *span, double top)
{
	static const char *const colours[MAX_DEPTH] = { "#9bd", "#9d9", "#ec9",
							"#d9c", "#cc9", "#bbb" };
	const struct boundary *b = span->opened;
	int depth = b->depth - 1 < MAX_DEPTH ? b->depth - 1 : MAX_DEPTH - 1;
	double from = x_of(f, b->timestamp_ns), to = x_of(f, span->end_ns);

	buf_printf(out,
		   "<rect class=\"phase\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
		   "fill=\"%s\"><title>",
		   from, top + depth * PHASE_ROW, fmax(to - from, 0.5), PHASE_ROW - 2,
		   colours[depth]);
	draw_label(out, b->label.s, b->label.n);
	buf_add_str(out, "</title></rect>\n");
	if (to - from > 60) {
		/* About as many characters as there is room for. */
		size_t room = (size_t)((to - from) / 7);

		/* Dark on any of the colours, whatever the page's are. */
		buf_printf(out, "<text style=\"fill:#222\" x=\"%.1f\" y=\"%.1f\">", from + 3,
			   top + depth * PHASE_ROW + PHASE_ROW - 5);
		draw_label(out, b->label.s, utf8_cut(b->label.s, b->label.n, room));
		buf_add_str(out, "</text>\n");
	}
}

/* Those of the rank that was named, else of the first that has some. */
static const struct rank *phase_rank(const struct rank_analysis *a, const struct span **ret,
				     size_t *ret_n)
{
	for (size_t i = 0; i <= a->n_ranks; i++) {
		const struct rank *rank = i == 0 ? finding_culprit(a->finding) : &a->ranks[i - 1];
		const struct sample *last;

		if (!rank)
			continue;
		last = &rank->stream->samples[rank->stream->n - 1];
		*ret = phases_of(&a->phases, identity_of(a->telemetry, last)->session_id,
				 rank->rank, ret_n);
		if (*ret_n > 0)
			return rank;
	}
	*ret_n = 0;
	return NULL;
}

static int depth_of(const struct span *spans, size_t n)
{
	int deepest = 0;

	for (size_t i = 0; i < n; i++)
		deepest = spans[i].opened->depth > deepest ? spans[i].opened->depth : deepest;
	return deepest < MAX_DEPTH ? deepest : MAX_DEPTH;
}

/* From when to when, and how high a row is. */
static void add_scale(struct buf *out, const struct frame *f, double y)
{
	buf_printf(out,
		   "<text x=\"%d\" y=\"%.1f\">0 s</text><text x=\"%d\" y=\"%.1f\" "
		   "text-anchor=\"middle\">each row from 0 to ",
		   LEFT, y, (LEFT + WIDTH - RIGHT) / 2, y);
	report_add_bytes(out, (uint64_t)f->peak);
	buf_printf(out, "</text><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g s</text>\n",
		   WIDTH - RIGHT, y, ((double)f->to_ns - (double)f->from_ns) / 1e9);
}

/* Which ranks are drawn where not all are: who rose before the rest. Returns how many. */
static size_t choose_rows(const struct rank_analysis *a, const struct rank **rows)
{
	size_t n = 0;

	for (size_t i = 0; a->n_ranks > MAX_DRAWN && i < a->finding->n_candidates; i++)
		if (n < MAX_DRAWN)
			rows[n++] = a->finding->candidates[i].rank;
	for (size_t i = 0; i < a->n_ranks && n < MAX_DRAWN; i++)
		if (a->n_ranks <= MAX_DRAWN || !candidate_of(a->finding, &a->ranks[i]))
			rows[n++] = &a->ranks[i];
	return n;
}

/* The first span that is drawn: where not all are, the onset is in their middle. */
static size_t first_span(const struct rank_analysis *a, const struct span *spans, size_t n)
{
	const struct first_cause *f = a->finding;
	size_t at = 0;

	if (n <= MAX_SPANS || f->n_candidates == 0)
		return 0;
	while (at < n &&
	       spans[at].opened->timestamp_ns <= finding_ns(f, f->candidates[0].rise.best))
		at++;
	at = at > MAX_SPANS / 2 ? at - MAX_SPANS / 2 : 0;
	return at < n - MAX_SPANS ? at : n - MAX_SPANS;
}

/* One <svg> element that needs nothing else: memory over time, the onset, phases below. */
static void add_svg(struct buf *out, const struct rank_analysis *a)
{
	const struct rank *rows[MAX_DRAWN];
	struct frame f = frame_of(a);
	size_t n_rows = choose_rows(a, rows), n_spans = 0, n_left = 0;
	const struct span *spans = NULL;
	const struct rank *with_phases = phase_rank(a, &spans, &n_spans);
	double height, phases_top = (double)n_rows * ROW + 10;

	spans += first_span(a, spans, n_spans);
	n_left = n_spans > MAX_SPANS ? n_spans - MAX_SPANS : 0;
	n_spans -= n_left;
	height = (double)n_rows * ROW + 24 +
		 (with_phases ? depth_of(spans, n_spans) * PHASE_ROW + 10 : 0);

	buf_printf(out,
		   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
		   "height=\"%.0f\" role=\"img\" aria-label=\"memory of each rank over time\" "
		   "style=\"max-width:100%%;height:auto\" font-size=\"11\" fill=\"#888\">\n",
		   WIDTH, height, WIDTH, height);
	for (size_t i = 0; i < n_rows; i++)
		add_row(out, &f, rows[i], (double)i * ROW);
	if (with_phases)
		buf_printf(out,
			   "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">phases of %lld</text>\n",
			   LEFT - 8, phases_top + PHASE_ROW - 5, (long long)with_phases->rank);
	for (size_t i = 0; with_phases && i < n_spans; i++)
		add_span(out, &f, &spans[i], phases_top);
	add_scale(out, &f, height - 6);
	buf_add_str(out, "</svg>\n");
	if (a->n_ranks > n_rows)
		buf_printf(out,
			   "<p>%zu more ranks are not drawn; those that rose come first.</p>\n",
			   a->n_ranks - n_rows);
	if (n_left > 0)
		buf_printf(out, "<p>%zu more phases are not drawn.</p>\n", n_left);
}

/* ---- in text ---- */

/* A rank's memory in block characters, the whole record of all ranks wide. */
static void add_spark(struct buf *out, const struct rank_analysis *a, const struct rank *rank)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	double columns[SPARK_COLUMNS];
	struct frame f = frame_of(a);

	resample(&f, rank->total, columns, SPARK_COLUMNS);
	for (size_t i = 0; i < SPARK_COLUMNS; i++) {
		int level = isnan(columns[i]) ? 0 : (int)(columns[i] / f.peak * 7.999);

		buf_add_str(out, isnan(columns[i]) ? " " : blocks[level]);
	}
}

/* ---- the page ---- */

#define MAX_ROWS 256	  /* of a table of ranks */
#define MAX_OTHERS 3	  /* phases beside the likely one, in a sentence */
#define EXACT_BELOW_S 5.0 /* an onset that is known so well has milliseconds */
#define BYTES_PER_MIB 1048576.0

/* ---- words ---- */

static void add_bytes(struct buf *out, int64_t bytes)
{
	if (bytes < 0)
		buf_add_char(out, '-');
	report_add_bytes(out, bytes < 0 ? (uint64_t)-bytes : (uint64_t)bytes);
}

static void add_seconds(struct buf *out, double seconds)
{
	if (isnan(seconds))
		buf_add_char(out, '-');
	else
		report_add_duration(out, (uint64_t)llround(fabs(seconds) * 1e9));
}

/* "12:31:04" in local time, with the date before it, and with milliseconds where they matter. */
static void add_moment(struct buf *out, int64_t ns, bool has_date, bool is_exact)
{
	char text[40] = "";
	const char *time = strchr(clock_format_local((uint64_t)ns, text, sizeof(text)), ' ');

	buf_add_str(out, time && !has_date ? time + 1 : text);
	if (is_exact)
		buf_printf(out, ".%03d", (int)(ns / 1000000 % 1000));
}

/* A phase begins or ends while the rise may have begun: the likely one first, and the others. */
static void add_crossed(struct buf *out, const struct phase_place *place)
{
	buf_printf(out, "'%.*s'", (int)place->likely.n, place->likely.s);
	for (size_t i = 0, n = 0; i < place->n_paths && n < MAX_OTHERS; i++) {
		struct text path = place->paths[i];

		if (path.n == place->likely.n && memcmp(path.s, place->likely.s, path.n) == 0)
			continue;
		n++;
		buf_printf(out, ", or '%.*s'", (int)path.n, path.s);
	}
	if (place->n_paths > MAX_OTHERS + 1)
		buf_add_str(out, ", or another");
	if (place->may_be_none)
		buf_add_str(out, ", or in none");
	buf_add_str(out, ": a boundary lies between these times");
}

/* ---- sections ---- */

/* "alone, +2.1 MB/s since 12:31:04 (90 %: 12:31:02 to 12:31:06), phase 'x'; the other 7 are flat"
 */
static void add_named(struct buf *text, const struct rank_analysis *a)
{
	const struct first_cause *f = a->finding;
	const struct candidate *c = &f->candidates[0];
	size_t n_others = f->n_ranks - 1;
	bool is_exact = c->rise.high - c->rise.low < EXACT_BELOW_S;

	buf_add_str(text, f->why == WHY_FIRST ? "first, by " : "alone");
	if (f->why == WHY_FIRST)
		add_seconds(text, f->answer.lead);
	if (f->answer.is_since_start)
		buf_add_str(text, " since each rank's start");
	buf_add_str(text, ", ");
	finding_add_growth(text, &c->rise);
	buf_add_str(text, c->rise.is_step ? " at " : " since ");
	add_moment(text, finding_ns(f, c->rise.best), false, is_exact);
	buf_add_str(text, c->rise.is_censored ? " (90 %: before its record" : " (90 %: ");
	if (!c->rise.is_censored)
		add_moment(text, finding_ns(f, c->rise.low), false, is_exact);
	buf_add_str(text, " to ");
	add_moment(text, finding_ns(f, c->rise.high), false, is_exact);
	buf_add_char(text, ')');
	if (f->phase.n_paths > 0)
		buf_add_str(text, ", phase ");
	if (f->phase.is_crossed)
		add_crossed(text, &f->phase);
	else if (f->phase.likely.s) /* several threads may be in phases of their own */
		buf_printf(text, "'%.*s' or another", (int)f->phase.likely.n, f->phase.likely.s);
	else if (f->phase.n_paths > 0)
		buf_printf(text, "'%.*s'", (int)f->phase.paths[0].n, f->phase.paths[0].s);
	if (f->why == WHY_FIRST) {
		buf_printf(text, "; %zu of the other %zu follow. ", f->n_candidates - 1, n_others);
		return;
	}
	buf_printf(text, "; the other %zu %s ", n_others, n_others == 1 ? "is" : "are");
	if (isnan(f->answer.others_rate)) {
		buf_add_str(text, "flat. ");
		return;
	}
	buf_add_str(text, "at +");
	add_bytes(text, (int64_t)fmin(f->answer.others_rate * BYTES_PER_MIB, 9e18));
	buf_add_str(text, "/s. ");
}

static void add_verdict(struct doc *d, const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf headline = BUF_INIT;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct first_cause *f = a->finding;

	finding_add_headline(&headline, f);
	if (finding_culprit(f)) {
		add_named(&text, a);
		buf_printf(&text, "Probability %.2f.", f->candidates[0].rise.probability);
		finding_add_caveats(&text, a, f);
	} else {
		finding_add_reason(&text, a, f);
	}
	if (verdict_of(f->why) == VERDICT_CANNOT_TELL) {
		buf_add_char(&text, ' ');
		finding_add_remedy(&text, f);
	}
	d->writer->verdict(d, DOC_PLAIN, headline.data, text.data);
}

static void add_clocks(struct doc *d, const struct first_cause *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (f->n_clocks <= 1)
		return;
	buf_printf(&text, "The ranks have %zu clocks. ", f->n_clocks);
	if (f->has_free_clock) {
		buf_add_str(&text, "How far they are apart is not known, as one of them at least "
				   "follows nothing or is nobody's: times of ranks on different "
				   "clocks are not to be compared.");
	} else {
		buf_add_str(&text, "Each is at most ");
		add_seconds(&text, f->clock_error);
		buf_printf(&text, " off%s.",
			   f->is_assumed ? "; where a host does not say, that is an assumption "
					   "(--clock-error)"
					 : "");
	}
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}

/* A table has so many rows at most, and says what it leaves out. */
static void add_left_out(struct doc *d, size_t n)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (n <= MAX_ROWS)
		return;
	buf_printf(&text, "%zu more %s in the JSON.", n - MAX_ROWS,
		   n - MAX_ROWS == 1 ? "rank is" : "ranks are");
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}

static void add_candidates(struct doc *d, const struct rank_analysis *a)
{
	static const struct table_column columns[] = {
		{ "rank", COLUMN_RIGHT }, { "probability", COLUMN_RIGHT },
		{ "onset", COLUMN_LEFT }, { "between", COLUMN_LEFT },
		{ "rise", COLUMN_RIGHT }, { "shape", COLUMN_LEFT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	const struct first_cause *f = a->finding;

	if (f->n_candidates == 0)
		return;
	for (size_t i = 0; i < f->n_candidates && i < MAX_ROWS; i++) {
		const struct candidate *c = &f->candidates[i];
		struct buf *cell;

		buf_printf(table_cell(&t), "%lld", (long long)c->rank->rank);
		cell = table_cell(&t);
		if (isnan(c->rise.probability))
			buf_add_char(cell, '-');
		else
			buf_printf(cell, "%.2f", c->rise.probability);
		add_moment(table_cell(&t), finding_ns(f, c->rise.best), true, true);
		cell = table_cell(&t);
		buf_add_str(cell, "± ");
		add_seconds(cell, (c->rise.high - c->rise.low) / 2);
		add_bytes(table_cell(&t), finding_bytes(c->rise.total));
		buf_add_str(table_cell(&t), c->rise.is_censored ? "rose already"
					    : c->rise.is_step	? "step"
								: "ramp");
	}
	d->writer->text(d, DOC_SECTION, "Who rose, and when");
	doc_add_table(d, &t);
	add_left_out(d, f->n_candidates);
	add_clocks(d, f);
}

static void add_ranks(struct doc *d, const struct rank_analysis *a)
{
	static const struct table_column columns[] = {
		{ "rank", COLUMN_RIGHT },
		{ "samples", COLUMN_RIGHT },
		{ "first", COLUMN_RIGHT },
		{ "last", COLUMN_RIGHT },
		{ "peak", COLUMN_RIGHT },
		{ "step", COLUMN_RIGHT },
		{ "hidden gap", COLUMN_RIGHT },
		{ "gap may be", COLUMN_LEFT },
		{ "memory over time", COLUMN_LEFT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	bool is_html = d->writer == &html_writer;

	if (a->n_ranks == 0)
		return;
	t.n_columns -= is_html; /* which has a drawing */
	for (size_t i = 0; i < a->n_ranks && i < MAX_ROWS; i++) {
		const struct rank_facts *f = &a->facts->ranks[i];
		const struct stream *s = a->ranks[i].stream;

		buf_printf(table_cell(&t), "%lld", (long long)a->ranks[i].rank);
		buf_printf(table_cell(&t), "%zu", s->n);
		add_bytes(table_cell(&t), f->first_bytes);
		add_bytes(table_cell(&t), f->last_bytes);
		add_bytes(table_cell(&t), f->peak_bytes);
		add_seconds(table_cell(&t), f->step_seconds);
		add_bytes(table_cell(&t), f->gap_max_bytes);
		facts_add_gap_kinds(table_cell(&t), f);
		if (!is_html)
			add_spark(table_cell(&t), a, &a->ranks[i]);
	}
	d->writer->text(d, DOC_SECTION, "Each rank");
	doc_add_table(d, &t);
	add_left_out(d, a->n_ranks);
	buf_add_str(&text, "All ranks together used at most ");
	add_bytes(&text, a->facts->peak_bytes);
	buf_add_str(&text, " at one moment; their peaks add up to ");
	add_bytes(&text, a->facts->sum_of_peaks_bytes);
	buf_add_char(&text, '.');
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}

static void add_stragglers(struct doc *d, const struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		const struct rank_facts *f = &a->facts->ranks[i];

		if (!f->may_straggle)
			continue;
		buf_printf(&text, "Rank %lld %s slow: a step takes it ",
			   (long long)a->ranks[i].rank, f->is_straggler ? "is" : "may be");
		add_seconds(&text, f->step_seconds);
		buf_add_str(&text, ", the ranks ");
		add_seconds(&text, a->facts->step_seconds);
		buf_printf(&text,
			   " (medians). It was the slowest in %llu of %llu steps, which some rank "
			   "is by chance with probability %.2g.",
			   (unsigned long long)f->n_longest, (unsigned long long)f->n_compared,
			   f->straggler_p);
		d->writer->text(d, DOC_ITEM, text.data);
	}
	for (size_t i = 0; i < N_USES; i++) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;

		facts_add_use(&text, a->facts, (enum use_kind)i);
		if (text.len > 0)
			d->writer->text(d, DOC_ITEM, text.data);
	}
	if (a->facts->slow.rank) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;

		buf_printf(&text,
			   "SLOW rank %lld: its steps take longer than those of the others since ",
			   (long long)a->facts->slow.rank->rank);
		add_moment(&text, a->facts->slow.since_ns, true, true);
		buf_add_str(&text, ", ");
		add_seconds(&text, a->facts->slow.seconds);
		buf_add_str(&text, " in all: ranks that wait for each other wait for this one.");
		d->writer->text(d, DOC_ITEM, text.data);
	}
}

static void add_notes(struct doc *d, const struct rank_analysis *a, const struct ranks_input *input)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (a->n_notes > 0) {
		d->writer->text(d, DOC_SECTION, "Notes of the compatible summary");
		d->writer->text(d, DOC_PARAGRAPH,
				"It aligns ranks by their first samples and has thresholds "
				"of its own. Where it and the answer above differ, believe "
				"the answer above.");
	}
	for (size_t i = 0; i < a->n_notes; i++) {
		buf_reset(&text);
		reference_note_text(a, &a->notes[i], &text);
		d->writer->text(d, DOC_ITEM, text.data);
	}
	d->writer->text(d, DOC_SECTION, "Input");
	buf_reset(&text);
	buf_printf(
		&text,
		"%llu records were read (files: %llu; of these empty: %llu; records that are invalid "
		"and left out: %llu; cut off: %llu).",
		(unsigned long long)input->in.n_valid, (unsigned long long)input->in.n_files,
		(unsigned long long)input->in.n_empty, (unsigned long long)input->in.n_invalid,
		(unsigned long long)input->in.n_cut);
	d->writer->text(d, DOC_ITEM, text.data);
}

static void write_page(struct doc *d, const struct rank_analysis *a,
		       const struct ranks_input *input)
{
	CLEANUP(buf_release) struct buf title = BUF_INIT;

	buf_printf(&title, "proctor ranks: job %.*s, %zu of %lld ranks",
		   a->job_id.s ? (int)a->job_id.n : 1, a->job_id.s ? a->job_id.s : "-", a->n_ranks,
		   (long long)a->world_size);
	d->writer->text(d, DOC_TITLE, title.data);
	add_verdict(d, a);
	add_candidates(d, a);
	if (d->writer == &html_writer && a->n_ranks > 0) {
		d->writer->text(d, DOC_SECTION, "Memory over time");
		add_svg(d->out, a);
	}
	add_ranks(d, a);
	add_stragglers(d, a);
	add_notes(d, a, input);
	if (d->writer->end)
		d->writer->end(d);
}

static void write_json(struct buf *out, const struct rank_analysis *a,
		       const struct ranks_input *input)
{
	struct json j;

	json_init_object(&j, out);
	summary_write_all(&j, a);
	json_key_object(&j, "input");
	json_key_u64(&j, "files", input->in.n_files);
	json_key_u64(&j, "empty_files", input->in.n_empty);
	json_key_u64(&j, "valid", input->in.n_valid);
	json_key_u64(&j, "invalid", input->in.n_invalid);
	json_key_u64(&j, "cut_off", input->in.n_cut);
	json_end_object(&j);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

int ranks_write(struct buf *out, const struct rank_analysis *a, const struct ranks_input *input,
		enum ranks_format format)
{
	static const struct doc_writer *const writers[] = {
		[RANKS_TEXT] = &text_writer,
		[RANKS_MARKDOWN] = &markdown_writer,
		[RANKS_HTML] = &html_writer,
	};

	if (format == RANKS_JSON)
		write_json(out, a, input);
	else
		write_page(&(struct doc){ .writer = writers[format], .out = out }, a, input);
	return buf_error(out);
}
