#include "store/vfs.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "store/sqlite.h"

#define NAME "proctor"

/* Whoever has put something into it has seen to it that the folder has its name. */
static bool is_in_use(const char *name)
{
	struct stat st;

	return stat(name, &st) == 0 && st.st_size > 0;
}

/*
 * Without SQLITE_OPEN_CREATE a file that is there is opened as one that is not
 * new. It may be gone by now (the last to leave removes it): then as SQLite asked.
 */
static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		     int *ret_flags)
{
	sqlite3_vfs *unix_vfs = vfs->pAppData;

	if (flags & SQLITE_OPEN_WAL && is_in_use(name) &&
	    unix_vfs->xOpen(unix_vfs, name, file, flags & ~SQLITE_OPEN_CREATE, ret_flags) ==
		    SQLITE_OK)
		return SQLITE_OK;
	return unix_vfs->xOpen(unix_vfs, name, file, flags, ret_flags);
}

/* SQLite keeps the struct; its other functions are as they are. */
static bool make_vfs(sqlite3_vfs *unix_vfs)
{
	sqlite3_vfs *vfs = sqlite3_malloc(sizeof(*vfs));

	if (!vfs)
		return false;
	*vfs = *unix_vfs;
	vfs->zName = NAME;
	vfs->pAppData = unix_vfs;
	vfs->xOpen = open_file;
	if (sqlite3_vfs_register(vfs, 0) == SQLITE_OK)
		return true;
	sqlite3_free(vfs);
	return false;
}

const char *vfs_name(void)
{
	sqlite3_vfs *unix_vfs = sqlite3_vfs_find(NULL);

	if (sqlite3_vfs_find(NAME) || (unix_vfs && make_vfs(unix_vfs)))
		return NAME;
	return NULL;
}
