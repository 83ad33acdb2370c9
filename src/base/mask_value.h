/*
 * mask_value - where a value begins and ends in shell-like text (inside of mask).
 *
 * The text may be a shell's, Python's or JSON; when two readings differ, the
 * longer value is taken. All text lies in [p..end), without NULs.
 */
#ifndef PROCTOR_BASE_MASK_VALUE_H
#define PROCTOR_BASE_MASK_VALUE_H

#include <stdbool.h>

bool value_is_space(char c); /* control characters count */
bool value_is_quote(char c);

/* What stands between a name and its value: "=", ": ", "\"] = ", … */
struct value_separator {
	const char *value; /* NULL: there is none */
	bool is_line;	   /* "name: value", "name = value": the value may have spaces */
};
struct value_separator value_separator(const char *name_end, const char *end);

/* The end of a shell's word; where the text is known to be a shell's, ; | & end it as well. */
const char *value_word_end(const char *p, const char *end, bool is_shell);

/* p is behind a closing quote: the end of what a shell would glue on, or p. */
const char *value_glued_end(const char *p, const char *end);

/*
 * The end of the value at p < end, which is quoted, a list, the rest of the
 * line (is_line), or a word; quote is what the value stands inside of, or 0.
 */
const char *value_end(const char *p, const char *end, char quote, bool is_line, bool is_shell);

/* The same in the query of a URL or a form, where & ends a value; has_spaces: a space does not. */
const char *value_query_end(const char *p, const char *end, char quote, bool has_spaces);

#endif
