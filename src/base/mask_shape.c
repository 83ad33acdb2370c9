#include "base/mask_shape.h"

#include <stdint.h>
#include <string.h>

#include "base/ascii.h"
#include "base/macros.h"

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

/* -----BEGIN … PRIVATE KEY-----, taken to the end of the text. */
static size_t pem_match(const char *s, size_t n)
{
	static const char begin[] = "-----BEGIN ";
	size_t head = n < 64 ? n : 64;

	if (n < sizeof(begin) - 1 || memcmp(s, begin, sizeof(begin) - 1) != 0)
		return 0;
	return memmem(s, head, "PRIVATE KEY", strlen("PRIVATE KEY")) ? n : 0;
}

size_t mask_shape_len(const char *s, size_t n, bool is_cut)
{
	if (n == 0)
		return 0;
	if (s[0] == '-')
		return pem_match(s, n);
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

static bool is_port(const char *s, size_t from, size_t to)
{
	while (from < to && ascii_is_digit(s[from]))
		from++;
	return from == to;
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
	size_t colon = find_any(s, host, authority, ":");

	if (at < authority)
		return at;
	/* A password may hold a '/', which ends the authority too early. */
	if (colon == authority || (is_port(s, colon + 1, authority) && !(is_cut && authority == n)))
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
