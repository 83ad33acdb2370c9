#include "base/mask_text.h"

#include <stdint.h>
#include <string.h>

#include "base/ascii.h"
#include "base/macros.h"

/* ---- values ---- */

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

static bool is_escaped_quote(const char *p, const char *end)
{
	const char *q = skip_backslashes(p, end);

	return q > p && q < end && value_is_quote(*q);
}

struct value_separator value_separator(const char *name_end, const char *end)
{
	const char *closed = name_end, *sep, *p;
	bool is_line;

	/* A few of "'\\]: they may close a name, as in ["name"] = */
	for (int i = 0; i < 8 && closed < end && is_in(*closed, "\"'\\]"); i++)
		closed++;
	p = sep = skip_space(closed, end);
	is_line = sep > closed;
	if (closed > name_end && p < end && *p == ',') { /* "name", "value" */
		p = skip_space(p + 1, end);
		if (p < end && (value_is_quote(*p) || is_escaped_quote(p, end)))
			return (struct value_separator){ p, false };
		return (struct value_separator){ NULL, false };
	}
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
		for (close = p; close < end && *close != quote;
		     close++) /* no backslash before it */
			close += *close == '\\';
		close = close < end ? close : end;
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

/* ---- secrets by their shape ---- */

#define USER_TOKEN_MIN 20 /* a user's name without '@' that is as long as this is a token */

/*
 * A token is the prefix and a tail of letters, digits and the characters in
 * extra, at least min long, with as many dots and digits as asked for.
 */
static const struct shape {
	const char *prefix;
	size_t min;
	const char *extra;
	size_t dots;
	bool needs_digit;
} shapes[] = {
	{ "AKIA", 12, "", 0, false },	      { "ASIA", 12, "", 0, false },
	{ "AIza", 20, "_-", 0, false },	      { "SG.", 20, "._-", 1, false },
	{ "dckr_pat_", 16, "_-", 0, false },  { "dop_v1_", 16, "", 0, false },
	{ "eyJ", 8, "._-", 1, false },	      { "ghp_", 16, "", 0, false },
	{ "gho_", 16, "", 0, false },	      { "ghr_", 16, "", 0, false },
	{ "ghs_", 16, "", 0, false },	      { "ghu_", 16, "", 0, false },
	{ "github_pat_", 16, "_", 0, false }, { "glpat-", 16, "_-", 0, false },
	{ "gsk_", 20, "", 0, true },	      { "hf_", 20, "", 0, false },
	{ "hvs.", 16, "_-", 0, false },	      { "npm_", 30, "", 0, false },
	{ "nvapi-", 20, "_-", 0, false },     { "pypi-", 30, "_-", 0, false },
	{ "r8_", 20, "", 0, false },	      { "rk_live_", 10, "", 0, false },
	{ "shpat_", 16, "", 0, false },	      { "sk-", 16, "_-", 0, true },
	{ "sk_live_", 10, "", 0, false },     { "sk_test_", 10, "", 0, false },
	{ "tskey-", 12, "_-", 0, true },      { "xapp-", 10, "-", 0, true },
	{ "xoxa-", 10, "-", 0, true },	      { "xoxb-", 10, "-", 0, true },
	{ "xoxp-", 10, "-", 0, true },	      { "xoxr-", 10, "-", 0, true },
	{ "xoxs-", 10, "-", 0, true },	      { "ya29.", 16, "._-", 0, false },
};

static size_t shape_match(const struct shape *shape, const char *s, size_t n, bool is_cut)
{
	size_t head = strlen(shape->prefix), i = head, dots = 0, digits = 0;

	if (n < head || memcmp(s, shape->prefix, head) != 0)
		return 0;
	for (; i < n; i++) {
		if (ascii_is_digit(s[i]))
			digits++;
		else if (s[i] == '.' && strchr(shape->extra, '.'))
			dots++;
		else if (!ascii_is_alpha(s[i]) && (!s[i] || !strchr(shape->extra, s[i])))
			break;
	}
	if (i == n && is_cut)
		return i;
	if (i - head < shape->min || dots < shape->dots || (shape->needs_digit && digits == 0))
		return 0;
	return i;
}

size_t mask_shape_len(const char *s, size_t n, bool is_cut)
{
	static const char pem[] = "-----BEGIN ";

	if (n == 0)
		return 0;
	if (n >= strlen(pem) && memcmp(s, pem, strlen(pem)) == 0 &&
	    memmem(s, n < 64 ? n : 64, "PRIVATE KEY", strlen("PRIVATE KEY")))
		return n; /* -----BEGIN … PRIVATE KEY-----, to the end of the text */
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		size_t len;

		if (shapes[i].prefix[0] != s[0])
			continue;
		len = shape_match(&shapes[i], s, n, is_cut);
		if (len > 0)
			return len;
	}
	return 0;
}

/* The first byte of s[from..to) that is in set, or to. */
static size_t find_any(const char *s, size_t from, size_t to, const char *set)
{
	while (from < to && !(s[from] && strchr(set, s[from])))
		from++;
	return from;
}

static size_t find_last_at(const char *s, size_t from, size_t to)
{
	for (size_t i = to; i > from; i--)
		if (s[i - 1] == '@')
			return i - 1;
	return to;
}

size_t mask_user_len(const char *s, size_t n)
{
	size_t colon = find_any(s, 0, n, ":"), i = 0;
	bool has_at = find_any(s, 0, colon, "@") < colon;

	while (i < colon && (ascii_is_alnum(s[i]) || (s[i] && strchr("._-+%@\\", s[i]))))
		i++;
	if (colon == n || i < colon || (colon >= USER_TOKEN_MIN && !has_at))
		return 0;
	return mask_shape_len(s, colon, false) ? 0 : colon + 1;
}

/* Where the '@' is that ends user and password (n: in what was cut), or SIZE_MAX. */
static size_t url_at(const char *s, size_t n, bool is_cut)
{
	size_t authority = find_any(s, 0, n, "/?#");
	size_t at = find_last_at(s, 0, authority);
	/* The colons of [::1] are no password's. */
	size_t host = n && s[0] == '[' ? find_any(s, 0, authority, "]") : 0;
	size_t colon = find_any(s, host, authority, ":"), port = colon + 1;

	if (at < authority)
		return at;
	/* A password may hold a '/', which ends the authority too early. */
	while (port < authority && ascii_is_digit(s[port]))
		port++;
	if (colon == authority || (port == authority && !(is_cut && authority == n)))
		return SIZE_MAX;
	at = find_last_at(s, authority, n);
	return at == n && !is_cut ? SIZE_MAX : at;
}

bool mask_url_secret(const char *s, size_t n, bool is_cut, size_t *ret_from, size_t *ret_to)
{
	size_t at = url_at(s, n, is_cut);

	if (at == SIZE_MAX)
		return false;
	*ret_from = mask_user_len(s, at);
	*ret_to = at;
	return at > *ret_from && (at >= USER_TOKEN_MIN || find_any(s, 0, at, ":") < at);
}
