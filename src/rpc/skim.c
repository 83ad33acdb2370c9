#include "rpc/skim.h"

/* The index of the quote that ends the string beginning at i, or len. */
static size_t skip_string(const char *text, size_t len, size_t i)
{
	for (i++; i < len && text[i] != '"'; i++)
		if (text[i] == '\\')
			i++;
	return i;
}

/*
 * Every value but the first of its list or object follows a comma, and the first
 * follows a bracket: so there are at most 1 + commas + brackets of them.
 */
struct skim skim_text(const char *text, size_t len)
{
	struct skim s = { .values = 1 };
	size_t depth = 0;

	for (size_t i = 0; i < len; i++)
		switch (text[i]) {
		case '"':
			i = skip_string(text, len, i);
			break;
		case '[':
		case '{':
			s.values++;
			if (++depth > s.depth)
				s.depth = depth;
			break;
		case ']':
		case '}':
			depth -= depth > 0;
			break;
		case ',':
			s.values++;
			break;
		default:
			break;
		}
	return s;
}
