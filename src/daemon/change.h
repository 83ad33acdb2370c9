/*
 * change - how the beginnings and ends of jobs and sheets are told: the same on the bus and
 * in what was recorded.
 */
#ifndef PROCTOR_DAEMON_CHANGE_H
#define PROCTOR_DAEMON_CHANGE_H

#include "bus/bus.h"
#include "daemon/watch.h"

/* sheet is NULL for changes of the job. */
enum topic change_topic(enum watch_change change, const struct attempt *a,
			const struct sheet_record *sheet);

/* U64_UNKNOWN: nobody knows. */
uint64_t change_time(enum watch_change change, const struct attempt *a,
		     const struct sheet_record *sheet);

/* An object, without its braces. */
void change_write_fields(struct json *j, enum watch_change change, const struct attempt *a,
			 const struct sheet_record *sheet);

#endif
