/*
 * Curves over time: all columns are of the same length, whenever the looks were. Where there was no
 * look for long nothing is drawn.
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

/* The highest of each column, up to a moment; NaN: there was no look. */
struct curve {
	double values[MAX_COLUMNS];
	int n;
	uint64_t to_ns;
	int first; /* column that has something; n: none does */
};

/* Between a point and the one before it; 0: there is none, or the clock was set back. */
static uint64_t gap_before(const struct track *track, unsigned i)
{
	uint64_t gap_ns = i > 0 && i < track->n
				  ? u64_delta(track_wall_ns(track, i), track_wall_ns(track, i - 1))
				  : 0;

	return u64_known(gap_ns) ? gap_ns : 0;
}

/* Much longer than what lies on both sides of it: looking more often, or less, leaves no hole. */
static bool is_hole(const struct track *track, unsigned i)
{
	uint64_t gap_ns = gap_before(track, i), around_ns = i > 1 ? gap_before(track, i - 1) : 0;

	if (gap_before(track, i + 1) > around_ns)
		around_ns = gap_before(track, i + 1);
	return gap_ns > HOLE_NS && around_ns > 0 && gap_ns / HOLE_TIMES > around_ns;
}

/* As it was at the last look, until the next one. */
static void hold(struct curve *c, int from, int to, double v)
{
	for (int x = from < 0 ? 0 : from; x < to; x++)
		c->values[x] = v;
}

/* Columns begin at whole steps of the clock, so that a picture moves and does not change. */
static void make_curve(struct curve *c, const struct track *track, int columns, uint64_t step_ns,
		       uint64_t to_ns)
{
	uint64_t last = to_ns / step_ns;
	int before = -1;

	c->n = columns < 0 ? 0 : columns < MAX_COLUMNS ? columns : MAX_COLUMNS;
	c->to_ns = to_ns;
	for (int x = 0; x < c->n; x++)
		c->values[x] = F64_UNKNOWN;
	for (unsigned i = 0; i < track->n && c->n > 0; i++) {
		uint64_t step = track_wall_ns(track, i) / step_ns;
		int at = c->n - 1;

		if (step < last) /* negative: before the first column */
			at = last - step < (uint64_t)c->n ? at - (int)(last - step) : -1;
		if (i > 0 && !is_hole(track, i))
			hold(c, before + 1, at, track_rss(track, i - 1));
		if (at >= 0)
			c->values[at] = fmax(c->values[at], track_rss(track, i));
		before = at;
	}
	if (before >= 0 && before + 2 >= c->n) /* it may be that the next look is not due yet */
		hold(c, before + 1, c->n, track_rss(track, track->n - 1));
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

static void draw_braille(const struct area *a, int top, int rows, const struct curve *c)
{
	/* the dots, by column and by row from the bottom */
	static const unsigned dots[2][4] = { { 0x40, 0x04, 0x02, 0x01 },
					     { 0x80, 0x20, 0x10, 0x08 } };
	int first = c->n - a->width * 2;
	double most = highest(c);

	for (int x = 0; x < a->width; x++) {
		int high[2]; /* dots; -1: unknown */

		for (int half = 0; half < 2; half++) {
			int i = first + x * 2 + half;

			high[half] = i < 0 || i >= c->n || isnan(c->values[i]) ? -1
				     : most > 0 ? (int)(c->values[i] / most * (rows * 4 - 1))
						: 0;
		}
		for (int y = 0; y < rows; y++) {
			unsigned bits = 0;
			char text[4] = "\xe2"; /* U+2800 and the dots, as UTF-8 */

			for (int dot = 0; dot < 8; dot++)
				if (high[dot / 4] >= (rows - 1 - y) * 4 + dot % 4)
					bits |= dots[dot / 4][dot % 4];
			text[1] = (char)(0xa0 | bits >> 6);
			text[2] = (char)(0x80 | (bits & 0x3f));
			if (bits)
				area_put(a, x, top + y, STYLE_BAR, text);
		}
	}
}

static const char *bytes_text(double v, char room[DRAW_NUMBER_BYTES])
{
	return draw_bytes(isnan(v) ? U64_UNKNOWN : (uint64_t)v, room);
}

/* The step is so long that all of it has room, and of few sizes: else the picture changes with each
 * look. The range is shorter where there is no room for it. */
void draw_chart(const struct area *a, int y, int rows, const struct track *track)
{
	int columns = a->width * 2 < MAX_COLUMNS ? a->width * 2 : MAX_COLUMNS, x;
	char most[DRAW_NUMBER_BYTES], least[DRAW_NUMBER_BYTES], text[80];
	uint64_t from_ns, to_ns, step_ns = SECOND_NS;
	double lowest = F64_UNKNOWN;
	struct curve c;

	if (track->n == 0 || columns < 2)
		return;
	from_ns = track_wall_ns(track, 0);
	to_ns = track_wall_ns(track, track->n - 1);
	while (from_ns < to_ns && to_ns / step_ns - from_ns / step_ns >= (uint64_t)columns)
		step_ns += step_ns / 4;
	make_curve(&c, track, columns, step_ns, to_ns);
	for (unsigned i = 0; i < track->n; i++)
		lowest = fmin(lowest, track_rss(track, i));
	snprintf(text, sizeof(text), "memory: up to %s, at least %s", bytes_text(highest(&c), most),
		 bytes_text(lowest, least));
	if ((int)strlen(text) > a->width)
		snprintf(text, sizeof(text), "memory %s to %s", least, most);
	area_put_right(a, 0, a->width, y, STYLE_TITLE, text);
	draw_braille(a, y + 1, rows - 2, &c);
	/* when the first of those that are shown was, above its column */
	x = a->width - (c.n - c.first + 1) / 2;
	snprintf(text, sizeof(text), "%s ago",
		 draw_time(u64_to_seconds(u64_delta(to_ns, from_ns)), most));
	area_put_right(a, 0, a->width, y + rows - 1, STYLE_DIM, "now");
	if (x + (int)strlen(text) + 4 > a->width)
		x = a->width - (int)strlen(text) - 4;
	area_put(a, x > 0 ? x : 0, y + rows - 1, STYLE_DIM, text);
}
