#include "base/mask_name.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"

#define NAME_BYTES 128 /* of a longer name the end is looked at */
#define PATTERNS_MAX 64
#define PATTERN_MAX_BYTES 256

struct mask {
	regex_t *regexes;
	size_t n;
	size_t n_owners; /* beside the first */
};

enum place {
	ANYWHERE, /* these words, wherever in the name */
	LAST,	  /* these words at the end of the name */
	GLUED,	  /* these letters at the end of the name, even inside a word: PGPASSWORD */
	CAPITALS, /* as ANYWHERE, in a name like those of the environment: TOKEN_PROD */
	SUFFIX,	  /* as LAST, in such a name and behind another word: OPENAI_KEY, but not KEY */
	QUERY,	  /* as LAST, in the query of a URL: ?sig= */
};

/* text is in lower case, with words joined by '_'. */
static const struct {
	const char *text;
	enum place place;
} secret_names[] = {
	{ "password", ANYWHERE },
	{ "passwd", ANYWHERE },
	{ "passphrase", ANYWHERE },
	{ "secret", ANYWHERE },
	{ "secrets", ANYWHERE },
	{ "credential", ANYWHERE },
	{ "credentials", ANYWHERE },
	{ "apikey", ANYWHERE },
	{ "api_key", ANYWHERE },
	{ "access_key", ANYWHERE },
	{ "private_key", ANYWHERE },
	{ "pass", LAST },
	{ "passcode", LAST },
	{ "passin", LAST },
	{ "passout", LAST },
	{ "pw", LAST },
	{ "pwd", LAST },
	{ "jwt", LAST },
	{ "bearer", LAST },
	{ "cookie", LAST },
	{ "authorization", LAST },
	{ "account_key", LAST },
	{ "auth_key", LAST },
	{ "encryption_key", LAST },
	{ "license_key", LAST },
	{ "master_key", LAST },
	{ "service_key", LAST },
	{ "session_key", LAST },
	{ "shared_key", LAST },
	{ "signing_key", LAST },
	{ "storage_key", LAST },
	{ "subscription_key", LAST },
	{ "password", GLUED },
	{ "passwd", GLUED },
	{ "passphrase", GLUED },
	{ "pwd", GLUED },
	/* Not "pass" itself, which ends bypass, lowpass and compass. */
	{ "adminpass", GLUED },
	{ "bindpass", GLUED },
	{ "dbpass", GLUED },
	{ "dbpw", GLUED },
	{ "ftppass", GLUED },
	{ "httppass", GLUED },
	{ "keypass", GLUED },
	{ "ldappass", GLUED },
	{ "mailpass", GLUED },
	{ "proxypass", GLUED },
	{ "rootpass", GLUED },
	{ "smtppass", GLUED },
	{ "sqlpass", GLUED },
	{ "storepass", GLUED },
	{ "userpass", GLUED },
	{ "secret", GLUED },
	{ "token", GLUED },
	{ "apikey", GLUED },
	{ "api_key", GLUED },
	{ "access_key", GLUED },
	{ "accesskey", GLUED },
	{ "authkey", GLUED },
	{ "masterauth", GLUED },
	{ "privatekey", GLUED },
	{ "requirepass", GLUED },
	{ "secretkey", GLUED },
	{ "token", CAPITALS },
	{ "key", SUFFIX },
	{ "auth", QUERY },
	{ "key", QUERY },
	{ "sig", QUERY },
	{ "signature", QUERY },
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

/* Small letters, words joined by '_', numbers at the end left out: "dbPassword2" is "db_password".
 */
static size_t name_to_words(const char *name, size_t n, char words[NAME_BYTES])
{
	size_t len = 0;

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
	return len;
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

static bool is_harmless(const char *words, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmless_ends); i++)
		if (ends_with(words, len, harmless_ends[i]))
			return true;
	return false;
}

static bool has_small_letter(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ascii_is_lower(name[i]))
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

static bool is_known_secret(const char *name, size_t n, bool in_query)
{
	char words[NAME_BYTES];
	size_t len = name_to_words(name, n, words);
	bool is_capitals = !has_small_letter(name, n);

	for (size_t i = 0; i < ARRAY_SIZE(secret_names); i++)
		if (is_at(words, len, secret_names[i].text, secret_names[i].place, is_capitals,
			  in_query))
			return !is_harmless(words, len);
	return false;
}

bool mask_name_is_secret(const struct mask *mask, const char *name, size_t n, bool in_query)
{
	char text[NAME_BYTES];

	if (n >= sizeof(text)) {
		name += n - (sizeof(text) - 1);
		n = sizeof(text) - 1;
	}
	if (is_known_secret(name, n, in_query))
		return true;
	memcpy(text, name, n);
	text[n] = '\0';
	for (size_t i = 0; i < mask->n; i++)
		if (regexec(&mask->regexes[i], text, 0, NULL, 0) == 0)
			return true;
	return false;
}

bool mask_name_is_folder(const char *name, size_t n)
{
	return (n == 3 && strncasecmp(name, "pwd", n) == 0) ||
	       (n == 6 && strncasecmp(name, "oldpwd", n) == 0);
}

bool mask_name_is_switch(const char *name, size_t n)
{
	static const char *const starts[] = { "ask-", "no-", "prompt-", "show-", "skip-" };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (n > strlen(starts[i]) && strncmp(name, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/* How many own it is no part of what it says: to its users it does not change. */
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

static int mask_add_pattern(struct mask *mask, const char *pattern, struct err *err)
{
	regex_t *regex = &mask->regexes[mask->n];
	char why[128];
	int r;

	if (strlen(pattern) > PATTERN_MAX_BYTES)
		return err_set(err, -EINVAL, "the mask pattern '%.32s…' is longer than %d bytes",
			       pattern, PATTERN_MAX_BYTES);
	r = regcomp(regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
	if (r != 0) {
		regerror(r, regex, why, sizeof(why));
		return err_set(err, r == REG_ESPACE ? -ENOMEM : -EINVAL,
			       "the mask pattern '%s' is not a regular expression: %s", pattern,
			       why);
	}
	mask->n++;
	if (regexec(regex, "", 0, NULL, 0) == 0)
		return err_set(err, -EINVAL,
			       "the mask pattern '%s' fits every name; write at least one letter "
			       "that must be there",
			       pattern);
	return 0;
}

static void mask_free_ptr(struct mask **mask)
{
	mask_free(*mask);
}

int mask_new(const char *const *patterns, size_t n, struct mask **ret, struct err *err)
{
	CLEANUP(mask_free_ptr) struct mask *mask = calloc(1, sizeof(*mask));

	if (n > PATTERNS_MAX)
		return err_set(err, -EINVAL, "%zu mask patterns; at most %d are allowed", n,
			       PATTERNS_MAX);
	if (!mask)
		return err_set(err, -ENOMEM, "out of memory");
	mask->regexes = calloc(n + 1, sizeof(*mask->regexes));
	if (!mask->regexes)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int r = mask_add_pattern(mask, patterns[i], err);

		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(mask);
	return 0;
}
