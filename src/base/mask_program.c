#include "base/mask_program.h"

#include <string.h>

#include "base/macros.h"

/*
 * Options that carry a secret. The value is glued to the letter, stands in the
 * next word, or either. A program that ends in '*' is the beginning of a name.
 */
static const struct short_option {
	const char *program;
	char letter;
	bool is_glued, is_separate;
	enum value_kind kind;
} short_options[] = {
	{ "mysql*", 'p', true, false, VALUE_SECRET },
	{ "mariadb*", 'p', true, false, VALUE_SECRET },
	{ "sshpass", 'p', true, true, VALUE_SECRET },
	{ "login", 'p', true, true, VALUE_SECRET }, /* docker login -p */
	{ "mongo*", 'p', false, true, VALUE_SECRET },
	{ "redis-cli", 'a', true, true, VALUE_SECRET },
	{ "ldap*", 'w', true, true, VALUE_SECRET },
	{ "mosquitto*", 'P', true, true, VALUE_SECRET },
	{ "sqlcmd", 'P', true, true, VALUE_SECRET },
	{ "zip", 'P', true, true, VALUE_SECRET },
	{ "unzip", 'P', true, true, VALUE_SECRET },
	{ "7z*", 'p', true, false, VALUE_SECRET },
	{ "curl", 'u', true, true, VALUE_LOGIN },
	{ "curl", 'U', true, true, VALUE_LOGIN },
	{ "http", 'a', true, true, VALUE_LOGIN },
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

enum value_kind mask_short_option(unsigned seen, char letter, bool is_glued)
{
	for (size_t i = 0; i < ARRAY_SIZE(short_options); i++) {
		const struct short_option *o = &short_options[i];

		if ((seen & 1u << i) && o->letter == letter &&
		    (is_glued ? o->is_glued : o->is_separate))
			return o->kind;
	}
	return VALUE_NONE;
}

enum value_kind mask_long_option(unsigned seen, const char *name, size_t n)
{
	/* Where -u takes a login, --user does; "docker run --user 1000:1000" holds none. */
	if (name_is(name, n, "user") || name_is(name, n, "proxy-user"))
		return mask_short_option(seen, 'u', false);
	return VALUE_NONE;
}

bool mask_is_shell(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (name_is(name, n, shells[i]))
			return true;
	return false;
}
