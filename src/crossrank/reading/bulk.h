/*
 * bulk - reads ordinary telemetry records as fast as the machine can.
 *
 * The fence of simdjson, and the one file in C++. It only says yes: a record
 * that it takes is exactly what record_read() would have made of it. Whatever is
 * unusual (an unknown or repeated field, an escaped name, a phase, a fault of any
 * kind) it leaves to that one, which looks closer and knows the reason.
 */
#ifndef PROCTOR_CROSSRANK_READING_BULK_H
#define PROCTOR_CROSSRANK_READING_BULK_H

#include <stdbool.h>
#include <stddef.h>

#include "crossrank/reading/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* So many bytes behind a text may be looked at; what they are does not matter. */
#define BULK_PADDING 64

struct bulk;

/* NULL when memory runs out. */
struct bulk *bulk_new(void);
struct bulk *bulk_free(struct bulk *bulk); /* NULL is fine. Returns NULL. */

/*
 * True: *ret is the record, its texts valid until the next call. False: ask
 * record_read(). Memory that runs out is a false too.
 */
bool bulk_read(struct bulk *bulk, const char *text, size_t n, struct telemetry_event *ret);

/* True for valid UTF-8. */
bool bulk_is_utf8(const char *text, size_t n);

#ifdef __cplusplus
}
#endif

#endif
