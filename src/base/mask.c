#include "base/mask.h"

#include <errno.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/utf8.h"

#define NAME_BYTES 128 /* of a longer name the end is looked at */
#define PATTERNS_MAX 64
#define PATTERN_MAX_BYTES 256

struct mask {
	regex_t *regexes;
	size_t n;
	size_t n_owners; /* beside the first */
};

/* The reference count is no part of the value, so taking a reference is allowed on a const mask. */
struct mask *mask_ref(const struct mask *mask)
{
	struct mask *owned = (struct mask *)mask;

	if (owned)
		owned->n_owners++;
	return owned;
}

struct mask *mask_free(struct mask *mask)
{
	if (!mask || mask->n_owners-- > 0)
		return NULL;
	for (size_t i = 0; i < mask->n; i++)
		regfree(&mask->regexes[i]);
	free(mask->regexes);
	free(mask);
	return NULL;
}

static int compile(const char *pattern, regex_t *ret, struct err *err)
{
	char why[128];
	int r;

	if (strlen(pattern) > PATTERN_MAX_BYTES)
		return err_set(err, -EINVAL, "the mask pattern '%.32s…' is longer than %d bytes",
			       pattern, PATTERN_MAX_BYTES);
	r = regcomp(ret, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
	if (r == 0)
		return 0;
	regerror(r, ret, why, sizeof(why));
	return err_set(err, r == REG_ESPACE ? -ENOMEM : -EINVAL,
		       "the mask pattern '%s' is not a regular expression: %s", pattern, why);
}

static void free_mask(struct mask **mask)
{
	mask_free(*mask);
}

int mask_new(const char *const *patterns, size_t n, struct mask **ret, struct err *err)
{
	CLEANUP(free_mask) struct mask *mask = calloc(1, sizeof(*mask));
	int r;

	if (n > PATTERNS_MAX)
		return err_set(err, -EINVAL, "%zu mask patterns; at most %d are allowed", n,
			       PATTERNS_MAX);
	if (mask)
		mask->regexes = calloc(n + 1, sizeof(*mask->regexes));
	if (!mask || !mask->regexes)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		r = compile(patterns[i], &mask->regexes[i], err);
		if (r < 0)
			return r;
		mask->n++;
		if (regexec(&mask->regexes[i], "", 0, NULL, 0) == 0)
			return err_set(err, -EINVAL,
				       "the mask pattern '%s' fits every name; write at least one "
				       "letter that must be there",
				       patterns[i]);
	}
	*ret = TAKE_PTR(mask);
	return 0;
}

/*
 * ---- values: where they begin and end in text ----
 *
 * The text may be a shell's, Python's or JSON; when two readings differ, the longer value is taken.
 * All text lies in [p..end), without NULs.
 */

/* control characters count */
static bool value_is_space(char c)
{
	return c == ' ' || ascii_is_control(c);
}

static bool value_is_quote(char c)
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

/* What stands between a name and its value: "=", ": ", "\"] = ", … */
struct value_separator {
	const char *value; /* NULL: there is none */
	bool is_line;	   /* "name: value", "name = value": the value may have spaces */
};
static struct value_separator value_separator(const char *name_end, const char *end)
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

/* The end of a shell's word; where the text is known to be a shell's, ; | & end it as well. */
static const char *value_word_end(const char *p, const char *end, bool is_shell)
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

/* p is behind a closing quote: the end of what a shell would glue on, or p. */
static const char *value_glued_end(const char *p, const char *end)
{
	if (p >= end || is_in(*p, ";)&|"))
		return p;
	/* A comma or bracket that closes a list is no part of the value. */
	if (is_in(*p, ",}]") && (end - p < 2 || value_is_space(p[1]) || is_in(p[1], "\"'`,}])\\")))
		return p;
	return value_word_end(p, end, false);
}

/*
 * The end of the value at p < end, which is quoted, a list, the rest of the
 * line (is_line), or a word; quote is what the value stands inside of, or 0.
 */
static const char *value_end(const char *p, const char *end, char quote, bool is_line,
			     bool is_shell)
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

/* The same in the query of a URL or a form, where & ends a value; has_spaces: a space does not. */
static const char *value_query_end(const char *p, const char *end, char quote, bool has_spaces)
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

/*
 * ---- secrets known by how they look, without a name ----
 *
 * is_cut: the text goes on behind s[n), unread. A token that reaches the end and could still turn
 * out to be a secret then counts as one.
 */

#define USER_TOKEN_MIN 20 /* a user's name without '@' that is as long as this is a token */
#define WEB_USER_MAX 8	  /* in a URL of the web, one that is shorter may be a name */

/*
 * A token is one of the prefixes and a tail of letters, digits and the characters in extra, at
 * least min long, with as many dots and digits as asked for.
 */
static const struct shape {
	size_t min;
	const char *extra;
	size_t dots;
	bool needs_digit;
	const char *prefixes[10]; /* to the first NULL */
} shapes[] = {
	{ 8, "._-", 1, false, { "eyJ" } },
	{ 10, "", 0, false, { "rk_live_", "sk_live_", "sk_test_" } },
	{ 10, "-", 0, true, { "xapp-", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-" } },
	{ 12, "", 0, false, { "AKIA", "ASIA" } },
	{ 12, "_-", 0, true, { "tskey-" } },
	{ 16,
	  "",
	  0,
	  false,
	  { "AGE-SECRET-KEY-1", "rubygems_", "dop_v1_", "ghp_", "gho_", "ghr_", "ghs_", "ghu_",
	    "shpat_" } },
	{ 16, "_", 0, false, { "github_pat_" } },
	{ 16, "_-", 0, false, { "dckr_pat_", "glpat-", "glrt-", "hvb.", "hvs." } },
	{ 16, "_-", 0, true, { "sk-" } },
	{ 16, "+/=", 0, false, { "whsec_" } },
	{ 16, "._-", 0, false, { "ya29." } },
	{ 20, "", 0, false, { "hf_", "r8_" } },
	{ 20, "", 0, true, { "gsk_" } },
	{ 20, "_-", 0, false, { "AIza", "nvapi-" } },
	{ 20, "_-=", 0, false, { "ATATT3" } },
	{ 20, "._-", 1, false, { "SG." } },
	{ 30, "", 0, false, { "npm_" } },
	{ 30, "_-", 0, false, { "pypi-" } },
};

static size_t shape_match(const struct shape *shape, const char *prefix, const char *s, size_t n,
			  bool is_cut)
{
	size_t head = strlen(prefix), i = head, dots = 0, digits = 0;

	if (n < head || memcmp(s, prefix, head) != 0)
		return 0;
	for (; i < n; i++) {
		if (ascii_is_digit(s[i]))
			digits++;
		else if (s[i] == '.' && is_in('.', shape->extra))
			dots++;
		else if (!ascii_is_alpha(s[i]) && !is_in(s[i], shape->extra))
			break;
	}
	if (i == n && is_cut)
		return i;
	if (i - head < shape->min || dots < shape->dots || (shape->needs_digit && digits == 0))
		return 0;
	return i;
}

/* Length of the token (ghp_…, AKIA…, a JWT, a PEM private key) that begins at s, or 0. */
static size_t mask_shape_len(const char *s, size_t n, bool is_cut)
{
	static const char pem[] = "-----BEGIN ";

	if (n == 0)
		return 0;
	if (n >= strlen(pem) && memcmp(s, pem, strlen(pem)) == 0 &&
	    memmem(s, n < 64 ? n : 64, "PRIVATE KEY", strlen("PRIVATE KEY")))
		return n; /* -----BEGIN … PRIVATE KEY-----, to the end of the text */
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		for (const char *const *prefix = shapes[i].prefixes; *prefix; prefix++) {
			size_t len =
				**prefix == *s ? shape_match(&shapes[i], *prefix, s, n, is_cut) : 0;

			if (len > 0)
				return len;
		}
	return 0;
}

/* The first byte of s[from..to) that is in set, or to. */
static size_t find_any(const char *s, size_t from, size_t to, const char *set)
{
	while (from < to && !is_in(s[from], set))
		from++;
	return from;
}

static size_t find_last_at(const char *s, size_t from, size_t to)
{
	const char *at = memrchr(s + from, '@', to - from);

	return at ? (size_t)(at - s) : to;
}

/*
 * s[0..n) is "user:password": the length of the user and the colon, if the user
 * is short and plain enough to be one and may be seen; else 0.
 */
static size_t mask_user_len(const char *s, size_t n)
{
	size_t colon = find_any(s, 0, n, ":"), i = 0;
	bool has_at = find_any(s, 0, colon, "@") < colon;

	while (i < colon && (ascii_is_alnum(s[i]) || is_in(s[i], "._-+%@\\")))
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

/*
 * A user without a password. On the web that is mostly a token, unless it is a short plain name, as
 * of "https://ada@host/".
 */
static bool is_lone_token(const char *s, size_t n, bool is_web)
{
	bool is_plain = n < WEB_USER_MAX;

	for (size_t i = 0; is_plain && i < n; i++)
		is_plain = ascii_is_lower(s[i]);
	return n >= USER_TOKEN_MIN || (is_web && !is_plain);
}

/*
 * s[0..n) is what stands behind the "://" of a URL. True if there is a password, or a token in the
 * place of the user, before the '@': s[from..to).
 */
static bool mask_url_secret(const char *s, size_t n, bool is_cut, bool is_web, size_t *ret_from,
			    size_t *ret_to)
{
	size_t at = url_at(s, n, is_cut), user;

	if (at == SIZE_MAX)
		return false;
	*ret_from = mask_user_len(s, at);
	*ret_to = at;
	user = find_any(s, 0, at, ":");
	if (*ret_from < at && user < at)
		return true;
	*ret_from = 0;
	return is_lone_token(s, user, is_web);
}

/*
 * ---- names: is the value behind this name a secret? ----
 *
 * Names are taken apart into words ("awsSecretAccessKey" is aws, secret,
 * access, key), so that --token is one and --tokenizer, --max-tokens and
 * --eos_token_id are not. When in doubt a name is secret, but a name that ends
 * like a file's or a size's (--password-file, --token-limit) is not. Of keys only
 * those of the environment are (OPENAI_KEY): --sort-key and key= are of data.
 */

enum place {
	ANYWHERE, /* these words, wherever in the name */
	LAST,	  /* these words at the end of the name */
	GLUED,	  /* these letters at the end of the name, even inside a word: PGPASSWORD */
	CAPITALS, /* as ANYWHERE, in a name like those of the environment: TOKEN_PROD */
	SUFFIX,	  /* as LAST, in such a name and behind another word: OPENAI_KEY, but not KEY */
	QUERY,	  /* as LAST, in the query of a URL: ?sig= */
};

/* In lower case, with words joined by '_'. */
static const struct {
	enum place place;
	const char *names[32]; /* to the first NULL */
} secret_names[] = {
	{ ANYWHERE,
	  { "password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials",
	    "apikey", "api_key", "access_key", "private_key" } },
	{ LAST,
	  { "pass", "passcode", "passin", "passout", "bearer", "cookie", "authorization",
	    "account_key", "auth_key", "encryption_key", "license_key", "master_key", "service_key",
	    "session_key", "shared_key", "signing_key", "storage_key", "subscription_key" } },
	/* Not "pass" itself, which ends bypass, lowpass and compass. */
	{ GLUED,
	  { "password",	  "passwd",    "passphrase", "pwd",	   "pw",	 "jwt",
	    "adminpass",  "bindpass",  "dbpass",     "ftppass",	   "httppass",	 "keypass",
	    "ldappass",	  "mailpass",  "proxypass",  "rootpass",   "smtppass",	 "sqlpass",
	    "storepass",  "userpass",  "secret",     "token",	   "apikey",	 "api_key",
	    "access_key", "accesskey", "authkey",    "masterauth", "privatekey", "requirepass",
	    "secretkey" } },
	{ CAPITALS, { "token" } },
	{ SUFFIX, { "key", "auth", "pat" } },
	{ QUERY, { "auth", "key", "sig", "signature" } },
};

/* Names that end so hold no secret, whatever stands before; keys of data are among them. */
static const char *const harmless_ends[] = {
	"cache_key",	 "column_key",	  "foreign_key", "group_key",  "index_key", "join_key",
	"object_key",	 "partition_key", "primary_key", "public_key", "range_key", "routing_key",
	"row_key",	 "sort_key",	  "unique_key",	 "bos_token",  "budget",    "cls_token",
	"count",	 "dim",		  "dir",	 "enabled",    "env",	    "eos_token",
	"expiry",	 "file",	  "files",	 "folder",     "len",	    "length",
	"limit",	 "manager",	  "mask_token",	 "max",	       "max_token", "min",
	"min_token",	 "name",	  "new_token",	 "pad_token",  "path",	    "per_token",
	"policy",	 "prompt",	  "provider",	 "required",   "sep_token", "size",
	"special_token", "stdin",	  "stop_token",	 "store",      "ttl",	    "type",
	"unk_token",	 "uri",		  "url",	 "version",
};

/* A capital opens a word after a small letter (accessToken), or before one (APIKey). */
static bool opens_word(const char *s, size_t i, size_t n)
{
	if (i == 0 || !ascii_is_upper(s[i]))
		return false;
	if (ascii_is_lower(s[i - 1]))
		return true;
	return ascii_is_upper(s[i - 1]) && i + 1 < n && ascii_is_lower(s[i + 1]);
}

static bool ends_glued(const char *words, size_t len, const char *text)
{
	size_t n = strlen(text);

	return n <= len && memcmp(words + len - n, text, n) == 0;
}

static bool ends_with(const char *words, size_t len, const char *text)
{
	size_t n = strlen(text);

	return ends_glued(words, len, text) && (n == len || words[len - n - 1] == '_');
}

static bool contains(const char *words, const char *text)
{
	size_t n = strlen(text);

	for (const char *p = strstr(words, text); p; p = strstr(p + 1, text))
		if ((p == words || p[-1] == '_') && (p[n] == '\0' || p[n] == '_'))
			return true;
	return false;
}

static bool is_at(const char *words, size_t len, const char *text, enum place place,
		  bool is_capitals, bool in_query)
{
	switch (place) {
	case ANYWHERE:
		return contains(words, text);
	case LAST:
		return ends_with(words, len, text);
	case GLUED:
		return ends_glued(words, len, text);
	case CAPITALS:
		return is_capitals && contains(words, text);
	case SUFFIX:
		return is_capitals && len > strlen(text) && ends_with(words, len, text);
	case QUERY:
		return in_query && ends_with(words, len, text);
	}
	return false;
}

/* name[0..n) without leading dashes. in_query: it follows a '?' or '&', as in a URL. */
static bool name_is_secret(const struct mask *mask, const char *name, size_t n, bool in_query)
{
	char words[NAME_BYTES], text[NAME_BYTES];
	bool is_known = false, is_capitals = true;
	size_t len;

	if (n >= sizeof(text)) {
		name += n - (sizeof(text) - 1);
		n = sizeof(text) - 1;
	}
	memcpy(text, name, n);
	text[n] = '\0';
	for (size_t i = 0; i < n; i++)
		is_capitals = is_capitals && !ascii_is_lower(name[i]);

	/* Small letters, words joined by '_', numbers at the end left out: "dbPassword2" is
	 * "db_password".
	 */
	len = 0;
	for (size_t i = 0; i < n && len < NAME_BYTES - 2; i++) {
		bool is_joint = !ascii_is_alnum(name[i]);

		if ((is_joint || opens_word(name, i, n)) && len > 0 && words[len - 1] != '_')
			words[len++] = '_';
		if (!is_joint)
			words[len++] = ascii_to_lower(name[i]);
	}
	while (len > 0 && (words[len - 1] == '_' || ascii_is_digit(words[len - 1])))
		len--;
	words[len] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(secret_names); i++)
		for (const char *const *text_at = secret_names[i].names; !is_known && *text_at;
		     text_at++)
			is_known = is_at(words, len, *text_at, secret_names[i].place, is_capitals,
					 in_query);
	for (size_t i = 0; is_known && i < ARRAY_SIZE(harmless_ends); i++)
		is_known = !ends_with(words, len, harmless_ends[i]);
	for (size_t i = 0; !is_known && i < mask->n; i++)
		is_known = regexec(&mask->regexes[i], text, 0, NULL, 0) == 0;
	return is_known;
}

/* --ask-pass, --no-password: an option that has a secret's name and takes no value. */
static bool name_is_switch(const char *name, size_t n)
{
	static const char *const starts[] = { "ask-", "no-", "prompt-", "show-", "skip-" };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (n > strlen(starts[i]) && strncmp(name, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/*
 * ---- programs whose options mean something special ----
 *
 * "-p" is a port more often than a password: only the name of the program, seen
 * earlier on the command line, tells the two apart.
 */

enum value_kind {
	VALUE_NONE,
	VALUE_SECRET,
	VALUE_LOGIN,  /* user:password */
	VALUE_AUTH,   /* the same, or a token alone */
	VALUE_SAMBA,  /* user%password */
	VALUE_FOLDER, /* a folder if it looks like one, else a secret: PWD=/tmp, Pwd=abc */
};

#define MYSQL_SWITCHES "ABCEGHILNTVXbfijnoqrstvw"
#define CURL_SWITCHES "012346BGIJLMNORSVZafgijklnpqsv"

/*
 * Options that carry a secret. The value is glued to the letter, stands in the
 * next word, or either. A program that ends in '*' is the beginning of a name.
 * switches are letters that take no value and may stand before the option in
 * the same word; "" where the program does not read them so.
 */
static const struct short_option {
	const char *program;
	char letter;
	bool is_glued, is_separate;
	enum value_kind kind;
	const char *switches;
} short_options[] = {
	{ "mysql*", 'p', true, false, VALUE_SECRET, MYSQL_SWITCHES },
	{ "mariadb*", 'p', true, false, VALUE_SECRET, MYSQL_SWITCHES },
	{ "sshpass", 'p', true, true, VALUE_SECRET, "v" },
	{ "login", 'p', true, true, VALUE_SECRET, "" }, /* docker login -p */
	{ "mongo*", 'p', false, true, VALUE_SECRET, "" },
	{ "redis-cli", 'a', true, true, VALUE_SECRET, "" },
	{ "ldap*", 'w', true, true, VALUE_SECRET, "ACIKLMNQVZcknrtuvx" },
	{ "mosquitto*", 'P', true, true, VALUE_SECRET, "" },
	{ "sqlcmd", 'P', true, true, VALUE_SECRET, "" },
	{ "zip", 'P', true, true, VALUE_SECRET, "0123456789@ADEFJLSTXcdefgjklmoqruvwyz" },
	{ "unzip", 'P', true, true, VALUE_SECRET, "CKLMTVXZacfjlnopqtuvz" },
	{ "7z*", 'p', true, false, VALUE_SECRET, "" },
	{ "curl", 'u', true, true, VALUE_LOGIN, CURL_SWITCHES },
	{ "curl", 'U', true, true, VALUE_LOGIN, CURL_SWITCHES },
	{ "curl", 'b', true, true, VALUE_SECRET, CURL_SWITCHES },
	{ "openssl", 'k', false, true, VALUE_SECRET, "" },
	{ "openssl", 'K', false, true, VALUE_SECRET, "" },
	{ "http*", 'a', true, true, VALUE_AUTH, "FISbcdfhjmv" },
	{ "smb*", 'U', true, true, VALUE_SAMBA, "" },
	{ "rpcclient", 'U', true, true, VALUE_SAMBA, "" },
	{ "wandb", '\0', false, false, VALUE_SECRET, "" }, /* wandb login KEY */
	{ "vault", '\0', false, false, VALUE_SECRET, "" },
	{ "ngrok", '\0', false, false, VALUE_SECRET, "" },
};

/* Words behind a program of '\0' in the table whose first word that is no option is a secret. */
static const char *const login_words[] = { "login", "authtoken", "add-authtoken" };

/* Long options that mean the same as a letter of the table. */
static const struct {
	const char *name, *letter;
} long_options[] = { { "user", "u" }, { "proxy-user", "u" }, { "auth", "a" }, { "user", "U" } };

/* Programs whose -c takes a script. */
static const char *const shells[] = {
	"sh",	"ash", "bash", "csh",	 "dash",    "fish",    "ksh",
	"tcsh", "zsh", "su",   "python", "python2", "python3", "busybox",
};

static bool name_is(const char *name, size_t n, const char *text)
{
	return strlen(text) == n && memcmp(name, text, n) == 0;
}

static bool name_is_one_of(const char *name, size_t n, const char *const *words, size_t n_words)
{
	while (n_words > 0 && !name_is(name, n, words[n_words - 1]))
		n_words--;
	return n_words > 0;
}

/* Adds a word to the set of programs that were seen so far, which begins as 0. */
static unsigned programs_add(unsigned seen, const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(short_options); i++) {
		const char *program = short_options[i].program;
		size_t len = strcspn(program, "*");

		if (n >= len && memcmp(name, program, len) == 0 && (n == len || program[len]))
			seen |= 1u << i;
	}
	return seen;
}

/*
 * letters[0..n) stood behind a '-'; is_word: nothing else is in the word. If one of them carries a
 * secret, and those before it are switches of that program (curl -su), returns how many letters
 * lead to it, itself counted, and *ret is the kind of value that follows, in the same word or in
 * the next. Else 0.
 */
static size_t short_option(unsigned seen, const char *letters, size_t n, bool is_word,
			   enum value_kind *ret)
{
	for (size_t k = 0; k < ARRAY_SIZE(short_options); k++) {
		const struct short_option *o = &short_options[k];
		size_t i = 0;

		if (!(seen & 1u << k))
			continue;
		while (i < n && letters[i] != o->letter && is_in(letters[i], o->switches))
			i++;
		if (i == n || letters[i] != o->letter)
			continue;
		if (i + 1 == n && is_word ? o->is_separate : o->is_glued) {
			*ret = o->kind;
			return i + 1;
		}
	}
	return 0;
}

/* The kind of value that --name takes by the program, beside its name: curl --user me:secret. */
static enum value_kind long_option(unsigned seen, const char *name, size_t n)
{
	enum value_kind kind = VALUE_NONE;

	/* Where -u takes a login, --user does; "docker run --user 1000:1000" holds none. */
	for (size_t i = 0; i < ARRAY_SIZE(long_options) && kind == VALUE_NONE; i++)
		if (name_is(name, n, long_options[i].name))
			(void)short_option(seen, long_options[i].letter, 1, true, &kind);
	return kind;
}

/* "login" of a program that takes the secret as a word. */
static bool is_login(unsigned seen, const char *name, size_t n)
{
	bool is_program = false;

	for (size_t i = 0; i < ARRAY_SIZE(short_options); i++)
		is_program |= short_options[i].letter == '\0' && (seen & 1u << i);
	return is_program && name_is_one_of(name, n, login_words, ARRAY_SIZE(login_words));
}

/* ---- command lines ---- */

/*
 * How much of a command line is looked at. Enough for 500 bytes to show, and a
 * bound on the work: a command line of 2 MiB costs no more than one of 4 KiB.
 */
#define WINDOW_BYTES 4096

/* One walk over a command line. Everything between pos and arg_end is still to do. */
struct scan {
	const struct mask *mask;
	struct buf *out;
	size_t out_full; /* what goes behind this length will not be seen */
	const char *arg, *arg_end, *end;
	const char *pos;
	bool is_cut;	/* the command line goes on behind end, unread */
	bool is_script; /* the argument is what "sh -c" gets: values end where its words do */
	bool is_plain;	/* no space, quote or brace in it so far: a value is all the rest */
	char quote;	/* the quote that pos is inside of, or 0 */
	enum value_kind pending;
	unsigned programs; /* those seen so far, see programs_add() */
	bool has_shell;
	bool has_set;	   /* "config set NAME VALUE": a name may stand alone before its value */
	bool has_login;	   /* "wandb login": the next argument that is no option is a secret */
	int n_decoded;	   /* so many encodings deep it is what a word stands for */
	size_t glued_max;  /* so many letters before a name may not belong to it */
	unsigned n_hidden; /* values, so far */
};

static bool is_full(const struct scan *s)
{
	return s->out->len > s->out_full;
}

static void emit(struct scan *s, const char *from, const char *to)
{
	while (from < to && !is_full(s)) {
		const char *p = from;

		while (p < to && (unsigned char)*p < 0x80 && !ascii_is_control(*p))
			p++;
		buf_add(s->out, from, (size_t)(p - from));
		from = p < to ? p + utf8_add_shown(s->out, p, (size_t)(to - p)) : p;
	}
}

/* Moves to to, keeping account of quotes. */
static void advance(struct scan *s, const char *to)
{
	for (; s->pos < to; s->pos++) {
		char c = *s->pos;

		if (value_is_space(c) || value_is_quote(c) || c == '{')
			s->is_plain = false;
		if (c == '\\' && to - s->pos >= 2)
			s->pos++;
		else if (value_is_quote(c) && (!s->quote || s->quote == c))
			s->quote = s->quote ? '\0' : c;
	}
}

static void show(struct scan *s, const char *to)
{
	emit(s, s->pos, to);
	advance(s, to);
}

/* Puts *** for everything up to to, inside the quotes if the whole is quoted. */
static void hide(struct scan *s, const char *to)
{
	size_t n = (size_t)(to - s->pos), q = 0;

	while (q < n && s->pos[q] == '\\')
		q++;
	q = q < n && value_is_quote(s->pos[q]) ? q + 1 : 0;
	if (2 * q > n || memcmp(s->pos, to - q, q) != 0)
		q = 0;
	emit(s, s->pos, s->pos + q);
	buf_add_str(s->out, "***");
	s->n_hidden++;
	emit(s, to - q, to);
	advance(s, to);
}

/*
 * Of a login the user may be seen; without a colon it holds nothing to hide, and
 * pos stays. So it does before a folder.
 */
static void hide_value(struct scan *s, const char *to, enum value_kind kind)
{
	size_t n = (size_t)(to - s->pos);

	if (kind == VALUE_FOLDER) { /* /tmp, ~, ./x, .., $HOME; quoted or not */
		const char *p = s->pos;

		while (p < to && (value_is_quote(*p) || *p == '\\'))
			p++;
		if (p < to && is_in(*p, "/~.$"))
			return;
	}
	if (kind == VALUE_LOGIN && !memchr(s->pos, ':', n))
		return;
	if (kind == VALUE_LOGIN || kind == VALUE_AUTH)
		show(s, s->pos + mask_user_len(s->pos, n));
	if (kind == VALUE_SAMBA) {
		const char *percent = memchr(s->pos, '%', n);

		if (!percent)
			return;
		show(s, percent + 1);
	}
	if (s->pos < to)
		hide(s, to);
}

/* Does the word at pos look like the next option rather than like a secret? */
static bool is_next_option(const struct scan *s)
{
	const char *p = s->pos;
	ptrdiff_t n = value_word_end(p, s->arg_end, false) - p;

	if (n < 2 || p[0] != '-')
		return false;
	return n == 2 || (p[1] == '-' && ascii_is_alpha(p[2]));
}

/* The word at pos is a value that the option before asked for. */
static bool scan_pending(struct scan *s)
{
	enum value_kind kind = s->pending;
	const char *from = s->pos, *to;
	size_t dashes = 0;

	if (kind == VALUE_NONE)
		return false;
	if (from > s->arg && (value_is_space(*from) || *from == s->quote))
		return false;
	s->pending = VALUE_NONE;
	if (is_next_option(s))
		return false;
	s->has_login = false;
	to = s->arg_end;
	if (from > s->arg)
		to = value_end(from, s->arg_end, s->quote, false, s->is_script);
	hide_value(s, to, kind);
	/* "--password -token abc": whichever of the two was meant, abc is not shown. */
	while (from + dashes < to && from[dashes] == '-')
		dashes++;
	if (dashes && name_is_secret(s->mask, from + dashes, (size_t)(to - from) - dashes, false))
		s->pending = VALUE_SECRET;
	return s->pos > from;
}

static bool scan_shape(struct scan *s, const char *from)
{
	size_t n = (size_t)(s->arg_end - from);
	size_t len = mask_shape_len(from, n, s->is_cut && s->arg_end == s->end);

	if (len == 0)
		return false;
	show(s, from);
	hide(s, from + len);
	return true;
}

static bool scan_url(struct scan *s)
{
	const bool is_escaped = s->arg_end - s->pos >= 5 && memcmp(s->pos, ":\\/\\/", 5) == 0;
	const char *from = s->pos + (is_escaped ? 5 : 3), *p = from;
	size_t before = (size_t)(s->pos - s->arg), secret, secret_end;
	bool is_web = (before >= 4 && strncasecmp(s->pos - 4, "http", 4) == 0) ||
		      (before >= 5 && strncasecmp(s->pos - 5, "https", 5) == 0);

	if (s->arg_end - s->pos < 3 || (!is_escaped && memcmp(s->pos, "://", 3) != 0))
		return false;
	while (p < s->arg_end && !value_is_space(*p) && (!s->quote || *p != s->quote))
		p++;
	if (!mask_url_secret(from, (size_t)(p - from), s->is_cut && p == s->end, is_web, &secret,
			     &secret_end))
		return false;
	show(s, from + secret);
	hide(s, from + secret_end);
	return true;
}

/* -pabc, -p abc or -vp abc, of a program that was named before. */
static bool scan_short_option(struct scan *s, const char *run_end)
{
	bool is_word = run_end == s->arg_end || value_is_space(*run_end);
	const char *letters = s->pos + 1, *to = s->arg_end;
	enum value_kind kind = VALUE_NONE;
	size_t reach =
		short_option(s->programs, letters, (size_t)(run_end - letters), is_word, &kind);

	if (reach == 0)
		return false;
	if (s->is_script || !s->is_plain)
		to = value_word_end(s->pos, s->arg_end, s->is_script);
	show(s, letters + reach);
	if (is_word && s->pos == run_end)
		s->pending = kind;
	else
		hide_value(s, to, kind);
	return true;
}

static bool is_behind_semicolon(const struct scan *s)
{
	return s->pos > s->arg && s->pos[-1] == ';';
}

/* A name and its separator, as in --token=, both still to be shown. */
static void scan_named_value(struct scan *s, const struct value_separator *sep,
			     enum value_kind kind, bool is_option, bool in_query)
{
	/* In "Data Source=h;Pwd=a b" too, a space does not end it. */
	bool is_rest = (s->is_plain || is_behind_semicolon(s)) && !s->is_script;
	const char *to;

	show(s, sep->value);
	if (s->pos == s->arg_end) {
		s->pending = is_option ? kind : VALUE_NONE;
		return;
	}
	if (*s->pos == s->quote) {
		/* "password="'abc': the quote ends here, the value does not. */
		show(s, s->pos + 1);
		to = value_glued_end(s->pos, s->arg_end);
	} else if (in_query) {
		to = value_query_end(s->pos, s->arg_end, s->quote, is_rest);
	} else if (is_rest) {
		to = s->arg_end;
	} else {
		to = value_end(s->pos, s->arg_end, s->quote, sep->is_line, s->is_script);
	}
	hide_value(s, to, kind);
}

static enum value_kind name_kind(const struct scan *s, const char *name, size_t n, bool is_option,
				 bool in_query)
{
	/* After "\n" in a string the name begins one later, and in -DPASS behind the option. */
	bool is_glued =
		(name > s->arg && name[-1] == '\\') || (name == s->arg + 1 && name[-1] == '-');
	size_t glued_max = is_glued ? 1 : s->glued_max;

	if (is_option && long_option(s->programs, name, n) != VALUE_NONE)
		return long_option(s->programs, name, n);
	/* PWD and OLDPWD are the shell's folder. But ";Pwd=" is of a connection string. */
	if (!in_query && !is_behind_semicolon(s) &&
	    ((n == 3 && strncasecmp(name, "pwd", n) == 0) ||
	     (n == 6 && strncasecmp(name, "oldpwd", n) == 0)))
		return VALUE_FOLDER;
	for (size_t i = 0; i <= glued_max && i < n; i++)
		if (name_is_secret(s->mask, name + i, n - i, in_query))
			return VALUE_SECRET;
	return VALUE_NONE;
}

/* A word without a separator: an option's value may be the next word. */
static void note_word(struct scan *s, const char *name, size_t n, bool is_option)
{
	if (is_option) {
		s->pending =
			name_is_switch(name, n) ? VALUE_NONE : name_kind(s, name, n, true, false);
		if (s->pending == VALUE_NONE && s->has_login && s->is_script)
			s->pending = VALUE_SECRET;
	} else if (n == 6 && strncasecmp(name, "bearer", 6) == 0) {
		s->pending = VALUE_SECRET;
	} else if (s->has_set && name_is_secret(s->mask, name, n, false)) {
		s->pending = VALUE_SECRET;
	} else {
		s->has_set = s->has_set || (n == 3 && strncasecmp(name, "set", 3) == 0);
		s->programs = programs_add(s->programs, name, n);
		s->has_shell = s->has_shell || name_is_one_of(name, n, shells, ARRAY_SIZE(shells));
		if (is_login(s->programs, name, n)) {
			s->has_login = true;
			s->pending = s->is_script ? VALUE_SECRET : VALUE_NONE;
		}
	}
}

/*
 * ---- secrets in another form: percent-encoded, in base64 or in hexadecimal digits ----
 *
 * What it stands for is looked at as if it stood there. If there is (more) to hide in that, it is
 * hidden. A letter of an option, a folder, or anything else of the same letters may be glued to
 * the beginning of base64 or hexadecimal digits: so each place in which a group of them can begin
 * is tried, and bytes that are in no text end one piece of text and begin another.
 */

#define TEXT_MIN 8    /* bytes; in fewer there is no name and a value */
#define GLUED_MAX 3   /* letters before a name may be the end of what was glued to it */
#define ESCAPES_MAX 3 /* what is encoded may be encoded again */
#define ENCODINGS_MAX 2

/* Of so many bits a letter: 6 of base64, 4 of hexadecimal digits. -1: it is no such letter. */
static int digit_of(char c, unsigned bits)
{
	if (ascii_is_digit(c))
		return c - '0' + (bits == 6 ? 52 : 0);
	if (bits == 4) {
		c = ascii_to_lower(c);
		return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
	}
	if (ascii_is_alpha(c))
		return ascii_is_upper(c) ? c - 'A' : c - 'a' + 26;
	return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* "p%61ss", "p\x61ss" and "p\u0061ss" as "pass", which may be in its place. Returns its length. */
static size_t decode_escapes(const char *s, size_t n, char *ret)
{
	static const char *const heads[] = { "%", "\\x", "\\u00" };
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		for (size_t k = 0; k < ARRAY_SIZE(heads); k++) {
			size_t at = i + strlen(heads[k]);

			if (at + 1 >= n || memcmp(s + i, heads[k], at - i) != 0 ||
			    digit_of(s[at], 4) < 0 || digit_of(s[at + 1], 4) < 0)
				continue;
			c = (char)(digit_of(s[at], 4) << 4 | digit_of(s[at + 1], 4));
			i = at + 1;
			break;
		}
		ret[len++] = c;
	}
	return len;
}

static void scan_arg(struct scan *s);

/* How many values would be hidden in this text, so many encodings deep. */
static unsigned count_hidden(const struct scan *s, const char *text, size_t n, size_t glued_max,
			     int n_decoded)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct scan inner = {
		.mask = s->mask,
		.out = &out,
		.out_full = SIZE_MAX,
		.arg = text,
		.arg_end = text + n,
		.end = text + n,
		.is_script = true,
		.programs = s->programs,
		.n_decoded = n_decoded,
		.glued_max = glued_max,
	};

	scan_arg(&inner);
	return inner.n_hidden;
}

/* Whether there is a secret in the text that letters[0..n) stand for. */
static bool holds_secret(const struct scan *s, const char *letters, size_t n, unsigned bits)
{
	const size_t n_starts = bits == 6 ? 4 : 2;
	char text[WINDOW_BYTES];

	for (size_t start = 0; n * bits >= TEXT_MIN * 8 && start < n_starts; start++) {
		unsigned value = 0, n_bits = 0;
		size_t len = 0;

		for (size_t i = start; i <= n; i++) {
			char c = '\x7f'; /* the end, which is in no text either */

			if (i < n) {
				value = value << bits | (unsigned)digit_of(letters[i], bits);
				n_bits += bits;
				if (n_bits < 8)
					continue;
				n_bits -= 8;
				c = (char)(value >> n_bits);
			}
			if (c == '\0') /* every other byte of UTF-16 */
				continue;
			if (!ascii_is_control(c) && (unsigned char)c < 0x80) {
				text[len++] = c;
				continue;
			}
			if (len >= TEXT_MIN &&
			    count_hidden(s, text, len, GLUED_MAX, s->n_decoded + 1) > 0)
				return true;
			len = 0;
		}
	}
	return false;
}

/* Of what a run of name characters, or of letters that stand for others, is made. */
static bool is_run_char(char c)
{
	return c == '.' || digit_of(c, 6) >= 0;
}

/* At pos: a word with escapes, or a run with letters of base64 or hexadecimal digits in it. */
static bool scan_encoded(struct scan *s)
{
	char before = s->pos > s->arg ? s->pos[-1] : ' ', decoded[WINDOW_BYTES];
	const char *end = s->pos, *run_end;
	size_t len;

	if (s->n_decoded == ENCODINGS_MAX || is_run_char(before))
		return false;
	if (value_is_space(before) || value_is_quote(before)) {
		while (end < s->arg_end && !value_is_space(*end) && !value_is_quote(*end))
			end++;
		len = (size_t)(end - s->pos);
		memcpy(decoded, s->pos, len);
		for (int i = 0; i < ESCAPES_MAX; i++)
			len = decode_escapes(decoded, len, decoded);
		if (len < (size_t)(end - s->pos) &&
		    count_hidden(s, decoded, len, 0, s->n_decoded + 1) >
			    count_hidden(s, s->pos, (size_t)(end - s->pos), 0, ENCODINGS_MAX)) {
			hide(s, end);
			return true;
		}
	}
	for (end = s->pos; end < s->arg_end && is_run_char(*end);)
		end++;
	for (unsigned bits = 4; bits <= 6; bits += 2)
		for (const char *p = s->pos; p < end; p = run_end) {
			while (p < end && digit_of(*p, bits) < 0)
				p++;
			for (run_end = p; run_end < end && digit_of(*run_end, bits) >= 0;)
				run_end++;
			if (!holds_secret(s, p, (size_t)(run_end - p), bits))
				continue;
			while (end < s->arg_end && *end == '=')
				end++;
			hide(s, end);
			return true;
		}
	return false;
}

/* A run of name characters at pos: an option, the name of a value, or any word. */
static bool scan_run(struct scan *s)
{
	const char *name = s->pos, *run_end = s->pos;
	bool in_query = s->pos > s->arg && (s->pos[-1] == '?' || s->pos[-1] == '&');
	struct value_separator sep;
	enum value_kind kind;
	bool is_option;

	while (run_end < s->arg_end && (ascii_is_alnum(*run_end) || is_in(*run_end, "_-.")))
		run_end++;
	if (run_end == s->pos)
		return false;
	while (name < run_end && *name == '-')
		name++;
	is_option = name > s->pos && name < run_end;
	if (is_option &&
	    (scan_shape(s, name) ||
	     (name == s->pos + 1 && (scan_shape(s, name + 1) || scan_short_option(s, run_end)))))
		return true;

	sep = value_separator(run_end, s->arg_end);
	if (sep.value) {
		kind = name_kind(s, name, (size_t)(run_end - name), is_option, in_query);
		if (kind != VALUE_NONE) {
			scan_named_value(s, &sep, kind, is_option, in_query);
			return true;
		}
	} else if (run_end == s->arg_end || value_is_space(*run_end) || value_is_quote(*run_end)) {
		note_word(s, name, (size_t)(run_end - name), is_option);
	}
	show(s, run_end);
	return true;
}

static void scan_arg(struct scan *s)
{
	s->pos = s->arg;
	s->is_plain = true;
	s->quote = '\0';
	if (s->arg == s->arg_end && s->pending != VALUE_NONE) {
		s->pending = VALUE_NONE;
		buf_add_str(s->out, "***");
	}
	while (s->pos < s->arg_end && !is_full(s)) {
		size_t n = (size_t)(s->arg_end - s->pos), len;

		if (scan_pending(s) || scan_shape(s, s->pos) || scan_url(s) || scan_encoded(s) ||
		    scan_run(s))
			continue;
		/* One character, with the quote or backslash that a backslash before it protects.
		 */
		len = utf8_char_len(s->pos, n);
		if (n >= 2 && s->pos[0] == '\\' && (s->pos[1] == '\\' || value_is_quote(s->pos[1])))
			len = 2;
		show(s, s->pos + (len ? len : 1));
	}
}

/* "-c", "-lc", … */
static bool is_script_option(const char *arg, const char *arg_end)
{
	if (arg_end - arg < 2 || arg[0] != '-' || arg_end[-1] != 'c')
		return false;
	for (arg++; arg < arg_end; arg++)
		if (!ascii_is_alpha(*arg))
			return false;
	return true;
}

static void scan_command(struct scan *s, const char *args)
{
	/* A first argument with spaces is a script without its shell, or a title a process gave
	 * itself. */
	bool is_script_next = true;

	for (s->arg = args; s->arg < s->end && !is_full(s); s->arg = s->arg_end + 1) {
		s->arg_end = memchr(s->arg, '\0', (size_t)(s->end - s->arg));
		if (!s->arg_end)
			s->arg_end = s->end;
		if (s->arg > args)
			buf_add_char(s->out, ' ');
		s->is_script = is_script_next;
		if (s->has_login && s->arg < s->arg_end && *s->arg != '-') {
			s->has_login = false;
			s->pending = VALUE_SECRET;
		}
		if (s->mask)
			scan_arg(s);
		else
			emit(s, s->arg, s->arg_end);
		is_script_next = s->has_shell && is_script_option(s->arg, s->arg_end);
	}
}

void mask_command(const struct mask *mask, const char *args, size_t len, struct buf *out)
{
	size_t before = out->len, window = len < WINDOW_BYTES ? len : WINDOW_BYTES;
	struct scan s = {
		.mask = mask,
		.out = out,
		.out_full = out->len + COMMAND_MAX_BYTES,
		/* The kernel ends every argument with a NUL: without one the caller's reading was
		   cut. */
		.is_cut = len > WINDOW_BYTES || (len > 0 && args[len - 1] != '\0'),
	};

	while (window > 0 && args[window - 1] == '\0')
		window--;
	s.end = args + window;
	scan_command(&s, args);
	buf_truncate(out,
		     before + utf8_cut(out->data + before, out->len - before, COMMAND_MAX_BYTES));
}

void mask_argv(const struct mask *mask, const char *const *argv, struct buf *out)
{
	CLEANUP(buf_release) struct buf args = BUF_INIT;

	for (; *argv && args.len <= WINDOW_BYTES; argv++) {
		size_t n = strnlen(*argv, WINDOW_BYTES + 1);

		buf_add(&args, *argv, n);
		buf_add_char(&args, '\0');
	}
	mask_command(mask, args.data, args.len, out);
}

void mask_lines(const struct mask *mask, const char *text, size_t len, struct buf *out)
{
	for (size_t at = 0, end; at < len; at = end + 1) {
		CLEANUP(buf_release) struct buf line = BUF_INIT;

		for (end = at; end < len && text[end] != '\n'; end++)
			buf_add_char(&line, text[end] == ' ' ? '\0' : text[end]);
		if (end == at)
			continue;
		buf_add_char(&line, '\0');
		mask_command(mask, line.data, line.len, out);
		buf_add_char(out, '\n');
	}
}
