/*
 * change - how the beginnings and ends of jobs and sheets are told: the same on the bus and
 * in what was recorded.
 */
#ifndef PROCTOR_BUS_CHANGE_H
#define PROCTOR_BUS_CHANGE_H

#include "bus/topic.h"
#include "model/job.h"

enum change {
	CHANGE_JOB_STARTED,
	CHANGE_SHEET_STARTED,
	CHANGE_SHEET_ENDED,
	CHANGE_JOB_ENDED, /* the attempt then has its end; its runner may be lost without one */
};

/* sheet is NULL for changes of the job. */
enum topic change_topic(enum change change, const struct attempt *a,
			const struct sheet_record *sheet);

/* U64_UNKNOWN: nobody knows. */
uint64_t change_time(enum change change, const struct attempt *a, const struct sheet_record *sheet);

/* An object, without its braces. */
void change_write_fields(struct json *j, enum change change, const struct attempt *a,
			 const struct sheet_record *sheet);

#endif
