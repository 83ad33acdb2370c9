/*
 * mask_text - where secrets and values begin and end in text (inside of mask).
 *
 * The text may be a shell's, Python's or JSON; when two readings differ, the longer value is taken.
 * All text lies in [p..end), without NULs.
 */
#ifndef PROCTOR_BASE_MASK_TEXT_H
#define PROCTOR_BASE_MASK_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* ---- values ---- */

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

/* ---- secrets known by how they look, without a name ----
 *
 * is_cut: the text goes on behind s[n), unread. A token that reaches the end and could still turn
 * out to be a secret then counts as one.
 */

/* Length of the token (ghp_…, AKIA…, a JWT, a PEM private key) that begins at s, or 0. */
size_t mask_shape_len(const char *s, size_t n, bool is_cut);

/*
 * s[0..n) is "user:password": the length of the user and the colon, if the user
 * is short and plain enough to be one and may be seen; else 0.
 */
size_t mask_user_len(const char *s, size_t n);

/*
 * s[0..n) is what stands behind the "://" of a URL. True if there is a password
 * (or a long user name, which is a token then) before the '@': s[from..to).
 */
bool mask_url_secret(const char *s, size_t n, bool is_cut, size_t *ret_from, size_t *ret_to);

#endif
