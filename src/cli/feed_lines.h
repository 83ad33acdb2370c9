/*
 * feed_lines - the lines of a feed, which wait to be put in order.
 */
#ifndef PROCTOR_CLI_FEED_LINES_H
#define PROCTOR_CLI_FEED_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "daemon/daemon.h"
#include "bus/bus.h"
#include "cli/twins.h"
#include "store/store.h"

struct feed_line;

struct feed_lines {
	struct feed_line *items;
	size_t n, cap, n_passed;
	struct buf text; /* of all of them */
	bool json;
	bool is_brief;		   /* for people, below a heading that says when: no columns */
	const struct twins *twins; /* how jobs are called there; or NULL */
};

void feed_lines_release(struct feed_lines *lines);

/* One more; without memory it is left out, and the text has the error. */
void feed_lines_add_change(struct feed_lines *lines, enum change change, const struct attempt *a,
			   const struct sheet_record *sheet);
void feed_lines_add_phase(struct feed_lines *lines, const struct phase_row *row, enum topic topic);
void feed_lines_add_anomaly(struct feed_lines *lines, const struct told *told);
void feed_lines_add_event(struct feed_lines *lines, const struct event_row *row);

/*
 * By time. Of the same time, processes begin after the others of these and end before them; and the
 * others are as they were added.
 */
void feed_lines_sort(struct feed_lines *lines);

/* In that order: until when those that are no events come before this one. */
uint64_t feed_lines_until(const struct event_row *row);

/* Appends those up to a time to out, and counts them. When all are passed they are forgotten. */
void feed_lines_pass(struct feed_lines *lines, uint64_t until_wall_ns, struct buf *out,
		     uint64_t *n_passed);

/* The next one up to a time, without its end of line; false: there is none. Valid until the next
 * call. */
bool feed_lines_take(struct feed_lines *lines, uint64_t until_wall_ns, uint64_t *ret_wall_ns,
		     const char **ret_text, size_t *ret_len);

/* What stands in each column, for people; NULL and numbers below 0: nothing. */
struct feed_columns {
	uint64_t wall_ns;
	int attempt_num, sheet_num;
	pid_t pid;
	const char *event;
	struct exit_status status;
	const char *job_id, *details;
	bool is_long; /* the details are worth it */
};

/* Lines that wait for nothing. */
void feed_lines_write_columns(struct buf *out, const struct feed_columns *line);
void feed_lines_write_event(struct buf *out, const struct event_row *row, bool json);
void feed_lines_add_heading(struct buf *out);

#endif
