/*
 * All that was told of something that happened.
 */
#include <string.h>

#include "base/json_cursor.h"
#include "tui/draw_detail.h"

static bool is_time(const char *key, size_t len)
{
	static const char *const keys[] = { "timestamp", "changed", "began",
					    "peak",	 "ended",   "started" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (json_cursor_is(key, len, keys[i]))
			return true;
	return false;
}

/* Times as a clock has them, text without its quotes; NULL: nothing that fits into a line. */
static const char *value_text(struct json_cursor *c, bool is_a_time, struct arena *arena,
			      char room[DRAW_NUMBER_BYTES])
{
	struct json_cursor again = *c;
	const char *text, *raw;
	size_t len;
	double v;

	json_cursor_value(c, &raw, &len);
	if (len == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n')
		return NULL;
	if (is_a_time) {
		v = json_cursor_f64(&again);
		return v > 0 && v < 1e10 ? draw_date((uint64_t)(v * 1e9), room) : NULL;
	}
	text = json_cursor_string(&again, arena);
	return text ? text : arena_strndup(arena, raw, len);
}

static int later(int a, int b)
{
	return a > b ? a : b;
}

/* Two in each row where there is room for them. Lists and objects in it are left out. */
static int draw_members(const struct area *a, int y, const char *json)
{
	int columns = a->width >= 120 ? 2 : 1, n = 0, next = y;
	struct arena arena = ARENA_INIT;
	struct json_cursor c;
	const char *key;
	size_t len;

	json_cursor_init(&c, json, strlen(json));
	if (!json_cursor_enter(&c, '{'))
		return y;
	while (json_cursor_next_key(&c, &key, &len)) {
		struct area place = area_part(a, n % columns * (a->width / columns), 0,
					      a->width / columns - 1, a->height);
		char room[DRAW_NUMBER_BYTES];
		const char *value = value_text(&c, is_time(key, len), &arena, room);

		if (!value || !value[0])
			continue;
		y = n++ % columns == 0 ? next : y;
		area_printf(&place, 0, y, STYLE_TITLE, "%.*s", (int)len, key);
		next = later(next, area_put_wrapped(&place, 18, y, STYLE_PLAIN, value));
	}
	arena_release(&arena);
	return next;
}

int draw_event(const struct scene *s, const struct area *a, int y, const struct scene_event *event)
{
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, y, STYLE_DIM, draw_when(s, event->wall_ns, room));

	y = area_put_wrapped(a, x + 1, y, STYLE_BOLD, event->text);
	return event->json ? draw_members(a, y, event->json) : y;
}
