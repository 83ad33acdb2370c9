/*
 * notice - the lines that nobody asked for: events, and how many were lost.
 */
#ifndef PROCTOR_RPC_NOTICE_H
#define PROCTOR_RPC_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json_cursor.h"
#include "rpc/message.h"

/* json is one JSON value on one line. NULL: no memory, or json has a newline in it. */
struct message *notice_event(const char *topic, uint64_t wall_ns, const char *json, size_t len);

/* NULL: no memory. */
struct message *notice_lost(uint64_t count);

/*
 * Whether the line is an event of this topic; then ret stands before its data. Only of lines
 * as they are written here, in which the topic comes before the data, is that said.
 */
bool notice_find_data(const char *line, size_t len, const char *topic, struct json_cursor *ret);

#endif
