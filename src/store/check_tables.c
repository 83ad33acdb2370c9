#include "store/check_tables.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "store/handle.h"
#include "store/sqlite.h"

#define MAX_NAMED 3 /* of those that are damaged */

#define LIST_TABLES \
	"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"

/* What is in those whose names do not say it. */
static const struct {
	const char *table, *what;
} contents[] = {
	{ "chunks", "samples" },	   { "folds", "ticks of the host" },
	{ "ticks", "the newest samples" }, { "points", "curves of reports" },
	{ "rollups", "1-minute values" },  { "runs", "what estimates are made of" },
};

struct tally {
	struct buf names;
	unsigned n, n_damaged;
	bool is_over; /* interrupted */
};

static void finalize(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

static void tally_release(struct tally *t)
{
	buf_release(&t->names);
}

static const char *find_content(const char *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
		if (strcmp(contents[i].table, table) == 0)
			return contents[i].what;
	return NULL;
}

static void add_name(struct tally *t, const char *table)
{
	const char *what = find_content(table);

	if (++t->n_damaged > MAX_NAMED)
		return;
	buf_printf(&t->names, "%s%s", t->n_damaged > 1 ? ", " : "", table);
	if (what)
		buf_printf(&t->names, " (%s)", what);
}

/* With its indexes. */
static bool is_whole(sqlite3 *db, const char *table)
{
	CLEANUP(finalize) sqlite3_stmt *stmt = NULL;
	char *sql = sqlite3_mprintf("PRAGMA integrity_check(%Q)", table);
	bool is_ok = sql && sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
		     sqlite3_step(stmt) == SQLITE_ROW &&
		     strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;

	sqlite3_free(sql);
	return is_ok;
}

static void look_at(struct tally *t, sqlite3 *db, const char *table)
{
	bool is_ok = is_whole(db, table);

	t->is_over = !is_ok && sqlite3_errcode(db) == SQLITE_INTERRUPT;
	t->n++;
	if (!is_ok && !t->is_over)
		add_name(t, table);
}

static void look_at_all(struct tally *t, sqlite3 *db)
{
	CLEANUP(finalize) sqlite3_stmt *list = NULL;
	int rc = sqlite3_prepare_v2(db, LIST_TABLES, -1, &list, NULL);

	if (rc == SQLITE_OK)
		while (!t->is_over && (rc = sqlite3_step(list)) == SQLITE_ROW)
			look_at(t, db, (const char *)sqlite3_column_text(list, 0));
	t->is_over |= rc != SQLITE_DONE;
}

void check_tables_tell(struct store *store, struct buf *out)
{
	CLEANUP(tally_release) struct tally t = { .names = BUF_INIT };

	look_at_all(&t, store->db);
	if (t.is_over || t.n == 0)
		return;
	if (t.n_damaged == 0)
		buf_printf(out, "none of its %u tables is, and all can still be read", t.n);
	else if (t.n_damaged == t.n)
		buf_printf(out, "so are all of its %u tables", t.n);
	else
		buf_printf(out, "%u of its %u tables %s, %s%s, and the others can still be read",
			   t.n_damaged, t.n, t.n_damaged == 1 ? "is" : "are",
			   t.names.data ? t.names.data : "",
			   t.n_damaged > MAX_NAMED ? " among them" : "");
}
