#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "report/format.h"
#include "report/report.h"

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
	int by_path = strcmp(l->path ? l->path : l->name, r->path ? r->path : r->name);

	return by_path ? by_path : (l->rank > r->rank) - (l->rank < r->rank);
}

static int compare_phases(const void *l, const void *r)
{
	const struct phase_record *const *left = l, *const *right = r;
	uint64_t a = (*left)->entered_wall_ns, b = (*right)->entered_wall_ns;
	int by_kind = compare_kind(*left, *right);

	return by_kind ? by_kind : (a > b) - (a < b);
}

static int compare_totals(const void *l, const void *r)
{
	const struct phase_sum *left = l, *right = r;

	return (left->total_ns < right->total_ns) - (left->total_ns > right->total_ns);
}

static int compare_beginnings(const void *l, const void *r)
{
	uint64_t a = ((const struct phase_sum *)l)->first->entered_wall_ns;
	uint64_t b = ((const struct phase_sum *)r)->first->entered_wall_ns;

	return (a > b) - (a < b);
}

static void add_to_sum(struct phase_sum *sum, const struct phase_record *phase)
{
	uint64_t ns = u64_delta(phase->left_wall_ns, phase->entered_wall_ns);

	sum->n++;
	sum->total_ns += u64_known(ns) ? ns : 0;
	sum->has_open |= !u64_known(ns);
}

/* phases are sorted by kind. Returns how many sums there are. */
static size_t sum_up(const struct phase_record **phases, size_t n, struct phase_sum *ret)
{
	size_t n_sums = 0;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || compare_kind(phases[i - 1], phases[i]) != 0)
			ret[n_sums++] = (struct phase_sum){ .first = phases[i] };
		add_to_sum(&ret[n_sums - 1], phases[i]);
	}
	return n_sums;
}

static void add_row(struct table *t, const struct facts *f, const struct phase_sum *sum)
{
	const struct phase_record *phase = sum->first;
	bool is_known = !sum->has_open || sum->total_ns > 0;

	if (attempt_has_ranks(f->a) && phase->rank >= 0)
		buf_printf(table_cell(t), "%d", phase->rank);
	else if (attempt_has_ranks(f->a))
		buf_add_char(table_cell(t), '-');
	format_count(table_cell(t), sum->n);
	format_offset(table_cell(t), phase->entered_wall_ns, f->a->started_wall_ns);
	report_add_duration(page_number_cell(t, is_known,
					     sum->has_open ? EVIDENCE_LOWER_BOUND : EVIDENCE_EXACT),
			    is_known ? sum->total_ns : U64_UNKNOWN);
	format_string(table_cell(t), phase->path ? phase->path : phase->name);
}

static void add_table(struct doc *d, const struct facts *f, struct phase_sum *sums, size_t n_sums)
{
	static const struct column columns[] = {
		{ "rank", COLUMN_RIGHT },   { "times", COLUMN_RIGHT }, { "first", COLUMN_RIGHT },
		{ "lasted", COLUMN_RIGHT }, { "phase", COLUMN_CUT },
	};
	size_t n = n_sums < MAX_PHASES ? n_sums : MAX_PHASES;
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;

	page_leave_out_rank(&t, f);
	qsort(sums, n_sums, sizeof(*sums), compare_totals);
	qsort(sums, n, sizeof(*sums), compare_beginnings);
	for (size_t i = 0; i < n; i++)
		add_row(&t, f, &sums[i]);
	buf_add_str(&heading, "Phases");
	if (n_sums > n)
		buf_printf(&heading, " (the %zu that lasted longest; %zu more in the JSON)", n,
			   n_sums - n);
	d->writer->section(d, heading.data);
	page_add_table(d, &t);
}

void page_add_phases(struct doc *d, const struct facts *f)
{
	CLEANUP(free_ptr)
	const struct phase_record **phases =
		reallocarray(NULL, f->a->n_phases + 1, sizeof(*phases));
	CLEANUP(free_ptr)
	struct phase_sum *sums = reallocarray(NULL, f->a->n_phases + 1, sizeof(*sums));

	if (f->a->n_phases == 0)
		return;
	if (!phases || !sums) {
		d->writer->paragraph(d, "No memory was left to sum up its phases.");
		return;
	}
	for (size_t i = 0; i < f->a->n_phases; i++)
		phases[i] = &f->a->phases[i];
	qsort(phases, f->a->n_phases, sizeof(*phases), compare_phases);
	add_table(d, f, sums, sum_up(phases, f->a->n_phases, sums));
}
