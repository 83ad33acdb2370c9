#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/yaml.h"

/* One of each kind. */
struct item {
	int line;
	const char *label;
};

struct inner {
	int line;
	uint64_t size;
	int depth;
	double factor;
	int lines[3];
};

struct thing {
	const char *text;
	int text_line;
	const char *maybe;
	int count;
	double ratio;
	bool flag;
	double wait;
	int colour;
	struct yaml_strings list;
	struct yaml_strings either;
	struct yaml_pairs pairs;
	struct yaml_items items;
	struct inner inner;
};

static const char *const colours[] = { "red", "green", "blue", NULL };

static const struct yaml_field item_fields[] = {
	{ .key = "label", .kind = YAML_STRING, .offset = offsetof(struct item, label) },
};
static const struct yaml_schema item_schema = {
	.what = "item",
	.fields = item_fields,
	.n_fields = ARRAY_SIZE(item_fields),
	.size = sizeof(struct item),
	.line_offset = offsetof(struct item, line),
};
static const struct yaml_field inner_fields[] = {
	{ .key = "size",
	  .kind = YAML_U64,
	  .offset = offsetof(struct inner, size),
	  .min = 4096,
	  .max = 1e12,
	  .zero_means = "no limit" },
	{ .key = "depth",
	  .kind = YAML_INT,
	  .offset = offsetof(struct inner, depth),
	  .min = 1,
	  .max = 9 },
	{ .key = "factor",
	  .kind = YAML_NUMBER,
	  .offset = offsetof(struct inner, factor),
	  .min = 1,
	  .is_min_excluded = true,
	  .max = 4 },
};
static const struct thing defaults = {
	.maybe = "perhaps",
	.count = 7,
	.ratio = 0.5,
	.colour = 2,
	.inner = { .size = 5000, .depth = 3 },
};
static const struct yaml_schema inner_schema = {
	.what = "inner mapping",
	.fields = inner_fields,
	.n_fields = ARRAY_SIZE(inner_fields),
	.size = sizeof(struct inner),
	.line_offset = offsetof(struct inner, line),
	.lines_offset = offsetof(struct inner, lines),
	.defaults = &defaults.inner,
};
static const struct yaml_field fields[] = {
	{ .key = "text",
	  .kind = YAML_STRING,
	  .offset = offsetof(struct thing, text),
	  .line_offset = offsetof(struct thing, text_line) },
	{ .key = "maybe", .kind = YAML_STRING_OR_NONE, .offset = offsetof(struct thing, maybe) },
	{ .key = "count",
	  .kind = YAML_INT,
	  .offset = offsetof(struct thing, count),
	  .min = -5,
	  .max = 1e9 },
	{ .key = "ratio",
	  .kind = YAML_NUMBER,
	  .offset = offsetof(struct thing, ratio),
	  .min = 0.1,
	  .max = 300 },
	{ .key = "flag", .kind = YAML_BOOL, .offset = offsetof(struct thing, flag) },
	{ .key = "wait",
	  .kind = YAML_DURATION,
	  .offset = offsetof(struct thing, wait),
	  .min = 90,
	  .max = 7200 },
	{ .key = "colour",
	  .kind = YAML_CHOICE,
	  .offset = offsetof(struct thing, colour),
	  .choices = colours },
	{ .key = "list", .kind = YAML_STRINGS, .offset = offsetof(struct thing, list) },
	{ .key = "either",
	  .kind = YAML_STRING_OR_STRINGS,
	  .offset = offsetof(struct thing, either) },
	{ .key = "pairs", .kind = YAML_STRING_MAP, .offset = offsetof(struct thing, pairs) },
	{ .key = "items",
	  .kind = YAML_MAPPINGS,
	  .offset = offsetof(struct thing, items),
	  .item = &item_schema },
	{ .key = "inner",
	  .kind = YAML_MAPPING,
	  .offset = offsetof(struct thing, inner),
	  .item = &inner_schema },
};
static const struct yaml_schema schema = {
	.what = "thing",
	.fields = fields,
	.n_fields = ARRAY_SIZE(fields),
	.size = sizeof(struct thing),
	.line_offset = SIZE_MAX,
	.defaults = &defaults,
};

static int parse(const char *text, size_t len, struct arena *arena, struct thing *t,
		 struct err *err)
{
	return yaml_parse(text, len, "t", &schema, arena, t, err);
}

static void test_every_kind(void **state)
{
	static const char text[] = "# a comment\n"
				   "text: 5 apples\n"
				   "count: -5\n"
				   "ratio: 2.5e1\n"
				   "flag: true\n"
				   "wait: '2h'\n"
				   "colour: green\n"
				   "list:\n"
				   "- a\n"
				   "- \"b\\tc\"\n"
				   "either: one\n"
				   "pairs: {A: 1, B: ''}\n"
				   "items:\n"
				   "- label: x\n"
				   "- {}\n"
				   "maybe: so\n"
				   "inner:\n"
				   "  size: 1000000000000\n";
	struct arena arena = ARENA_INIT;
	const struct item *items;
	struct thing t;

	(void)state;
	assert_int_equal(parse(text, strlen(text), &arena, &t, NULL), 0);
	assert_string_equal(t.text, "5 apples");
	assert_int_equal(t.text_line, 2);
	assert_int_equal(t.count, -5);
	assert_true(t.ratio == 25);
	assert_true(t.flag);
	assert_true(t.wait == 7200);
	assert_int_equal(t.colour, 1);
	assert_int_equal(t.list.n, 2);
	assert_true(t.list.is_list);
	assert_string_equal(t.list.items[1], "b\tc");
	assert_null(t.list.items[2]);
	assert_int_equal(t.list.lines[1], 10);
	assert_int_equal(t.either.n, 1);
	assert_false(t.either.is_list);
	assert_string_equal(t.either.items[0], "one");
	assert_int_equal(t.pairs.n, 2);
	assert_string_equal(t.pairs.items[0].value, "1");
	assert_string_equal(t.pairs.items[1].value, "");
	assert_int_equal(t.pairs.items[1].line, 12);
	assert_int_equal(t.items.n, 2);
	items = t.items.items;
	assert_string_equal(items[0].label, "x");
	assert_int_equal(items[1].line, 15);
	assert_null(items[1].label);
	assert_string_equal(t.maybe, "so");
	assert_int_equal(t.inner.size, UINT64_C(1000000000000));
	assert_int_equal(t.inner.depth, 3); /* absent: the default */
	assert_int_equal(t.inner.line, 18);
	arena_release(&arena);
}

static void test_absent_keys_keep_defaults(void **state)
{
	static const char *const empty[] = {
		"",	"\n\n",		"# only this",	 "---\n", "--- ~\n...\n",
		"{}\n", "\xef\xbb\xbf", "\xef\xbb\xbf{}"
	};
	struct arena arena = ARENA_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
		struct thing t;

		memset(&t, 0xee, sizeof(t));
		assert_int_equal(parse(empty[i], strlen(empty[i]), &arena, &t, NULL), 0);
		assert_null(t.text);
		assert_int_equal(t.count, 7);
		assert_true(t.ratio == 0.5);
		assert_int_equal(t.colour, 2);
		assert_int_equal(t.items.n, 0);
		assert_string_equal(t.maybe, "perhaps");
		assert_int_equal(t.inner.size, 5000);
		assert_int_equal(t.inner.depth, 3);
	}
	arena_release(&arena);
}

static void test_mapping_in_a_mapping(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
		int depth;
	} rows[] = {
		{ "inner:\n", 5000, 3 },
		{ "inner: ~\n", 5000, 3 },
		{ "inner: {}\n", 5000, 3 },
		{ "inner:\n  # size: 1\ncount: 1\n", 5000, 3 },
		{ "inner: {depth: 9}\n", 5000, 9 },
		{ "inner:\n  depth: 1\n  size: 4096\n", 4096, 1 },
		{ "inner: {size: 0}\n", 0, 3 },
	};
	struct arena arena = ARENA_INIT;
	struct thing t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(parse(rows[i].text, strlen(rows[i].text), &arena, &t, NULL), 0);
		assert_int_equal(t.inner.size, rows[i].size);
		assert_int_equal(t.inner.depth, rows[i].depth);
	}
	arena_release(&arena);
}

static void test_lines_of_keys(void **state)
{
	static const char text[] = "inner:\n\n  depth: 2\n  size:\n    4096\n";
	struct arena arena = ARENA_INIT;
	struct err err = ERR_INIT;
	struct thing t;

	(void)state;
	assert_int_equal(parse(text, strlen(text), &arena, &t, &err), 0);
	assert_int_equal(t.inner.lines[0], 4); /* of the key, and not of its value */
	assert_int_equal(t.inner.lines[1], 3);
	assert_int_equal(t.inner.lines[2], 0);
	assert_int_equal(parse("inner:\n", 7, &arena, &t, &err), 0);
	assert_int_equal(t.inner.lines[0], 0);
	arena_release(&arena);
}

static void test_least_value_is_excluded(void **state)
{
	struct arena arena = ARENA_INIT;
	struct err err = ERR_INIT;
	struct thing t;

	(void)state;
	assert_int_equal(parse("inner: {factor: 1.001}\n", 23, &arena, &t, &err), 0);
	assert_true(t.inner.factor == 1.001);
	assert_int_equal(parse("inner: {factor: 4}\n", 19, &arena, &t, &err), 0);
	assert_int_equal(parse("inner: {factor: 1}\n", 19, &arena, &t, &err), -EINVAL);
	assert_string_equal(err.text, "t:1: 'factor' is '1'; it must be a number above 1, up to 4");
	assert_int_equal(parse("inner: {factor: 1.0}\n", 21, &arena, &t, &err), -EINVAL);
	assert_int_equal(parse("inner: {factor: 4.1}\n", 21, &arena, &t, &err), -EINVAL);
	arena_release(&arena);
}

static void add_values(struct buf *out, const struct yaml_schema *s, const char *values)
{
	struct json j;

	for (size_t i = 0; i < s->n_fields; i++) {
		if (s->fields[i].kind == YAML_MAPPING || s->fields[i].kind == YAML_MAPPINGS)
			continue;
		buf_printf(out, "%s: ", s->fields[i].key);
		json_init(&j, out);
		yaml_write_value(&j, &s->fields[i], values + s->fields[i].offset);
		buf_add_char(out, '\n');
	}
}

/* What is written reads back as it was, for each kind. */
static void test_writing(void **state)
{
	static const char text[] =
		"text: \"a'b \\\"c\\\" # d\"\nmaybe: null\ncount: -5\nratio: 0.3\n"
		"flag: true\nwait: 2h\ncolour: green\nlist: ['1', '', 'a: b']\n"
		"either: [x]\npairs: {a: 1, \"b c\": ''}\n";
	CLEANUP(buf_release) struct buf first = BUF_INIT, second = BUF_INIT;
	struct arena arena = ARENA_INIT;
	struct err err = ERR_INIT;
	struct thing t;

	(void)state;
	assert_int_equal(parse(text, strlen(text), &arena, &t, &err), 0);
	add_values(&first, &schema, (const char *)&t);
	assert_non_null(strstr(first.data, "wait: \"7200s\"\ncolour: \"green\"\n"));
	assert_int_equal(parse(first.data, first.len, &arena, &t, &err), 0);
	assert_true(t.wait == 7200 && t.ratio == 0.3 && t.count == -5 && t.flag && !t.maybe);
	assert_string_equal(t.text, "a'b \"c\" # d");
	assert_string_equal(t.list.items[2], "a: b");
	assert_string_equal(t.pairs.items[1].name, "b c");
	add_values(&second, &schema, (const char *)&t);
	assert_string_equal(first.data, second.data);
	arena_release(&arena);
}

static void test_text_or_none(void **state)
{
	static const char *const none[] = { "maybe:\n", "maybe: null\n", "maybe: ~\n",
					    "maybe: ''\n" };
	struct arena arena = ARENA_INIT;
	struct thing t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		assert_int_equal(parse(none[i], strlen(none[i]), &arena, &t, NULL), 0);
		assert_null(t.maybe);
	}
	assert_int_equal(parse("maybe: 'null'", 13, &arena, &t, NULL), 0);
	assert_string_equal(t.maybe, "null");
	arena_release(&arena);
}

static void test_byte_order_mark_is_no_indentation(void **state)
{
	static const char text[] = "\xef\xbb\xbftext: a\ncount: 1\n";
	struct arena arena = ARENA_INIT;
	struct thing t;

	(void)state;
	assert_int_equal(parse(text, strlen(text), &arena, &t, NULL), 0);
	assert_int_equal(t.count, 1);
	arena_release(&arena);
}

static const struct {
	const char *text;
	const char *message;
} mistakes[] = {
	{ "flag: yes\n", "t:1: 'flag' is 'yes'; it must be true or false" },
	{ "flag: On\n", "t:1: 'flag' is 'On'; it must be true or false" },
	{ "flag: True\n", "t:1: 'flag' is 'True'; it must be true or false" },
	{ "flag: 'true'\n", "t:1: 'flag' is the text 'true'; write it without quotes" },
	{ "flag: 1\n", "t:1: 'flag' is '1'; it must be true or false" },
	{ "count: 0x10\n",
	  "t:1: 'count' is '0x10'; it must be a whole number from -5 to 1000000000" },
	{ "count: 1_000\n",
	  "t:1: 'count' is '1_000'; it must be a whole number from -5 to 1000000000" },
	{ "count: 4294967296\n",
	  "t:1: 'count' is '4294967296'; it must be a whole number from -5 to 1000000000" },
	{ "ratio: .inf\n", "t:1: 'ratio' is '.inf'; it must be a number from 0.1 to 300" },
	{ "ratio: 300.1\n", "t:1: 'ratio' is '300.1'; it must be a number from 0.1 to 300" },
	{ "ratio: '3'\n", "t:1: 'ratio' is the text '3'; write it without quotes" },
	{ "ratio: {a: b}\n", "t:1: 'ratio' is a mapping; it must be a number from 0.1 to 300" },
	{ "wait: 90s\n",
	  "t:1: 'wait' is '90s'; it must be a time such as 200ms, 30s or 1h30m, longer than 90s and at "
	  "most 2h" },
	{ "colour: pink\n", "t:1: 'colour' is 'pink'; it must be red, green or blue" },
	{ "colour: [red]\n", "t:1: 'colour' is a list; it must be red, green or blue" },
	{ "text: ~\n", "t:1: 'text' is empty; it must be a text" },
	{ "list: a\n", "t:1: 'list' is 'a'; it must be a list of texts" },
	{ "text: a\nlsit: [a]\n", "t:2: unknown key 'lsit' in the thing; did you mean 'list'?" },
	{ "Text: a\n", "t:1: unknown key 'Text' in the thing; did you mean 'text'?" },
	{ "color: red\n", "t:1: unknown key 'color' in the thing; did you mean 'colour'?" },
	{ "\"a\\e[31m\\x9b\": 1\n",
	  "t:1: unknown key 'a?[31m?' in the thing; known are text, maybe, count, ratio, flag, wait, "
	  "colour, list, either, pairs, items, inner" },
	{ "? [a]\n: b\n", "t:1: a key must be a text" },
	{ "text: a\ntext: b\n", "t:2: 'text' is given again; keep this or line 1" },
	{ "text: &x a\n", "t:1: the anchor 'x' is not read; write the value out" },
	{ "&x text: a\n", "t:1: the anchor 'x' is not read; write the value out" },
	{ "list: &x [a]\n", "t:1: the anchor 'x' is not read; write the value out" },
	{ "text: *x\n", "t:1: the alias 'x' is not read; write the value out" },
	{ "text: !!str a\n", "t:1: the tag 'tag:yaml.org,2002:str' is not read; leave it out" },
	{ "text: !a%1bb a\n", "t:1: the tag '!a?b' is not read; leave it out" },
	{ "--- !x {}\n", "t:1: the tag '!x' is not read; leave it out" },
	{ "text: a\n---\ntext: b\n", "t:2: a second document ('---') begins; a file holds one" },
	{ "--- ~\n---\ntext: b\n", "t:2: a second document ('---') begins; a file holds one" },
	{ "%YAML 9.9\n---\n{}\n",
	  "t:1: this version of YAML is not read; leave the '%YAML' line out" },
	{ "text: \"a\\0b\"\n", "t:1: a NUL character (\\0) in a text; leave it out" },
	{ "text: a\nlist: \xff\n", "t:2: byte 0xff is not UTF-8; save the file as UTF-8" },
	{ "text: \xc0\x80\n", "t:1: byte 0xc0 is not UTF-8; save the file as UTF-8" },
	{ "\xff\xfet\n", "t:1: byte 0xff is not UTF-8; save the file as UTF-8" },
	{ "text: \x01\n", "t:1: control character 0x01; the file must be plain text" },
	{ "list:\n\t- a\n", "t:2: a tab in the indentation; use spaces" },
	{ "text: a\n\tcount: 1\n", "t:2: a tab in the indentation; use spaces" },
	{ "text: a\n  count: 1\n",
	  "t:2: a ':' where none can be; quote the text if the ':' belongs to it, or check the "
	  "indentation" },
	{ "text: a\ncount\nflag: true\n", "t:3: a key without ':'; write 'key: value'" },
	{ "list:\n- a\n b: c\n",
	  "t:3: a ':' where none can be; quote the text if the ':' belongs to it, or check the "
	  "indentation" },
	{ "text: 'a\n\n", "t:3: no end of the quoted text that began in line 1; close the quote" },
	{ "list: [a,\n b\ntext: x\n",
	  "t:3: a missing ',' or ']' in the list that began in line 1; put ',' between items and ']' "
	  "at the end" },
	{ "pairs: {a: b\n",
	  "t:2: a missing ',' or '}' in the mapping that began in line 1; put ',' between items and "
	  "'}' at the end" },
	{ "text: @a\n",
	  "t:1: a value may not begin like this; quote text that begins with '@', '`' or '%'" },
	{ "text: \"\\q\"\n",
	  "t:1: an unknown escape in double quotes; write \\\\ for a backslash, or use single quotes" },
	{ "list: - a\n",
	  "t:1: a list item where none can be; begin the list on a line of its own" },
	{ "}\n", "t:1: a value is missing; write one, or take out a stray ',', ']' or '}'" },
	{ "items:\n- x\n", "t:2: the item is 'x'; it must be a mapping of keys to values" },
	{ "items:\n- label: a\n  labl: b\n",
	  "t:3: unknown key 'labl' in the item; did you mean 'label'?" },
	{ "maybe: [a]\n", "t:1: 'maybe' is a list; it must be a text, or null for none" },
	{ "inner: 5\n", "t:1: 'inner' is '5'; it must be a mapping of keys to values" },
	{ "inner: ''\n", "t:1: 'inner' is empty; it must be a mapping of keys to values" },
	{ "inner: [size]\n", "t:1: 'inner' is a list; it must be a mapping of keys to values" },
	{ "inner:\n  sise: 1\n",
	  "t:2: unknown key 'sise' in the inner mapping; did you mean 'size'?" },
	{ "inner:\n  text: a\n",
	  "t:2: unknown key 'text' in the inner mapping; known are size, depth, factor" },
	{ "inner:\n  depth: 1\n  depth: 2\n", "t:3: 'depth' is given again; keep this or line 2" },
	{ "inner: {}\ninner: {}\n", "t:2: 'inner' is given again; keep this or line 1" },
	{ "inner:\n  depth: 0\n", "t:2: 'depth' is '0'; it must be a whole number from 1 to 9" },
	{ "inner:\n  size: 4095\n",
	  "t:2: 'size' is '4095'; it must be a whole number from 4096 to 1000000000000, or 0 for no "
	  "limit" },
	{ "inner:\n  size: 18446744073709551616\n",
	  "t:2: 'size' is '18446744073709551616'; it must be a whole number from 4096 to "
	  "1000000000000, or 0 for no limit" },
	{ "inner:\n  size: -1\n",
	  "t:2: 'size' is '-1'; it must be a whole number from 4096 to 1000000000000, or 0 for no "
	  "limit" },
	{ "inner:\n  size: '0'\n", "t:2: 'size' is the text '0'; write it without quotes" },
	{ "inner:\n  size: {a: 1}\n",
	  "t:2: 'size' is a mapping; it must be a whole number from 4096 to 1000000000000, or 0 for "
	  "no limit" },
};

static void test_mistakes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++) {
		struct arena arena = ARENA_INIT;
		struct err err = ERR_INIT;
		struct thing t;
		int r = parse(mistakes[i].text, strlen(mistakes[i].text), &arena, &t, &err);

		assert_string_equal(err.text, mistakes[i].message);
		assert_int_equal(r, -EINVAL);
		arena_release(&arena);
	}
}

static void test_bytes_behind_the_end_are_not_read(void **state)
{
	char *text = strdup("count: 12");
	struct arena arena = ARENA_INIT;
	struct thing t;

	(void)state;
	assert_int_equal(parse(text, 8, &arena, &t, NULL), 0);
	assert_int_equal(t.count, 1);
	free(text);
	arena_release(&arena);
}

static void test_too_much_is_refused(void **state)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct arena arena = ARENA_INIT;
	struct err err = ERR_INIT;
	struct thing t;

	(void)state;
	buf_add_str(&text, "list: [");
	for (int i = 0; i < YAML_MAX_ITEMS + 1; i++)
		buf_add_str(&text, "a,\n");
	buf_add_str(&text, "]");
	assert_int_equal(parse(text.data, text.len, &arena, &t, &err), -EINVAL);
	assert_string_equal(err.text,
			    "t:10001: 'list' is too long; at most 10000 entries are read");

	buf_reset(&text);
	buf_add_str(&text, "pairs:\n");
	for (int i = 0; i < YAML_MAX_ITEMS + 1; i++)
		buf_printf(&text, " k%d: v\n", i);
	assert_int_equal(parse(text.data, text.len, &arena, &t, &err), -EINVAL);
	assert_string_equal(err.text,
			    "t:10002: 'pairs' is too long; at most 10000 entries are read");

	buf_reset(&text);
	while (text.len < 100000)
		buf_add_str(&text, "[");
	assert_int_equal(parse(text.data, text.len, &arena, &t, &err), -EINVAL);
	assert_string_equal(err.text, "t:1: lists and mappings in more than 64 others");

	while (text.len <= YAML_MAX_BYTES)
		buf_add_str(&text, "# filler\n");
	assert_int_equal(parse(text.data, text.len, &arena, &t, &err), -EINVAL);
	assert_string_equal(err.text, "t is longer than 1048576 bytes; it cannot be a thing");
	arena_release(&arena);
}

static void test_load_says_what_it_could_not_read(void **state)
{
	struct arena arena = ARENA_INIT;
	struct err err = ERR_INIT;
	struct thing t;

	(void)state;
	assert_int_equal(yaml_load("/no/such", &schema, &arena, &t, NULL, &err), -ENOENT);
	assert_string_equal(err.text, "cannot read /no/such: No such file or directory");
	assert_int_equal(yaml_load("/", &schema, &arena, &t, NULL, &err), -EINVAL);
	assert_string_equal(err.text, "/ is a folder, not a regular file");
	assert_int_equal(yaml_load("/dev/zero", &schema, &arena, &t, NULL, &err), -EINVAL);
	assert_string_equal(err.text, "/dev/zero is a device, not a regular file");
	assert_int_equal(yaml_load("/dev/null", &schema, &arena, &t, NULL, &err), 0);
	arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_kind),
		cmocka_unit_test(test_absent_keys_keep_defaults),
		cmocka_unit_test(test_mapping_in_a_mapping),
		cmocka_unit_test(test_lines_of_keys),
		cmocka_unit_test(test_least_value_is_excluded),
		cmocka_unit_test(test_writing),
		cmocka_unit_test(test_text_or_none),
		cmocka_unit_test(test_byte_order_mark_is_no_indentation),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_bytes_behind_the_end_are_not_read),
		cmocka_unit_test(test_too_much_is_refused),
		cmocka_unit_test(test_load_says_what_it_could_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
