#include "report/page.h"

#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"
#include "report/format.h"
#include "report/life.h"
#include "report/report.h"

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

/* Most jobs use none. */
static bool uses_gpu(const struct facts *f)
{
	for (size_t i = 0; i < f->n_processes; i++)
		if (u64_known(f->processes[i]->max_gpu_bytes) && f->processes[i]->max_gpu_bytes > 0)
			return true;
	return false;
}

/* What the job's is, that of a process which used one may be. */
static enum evidence gpu_time_evidence(const struct facts *f, const struct proc_record *p)
{
	bool is_part = f->figures.evidence[FIGURE_GPU_BUSY] == EVIDENCE_LOWER_BOUND;

	return is_part && p->max_gpu_bytes > 0 ? EVIDENCE_LOWER_BOUND : EVIDENCE_SAMPLED;
}

static void add_gpu_use(struct table *t, const struct facts *f, const struct proc_record *p)
{
	report_add_bytes(page_number_cell(t, u64_known(p->max_gpu_bytes), EVIDENCE_SAMPLED),
			 p->max_gpu_bytes);
	report_add_duration(page_number_cell(t, u64_known(p->gpu_busy_ns), gpu_time_evidence(f, p)),
			    p->gpu_busy_ns);
	report_add_duration(page_number_cell(t, u64_known(p->gpu_idle_ns), gpu_time_evidence(f, p)),
			    p->gpu_idle_ns);
}

static void add_process(struct table *t, const struct facts *f, const struct proc_record *p,
			bool has_gpu)
{
	uint64_t cpu_ns = facts_process_cpu_ns(p), born_ns = facts_born_ns(f, p);

	if (attempt_has_ranks(f->a))
		add_number(table_cell(t), p->rank);
	buf_printf(table_cell(t), "%d", (int)p->key.pid);
	add_number(table_cell(t), p->sheet_num);
	report_add_bytes(page_number_cell(t, u64_known(p->max_rss_bytes), p->evidence),
			 p->max_rss_bytes);
	report_add_duration(page_number_cell(t, u64_known(cpu_ns), facts_cpu_evidence(p)), cpu_ns);
	if (has_gpu)
		add_gpu_use(t, f, p);
	format_offset(table_cell(t), born_ns, f->a->started_wall_ns);
	report_add_duration(table_cell(t), u64_delta(p->died_wall_ns, born_ns));
	if (facts_is_left_running(f, p))
		buf_add_str(table_cell(t), "running");
	else
		report_add_status(table_cell(t), p->status);
	format_string(table_cell(t), p->command);
}

/* What the whole job used and none of its processes is known to have. U64_UNKNOWN: any amount. */
static uint64_t unassigned_cpu_ns(const struct facts *f)
{
	const struct usage *u = &f->a->usage;
	uint64_t total_ns = u64_add(u->user_ns, u->system_ns), known_ns = 0;

	if (u->cpu_evidence != EVIDENCE_EXACT)
		return U64_UNKNOWN;
	for (size_t i = 0; i < f->n_processes; i++)
		known_ns = u64_add_known(known_ns, facts_process_cpu_ns(f->processes[i]));
	return known_ns < total_ns ? total_ns - known_ns : 0;
}

/* Whether none of those that are not known exactly can have had more. */
static bool is_surely_top(const struct facts *f)
{
	uint64_t rest_ns = unassigned_cpu_ns(f), top_ns = facts_process_cpu_ns(f->top_cpu);

	for (size_t i = 0; i < f->n_processes; i++) {
		const struct proc_record *p = f->processes[i];

		if (p == f->top_cpu || facts_cpu_evidence(p) == EVIDENCE_EXACT)
			continue;
		if (!u64_known(rest_ns) || u64_add_known(rest_ns, facts_process_cpu_ns(p)) > top_ns)
			return false;
	}
	return true;
}

static void add_top_cpu(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	if (!f->top_cpu || f->top_cpu == f->processes[0] || facts_process_cpu_ns(f->top_cpu) == 0)
		return;
	buf_printf(&line, "Most CPU time%s: pid %d, ",
		   is_surely_top(f) ? "" : ", of what is known of each", (int)f->top_cpu->key.pid);
	report_add_duration(&line, facts_process_cpu_ns(f->top_cpu));
	buf_add_str(&line, " (");
	format_evidence(&line, facts_cpu_evidence(f->top_cpu));
	buf_add_str(&line, "), ");
	format_string(&line, f->top_cpu->command);
	d->writer->paragraph(d, line.data);
}

/* Leaves out what is only there for GPUs. Returns how many columns it has. */
static size_t choose_columns(const struct column *all, size_t n, bool has_gpu, struct column *ret)
{
	size_t chosen = 0;

	for (size_t i = 0; i < n; i++)
		if (has_gpu || strncmp(all[i].title, "GPU", 3) != 0)
			ret[chosen++] = all[i];
	return chosen;
}

void page_add_processes(struct doc *d, const struct facts *f)
{
	static const struct column all[] = {
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
	struct column columns[ARRAY_SIZE(all)];
	bool has_gpu = uses_gpu(f);
	size_t n = f->n_processes < MAX_PROCESSES ? f->n_processes : MAX_PROCESSES;
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;

	if (n == 0)
		return;
	t.n_columns = choose_columns(all, ARRAY_SIZE(all), has_gpu, columns);
	page_leave_out_rank(&t, f);
	for (size_t i = 0; i < n; i++)
		add_process(&t, f, f->processes[i], has_gpu);
	buf_add_str(&heading, "Processes");
	if (f->n_processes > n)
		buf_printf(&heading, " (the %zu largest; %zu more in the JSON)", n,
			   f->n_processes - n);
	d->writer->section(d, heading.data);
	page_add_table(d, &t);
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

static void add_event(struct table *t, const struct facts *f, const struct proc_event *ev)
{
	const struct proc_record *p = facts_find_process(f, ev);
	const char *command = p && p->command ? p->command : "";

	if (attempt_has_ranks(f->a))
		add_number(table_cell(t), p ? p->rank : RANK_NONE);
	format_offset(table_cell(t), ev->wall_ns, f->a->started_wall_ns);
	buf_add_str(table_cell(t), event_type_name(ev->type));
	add_number(table_cell(t), ev->key.pid > 0 ? (int)ev->key.pid : -1);
	add_number(table_cell(t), ev->sheet_num);
	report_add_status(table_cell(t), ev->status);
	add_what(table_cell(t), ev, command);
}

static void add_events(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
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
	size_t total = life_find_notable(f->a, culprit ? culprit->last->num : SHEET_NONE,
					 MAX_EVENTS, events);
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	if (total == 0)
		return;
	page_leave_out_rank(&t, f);
	for (size_t i = 0; i < total && i < MAX_EVENTS; i++)
		add_event(&t, f, events[i]);
	d->writer->table(d, &t);
	if (total > MAX_EVENTS) {
		buf_printf(&line, "%zu more in the JSON.", total - MAX_EVENTS);
		d->writer->paragraph(d, line.data);
	}
}

/* What a launcher ends because of it, ends after it. */
static void add_first_dead(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const struct proc_record *p = facts_first_dead_rank(f);

	if (!p)
		return;
	buf_printf(&line, "Rank %d failed first: pid %d, ", p->rank, (int)p->key.pid);
	report_add_status(&line, p->status);
	buf_add_str(&line, ", ");
	report_add_duration(&line, u64_delta(p->died_wall_ns, f->a->started_wall_ns));
	buf_add_str(&line, " after the start.");
	d->writer->paragraph(d, line.data);
}

void page_add_life(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	uint64_t born = f->figures.usage.spawn_count;
	struct life_tally tally;

	life_count(f, &tally);
	if (tally.n_all == 0 && f->a->n_events == 0)
		return;
	if (f->figures.evidence[FIGURE_SPAWNS] == EVIDENCE_LOWER_BOUND)
		buf_add_str(&line, "at least ");
	format_count(&line, born);
	buf_add_str(&line, " born: ");
	life_add_tally(&line, &tally, f->a->is_running);
	if (u64_known(born) && born > tally.n_all)
		buf_printf(&line, "%s%llu %s", tally.n_all ? ", " : "",
			   (unsigned long long)(born - tally.n_all),
			   tally.has_ends ? "not listed" : "not seen to end");
	buf_add_char(&line, '.');
	d->writer->section(d, "Life of the processes");
	d->writer->paragraph(d, line.data);
	add_first_dead(d, f);
	add_events(d, f);
}
