/*
 * event_reader - what one telemetry record says, and if it is refused, why.
 *
 * Reads records of version 2, and those of the time before it with defaults for what they lack.
 */
#pragma once

#include "crossrank/reading/event.h"
#include "crossrank/reading/shape.h"

/* All zero: has read nothing yet. */
struct event_reader {
	struct arena arena; /* of the record that was read last */
	struct shapes shapes;
};

void event_reader_release(struct event_reader *r);

/* Why a record was refused. */
struct refusal {
	enum reason reason; /* REASON_NONE: it was not */
	struct text field;  /* the reader's or a constant; s NULL: none, or an older record */
	int error;	    /* -ENOMEM: memory ran out, and the rest says nothing */
};

/*
 * Reads the record in text[0..n). On REASON_NONE *ret is filled; what it points at is valid as long
 * as text, and until the next call.
 */
struct refusal event_read(struct event_reader *r, const char *text, size_t n,
			  struct telemetry_event *ret);

/*
 * For who makes records: metadata from the text of a JSON object, and what that says of the clock
 * and of a phase. Both it and the arena must outlive the event. -EINVAL: no object; -ENOMEM.
 */
int event_set_metadata(struct telemetry_event *ev, const char *json, size_t n, struct arena *arena);
