#include "base/csv.h"

#include <string.h>

#include "base/json.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void csv_init(struct csv *c, struct buf *out)
{
	*c = (struct csv){ .json.out = out };
}

void csv_end_row(struct csv *c)
{
	buf_add_char(c->json.out, '\n');
	c->json.need_comma = false;
}

void csv_word(struct csv *c, const char *word)
{
	json_raw(&c->json, word, strlen(word));
}

void csv_unknown(struct csv *c)
{
	json_raw(&c->json, "", 0);
}

/* ---- numbers ---- */

void csv_u64(struct csv *c, uint64_t v)
{
	if (u64_known(v))
		json_u64(&c->json, v);
	else
		csv_unknown(c);
}

void csv_i64(struct csv *c, int64_t v)
{
	json_i64(&c->json, v);
}

/* ---- text ---- */

/* What a formula can begin with. The wide ones count where such letters are common. */
static const char *const formula_starts[] = { "=", "+", "-", "@", "＝", "＋", "－", "＠" };

static bool is_formula_start(const char *s, size_t len)
{
	for (size_t i = 0; i < sizeof(formula_starts) / sizeof(*formula_starts); i++)
		if (strlen(formula_starts[i]) == len && memcmp(formula_starts[i], s, len) == 0)
			return true;
	return false;
}

/* Appends the character at s (n bytes are there); returns the bytes it took. */
static size_t add_char(struct csv *c, const char *s, size_t n)
{
	struct buf *out = c->json.out;
	size_t len = utf8_char_len(s, n);

	if (c->is_shown && *s != '\n')
		len = utf8_add_shown(out, s, n);
	else if (len == 0)
		buf_add_str(out, REPLACEMENT);
	else
		buf_add(out, s, len);
	if (*s == '"')
		buf_add_char(out, '"');
	return len ? len : 1;
}

void csv_text(struct csv *c, const char *s)
{
	struct buf *out = c->json.out;
	size_t n = s ? strlen(s) : 0;
	bool may_begin = c->guards_formulas;
	size_t n_plain = 0;

	csv_unknown(c); /* nothing but its comma */
	if (!s)
		return;
	buf_add_char(out, '"');
	while (!may_begin && s[n_plain] >= ' ' && s[n_plain] <= '~' && s[n_plain] != '"')
		n_plain++;
	buf_add(out, s, n_plain);
	for (size_t i = n_plain, len; i < n; i += len) {
		if (may_begin && is_formula_start(s + i, utf8_char_len(s + i, n - i)))
			buf_add_char(out, '\'');
		len = add_char(c, s + i, n - i);
		/*
		 * A cell may begin behind this character: spreadsheets of other countries separate
		 * cells at semicolons, some at whatever looks like it, and then our quotes are not
		 * theirs. Blanks and quotes change nothing.
		 */
		may_begin = c->guards_formulas &&
			    (strchr(",;|\t\r\n", s[i]) || (may_begin && strchr(" \"'", s[i])));
	}
	buf_add_char(out, '"');
}
