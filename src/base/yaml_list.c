#include "base/yaml_value.h"

#include <string.h>

#include "base/buf.h"

/* Moves what was gathered into the arena. */
static void *keep(const struct yaml_reading *rd, const struct buf *gathered)
{
	void *copy = buf_error(gathered) < 0 ? NULL : arena_alloc(rd->arena, gathered->len + 1);

	if (copy)
		memcpy(copy, gathered->data, gathered->len);
	return copy;
}

static int fail_too_many(const struct yaml_reading *rd, const struct yaml_field *f, int line)
{
	return yaml_reader_fail(rd->reader, line, "'%s' is too long; at most %d entries are read",
				f->key, YAML_MAX_ITEMS);
}

/* One text of a list. Empty ones are fine when they are quoted: an argument may be empty. */
static int read_item(const struct yaml_reading *rd, const struct yaml_field *f,
		     const struct yaml_piece *p, struct buf *items, struct buf *lines)
{
	char text[UTF8_QUOTED_BYTES];
	const char *copy;

	if (p->kind != PIECE_SCALAR || p->is_null)
		return yaml_reader_fail(
			rd->reader, p->line, "an entry of '%s' is %s; it must be a text%s", f->key,
			yaml_show_piece(p, text), p->is_null ? " (\"\" for an empty one)" : "");
	copy = arena_strdup(rd->arena, p->text);
	if (!copy)
		return yaml_reader_fail_memory(rd->reader);
	buf_add(items, &copy, sizeof(copy));
	buf_add(lines, &p->line, sizeof(p->line));
	return 0;
}

static int keep_strings(const struct yaml_reading *rd, struct buf *items, struct buf *lines,
			struct yaml_strings *ret)
{
	const char *end = NULL;
	size_t n = items->len / sizeof(end);

	buf_add(items, &end, sizeof(end));
	ret->items = keep(rd, items);
	ret->lines = keep(rd, lines);
	if (!ret->items || !ret->lines)
		return yaml_reader_fail_memory(rd->reader);
	ret->n = n;
	return 0;
}

int yaml_read_strings(const struct yaml_reading *rd, const struct yaml_field *f,
		      const struct yaml_piece *p, void *at)
{
	CLEANUP(buf_release) struct buf items = BUF_INIT, lines = BUF_INIT;
	struct yaml_strings list = { .is_list = true };
	struct yaml_piece piece;
	int r;

	if (p->kind != PIECE_LIST)
		return yaml_fail_value(rd, f, p);
	for (;;) {
		r = yaml_reader_next(rd->reader, &piece);
		if (r < 0)
			return r;
		if (piece.kind == PIECE_LIST_END)
			break;
		if (list.n++ == YAML_MAX_ITEMS)
			return fail_too_many(rd, f, piece.line);
		r = read_item(rd, f, &piece, &items, &lines);
		if (r < 0)
			return r;
	}
	r = keep_strings(rd, &items, &lines, &list);
	if (r < 0)
		return r;
	*(struct yaml_strings *)at = list;
	return 0;
}

int yaml_read_string_or_strings(const struct yaml_reading *rd, const struct yaml_field *f,
				const struct yaml_piece *p, void *at)
{
	CLEANUP(buf_release) struct buf items = BUF_INIT, lines = BUF_INIT;
	struct yaml_strings one = { .is_list = false };
	int r;

	if (p->kind == PIECE_LIST)
		return yaml_read_strings(rd, f, p, at);
	if (p->kind != PIECE_SCALAR || p->is_null || p->text[0] == '\0')
		return yaml_fail_value(rd, f, p);
	r = read_item(rd, f, p, &items, &lines);
	if (r < 0)
		return r;
	r = keep_strings(rd, &items, &lines, &one);
	if (r < 0)
		return r;
	*(struct yaml_strings *)at = one;
	return 0;
}

static const struct yaml_pair *find_pair(const struct buf *pairs, const char *name)
{
	const struct yaml_pair *all = (const struct yaml_pair *)(const void *)pairs->data;

	for (size_t i = 0; i < pairs->len / sizeof(*all); i++)
		if (strcmp(all[i].name, name) == 0)
			return &all[i];
	return NULL;
}

/* A key, copied because the next piece takes its place. */
static int read_pair_name(const struct yaml_reading *rd, const struct yaml_piece *p,
			  const struct buf *pairs, struct yaml_pair *ret)
{
	const struct yaml_pair *earlier;

	if (p->kind != PIECE_SCALAR)
		return yaml_reader_fail(rd->reader, p->line, "a key must be a text");
	earlier = find_pair(pairs, p->text);
	if (earlier)
		return yaml_fail_repeated(rd, p->text, p->line, earlier->line);
	ret->line = p->line;
	ret->name = arena_strdup(rd->arena, p->text);
	return ret->name ? 0 : yaml_reader_fail_memory(rd->reader);
}

static int read_pair_value(const struct yaml_reading *rd, const struct yaml_field *f,
			   struct yaml_pair *pair)
{
	char name[UTF8_QUOTED_BYTES], text[UTF8_QUOTED_BYTES];
	struct yaml_piece p;
	int r;

	r = yaml_reader_next(rd->reader, &p);
	if (r < 0)
		return r;
	if (p.kind != PIECE_SCALAR || p.is_null)
		return yaml_reader_fail(rd->reader, p.line, "%s of '%s' is %s; it must be a text%s",
					utf8_quote(pair->name, name), f->key,
					yaml_show_piece(&p, text),
					p.is_null ? " (\"\" for an empty one)" : "");
	pair->value = arena_strdup(rd->arena, p.text);
	return pair->value ? 0 : yaml_reader_fail_memory(rd->reader);
}

int yaml_read_string_map(const struct yaml_reading *rd, const struct yaml_field *f,
			 const struct yaml_piece *p, void *at)
{
	CLEANUP(buf_release) struct buf pairs = BUF_INIT;
	struct yaml_pairs map = { NULL, 0 };
	int r;

	if (p->kind != PIECE_MAPPING)
		return yaml_fail_value(rd, f, p);
	for (;; map.n++) {
		struct yaml_pair pair;
		struct yaml_piece key;

		r = yaml_reader_next(rd->reader, &key);
		if (r < 0)
			return r;
		if (key.kind == PIECE_MAPPING_END)
			break;
		if (map.n == YAML_MAX_ITEMS)
			return fail_too_many(rd, f, key.line);
		r = read_pair_name(rd, &key, &pairs, &pair);
		if (r < 0)
			return r;
		r = read_pair_value(rd, f, &pair);
		if (r < 0)
			return r;
		buf_add(&pairs, &pair, sizeof(pair));
	}
	map.items = keep(rd, &pairs);
	if (!map.items)
		return yaml_reader_fail_memory(rd->reader);
	*(struct yaml_pairs *)at = map;
	return 0;
}

int yaml_read_mappings(const struct yaml_reading *rd, const struct yaml_field *f,
		       const struct yaml_piece *p, void *at)
{
	CLEANUP(buf_release) struct buf items = BUF_INIT;
	struct yaml_items list = { NULL, 0 };
	struct yaml_piece piece;
	char text[UTF8_QUOTED_BYTES];
	int r;

	if (p->kind != PIECE_LIST)
		return yaml_fail_value(rd, f, p);
	for (;; list.n++) {
		r = yaml_reader_next(rd->reader, &piece);
		if (r < 0)
			return r;
		if (piece.kind == PIECE_LIST_END)
			break;
		if (list.n == YAML_MAX_ITEMS)
			return fail_too_many(rd, f, piece.line);
		if (piece.kind != PIECE_MAPPING)
			return yaml_reader_fail(
				rd->reader, piece.line,
				"the %s is %s; it must be a mapping of keys to values",
				f->item->what, yaml_show_piece(&piece, text));
		if (buf_reserve(&items, f->item->size) < 0)
			return yaml_reader_fail_memory(rd->reader);
		r = yaml_read_mapping(rd, f->item, piece.line, items.data + items.len);
		if (r < 0)
			return r;
		items.len += f->item->size;
	}
	list.items = keep(rd, &items);
	if (!list.items)
		return yaml_reader_fail_memory(rd->reader);
	*(struct yaml_items *)at = list;
	return 0;
}
