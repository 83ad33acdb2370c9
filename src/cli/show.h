/*
 * show - hosts, processes and anomalies as lines for people, the same in every verb.
 *
 * Everything appends. Foreign text is made safe for a terminal. Unknown is "-".
 */
#ifndef PROCTOR_CLI_SHOW_H
#define PROCTOR_CLI_SHOW_H

#include "base/buf.h"
#include "base/json.h"
#include "model/anomaly.h"
#include "model/snapshot.h"
#include "store/store.h"

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

#endif
