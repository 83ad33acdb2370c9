/*
 * output - where the data of a verb goes: stdout or a file, piece by piece.
 *
 *	CLEANUP(output_release) struct output out = OUTPUT_INIT;
 *
 *	r = output_open(&out, path, &err);
 *	…append rows to out.buf, and after each: r = output_pass(&out);
 *	return output_end(&out, r, &err);
 *
 * A file (0600; for_others: as the umask has it; or as the one of ours that it replaces) appears
 *under its name when it is whole: until then it is another one beside it, which a failure or a
 *signal to end (INT, TERM, HUP) takes away again. What is no regular file (a pipe, a device) is
 *written as it is.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "model/anomaly.h"
#include "model/snapshot.h"

struct output {
	struct buf buf;
	int fd;
	bool for_others;    /* set before output_open(): the file is for programs of other users */
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
 * name, and releases all. Returns the exit status, and has said what went wrong, unless it is that
 * nobody reads on ("| head").
 */
int output_end(struct output *out, int r, struct err *err);

/*
 * ---- show: hosts, processes and anomalies as lines for people, the same in every verb ----
 *
 * Everything appends. Foreign text is made safe for a terminal. Unknown is "-".
 */

/* "memory 3 GB of 16 GB used, 12 GB available; load 0.10 0.20 0.30" */
void show_host(struct buf *out, const struct system_sample *sys);

/* "GPU 0: 50 % busy, 1 GB of 80 GB used, 40 C, 300 W", a line. */
void show_gpu(struct buf *out, const struct gpu_sample *gpu);

/* A table: pid, state, CPU, memory, job and command. Each line is complete. */
void show_process_titles(struct buf *out);
void show_process(struct buf *out, const struct proc_sample *p);

/* "2026-11-15 03:45:08.123", local time. */
void show_moment(struct buf *out, uint64_t wall_ns);

/* What text holds, to the right of a column of so many characters, and two blanks; empties it. */
void show_cell(struct buf *out, struct buf *text, size_t width);

/* Foreign text cut to so many characters, with blanks up to there and two more. */
void show_text(struct buf *out, const char *text, size_t width);

/* ---- anomalies: episodes as a table, and as objects ---- */

/* A table: when it began, how long it lasted, how bad, what, whose. Each line is complete. */
void show_anomaly_titles(struct buf *out);
void show_anomaly(struct buf *out, const struct episode *e);

/* An object. attempt_num 0: of none. */
void show_anomaly_json(struct json *j, const struct episode *e, int attempt_num);
