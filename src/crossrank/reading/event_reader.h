/*
 * event_reader - what one telemetry record says, and if it is refused, why.
 */
#ifndef PROCTOR_CROSSRANK_READING_EVENT_READER_H
#define PROCTOR_CROSSRANK_READING_EVENT_READER_H

#include "base/arena.h"
#include "crossrank/reading/event.h"
#include "crossrank/reading/jtree.h"

enum record_rule {
	RECORD_STRICT, /* version 2 alone */
	RECORD_LOAD,   /* and records of the time before it, with defaults for what they lack */
	RECORD_SESSION /* and a session_id: what files of many ranks have */
};

/*
 * Reads the record in text[0..n). On REASON_NONE *ret is filled; its texts and metadata are the
 * arena's. Memory that runs out is -ENOMEM in *ret_error, which is otherwise 0.
 */
enum reason record_read(const char *text, size_t n, enum record_rule rule, struct arena *arena,
			struct telemetry_event *ret, int *ret_error);

/*
 * For which field record_read() refused a record, by the rule for files of many ranks. It is the
 * arena's or a constant; s NULL: for none, or nobody knows (older records have many names for one).
 */
struct text record_find_culprit(const char *text, size_t n, enum reason reason,
				struct arena *arena);

/*
 * For who makes records: metadata from the text of a JSON object, and what that says of the clock.
 * It must outlive the event, as the arena must. -EINVAL: no object; -ENOMEM.
 */
int event_set_metadata(struct telemetry_event *ev, const char *json, size_t n, struct arena *arena);

#endif
