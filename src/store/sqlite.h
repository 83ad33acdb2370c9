/*
 * sqlite - SQLite, as the program or as the extension sees it.
 *
 * The program is linked with libsqlite3. The extension (sql/extension.c) is loaded
 * by a program that has a SQLite of its own, and calls that one through a table
 * that it is handed. All files of this folder are built for both.
 */
#pragma once

#ifdef PROCTOR_SQLITE_EXTENSION
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif
