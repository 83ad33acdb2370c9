/*
 * shape - telemetry records that are like one before them.
 *
 * Nearly all lines of a writer are its last one with other values. A shape is a record that
 * event_read() took with care, with the places of its numbers and names. A line with the same bytes
 * between them is read by comparing and counting digits.
 *
 * It only says yes: a sample that it takes is what the careful reader would have made of it, but
 * for the metadata, of which analysis looks at the clock alone. All else is left to that one, which
 * knows the reason of a refusal.
 */
#pragma once

#include "base/arena.h"
#include "crossrank/reading/event.h"

#define SHAPE_MAX_VALUES 64

struct shape {
	struct arena arena;
	struct text text; /* s NULL: none was learned */
	struct telemetry_event event;
	uint32_t seen; /* a bit for each field */
	struct shape_value {
		uint32_t at, len; /* in the text, quotes included */
		int8_t field;	  /* or SHAPE_IGNORED, SHAPE_BOOT */
		bool is_text;
	} values[SHAPE_MAX_VALUES];
	size_t n_values;
};

/* Those of several writers that take turns. All zero: none yet. */
#define SHAPES_MAX 8
struct shapes {
	struct shape items[SHAPES_MAX];
	unsigned last;
};

void shapes_release(struct shapes *s);

/* True: *ret is the record, its texts valid as long as text, and until the next call. */
bool shapes_read(struct shapes *s, const char *text, size_t n, struct telemetry_event *ret);

/* The record of version 2 that ev was made of. What is no sample is not learned. */
void shapes_learn(struct shapes *s, const struct jnode *record, const struct telemetry_event *ev);
