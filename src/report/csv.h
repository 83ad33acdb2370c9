/*
 * csv - the tables of the export: their headings, and the rows of an attempt.
 *
 * Their doors are report_csv_heading() and the functions beside it in report.h.
 */
#ifndef PROCTOR_REPORT_CSV_H
#define PROCTOR_REPORT_CSV_H

#include "base/csv.h"

/* The names of the columns, without the end of the row. */
void csv_samples_heading(struct csv *c);
void csv_snapshots_heading(struct csv *c);
void csv_events_heading(struct csv *c);
void csv_jobs_heading(struct csv *c);
void csv_sheets_heading(struct csv *c);
void csv_processes_heading(struct csv *c);

#endif
