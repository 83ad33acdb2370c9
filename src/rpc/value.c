#include "rpc/value.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/suggest.h"
#include "base/unknown.h"
#include "base/utf8.h"

/*
 * Every value but the first of its list or object follows a comma, and the first
 * follows a bracket: so there are at most 1 + commas + brackets of them.
 */
struct skim skim_text(const char *text, size_t len)
{
	struct skim s = { .values = 1 };
	size_t depth = 0;

	for (size_t i = 0; i < len; i++)
		switch (text[i]) {
		case '"':
			for (i++; i < len && text[i] != '"'; i++)
				i += text[i] == '\\';
			break;
		case '[':
		case '{':
			s.values++;
			if (++depth > s.depth)
				s.depth = depth;
			break;
		case ']':
		case '}':
			depth -= depth > 0;
			break;
		case ',':
			s.values++;
			break;
		default:
			break;
		}
	return s;
}

/* struct rpc_value is jansson's json_t under another name: nobody else is to know. */
static const json_t *inner(const struct rpc_value *v)
{
	return (const json_t *)v;
}

static const struct rpc_value *outer(const json_t *j)
{
	return (const struct rpc_value *)j;
}

int rpc_value_parse(const char *text, size_t len, const struct rpc_value_limits *limits,
		    struct rpc_value **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf safe = BUF_INIT;
	struct skim s = skim_text(text, len);
	json_error_t error;
	json_t *j;

	if (s.depth > limits->max_depth)
		return err_set(err, -EMSGSIZE, "%zu lists and objects in each other, at most %zu",
			       s.depth, limits->max_depth);
	if (s.values > limits->max_values)
		return err_set(err, -EMSGSIZE, "more than %zu values in one document",
			       limits->max_values);
	j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (j) {
		*ret = (struct rpc_value *)j;
		return 0;
	}
	if (json_error_code(&error) == json_error_out_of_memory)
		return err_set(err, -ENOMEM, "out of memory");
	/* jansson quotes the text it stumbled over: that is foreign. */
	utf8_add_text(&safe, error.text, strlen(error.text));
	return err_set(err, -EBADMSG, "no JSON at byte %d: %s", error.position, safe.data);
}

struct rpc_value *rpc_value_free(struct rpc_value *v)
{
	json_decref((json_t *)v);
	return NULL;
}

struct rpc_value *rpc_value_take(struct rpc_value *v, const char *key)
{
	json_t *member = json_incref(json_object_get(inner(v), key));

	rpc_value_free(v);
	return (struct rpc_value *)member;
}

bool rpc_value_is_object(const struct rpc_value *v)
{
	return json_is_object(inner(v));
}

bool rpc_value_is_list(const struct rpc_value *v)
{
	return json_is_array(inner(v));
}

bool rpc_value_is_string(const struct rpc_value *v)
{
	return json_is_string(inner(v));
}

bool rpc_value_is_number(const struct rpc_value *v)
{
	return json_is_number(inner(v));
}

bool rpc_value_is_null(const struct rpc_value *v)
{
	return json_is_null(inner(v));
}

const char *rpc_value_show(const struct rpc_value *v, char shown[RPC_VALUE_SHOWN_BYTES])
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	char quoted[UTF8_QUOTED_BYTES];
	struct json j;

	if (!v)
		return "nothing";
	switch (json_typeof(inner(v))) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		snprintf(shown, RPC_VALUE_SHOWN_BYTES, "the text %s",
			 utf8_quote(rpc_value_string(v), quoted));
		return shown;
	default:
		json_init(&j, &text);
		rpc_value_write(v, &j);
		snprintf(shown, RPC_VALUE_SHOWN_BYTES, "%.64s", text.data);
		return shown;
	}
}

const struct rpc_value *rpc_value_get(const struct rpc_value *v, const char *key)
{
	return outer(json_object_get(inner(v), key));
}

const struct rpc_value *rpc_value_at(const struct rpc_value *v, size_t i)
{
	return outer(json_array_get(inner(v), i));
}

size_t rpc_value_len(const struct rpc_value *v)
{
	return rpc_value_is_list(v) ? json_array_size(inner(v)) : json_object_size(inner(v));
}

void rpc_value_each(const struct rpc_value *v, rpc_member_fn *fn, void *ctx)
{
	json_t *object = (json_t *)v; /* jansson takes none that is const, and reads alone */

	for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
		fn(ctx, json_object_iter_key(at), outer(json_object_iter_value(at)));
}

const char *rpc_value_string(const struct rpc_value *v)
{
	return json_string_value(inner(v));
}

int64_t rpc_value_i64(const struct rpc_value *v, int64_t otherwise)
{
	return json_is_integer(inner(v)) ? json_integer_value(inner(v)) : otherwise;
}

uint64_t rpc_value_u64(const struct rpc_value *v)
{
	int64_t i = rpc_value_i64(v, -1);

	return i < 0 ? U64_UNKNOWN : (uint64_t)i;
}

double rpc_value_f64(const struct rpc_value *v)
{
	return rpc_value_is_number(v) ? json_number_value(inner(v)) : F64_UNKNOWN;
}

bool rpc_value_bool(const struct rpc_value *v, bool otherwise)
{
	return json_is_boolean(inner(v)) ? json_is_true(inner(v)) : otherwise;
}

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	struct json *j = ctx;

	json_key(j, key);
	rpc_value_write(member, j);
}

void rpc_value_write(const struct rpc_value *v, struct json *j)
{
	switch (v ? json_typeof(inner(v)) : JSON_NULL) {
	case JSON_OBJECT:
		json_begin_object(j);
		rpc_value_each(v, write_member, j);
		json_end_object(j);
		break;
	case JSON_ARRAY:
		json_begin_array(j);
		for (size_t i = 0; i < rpc_value_len(v); i++)
			rpc_value_write(rpc_value_at(v, i), j);
		json_end_array(j);
		break;
	case JSON_STRING:
		json_str(j, rpc_value_string(v));
		break;
	case JSON_INTEGER:
		json_i64(j, rpc_value_i64(v, 0));
		break;
	case JSON_REAL:
		json_f64(j, rpc_value_f64(v));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		json_bool(j, rpc_value_bool(v, false));
		break;
	case JSON_NULL:
		json_none(j);
		break;
	}
}

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
		if (!are_strings(v))
			return false;
		*(const struct rpc_value **)at = v;
		return true;
	}
	return false;
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
	struct unknown_search search = { fields, n, NULL };
	char quoted[UTF8_QUOTED_BYTES];
	struct suggest s;

	if (rpc_value_is_list(object) && rpc_value_len(object) > n)
		return err_set(err, -EINVAL, "%zu params, and the method takes at most %zu",
			       rpc_value_len(object), n);
	rpc_value_each(object, look_at_member, &search);
	if (!search.unknown)
		return rpc_fields_read_known(object, fields, n, ret, err);
	s = suggest_for(search.unknown);
	for (size_t i = 0; i < n; i++)
		suggest_offer(&s, fields[i].name);
	utf8_quote(search.unknown, quoted);
	if (s.best)
		return err_set(err, -EINVAL, "%s is unknown; did you mean '%s'?", quoted, s.best);
	return err_set(err, -EINVAL, "%s is unknown", quoted);
}

/* A code, the errno it stands for (the first row of a code tells what it becomes on the way
 * back), and what it means. */
static const struct {
	enum rpc_code code;
	int error;
	const char *meaning;
} table[] = {
	{ RPC_PARSE_ERROR, -EBADMSG, "the line is not JSON" },
	{ RPC_INVALID_REQUEST, -EPROTO, "the line is not a request" },
	{ RPC_METHOD_NOT_FOUND, -ENOSYS, "there is no such method" },
	{ RPC_INVALID_PARAMS, -EINVAL, "the params are not what the method takes" },
	{ RPC_INVALID_PARAMS, -ERANGE, "a param is out of range" },
	{ RPC_INTERNAL_ERROR, -EIO, "something failed inside the daemon" },
	{ RPC_NOT_ALLOWED, -EACCES, "this user may not do that" },
	{ RPC_NOT_ALLOWED, -EPERM, "this user may not do that" },
	{ RPC_NOT_FOUND, -ENOENT, "there is no such thing" },
	{ RPC_NOT_FOUND, -ESRCH, "there is no such process" },
	{ RPC_BUSY, -EBUSY, "not now, later" },
	{ RPC_BUSY, -EAGAIN, "not now, later" },
	{ RPC_BUSY, -ENOSPC, "there is no room for it now" },
	{ RPC_BUSY, -EDQUOT, "there is no room for it now" },
	{ RPC_TOO_LARGE, -EMSGSIZE, "the request or its reply is too large" },
	{ RPC_TOO_MANY_CLIENTS, -EUSERS, "there are too many clients" },
	{ RPC_TIMED_OUT, -ETIMEDOUT, "that took too long" },
	{ RPC_EXISTS, -EEXIST, "that is already there" },
	{ RPC_NOT_SUPPORTED, -EOPNOTSUPP, "that cannot be done on this machine" },
	{ RPC_ENDING, -ESHUTDOWN, "the daemon is ending" },
};

enum rpc_code rpc_code_of(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].error == error)
			return table[i].code;
	return RPC_INTERNAL_ERROR;
}

int rpc_errno_of(long long code)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].error;
	return -EREMOTEIO;
}

const char *rpc_code_meaning(enum rpc_code code)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].meaning;
	return "something failed";
}
