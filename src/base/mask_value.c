#include "base/mask_value.h"

#include <stddef.h>
#include <string.h>

#include "base/ascii.h"

bool value_is_space(char c)
{
	return c == ' ' || ascii_is_control(c);
}

bool value_is_quote(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

/* Is c one of set? A NUL is in none. */
static bool is_in(char c, const char *set)
{
	return c && strchr(set, c);
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && value_is_space(*p))
		p++;
	return p;
}

static const char *skip_backslashes(const char *p, const char *end)
{
	while (p < end && *p == '\\')
		p++;
	return p;
}

/* A few of "'\]: what may close a name, as in ["name"] = */
static const char *skip_closers(const char *p, const char *end)
{
	for (int i = 0; i < 8 && p < end && is_in(*p, "\"'\\]"); i++)
		p++;
	return p;
}

static bool is_escaped_quote(const char *p, const char *end)
{
	const char *q = skip_backslashes(p, end);

	return q > p && q < end && value_is_quote(*q);
}

/* "name", "value" */
static struct value_separator comma_separator(const char *p, const char *end)
{
	p = skip_space(p + 1, end);
	if (p < end && (value_is_quote(*p) || is_escaped_quote(p, end)))
		return (struct value_separator){ p, false };
	return (struct value_separator){ NULL, false };
}

struct value_separator value_separator(const char *name_end, const char *end)
{
	const char *closed = skip_closers(name_end, end);
	const char *sep = skip_space(closed, end), *p = sep;
	bool is_line = sep > closed;

	if (closed > name_end && p < end && *p == ',')
		return comma_separator(p, end);
	if (end - p >= 2 && is_in(*p, "+?") && p[1] == '=')
		p++;
	for (; p < end && is_in(*p, "=:"); p++)
		is_line = is_line || *p == ':';
	if (p == sep || (p - sep == 2 && memcmp(sep, "::", 2) == 0))
		return (struct value_separator){ NULL, false };
	if (p < end && *p == '>')
		p++;
	return (struct value_separator){ skip_space(p, end), is_line };
}

/* Behind the quote that closes the one at p. */
static const char *quote_end(const char *p, const char *end)
{
	char quote = *p;

	for (p++; p < end && *p != quote; p++) {
		if (*p != '\\')
			continue;
		/* 'a\' is over for a shell and goes on for most others: take all. */
		if (quote == '\'' && end - p >= 2 && p[1] == quote)
			return end;
		p++;
	}
	return p < end ? p + 1 : end;
}

/* At p is \", quoted within quotes: the other is behind as many backslashes. */
static const char *escaped_quote_end(const char *p, const char *end)
{
	const char *q = skip_backslashes(p, end);
	ptrdiff_t depth = q - p;
	char quote = *q;

	for (q++; q < end; q++) {
		const char *run = q;

		q = skip_backslashes(q, end);
		if (q < end && *q == quote && q - run <= depth)
			return q - run == depth ? q + 1 : run;
	}
	return end;
}

/* The next c that no backslash hides, or end. */
static const char *find_closing(const char *p, const char *end, char c)
{
	for (; p < end && *p != c; p++)
		if (*p == '\\')
			p++;
	return p < end ? p : end;
}

const char *value_word_end(const char *p, const char *end, bool is_shell)
{
	int depth = 0;

	while (p < end) {
		if (depth == 0 && (value_is_space(*p) || (is_shell && is_in(*p, ";|&"))))
			return p;
		if (value_is_quote(*p)) {
			p = quote_end(p, end);
			continue;
		}
		depth += *p == '(';
		depth -= *p == ')' && depth > 0;
		p += *p == '\\' && end - p >= 2 ? 2 : 1;
	}
	return end;
}

/* A comma or bracket behind a closing quote that is no part of the value. */
static bool closes_list(const char *p, const char *end)
{
	return is_in(*p, ",}]") &&
	       (end - p < 2 || value_is_space(p[1]) || is_in(p[1], "\"'`,}])\\"));
}

const char *value_glued_end(const char *p, const char *end)
{
	if (p >= end || is_in(*p, ";)&|") || closes_list(p, end))
		return p;
	return value_word_end(p, end, false);
}

const char *value_end(const char *p, const char *end, char quote, bool is_line, bool is_shell)
{
	const char *close;

	if (value_is_quote(*p))
		return value_glued_end(quote_end(p, end), end);
	if (is_escaped_quote(p, end))
		return escaped_quote_end(p, end);
	if (is_in(*p, "[{"))
		return end;
	if (quote) {
		close = find_closing(p, end, quote);
		if (close == end || value_glued_end(close + 1, end) == close + 1)
			return close;
		return value_glued_end(close + 1, end);
	}
	if (is_line) {
		close = memchr(p, '\n', (size_t)(end - p));
		return close ? close : end;
	}
	return value_word_end(p, end, is_shell);
}

const char *value_query_end(const char *p, const char *end, char quote, bool has_spaces)
{
	if (value_is_quote(*p))
		return value_end(p, end, quote, false, false);
	for (; p < end && *p != '&' && *p != quote; p++) {
		if (!quote && !has_spaces && value_is_space(*p))
			break;
		if (*p == '\\' && end - p >= 2)
			p++;
	}
	return p;
}
