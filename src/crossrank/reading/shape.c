#include "crossrank/reading/shape.h"

#include <string.h>

#include "base/utf8.h"
#include "crossrank/reading/jtree.h"

#define MAX_BYTES (64u << 10)

/* What a value is that is no field. */
enum { SHAPE_IGNORED = -1, SHAPE_BOOT = -2, SHAPE_CONSTANT = -3 };

void shapes_release(struct shapes *s)
{
	for (size_t i = 0; i < SHAPES_MAX; i++)
		arena_release(&s->items[i].arena);
}

/* ---- learning ---- */

/* The field that a value is, or what else. */
static int meaning_of(const struct jnode *node, int depth)
{
	int field;

	if (depth == 1) {
		field = event_field_find(node->key.s, node->key.n);
		return field == EVENT_VERSION || field == EVENT_TYPE ? SHAPE_CONSTANT : field;
	}
	if (depth == 2 && text_is(node->key, "boot_id"))
		return SHAPE_BOOT;
	return depth == 2 && text_begins_with(node->key, "clock_") ? SHAPE_CONSTANT : SHAPE_IGNORED;
}

static bool has_key_before(const struct jnode *parent, const struct jnode *node)
{
	const struct jnode *c = parent->first;

	while (c != node && !text_equals(c->key, node->key))
		c = c->next;
	return c != node;
}

/* Lists the numbers and texts below a node. False: there are too many, or one is there twice. */
static bool list_values(struct shape *s, const struct jnode *record, const struct jnode *parent,
			int depth)
{
	for (const struct jnode *c = parent->first; c; c = c->next) {
		int meaning = meaning_of(c, depth);
		bool is_text = c->kind == JKIND_TEXT;
		bool is_number = ascii_is_digit(c->raw.s[c->raw.n - 1]);

		if ((depth == 1 || meaning == SHAPE_BOOT) && has_key_before(parent, c))
			return false;
		if (depth == 1)
			s->seen |= UINT32_C(1) << event_field_find(c->key.s, c->key.n);
		if (!list_values(s, record, c, depth + 1))
			return false;
		if (meaning == SHAPE_CONSTANT || !(is_text || (is_number && meaning != SHAPE_BOOT)))
			continue;
		if (s->n_values == SHAPE_MAX_VALUES)
			return false;
		s->values[s->n_values++] =
			(struct shape_value){ (uint32_t)(c->raw.s - record->raw.s),
					      (uint32_t)c->raw.n, (int8_t)meaning, is_text };
	}
	return true;
}

/* False: memory ran out. */
static bool keep_text(struct shape *s, struct text *text)
{
	if (!text->s)
		return true;
	text->s = arena_strndup(&s->arena, text->s, text->n);
	return text->s != NULL;
}

void shapes_learn(struct shapes *shapes, const struct jnode *record,
		  const struct telemetry_event *ev)
{
	struct text text = record->raw;
	struct shape *s;
	bool is_whole;

	if (!text_is_sample(ev->event_type) || text.n > MAX_BYTES)
		return;
	shapes->last = (shapes->last + 1) % SHAPES_MAX;
	s = &shapes->items[shapes->last];
	arena_reset(&s->arena);
	*s = (struct shape){ .arena = s->arena, .event = *ev };
	s->event.metadata = (struct text){ NULL, 0 };
	s->event.phase_scope = NULL;
	is_whole = list_values(s, record, record, 1) && keep_text(s, &text) &&
		   keep_text(s, &s->event.clock.boot_id);
	for (const struct event_field *f = event_fields; f < event_fields + EVENT_FIELDS; f++)
		if (f->kind == FIELD_TEXT || f->kind == FIELD_TEXT_OR_NULL ||
		    f->kind == FIELD_CONTEXT)
			is_whole = is_whole && keep_text(s, event_text(&s->event, f));
	if (is_whole)
		s->text = text;
}

/* ---- reading ---- */

/* Behind a whole number that fits; NULL: there is none. */
static const char *take_int(const char *at, const char *end, int64_t *ret)
{
	bool is_negative = at < end && *at == '-';
	const char *first = at += is_negative;
	uint64_t v = 0;

	while (at < end && ascii_is_digit(*at) && at - first < 19)
		v = v * 10 + (uint64_t)(*at++ - '0');
	if (at == first || (*first == '0' && at - first > 1) ||
	    v > (uint64_t)INT64_MAX + is_negative)
		return NULL;
	*ret = (int64_t)(is_negative ? -v : v);
	return at;
}

/* Behind a text of plain ASCII, quotes included. */
static const char *take_text(const char *at, const char *end, bool may_be_blank, struct text *ret)
{
	const char *first = at + 1;

	if (at >= end || *at != '"')
		return NULL;
	for (at = first; at < end && *at != '"'; at++) {
		unsigned char c = (unsigned char)*at;

		if (c == '\\' || c < ' ' || c >= 0x7f)
			return NULL;
		may_be_blank |= c > ' ';
	}
	*ret = (struct text){ first, (size_t)(at - first) };
	return at < end && may_be_blank ? at + 1 : NULL;
}

/* Behind the value; NULL: it is another one than the careful reader would take. */
static const char *take_value(const struct shape *s, const struct shape_value *value,
			      const char *at, const char *end, struct telemetry_event *ev)
{
	const struct event_field *f = value->field >= 0 ? &event_fields[value->field] : NULL;
	struct text text;
	bool is_float;

	if (value->is_text && (size_t)(end - at) >= value->len &&
	    memcmp(at, s->text.s + value->at, value->len) == 0)
		return at + value->len;
	if (value->is_text) {
		at = take_text(at, end, !f || f->kind == FIELD_CONTEXT, &text);
		if (at && f)
			*event_text(ev, f) = text;
		else if (at && value->field == SHAPE_BOOT)
			ev->clock.boot_id = text.n > 0 ? text : (struct text){ NULL, 0 };
		return at;
	}
	if (!f)
		return jtree_skip_number(&at, end, &is_float) ? at : NULL;
	at = take_int(at, end, event_int(ev, f));
	return at && f->kind == FIELD_INT_OR_NULL && *event_int(ev, f) < 0 ? NULL : at;
}

static bool fits(const struct shape *s, const char *at, size_t n, struct telemetry_event *ev)
{
	const char *end = at + n, *from = s->text.s, *field;

	*ev = s->event;
	for (size_t i = 0; i <= s->n_values; i++) {
		const struct shape_value *value = i < s->n_values ? &s->values[i] : NULL;
		size_t len = (size_t)(s->text.s + (value ? value->at : s->text.n) - from);

		if ((size_t)(end - at) < len || memcmp(at, from, len) != 0)
			return false;
		at += len;
		from += len;
		if (!value)
			break;
		at = take_value(s, value, at, end, ev);
		if (!at)
			return false;
		from += value->len;
	}
	event_fill_defaults(ev, s->seen);
	return at == end && event_check(ev, &field) == REASON_NONE;
}

bool shapes_read(struct shapes *shapes, const char *text, size_t n, struct telemetry_event *ret)
{
	for (unsigned i = 0; i < SHAPES_MAX; i++) {
		unsigned place = (shapes->last + i) % SHAPES_MAX;

		if (shapes->items[place].text.s && fits(&shapes->items[place], text, n, ret)) {
			shapes->last = place;
			return true;
		}
	}
	return false;
}
