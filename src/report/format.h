/*
 * format - one value in words, the same in every format of the report.
 *
 * Everything appends. Unknown comes out as "-". report_add_bytes(),
 * report_add_duration() and report_add_status() of the door live here too.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "model/job.h"

void format_count(struct buf *out, uint64_t n);

/* "1 process", "2 processes": the plural is singular and suffix. */
void format_plural(struct buf *out, uint64_t n, const char *singular, const char *suffix);

/* "35 %", "4.2 %"; 100 is one core. */
void format_percent(struct buf *out, double percent);

/* "2026-11-15 03:45:08", local time. */
void format_time(struct buf *out, uint64_t wall_ns);

/* "+12.3 s": how long after start. */
void format_offset(struct buf *out, uint64_t wall_ns, uint64_t start_ns);

/* "SIGKILL (9)"; "signal 40" for those without a name. */
void format_signal(struct buf *out, int signal);

/* "exit code 3", "exit code 127 (command not found)", "SIGKILL (9)"; "-" when neither is known. */
void format_status(struct buf *out, struct exit_status status);

/* "exact", "at least", …; "source not recorded". */
void format_evidence(struct buf *out, enum evidence evidence);

/* "~ ", "≥ ", "≤ " before a number in a narrow column; "" for an exact one. */
const char *format_mark(enum evidence evidence);
#define FORMAT_MARKS \
	"~ sampled, ≥ at least, ≤ at most, ? source not recorded; numbers without a mark are exact."

/* s, or "-" for NULL and "". */
void format_string(struct buf *out, const char *s);

/* Numbers in ascending order, each once, as "1-4, 7": ranges_add() for each, then ranges_end(). */
struct ranges {
	struct buf *out; /* all else is 0 at the beginning */
	size_t n;
	int first, last;
};

void ranges_add(struct ranges *r, int num);
void ranges_end(struct ranges *r);

/*
 * Appends foreign text so that no terminal obeys it: control characters,
 * invisible and direction-changing ones come out as "\n", "\x1b", "\u202e",
 * bytes that are not UTF-8 as "\xff". Every text that leaves report/ passes
 * here (or through the JSON writer).
 */
void format_safe(struct buf *out, const char *s);
