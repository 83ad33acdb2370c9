/*
 * raw_event - what happened to a process, as bytes that are kept until somebody asks for it.
 *
 * Births and deaths come in floods, and most of them nobody reads: they are rendered for who does.
 */
#ifndef PROCTOR_DAEMON_METHODS_RAW_EVENT_H
#define PROCTOR_DAEMON_METHODS_RAW_EVENT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"
#include "bus/bus.h"
#include "model/job.h"

/* Appends it to an empty buf; buf_error() tells whether there was room. */
void raw_event_pack(struct buf *out, const struct proc_event *ev, int attempt_num);

/* The object that subscribers of its topic get. bytes: as packed, where malloc() would put them. */
void raw_event_write_json(struct json *j, const char *bytes);

/* "": of none. */
const char *raw_event_job_id(const char *bytes);

/* The same object of one that was never packed. */
void process_event_write_json(struct json *j, const struct proc_event *ev, int attempt_num);

/* Which topic such an event is of. */
enum topic process_event_topic(enum event_type type);

#endif
