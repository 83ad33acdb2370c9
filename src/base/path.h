/*
 * path - where proctor keeps things.
 *
 * PROCTOR_HOME set: everything below it. Else for root /var/lib/proctor,
 * /run/proctor and /etc/proctor; for a user the XDG state, runtime and config
 * folders (with their defaults below HOME).
 */
#ifndef PROCTOR_BASE_PATH_H
#define PROCTOR_BASE_PATH_H

#include "base/err.h"

#define PATH_BYTES 4096

struct paths {
	char state_dir[PATH_BYTES]; /* holds proctor.db, proctor.jsonl, traces/ */
	char db[PATH_BYTES];
	char jsonl[PATH_BYTES]; /* beside db; "": none is written */
	char config[PATH_BYTES];
};

/* From the environment and the effective user. -ENOENT: neither PROCTOR_HOME nor HOME is set. */
int paths_find(struct paths *ret, struct err *err);

/*
 * Puts jsonl where the configuration's jsonl_path says: an absolute path, one below
 * HOME ("~/…"), or one that begins beside the database. NULL: none is written.
 */
int paths_set_jsonl(struct paths *p, const char *jsonl_path, struct err *err);

/* Makes dir and its missing parents, 0700. -EEXIST: something else than a folder is there. */
int path_make_dir(const char *dir, struct err *err);

#endif
