#include "crossrank/record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "crossrank/bulk.h"

#define SESSION_FIELD (EVENT_FIELDS - 1)
#define CLOCK_ERROR_KEY "clock_error_ns"
#define CLOCK_SYNCHRONISED_KEY "clock_synchronised"
#define BOOT_ID_KEY "boot_id"

enum reason record_take_text(const struct jnode *node, bool may_be_null, bool may_be_blank,
			     struct text *ret)
{
	if (node->kind == JKIND_NULL && may_be_null) {
		*ret = (struct text){ NULL, 0 };
		return REASON_NONE;
	}
	/* The reference calls a null where a text must be an empty one. */
	if (node->kind == JKIND_NULL)
		return REASON_BLANK_STRING;
	if (node->kind != JKIND_TEXT)
		return REASON_WRONG_TYPE;
	if (!may_be_blank && text_is_blank(node->text.s, node->text.n))
		return REASON_BLANK_STRING;
	*ret = node->text;
	return REASON_NONE;
}

enum reason record_take_int(const struct jnode *node, int64_t *ret)
{
	if (node->kind == JKIND_BIG_INT)
		return REASON_OUT_OF_RANGE;
	if (node->kind != JKIND_INT)
		return REASON_WRONG_TYPE;
	*ret = node->integer;
	return REASON_NONE;
}

/* -1 stands for unknown in an event, so it is refused before it is put there. */
static enum reason take_int_or_null(const struct jnode *node, int64_t *ret)
{
	if (node->kind == JKIND_NULL)
		return REASON_NONE;
	if (node->kind == JKIND_INT && node->integer < 0)
		return REASON_OUT_OF_RANGE;
	return record_take_int(node, ret);
}

static enum reason take_schema(const struct jnode *node)
{
	return node->kind == JKIND_INT && node->integer == 2 ? REASON_NONE
							     : REASON_BAD_SCHEMA_VERSION;
}

static enum reason take_metadata(const struct jnode *node, struct telemetry_event *ev)
{
	if (node->kind != JKIND_OBJECT)
		return REASON_METADATA_NOT_OBJECT;
	ev->metadata = node;
	return REASON_NONE;
}

static enum reason take_field(const struct event_field *f, const struct jnode *node,
			      struct telemetry_event *ev)
{
	switch (f->kind) {
	case FIELD_SCHEMA:
		return take_schema(node);
	case FIELD_INT:
		return record_take_int(node, event_int(ev, f));
	case FIELD_INT_OR_NULL:
		return take_int_or_null(node, event_int(ev, f));
	case FIELD_METADATA:
		return take_metadata(node, ev);
	case FIELD_CONTEXT:
		return record_take_text(node, true, true, event_text(ev, f));
	default:
		return record_take_text(node, f->kind == FIELD_TEXT_OR_NULL, false,
					event_text(ev, f));
	}
}

/* The value of each field; of a repeated one the last. */
struct found {
	const struct jnode *nodes[EVENT_FIELDS];
	uint32_t seen;
	bool has_unknown;
};

static void find_fields(const struct jnode *record, struct found *ret)
{
	*ret = (struct found){ 0 };
	for (const struct jnode *c = record->first; c; c = c->next) {
		int i = event_field_find(c->key.s, c->key.n);

		if (i < 0) {
			ret->has_unknown = true;
			continue;
		}
		ret->nodes[i] = c;
		ret->seen |= UINT32_C(1) << i;
	}
}

static enum reason check_names(const struct found *found, enum record_rule rule)
{
	for (size_t i = 0; i < EVENT_FIELDS; i++)
		if (event_fields[i].is_required && !found->nodes[i])
			return REASON_MISSING_FIELD;
	if (found->has_unknown || (rule != RECORD_SESSION && found->nodes[SESSION_FIELD]))
		return REASON_UNKNOWN_FIELD;
	return REASON_NONE;
}

static enum reason read_v2(const struct found *found, enum record_rule rule,
			   struct telemetry_event *ev)
{
	enum reason reason = check_names(found, rule);

	for (size_t i = 0; reason == REASON_NONE && i < EVENT_FIELDS; i++)
		if (found->nodes[i])
			reason = take_field(&event_fields[i], found->nodes[i], ev);
	if (reason != REASON_NONE)
		return reason;
	event_fill_defaults(ev, found->seen);
	return event_check(ev);
}

static enum reason take_session(const struct found *found, struct telemetry_event *ev)
{
	const struct jnode *node = found->nodes[SESSION_FIELD];

	return node ? record_take_text(node, true, false, &ev->session_id) : REASON_NONE;
}

/* A bound that is none, as it is a text or below 0, bounds nothing. */
static void take_clock_error(const struct jnode *node, struct telemetry_event *ev)
{
	if (!node || node->kind == JKIND_NULL)
		return;
	if (node->kind == JKIND_INT && node->integer >= 0)
		ev->clock.error_ns = node->integer;
	else if (node->kind == JKIND_FLOAT && node->number >= 0 && node->number < 0x1p62)
		ev->clock.error_ns = (int64_t)ceil(node->number);
	else
		ev->clock.is_free = true;
}

/* What is neither true nor false does not say that it is synchronised. */
static void take_synchronised(const struct jnode *node, struct telemetry_event *ev)
{
	if (!node || node->kind == JKIND_NULL)
		return;
	if (node->kind != JKIND_BOOL || !node->integer)
		ev->clock.is_free = true;
}

/* What proctor notes about the clock; anything else in metadata is not looked at here. */
static void take_clock(struct telemetry_event *ev)
{
	const struct jnode *boot;

	if (!ev->metadata)
		return;
	take_clock_error(jtree_find(ev->metadata, CLOCK_ERROR_KEY), ev);
	take_synchronised(jtree_find(ev->metadata, CLOCK_SYNCHRONISED_KEY), ev);
	boot = jtree_find(ev->metadata, BOOT_ID_KEY);
	if (boot && boot->kind == JKIND_TEXT && boot->text.n > 0)
		ev->clock.boot_id = boot->text;
}

int event_set_metadata(struct telemetry_event *ev, const char *json, size_t n, struct arena *arena)
{
	struct jnode *node = NULL;
	int r = jtree_parse(json, n, arena, &node);

	if (r == 0 && node->kind != JKIND_OBJECT)
		r = -EINVAL;
	if (r < 0)
		return r;
	ev->metadata = node;
	take_clock(ev);
	return 0;
}

static enum reason read_tree(const struct jnode *record, enum record_rule rule, struct arena *arena,
			     struct telemetry_event *ev, int *ret_error)
{
	struct found found;
	enum reason reason = REASON_NONE;

	if (record->kind != JKIND_OBJECT)
		return REASON_NOT_OBJECT;
	find_fields(record, &found);
	if (rule == RECORD_SESSION)
		reason = take_session(&found, ev);
	if (reason != REASON_NONE)
		return reason;
	if (rule == RECORD_STRICT && !found.nodes[0])
		return REASON_MISSING_FIELD;
	if (rule != RECORD_STRICT && found.nodes[0])
		reason = take_schema(found.nodes[0]);
	if (reason == REASON_NONE)
		reason = found.nodes[0] ? read_v2(&found, rule, ev)
					: legacy_read(record, arena, ev, ret_error);
	return reason;
}

enum reason record_read(const char *text, size_t n, enum record_rule rule, struct arena *arena,
			struct telemetry_event *ret, int *ret_error)
{
	struct jnode *record = NULL;
	enum reason reason;
	int r;

	*ret_error = 0;
	event_init(ret);
	if (!bulk_is_utf8(text, n))
		return REASON_BAD_UTF8;
	r = jtree_parse(text, n, arena, &record);
	if (r == -ENOMEM)
		*ret_error = r;
	if (r < 0)
		return REASON_BAD_JSON;
	reason = read_tree(record, rule, arena, ret, ret_error);
	if (reason == REASON_NONE)
		take_clock(ret);
	return reason;
}

/* ---- which field it was ---- */

static struct text name_of(const char *name)
{
	return (struct text){ name, name ? strlen(name) : 0 };
}

static struct text find_missing(const struct found *found)
{
	for (size_t i = 0; i < EVENT_FIELDS; i++)
		if (event_fields[i].is_required && !found->nodes[i])
			return name_of(event_fields[i].name);
	return name_of(NULL);
}

static struct text find_unknown(const struct jnode *record)
{
	for (const struct jnode *c = record->first; c; c = c->next)
		if (event_field_find(c->key.s, c->key.n) < 0)
			return c->key;
	return name_of(NULL);
}

/* The first whose value is refused, by itself or beside the others. */
static struct text find_bad_value(const struct found *found)
{
	struct telemetry_event ev;

	event_init(&ev);
	if (take_session(found, &ev) != REASON_NONE)
		return name_of(event_fields[SESSION_FIELD].name);
	for (size_t i = 0; i < EVENT_FIELDS; i++)
		if (found->nodes[i] &&
		    take_field(&event_fields[i], found->nodes[i], &ev) != REASON_NONE)
			return name_of(event_fields[i].name);
	event_fill_defaults(&ev, found->seen);
	return name_of(event_find_bad(&ev));
}

struct text record_find_culprit(const char *text, size_t n, enum reason reason, struct arena *arena)
{
	struct jnode *record = NULL;
	struct found found;

	if (!bulk_is_utf8(text, n) || jtree_parse(text, n, arena, &record) < 0 ||
	    record->kind != JKIND_OBJECT)
		return name_of(NULL);
	find_fields(record, &found);
	if (!found.nodes[0])
		return name_of(NULL);
	if (reason == REASON_MISSING_FIELD)
		return find_missing(&found);
	return reason == REASON_UNKNOWN_FIELD ? find_unknown(record) : find_bad_value(&found);
}
