/*
 * json_number - a number as json.h writes it, to a place that has room for it.
 *
 * For whoever writes so many that asking for room each time would cost more than their digits.
 * Each needs JSON_NUMBER_BYTES at most, writes no comma and no NUL, and returns where it ended.
 */
#ifndef PROCTOR_BASE_JSON_NUMBER_H
#define PROCTOR_BASE_JSON_NUMBER_H

#include <stdint.h>

#define JSON_NUMBER_BYTES 32

/* U64_UNKNOWN becomes null. */
char *json_put_u64(char *at, uint64_t v);
char *json_put_i64(char *at, int64_t v);
/* NaN and infinities become null. */
char *json_put_f64(char *at, double v);
char *json_put_null(char *at);

#endif
