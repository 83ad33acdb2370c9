/*
 * json_unescape - the inside of a JSON string as the text it stands for.
 */
#ifndef PROCTOR_BASE_JSON_UNESCAPE_H
#define PROCTOR_BASE_JSON_UNESCAPE_H

#include <stddef.h>

/*
 * Into out, of at least n + 1 bytes: no escape is shorter than what it stands for. Half a
 * surrogate pair and a NUL become U+FFFD, an escape that is none '?'.
 */
void json_unescape(const char *s, size_t n, char *out);

#endif
