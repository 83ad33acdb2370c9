#include <errno.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/migrate.h"
#include "store/sqlite.h"

/* Tables and views with each of their columns, indexes and triggers. */
#define PARTS                                                                       \
	" FROM sqlite_schema m LEFT JOIN pragma_table_xinfo(m.name) c ON m.type IN" \
	" ('table', 'view') "
#define LIST_PARTS "SELECT m.type, m.name, c.name" PARTS "WHERE m.name NOT LIKE 'sqlite_%'"
#define FIND_PART "SELECT 1" PARTS "WHERE m.type = ?1 AND m.name = ?2 AND c.name IS ?3"

static void close_db(sqlite3 **db)
{
	sqlite3_close(*db);
}

static void finalize(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

static const char *text_of(sqlite3_stmt *stmt, int column)
{
	return (const char *)sqlite3_column_text(stmt, column);
}

static int refuse_missing(struct store *store, sqlite3_stmt *part, struct err *err)
{
	const char *column = text_of(part, 2);

	return err_set(err, -EBADMSG,
		       "the database %s does not have the tables that it should (the %s %s%s%s is "
		       "not there): " ADVICE_DAMAGED,
		       store->path, text_of(part, 0), text_of(part, 1),
		       column ? " with its column " : "", column ? column : "");
}

static int find_part(struct store *store, sqlite3_stmt *find, sqlite3_stmt *part, struct err *err)
{
	int rc;

	sqlite3_reset(find);
	for (int i = 0; i < 3; i++)
		sqlite3_bind_value(find, i + 1, sqlite3_column_value(part, i));
	rc = sqlite3_step(find);
	if (rc == SQLITE_DONE)
		return refuse_missing(store, part, err);
	return rc == SQLITE_ROW ? 0 : store_failure(store, err);
}

/* All that a new database has must be in it; more is no harm. */
int layout_check_tables(struct store *store, struct err *err)
{
	CLEANUP(close_db) sqlite3 *model = NULL;
	CLEANUP(finalize) sqlite3_stmt *parts = NULL, *find = NULL;
	int r = 0;

	if (sqlite3_open(":memory:", &model) != SQLITE_OK || layout_make(model) != SQLITE_OK ||
	    sqlite3_prepare_v2(model, LIST_PARTS, -1, &parts, NULL) != SQLITE_OK)
		return store_no_memory(store, err);
	if (sqlite3_prepare_v2(store->db, FIND_PART, -1, &find, NULL) != SQLITE_OK)
		return store_failure(store, err);
	while (r == 0 && sqlite3_step(parts) == SQLITE_ROW)
		r = find_part(store, find, parts, err);
	return r;
}
