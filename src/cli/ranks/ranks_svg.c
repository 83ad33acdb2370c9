#include "cli/ranks/ranks_page.h"

#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "report/doc/doc.h"
#include "report/report.h"

#define WIDTH 960
#define LEFT 70
#define RIGHT 10
#define ROW 34
#define PHASE_ROW 16
#define MAX_ROWS 64
#define MAX_SPANS 400
#define MAX_DEPTH 6
#define COLUMNS 440

/* The time that the drawing spans, and the most memory in it. */
struct frame {
	const struct rank_analysis *a;
	int64_t from_ns, to_ns;
	double peak;
};

static struct frame frame_of(const struct rank_analysis *a)
{
	struct frame f = { a, INT64_MAX, 0, 1 };

	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct rank_facts *rank = &a->facts->ranks[i];

		f.from_ns = rank->first_ns < f.from_ns ? rank->first_ns : f.from_ns;
		f.to_ns = rank->last_ns > f.to_ns ? rank->last_ns : f.to_ns;
		f.peak = fmax(f.peak, (double)rank->peak_bytes);
	}
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
	const char *colour = finding->rank == rank ? "#c22" : "#999";
	double low, high, at;

	if (!c)
		return;
	low = x_of(f, finding_ns(finding, c->low));
	high = x_of(f, finding_ns(finding, c->high));
	at = x_of(f, finding_ns(finding, c->onset));
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

static void add_label(struct buf *out, const char *text, size_t n)
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
	add_label(out, b->label.s, b->label.n);
	buf_add_str(out, "</title></rect>\n");
	if (to - from > 60) {
		/* About as many characters as there is room for. */
		size_t room = (size_t)((to - from) / 7);

		/* Dark on any of the colours, whatever the page's are. */
		buf_printf(out, "<text style=\"fill:#222\" x=\"%.1f\" y=\"%.1f\">", from + 3,
			   top + depth * PHASE_ROW + PHASE_ROW - 5);
		add_label(out, b->label.s, utf8_cut(b->label.s, b->label.n, room));
		buf_add_str(out, "</text>\n");
	}
}

/* Those of the rank that was named, else of the first that has some. */
static const struct rank *phase_rank(const struct rank_analysis *a, const struct span **ret,
				     size_t *ret_n)
{
	for (size_t i = 0; i <= a->n_ranks; i++) {
		const struct rank *rank = i == 0 ? a->finding->rank : &a->ranks[i - 1];
		const struct sample *last;

		if (!rank)
			continue;
		last = &rank->stream->samples[rank->stream->n - 1];
		*ret = phases_of(&a->phases, a->telemetry->identities[last->identity].session_id,
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

static void add_phases(struct buf *out, const struct frame *f, double top, const struct rank *rank,
		       const struct span *spans, size_t n)
{
	buf_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">phases of %lld</text>\n",
		   LEFT - 8, top + PHASE_ROW - 5, (long long)rank->rank);
	for (size_t i = 0; i < n; i++)
		add_span(out, f, &spans[i], top);
}

/* Which ranks are drawn where not all are: who rose before the rest. Returns how many. */
static size_t choose_rows(const struct rank_analysis *a, const struct rank **rows)
{
	size_t n = 0;

	for (size_t i = 0; a->n_ranks > MAX_ROWS && i < a->finding->n_candidates; i++)
		if (n < MAX_ROWS)
			rows[n++] = a->finding->candidates[i].rank;
	for (size_t i = 0; i < a->n_ranks && n < MAX_ROWS; i++)
		if (a->n_ranks <= MAX_ROWS || !candidate_of(a->finding, &a->ranks[i]))
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
	while (at < n && spans[at].opened->timestamp_ns <= finding_ns(f, f->candidates[0].onset))
		at++;
	at = at > MAX_SPANS / 2 ? at - MAX_SPANS / 2 : 0;
	return at < n - MAX_SPANS ? at : n - MAX_SPANS;
}

static void tell_left_out(struct buf *out, size_t n_ranks, size_t n_spans)
{
	if (n_ranks > 0)
		buf_printf(out,
			   "<p>%zu more ranks are not drawn; those that rose come first.</p>\n",
			   n_ranks);
	if (n_spans > 0)
		buf_printf(out, "<p>%zu more phases are not drawn.</p>\n", n_spans);
}

void ranks_add_svg(struct buf *out, const struct rank_analysis *a)
{
	const struct rank *rows[MAX_ROWS];
	struct frame f = frame_of(a);
	size_t n_rows = choose_rows(a, rows), n_spans = 0, n_left = 0;
	const struct span *spans = NULL;
	const struct rank *with_phases = phase_rank(a, &spans, &n_spans);
	double height;

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
		add_phases(out, &f, (double)n_rows * ROW + 10, with_phases, spans, n_spans);
	add_scale(out, &f, height - 6);
	buf_add_str(out, "</svg>\n");
	tell_left_out(out, a->n_ranks - n_rows, n_left);
}

/* ---- in text ---- */

void ranks_add_spark(struct buf *out, const struct rank_analysis *a, const struct rank *rank)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	double columns[RANKS_SPARK_COLUMNS];
	struct frame f = frame_of(a);

	resample(&f, rank->total, columns, RANKS_SPARK_COLUMNS);
	for (size_t i = 0; i < RANKS_SPARK_COLUMNS; i++) {
		int level = isnan(columns[i]) ? 0 : (int)(columns[i] / f.peak * 7.999);

		buf_add_str(out, isnan(columns[i]) ? " " : blocks[level]);
	}
}
