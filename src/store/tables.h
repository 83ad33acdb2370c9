/*
 * tables - which field of which struct is which column: one array per struct.
 *
 * Where a table has more columns than one array (keys, or parts that are
 * written at different times) its statements name them together; see
 * statements.c. The tables themselves are made in layout.c.
 */
#ifndef PROCTOR_STORE_TABLES_H
#define PROCTOR_STORE_TABLES_H

#include "store/columns.h"

/* struct attempt, by when it is known */
extern const struct columns attempt_name_columns;  /* which one it is: only read */
extern const struct columns attempt_begin_columns; /* when it begins */
extern const struct columns
	attempt_identity_columns; /* of these: with its job and boot, who it is */
extern const struct columns attempt_progress_columns; /* with each sheet */
extern const struct columns attempt_end_columns;      /* when it ends; with usage_columns */

extern const struct columns daemon_columns;	   /* struct daemon_record */
extern const struct columns sheet_columns;	   /* struct sheet_record; with usage_columns */
extern const struct columns usage_columns;	   /* struct usage */
extern const struct columns clock_columns;	   /* of an attempt, once it has a row */
extern const struct columns rank_columns;	   /* struct rank_record */
extern const struct columns process_columns;	   /* struct proc_record */
extern const struct columns process_call_columns;  /* of it, its system calls and whose they are */
extern const struct columns process_total_columns; /* of it, what samples can raise */
extern const struct columns event_owner_columns;   /* struct event_row, of the attempt */
extern const struct columns phase_row_columns;	   /* struct phase_row, but for its phase */
extern const struct columns event_columns;	   /* struct proc_event */
extern const struct columns event_sql_columns;	   /* the same without the type */
extern const struct columns phase_columns;	   /* struct phase_record */
extern const struct columns rung_columns;	   /* struct rung */
extern const struct columns unknown_columns;	   /* struct unknown_note */
extern const struct columns syscall_columns;	   /* struct syscall_use */

/* struct proc_sample: what is kept once per process, and what is kept there as it was first. */
extern const struct columns sample_process_columns;
extern const struct columns sample_shared_columns;
extern const struct columns image_columns; /* what an image says of it instead */

/* What is learned from runs. */
extern const struct columns run_owner_columns; /* struct run_record: whose it is; only read */
extern const struct columns run_columns;       /* the rest of it */
extern const struct columns pattern_columns;   /* struct pattern */
extern const struct columns estimate_columns;  /* struct estimate */
extern const struct columns score_columns;     /* struct estimate_score */

#endif
