/*
 * Curves over time: each column is as long as every other, whenever it was looked. Where nobody
 * looked for long nothing is drawn.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/draw.h"

#define SECOND_NS UINT64_C(1000000000)
#define MAX_COLUMNS 512		/* of dots */
#define HOLE_NS (3 * SECOND_NS) /* what is shorter is none… */
#define HOLE_TIMES 3		/* …nor what is no longer than so many of its neighbours */

/* The highest of each column, up to a moment; NaN: nobody looked. */
struct curve {
	double values[MAX_COLUMNS];
	int n;
	uint64_t step_ns, to_ns;
	int first; /* column that has something; n: none does */
};

/* Between a point and the one before it. */
static uint64_t gap_before(const struct track *track, unsigned i)
{
	return u64_delta(track_wall_ns(track, i), track_wall_ns(track, i - 1));
}

/* Much longer than what lies on both sides of it: looking more often, or less, leaves no hole. */
static bool is_hole(const struct track *track, unsigned i)
{
	uint64_t gap_ns = gap_before(track, i), around_ns = 0;

	if (i > 1 && u64_known(gap_before(track, i - 1)))
		around_ns = gap_before(track, i - 1);
	if (i + 1 < track->n && u64_known(gap_before(track, i + 1)) &&
	    gap_before(track, i + 1) > around_ns)
		around_ns = gap_before(track, i + 1);
	return u64_known(gap_ns) && gap_ns > HOLE_NS && around_ns > 0 &&
	       gap_ns / HOLE_TIMES > around_ns;
}

/* Columns begin at whole steps of the clock, so that a picture moves and does not change. Negative:
 * before the first. */
static int column_of(const struct curve *c, uint64_t wall_ns)
{
	uint64_t last = c->to_ns / c->step_ns, at = wall_ns / c->step_ns;

	if (at >= last)
		return c->n - 1;
	return last - at < (uint64_t)c->n ? c->n - 1 - (int)(last - at) : -1;
}

/* As it was at the last look, until the next one. */
static void hold(struct curve *c, int from, int to, double v)
{
	for (int x = from < 0 ? 0 : from; x < to; x++)
		c->values[x] = v;
}

static void add_points(struct curve *c, const struct track *track)
{
	int before = -1, at;

	for (unsigned i = 0; i < track->n; i++) {
		at = column_of(c, track_wall_ns(track, i));
		if (i > 0 && !is_hole(track, i))
			hold(c, before + 1, at, track_rss(track, i - 1));
		if (at >= 0)
			c->values[at] = fmax(c->values[at], track_rss(track, i));
		before = at;
	}
	if (before >= 0 && before + 2 >= c->n) /* it may be that the next look is not due yet */
		hold(c, before + 1, c->n, track_rss(track, track->n - 1));
}

static void make_curve(struct curve *c, const struct track *track, int columns, uint64_t step_ns,
		       uint64_t to_ns)
{
	c->n = columns < MAX_COLUMNS ? columns : MAX_COLUMNS;
	c->n = c->n < 0 ? 0 : c->n;
	c->step_ns = step_ns;
	c->to_ns = to_ns;
	for (int x = 0; x < c->n; x++)
		c->values[x] = F64_UNKNOWN;
	if (track->n > 0 && c->n > 0)
		add_points(c, track);
	for (c->first = 0; c->first < c->n && isnan(c->values[c->first]);)
		c->first++;
}

static double highest(const struct curve *c)
{
	double most = 0;

	for (int x = c->first; x < c->n; x++)
		most = fmax(most, c->values[x]);
	return most;
}

void draw_sparkline(const struct area *a, int x, int y, int width, const struct track *track,
		    uint64_t step_ns, uint64_t to_ns)
{
	static const char *const steps[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	struct curve c;
	double most;

	if (!track)
		return;
	make_curve(&c, track, width, step_ns, to_ns);
	most = highest(&c);
	for (int i = c.first; i < c.n; i++) {
		double v = c.values[i];

		if (!isnan(v))
			area_put(a, x + width - c.n + i, y, STYLE_DIM,
				 steps[most > 0 ? (int)(v / most * 7.999) : 0]);
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

/* How many dots high a column is; -1: unknown. */
static int height_of(const struct curve *c, int i, double most, int rows)
{
	if (i < 0 || i >= c->n || isnan(c->values[i]))
		return -1;
	return most > 0 ? (int)(c->values[i] / most * (rows * 4 - 1)) : 0;
}

static void draw_braille(const struct area *a, int top, int rows, const struct curve *c)
{
	int first = c->n - a->width * 2;
	double most = highest(c);

	for (int x = 0; x < a->width; x++) {
		for (int y = 0; y < rows; y++) {
			int bottom = (rows - 1 - y) * 4;
			unsigned bits = 0;

			for (int half = 0; half < 2; half++) {
				int high = height_of(c, first + x * 2 + half, most, rows);

				for (int dot = 0; dot < 4; dot++)
					if (high >= bottom + dot)
						bits |= dots[half][dot];
			}
			put_braille(a, x, top + y, bits);
		}
	}
}

static double lowest(const struct track *track)
{
	double least = F64_UNKNOWN;

	for (unsigned i = 0; i < track->n; i++)
		least = fmin(least, track_rss(track, i));
	return least;
}

static uint64_t bytes_of(double v)
{
	return isnan(v) ? U64_UNKNOWN : (uint64_t)v;
}

/* When the first of those that are shown was, above its column. */
static void draw_times(const struct area *a, int y, const struct track *track,
		       const struct curve *c)
{
	uint64_t from_ns = track_wall_ns(track, 0);
	int x = a->width - (c->n - c->first + 1) / 2;
	char room[DRAW_NUMBER_BYTES], text[DRAW_NUMBER_BYTES + 8];

	snprintf(text, sizeof(text), "%s ago",
		 draw_time(u64_to_seconds(u64_delta(c->to_ns, from_ns)), room));
	area_put_right(a, 0, a->width, y, STYLE_DIM, "now");
	if (x + (int)strlen(text) + 4 > a->width)
		x = a->width - (int)strlen(text) - 4;
	area_put(a, x > 0 ? x : 0, y, STYLE_DIM, text);
}

/* Shorter where there is no room for it. */
static void draw_range(const struct area *a, int y, const struct track *track,
		       const struct curve *c)
{
	char most[DRAW_NUMBER_BYTES], least[DRAW_NUMBER_BYTES], text[80];

	draw_bytes(bytes_of(highest(c)), most);
	draw_bytes(bytes_of(lowest(track)), least);
	snprintf(text, sizeof(text), "memory: up to %s, at least %s", most, least);
	if ((int)strlen(text) > a->width)
		snprintf(text, sizeof(text), "memory %s to %s", least, most);
	area_put_right(a, 0, a->width, y, STYLE_TITLE, text);
}

/* So long that all of it has room, and in few sizes: else the picture changes with each look. */
static uint64_t step_of(uint64_t from_ns, uint64_t to_ns, int columns)
{
	uint64_t step_ns = SECOND_NS;

	while (from_ns < to_ns && to_ns / step_ns - from_ns / step_ns >= (uint64_t)columns)
		step_ns += step_ns / 4;
	return step_ns;
}

void draw_chart(const struct area *a, int y, int rows, const struct track *track)
{
	int columns = a->width * 2 < MAX_COLUMNS ? a->width * 2 : MAX_COLUMNS;
	struct curve c;
	uint64_t to_ns;

	if (track->n == 0 || columns < 2)
		return;
	to_ns = track_wall_ns(track, track->n - 1);
	make_curve(&c, track, columns, step_of(track_wall_ns(track, 0), to_ns, columns), to_ns);
	draw_range(a, y, track, &c);
	draw_braille(a, y + 1, rows - 2, &c);
	draw_times(a, y + rows - 1, track, &c);
}
