#include "report/format.h"

#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "base/clock.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "report/report.h"

#define SECOND_NS 1e9
#define MINUTE 60u
#define HOUR (60u * MINUTE)
#define DAY (24u * HOUR)

void report_add_bytes(struct buf *out, uint64_t bytes)
{
	num_add_bytes(out, bytes);
}

void report_add_duration(struct buf *out, uint64_t ns)
{
	double seconds = (double)ns / SECOND_NS;
	uint64_t whole = (uint64_t)(seconds + 0.5);

	if (!u64_known(ns))
		buf_add_char(out, '-');
	else if (ns == 0)
		buf_add_str(out, "0 s");
	else if (seconds < 0.00995)
		buf_printf(out, "%.1f ms", seconds * 1e3);
	else if (seconds < 0.9995)
		buf_printf(out, "%.0f ms", seconds * 1e3);
	else if (seconds < 9.995)
		buf_printf(out, "%.2f s", seconds);
	else if (seconds < 59.95)
		buf_printf(out, "%.1f s", seconds);
	else if (whole < HOUR) /* from a minute upwards: the two largest units */
		buf_printf(out, "%um%02us", (unsigned)(whole / MINUTE), (unsigned)(whole % MINUTE));
	else if (whole < DAY)
		buf_printf(out, "%uh%02um", (unsigned)(whole / HOUR),
			   (unsigned)(whole % HOUR / MINUTE));
	else
		buf_printf(out, "%llud%02uh", (unsigned long long)(whole / DAY),
			   (unsigned)(whole % DAY / HOUR));
}

void format_count(struct buf *out, uint64_t n)
{
	if (u64_known(n))
		buf_printf(out, "%llu", (unsigned long long)n);
	else
		buf_add_char(out, '-');
}

void format_plural(struct buf *out, uint64_t n, const char *singular, const char *suffix)
{
	format_count(out, n);
	buf_printf(out, " %s%s", singular, n == 1 ? "" : suffix);
}

void format_percent(struct buf *out, double percent)
{
	if (!isfinite(percent))
		buf_add_char(out, '-');
	else
		buf_printf(out, "%.*f %%", percent > 0 && percent < 9.95 ? 1 : 0, percent);
}

void format_time(struct buf *out, uint64_t wall_ns)
{
	char text[40] = "";

	if (u64_known(wall_ns))
		clock_format_local(wall_ns, text, sizeof(text));
	format_string(out, text);
}

void format_offset(struct buf *out, uint64_t wall_ns, uint64_t start_ns)
{
	uint64_t offset = u64_delta(wall_ns, start_ns);

	if (u64_known(offset))
		buf_add_char(out, '+');
	report_add_duration(out, offset);
}

void format_signal(struct buf *out, int signal)
{
	const char *name = sigabbrev_np(signal);

	if (name)
		buf_printf(out, "SIG%s (%d)", name, signal);
	else
		buf_printf(out, "signal %d", signal);
}

void format_status(struct buf *out, struct exit_status status)
{
	int code = status.exit_code;

	if (status.signal >= 0)
		format_signal(out, status.signal);
	else if (code >= 0)
		buf_printf(out, "exit code %d", code);
	else
		buf_add_char(out, '-');
	if (status.signal >= 0)
		return;
	/* What shells mean by the codes that they make up themselves. */
	if (code == 126)
		buf_add_str(out, " (found, but cannot be executed)");
	else if (code == 127)
		buf_add_str(out, " (command not found)");
	else if (code > 128 && sigabbrev_np(code - 128))
		buf_printf(out, " (128 + SIG%s)", sigabbrev_np(code - 128));
}

void report_add_status(struct buf *out, struct exit_status status)
{
	const char *name = status.signal >= 0 ? sigabbrev_np(status.signal) : NULL;

	if (name)
		buf_printf(out, "SIG%s", name);
	else if (status.signal >= 0)
		format_signal(out, status.signal);
	else if (status.exit_code >= 0)
		buf_printf(out, "exit %d", status.exit_code);
	else
		buf_add_char(out, '-');
}

void format_evidence(struct buf *out, enum evidence evidence)
{
	buf_add_str(out, evidence ? evidence_name(evidence) : "source not recorded");
}

const char *format_mark(enum evidence evidence)
{
	static const char *const marks[] = {
		[EVIDENCE_UNKNOWN] = "? ",     [EVIDENCE_EXACT] = "",
		[EVIDENCE_SAMPLED] = "~ ",     [EVIDENCE_LOWER_BOUND] = "≥ ",
		[EVIDENCE_UPPER_BOUND] = "≤ ",
	};

	return marks[evidence];
}

void format_string(struct buf *out, const char *s)
{
	buf_add_str(out, s && s[0] ? s : "-");
}

static void ranges_flush(struct ranges *r)
{
	if (r->last > r->first)
		buf_printf(r->out, "%s%d", r->last == r->first + 1 ? ", " : "-", r->last);
}

void ranges_add(struct ranges *r, int num)
{
	if (r->n > 0 && num == r->last + 1) {
		r->last = num;
		r->n++;
		return;
	}
	ranges_flush(r);
	buf_printf(r->out, "%s%d", r->n > 0 ? ", " : "", num);
	r->first = r->last = num;
	r->n++;
}

void ranges_end(struct ranges *r)
{
	if (r->n > 0)
		ranges_flush(r);
}

/* First and last code points of what moves the cursor, hides, or turns the writing direction. */
static const struct {
	unsigned first, last;
} unsafe_points[] = {
	{ 0x00, 0x1f },	    { 0x7f, 0x9f },	{ 0xad, 0xad },	      { 0x61c, 0x61c },
	{ 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },   { 0x2060, 0x206f },
	{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff },
};

void format_safe(struct buf *out, const char *s)
{
	size_t n = strlen(s);

	while (n > 0) {
		size_t len = utf8_char_len(s, n);
		unsigned c = len ? utf8_code_point(s, len) : 0;
		bool is_unsafe = false;

		for (size_t i = 0; i < ARRAY_SIZE(unsafe_points); i++)
			is_unsafe |= c >= unsafe_points[i].first && c <= unsafe_points[i].last;
		if (len == 0)
			buf_printf(out, "\\x%02x", (unsigned char)s[0]);
		else if (!is_unsafe)
			buf_add(out, s, len);
		else if (c == '\n' || c == '\t' || c == '\r')
			buf_printf(out, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
		else
			buf_printf(out, c < 0x80 ? "\\x%02x" : "\\u%04x", c);
		len = len ? len : 1;
		s += len;
		n -= len;
	}
}
