#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/anomaly.h"
#include "report/format.h"
#include "report/page.h"
#include "report/report.h"

/* ---- sheets ---- */

#define MAX_SHEETS 20 /* rows of the table */
#define MAX_ITEMS 8   /* earlier tries and ranks below it */

static const struct table_column sheet_columns[] = {
	{ "sheet", COLUMN_RIGHT },   { "name", COLUMN_CUT },	  { "outcome", COLUMN_LEFT },
	{ "ended", COLUMN_LEFT },    { "tries", COLUMN_RIGHT },	  { "wall", COLUMN_RIGHT },
	{ "CPU", COLUMN_RIGHT },     { "max CPU", COLUMN_RIGHT }, { "memory", COLUMN_RIGHT },
	{ "largest", COLUMN_RIGHT }, { "procs", COLUMN_RIGHT },
};

static struct buf *figure_cell(struct table *t, const struct figures *f, enum figure id)
{
	return table_number_cell(t, figure_is_known(f, id), f->evidence[id]);
}

static void add_sheet(struct table *t, const struct facts *f, const struct sheet_fact *sheet)
{
	const struct figures *figures = &sheet->figures;
	const struct usage *usage = &figures->usage;
	const char *outcome = u64_known(sheet->last->ended_wall_ns) ? "-"
			      : f->a->is_running		    ? "running"
								    : "lost";

	if (sheet->last->outcome != OUTCOME_NONE)
		outcome = outcome_name(sheet->last->outcome);
	buf_printf(table_cell(t), "%d", sheet->last->num);
	format_string(table_cell(t), sheet->last->name);
	buf_add_str(table_cell(t), outcome);
	report_add_status(table_cell(t), sheet->last->status);
	format_count(table_cell(t), sheet->n_tries);
	report_add_duration(figure_cell(t, figures, FIGURE_WALL), usage->wall_ns);
	report_add_duration(figure_cell(t, figures, FIGURE_CPU), figures->cpu_ns);
	format_percent(figure_cell(t, figures, FIGURE_MAX_CPU), usage->peak_cpu_percent);
	report_add_bytes(figure_cell(t, figures, FIGURE_PEAK_MEMORY), figures->memory_bytes);
	report_add_bytes(figure_cell(t, figures, FIGURE_MAX_PROCESS_RSS),
			 usage->max_process_rss_bytes);
	format_count(figure_cell(t, figures, FIGURE_SPAWNS), usage->spawn_count);
}

/* What did not succeed first, then the longest. */
static int compare_interest(const void *left, const void *right)
{
	const struct sheet_fact *l = *(const struct sheet_fact *const *)left;
	const struct sheet_fact *r = *(const struct sheet_fact *const *)right;
	bool l_good = l->last->outcome == OUTCOME_SUCCESS;
	bool r_good = r->last->outcome == OUTCOME_SUCCESS;
	uint64_t l_wall = l->figures.usage.wall_ns + 1; /* unknown becomes 0 */
	uint64_t r_wall = r->figures.usage.wall_ns + 1;

	if (l_good != r_good)
		return l_good ? 1 : -1;
	return COMPARE(r_wall, l_wall) ?: COMPARE(l->last->num, r->last->num);
}

static int compare_number(const void *left, const void *right)
{
	const struct sheet_fact *l = *(const struct sheet_fact *const *)left;
	const struct sheet_fact *r = *(const struct sheet_fact *const *)right;

	return COMPARE(l->last->num, r->last->num);
}

/* Up to MAX_SHEETS, by number. */
static void add_sheet_table(struct doc *d, const struct facts *f)
{
	CLEANUP(free_ptr)
	const struct sheet_fact **chosen = calloc(f->n_sheets, sizeof(*chosen));
	CLEANUP(table_release) struct table t = TABLE_INIT(sheet_columns);
	size_t n = f->n_sheets < MAX_SHEETS ? f->n_sheets : MAX_SHEETS;

	if (!chosen) {
		d->out->failed = true;
		return;
	}
	for (size_t i = 0; i < f->n_sheets; i++)
		chosen[i] = &f->sheets[i];
	qsort(chosen, f->n_sheets, sizeof(*chosen), compare_interest);
	qsort(chosen, n, sizeof(*chosen), compare_number);
	for (size_t i = 0; i < n; i++)
		add_sheet(&t, f, chosen[i]);
	doc_add_table(d, &t);
}

static bool is_same_status(struct exit_status l, struct exit_status r)
{
	return l.exit_code == r.exit_code && l.signal == r.signal;
}

/* "sheet 2, try 1: failure after 1.20 s, exit code 1" */
static void add_earlier_try(struct doc *d, const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	buf_printf(&line, "sheet %d, try %d: ", sheet->num, sheet->try_num);
	format_string(&line, outcome_name(sheet->outcome));
	buf_add_str(&line, ", ");
	if (sheet->reason && sheet->reason[0])
		buf_add_str(&line, sheet->reason);
	else
		format_status(&line, sheet->status);
	d->writer->text(d, DOC_ITEM, line.data);
}

/* "sheet 3, 4 ranks; exit code 0: 0, 1, 3; exit code 1: 2": each status at its first rank */
static void add_ranks(struct doc *d, const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	buf_printf(&line, "sheet %d, %d ranks", sheet->num, sheet->total_ranks);
	for (size_t i = 0; i < sheet->n_ranks; i++) {
		const struct exit_status status = sheet->ranks[i].status;
		struct ranges r = { .out = &line };
		bool is_first = true;

		for (size_t k = 0; k < i; k++)
			is_first &= !is_same_status(sheet->ranks[k].status, status);
		if (!is_first)
			continue;
		buf_add_str(&line, "; ");
		format_status(&line, status);
		buf_add_str(&line, ": ");
		for (size_t k = i; k < sheet->n_ranks; k++)
			if (is_same_status(sheet->ranks[k].status, status))
				ranges_add(&r, sheet->ranks[k].rank);
		ranges_end(&r);
	}
	d->writer->text(d, DOC_ITEM, line.data);
}

/* Earlier tries and ranks, up to MAX_ITEMS. */
static void add_items(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	size_t n = 0;

	for (size_t i = 0; i < f->n_sheets; i++) {
		const struct sheet_fact *sheet = &f->sheets[i];

		for (size_t k = 0; k + 1 < sheet->n_tries; k++)
			if (n++ < MAX_ITEMS)
				add_earlier_try(d, sheet->tries[k]);
		if (sheet->last->n_ranks > 0 && n++ < MAX_ITEMS)
			add_ranks(d, sheet->last);
	}
	if (n > MAX_ITEMS) {
		buf_printf(&line, "%zu more in the JSON", n - MAX_ITEMS);
		d->writer->text(d, DOC_ITEM, line.data);
	}
}

void page_add_sheets(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf heading = BUF_INIT;

	/* One sheet, tried once, without ranks: the page has said it all. */
	if (f->n_sheets == 0 ||
	    (f->n_sheets == 1 && f->sheets[0].n_tries == 1 && f->sheets[0].last->n_ranks == 0))
		return;
	buf_add_str(&heading, "Sheets");
	if (f->n_sheets > MAX_SHEETS)
		buf_printf(&heading, " (%d of %zu: what did not succeed and the longest)",
			   MAX_SHEETS, f->n_sheets);
	d->writer->text(d, DOC_SECTION, heading.data);
	add_sheet_table(d, f);
	add_items(d, f);
}

/* ---- phases ---- */

#define MAX_PHASES 12

/* All phases of one path and one rank. */
struct phase_sum {
	const struct phase_record *first;
	size_t n;
	uint64_t total_ns;
	bool has_open; /* one that nobody saw left: it may have lasted longer */
};

static int compare_kind(const struct phase_record *l, const struct phase_record *r)
{
	return strcmp(l->path ? l->path : l->name, r->path ? r->path : r->name)
		       ?: COMPARE(l->rank, r->rank);
}

static int compare_phases(const void *l, const void *r)
{
	const struct phase_record *const *left = l, *const *right = r;

	return compare_kind(*left, *right)
		       ?: COMPARE((*left)->entered_wall_ns, (*right)->entered_wall_ns);
}

static int compare_totals(const void *l, const void *r)
{
	const struct phase_sum *left = l, *right = r;

	return COMPARE(right->total_ns, left->total_ns);
}

static int compare_beginnings(const void *l, const void *r)
{
	const struct phase_sum *left = l, *right = r;

	return COMPARE(left->first->entered_wall_ns, right->first->entered_wall_ns);
}

static void add_phase(struct table *t, const struct facts *f, const struct phase_sum *sum)
{
	const struct phase_record *phase = sum->first;
	bool is_known = !sum->has_open || sum->total_ns > 0;

	if (attempt_has_ranks(f->a) && phase->rank >= 0)
		buf_printf(table_cell(t), "%d", phase->rank);
	else if (attempt_has_ranks(f->a))
		buf_add_char(table_cell(t), '-');
	format_count(table_cell(t), sum->n);
	format_offset(table_cell(t), phase->entered_wall_ns, f->a->started_wall_ns);
	report_add_duration(
		table_number_cell(t, is_known,
				  sum->has_open ? EVIDENCE_LOWER_BOUND : EVIDENCE_EXACT),
		is_known ? sum->total_ns : U64_UNKNOWN);
	format_string(table_cell(t), phase->path ? phase->path : phase->name);
}

/* The sum of each path and rank: those that lasted longest, in order of their beginning. */
void page_add_phases(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = {
		{ "rank", COLUMN_RIGHT },   { "times", COLUMN_RIGHT }, { "first", COLUMN_RIGHT },
		{ "lasted", COLUMN_RIGHT }, { "phase", COLUMN_CUT },
	};
	const size_t n_phases = f->a->n_phases;
	CLEANUP(free_ptr)
	const struct phase_record **phases = reallocarray(NULL, n_phases + 1, sizeof(*phases));
	CLEANUP(free_ptr)
	struct phase_sum *sums = reallocarray(NULL, n_phases + 1, sizeof(*sums));
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	size_t n_sums = 0, n;

	if (n_phases == 0)
		return;
	if (!phases || !sums) {
		d->writer->text(d, DOC_PARAGRAPH, "No memory was left to sum up its phases.");
		return;
	}
	for (size_t i = 0; i < n_phases; i++)
		phases[i] = &f->a->phases[i];
	qsort(phases, n_phases, sizeof(*phases), compare_phases);
	for (size_t i = 0; i < n_phases; i++) {
		uint64_t ns = u64_delta(phases[i]->left_wall_ns, phases[i]->entered_wall_ns);

		if (i == 0 || compare_kind(phases[i - 1], phases[i]) != 0)
			sums[n_sums++] = (struct phase_sum){ .first = phases[i] };
		sums[n_sums - 1].n++;
		sums[n_sums - 1].total_ns += u64_known(ns) ? ns : 0;
		sums[n_sums - 1].has_open |= !u64_known(ns);
	}
	n = n_sums < MAX_PHASES ? n_sums : MAX_PHASES;
	qsort(sums, n_sums, sizeof(*sums), compare_totals);
	qsort(sums, n, sizeof(*sums), compare_beginnings);
	if (!attempt_has_ranks(f->a))
		table_drop_first_column(&t);
	for (size_t i = 0; i < n; i++)
		add_phase(&t, f, &sums[i]);
	buf_add_str(&heading, "Phases");
	if (n_sums > n)
		buf_printf(&heading, " (the %zu that lasted longest; %zu more in the JSON)", n,
			   n_sums - n);
	d->writer->text(d, DOC_SECTION, heading.data);
	doc_add_table(d, &t);
}

/* ---- processes ---- */

#define MAX_PROCESSES 10
#define MAX_EVENTS 6

/* Which is the first where there are ranks, and not there otherwise. */
#define RANK_COLUMN                  \
	{                            \
		"rank", COLUMN_RIGHT \
	}

static void add_number(struct buf *out, int num)
{
	if (num >= 0)
		buf_printf(out, "%d", num);
	else
		buf_add_char(out, '-');
}

/* What the job's is, that of a process which used one may be. */
static enum evidence gpu_time_evidence(const struct facts *f, const struct proc_record *p)
{
	bool is_part = f->figures.evidence[FIGURE_GPU_BUSY] == EVIDENCE_LOWER_BOUND;

	return is_part && p->max_gpu_bytes > 0 ? EVIDENCE_LOWER_BOUND : EVIDENCE_SAMPLED;
}

static void add_process(struct table *t, const struct facts *f, const struct proc_record *p,
			bool has_gpu)
{
	uint64_t cpu_ns = facts_process_cpu_ns(p), born_ns = facts_born_ns(f, p);

	if (attempt_has_ranks(f->a))
		add_number(table_cell(t), p->rank);
	buf_printf(table_cell(t), "%d", (int)p->key.pid);
	add_number(table_cell(t), p->sheet_num);
	report_add_bytes(table_number_cell(t, u64_known(p->max_rss_bytes), p->evidence),
			 p->max_rss_bytes);
	report_add_duration(table_number_cell(t, u64_known(cpu_ns), facts_cpu_evidence(p)), cpu_ns);
	if (has_gpu) {
		report_add_bytes(
			table_number_cell(t, u64_known(p->max_gpu_bytes), EVIDENCE_SAMPLED),
			p->max_gpu_bytes);
		report_add_duration(
			table_number_cell(t, u64_known(p->gpu_busy_ns), gpu_time_evidence(f, p)),
			p->gpu_busy_ns);
		report_add_duration(
			table_number_cell(t, u64_known(p->gpu_idle_ns), gpu_time_evidence(f, p)),
			p->gpu_idle_ns);
	}
	format_offset(table_cell(t), born_ns, f->a->started_wall_ns);
	report_add_duration(table_cell(t), u64_delta(p->died_wall_ns, born_ns));
	if (facts_is_left_running(f, p))
		buf_add_str(table_cell(t), "running");
	else
		report_add_status(table_cell(t), p->status);
	format_string(table_cell(t), p->command);
}

/* Unless it is the largest process as well. */
static void add_top_cpu(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const struct usage *u = &f->a->usage;
	uint64_t total_ns = u64_add(u->user_ns, u->system_ns), known_ns = 0, top_ns, rest_ns;
	bool is_sure = true;

	if (!f->top_cpu || f->top_cpu == f->processes[0] || facts_process_cpu_ns(f->top_cpu) == 0)
		return;
	/* rest_ns: what the job used and none of its processes is known to have. Unknown: any
	 * amount. */
	for (size_t i = 0; i < f->n_processes; i++)
		known_ns = u64_add_known(known_ns, facts_process_cpu_ns(f->processes[i]));
	rest_ns = u->cpu_evidence != EVIDENCE_EXACT ? U64_UNKNOWN
		  : known_ns < total_ns		    ? total_ns - known_ns
						    : 0;
	top_ns = facts_process_cpu_ns(f->top_cpu);
	for (size_t i = 0; i < f->n_processes; i++) {
		const struct proc_record *p = f->processes[i];

		if (p == f->top_cpu || facts_cpu_evidence(p) == EVIDENCE_EXACT)
			continue;
		/* One that is not known exactly may have had more. */
		if (!u64_known(rest_ns) || u64_add_known(rest_ns, facts_process_cpu_ns(p)) > top_ns)
			is_sure = false;
	}
	buf_printf(&line, "Most CPU time%s: pid %d, ", is_sure ? "" : ", of what is known of each",
		   (int)f->top_cpu->key.pid);
	report_add_duration(&line, top_ns);
	buf_add_str(&line, " (");
	format_evidence(&line, facts_cpu_evidence(f->top_cpu));
	buf_add_str(&line, "), ");
	format_string(&line, f->top_cpu->command);
	d->writer->text(d, DOC_PARAGRAPH, line.data);
}

void page_add_processes(struct doc *d, const struct facts *f)
{
	static const struct table_column all[] = {
		RANK_COLUMN,
		{ "pid", COLUMN_RIGHT },
		{ "sheet", COLUMN_RIGHT },
		{ "peak mem", COLUMN_RIGHT },
		{ "CPU", COLUMN_RIGHT },
		{ "GPU mem", COLUMN_RIGHT },
		{ "GPU time", COLUMN_RIGHT },
		{ "GPU idle", COLUMN_RIGHT },
		{ "born", COLUMN_RIGHT },
		{ "life", COLUMN_RIGHT },
		{ "ended", COLUMN_LEFT },
		{ "command", COLUMN_CUT },
	};
	struct table_column columns[ARRAY_SIZE(all)];
	bool has_gpu = false; /* most jobs use none */
	size_t n = f->n_processes < MAX_PROCESSES ? f->n_processes : MAX_PROCESSES;
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;

	if (n == 0)
		return;
	for (size_t i = 0; i < f->n_processes; i++)
		has_gpu |= u64_known(f->processes[i]->max_gpu_bytes) &&
			   f->processes[i]->max_gpu_bytes > 0;
	t.n_columns = 0;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (has_gpu || strncmp(all[i].title, "GPU", 3) != 0)
			columns[t.n_columns++] = all[i];
	if (!attempt_has_ranks(f->a))
		table_drop_first_column(&t);
	for (size_t i = 0; i < n; i++)
		add_process(&t, f, f->processes[i], has_gpu);
	buf_add_str(&heading, "Processes");
	if (f->n_processes > n)
		buf_printf(&heading, " (the %zu largest; %zu more in the JSON)", n,
			   f->n_processes - n);
	d->writer->text(d, DOC_SECTION, heading.data);
	doc_add_table(d, &t);
	add_top_cpu(d, f);
}

#define WHAT_BYTES 240 /* all that the kernel has to say of an OOM kill, and no endless command */

static void add_what(struct buf *cell, const struct proc_event *ev, const char *command)
{
	const char *details = ev->details ? ev->details : "";
	CLEANUP(buf_release) struct buf what = BUF_INIT;
	size_t n;

	format_string(&what, details[0] ? details : command);
	if (details[0] && command[0] && strcmp(details, command) != 0)
		buf_printf(&what, ": %s", command);
	n = utf8_cut(what.data, what.len, WHAT_BYTES);
	buf_add(cell, what.data, n);
	if (n < what.len)
		buf_add_str(cell, "…");
}

static void add_events(struct doc *d, const struct facts *f)
{
	static const struct table_column columns[] = {
		RANK_COLUMN,
		{ "when", COLUMN_RIGHT },
		{ "event", COLUMN_LEFT },
		{ "pid", COLUMN_RIGHT },
		{ "sheet", COLUMN_RIGHT },
		{ "status", COLUMN_LEFT },
		{ "what", COLUMN_WRAP },
	};
	const struct proc_event *events[MAX_EVENTS];
	const struct sheet_fact *culprit = facts_culprit(f);
	size_t total = facts_find_notable(f->a, culprit ? culprit->last->num : SHEET_NONE,
					  MAX_EVENTS, events);
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	if (total == 0)
		return;
	if (!attempt_has_ranks(f->a))
		table_drop_first_column(&t);
	for (size_t i = 0; i < total && i < MAX_EVENTS; i++) {
		const struct proc_record *p = facts_find_process(f, events[i]);
		const char *command = p && p->command ? p->command : "";

		if (attempt_has_ranks(f->a))
			add_number(table_cell(&t), p ? p->rank : RANK_NONE);
		format_offset(table_cell(&t), events[i]->wall_ns, f->a->started_wall_ns);
		buf_add_str(table_cell(&t), event_type_name(events[i]->type));
		add_number(table_cell(&t), events[i]->key.pid > 0 ? (int)events[i]->key.pid : -1);
		add_number(table_cell(&t), events[i]->sheet_num);
		report_add_status(table_cell(&t), events[i]->status);
		add_what(table_cell(&t), events[i], command);
	}
	d->writer->table(d, &t);
	if (total > MAX_EVENTS) {
		buf_printf(&line, "%zu more in the JSON.", total - MAX_EVENTS);
		d->writer->text(d, DOC_PARAGRAPH, line.data);
	}
}

void page_add_exits(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const struct proc_record *first = facts_first_dead_rank(f);
	uint64_t born = f->figures.usage.spawn_count;
	struct exit_tally tally;

	exit_tally_count(f, &tally);
	if (tally.n_all == 0 && f->a->n_events == 0)
		return;
	if (f->figures.evidence[FIGURE_SPAWNS] == EVIDENCE_LOWER_BOUND)
		buf_add_str(&line, "at least ");
	format_count(&line, born);
	buf_add_str(&line, " born: ");
	exit_tally_add(&line, &tally, f->a->is_running);
	if (u64_known(born) && born > tally.n_all)
		buf_printf(&line, "%s%llu %s", tally.n_all ? ", " : "",
			   (unsigned long long)(born - tally.n_all),
			   tally.has_ends ? "not listed" : "not seen to end");
	buf_add_char(&line, '.');
	d->writer->text(d, DOC_SECTION, "Life of the processes");
	d->writer->text(d, DOC_PARAGRAPH, line.data);
	/* A launcher ends the other ranks because of the first, and after it. */
	if (first) {
		buf_reset(&line);
		buf_printf(&line, "Rank %d failed first: pid %d, ", first->rank,
			   (int)first->key.pid);
		report_add_status(&line, first->status);
		buf_add_str(&line, ", ");
		report_add_duration(&line, u64_delta(first->died_wall_ns, f->a->started_wall_ns));
		buf_add_str(&line, " after the start.");
		d->writer->text(d, DOC_PARAGRAPH, line.data);
	}
	add_events(d, f);
}

/* ---- one anomaly in detail: its numbers, the host at that time, what the culprit called and had
 * open ---- */

#define MAX_CALLS 5
#define MAX_TARGETS 5

static const struct table_column evidence_columns[] = { { "what", COLUMN_LEFT },
							{ "", COLUMN_WRAP } };

static struct buf *begin_row(struct table *t, const char *label)
{
	buf_add_str(table_cell(t), label);
	return table_cell(t);
}

static void add_measured(struct buf *out, double value)
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
	add_measured(out, value);
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
	add_measured(out, e->worst.threshold);
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

static void add_busiest(struct buf *out, const char *what, const struct anomaly_process *top,
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

static void add_own_calls(struct table *t, const struct anomaly_evidence *e)
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
	d->writer->text(d, DOC_ITEM, heading.data);
	t.hides_titles = true;
	add_numbers(&t, f, e);
	if (e->host_json && anomaly_host_read_json(e->host_json, &host) == 0) {
		struct buf *out = begin_row(&t, "host");

		buf_add_str(out, "load ");
		add_measured(out, host.load1);
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
		add_busiest(out, "CPU", host.top_cpu, host.n_top_cpu, true);
		add_busiest(out, "memory", host.top_rss, host.n_top_rss, false);
	}
	if (e->evidence_json && anomaly_evidence_read_json(e->evidence_json, &evidence) == 0) {
		if (evidence.doing[0])
			format_string(begin_row(&t, "it was"), evidence.doing);
		add_own_calls(&t, &evidence);
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

static const struct table_column columns[] = {
	{ "began", COLUMN_RIGHT }, { "lasted", COLUMN_RIGHT }, { "severity", COLUMN_LEFT },
	{ "type", COLUMN_LEFT },   { "times", COLUMN_RIGHT },  { "what", COLUMN_WRAP },
};

void report_add_lasted(struct buf *out, const struct episode *e)
{
	if (episode_end_is_unseen(e))
		buf_add_char(out, '>');
	report_add_duration(out, u64_delta(e->ended_wall_ns, e->began_wall_ns));
}

int page_compare_anomalies(const void *left, const void *right)
{
	const struct episode *l = *(const struct episode *const *)left;
	const struct episode *r = *(const struct episode *const *)right;

	return COMPARE(r->worst.severity, l->worst.severity)
		       ?: COMPARE(l->began_wall_ns, r->began_wall_ns);
}

void page_add_anomalies(struct doc *d, const struct facts *f)
{
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(free_ptr) const struct episode **sorted = NULL;
	size_t n = f->a->details.n_anomalies;
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (n == 0)
		return;
	sorted = reallocarray(NULL, n, sizeof(*sorted));
	if (!sorted) {
		d->out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = &f->a->details.anomalies[i];
	qsort(sorted, n, sizeof(*sorted), page_compare_anomalies);
	for (size_t i = 0; i < n && i < MAX_ANOMALIES; i++) {
		format_offset(table_cell(&t), sorted[i]->began_wall_ns, f->a->started_wall_ns);
		report_add_lasted(table_cell(&t), sorted[i]);
		buf_add_str(table_cell(&t), severity_name(sorted[i]->worst.severity));
		buf_add_str(table_cell(&t), anomaly_type_name(sorted[i]->worst.type));
		format_count(table_cell(&t), sorted[i]->count);
		format_string(table_cell(&t), sorted[i]->worst.text);
	}
	d->writer->text(d, DOC_SECTION, "Out of the ordinary");
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
	d->writer->text(d, DOC_PARAGRAPH, text.data);
}
