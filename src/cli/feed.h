/*
 * feed - what happened to jobs, their sheets, phases and processes, and what was out of the
 * ordinary, a line each, from the record.
 *
 * The first feed_read() has what was recorded, by time. Each further one has what was recorded
 * since then, also what happened earlier and was written late. Nothing is printed twice and nothing
 * is left out in between: events of processes are read on from the last row, and everything else is
 * known by its identity in the record.
 */
#ifndef PROCTOR_CLI_FEED_H
#define PROCTOR_CLI_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/output.h"
#include "cli/twins.h"
#include "store/store.h"

struct feed_options {
	const char *job_id; /* NULL: any */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns;	   /* 0: no end */
	bool json;		   /* else for people */
	bool is_brief;		   /* of these without columns */
	bool is_from_now;	   /* nothing of what was recorded before */
	bool is_following;	   /* there will be further reads */
	const struct twins *twins; /* of those without columns: how jobs are called; or NULL */
};

struct feed;

/* The store and the strings of the options are borrowed. NULL: no memory. */
struct feed *feed_new(struct store *store, const struct feed_options *options);
struct feed *feed_free(struct feed *feed);

/* Lines are appended to out and passed on. */
int feed_read(struct feed *feed, struct output *out, struct err *err);

/*
 * For who prints the events of processes in between, instead of feed_read(): reads all others that
 * were recorded, and then appends those up to a time, and counts them.
 */
int feed_read_others(struct feed *feed, struct err *err);
void feed_pass_others(struct feed *feed, uint64_t until_wall_ns, struct output *out);

/* The same one by one, without its end of line; false: there is none up to that time. Valid until
 * the next call. */
bool feed_take_other(struct feed *feed, uint64_t until_wall_ns, uint64_t *ret_wall_ns,
		     const char **ret_text, size_t *ret_len);

/* How many there were so far. */
uint64_t feed_count(const struct feed *feed);

/* ---- lines of something else, for people ---- */

/* What stands in each column; NULL and numbers below 0: nothing. */
struct feed_columns {
	uint64_t wall_ns;
	int attempt_num, sheet_num;
	pid_t pid;
	const char *event;
	struct exit_status status;
	const char *job_id, *details;
	bool is_long; /* the details are worth it */
};

void feed_add_columns(struct buf *out, const struct feed_columns *line);

/* The line above them. */
void feed_add_heading(struct buf *out);

#endif
