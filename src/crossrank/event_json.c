#include "crossrank/event_json.h"

#include <math.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "crossrank/jtree.h"

#define SCHEMA_VERSION 2

static void write_node(struct json *j, const struct jnode *node);

static void write_text(struct json *j, struct text t)
{
	if (t.s)
		json_str_n(j, t.s, t.n);
	else
		json_none(j);
}

/* A repeated key stands where it stood first and has what it had last, as in the reference. */
static void write_members(struct json *j, const struct jnode *object)
{
	CLEANUP(map_release) struct map last = MAP_INIT;
	uint64_t at;

	for (const struct jnode *c = object->first; c; c = c->next)
		if (map_put(&last, hash_bytes(HASH_INIT, c->key.s, c->key.n),
			    (uint64_t)(uintptr_t)c) < 0)
			j->out->failed = true;
	for (const struct jnode *c = object->first; c; c = c->next) {
		uint64_t hash = hash_bytes(HASH_INIT, c->key.s, c->key.n);

		if (!map_get(&last, hash, &at))
			continue;
		map_remove(&last, hash);
		json_str_n(j, c->key.s, c->key.n);
		buf_add_char(j->out, ':');
		j->need_comma = false;
		write_node(j, (const struct jnode *)(uintptr_t)at);
	}
}

static void write_children(struct json *j, const struct jnode *node)
{
	if (node->kind == JKIND_OBJECT) {
		json_begin_object(j);
		write_members(j, node);
		json_end_object(j);
		return;
	}
	json_begin_array(j);
	for (const struct jnode *c = node->first; c; c = c->next)
		write_node(j, c);
	json_end_array(j);
}

/* Numbers and words come out as they were written. */
static void write_node(struct json *j, const struct jnode *node)
{
	if (node->kind == JKIND_OBJECT || node->kind == JKIND_ARRAY)
		write_children(j, node);
	else if (node->kind == JKIND_TEXT)
		json_str_n(j, node->text.s, node->text.n);
	else
		json_raw(j, node->text.s, node->text.n);
}

static void write_field(struct json *j, const struct telemetry_event *ev,
			const struct event_field *f)
{
	const void *at = (const char *)ev + f->offset;
	int64_t number;

	json_key(j, f->name);
	switch (f->kind) {
	case FIELD_SCHEMA:
		json_i64(j, SCHEMA_VERSION);
		break;
	case FIELD_INT:
	case FIELD_INT_OR_NULL:
		number = *(const int64_t *)at;
		if (f->kind == FIELD_INT_OR_NULL && number == EVENT_UNKNOWN)
			json_none(j);
		else
			json_i64(j, number);
		break;
	case FIELD_METADATA:
		if (ev->metadata)
			write_node(j, ev->metadata);
		else
			json_raw(j, "{}", 2);
		break;
	default:
		write_text(j, *(const struct text *)at);
	}
}

void event_write_json(struct json *j, const struct telemetry_event *ev)
{
	json_begin_object(j);
	for (size_t i = 0; i < EVENT_FIELDS; i++)
		write_field(j, ev, &event_fields[i]);
	json_end_object(j);
}
