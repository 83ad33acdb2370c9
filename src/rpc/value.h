/*
 * value - JSON that came from outside, read-only (jansson behind it).
 *
 * Everything that reads a value takes NULL and any type, and says "unknown"
 * where it does not find what it was asked for. So a path through a document is
 * read in one line: rpc_value_u64(rpc_value_get(params, "pid")).
 *
 * Strings hold no NUL and are valid UTF-8. Whole numbers fit into 64 bits with sign.
 */
#pragma once

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

/*
 * How deep and how many: a look over JSON text before a tree is made of it. Counts without
 * checking: of text that is JSON the figures are right, of other text they bound what a parser
 * builds before it gives up.
 */
struct skim {
	size_t depth;  /* the deepest nesting of lists and objects */
	size_t values; /* at most so many values are in it */
};

struct skim skim_text(const char *text, size_t len);

/*
 * ---- fields ----
 *
 * An object read by a table into a C struct: the params of a method, or
 * the result of one.
 *
 *	struct params { const char *job_id; uint64_t limit; };
 *	static const struct rpc_field fields[] = {
 *		{ "job_id", RPC_STRING, offsetof(struct params, job_id), .is_required = true },
 *		{ "limit", RPC_U64, offsetof(struct params, limit), .max = 1000 },
 *	};
 *	struct params p = { .limit = 100 };
 *	r = rpc_fields_read(params, fields, ARRAY_SIZE(fields), &p, err);
 *
 * What is absent or null keeps the value it has. Strings and values point into
 * the object.
 */

#define RPC_MAX_STRINGS 1024 /* in one RPC_STRINGS */

enum rpc_type {
	RPC_STRING,  /* const char *; not empty */
	RPC_U64,     /* uint64_t, min to max */
	RPC_F64,     /* double, min to max */
	RPC_BOOL,    /* bool */
	RPC_STRINGS, /* const struct rpc_value *: a list of strings */
};

/* One row: a member of the object. */
struct rpc_field {
	const char *name;
	enum rpc_type type;
	size_t offset;
	bool is_required;
	double min, max; /* of a number; both 0: any */
};

/*
 * The object, or a list with the values in the order of the table (JSON-RPC
 * allows both), or NULL for nothing at all. -EINVAL with the reason: a member
 * that is not in the table (the nearest is offered), too many values, a wrong
 * type, a number out of range, something required that is not there.
 */
int rpc_fields_read(const struct rpc_value *object, const struct rpc_field *fields, size_t n,
		    void *ret, struct err *err);

/* The same for what a newer program may have added to: unknown members are passed over. */
int rpc_fields_read_known(const struct rpc_value *object, const struct rpc_field *fields, size_t n,
			  void *ret, struct err *err);

/*
 * ---- JSON-RPC error codes, and the negative errno that each stands for ----
 *
 * Inside proctor errors are a negative errno with a sentence (base/err.h). On
 * the socket they are a code with a message. This table is the only place that
 * knows both; docs/rpc.md explains the codes to other programs.
 */

enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
	RPC_NOT_ALLOWED = -32000,
	RPC_NOT_FOUND = -32001,
	RPC_BUSY = -32002,
	RPC_TOO_LARGE = -32003,
	RPC_TOO_MANY_CLIENTS = -32004,
	RPC_TIMED_OUT = -32005,
	RPC_EXISTS = -32006,
	RPC_NOT_SUPPORTED = -32007,
	RPC_ENDING = -32008,
};

/* Of a negative errno; RPC_INTERNAL_ERROR for one that has no code of its own. */
enum rpc_code rpc_code_of(int error);

/* The negative errno that a code from the socket stands for; -EREMOTEIO for an unknown one. */
int rpc_errno_of(long long code);

/* What a code means, in a few words: the message where there is no sentence. */
const char *rpc_code_meaning(enum rpc_code code);
