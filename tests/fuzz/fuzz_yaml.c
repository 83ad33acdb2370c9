/*
 * YAML of any bytes against a schema with one key of each kind: a sentence that
 * names file and line and can be shown on a terminal, or values within bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "base/yaml.h"

struct item {
	int line;
	const char *s;
};

struct inner {
	uint64_t u;
	int i;
};

struct thing {
	const char *s;
	const char *o;
	int i;
	double n;
	bool b;
	double d;
	int c;
	struct yaml_strings l, e;
	struct yaml_pairs p;
	struct yaml_items m;
	struct inner in;
};

#define FIELD(name, the_kind) .key = #name, .kind = the_kind, .offset = offsetof(struct thing, name)

static const char *const choices[] = { "one", "two", NULL };
static const struct yaml_field item_fields[] = {
	{ .key = "s",
	  .kind = YAML_STRING,
	  .offset = offsetof(struct item, s),
	  .is_required = true },
};
static const struct yaml_schema item_schema = {
	.what = "item",
	.fields = item_fields,
	.n_fields = ARRAY_SIZE(item_fields),
	.size = sizeof(struct item),
	.line_offset = offsetof(struct item, line),
};
static const struct yaml_field inner_fields[] = {
	{ .key = "u",
	  .kind = YAML_U64,
	  .offset = offsetof(struct inner, u),
	  .min = 10,
	  .max = 1e15,
	  .zero_means = "none" },
	{ .key = "i",
	  .kind = YAML_INT,
	  .offset = offsetof(struct inner, i),
	  .min = 1,
	  .max = 3,
	  .is_required = true },
};
static const struct yaml_schema inner_schema = {
	.what = "inner",
	.fields = inner_fields,
	.n_fields = ARRAY_SIZE(inner_fields),
	.size = sizeof(struct inner),
	.line_offset = SIZE_MAX,
};
static const struct yaml_field fields[] = {
	{ FIELD(s, YAML_STRING) },
	{ FIELD(o, YAML_STRING_OR_NONE) },
	{ FIELD(i, YAML_INT), .min = -3, .max = 3 },
	{ FIELD(n, YAML_NUMBER), .min = -1, .max = 1 },
	{ FIELD(b, YAML_BOOL) },
	{ FIELD(d, YAML_DURATION), .min = 0, .max = 100 },
	{ FIELD(c, YAML_CHOICE), .choices = choices },
	{ FIELD(l, YAML_STRINGS) },
	{ FIELD(e, YAML_STRING_OR_STRINGS) },
	{ FIELD(p, YAML_STRING_MAP) },
	{ FIELD(m, YAML_MAPPINGS), .item = &item_schema },
	{ FIELD(in, YAML_MAPPING), .item = &inner_schema },
};
static const struct yaml_schema schema = {
	.what = "thing",
	.fields = fields,
	.n_fields = ARRAY_SIZE(fields),
	.size = sizeof(struct thing),
	.line_offset = SIZE_MAX,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void check_error(int r, const struct err *err)
{
	size_t n = strlen(err->text);

	require(err->code == r && strncmp(err->text, "f:", 2) == 0 && atoi(err->text + 2) > 0);
	for (size_t i = 0; i < n; i++)
		require(!ascii_is_control(err->text[i]));
}

static void check_strings(const struct yaml_strings *l)
{
	for (size_t i = 0; i < l->n; i++)
		require(l->items[i] && l->lines[i] > 0);
	require(!l->items || !l->items[l->n]);
}

static void check_thing(const struct thing *t)
{
	const struct item *items = t->m.items;

	require(t->i >= -3 && t->i <= 3 && t->n >= -1 && t->n <= 1 && t->d >= 0 && t->d <= 100);
	require(t->c == 0 || t->c == 1);
	require(!t->o || t->o[0]);
	require(t->in.u == 0 || (t->in.u >= 10 && t->in.u <= 1000000000000000));
	require(t->in.i >= 0 && t->in.i <= 3 && (t->in.i > 0 || t->in.u == 0));
	check_strings(&t->l);
	check_strings(&t->e);
	for (size_t i = 0; i < t->p.n; i++)
		require(t->p.items[i].name && t->p.items[i].value && t->p.items[i].line > 0);
	for (size_t i = 0; i < t->m.n; i++)
		require(items[i].s && items[i].s[0] && items[i].line > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena = ARENA_INIT;
	struct err err = ERR_INIT;
	struct thing t;
	int r = yaml_parse((const char *)data, size, "f", &schema, &arena, &t, &err);

	if (r < 0)
		check_error(r, &err);
	else
		check_thing(&t);
	arena_release(&arena);
	return 0;
}
