#include "crossrank/reading/shape.h"

#include <string.h>

#include "base/utf8.h"

#define MAX_BYTES (64u << 10)

enum { SHAPE_IGNORED = -1, SHAPE_BOOT = -2, SHAPE_CONSTANT = -3 };

void shapes_release(struct shapes *s)
{
	for (size_t i = 0; i < SHAPES_MAX; i++)
		arena_release(&s->items[i].arena);
}

/* ---- learning ---- */

/* The value behind a key: its field, or what it means in metadata. False: the key is odd. */
static bool find_meaning(struct shape *s, struct text key, int depth, bool *has_boot, int *ret)
{
	*ret = SHAPE_IGNORED;
	if (depth == 1) {
		int field = event_field_find(key.s, key.n);

		if (field < 0 || s->seen & UINT32_C(1) << field)
			return false;
		s->seen |= UINT32_C(1) << field;
		*ret = event_fields[field].kind == FIELD_SCHEMA || field == EVENT_TYPE
			       ? SHAPE_CONSTANT
			       : field;
	} else if (depth == 2 && text_is(key, "boot_id")) {
		*ret = SHAPE_BOOT;
		if (*has_boot)
			return false;
		*has_boot = true;
	} else if (depth == 2 && (text_begins_with(key, "clock_") || memchr(key.s, '\\', key.n))) {
		*ret = SHAPE_CONSTANT;
	}
	return true;
}

/* Finds the values of a text that is a record. False: it has too many, or something odd. */
static bool find_values(struct shape *s)
{
	int depth = 0, meaning = SHAPE_CONSTANT;
	bool has_boot = false;
	const char *text = s->text;

	for (size_t i = 0, to; i < s->n; i = to) {
		bool is_text = text[i] == '"';
		size_t colon;

		to = i + 1;
		depth += text[i] == '{' || text[i] == '[';
		depth -= text[i] == '}' || text[i] == ']';
		if (text[i] == '{' || text[i] == '[')
			meaning = SHAPE_IGNORED;
		if (is_text) {
			while (text[to] != '"')
				to += text[to] == '\\' ? 2 : 1;
			to++;
			for (colon = to; text[colon] && strchr(" \t\r\n", text[colon]);)
				colon++;
			if (text[colon] == ':') {
				struct text key = { text + i + 1, to - i - 2 };

				if (!find_meaning(s, key, depth, &has_boot, &meaning))
					return false;
				continue;
			}
		} else if (ascii_is_digit(text[i]) ||
			   (text[i] == '-' && ascii_is_digit(text[to]))) {
			while (ascii_is_digit(text[to]) || strchr("+-.eE", text[to]))
				to++;
		} else {
			continue;
		}
		if (meaning == SHAPE_CONSTANT || (meaning == SHAPE_BOOT && !is_text))
			continue;
		if (s->n_values == SHAPE_MAX_VALUES)
			return false;
		s->values[s->n_values++] = (struct shape_value){ (uint32_t)i, (uint32_t)(to - i),
								 (int8_t)meaning, is_text };
	}
	return true;
}

void shapes_learn(struct shapes *shapes, const char *text, size_t n,
		  const struct telemetry_event *ev)
{
	struct shape *s;
	bool is_whole;

	if (!text_is_sample(ev->event_type) || n > MAX_BYTES)
		return;
	shapes->last = (shapes->last + 1) % SHAPES_MAX;
	s = &shapes->items[shapes->last];
	arena_reset(&s->arena);
	*s = (struct shape){ .arena = s->arena, .n = n, .event = *ev };
	s->event.metadata = NULL;
	s->text = arena_strndup(&s->arena, text, n);
	is_whole = s->text && find_values(s) && s->seen & 1; /* older records have no version */
	for (size_t i = 0; is_whole && i <= EVENT_FIELDS; i++) {
		enum field_kind kind = i < EVENT_FIELDS ? event_fields[i].kind : FIELD_TEXT;
		struct text *copy = i < EVENT_FIELDS ? event_text(&s->event, &event_fields[i])
						     : &s->event.clock.boot_id;

		if ((kind != FIELD_TEXT && kind != FIELD_TEXT_OR_NULL && kind != FIELD_CONTEXT) ||
		    !copy->s)
			continue;
		copy->s = arena_strndup(&s->arena, copy->s, copy->n);
		is_whole = copy->s != NULL;
	}
	if (!is_whole)
		s->text = NULL;
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

static const char *skip_digits(const char *at, const char *end)
{
	while (at < end && ascii_is_digit(*at))
		at++;
	return at;
}

/* Behind any number of JSON. */
static const char *skip_number(const char *at, const char *end)
{
	const char *first = at += at < end && *at == '-', *part;

	at = skip_digits(at, end);
	if (at == first || (*first == '0' && at - first > 1))
		return NULL;
	if (at < end && *at == '.') {
		part = at + 1;
		at = skip_digits(part, end);
		if (at == part)
			return NULL;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		part = at + 1;
		part += part < end && (*part == '+' || *part == '-');
		at = skip_digits(part, end);
		if (at == part)
			return NULL;
	}
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

static const char *take_value(const struct shape *s, const struct shape_value *value,
			      const char *at, const char *end, struct telemetry_event *ev)
{
	const struct event_field *f = value->field >= 0 ? &event_fields[value->field] : NULL;
	struct text text;

	if (value->is_text && (size_t)(end - at) >= value->len &&
	    memcmp(at, s->text + value->at, value->len) == 0)
		return at + value->len;
	if (value->is_text) {
		bool may_be_blank = !f || f->kind == FIELD_CONTEXT;

		at = take_text(at, end, may_be_blank, &text);
		if (at && f)
			*event_text(ev, f) = text;
		else if (at && value->field == SHAPE_BOOT)
			ev->clock.boot_id = text.n > 0 ? text : (struct text){ NULL, 0 };
		return at;
	}
	if (!f)
		return skip_number(at, end);
	at = take_int(at, end, event_int(ev, f));
	return at && f->kind == FIELD_INT_OR_NULL && *event_int(ev, f) < 0 ? NULL : at;
}

static bool fits(const struct shape *s, const char *at, size_t n, struct telemetry_event *ev)
{
	const char *end = at + n, *from = s->text, *field;

	*ev = s->event;
	for (size_t i = 0; i <= s->n_values; i++) {
		const struct shape_value *value = i < s->n_values ? &s->values[i] : NULL;
		size_t len = (size_t)(s->text + (value ? value->at : s->n) - from);

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

		if (shapes->items[place].text && fits(&shapes->items[place], text, n, ret)) {
			shapes->last = place;
			return true;
		}
	}
	return false;
}
