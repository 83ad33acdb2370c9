/*
 * csv_columns - a row of CSV from a struct, by a table of its columns.
 *
 * Each table of the export is constant arrays of these; name, type and place of
 * a column stand in one line. A column that ends in _bytes or _ns is the number as
 * it was measured, beside the same in the unit of the contract.
 */
#ifndef PROCTOR_REPORT_CSV_COLUMNS_H
#define PROCTOR_REPORT_CSV_COLUMNS_H

#include <stddef.h>

#include "base/csv.h"

/* Appends one field of the row; field points into the struct. */
typedef void csv_cell(struct csv *c, const void *field);

csv_cell cell_text;	   /* const char *; NULL is unknown */
csv_cell cell_chars;	   /* char[]; "" is unknown */
csv_cell cell_state;	   /* one char; '?' is unknown */
csv_cell cell_int;	   /* int or pid_t */
csv_cell cell_int_or_none; /* int; negative is unknown */
csv_cell cell_positive;	   /* int, pid_t; 0 and below is unknown */
csv_cell cell_count;	   /* unsigned; 0 is unknown */
csv_cell cell_bool;	   /* true, false */
csv_cell cell_u64;
csv_cell cell_fd_limit; /* uint64_t, or the word unlimited */
csv_cell cell_hex;	/* uint64_t that is no number, as text */
csv_cell cell_seconds;	/* uint64_t of ns */
csv_cell cell_mb;	/* uint64_t of bytes */
csv_cell cell_f64;
csv_cell cell_outcome;	/* enum outcome, by name */
csv_cell cell_evidence; /* enum evidence, by name */
csv_cell cell_event_type;

struct csv_column {
	const char *name;
	csv_cell *add;
	size_t offset;
};

#define CSV_COLUMN(name_, struct_, field_, cell_)              \
	{                                                      \
		name_, cell_, offsetof(struct struct_, field_) \
	}

/* For a cell that takes the whole struct. */
#define CSV_WHOLE(name_, cell_) \
	{                       \
		name_, cell_, 0 \
	}

struct csv_columns {
	const struct csv_column *items;
	size_t n;
};

#define CSV_COLUMNS(items_)                                  \
	{                                                    \
		items_, sizeof(items_) / sizeof((items_)[0]) \
	}

void csv_add_names(struct csv *c, const struct csv_columns *columns);
void csv_add_cells(struct csv *c, const struct csv_columns *columns, const void *from);

/* The names of all columns of a table of the export, without the end of the row. */
void csv_samples_heading(struct csv *c);
void csv_snapshots_heading(struct csv *c);
void csv_events_heading(struct csv *c);
void csv_jobs_heading(struct csv *c);
void csv_sheets_heading(struct csv *c);
void csv_processes_heading(struct csv *c);

#endif
