/*
 * jobs - reads job files, runs their commands, and knows whose each process is.
 */
#ifndef PROCTOR_JOBS_JOBS_H
#define PROCTOR_JOBS_JOBS_H

#include "base/err.h"
#include "model/job.h"

/*
 * Reads and checks a job file. -EINVAL: err names the file, the line and what
 * would be right. Nothing has run by then.
 */
int job_file_load(const char *path, struct job_spec *ret, struct err *err);

/* The same from text; name stands for the file in messages. */
int job_file_parse(const char *text, size_t len, const char *name, struct job_spec *ret,
		   struct err *err);

#endif
