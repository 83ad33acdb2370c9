#include "sources/strace_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"

/* Bounds what hostile text can take; Linux has fewer calls. */
#define MAX_ROWS 4096
#define MAX_NUMBER_BYTES 64

/* % time, seconds, usecs/call, calls, and the name; errors may stand before it. */
enum { WORD_PCT, WORD_SECONDS, WORD_USECS, WORD_CALLS, MIN_WORDS = 5, MAX_WORDS };

struct word {
	const char *start;
	size_t len;
};

void strace_summary_release(struct strace_summary *s)
{
	arena_release(&s->arena);
	*s = (struct strace_summary){ .arena = ARENA_INIT };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Returns how many words the line has, MAX_WORDS + 1 for too many. */
static size_t split(const char *line, const char *end, struct word words[MAX_WORDS])
{
	size_t n = 0;

	for (;;) {
		const char *start;

		while (line < end && is_blank(*line))
			line++;
		if (line == end)
			return n;
		if (n == MAX_WORDS)
			return n + 1;
		start = line;
		while (line < end && !is_blank(*line))
			line++;
		words[n++] = (struct word){ start, (size_t)(line - start) };
	}
}

static bool is_name(struct word w)
{
	static const char unnamed[] = "syscall_0x";

	for (size_t i = 0; i < w.len; i++)
		if (!isalnum((unsigned char)w.start[i]) && w.start[i] != '_')
			return false;
	if (w.len > strlen(unnamed) && memcmp(w.start, unnamed, strlen(unnamed)) == 0)
		return false;
	return !isdigit((unsigned char)w.start[0]) &&
	       !(w.len == 5 && memcmp(w.start, "total", 5) == 0) &&
	       !(w.len == 8 && memcmp(w.start, "subtotal", 8) == 0);
}

/* Digits, and a fraction at most: "29.13", "5". */
static bool parse_decimal(struct word w, double *ret)
{
	char text[MAX_NUMBER_BYTES];

	if (w.len >= sizeof(text) || !isdigit((unsigned char)w.start[0]))
		return false;
	for (size_t i = 0; i < w.len; i++)
		if (!isdigit((unsigned char)w.start[i]) && w.start[i] != '.')
			return false;
	memcpy(text, w.start, w.len);
	text[w.len] = '\0';
	return num_parse_f64(text, ret) == 0;
}

/* Too large for 64 bits is unknown, and still a number. */
static bool parse_count(struct word w, uint64_t *ret)
{
	int r = num_parse_u64_n(w.start, w.len, ret);

	if (r == -ERANGE)
		*ret = U64_UNKNOWN;
	return r == 0 || r == -ERANGE;
}

static bool parse_row(const char *line, const char *end, struct strace_row *ret,
		      struct word *ret_name)
{
	struct word words[MAX_WORDS];
	size_t n = split(line, end, words);
	uint64_t usecs;

	if (n < MIN_WORDS || n > MAX_WORDS || !is_name(words[n - 1]))
		return false;
	*ret = (struct strace_row){ 0 };
	*ret_name = words[n - 1];
	return parse_decimal(words[WORD_PCT], &ret->time_pct) &&
	       parse_decimal(words[WORD_SECONDS], &ret->seconds) &&
	       parse_count(words[WORD_USECS], &usecs) &&
	       parse_count(words[WORD_CALLS], &ret->count) &&
	       (n == MIN_WORDS || parse_count(words[WORD_CALLS + 1], &ret->errors));
}

static struct strace_row *find_row(struct strace_summary *s, struct word name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strlen(s->rows[i].name) == name.len &&
		    memcmp(s->rows[i].name, name.start, name.len) == 0)
			return &s->rows[i];
	return NULL;
}

static int add_row(struct strace_summary *s, struct word name, const struct strace_row *row)
{
	struct strace_row *place = find_row(s, name);
	const char *copy;

	if (!place && s->n == MAX_ROWS)
		return 0;
	copy = place ? place->name : arena_strndup(&s->arena, name.start, name.len);
	if (!copy)
		return -ENOMEM;
	if (!place)
		place = &s->rows[s->n++];
	*place = *row;
	place->name = copy;
	return 0;
}

static size_t count_lines(const char *text)
{
	size_t n = 1;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n < MAX_ROWS ? n : MAX_ROWS;
}

int strace_parse(const char *text, struct strace_summary *ret)
{
	CLEANUP(strace_summary_release) struct strace_summary s = { .arena = ARENA_INIT };
	struct strace_row row;
	struct word name;
	const char *end;
	int r = 0;

	s.rows = arena_alloc(&s.arena, count_lines(text) * sizeof(*s.rows));
	if (!s.rows)
		return -ENOMEM;
	for (; *text && r == 0; text = *end ? end + 1 : end) {
		end = text + strcspn(text, "\n");
		if (parse_row(text, end, &row, &name))
			r = add_row(&s, name, &row);
	}
	if (r < 0)
		return r;
	*ret = s;
	s = (struct strace_summary){ .arena = ARENA_INIT };
	return 0;
}
