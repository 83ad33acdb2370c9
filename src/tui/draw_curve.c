#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/draw.h"

static double highest(const struct track *track, unsigned from)
{
	double most = 0;

	for (unsigned i = from; i < track->n; i++)
		most = fmax(most, track_rss(track, i));
	return most;
}

void draw_sparkline(const struct area *a, int x, int y, int width, const struct track *track)
{
	static const char *const steps[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	unsigned shown = track && track->n < (unsigned)width ? track->n : (unsigned)width;
	double most = track ? highest(track, track->n - shown) : 0;

	for (unsigned i = 0; track && i < shown; i++) {
		double v = track_rss(track, track->n - shown + i);
		int step = most > 0 && !isnan(v) ? (int)(v / most * 7.999) : 0;

		if (!isnan(v))
			area_put(a, x + width - (int)shown + (int)i, y, STYLE_DIM, steps[step]);
	}
}

/* The dots of braille, by column and by row from the bottom. */
static const unsigned dots[2][4] = { { 0x40, 0x04, 0x02, 0x01 }, { 0x80, 0x20, 0x10, 0x08 } };

/* U+2800 and the dots, as UTF-8. */
static void put_braille(const struct area *a, int x, int y, unsigned bits)
{
	const char text[] = { (char)0xe2, (char)(0xa0 | bits >> 6), (char)(0x80 | (bits & 0x3f)),
			      '\0' };

	if (bits)
		area_put(a, x, y, STYLE_BAR, text);
}

/* How many dots high a point is; -1: unknown. */
static int height_of(const struct track *track, int i, double most, int rows)
{
	double v;

	if (i < 0 || i >= (int)track->n)
		return -1;
	v = track_rss(track, (unsigned)i);
	if (isnan(v))
		return -1;
	return most > 0 ? (int)(v / most * (rows * 4 - 1)) : 0;
}

static void draw_braille(const struct area *a, int top, int rows, const struct track *track)
{
	int first = (int)track->n - a->width * 2;
	double most = highest(track, first > 0 ? (unsigned)first : 0);

	for (int x = 0; x < a->width; x++) {
		for (int y = 0; y < rows; y++) {
			int bottom = (rows - 1 - y) * 4;
			unsigned bits = 0;

			for (int half = 0; half < 2; half++) {
				int high = height_of(track, first + x * 2 + half, most, rows);

				for (int dot = 0; dot < 4; dot++)
					if (high >= bottom + dot)
						bits |= dots[half][dot];
			}
			put_braille(a, x, top + y, bits);
		}
	}
}

static double lowest(const struct track *track, unsigned from)
{
	double least = F64_UNKNOWN;

	for (unsigned i = from; i < track->n; i++)
		least = fmin(least, track_rss(track, i));
	return least;
}

static uint64_t bytes_of(double v)
{
	return isnan(v) ? U64_UNKNOWN : (uint64_t)v;
}

/* The first and the last of those that are shown. */
static void draw_times(const struct area *a, int y, const struct track *track, unsigned first)
{
	uint64_t from_ns = track_wall_ns(track, first);
	uint64_t to_ns = track_wall_ns(track, track->n - 1);
	unsigned columns = (track->n - first + 1) / 2;
	int x = a->width - (int)columns;
	char room[DRAW_NUMBER_BYTES], text[DRAW_NUMBER_BYTES + 8];

	snprintf(text, sizeof(text), "%s ago",
		 draw_time(u64_to_seconds(u64_delta(to_ns, from_ns)), room));
	area_put_right(a, 0, a->width, y, STYLE_DIM, "now");
	if (x + (int)strlen(text) + 4 > a->width)
		x = a->width - (int)strlen(text) - 4;
	area_put(a, x > 0 ? x : 0, y, STYLE_DIM, text);
}

/* Shorter where there is no room for it. */
static void draw_range(const struct area *a, int y, const struct track *track, unsigned first)
{
	char most[DRAW_NUMBER_BYTES], least[DRAW_NUMBER_BYTES], text[80];

	draw_bytes(bytes_of(highest(track, first)), most);
	draw_bytes(bytes_of(lowest(track, first)), least);
	snprintf(text, sizeof(text), "memory: up to %s, at least %s", most, least);
	if ((int)strlen(text) > a->width)
		snprintf(text, sizeof(text), "memory %s to %s", least, most);
	area_put_right(a, 0, a->width, y, STYLE_TITLE, text);
}

void draw_chart(const struct area *a, int y, int rows, const struct track *track)
{
	unsigned shown = (unsigned)a->width * 2;
	unsigned first = track->n > shown ? track->n - shown : 0;

	if (track->n == 0)
		return;
	draw_range(a, y, track, first);
	draw_braille(a, y + 1, rows - 2, track);
	draw_times(a, y + rows - 1, track, first);
}
