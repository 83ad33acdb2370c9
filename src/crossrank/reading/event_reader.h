/*
 * event_reader - what one telemetry record says, and if it is refused, why.
 */
#pragma once

#include "base/arena.h"
#include "crossrank/reading/event.h"
#include "crossrank/reading/jtree.h"

enum record_rule {
	RECORD_STRICT, /* version 2 alone */
	RECORD_LOAD,   /* and records of the time before it, with defaults for what they lack */
	RECORD_SESSION /* and a session_id: what files of many ranks have */
};

/* Why a record was refused. */
struct refusal {
	enum reason reason; /* REASON_NONE: it was not */
	struct text field;  /* the arena's or a constant; s NULL: none, or an older record */
	int error;	    /* -ENOMEM: memory ran out, and the rest says nothing */
};

/*
 * Reads the record in text[0..n). On REASON_NONE *ret is filled; its texts and metadata are the
 * arena's.
 */
struct refusal record_read(const char *text, size_t n, enum record_rule rule, struct arena *arena,
			   struct telemetry_event *ret);

/*
 * For who makes records: metadata from the text of a JSON object, and what that says of the clock.
 * It must outlive the event, as the arena must. -EINVAL: no object; -ENOMEM.
 */
int event_set_metadata(struct telemetry_event *ev, const char *json, size_t n, struct arena *arena);
