#include "cli/ranks/ranks_page.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "report/doc/doc.h"
#include "report/report.h"

#define MAX_ROWS 256	  /* of a table of ranks */
#define MAX_OTHERS 3	  /* phases beside the likely one, in a sentence */
#define EXACT_BELOW_S 5.0 /* an onset that is known so well has milliseconds */
#define BYTES_PER_MIB 1048576.0

static const char *const format_names[] = {
	[RANKS_TEXT] = "text",
	[RANKS_MARKDOWN] = "md",
	[RANKS_HTML] = "html",
	[RANKS_JSON] = "json",
};

int ranks_format_from_name(const char *name, enum ranks_format *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(format_names); i++)
		if (strcmp(format_names[i], name) == 0) {
			*ret = (enum ranks_format)i;
			return 0;
		}
	return -EINVAL;
}

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

/* Local time with the milliseconds that matter here. */
static void add_moment(struct buf *out, int64_t ns)
{
	char text[40] = "";

	buf_printf(out, "%s.%03d", clock_format_local((uint64_t)ns, text, sizeof(text)),
		   (int)(ns / 1000000 % 1000));
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

/* "12:31:04", with milliseconds where they matter. The table of candidates has the date. */
static void add_time(struct buf *out, int64_t ns, bool is_exact)
{
	char text[40] = "";
	const char *time = strchr(clock_format_local((uint64_t)ns, text, sizeof(text)), ' ');

	buf_add_str(out, time ? time + 1 : text);
	if (is_exact)
		buf_printf(out, ".%03d", (int)(ns / 1000000 % 1000));
}

/* "alone, +2.1 MB/s since 12:31:04 (90 %: 12:31:02 to 12:31:06), phase 'x'; the other 7 are flat"
 */
static void add_named(struct buf *text, const struct rank_analysis *a)
{
	const struct first_cause *f = a->finding;
	const struct candidate *c = &f->candidates[0];
	size_t n_others = f->n_ranks - 1;
	bool is_exact = c->high - c->low < EXACT_BELOW_S;

	buf_add_str(text, f->why == WHY_FIRST ? "first, by " : "alone");
	if (f->why == WHY_FIRST)
		add_seconds(text, f->lead);
	if (f->is_since_start)
		buf_add_str(text, " since each rank's start");
	buf_add_str(text, ", ");
	finding_add_growth(text, c);
	buf_add_str(text, c->is_step ? " at " : " since ");
	add_time(text, finding_ns(f, c->onset), is_exact);
	buf_add_str(text, c->is_censored ? " (90 %: before its record" : " (90 %: ");
	if (!c->is_censored)
		add_time(text, finding_ns(f, c->low), is_exact);
	buf_add_str(text, " to ");
	add_time(text, finding_ns(f, c->high), is_exact);
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
	if (isnan(f->others_rate)) {
		buf_add_str(text, "flat. ");
		return;
	}
	buf_add_str(text, "at +");
	add_bytes(text, (int64_t)fmin(f->others_rate * BYTES_PER_MIB, 9e18));
	buf_add_str(text, "/s. ");
}

static void add_verdict(struct doc *d, const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf headline = BUF_INIT;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct first_cause *f = a->finding;

	finding_add_headline(&headline, f);
	if (f->verdict == VERDICT_NAMED) {
		add_named(&text, a);
		buf_printf(&text, "Probability %.2f.", f->candidates[0].probability);
		finding_add_caveats(&text, a, f);
	} else {
		finding_add_reason(&text, a, f);
	}
	if (f->verdict == VERDICT_CANNOT_TELL) {
		buf_add_char(&text, ' ');
		finding_add_remedy(&text, f);
	}
	d->writer->verdict(d, headline.data, text.data);
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
	d->writer->paragraph(d, text.data);
}

/* A table has so many rows at most, and says what it leaves out. */
static void add_left_out(struct doc *d, size_t n)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (n <= MAX_ROWS)
		return;
	buf_printf(&text, "%zu more %s in the JSON.", n - MAX_ROWS,
		   n - MAX_ROWS == 1 ? "rank is" : "ranks are");
	d->writer->paragraph(d, text.data);
}

static void add_candidates(struct doc *d, const struct rank_analysis *a)
{
	static const struct column columns[] = {
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
		if (isnan(c->probability))
			buf_add_char(cell, '-');
		else
			buf_printf(cell, "%.2f", c->probability);
		add_moment(table_cell(&t), finding_ns(f, c->onset));
		cell = table_cell(&t);
		buf_add_str(cell, "± ");
		add_seconds(cell, (c->high - c->low) / 2);
		add_bytes(table_cell(&t), finding_gain_bytes(c));
		buf_add_str(table_cell(&t), c->is_censored ? "rose already"
					    : c->is_step   ? "step"
							   : "ramp");
	}
	d->writer->section(d, "Who rose, and when");
	doc_add_table(d, &t);
	add_left_out(d, f->n_candidates);
	add_clocks(d, f);
}

static void add_ranks(struct doc *d, const struct rank_analysis *a)
{
	static const struct column columns[] = {
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
			ranks_add_spark(table_cell(&t), a, &a->ranks[i]);
	}
	d->writer->section(d, "Each rank");
	doc_add_table(d, &t);
	add_left_out(d, a->n_ranks);
	buf_add_str(&text, "All ranks together used at most ");
	add_bytes(&text, a->facts->instant_peak.bytes);
	buf_add_str(&text, " at one moment; their peaks add up to ");
	add_bytes(&text, a->facts->sum_of_peaks_bytes);
	buf_add_char(&text, '.');
	d->writer->paragraph(d, text.data);
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
		d->writer->item(d, text.data);
	}
	if (a->facts->slow) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;

		buf_printf(&text,
			   "SLOW rank %lld: its steps take longer than those of the others since ",
			   (long long)a->facts->slow->rank);
		add_moment(&text, a->facts->slow_since_ns);
		buf_add_str(&text, ", ");
		add_seconds(&text, a->facts->slow_lost_seconds);
		buf_add_str(&text, " in all: ranks that wait for each other wait for this one.");
		d->writer->item(d, text.data);
	}
}

static void add_notes(struct doc *d, const struct rank_analysis *a, const struct ranks_input *input)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (a->n_notes > 0) {
		d->writer->section(d, "Notes of the compatible summary");
		d->writer->paragraph(
			d, "That aligns ranks by their first samples and has thresholds of "
			   "its own: where it and the answer above differ, the answer above "
			   "is what may be believed.");
	}
	for (size_t i = 0; i < a->n_notes; i++) {
		buf_reset(&text);
		reference_note_text(&a->notes[i], &text);
		d->writer->item(d, text.data);
	}
	d->writer->section(d, "Input");
	buf_reset(&text);
	buf_printf(
		&text,
		"%llu records were read (files: %llu; of these empty: %llu; records that are invalid "
		"and left out: %llu; cut off: %llu).",
		(unsigned long long)input->n_valid, (unsigned long long)input->n_read,
		(unsigned long long)input->n_empty, (unsigned long long)input->n_invalid,
		(unsigned long long)input->n_cut);
	d->writer->item(d, text.data);
}

static void write_page(struct doc *d, const struct rank_analysis *a,
		       const struct ranks_input *input)
{
	CLEANUP(buf_release) struct buf title = BUF_INIT;

	buf_printf(&title, "proctor ranks: job %.*s, %zu of %lld ranks",
		   a->job_id.s ? (int)a->job_id.n : 1, a->job_id.s ? a->job_id.s : "-", a->n_ranks,
		   (long long)a->world_size);
	d->writer->title(d, title.data);
	add_verdict(d, a);
	add_candidates(d, a);
	if (d->writer == &html_writer && a->n_ranks > 0) {
		d->writer->section(d, "Memory over time");
		ranks_add_svg(d->out, a);
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

	json_init(&j, out);
	json_begin_object(&j);
	summary_write_all(&j, a);
	json_key(&j, "input");
	json_begin_object(&j);
	json_key_u64(&j, "files", input->n_read);
	json_key_u64(&j, "empty_files", input->n_empty);
	json_key_u64(&j, "valid", input->n_valid);
	json_key_u64(&j, "invalid", input->n_invalid);
	json_key_u64(&j, "cut_off", input->n_cut);
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
