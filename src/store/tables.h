/*
 * tables - which field of which struct is which column: one array per struct.
 *
 * Where a table has more columns than one array (keys, or parts that are
 * written at different times) its statements name them together; see
 * statements.def. The tables themselves are made of the same arrays, in db/layout.c.
 */
#pragma once

#include "model/record.h"
#include "store/query.h"

/* struct attempt, by when it is known */
extern const struct columns attempt_name_columns; /* which one it is: only read */

extern const struct columns process_call_columns;  /* of it, its system calls and whose they are */
extern const struct columns process_total_columns; /* of it, what samples can raise */
extern const struct columns phase_row_columns;	   /* struct phase_row, but for its phase */
extern const struct columns event_sql_columns;	   /* the same without the type */

/* struct proc_sample, beside sample_process_columns: what is kept there as it was first. */
extern const struct columns sample_shared_columns;
extern const struct columns image_columns; /* what an image says of it instead */

extern const struct columns anomaly_shared_columns; /* struct episode, what others add to it */

/* What is learned from runs. */
extern const struct columns
	run_owner_columns; /* struct run_record: whose it is, beside run_columns; only read */
extern const struct columns score_columns; /* struct estimate_score */

/* ---- statements ---- */

/* Columns of a statement, and the prefix of their names: "s.". */
struct part {
	const char *prefix;
	const struct columns *columns;
};

/*
 * text, in which for all columns of parts, in their order:
 *	@names     their names
 *	@values    a question mark each
 *	@sets      name = ?
 *	@merged    name = the new value where there is one, else the old
 *	@named     ? AS name
 *	@raised    name = the larger of it and new.name, or the one there is
 *	@declared  name type, of columns with the same name the first
 */
struct statement_row {
	const char *text;
	struct part parts[6];
};

/* Appends the text as SQLite gets it. */
void statement_row_write(const struct statement_row *row, struct buf *out);
