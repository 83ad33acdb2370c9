/*
 * ranks_page - an analysis of ranks as JSON, or as a page for people.
 */
#ifndef PROCTOR_CLI_RANKS_PAGE_H
#define PROCTOR_CLI_RANKS_PAGE_H

#include "cli/ranks.h"

enum ranks_format { RANKS_TEXT, RANKS_MARKDOWN, RANKS_HTML, RANKS_JSON };

/* "text", "md", "html", "json". -EINVAL: no such format. */
int ranks_format_from_name(const char *name, enum ranks_format *ret);

/* Appends all of it. -ENOMEM. */
int ranks_write(struct buf *out, const struct rank_analysis *a, const struct ranks_input *input,
		enum ranks_format format);

#endif
