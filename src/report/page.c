#include "report/page.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "report/chart.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/spacing.h"
#include "report/verdict.h"

struct buf *page_number_cell(struct table *t, bool is_known, enum evidence evidence)
{
	struct buf *cell = table_cell(t);

	if (is_known && evidence != EVIDENCE_EXACT) {
		buf_add_str(cell, format_mark(evidence));
		t->has_marks = true;
	}
	return cell;
}

void page_add_table(struct doc *d, const struct table *t)
{
	d->writer->table(d, t);
	if (t->has_marks && !d->has_legend) {
		d->writer->paragraph(d, FORMAT_MARKS);
		d->has_legend = true;
	}
}

void page_leave_out_rank(struct table *t, const struct facts *f)
{
	if (attempt_has_ranks(f->a))
		return;
	t->columns++;
	t->n_columns--;
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
	d->writer->verdict(d, word, sentence.data);
	if (!is_said) {
		buf_reset(&sentence);
		buf_printf(&sentence, "Evidence: %s.", evidence.data);
		d->writer->paragraph(d, sentence.data);
	}
}

static void add_when(struct buf *out, const struct attempt *a)
{
	format_time(out, a->started_wall_ns);
	if (u64_known(a->ended_wall_ns)) {
		buf_add_str(out, " to ");
		format_time(out, a->ended_wall_ns);
	}
	buf_add_str(out, " (local time)");
}

static void add_where(struct buf *out, const struct attempt *a)
{
	format_string(out, a->host);
	buf_add_str(out, ", uid ");
	format_count(out, a->uid);
	if (a->workdir && a->workdir[0])
		buf_printf(out, ", in %s", a->workdir);
}

static void add_identity(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = { { "job", COLUMN_LEFT }, { "", COLUMN_WRAP } };
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	t.hides_titles = true;
	buf_add_str(table_cell(&t), "command");
	format_string(table_cell(&t), f->a->command);
	buf_add_str(table_cell(&t), "when");
	add_when(table_cell(&t), f->a);
	buf_add_str(table_cell(&t), "where");
	add_where(table_cell(&t), f->a);
	d->writer->table(d, &t);
}

static void add_chart(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	struct spacing spacing = spacing_of_samples(f->a);

	chart_add(&lines, f->a);
	if (lines.len == 0)
		return;
	buf_add_str(&heading, "Memory and CPU of the tree over time (");
	format_plural(&heading, f->a->n_series, "sample", "s");
	if (u64_known(spacing.min_ns))
		buf_add_str(&heading, ", ");
	spacing_add(&heading, &spacing);
	buf_add_str(&heading, "; 100 % is one core)");
	d->writer->section(d, heading.data);
	d->writer->figure(d, lines.data);
}

static bool same_reason(const struct unknown_note *l, const struct unknown_note *r)
{
	return strcmp(l->why ? l->why : "", r->why ? r->why : "") == 0;
}

/* Everything that is unknown for the same reason, in one line; told at the first of them. */
static void add_note(struct doc *d, const struct facts *f, size_t first)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const char *last = NULL;

	for (size_t i = 0; i < first; i++)
		if (same_reason(&f->notes[i], &f->notes[first]))
			return;
	for (size_t i = first; i < f->n_notes; i++) {
		const char *what = f->notes[i].what ? notes_in_words(f->notes[i].what) : "-";

		if (!same_reason(&f->notes[i], &f->notes[first]) ||
		    (last && strcmp(what, last) == 0))
			continue;
		buf_printf(&line, "%s%s", last ? ", " : "", what);
		last = what;
	}
	buf_add_str(&line, ": ");
	format_string(&line, f->notes[first].why);
	d->writer->item(d, line.data);
}

/* A job that has no ranks lacks nothing. */
static bool is_worth_telling(const struct facts *f, const struct unknown_note *note)
{
	return attempt_has_ranks(f->a) || !note->what || strcmp(note->what, "telemetry") != 0;
}

static void add_notes(struct doc *d, const struct facts *f)
{
	bool has_begun = false;

	for (size_t i = 0; i < f->n_notes; i++) {
		if (!is_worth_telling(f, &f->notes[i]))
			continue;
		if (!has_begun)
			d->writer->section(d, "What could not be measured, and why");
		has_begun = true;
		add_note(d, f, i);
	}
}

static void add_rungs(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
		{ "measurement", COLUMN_LEFT },
		{ "by", COLUMN_LEFT },
		{ "why no better", COLUMN_WRAP },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	if (f->a->n_rungs == 0)
		return;
	for (size_t i = 0; i < f->a->n_rungs; i++) {
		const struct rung rung = facts_rung(f, i);

		format_string(table_cell(&t), rung.measurement);
		format_string(table_cell(&t), rung.rung);
		buf_add_str(table_cell(&t),
			    rung.reason && rung.reason[0] ? rung.reason : "the best there is");
	}
	d->writer->section(d, "How it was measured");
	d->writer->table(d, &t);
}

int page_write(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf title = BUF_INIT;

	buf_add_str(&title, "proctor report: job ");
	format_string(&title, f->a->job_id);
	buf_printf(&title, ", attempt %d", f->a->attempt_num);
	d->writer->title(d, title.data);
	add_verdict(d, f);
	add_identity(d, f);
	page_add_numbers(d, f);
	page_add_standing(d, f);
	page_add_anomalies(d, f);
	page_add_ranks(d, f);
	page_add_sheets(d, f);
	page_add_phases(d, f);
	page_add_processes(d, f);
	page_add_syscalls(d, f);
	add_chart(d, f);
	page_add_life(d, f);
	add_notes(d, f);
	add_rungs(d, f);
	if (d->writer->end)
		d->writer->end(d);
	return buf_error(d->out);
}
