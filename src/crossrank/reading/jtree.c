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

/* What stands behind "\u". Half a pair stays one, as the reference keeps it. */
static size_t take_unicode(struct parser *p, char *to)
{
	long v = utf8_read_hex4(p->at, p->end), low = -1;

	if (v < 0)
		return 0;
	p->at += 4;
	if (v >= 0xd800 && v <= 0xdbff && p->end - p->at >= 6 && p->at[0] == '\\' &&
	    p->at[1] == 'u')
		low = utf8_read_hex4(p->at + 2, p->end);
	if (low >= 0xdc00 && low <= 0xdfff) {
		v = 0x10000 + ((v - 0xd800) << 10 | (low - 0xdc00));
		p->at += 6;
	}
	return utf8_put(to, (unsigned)v);
}

/* What stands behind a backslash. Returns its length in to (UTF8_MAX_BYTES); 0: no such escape. */
static size_t take_escape(struct parser *p, char *to)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (take(p, 'u'))
		return take_unicode(p, to);
	found = p->at < p->end && *p->at ? strchr(letters, *p->at) : NULL;
	if (!found)
		return 0;
	p->at++;
	*to = meant[found - letters];
	return 1;
}

static int parse_text(struct parser *p, struct text *ret)
{
	const char *close = p->at;
	char scratch[UTF8_MAX_BYTES], *to = scratch;
	size_t n = 0;

	while (close < p->end && *close != '"')
		close += *close == '\\' ? 2 : 1;
	if (close >= p->end) {
		p->at = p->end; /* which is where it was looked for */
		return -EINVAL;
	}
	/* Without escapes it is never longer. */
	if (p->arena)
		to = arena_alloc(p->arena, (size_t)(close - p->at) + 1);
	if (!to)
		return -ENOMEM;
	while (p->at < close) {
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
	p->at++;
	if (p->arena)
		to[n] = '\0';
	*ret = (struct text){ p->arena ? to : "", n };
	return 0;
}

/* ---- numbers ---- */

static size_t skip_digits(const char **at, const char *end)
{
	const char *from = *at;

	while (*at < end && ascii_is_digit(**at))
		(*at)++;
	return (size_t)(*at - from);
}

bool jtree_skip_number(const char **at, const char *end, bool *ret_is_float)
{
	const char *s = *at, *part;

	s += s < end && *s == '-';
	if (s < end && *s == '0')
		s++;
	else if (skip_digits(&s, end) == 0)
		return false;
	*ret_is_float = false;
	part = s + 1;
	if (s < end && *s == '.' && skip_digits(&part, end) > 0) {
		s = part;
		*ret_is_float = true;
	}
	part = s + 1;
	if (s < end && (*s == 'e' || *s == 'E')) {
		part += part < end && (*part == '+' || *part == '-');
		if (skip_digits(&part, end) > 0) {
			s = part;
			*ret_is_float = true;
		}
	}
	*at = s;
	return true;
}

static int parse_number(struct parser *p, struct jnode *node)
{
	const char *from = p->at, *copy;
	bool is_float;

	if (!jtree_skip_number(&p->at, p->end, &is_float))
		return -EINVAL;
	if (!p->arena)
		return 0;
	copy = arena_strndup(p->arena, from, (size_t)(p->at - from));
	if (!copy)
		return -ENOMEM;
	node->kind = JKIND_FLOAT;
	if (num_parse_f64(copy, &node->number) < 0)
		node->number = copy[0] == '-' ? -INFINITY : INFINITY;
	if (!is_float)
		node->kind = num_parse_i64(copy, &node->integer) == 0 ? JKIND_INT : JKIND_BIG_INT;
	return 0;
}

/* ---- what holds others ---- */

static int parse_value(struct parser *p, struct jnode *node);

/* Begins a child, in spare where nothing is kept. NULL: no memory. */
static struct jnode *add_child(struct parser *p, struct jnode *parent, struct jnode *spare)
{
	struct jnode *child = p->arena ? arena_alloc(p->arena, sizeof(*child)) : spare;

	if (!child)
		return NULL;
	*child = (struct jnode){ 0 };
	if (!p->arena)
		return child;
	if (parent->last)
		parent->last->next = child;
	else
		parent->first = child;
	return parent->last = child;
}

static int parse_children(struct parser *p, struct jnode *node, char close)
{
	int r = 0;

	if (++p->depth > MAX_DEPTH)
		return -EINVAL;
	skip_blanks(p);
	if (take(p, close)) {
		p->depth--;
		return 0;
	}
	do {
		struct jnode spare, *child = add_child(p, node, &spare);

		if (!child)
			return -ENOMEM;
		skip_blanks(p);
		if (node->kind == JKIND_OBJECT) {
			r = take(p, '"') ? parse_text(p, &child->key) : -EINVAL;
			skip_blanks(p);
			if (r == 0 && !take(p, ':'))
				r = -EINVAL;
		}
		if (r == 0)
			r = parse_value(p, child);
		skip_blanks(p);
		if (r < 0)
			return r;
	} while (take(p, ','));
	p->depth--;
	return take(p, close) ? 0 : -EINVAL;
}

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

static int parse_any(struct parser *p, struct jnode *node)
{
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
			return 0;
		}
	return parse_number(p, node);
}

static int parse_value(struct parser *p, struct jnode *node)
{
	const char *from;
	int r;

	skip_blanks(p);
	from = p->at;
	r = parse_any(p, node);
	node->raw = (struct text){ from, (size_t)(p->at - from) };
	return r;
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

	return parse_all(&p, &(struct jnode){ 0 }) == 0;
}

bool jtree_is_cut(const char *text, size_t n)
{
	struct parser p = { text, text + n, NULL, 0 };

	return parse_all(&p, &(struct jnode){ 0 }) < 0 && p.end - p.at <= LONGEST_WORD;
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
