/*
 * daemon_event - what a daemon says has happened, as a line of the timeline; an anomaly also as a
 * flag of what it is about.
 */
#ifndef PROCTOR_TUI_DAEMON_EVENT_H
#define PROCTOR_TUI_DAEMON_EVENT_H

#include <stdbool.h>

#include "rpc/rpc.h"
#include "tui/scene.h"

/* A time of the daemon's, in unix seconds; what is none is U64_UNKNOWN. */
uint64_t daemon_event_ns(double seconds);

/* A number of something that is counted from 1; 0: there is none. */
int daemon_event_number(const struct rpc_value *v, const char *key);

bool daemon_event_is_anomaly(const char *topic);

/* timestamp in unix seconds. Of another job than the scene's: nothing. is_again: it was asked for,
 * and may have been told before. */
void daemon_event_tell(struct scene *s, const char *topic, double timestamp,
		       const struct rpc_value *data, bool is_again);

/* So many came faster than they were read; U64_UNKNOWN. */
void daemon_event_tell_loss(struct scene *s, uint64_t n);

#endif
