#include "crossrank/reading/jtree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/macros.h"
#include "base/num.h"

#define MAX_DEPTH 990 /* the reference gives up there too */

#define LONGEST_WORD 12 /* that is read at once, as \\ud83d\\ude00 */

struct parser {
	const char *at, *end;
	struct arena *arena; /* NULL: only check */
	int depth;
};

static int parse_value(struct parser *p, struct jnode *node);

static void skip_blanks(struct parser *p)
{
	while (p->at < p->end &&
	       (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
		p->at++;
}

static bool take(struct parser *p, char c)
{
	if (p->at >= p->end || *p->at != c)
		return false;
	p->at++;
	return true;
}

static bool take_word(struct parser *p, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
		return false;
	p->at += n;
	return true;
}

/* ---- texts ---- */

static int hex_value(char c)
{
	if (ascii_is_digit(c))
		return c - '0';
	c = ascii_to_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind "\u". */
static bool take_hex(struct parser *p, unsigned *ret)
{
	unsigned v = 0;

	if (p->end - p->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = hex_value(p->at[i]);

		if (digit < 0)
			return false;
		v = v << 4 | (unsigned)digit;
	}
	p->at += 4;
	*ret = v;
	return true;
}

/* Half a pair stays one, in three bytes, as the reference keeps it. */
static size_t put_code_point(char *to, unsigned c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static bool take_unicode(struct parser *p, unsigned *ret)
{
	const char *behind;
	unsigned low;

	if (!take_hex(p, ret))
		return false;
	behind = p->at;
	if (*ret < 0xd800 || *ret > 0xdbff || !take_word(p, "\\u"))
		return true;
	if (take_hex(p, &low) && low >= 0xdc00 && low <= 0xdfff)
		*ret = 0x10000 + ((*ret - 0xd800) << 10 | (low - 0xdc00));
	else
		p->at = behind;
	return true;
}

/* What stands behind a backslash. Returns its length in to (at least 4 bytes); 0: no such escape.
 */
static size_t take_escape(struct parser *p, char *to)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *found;
	unsigned c;

	if (p->at >= p->end)
		return 0;
	if (take(p, 'u'))
		return take_unicode(p, &c) ? put_code_point(to, c) : 0;
	found = *p->at ? strchr(letters, *p->at) : NULL;
	if (!found)
		return 0;
	p->at++;
	*to = meant[found - letters];
	return 1;
}

/* The length of a text up to its closing quote, escapes and all; -1: none closes it. */
static ssize_t raw_length(const struct parser *p)
{
	for (const char *s = p->at; s < p->end; s++) {
		if (*s == '"')
			return s - p->at;
		if (*s == '\\')
			s++;
	}
	return -1;
}

static int parse_text(struct parser *p, struct text *ret)
{
	ssize_t raw = raw_length(p);
	char *to, scratch[4];
	size_t n = 0;

	if (raw < 0) {
		p->at = p->end; /* which is where it was looked for */
		return -EINVAL;
	}
	/* Unescaped it is never longer. */
	to = p->arena ? arena_alloc(p->arena, (size_t)raw + 1) : scratch;
	if (!to)
		return -ENOMEM;
	while (p->at < p->end && *p->at != '"') {
		char *place = p->arena ? to + n : to;
		size_t len = 1;

		if ((unsigned char)*p->at < 0x20)
			return -EINVAL;
		if (take(p, '\\'))
			len = take_escape(p, place);
		else
			*place = *p->at++;
		if (len == 0)
			return -EINVAL;
		n += len;
	}
	if (!take(p, '"'))
		return -EINVAL;
	if (p->arena)
		to[n] = '\0';
	*ret = (struct text){ p->arena ? to : "", n };
	return 0;
}

/* ---- numbers ---- */

static size_t take_digits(struct parser *p)
{
	const char *from = p->at;

	while (p->at < p->end && ascii_is_digit(*p->at))
		p->at++;
	return (size_t)(p->at - from);
}

/* The digits of a number; *ret_is_float if it has a point or an exponent. */
static bool take_number(struct parser *p, bool *ret_is_float)
{
	take(p, '-');
	if (!take(p, '0') && take_digits(p) == 0)
		return false;
	*ret_is_float = false;
	if (p->end - p->at > 1 && p->at[0] == '.' && ascii_is_digit(p->at[1])) {
		p->at++;
		take_digits(p);
		*ret_is_float = true;
	}
	if (p->end - p->at > 1 && (p->at[0] == 'e' || p->at[0] == 'E')) {
		const char *before = p->at++;

		if (!take(p, '+'))
			take(p, '-');
		if (take_digits(p) == 0)
			p->at = before;
		else
			*ret_is_float = true;
	}
	return true;
}

static int set_number(struct parser *p, const char *from, bool is_float, struct jnode *node)
{
	const char *copy;

	if (!p->arena)
		return 0;
	copy = arena_strndup(p->arena, from, (size_t)(p->at - from));
	if (!copy)
		return -ENOMEM;
	node->kind = JKIND_FLOAT;
	node->text = (struct text){ copy, (size_t)(p->at - from) };
	if (num_parse_f64(copy, &node->number) < 0)
		node->number = copy[0] == '-' ? -INFINITY : INFINITY;
	if (is_float)
		return 0;
	node->kind = num_parse_i64(copy, &node->integer) == 0 ? JKIND_INT : JKIND_BIG_INT;
	return 0;
}

/* ---- words ---- */

static const struct {
	const char *word;
	enum jkind kind;
	int64_t integer;
	double number;
} words[] = {
	{ "null", JKIND_NULL, 0, 0 },
	{ "true", JKIND_BOOL, 1, 1 },
	{ "false", JKIND_BOOL, 0, 0 },
	{ "NaN", JKIND_FLOAT, 0, (double)NAN },
	{ "Infinity", JKIND_FLOAT, 0, (double)INFINITY },
	{ "-Infinity", JKIND_FLOAT, 0, -(double)INFINITY },
};

/* ---- what holds others ---- */

static int add_child(struct parser *p, struct jnode *parent, struct jnode **ret)
{
	struct jnode *child;

	if (!p->arena) {
		(*ret)->kind = JKIND_NULL;
		return 0;
	}
	child = arena_alloc(p->arena, sizeof(*child));
	if (!child)
		return -ENOMEM;
	*child = (struct jnode){ 0 };
	if (parent->last)
		parent->last->next = child;
	else
		parent->first = child;
	parent->last = child;
	*ret = child;
	return 0;
}

static int parse_key(struct parser *p, struct text *ret)
{
	int r;

	skip_blanks(p);
	if (!take(p, '"'))
		return -EINVAL;
	r = parse_text(p, ret);
	skip_blanks(p);
	return r < 0 ? r : take(p, ':') ? 0 : -EINVAL;
}

static int parse_children(struct parser *p, struct jnode *node, char close)
{
	int r;

	if (++p->depth > MAX_DEPTH)
		return -EINVAL;
	skip_blanks(p);
	if (take(p, close)) {
		p->depth--;
		return 0;
	}
	do {
		struct jnode spare = { 0 }, *child = &spare;
		struct text key = { 0 };

		r = 0;
		if (node->kind == JKIND_OBJECT)
			r = parse_key(p, &key);
		if (r == 0)
			r = add_child(p, node, &child);
		if (r < 0)
			return r;
		r = parse_value(p, child);
		child->key = key;
		skip_blanks(p);
		if (r < 0)
			return r;
	} while (take(p, ','));
	p->depth--;
	return take(p, close) ? 0 : -EINVAL;
}

static int parse_value(struct parser *p, struct jnode *node)
{
	const char *from;
	bool is_float;

	skip_blanks(p);
	if (take(p, '{')) {
		node->kind = JKIND_OBJECT;
		return parse_children(p, node, '}');
	}
	if (take(p, '[')) {
		node->kind = JKIND_ARRAY;
		return parse_children(p, node, ']');
	}
	if (take(p, '"')) {
		node->kind = JKIND_TEXT;
		return parse_text(p, &node->text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (take_word(p, words[i].word)) {
			node->kind = words[i].kind;
			node->integer = words[i].integer;
			node->number = words[i].number;
			node->text = (struct text){ words[i].word, strlen(words[i].word) };
			return 0;
		}
	from = p->at;
	return take_number(p, &is_float) ? set_number(p, from, is_float, node) : -EINVAL;
}

static int parse_all(struct parser *p, struct jnode *node)
{
	int r = parse_value(p, node);

	skip_blanks(p);
	return r < 0 ? r : p->at == p->end ? 0 : -EINVAL;
}

int jtree_parse(const char *text, size_t n, struct arena *arena, struct jnode **ret)
{
	struct parser p = { text, text + n, arena, 0 };
	struct jnode *node = arena_alloc(arena, sizeof(*node));
	int r;

	if (!node)
		return -ENOMEM;
	*node = (struct jnode){ 0 };
	r = parse_all(&p, node);
	if (r == 0)
		*ret = node;
	return r;
}

bool jtree_is_valid(const char *text, size_t n)
{
	struct parser p = { text, text + n, NULL, 0 };
	struct jnode node = { 0 };

	return parse_all(&p, &node) == 0;
}

bool jtree_is_cut(const char *text, size_t n)
{
	struct parser p = { text, text + n, NULL, 0 };
	struct jnode node = { 0 };

	return parse_all(&p, &node) < 0 && p.end - p.at <= LONGEST_WORD;
}

const struct jnode *jtree_find(const struct jnode *object, const char *name)
{
	struct text key = { name, strlen(name) };
	const struct jnode *found = NULL;

	for (const struct jnode *c = object->first; c; c = c->next)
		if (text_equals(c->key, key))
			found = c;
	return found;
}
