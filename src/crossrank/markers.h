/*
 * markers - which records name a collective operation, in which all ranks take part.
 */
#ifndef PROCTOR_CROSSRANK_MARKERS_H
#define PROCTOR_CROSSRANK_MARKERS_H

#include "crossrank/event.h"

/* By its type, its context, or the name of the phase that it begins. */
bool marker_is_collective(const struct telemetry_event *ev);

#endif
