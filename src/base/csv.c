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

/* Room for one, behind its comma; NULL: no memory. */
static char *begin_number(struct csv *c)
{
	char *at;

	if (c->out->cap - c->out->len <= JSON_NUMBER_BYTES + 1 &&
	    buf_reserve(c->out, JSON_NUMBER_BYTES + 1) < 0)
		return NULL;
	at = c->out->data + c->out->len;
	if (c->need_comma)
		*at++ = ',';
	c->need_comma = true;
	return at;
}

static void end_number(struct csv *c, char *end)
{
	*end = '\0';
	c->out->len = (size_t)(end - c->out->data);
}

void csv_u64(struct csv *c, uint64_t v)
{
	char *at = begin_number(c);

	if (at)
		end_number(c, u64_known(v) ? json_put_u64(at, v) : at);
}

void csv_i64(struct csv *c, int64_t v)
{
	char *at = begin_number(c);

	if (at)
		end_number(c, json_put_i64(at, v));
}

void csv_f64(struct csv *c, double v)
{
	char *at = begin_number(c);

	if (at)
		end_number(c, isfinite(v) ? json_put_f64(at, v) : at);
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
	size_t n_plain = 0;

	begin_field(c);
	if (!s)
		return;
	buf_add_char(c->out, '"');
	while (!may_begin && s[n_plain] >= ' ' && s[n_plain] <= '~' && s[n_plain] != '"')
		n_plain++;
	buf_add(c->out, s, n_plain);
	for (size_t i = n_plain, len; i < n; i += len) {
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
