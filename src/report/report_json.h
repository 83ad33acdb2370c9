/*
 * report_json - the report as an object of the contract, with proctor's own fields beside it.
 *
 * Long jobs have more samples than a report needs: then each point of series[]
 * stands for series_samples_per_point of them (fewer where a sheet ends), with
 * the highest of each value and the time of the last. History has them all.
 */
#ifndef PROCTOR_REPORT_REPORT_JSON_H
#define PROCTOR_REPORT_REPORT_JSON_H

#include "base/buf.h"
#include "base/json.h"
#include "report/facts.h"

/* One line. -ENOMEM. */
int json_report_write(struct buf *out, const struct facts *f);

/* The value of ranks[] of a sheet. */
void json_write_ranks(struct json *j, const struct sheet_record *sheet);

/* The value of syscalls of a process, from its text (syscall_text_write()); null: nobody counted.
 */
void json_write_calls(struct json *j, const char *text);

#endif
