/*
 * value - JSON that came from outside, read-only (jansson behind it).
 *
 * Everything that reads a value takes NULL and any type, and says "unknown"
 * where it does not find what it was asked for. So a path through a document is
 * read in one line: rpc_value_u64(rpc_value_get(params, "pid")).
 *
 * Strings hold no NUL and are valid UTF-8. Whole numbers fit into 64 bits with sign.
 */
#ifndef PROCTOR_RPC_VALUE_H
#define PROCTOR_RPC_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct rpc_value;

/*
 * A tree takes up to 80 times the memory of its text ("[{},{},{}…"): so a
 * document is measured before it is read.
 */
struct rpc_value_limits {
	size_t max_depth;  /* of lists and objects in each other */
	size_t max_values; /* all of them, at every depth; keys are not values */
};

/*
 * One document, with nothing but blanks around it. -EBADMSG: no JSON, a key
 * twice in one object, a number too large, a NUL, not UTF-8. -EMSGSIZE: beyond
 * the limits. -ENOMEM.
 */
int rpc_value_parse(const char *text, size_t len, const struct rpc_value_limits *limits,
		    struct rpc_value **ret, struct err *err);

/* NULL is fine. Returns NULL. */
struct rpc_value *rpc_value_free(struct rpc_value *v);

/* Hands over a member and frees the rest. NULL: there is none; all of it is freed. */
struct rpc_value *rpc_value_take(struct rpc_value *v, const char *key);

bool rpc_value_is_object(const struct rpc_value *v);
bool rpc_value_is_list(const struct rpc_value *v);
bool rpc_value_is_string(const struct rpc_value *v);
bool rpc_value_is_number(const struct rpc_value *v);
bool rpc_value_is_null(const struct rpc_value *v); /* false where there is none at all */

/* "a list", "the text 'abc'", "nothing": for messages. */
#define RPC_VALUE_SHOWN_BYTES 128
const char *rpc_value_show(const struct rpc_value *v, char shown[RPC_VALUE_SHOWN_BYTES]);

/* A member of an object, an element of a list; NULL: there is none. Borrowed from v. */
const struct rpc_value *rpc_value_get(const struct rpc_value *v, const char *key);
const struct rpc_value *rpc_value_at(const struct rpc_value *v, size_t i);

/* Elements of a list, members of an object; else 0. */
size_t rpc_value_len(const struct rpc_value *v);

/* For each member of an object, in its order. */
typedef void rpc_member_fn(void *ctx, const char *key, const struct rpc_value *member);
void rpc_value_each(const struct rpc_value *v, rpc_member_fn *fn, void *ctx);

const char *rpc_value_string(const struct rpc_value *v); /* or NULL; borrowed */
uint64_t rpc_value_u64(const struct rpc_value *v);	 /* or U64_UNKNOWN; no fraction, no sign */
int64_t rpc_value_i64(const struct rpc_value *v, int64_t otherwise);
double rpc_value_f64(const struct rpc_value *v); /* or NaN; a whole number is one too */
bool rpc_value_bool(const struct rpc_value *v, bool otherwise);

/* Writes it as it was, but for blanks, escapes and the digits of fractions. NULL becomes null. */
void rpc_value_write(const struct rpc_value *v, struct json *j);

#endif
