/*
 * startup - where a rank's start-up ends: with its first rest.
 *
 * A program that is started loads: it rises from little to what it works with, for as long
 * as the machine and the other ranks let it. Who does that first has caused nothing. So no rise
 * counts that begins before memory has once stayed where it is, for some samples and for a
 * good part of the time since the record began. Who waits before it loads rests twice: a rest that
 * is followed by twice as much memory, another rest and another rise is not the end yet, unless
 * that goes on as it began, in blocks of one size; after a
 * restart, which surely is a beginning, no other rise is asked for. A record
 * that begins later than its rank begins with a rest, and loses nothing.
 */
#ifndef PROCTOR_CROSSRANK_STARTUP_H
#define PROCTOR_CROSSRANK_STARTUP_H

#include "crossrank/telemetry.h"

struct startup {
	size_t begin; /* the first sample of the rest that ends it: from here on rises count */
	size_t first; /* of the first rest; before begin: it seems to have loaded in between */
	bool has_rest;
	/* Filled by sections.c, which knows the others. */
	bool is_doubtful; /* no others load like that: all from the first rest on counts */
	size_t loaded;	  /* where begin was before that */
};

/* is_again: another program of this rank was there before, so that it surely begins with a start.
 */
void startup_find(const struct stream *s, bool is_again, struct startup *ret);

#endif
