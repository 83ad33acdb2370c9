#include "report/page.h"

#include <stdlib.h>

#include "base/unknown.h"
#include "report/format.h"
#include "report/report.h"

#define MAX_SHEETS 20 /* rows of the table */
#define MAX_ITEMS 8   /* earlier tries and ranks below it */

static const struct column columns[] = {
	{ "sheet", COLUMN_RIGHT },   { "name", COLUMN_CUT },	  { "outcome", COLUMN_LEFT },
	{ "ended", COLUMN_LEFT },    { "tries", COLUMN_RIGHT },	  { "wall", COLUMN_RIGHT },
	{ "CPU", COLUMN_RIGHT },     { "max CPU", COLUMN_RIGHT }, { "memory", COLUMN_RIGHT },
	{ "largest", COLUMN_RIGHT }, { "procs", COLUMN_RIGHT },
};

static const char *outcome_in_words(const struct facts *f, const struct sheet_record *sheet)
{
	if (sheet->outcome != OUTCOME_NONE)
		return outcome_name(sheet->outcome);
	if (u64_known(sheet->ended_wall_ns))
		return "-";
	return f->a->is_running ? "running" : "lost";
}

static struct buf *figure_cell(struct table *t, const struct figures *f, enum figure id)
{
	return page_number_cell(t, figure_is_known(f, id), f->evidence[id]);
}

static void add_row(struct table *t, const struct facts *f, const struct sheet_fact *sheet)
{
	const struct figures *figures = &sheet->figures;
	const struct usage *usage = &figures->usage;

	buf_printf(table_cell(t), "%d", sheet->last->num);
	format_string(table_cell(t), sheet->last->name);
	buf_add_str(table_cell(t), outcome_in_words(f, sheet->last));
	report_add_status(table_cell(t), sheet->last->status);
	format_count(table_cell(t), sheet->n_tries);
	report_add_duration(figure_cell(t, figures, FIGURE_WALL), usage->wall_ns);
	report_add_duration(figure_cell(t, figures, FIGURE_CPU), figures->cpu_ns);
	format_percent(figure_cell(t, figures, FIGURE_MAX_CPU), usage->peak_cpu_percent);
	report_add_bytes(figure_cell(t, figures, FIGURE_PEAK_RSS), usage->peak_rss_bytes);
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
	if (l_wall != r_wall)
		return l_wall > r_wall ? -1 : 1;
	return (l->last->num > r->last->num) - (l->last->num < r->last->num);
}

static int compare_number(const void *left, const void *right)
{
	const struct sheet_fact *l = *(const struct sheet_fact *const *)left;
	const struct sheet_fact *r = *(const struct sheet_fact *const *)right;

	return (l->last->num > r->last->num) - (l->last->num < r->last->num);
}

/* The sheets to show, by number, up to MAX_SHEETS; NULL when memory runs out. */
static const struct sheet_fact **choose_sheets(const struct facts *f, size_t *ret_n)
{
	const struct sheet_fact **chosen = calloc(f->n_sheets, sizeof(*chosen));

	if (!chosen)
		return NULL;
	for (size_t i = 0; i < f->n_sheets; i++)
		chosen[i] = &f->sheets[i];
	qsort(chosen, f->n_sheets, sizeof(*chosen), compare_interest);
	*ret_n = f->n_sheets < MAX_SHEETS ? f->n_sheets : MAX_SHEETS;
	qsort(chosen, *ret_n, sizeof(*chosen), compare_number);
	return chosen;
}

static void add_table(struct doc *d, const struct facts *f)
{
	CLEANUP(free_ptr) const struct sheet_fact **chosen = NULL;
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	size_t n = 0;

	chosen = choose_sheets(f, &n);
	if (!chosen)
		d->out->failed = true;
	for (size_t i = 0; i < n; i++)
		add_row(&t, f, chosen[i]);
	page_add_table(d, &t);
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
	d->writer->item(d, line.data);
}

static void add_rank_group(struct buf *line, const struct sheet_record *sheet,
			   struct exit_status status)
{
	struct ranges r;

	buf_add_str(line, "; ");
	format_status(line, status);
	buf_add_str(line, ": ");
	ranges_begin(&r, line);
	for (size_t i = 0; i < sheet->n_ranks; i++)
		if (sheet->ranks[i].status.exit_code == status.exit_code &&
		    sheet->ranks[i].status.signal == status.signal)
			ranges_add(&r, sheet->ranks[i].rank);
	ranges_end(&r);
}

static bool is_first_of_status(const struct sheet_record *sheet, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (sheet->ranks[k].status.exit_code == sheet->ranks[i].status.exit_code &&
		    sheet->ranks[k].status.signal == sheet->ranks[i].status.signal)
			return false;
	return true;
}

/* "sheet 3, ranks by end: exit code 0: 0, 1, 3; exit code 1: 2" */
static void add_ranks(struct doc *d, const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	buf_printf(&line, "sheet %d, %d ranks", sheet->num, sheet->total_ranks);
	for (size_t i = 0; i < sheet->n_ranks; i++)
		if (is_first_of_status(sheet, i))
			add_rank_group(&line, sheet, sheet->ranks[i].status);
	d->writer->item(d, line.data);
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
		d->writer->item(d, line.data);
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
	d->writer->section(d, heading.data);
	add_table(d, f);
	add_items(d, f);
}
