/*
 * All that was told of something that happened.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/unknown.h"
#include "tui/draw_detail.h"

#define MEMBER_BYTES 64

struct told {
	const char *json;
	const char *unit; /* of what was measured; NULL: none is told */
	uint64_t now_ns;  /* later than that nothing is shown; U64_UNKNOWN: what is told is over */
	struct arena arena;
};

enum member_kind { MEMBER_PLAIN, MEMBER_TIME, MEMBER_MEASURED, MEMBER_SECONDS };

/* at: the time at which it was known, where that may be later than what is told. */
static const struct member {
	const char *key;
	enum member_kind kind;
	const char *at;
} members[] = {
	{ "timestamp", MEMBER_TIME, NULL },
	{ "changed", MEMBER_TIME, NULL },
	{ "began", MEMBER_TIME, NULL },
	{ "peak", MEMBER_TIME, "peak" },
	{ "ended", MEMBER_TIME, "ended" },
	{ "as_of", MEMBER_TIME, "as_of" },
	{ "started", MEMBER_TIME, NULL },
	{ "metric_value", MEMBER_MEASURED, NULL },
	{ "threshold", MEMBER_MEASURED, NULL },
	{ "before_value", MEMBER_MEASURED, NULL },
	{ "first_value", MEMBER_MEASURED, NULL },
	{ "peak_value", MEMBER_MEASURED, "peak" },
	{ "after_value", MEMBER_MEASURED, "ended" },
	{ "why_cleared", MEMBER_PLAIN, "ended" },
	{ "seconds_to_limit", MEMBER_SECONDS, NULL },
};

static struct member find_member(const char *key, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (json_cursor_is(key, len, members[i].key))
			return members[i];
	return (struct member){ NULL, MEMBER_PLAIN, NULL };
}

/* True: c is at the value. */
static bool find_value(const char *json, const char *name, struct json_cursor *c)
{
	const char *key;
	size_t len;

	json_cursor_init(c, json, strlen(json));
	if (!json_cursor_enter(c, '{'))
		return false;
	while (json_cursor_next_key(c, &key, &len)) {
		if (json_cursor_is(key, len, name))
			return true;
		json_cursor_skip(c);
	}
	return false;
}

static uint64_t time_ns(struct json_cursor *c)
{
	double seconds = json_cursor_f64(c);

	return seconds > 0 && seconds < 1e10 ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

/* A replay does not tell what comes. */
static bool is_later(const struct told *told, const struct member *m)
{
	struct json_cursor c;
	uint64_t at_ns = m->at && find_value(told->json, m->at, &c) ? time_ns(&c) : U64_UNKNOWN;

	return u64_known(at_ns) && at_ns > told->now_ns;
}

/* With as many digits as one reads, and its unit. */
static const char *measured_text(double v, const char *unit, char room[MEMBER_BYTES])
{
	char number[32];

	if (fabs(v) >= 1000)
		snprintf(number, sizeof(number), "%.0f", v);
	else
		snprintf(number, sizeof(number), "%.4g", v);
	snprintf(room, MEMBER_BYTES, "%s%s%.30s", number, unit ? " " : "", unit ? unit : "");
	return isnan(v) ? NULL : room;
}

/* Text without its quotes; NULL: nothing that fits into a line. */
static const char *plain_text(struct json_cursor *c, struct arena *arena)
{
	struct json_cursor again = *c;
	const char *text, *raw;
	size_t len;

	json_cursor_value(c, &raw, &len);
	if (len == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n')
		return NULL;
	text = json_cursor_string(&again, arena);
	return text ? text : arena_strndup(arena, raw, len);
}

/* Times as a clock has them; NULL: it is not to be shown. */
static const char *value_text(struct told *told, struct json_cursor *c, const struct member *m,
			      char room[MEMBER_BYTES])
{
	struct json_cursor value = *c;
	uint64_t wall_ns;

	json_cursor_skip(c);
	if (is_later(told, m))
		return NULL;
	switch (m->kind) {
	case MEMBER_TIME:
		wall_ns = time_ns(&value);
		return u64_known(wall_ns) ? draw_date(wall_ns, room) : NULL;
	case MEMBER_MEASURED:
		return measured_text(json_cursor_f64(&value), told->unit, room);
	case MEMBER_SECONDS:
		return measured_text(json_cursor_f64(&value), "s", room);
	default:
		return plain_text(&value, &told->arena);
	}
}

static int later(int a, int b)
{
	return a > b ? a : b;
}

/* Two in each row where there is room for them. Lists and objects in it are left out. */
static int draw_members(struct told *told, const struct area *a, int y)
{
	int columns = a->width >= 120 ? 2 : 1, n = 0, next = y;
	struct json_cursor c;
	const char *key;
	size_t len;

	json_cursor_init(&c, told->json, strlen(told->json));
	if (!json_cursor_enter(&c, '{'))
		return y;
	while (json_cursor_next_key(&c, &key, &len)) {
		struct area place = area_part(a, n % columns * (a->width / columns), 0,
					      a->width / columns - 1, a->height);
		char room[MEMBER_BYTES];
		struct member m = find_member(key, len);
		const char *value = value_text(told, &c, &m, room);

		if (!value || !value[0])
			continue;
		y = n++ % columns == 0 ? next : y;
		area_printf(&place, 0, y, STYLE_TITLE, "%.*s", (int)len, key);
		next = later(next, area_put_wrapped(&place, 18, y, STYLE_PLAIN, value));
	}
	return next;
}

static int draw_all(const struct scene *s, const struct area *a, int y,
		    const struct scene_event *event)
{
	struct told told = { .json = event->json, .now_ns = U64_UNKNOWN, .arena = ARENA_INIT };
	struct json_cursor c;

	if (s->source == SOURCE_REPLAY)
		told.now_ns = u64_max_known(s->snap.wall_ns, event->wall_ns);
	if (find_value(event->json, "unit", &c))
		told.unit = json_cursor_string(&c, &told.arena);
	y = draw_members(&told, a, y);
	arena_release(&told.arena);
	return y;
}

int draw_event(const struct scene *s, const struct area *a, int y, const struct scene_event *event)
{
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, y, STYLE_DIM, draw_when(s, event->wall_ns, room));

	y = area_put_wrapped(a, x + 1, y, STYLE_BOLD, event->text);
	return event->json ? draw_all(s, a, y, event) : y;
}
