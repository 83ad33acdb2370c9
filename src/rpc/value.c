#include "rpc/value.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"
#include "rpc/skim.h"

/* struct rpc_value is jansson's json_t under another name: nobody else is to know. */
static const json_t *inner(const struct rpc_value *v)
{
	return (const json_t *)v;
}

static const struct rpc_value *outer(const json_t *j)
{
	return (const struct rpc_value *)j;
}

/* jansson takes any json_t * for reading, and none that is const. */
static json_t *unconst(const struct rpc_value *v)
{
	union {
		const struct rpc_value *v;
		json_t *j;
	} u = { .v = v };

	return u.j;
}

static int check_limits(const char *text, size_t len, const struct rpc_value_limits *limits,
			struct err *err)
{
	struct skim s = skim_text(text, len);

	if (s.depth > limits->max_depth)
		return err_set(err, -EMSGSIZE, "%zu lists and objects in each other, at most %zu",
			       s.depth, limits->max_depth);
	if (s.values > limits->max_values)
		return err_set(err, -EMSGSIZE, "more than %zu values in one document",
			       limits->max_values);
	return 0;
}

/* jansson quotes the text it stumbled over: that is foreign. */
static int refuse(const json_error_t *error, struct err *err)
{
	CLEANUP(buf_release) struct buf safe = BUF_INIT;
	size_t n = strlen(error->text);

	if (json_error_code(error) == json_error_out_of_memory)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n;)
		i += utf8_add_shown(&safe, error->text + i, n - i);
	return err_set(err, -EBADMSG, "no JSON at byte %d: %s", error->position, safe.data);
}

int rpc_value_parse(const char *text, size_t len, const struct rpc_value_limits *limits,
		    struct rpc_value **ret, struct err *err)
{
	json_error_t error;
	json_t *j;
	int r;

	r = check_limits(text, len, limits, err);
	if (r < 0)
		return r;
	j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (!j)
		return refuse(&error, err);
	*ret = (struct rpc_value *)j;
	return 0;
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

static void show_number(const struct rpc_value *v, char *shown)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	rpc_value_write(v, &j);
	snprintf(shown, RPC_VALUE_SHOWN_BYTES, "%.64s", text.data);
}

const char *rpc_value_show(const struct rpc_value *v, char shown[RPC_VALUE_SHOWN_BYTES])
{
	char quoted[UTF8_QUOTED_BYTES];

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
		show_number(v, shown);
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
	json_t *object = unconst(v);

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

static void write_list(const struct rpc_value *v, struct json *j)
{
	json_begin_array(j);
	for (size_t i = 0; i < rpc_value_len(v); i++)
		rpc_value_write(rpc_value_at(v, i), j);
	json_end_array(j);
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
		write_list(v, j);
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
