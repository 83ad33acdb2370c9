/*
 * notice - the lines that nobody asked for: events, and how many were lost.
 */
#ifndef PROCTOR_RPC_NOTICE_H
#define PROCTOR_RPC_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/message.h"

/* json is one JSON value on one line. NULL: no memory, or json has a newline in it. */
struct message *notice_event(const char *topic, uint64_t wall_ns, const char *json, size_t len);

/* NULL: no memory. */
struct message *notice_lost(uint64_t count);

#endif
