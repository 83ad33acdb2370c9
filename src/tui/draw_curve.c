#include <math.h>

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

void draw_braille(const struct area *a, const struct track *track)
{
	int first = track ? (int)track->n - a->width * 2 : 0;
	double most = track ? highest(track, first > 0 ? (unsigned)first : 0) : 0;

	for (int x = 0; track && x < a->width; x++) {
		for (int y = 0; y < a->height; y++) {
			int bottom = (a->height - 1 - y) * 4;
			unsigned bits = 0;

			for (int half = 0; half < 2; half++) {
				int high = height_of(track, first + x * 2 + half, most, a->height);

				for (int dot = 0; dot < 4; dot++)
					if (high >= bottom + dot)
						bits |= dots[half][dot];
			}
			put_braille(a, x, y, bits);
		}
	}
}
