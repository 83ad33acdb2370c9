/*
 * statement_rows - the tables of statements, one for each subject; for statements.c alone.
 */
#ifndef PROCTOR_STORE_STATEMENT_ROWS_H
#define PROCTOR_STORE_STATEMENT_ROWS_H

#include <stddef.h>

#include "store/columns.h"
#include "store/statements.h"

/* Columns of a statement, and what stands before their names where it must: "s.". */
struct part {
	const char *prefix;
	const struct columns *columns;
};

/*
 * text, in which for all columns of parts, in their order:
 *	@names   their names
 *	@values  a question mark each
 *	@sets    name = ?
 *	@merged  name = the new value where there is one, else the old
 *	@named   ? AS name
 *	@raised  name = the larger of it and new.name, or the one there is
 */
struct statement_row {
	enum statement id;
	const char *text;
	struct part parts[5];
};

struct statement_table {
	const struct statement_row *rows;
	size_t n;
};
extern const struct statement_table statements_writing, statements_reading, statements_retention,
	statements_learning;

/* A row of processes that only samples have made: no end of an attempt has told of it. */
#define IS_UNACCOUNTED "(n_samples IS NULL OR is_raised)"

/* A whole attempt, and its columns. */
#define ATTEMPT_SELECT                                               \
	"SELECT @names FROM attempts a JOIN jobs ON jobs.id = a.job" \
	" LEFT JOIN boots ON boots.id = a.boot "
#define ATTEMPT_PARTS                                                                        \
	{                                                                                    \
		{ "", &attempt_name_columns }, { "a.", &attempt_begin_columns },             \
			{ "a.", &attempt_progress_columns }, { "a.", &attempt_end_columns }, \
			{ "a.", &usage_columns },                                            \
	}

#endif
