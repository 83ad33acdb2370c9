#include "report/doc.h"

#include <string.h>

void table_release(struct table *t)
{
	buf_release(&t->text);
}

struct buf *table_cell(struct table *t)
{
	if (t->n_cells > 0)
		buf_add_char(&t->text, '\0');
	t->n_cells++;
	return &t->text;
}

size_t table_rows(const struct table *t)
{
	/* After a lost append the cells no longer stand where they belong. */
	return buf_error(&t->text) < 0 ? 0 : t->n_cells / t->n_columns;
}

const char *table_first(const struct table *t)
{
	return t->text.data;
}

const char *table_next(const char *cell)
{
	return cell + strlen(cell) + 1;
}
