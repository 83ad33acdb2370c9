#include "rpc/fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define WHAT_BYTES 96

static bool has_range(const struct rpc_field *f)
{
	return f->min != 0 || f->max != 0;
}

/* What the field must be. */
static const char *describe(const struct rpc_field *f, char what[WHAT_BYTES])
{
	static const char *const names[] = {
		[RPC_STRING] = "a text that is not empty",
		[RPC_U64] = "a whole number, not negative",
		[RPC_F64] = "a number",
		[RPC_BOOL] = "true or false",
		[RPC_STRINGS] = "a list of texts",
		[RPC_OBJECT] = "an object",
		[RPC_ANY] = "anything",
	};

	if (f->type == RPC_U64 && has_range(f))
		snprintf(what, WHAT_BYTES, "a whole number from %.0f to %.0f", f->min, f->max);
	else if (f->type == RPC_F64 && has_range(f))
		snprintf(what, WHAT_BYTES, "a number from %g to %g", f->min, f->max);
	else
		return names[f->type];
	return what;
}

static bool is_in_range(const struct rpc_field *f, double x)
{
	return !has_range(f) || (x >= f->min && x <= f->max);
}

static bool are_strings(const struct rpc_value *v)
{
	size_t n = rpc_value_len(v);

	if (!rpc_value_is_list(v) || n > RPC_MAX_STRINGS)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!rpc_value_is_string(rpc_value_at(v, i)))
			return false;
	return true;
}

/* False: it is not what the field must be. */
static bool store(const struct rpc_field *f, const struct rpc_value *v, void *at)
{
	const char *s = rpc_value_string(v);
	uint64_t u = rpc_value_u64(v);
	double x = rpc_value_f64(v);
	bool fits = true;

	switch (f->type) {
	case RPC_STRING:
		if (!s || s[0] == '\0')
			return false;
		*(const char **)at = s;
		return true;
	case RPC_U64:
		if (!u64_known(u) || !is_in_range(f, (double)u))
			return false;
		*(uint64_t *)at = u;
		return true;
	case RPC_F64:
		if (!f64_known(x) || !is_in_range(f, x))
			return false;
		*(double *)at = x;
		return true;
	case RPC_BOOL:
		/* A value that is neither true nor false is whatever default it is asked with. */
		if (rpc_value_bool(v, true) != rpc_value_bool(v, false))
			return false;
		*(bool *)at = rpc_value_bool(v, false);
		return true;
	case RPC_STRINGS:
		fits = are_strings(v);
		break;
	case RPC_OBJECT:
		fits = rpc_value_is_object(v);
		break;
	case RPC_ANY:
		break;
	}
	if (fits)
		*(const struct rpc_value **)at = v;
	return fits;
}

struct unknown_search {
	const struct rpc_field *fields;
	size_t n;
	const char *unknown; /* the first member that no row names */
};

static void look_at_member(void *ctx, const char *key, const struct rpc_value *member)
{
	struct unknown_search *s = ctx;

	(void)member;
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(key, s->fields[i].name) == 0)
			return;
	if (!s->unknown)
		s->unknown = key;
}

static int refuse_unknown(const struct rpc_value *object, const struct rpc_field *fields, size_t n,
			  struct err *err)
{
	struct unknown_search search = { fields, n, NULL };
	char quoted[UTF8_QUOTED_BYTES];
	struct suggest s;

	rpc_value_each(object, look_at_member, &search);
	if (!search.unknown)
		return 0;
	s = suggest_for(search.unknown);
	for (size_t i = 0; i < n; i++)
		suggest_offer(&s, fields[i].name);
	utf8_quote(search.unknown, quoted);
	if (s.best)
		return err_set(err, -EINVAL, "%s is unknown; did you mean '%s'?", quoted, s.best);
	return err_set(err, -EINVAL, "%s is unknown", quoted);
}

int rpc_fields_read_known(const struct rpc_value *object, const struct rpc_field *fields, size_t n,
			  void *ret, struct err *err)
{
	bool by_position = rpc_value_is_list(object);
	char what[WHAT_BYTES], shown[RPC_VALUE_SHOWN_BYTES];

	if (object && !rpc_value_is_object(object) && !by_position)
		return err_set(err, -EINVAL, "an object was expected, and there is %s",
			       rpc_value_show(object, shown));
	for (size_t i = 0; i < n; i++) {
		const struct rpc_field *f = &fields[i];
		const struct rpc_value *v =
			by_position ? rpc_value_at(object, i) : rpc_value_get(object, f->name);
		bool is_there = v && !rpc_value_is_null(v);

		if (!is_there && f->is_required)
			return err_set(err, -EINVAL, "'%s' is missing; it is %s", f->name,
				       describe(f, what));
		if (is_there && !store(f, v, (char *)ret + f->offset))
			return err_set(err, -EINVAL, "'%s' is %s, and must be %s", f->name,
				       rpc_value_show(v, shown), describe(f, what));
	}
	return 0;
}

int rpc_fields_read(const struct rpc_value *object, const struct rpc_field *fields, size_t n,
		    void *ret, struct err *err)
{
	int r;

	if (rpc_value_is_list(object) && rpc_value_len(object) > n)
		return err_set(err, -EINVAL, "%zu params, and the method takes at most %zu",
			       rpc_value_len(object), n);
	r = refuse_unknown(object, fields, n, err);
	return r < 0 ? r : rpc_fields_read_known(object, fields, n, ret, err);
}
