#include "report/csv_columns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "report/report.h"

static const struct {
	const char *name;
	void (*add_heading)(struct csv *c);
} tables[] = {
	[REPORT_SAMPLES] = { "samples", csv_samples_heading },
	[REPORT_SNAPSHOTS] = { "snapshots", csv_snapshots_heading },
	[REPORT_EVENTS] = { "events", csv_events_heading },
	[REPORT_JOBS] = { "jobs", csv_jobs_heading },
	[REPORT_SHEETS] = { "sheets", csv_sheets_heading },
	[REPORT_PROCESSES] = { "processes", csv_processes_heading },
};

int report_table_from_name(const char *name, enum report_table *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (strcmp(tables[i].name, name) == 0) {
			*ret = (enum report_table)i;
			return 0;
		}
	return -EINVAL;
}

void report_csv_heading(struct csv *c, enum report_table table)
{
	tables[table].add_heading(c);
	csv_end_row(c);
}

/* ---- cells ---- */

void csv_add_names(struct csv *c, const struct csv_columns *columns)
{
	for (size_t i = 0; i < columns->n; i++)
		csv_word(c, columns->items[i].name);
}

void csv_add_cells(struct csv *c, const struct csv_columns *columns, const void *from)
{
	for (size_t i = 0; i < columns->n; i++)
		columns->items[i].add(c, (const char *)from + columns->items[i].offset);
}

/* ---- numbers ---- */

void cell_int(struct csv *c, const void *field)
{
	csv_i64(c, *(const int *)field);
}

void cell_int_or_none(struct csv *c, const void *field)
{
	int v = *(const int *)field;

	csv_u64(c, v < 0 ? U64_UNKNOWN : (uint64_t)v);
}

void cell_positive(struct csv *c, const void *field)
{
	int v = *(const int *)field;

	csv_u64(c, v <= 0 ? U64_UNKNOWN : (uint64_t)v);
}

void cell_count(struct csv *c, const void *field)
{
	unsigned v = *(const unsigned *)field;

	csv_u64(c, v == 0 ? U64_UNKNOWN : v);
}

void cell_u64(struct csv *c, const void *field)
{
	csv_u64(c, *(const uint64_t *)field);
}

void cell_fd_limit(struct csv *c, const void *field)
{
	if (*(const uint64_t *)field == FD_LIMIT_UNLIMITED)
		csv_word(c, "unlimited");
	else
		cell_u64(c, field);
}

void cell_seconds(struct csv *c, const void *field)
{
	csv_f64(c, u64_to_seconds(*(const uint64_t *)field));
}

void cell_mb(struct csv *c, const void *field)
{
	csv_f64(c, u64_to_mb(*(const uint64_t *)field));
}

void cell_f64(struct csv *c, const void *field)
{
	csv_f64(c, *(const double *)field);
}

void cell_bool(struct csv *c, const void *field)
{
	csv_word(c, *(const bool *)field ? "true" : "false");
}

/* ---- text ---- */

void cell_text(struct csv *c, const void *field)
{
	csv_text(c, *(const char *const *)field);
}

void cell_chars(struct csv *c, const void *field)
{
	const char *text = field;

	csv_text(c, text[0] ? text : NULL);
}

void cell_state(struct csv *c, const void *field)
{
	char text[2] = { *(const char *)field, '\0' };

	csv_text(c, text[0] == '?' ? NULL : text);
}

void cell_hex(struct csv *c, const void *field)
{
	char text[20];

	snprintf(text, sizeof(text), "%016llx", *(const unsigned long long *)field);
	csv_text(c, text);
}

void cell_outcome(struct csv *c, const void *field)
{
	csv_text(c, outcome_name(*(const enum outcome *)field));
}

void cell_evidence(struct csv *c, const void *field)
{
	csv_text(c, evidence_name(*(const enum evidence *)field));
}

void cell_event_type(struct csv *c, const void *field)
{
	csv_text(c, event_type_name(*(const enum event_type *)field));
}
