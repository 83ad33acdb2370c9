#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/anomaly.h"
#include "report/format.h"
#include "report/report.h"

/* ---- one anomaly in detail: its numbers, the host at that time, what the culprit called and had
 * open ---- */

#define MAX_CALLS 5
#define MAX_TARGETS 5

static const struct column evidence_columns[] = { { "what", COLUMN_LEFT }, { "", COLUMN_WRAP } };

static struct buf *begin_row(struct table *t, const char *label)
{
	buf_add_str(table_cell(t), label);
	return table_cell(t);
}

static void add_number(struct buf *out, double value)
{
	if (f64_known(value))
		buf_printf(out, fabs(value) >= 1000 ? "%.0f" : "%.4g", value);
	else
		buf_add_char(out, '-');
}

/* ", 74 when it began", if it is known. */
static void add_known(struct buf *out, double value, const char *when)
{
	if (!f64_known(value))
		return;
	if (out->len > 0)
		buf_add_str(out, ", ");
	add_number(out, value);
	buf_printf(out, " %s", when);
}

#define MAX_LIMIT_SECONDS 1e9 /* what is further away is never */

/* "MB: 10 before, 74 when it began, 300 at its worst (+12 s), 12 after; threshold 64". */
static void add_numbers(struct table *t, const struct facts *f, const struct episode *e)
{
	CLEANUP(buf_release) struct buf values = BUF_INIT;
	struct buf *out = begin_row(t, "numbers");

	add_known(&values, e->before_value, "before");
	add_known(&values, e->first_value, "when it began");
	add_known(&values, e->peak_value, "at its worst");
	if (f64_known(e->peak_value) && u64_known(e->peak_wall_ns)) {
		buf_add_str(&values, " (");
		format_offset(&values, e->peak_wall_ns, f->a->started_wall_ns);
		buf_add_char(&values, ')');
	}
	add_known(&values, e->after_value, "after");
	buf_printf(out, "%s: %s; threshold ", e->unit ? e->unit : "value",
		   values.len > 0 ? values.data : "-");
	add_number(out, e->worst.threshold);
	/* Unknown, or too far away to mean anything: left out. */
	if (e->seconds_to_limit == 0) {
		buf_add_str(out, "; its limit was reached");
	} else if (e->seconds_to_limit > 0 && e->seconds_to_limit < MAX_LIMIT_SECONDS) {
		buf_add_str(out, "; its limit was ");
		report_add_duration(out, (uint64_t)(e->seconds_to_limit * 1e9));
		buf_add_str(out, " away at that rate");
	}
}

/* ---- the host ---- */

static void add_processes(struct buf *out, const char *what, const struct anomaly_process *top,
			  size_t n, bool by_cpu)
{
	if (n == 0)
		return;
	buf_printf(out, "; most %s:", what);
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "%s %s (%d) ", i ? "," : "", top[i].comm, (int)top[i].key.pid);
		if (by_cpu)
			format_percent(out, top[i].cpu_percent);
		else
			report_add_bytes(out, top[i].rss_bytes);
	}
}

/* ---- the culprit ---- */

static void add_calls(struct table *t, const struct anomaly_evidence *e)
{
	struct buf *out;

	if (!e->has_syscalls || e->n_syscalls == 0)
		return;
	out = begin_row(t, "its calls");
	for (size_t i = 0; i < e->n_syscalls && i < MAX_CALLS; i++) {
		buf_printf(out, "%s%s ", i ? ", " : "", e->syscalls[i].name);
		format_count(out, e->syscalls[i].count);
		if (!f64_known(e->syscalls[i].time_pct))
			continue;
		buf_add_str(out, " (");
		format_percent(out, e->syscalls[i].time_pct);
		buf_add_char(out, ')');
	}
	if (e->n_syscalls > MAX_CALLS)
		buf_add_str(out, ", …");
}

/* "60 open: /dev/null (27 times), /tmp/x, …": the first that were noted. */
static void add_targets(struct buf *out, const struct anomaly_evidence *e)
{
	size_t n_targets = 0;

	for (size_t i = 0; i < e->n_files; i++) {
		bool is_first = true;
		size_t n = 0; /* the same from this one on */

		for (size_t k = 0; k < e->n_files; k++)
			if (strcmp(e->files[k].target, e->files[i].target) == 0) {
				is_first &= k >= i;
				n += k >= i;
			}
		if (!is_first)
			continue;
		if (n_targets++ == MAX_TARGETS) {
			buf_add_str(out, ", …");
			return;
		}
		buf_printf(out, "%s %s", n_targets > 1 ? "," : " open:", e->files[i].target);
		if (n > 1)
			buf_printf(out, " (%zu times)", n);
	}
}

static void add_files(struct table *t, const struct anomaly_evidence *e)
{
	uint64_t n_unread = u64_delta(e->n_files_open, e->n_files);
	struct buf *out;

	if (!u64_known(e->n_files_open) && e->n_files == 0)
		return;
	out = begin_row(t, "its files");
	format_count(out, e->n_files_open);
	add_targets(out, e);
	if (e->n_files == 0 || !u64_known(n_unread) || n_unread == 0)
		return;
	buf_add_str(out, "; ");
	format_count(out, n_unread);
	buf_add_str(out, n_unread == 1 ? " other was not read" : " others were not read");
}

static void add_evidence(struct doc *d, const struct facts *f, const struct episode *e)
{
	CLEANUP(table_release) struct table t = TABLE_INIT(evidence_columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	struct anomaly_evidence evidence;
	struct anomaly_host host;

	format_offset(&heading, e->began_wall_ns, f->a->started_wall_ns);
	buf_printf(&heading, "  %s", anomaly_type_name(e->worst.type));
	if (e->comm[0])
		buf_printf(&heading, " of %s", e->comm);
	if (e->worst.has_pid)
		buf_printf(&heading, " (pid %lld)", (long long)e->worst.pid);
	d->writer->item(d, heading.data);
	t.hides_titles = true;
	add_numbers(&t, f, e);
	if (e->host_json && anomaly_host_read_json(e->host_json, &host) == 0) {
		struct buf *out = begin_row(&t, "host");

		buf_add_str(out, "load ");
		add_number(out, host.load1);
		buf_add_str(out, ", ");
		report_add_bytes(out, host.memory_available_bytes);
		buf_add_str(out, " of ");
		report_add_bytes(out, host.memory_total_bytes);
		buf_add_str(out, " available; waited for CPU ");
		format_percent(out, host.cpu_some);
		buf_add_str(out, ", memory ");
		format_percent(out, host.memory_some);
		buf_add_str(out, ", I/O ");
		format_percent(out, host.io_some);
		add_processes(out, "CPU", host.top_cpu, host.n_top_cpu, true);
		add_processes(out, "memory", host.top_rss, host.n_top_rss, false);
	}
	if (e->evidence_json && anomaly_evidence_read_json(e->evidence_json, &evidence) == 0) {
		add_calls(&t, &evidence);
		add_files(&t, &evidence);
		if (evidence.trace[0])
			buf_add_str(begin_row(&t, "its trace"), evidence.trace);
		else if (evidence.trace_missing[0])
			buf_printf(begin_row(&t, "its trace"), "none: %s", evidence.trace_missing);
	}
	d->writer->table(d, &t);
}

/* ---- all of them ---- */

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

/* The worst first, then the earliest. */
static int compare_interest(const void *left, const void *right)
{
	const struct episode *l = *(const struct episode *const *)left;
	const struct episode *r = *(const struct episode *const *)right;

	if (l->worst.severity != r->worst.severity)
		return l->worst.severity > r->worst.severity ? -1 : 1;
	return l->began_wall_ns < r->began_wall_ns ? -1 : l->began_wall_ns > r->began_wall_ns;
}

void page_add_anomalies(struct doc *d, const struct facts *f)
{
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(free_ptr) const struct episode **sorted = NULL;
	size_t n = f->a->n_anomalies;
	CLEANUP(buf_release) struct buf text = BUF_INIT;

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
	for (size_t i = 0; i < n && i < MAX_ANOMALIES; i++) {
		format_offset(table_cell(&t), sorted[i]->began_wall_ns, f->a->started_wall_ns);
		report_add_lasted(table_cell(&t), sorted[i]);
		buf_add_str(table_cell(&t), severity_name(sorted[i]->worst.severity));
		buf_add_str(table_cell(&t), anomaly_type_name(sorted[i]->worst.type));
		format_count(table_cell(&t), sorted[i]->count);
		format_string(table_cell(&t), sorted[i]->worst.text);
	}
	d->writer->section(d, "Out of the ordinary");
	d->writer->table(d, &t);
	/* The worst in detail, and where the rest is. */
	for (size_t i = 0; i < n && i < MAX_DETAILED; i++)
		add_evidence(d, f, sorted[i]);
	if (n > MAX_ANOMALIES)
		buf_printf(&text, "%zu more, and all ", n - MAX_ANOMALIES);
	else
		buf_add_str(&text, "All ");
	buf_printf(&text, "that is known about each: \"proctor anomalies --job %s --json\".",
		   f->a->job_id);
	d->writer->paragraph(d, text.data);
}
