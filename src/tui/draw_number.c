#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/unknown.h"
#include "tui/draw.h"

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

const char *draw_clock(uint64_t wall_ns, char room[DRAW_NUMBER_BYTES])
{
	struct tm tm;

	if (!is_local_time(wall_ns, &tm) || strftime(room, DRAW_NUMBER_BYTES, "%T", &tm) == 0)
		return unknown(room);
	return room;
}

const char *draw_date(uint64_t wall_ns, char room[DRAW_NUMBER_BYTES])
{
	struct tm tm;

	if (!is_local_time(wall_ns, &tm) || strftime(room, DRAW_NUMBER_BYTES, "%F %T", &tm) == 0)
		return unknown(room);
	return room;
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

const char *draw_now(const struct scene *s, char room[DRAW_NUMBER_BYTES])
{
	size_t n = strlen(draw_clock(s->snap.wall_ns, room));

	if (s->source == SOURCE_REPLAY && s->replay.has_fractions && u64_known(s->snap.wall_ns))
		snprintf(room + n, DRAW_NUMBER_BYTES - n, ".%u",
			 (unsigned)(s->snap.wall_ns / 100000000 % 10));
	return room;
}
