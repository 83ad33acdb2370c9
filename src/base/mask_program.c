#include "base/mask_program.h"

#include <string.h>

#include "base/macros.h"

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
	{ "http", 'a', true, true, VALUE_LOGIN, "FISbcdfhjmv" },
};

/* Programs whose -c takes a script. */
static const char *const shells[] = {
	"sh",	"ash", "bash", "csh",	 "dash",    "fish",    "ksh",
	"tcsh", "zsh", "su",   "python", "python2", "python3", "busybox",
};

static bool name_is(const char *name, size_t n, const char *text)
{
	return strlen(text) == n && memcmp(name, text, n) == 0;
}

unsigned mask_programs_add(unsigned seen, const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(short_options); i++) {
		const char *program = short_options[i].program;
		size_t len = strcspn(program, "*");

		if (n >= len && memcmp(name, program, len) == 0 && (n == len || program[len]))
			seen |= 1u << i;
	}
	return seen;
}

/* How many of the letters lead to the option, itself counted, or 0. */
static size_t option_reach(const struct short_option *o, const char *letters, size_t n,
			   bool is_word)
{
	size_t i = 0;

	while (i < n && letters[i] != o->letter && letters[i] && strchr(o->switches, letters[i]))
		i++;
	if (i == n || letters[i] != o->letter)
		return 0;
	return (i + 1 == n && is_word ? o->is_separate : o->is_glued) ? i + 1 : 0;
}

size_t mask_short_option(unsigned seen, const char *letters, size_t n, bool is_word,
			 enum value_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(short_options); i++) {
		const struct short_option *o = &short_options[i];
		size_t reach = seen & 1u << i ? option_reach(o, letters, n, is_word) : 0;

		if (reach > 0) {
			*ret = o->kind;
			return reach;
		}
	}
	return 0;
}

enum value_kind mask_long_option(unsigned seen, const char *name, size_t n)
{
	enum value_kind kind = VALUE_NONE;

	/* Where -u takes a login, --user does; "docker run --user 1000:1000" holds none. */
	if (name_is(name, n, "user") || name_is(name, n, "proxy-user"))
		(void)mask_short_option(seen, "u", 1, true, &kind);
	return kind;
}

bool mask_is_shell(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (name_is(name, n, shells[i]))
			return true;
	return false;
}
