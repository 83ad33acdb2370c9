#include "store/statements.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/statement_rows.h"

static void add_name(struct buf *out, const char *prefix, const char *name)
{
	buf_add_str(out, prefix);
	buf_add_str(out, name);
}

static void add_value(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	(void)name;
	buf_add_char(out, '?');
}

static void add_set(struct buf *out, const char *prefix, const char *name)
{
	add_name(out, prefix, name);
	buf_add_str(out, " = ?");
}

static void add_merged(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "%s = coalesce(excluded.%s, %s)", name, name, name);
}

static void add_named(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "? AS %s", name);
}

static void add_raised(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "%s = coalesce(max(processes.%s, new.%s), processes.%s, new.%s)", name,
		   name, name, name, name);
}

static const struct word {
	const char *text;
	void (*add)(struct buf *out, const char *prefix, const char *name);
} words[] = {
	{ "@named", add_named }, { "@names", add_name },    { "@values", add_value },
	{ "@sets", add_set },	 { "@merged", add_merged }, { "@raised", add_raised },
};

static void add_word(struct buf *out, const struct word *word, const struct statement_row *row)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(row->parts) && row->parts[i].columns; i++) {
		const struct part *part = &row->parts[i];

		for (size_t k = 0; k < part->columns->n; k++) {
			buf_add_str(out, comma);
			word->add(out, part->prefix, part->columns->items[k].name);
			comma = ", ";
		}
	}
}

/* The word that p begins with; NULL: none. */
static const struct word *find_word(const char *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strncmp(p, words[i].text, strlen(words[i].text)) == 0)
			return &words[i];
	return NULL;
}

static const struct statement_table *const tables[] = {
	&statements_writing,
	&statements_reading,
	&statements_retention,
	&statements_learning,
};

/* Once for each statement of a handle. Each is there. */
static const struct statement_row *find_row(enum statement id)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		for (size_t k = 0; k < tables[i]->n; k++)
			if (tables[i]->rows[k].id == id)
				return &tables[i]->rows[k];
	abort();
}

void statement_write(enum statement id, struct buf *out)
{
	const struct statement_row *row = find_row(id);
	const char *p = row->text;

	while (*p) {
		const struct word *word = *p == '@' ? find_word(p) : NULL;
		size_t plain = word ? 0 : 1 + strcspn(p + 1, "@");

		buf_add(out, p, plain);
		if (word)
			add_word(out, word, row);
		p += word ? strlen(word->text) : plain;
	}
}
