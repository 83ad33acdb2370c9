/*
 * path - where proctor keeps things.
 *
 * PROCTOR_HOME set: everything below it. Else for root /var/lib/proctor,
 * /run/proctor and /etc/proctor; for a user, and for root of a user namespace that may not write
 * there, the XDG state, runtime and config
 * folders (with their defaults below HOME).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define PATH_BYTES 4096

struct paths {
	char state_dir[PATH_BYTES]; /* holds proctor.db, traces/ */
	char db[PATH_BYTES];
	char jsonl[PATH_BYTES]; /* beside db; "": none is written */
	char config[PATH_BYTES];
	/* The variables that say so: "PROCTOR_HOME"; NULL: none does, root has fixed places. */
	const char *state_variable, *config_variable;
};

/* From the environment and the effective user. -ENOENT: neither PROCTOR_HOME nor HOME is set. */
int paths_find(struct paths *ret, struct err *err);

/*
 * Put jsonl and db where the configuration's jsonl_path and storage_path say: an
 * absolute path, one below HOME ("~/…"), or one that begins in state_dir. NULL: no log
 * is written.
 */
int paths_set_jsonl(struct paths *p, const char *jsonl_path, struct err *err);
int paths_set_db(struct paths *p, const char *storage_path, struct err *err);

/* PROCTOR_HOME's (where it is set), the user's (unless that is root), the system's. */
struct socket_paths {
	char items[3][PATH_BYTES];
	size_t n;
};

/*
 * Where clients look for a daemon's socket, in this order. The first is where a
 * daemon of this user listens. A user without XDG_RUNTIME_DIR gets /run/user/UID
 * if that is there, else the state folder.
 */
int socket_paths_find(struct socket_paths *ret, struct err *err);

/* Whether a program of this name is in PATH. */
bool path_has_program(const char *name);

/*
 * -ELOOP: we are root, and a part of the path is a link that another user has made: it could lead
 * root to any place. Root's own links are followed, as files may live on another disk.
 */
int path_refuse_links(const char *path, struct err *err);

/* Makes dir and its missing parents, 0700. -EEXIST: something else than a folder is there.
 * -ELOOP as above. */
int path_make_dir(const char *dir, struct err *err);

/*
 * What root makes in the folder of a user is the user's: else whose folder it is could not use it.
 * fd is the new file at path. Where owners cannot be set nothing happens.
 */
void path_give_to_folder_owner(const char *path, int fd);
