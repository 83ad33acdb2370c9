#include "report/page.h"

#include "base/unknown.h"
#include "model/run_record.h"
#include "report/format.h"
#include "report/report.h"

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

#define MIN_ANY 3 /* of fewer it is half of the time the most */

/* Of few others nothing is unusual yet; that it is the most so far can be said. */
static void add_judgement(struct buf *out, const struct standing_value *v)
{
	bool is_more = v->n_below > v->n_above;

	if (!f64_known(v->value) || v->n == 0)
		buf_add_char(out, '-');
	else if (v->is_unusual)
		buf_printf(out, "unusual: %s than %zu of %zu", is_more ? "more" : "less",
			   is_more ? v->n_below : v->n_above, v->n);
	else if (v->n >= MIN_ANY && (v->n_below == v->n || v->n_above == v->n))
		buf_printf(out, "%s than any of %zu", is_more ? "more" : "less", v->n);
	else if (v->n < MIN_ANY)
		buf_add_char(out, '-');
	else
		buf_add_str(out, "as usual");
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

static void add_heading(struct doc *d, const struct standing *s)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	buf_add_str(&text, "Runs like this (");
	format_plural(&text, s->n_others, "other", "s");
	buf_printf(&text, " by %s, ", s->basis);
	format_count(&text, s->n_failed);
	buf_printf(&text, " failed; usual: of %s)",
		   s->is_by_success ? "those that succeeded" : "all of them");
	d->writer->section(d, text.data);
}

static void add_values(struct doc *d, const struct standing *s)
{
	static const struct column columns[] = {
		{ "what", COLUMN_LEFT },
		{ "this run", COLUMN_RIGHT },
		{ "usual", COLUMN_LEFT },
		{ "so it is", COLUMN_WRAP },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		buf_add_str(table_cell(&t), rows[q].label);
		rows[q].add(table_cell(&t), s->values[q].value);
		add_usual(table_cell(&t), &s->values[q], rows[q].add);
		add_judgement(table_cell(&t), &s->values[q]);
	}
	d->writer->table(d, &t);
}

/* ", which it stayed within": of one that is over, if that can be told. */
static void add_score(struct buf *out, int is_covered)
{
	if (is_covered >= 0)
		buf_printf(out, ", which it %s", is_covered ? "stayed within" : "passed");
}

static void add_expected(struct doc *d, const struct standing *s)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct estimate *e = &s->expected;

	if (e->n_runs == 0) {
		d->writer->paragraph(d, "Nothing like it had ended when it began, so nothing was "
					"expected of it.");
		return;
	}
	buf_add_str(&text, "Expected when it began, from ");
	format_plural(&text, e->n_runs, "run", "s");
	buf_printf(&text, " by %s: peak memory of at most ", s->expected_basis);
	add_mb(&text, e->peak_rss_mb);
	buf_printf(&text, " (probability %.0f %%)", e->peak_coverage * 100);
	add_score(&text, s->score.is_peak_covered);
	if (f64_known(e->cpu_seconds)) {
		buf_add_str(&text, "; CPU time of ");
		add_seconds(&text, e->cpu_seconds);
		buf_add_str(&text, " in the middle and at most ");
		add_seconds(&text, e->cpu_high_seconds);
		buf_printf(&text, " (probability %.0f %%)", e->cpu_coverage * 100);
		add_score(&text, s->score.is_cpu_covered);
	}
	buf_add_char(&text, '.');
	d->writer->paragraph(d, text.data);
}

void page_add_standing(struct doc *d, const struct facts *f)
{
	const struct standing *s = f->a->standing;

	if (!s)
		return;
	add_heading(d, s);
	add_values(d, s);
	add_expected(d, s);
}
