#include "store/sql/vtab.h"

/*
 * extension - the tables of vtab.h for any program with SQLite.
 *
 *	sqlite3 ~/.local/state/proctor/proctor.db
 *	.load libproctor_sqlite
 *	SELECT …
 *
 * SQLite makes the name of the entry from that of the file.
 */

#define OLDEST_SQLITE 3037000 /* as in meson.build */

SQLITE_EXTENSION_INIT1

__attribute__((visibility("default"))) int sqlite3_proctorsqlite_init(
	sqlite3 *db, char **ret_error, const sqlite3_api_routines *api);

int sqlite3_proctorsqlite_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api)
{
	struct err err = ERR_INIT;

	SQLITE_EXTENSION_INIT2(api);
	if (sqlite3_libversion_number() < OLDEST_SQLITE) {
		*ret_error = sqlite3_mprintf("this SQLite is %s: proctor needs 3.37 or later",
					     sqlite3_libversion());
		return SQLITE_ERROR;
	}
	if (vtab_register(db, NULL, &err) < 0) {
		*ret_error = sqlite3_mprintf("%s", err.text);
		return SQLITE_ERROR;
	}
	return SQLITE_OK;
}
