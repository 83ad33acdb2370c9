/*
 * ranks_page - an analysis of ranks as JSON, or as a page for people.
 */
#ifndef PROCTOR_CLI_RANKS_RANKS_PAGE_H
#define PROCTOR_CLI_RANKS_RANKS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "crossrank/crossrank.h"

/* The files of a command line, and what came of them. */
struct ranks_input {
	char **files;
	int n_files;
	bool skips_invalid;
	bool may_be_empty; /* for whoever writes down that there was nothing */
	/* After reading. */
	uint64_t n_read, n_valid, n_invalid, n_cut, n_empty;
};

enum ranks_format { RANKS_TEXT, RANKS_MARKDOWN, RANKS_HTML, RANKS_JSON };

/* "text", "md", "html", "json". -EINVAL: no such format. */
int ranks_format_from_name(const char *name, enum ranks_format *ret);

/* Appends all of it. -ENOMEM. */
int ranks_write(struct buf *out, const struct rank_analysis *a, const struct ranks_input *input,
		enum ranks_format format);

/* Appends one <svg> element that needs nothing else: memory over time, the onset, phases below. */
void ranks_add_svg(struct buf *out, const struct rank_analysis *a);

#define RANKS_SPARK_COLUMNS 24

/* A rank's memory in so many block characters, the whole record of all ranks wide. */
void ranks_add_spark(struct buf *out, const struct rank_analysis *a, const struct rank *rank);

#endif
