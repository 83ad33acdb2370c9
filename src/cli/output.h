/*
 * output - where the data of a verb goes: stdout or a file, piece by piece.
 *
 *	CLEANUP(output_release) struct output out = OUTPUT_INIT;
 *
 *	r = output_open(&out, path, &err);
 *	…append rows to out.buf, and after each: r = output_pass(&out);
 *	return output_end(&out, r, &err);
 *
 * A file (0600, or as the one of ours that it replaces) appears under its name when it is
 * whole: until then it is another one beside it, which a failure or a signal to end (INT,
 * TERM, HUP) takes away again. What is no regular file (a pipe, a device) is written as it is.
 */
#ifndef PROCTOR_CLI_OUTPUT_H
#define PROCTOR_CLI_OUTPUT_H

#include <signal.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct output {
	struct buf buf;
	int fd;
	char *path;	    /* NULL: not a file that gets its name at the end */
	char *path_for_now; /* until then */
	sigset_t held;	    /* signals that wait until nothing is left behind */
};

#define OUTPUT_INIT                       \
	{                                 \
		.buf = BUF_INIT, .fd = -1 \
	}

/* path NULL or "-": stdout. From here on a closed pipe is a failed write, and no signal. */
int output_open(struct output *out, const char *path, struct err *err);
void output_release(struct output *out); /* what was not ended is taken away */

/* Whether a person looks at it. */
bool output_is_terminal(const struct output *out);

/* Writes what is there once it is worth a call. -EINTR: asked to end. */
int output_pass(struct output *out);

/* Writes what is there at once, for who reads along. */
int output_flush(struct output *out);

/*
 * The last step of a verb. r is what came of the others: 0, or negative, with err
 * set unless it was a write that failed. Writes the rest and gives the file its
 * name. Returns the exit status, and has said what went wrong, unless it is that nobody
 * reads on ("| head").
 */
int output_end(struct output *out, int r, struct err *err);

#endif
