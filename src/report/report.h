/*
 * report - one page about one attempt, for a person or a program.
 *
 * The text begins with the verdict and its evidence, then exact numbers with
 * their source, sheets, the largest processes, a chart, the life of processes,
 * and what could not be measured. JSON has the fields of the contract. The HTML page needs nothing
 * beside it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/csv.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/snapshot.h"

/*
 * An attempt that was not stored, or not all of it, carries an unknown note of
 * this name: its why ends the summary ("not recorded: …").
 */
#define REPORT_NOTE_RECORDING "recording"
#define REPORT_NOTE_ELSEWHERE "the work"

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_MARKDOWN, REPORT_HTML };

/* "text", "json", "md", "html". -EINVAL: no such format. */
const char *report_format_name(enum report_format format);
int report_format_from_name(const char *name, enum report_format *ret);

/* Appends the whole report to out. -ENOMEM. */
int report_write(const struct attempt *a, enum report_format format, struct buf *out);

/* The few lines that "proctor run" ends with, each beginning with "proctor:". -ENOMEM. */
int report_write_summary(const struct attempt *a, struct buf *out);

/* What "proctor why" knows beside the record. */
struct why_known {
	const struct attempt *attempt;
	const char *waits;	      /* what it waits for now; "": it has ended, or not visible */
	struct cause cause;	      /* of that */
	const char *reasons;	      /* of what it had more than usual beside its standing; "" */
	const struct attempt *others; /* that ran at the same time */
	size_t n_others;
	unsigned cpu_count; /* of the host; 0: unknown */
};

/*
 * The verdict, in at most ten lines or as JSON: what ended the attempt or holds it up, on what
 * evidence, since when, what else contributed, and what to try. -ENOMEM.
 */
int report_write_why(const struct why_known *why, bool as_json, struct buf *out);

/* "1.5 GB", "312 MB", "-" ; "1h02m", "3.21 s", "120 ms". For every screen of proctor. */
void report_add_bytes(struct buf *out, uint64_t bytes);
void report_add_duration(struct buf *out, uint64_t ns);

/* How long it lasted; ">2.00 s": at least, as nobody saw its end. */
void report_add_lasted(struct buf *out, const struct episode *e);
/* For narrow columns: "exit 3", "SIGKILL", "-". */
void report_add_status(struct buf *out, struct exit_status status);

/* ---- a snapshot for Prometheus ---- */

/*
 * Appends every metric of the host, of its GPUs and of the jobs that run, in the text
 * exposition format, version 0.0.4: base units (bytes, seconds, hertz, ratios from 0 to 1),
 * a name with _total for what only grows, labels "job_id" and "gpu". What is unknown has no
 * line, which is how that format says it. -ENOMEM.
 */
int report_prometheus(struct buf *out, const struct snapshot *snap);

/* ---- tables for other programs ---- */

/*
 * Each has a heading, and rows with the keys and units of the JSON of the same
 * thing; beside a number in MB or seconds stands the same in bytes or ns, exactly.
 * Lists inside a row are JSON. A heading may grow: columns go by their names.
 */
enum report_table {
	REPORT_SAMPLES,	  /* of processes, as "history --json" */
	REPORT_SNAPSHOTS, /* of the host; the processes are in the samples */
	REPORT_EVENTS,	  /* of processes */
	REPORT_JOBS,	  /* one row per attempt */
	REPORT_SHEETS,	  /* one row per try */
	REPORT_PROCESSES, /* from birth to death */
};

void report_csv_heading(struct csv *c, enum report_table table);
/* resolution_seconds: as in a snapshot; n_samples stand behind it: 1, or those of the minute. */
void report_csv_sample(struct csv *c, uint64_t wall_ns, double resolution_seconds,
		       uint64_t n_samples, int attempt_num, const struct proc_sample *p);
void report_csv_snapshot(struct csv *c, const struct snapshot *s);
void report_csv_event(struct csv *c, int attempt_num, const struct proc_event *ev);

/* Called behind each row, to hand on what was written. Non-zero stops and is returned. */
typedef int report_row_fn(void *ctx);

/* The attempt's row of jobs, or its rows of sheets or processes. -ENOMEM. */
int report_csv_attempt(struct csv *c, enum report_table table, const struct attempt *a,
		       report_row_fn *fn, void *ctx);
