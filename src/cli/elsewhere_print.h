/*
 * elsewhere_print - the rows of a daemon's record, as a verb prints those of its own.
 */
#ifndef PROCTOR_CLI_ELSEWHERE_PRINT_H
#define PROCTOR_CLI_ELSEWHERE_PRINT_H

#include "base/buf.h"
#include "cli/elsewhere.h"

struct elsewhere_shape {
	bool json;
	bool is_list; /* in JSON: one list; else a line each */
	void (*add_titles)(struct buf *out);
	void (*add_line)(struct buf *out, const struct rpc_value *row); /* both for people */
	const char *none; /* what is said to these where there is nothing */
};

/*
 * Returns the exit status, and has said what went wrong. -ENOENT: no daemon shows us such a job,
 * and nothing is written or said.
 */
int elsewhere_print(enum elsewhere_rows rows, const struct elsewhere_question *question,
		    const struct elsewhere_shape *shape);

#endif
