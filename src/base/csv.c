#include "base/csv.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void csv_init(struct csv *c, struct buf *out)
{
	*c = (struct csv){ .out = out };
}

static void begin_field(struct csv *c)
{
	if (c->need_comma)
		buf_add_char(c->out, ',');
	c->need_comma = true;
}

void csv_end_row(struct csv *c)
{
	buf_add_char(c->out, '\n');
	c->need_comma = false;
}

void csv_unknown(struct csv *c)
{
	begin_field(c);
}

void csv_word(struct csv *c, const char *word)
{
	begin_field(c);
	buf_add_str(c->out, word);
}

/* ---- numbers ---- */

void csv_u64(struct csv *c, uint64_t v)
{
	begin_field(c);
	if (u64_known(v))
		buf_printf(c->out, "%llu", (unsigned long long)v);
}

void csv_i64(struct csv *c, int64_t v)
{
	begin_field(c);
	buf_printf(c->out, "%lld", (long long)v);
}

void csv_f64(struct csv *c, double v)
{
	struct json number;

	begin_field(c);
	if (!isfinite(v))
		return;
	json_init(&number, c->out);
	json_f64(&number, v);
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
	size_t len = utf8_char_len(s, n);

	if (c->is_shown && *s != '\n')
		len = utf8_add_shown(c->out, s, n);
	else if (len == 0)
		buf_add_str(c->out, REPLACEMENT);
	else
		buf_add(c->out, s, len);
	if (*s == '"')
		buf_add_char(c->out, '"');
	return len ? len : 1;
}

void csv_text(struct csv *c, const char *s)
{
	size_t n = s ? strlen(s) : 0;
	bool may_begin = c->guards_formulas;

	begin_field(c);
	if (!s)
		return;
	buf_add_char(c->out, '"');
	for (size_t i = 0, len; i < n; i += len) {
		if (may_begin && is_formula_start(s + i, utf8_char_len(s + i, n - i)))
			buf_add_char(c->out, '\'');
		len = add_char(c, s + i, n - i);
		/*
		 * A cell may begin behind this character: spreadsheets of other countries separate
		 * cells at semicolons, some at whatever looks like it, and then our quotes are not
		 * theirs. Blanks and quotes change nothing.
		 */
		may_begin = c->guards_formulas &&
			    (strchr(",;|\t\r\n", s[i]) || (may_begin && strchr(" \"'", s[i])));
	}
	buf_add_char(c->out, '"');
}
