#include "tui/width.h"

#include <locale.h>
#include <wchar.h>

#include "base/utf8.h"

/* Made once: it is the same for all, and for ever. NULL: this host has none. */
static locale_t utf8_locale(void)
{
	static locale_t made;

	if (!made)
		made = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	return made;
}

int width_of(const char *s, size_t n)
{
	locale_t utf8, before;
	int width;

	if ((unsigned char)s[0] < 0x80)
		return 1;
	utf8 = utf8_locale();
	if (!utf8)
		return 1;
	before = uselocale(utf8);
	width = wcwidth((wchar_t)utf8_code_point(s, n));
	uselocale(before);
	return width;
}
