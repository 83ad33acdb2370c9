/*
 * json_cursor - reads JSON in passing: no tree, no memory but for the strings it hands out.
 *
 *	json_cursor_init(&c, text, len);
 *	if (json_cursor_enter(&c, '{'))
 *		while (json_cursor_next_key(&c, &key, &n))
 *			if (is_wanted(key, n))
 *				pid = json_cursor_u64(&c);
 *			else
 *				json_cursor_skip(&c);
 *
 * For long documents of a shape that is known, where a tree costs more than the answer. Each
 * value must be taken, by one of the functions that do; one of another type than asked for is
 * passed over and unknown. Text that is no JSON ends every loop and leaves is_bad; what is
 * passed over is not checked in full. Of a key that is there twice both are seen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct json_cursor {
	const char *at, *end;
	bool is_first; /* of its list or object: no comma before it */
	bool is_bad;
};

/* The text is borrowed. */
void json_cursor_init(struct json_cursor *c, const char *text, size_t len);

/* Into an object ('{') or a list ('['). False: it is something else, which is passed over. */
bool json_cursor_enter(struct json_cursor *c, char bracket);

/* False: the object is over. The key is as it stands in the text, with its escapes. */
bool json_cursor_next_key(struct json_cursor *c, const char **ret_key, size_t *ret_len);

/* False: the list is over. */
bool json_cursor_next_element(struct json_cursor *c);

double json_cursor_f64(struct json_cursor *c);	 /* or NaN */
uint64_t json_cursor_u64(struct json_cursor *c); /* or U64_UNKNOWN: no fraction, no sign */
int64_t json_cursor_i64(struct json_cursor *c, int64_t otherwise);

/* In the arena's memory; NULL: no string, or no memory. A NUL in it becomes U+FFFD. */
char *json_cursor_string(struct json_cursor *c, struct arena *arena);

/* The text of a value as it stands there. */
void json_cursor_value(struct json_cursor *c, const char **ret_text, size_t *ret_len);
void json_cursor_skip(struct json_cursor *c);

/* Whether a key is this one. */
bool json_cursor_is(const char *key, size_t len, const char *name);
