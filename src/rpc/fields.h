/*
 * fields - an object read by a table into a C struct: the params of a method, or
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
#ifndef PROCTOR_RPC_FIELDS_H
#define PROCTOR_RPC_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "rpc/value.h"

#define RPC_MAX_STRINGS 1024 /* in one RPC_STRINGS */

enum rpc_type {
	RPC_STRING,  /* const char *; not empty */
	RPC_U64,     /* uint64_t, min to max */
	RPC_F64,     /* double, min to max */
	RPC_BOOL,    /* bool */
	RPC_STRINGS, /* const struct rpc_value *: a list of strings */
	RPC_OBJECT,  /* const struct rpc_value * */
	RPC_ANY,     /* const struct rpc_value * */
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

#endif
