/*
 * event_json - a telemetry record as the JSON that it came from, or would have.
 */
#ifndef PROCTOR_CROSSRANK_EVENT_JSON_H
#define PROCTOR_CROSSRANK_EVENT_JSON_H

#include "base/json.h"
#include "crossrank/event.h"

/* The whole record, in the order of the format, session_id last. */
void event_write_json(struct json *j, const struct telemetry_event *ev);

#endif
