/*
 * json - a streaming JSON writer: no tree, commas by itself.
 *
 *	struct json j;
 *	json_init(&j, &buf);
 *	json_begin_object(&j);
 *	json_key(&j, "pid");
 *	json_u64(&j, 17);
 *	json_end_object(&j);
 *
 * Unknown numbers come out as null. Strings come out as valid UTF-8: a byte
 * that is not becomes U+FFFD. Doubles are in the shortest form that reads back
 * to the same bits. Memory failure shows in buf_error() of the buffer. (json_str
 * and json_none are not called json_string and json_null because jansson's are.)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct json {
	struct buf *out;
	bool need_comma;
};

/* Appends to out, which the caller owns. */
void json_init(struct json *j, struct buf *out);

/* The same, and begins an object. */
void json_init_object(struct json *j, struct buf *out);

void json_begin_object(struct json *j);
void json_end_object(struct json *j);
void json_begin_array(struct json *j);
void json_end_array(struct json *j);
void json_key(struct json *j, const char *key);
/*
 * For whoever writes many members at once, commas and all, with json_put_u64() and its like: room
 * for n bytes, and then where they end, which may be behind the colon of a key whose value comes
 * next. NULL: no memory.
 */
char *json_room(struct json *j, size_t n);
void json_room_end(struct json *j, char *end, bool is_key);

/* NULL becomes null. */
void json_str(struct json *j, const char *s);
void json_str_n(struct json *j, const char *s, size_t n);
/* U64_UNKNOWN becomes null. */
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
/* NaN and infinities become null. */
void json_f64(struct json *j, double v);
void json_bool(struct json *j, bool v);
void json_none(struct json *j); /* null */
/* Text that is one JSON value already: it is not looked at. */
void json_raw(struct json *j, const char *json, size_t n);

/* A key and its value in one line. */
void json_key_string(struct json *j, const char *key, const char *s);
void json_key_u64(struct json *j, const char *key, uint64_t v);
void json_key_i64(struct json *j, const char *key, int64_t v);
/* Numbers that are never negative when known: below 0 becomes null. */
void json_key_int(struct json *j, const char *key, int v);
void json_key_f64(struct json *j, const char *key, double v);
void json_key_bool(struct json *j, const char *key, bool v);
void json_key_null(struct json *j, const char *key);
/* The value is an object or array, which begins. */
void json_key_object(struct json *j, const char *key);
void json_key_array(struct json *j, const char *key);

/*
 * A number to a place that has room for it, for whoever writes so many that asking for room each
 * time would cost more than their digits. Each needs JSON_NUMBER_BYTES at most, writes no comma and
 * no NUL, and returns where it ended.
 */

#define JSON_NUMBER_BYTES 32

/* U64_UNKNOWN becomes null. */
char *json_put_u64(char *at, uint64_t v);
char *json_put_i64(char *at, int64_t v);
/* NaN and infinities become null. */
char *json_put_f64(char *at, double v);
