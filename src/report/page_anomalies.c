#include "report/page.h"

#include <stdlib.h>

#include "base/unknown.h"
#include "model/anomaly.h"
#include "report/format.h"
#include "report/report.h"

#define MAX_ANOMALIES 20 /* rows of the table */
#define MAX_DETAILED 5

static const struct column columns[] = {
	{ "began", COLUMN_RIGHT }, { "lasted", COLUMN_RIGHT }, { "severity", COLUMN_LEFT },
	{ "type", COLUMN_LEFT },   { "times", COLUMN_RIGHT },  { "what", COLUMN_WRAP },
};

void report_add_lasted(struct buf *out, const struct episode *e)
{
	if (episode_end_is_unseen(e))
		buf_add_char(out, '>');
	report_add_duration(out, u64_delta(e->ended_wall_ns, e->began_wall_ns));
}

static void add_row(struct table *t, const struct facts *f, const struct episode *e)
{
	format_offset(table_cell(t), e->began_wall_ns, f->a->started_wall_ns);
	report_add_lasted(table_cell(t), e);
	buf_add_str(table_cell(t), severity_name(e->worst.severity));
	buf_add_str(table_cell(t), anomaly_type_name(e->worst.type));
	format_count(table_cell(t), e->count);
	format_string(table_cell(t), e->worst.text);
}

/* The worst first, then the earliest. */
static int compare_interest(const void *left, const void *right)
{
	const struct episode *l = *(const struct episode *const *)left;
	const struct episode *r = *(const struct episode *const *)right;

	if (l->worst.severity != r->worst.severity)
		return l->worst.severity > r->worst.severity ? -1 : 1;
	return l->began_wall_ns < r->began_wall_ns ? -1 : l->began_wall_ns > r->began_wall_ns;
}

/* The worst in detail, and where the rest is. */
static void add_details(struct doc *d, const struct facts *f, const struct episode **sorted,
			size_t n)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	for (size_t i = 0; i < n && i < MAX_DETAILED; i++)
		page_add_evidence(d, f, sorted[i]);
	if (n > MAX_ANOMALIES)
		buf_printf(&text, "%zu more, and all ", n - MAX_ANOMALIES);
	else
		buf_add_str(&text, "All ");
	buf_printf(&text, "that is known about each: \"proctor anomalies --job %s --json\".",
		   f->a->job_id);
	d->writer->paragraph(d, text.data);
}

void page_add_anomalies(struct doc *d, const struct facts *f)
{
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(free_ptr) const struct episode **sorted = NULL;
	size_t n = f->a->n_anomalies;

	if (n == 0)
		return;
	sorted = reallocarray(NULL, n, sizeof(*sorted));
	if (!sorted) {
		d->out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = &f->a->anomalies[i];
	qsort(sorted, n, sizeof(*sorted), compare_interest);
	for (size_t i = 0; i < n && i < MAX_ANOMALIES; i++)
		add_row(&t, f, sorted[i]);
	d->writer->section(d, "Out of the ordinary");
	d->writer->table(d, &t);
	add_details(d, f, sorted, n);
}
