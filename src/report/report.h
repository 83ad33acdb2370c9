/*
 * report - one page about one attempt, for a person or a program.
 *
 * The text begins with the verdict and its evidence, then exact numbers with
 * their source, sheets, the largest processes, a chart, the life of processes,
 * and what could not be measured. JSON has the fields of the contract.
 */
#ifndef PROCTOR_REPORT_REPORT_H
#define PROCTOR_REPORT_REPORT_H

#include "base/buf.h"
#include "model/job.h"

/*
 * An attempt that was not stored, or not all of it, carries an unknown note of
 * this name: its why ends the summary ("not recorded: …").
 */
#define REPORT_NOTE_RECORDING "recording"

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_MARKDOWN };

/* "text", "json", "md". -EINVAL: no such format. */
int report_format_from_name(const char *name, enum report_format *ret);

/* Appends the whole report to out. -ENOMEM. */
int report_write(const struct attempt *a, enum report_format format, struct buf *out);

/* The few lines that "proctor run" ends with, each beginning with "proctor:". -ENOMEM. */
int report_write_summary(const struct attempt *a, struct buf *out);

/* "1.5 GB", "312 MB", "-" ; "1h02m", "3.21 s", "120 ms". For every screen of proctor. */
void report_add_bytes(struct buf *out, uint64_t bytes);
void report_add_duration(struct buf *out, uint64_t ns);

#endif
