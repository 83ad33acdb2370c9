#include "report/csv.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
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
