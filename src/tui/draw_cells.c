#include "tui/draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "base/unknown.h"

/* ---- numbers ---- */

static const char *unknown(char room[DRAW_NUMBER_BYTES])
{
	snprintf(room, DRAW_NUMBER_BYTES, "-");
	return room;
}

/* Three digits at most, and a point where there is room for one. */
static const char *scale(double v, const char *suffix, char room[DRAW_NUMBER_BYTES])
{
	static const char units[] = "BKMGTPE";
	size_t unit = 0;

	for (; v >= 999.5 && unit + 2 < sizeof(units); unit++)
		v /= 1024;
	snprintf(room, DRAW_NUMBER_BYTES, unit > 0 && v < 9.95 ? "%.1f%c%s" : "%.0f%c%s", v,
		 units[unit], suffix);
	return room;
}

const char *draw_bytes(uint64_t bytes, char room[DRAW_NUMBER_BYTES])
{
	return u64_known(bytes) ? scale((double)bytes, "", room) : unknown(room);
}

const char *draw_rate(double bytes_per_second, char room[DRAW_NUMBER_BYTES])
{
	return isnan(bytes_per_second) ? unknown(room) : scale(bytes_per_second, "/s", room);
}

const char *draw_percent(double percent, char room[DRAW_NUMBER_BYTES])
{
	if (isnan(percent))
		return unknown(room);
	snprintf(room, DRAW_NUMBER_BYTES, percent < 99.95 ? "%.1f" : "%.0f", percent);
	return room;
}

const char *draw_count(uint64_t n, char room[DRAW_NUMBER_BYTES])
{
	if (!u64_known(n))
		return unknown(room);
	snprintf(room, DRAW_NUMBER_BYTES, "%llu", (unsigned long long)n);
	return room;
}

const char *draw_time(double seconds, char room[DRAW_NUMBER_BYTES])
{
	if (isnan(seconds) || seconds < 0)
		return unknown(room);
	if (seconds < 100)
		snprintf(room, DRAW_NUMBER_BYTES, "%.0fs", floor(seconds));
	else if (seconds < 6000)
		snprintf(room, DRAW_NUMBER_BYTES, "%.0fm%02.0f", floor(seconds / 60),
			 floor(fmod(seconds, 60)));
	else if (seconds < 360000)
		snprintf(room, DRAW_NUMBER_BYTES, "%.0fh%02.0f", floor(seconds / 3600),
			 floor(fmod(seconds / 60, 60)));
	else
		snprintf(room, DRAW_NUMBER_BYTES, "%.0fd", floor(seconds / 86400));
	return room;
}

/* Of a process that has done little that little is all there is to see. */
const char *draw_cpu_time(uint64_t ns, char room[DRAW_NUMBER_BYTES])
{
	if (!u64_known(ns) || ns >= UINT64_C(99995000000))
		return draw_time(u64_to_seconds(ns), room);
	snprintf(room, DRAW_NUMBER_BYTES, "%.2fs", (double)ns / 1e9);
	return room;
}

static bool is_local_time(uint64_t wall_ns, struct tm *ret)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);

	return u64_known(wall_ns) && localtime_r(&seconds, ret);
}

static const char *draw_local(uint64_t wall_ns, bool has_day, char room[DRAW_NUMBER_BYTES])
{
	struct tm tm;

	if (!is_local_time(wall_ns, &tm) ||
	    strftime(room, DRAW_NUMBER_BYTES, has_day ? "%F %T" : "%T", &tm) == 0)
		return unknown(room);
	return room;
}

const char *draw_clock(uint64_t wall_ns, char room[DRAW_NUMBER_BYTES])
{
	return draw_local(wall_ns, false, room);
}

const char *draw_date(uint64_t wall_ns, char room[DRAW_NUMBER_BYTES])
{
	return draw_local(wall_ns, true, room);
}

const char *draw_when(const struct scene *s, uint64_t wall_ns, char room[DRAW_NUMBER_BYTES])
{
	struct tm now, then;
	bool is_today = !s->has_snap || !is_local_time(s->snap.wall_ns, &now) ||
			!is_local_time(wall_ns, &then) ||
			(now.tm_year == then.tm_year && now.tm_yday == then.tm_yday);

	return is_today ? draw_clock(wall_ns, room) : draw_date(wall_ns, room);
}

const char *draw_span(uint64_t ns, char room[DRAW_NUMBER_BYTES])
{
	unsigned long long minutes = ns / UINT64_C(60000000000), hours = minutes / 60;

	if (hours >= 48)
		snprintf(room, DRAW_NUMBER_BYTES, "%llu d %llu h", hours / 24, hours % 24);
	else if (hours > 0)
		snprintf(room, DRAW_NUMBER_BYTES, "%llu h %llu min", hours, minutes % 60);
	else if (minutes > 1)
		snprintf(room, DRAW_NUMBER_BYTES, "%llu min", minutes);
	else
		snprintf(room, DRAW_NUMBER_BYTES, "%llu s",
			 (unsigned long long)(ns / UINT64_C(1000000000)));
	return room;
}

/* ---- curves ---- */

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

/* ---- system calls ---- */

#define MAX_NAMES 512 /* there are fewer system calls */
#define DESCRIBED 8

struct call {
	const char *name;
	uint64_t count;
	double time_ns; /* NaN: not timed */
};

struct call_sums {
	struct call items[MAX_NAMES];
	size_t n;
	bool is_counted; /* of one process, at least */
	struct map by_name;
};

static void add_process(struct call_sums *sums, const struct proc_sample *p)
{
	sums->is_counted |= p->syscalls != NULL;
	for (size_t i = 0; p->syscalls && i < p->n_syscalls; i++) {
		const struct syscall_use *use = &p->syscalls[i];
		uint64_t key = hash_bytes(HASH_INIT, use->name, strlen(use->name)), at = sums->n;
		struct call *call;

		if (!u64_known(use->count) || use->count == 0)
			continue;
		if (!map_get(&sums->by_name, key, &at)) {
			if (sums->n == MAX_NAMES || map_put(&sums->by_name, key, at) < 0)
				continue;
			sums->items[sums->n++] = (struct call){ use->name, 0, F64_UNKNOWN };
		}
		call = &sums->items[at];
		call->count += use->count;
		if (u64_known(use->cpu_ns))
			call->time_ns = (f64_known(call->time_ns) ? call->time_ns : 0) +
					(double)use->cpu_ns;
	}
}

static bool is_below(const struct proc_sample *p, const struct node *node)
{
	if (!node->job_id != !p->job_id || (p->job_id && strcmp(p->job_id, node->job_id) != 0))
		return false;
	if (p->attempt_id && p->attempt_id != node->attempt_id)
		return false;
	return (node->sheet_num == SHEET_NONE || p->sheet_num == node->sheet_num) &&
	       (node->rank == RANK_NONE || p->rank == node->rank);
}

static int compare_calls(const void *x, const void *y)
{
	const struct call *a = x, *b = y;

	return COMPARE(b->count, a->count) ?: strcmp(a->name, b->name);
}

static void sum_up(struct call_sums *sums, const struct snapshot *s, const struct node *node)
{
	sums->n = 0;
	sums->is_counted = false;
	sums->by_name = (struct map)MAP_INIT;
	if (node->p)
		add_process(sums, node->p);
	for (size_t i = 0; !node->p && i < s->n_processes; i++)
		if (is_below(&s->processes[i], node))
			add_process(sums, &s->processes[i]);
	map_release(&sums->by_name);
	qsort(sums->items, sums->n, sizeof(*sums->items), compare_calls);
}

void calls_name(const struct snapshot *s, const struct node *node, int columns, struct buf *out)
{
	struct call_sums sums;

	sum_up(&sums, s, node);
	for (size_t i = 0; i < sums.n; i++) {
		const char *name = sums.items[i].name;

		if ((int)(out->len + (out->len > 0) + strlen(name)) > columns)
			break;
		buf_printf(out, "%s%s", out->len > 0 ? " " : "", name);
	}
	if (!sums.is_counted)
		buf_add_char(out, '-');
}

/* Shares cannot be added up over processes: they are shown of one alone. */
void calls_describe(const struct snapshot *s, const struct node *node, struct buf *out)
{
	struct call_sums sums;
	const char *whose = " of their CPU time";
	double total_ns = 0;

	sum_up(&sums, s, node);
	for (size_t i = 0; node->p && i < sums.n; i++)
		total_ns += f64_known(sums.items[i].time_ns) ? sums.items[i].time_ns : 0;
	for (size_t i = 0; i < sums.n && i < DESCRIBED; i++) {
		const struct call *call = &sums.items[i];

		buf_printf(out, "%s%s %llu", i > 0 ? ", " : "", call->name,
			   (unsigned long long)call->count);
		if (!(total_ns > 0) || !f64_known(call->time_ns))
			continue;
		buf_printf(out, " (%.0f %%%s)", 100 * call->time_ns / total_ns, whose);
		whose = "";
	}
	if (sums.n > 0)
		buf_add_str(out, " since the look before");
	else
		buf_add_str(out, sums.is_counted ? "none since the look before" : "-");
}
