#include "tui/command.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

/* Without a version: python3.11 is a python. */
static const char *const interpreters[] = { "bash",    "dash", "julia", "ksh",	 "lua",
					    "node",    "perl", "php",	"pypy",	 "python",
					    "Rscript", "ruby", "sh",	"tclsh", "zsh" };

/* Behind the last slash of a word that begins with one. */
static const char *without_folder(const char *word, size_t len)
{
	const char *slash = len > 0 && word[0] == '/' ? memrchr(word, '/', len) : NULL;

	return slash && slash + 1 < word + len ? slash + 1 : word;
}

static bool is_interpreter(const char *name, size_t len)
{
	while (len > 0 && strchr("0123456789.", name[len - 1]))
		len--;
	for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++)
		if (strlen(interpreters[i]) == len && memcmp(name, interpreters[i], len) == 0)
			return true;
	return false;
}

/* Returns how many bytes there are by now. */
static size_t append(char *ret, size_t size, size_t at, const char *text, size_t len)
{
	size_t n = utf8_cut(text, len, size - 1 - at);

	memcpy(ret + at, text, n);
	ret[at + n] = '\0';
	return at + n;
}

void command_shorten(const char *command, char *ret, size_t size)
{
	size_t len = strcspn(command, " "), at;
	const char *program = without_folder(command, len), *rest = command + len;
	size_t name_len = (size_t)(rest - program);

	at = append(ret, size, 0, program, name_len);
	if (rest[0] == ' ' && is_interpreter(program, name_len)) {
		at = append(ret, size, at, " ", 1);
		rest++;
		rest = without_folder(rest, strcspn(rest, " "));
	}
	append(ret, size, at, rest, strlen(rest));
}
