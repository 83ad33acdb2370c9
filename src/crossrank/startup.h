/*
 * startup - where a rank's start-up ends: with its first rest.
 *
 * A program that is started loads: it rises from little to what it works with, for as long
 * as the machine and the other ranks let it. Who does that first has caused nothing. So no rise
 * counts that begins before memory has once stayed where it is, for some samples and for a
 * good part of the time since the record began. Who waits before it loads rests twice: a rest that
 * is followed by twice as much memory, another rest and another rise is not the end yet. A record
 * that begins later than its rank begins with a rest, and loses nothing.
 */
#ifndef PROCTOR_CROSSRANK_STARTUP_H
#define PROCTOR_CROSSRANK_STARTUP_H

#include "crossrank/telemetry.h"

/* The first sample of the rest that ends it; false: there is no rest. */
bool startup_end(const struct stream *s, size_t *ret);

#endif
