#include "base/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/utf8.h"

#define OWN_PATH_BYTES (PATH_BYTES + 16) /* with the suffix of a row below */

enum owner { BY_CONFIG, BY_STATE, BY_SOCKET, BY_RECORD, BY_LOG };

/* What proctor itself writes: whose path it begins with, what follows, and what it is. */
static const struct own_file {
	enum owner owner;
	const char *suffix, *what;
} own_files[] = {
	{ BY_CONFIG, "", "the configuration" },
	{ BY_STATE, "/daemon.log", "what the daemon says" },
	{ BY_STATE, "/logs", "the folder of what jobs print" },
	{ BY_STATE, "/queue", "the queue of jobs" },
	{ BY_STATE, "/traces", "the folder of traces" },
	{ BY_SOCKET, "", "the daemon's socket" },
	{ BY_SOCKET, ".lock", "the lock of the daemon's socket" },
	{ BY_RECORD, "", "the record" },
	{ BY_RECORD, "-wal", "a part of the record" },
	{ BY_RECORD, "-shm", "a part of the record" },
	{ BY_RECORD, "-journal", "a part of the record" },
	{ BY_RECORD, "-logs", "a part of the record" },
	{ BY_LOG, "", "the log of snapshots" },
	{ BY_LOG, ".1", "the log of snapshots, rotated" },
	{ BY_LOG, ".2", "the log of snapshots, rotated" },
};

/* A place of the configuration: the key that gave it, and the path that came of it. */
struct place {
	const char *key, *path;
	enum owner owner;
};

static bool is_at(const struct place *place, const char *owner, const struct own_file *own)
{
	char path[OWN_PATH_BYTES];
	const char *a_slash, *b_slash;
	char a_folder[OWN_PATH_BYTES], b_folder[OWN_PATH_BYTES];
	struct stat a_st, b_st;

	if (!owner[0])
		return false; /* no log is written */
	snprintf(path, sizeof(path), "%s%s", owner, own->suffix);
	/* Also by another way, or through a link; where neither exists yet, by folder and name. */
	a_slash = strrchr(place->path, '/');
	b_slash = strrchr(path, '/');
	if (strcmp(place->path, path) == 0)
		return true;
	if (stat(place->path, &a_st) == 0 && stat(path, &b_st) == 0)
		return a_st.st_dev == b_st.st_dev && a_st.st_ino == b_st.st_ino;
	if (!a_slash || !b_slash || strcmp(a_slash, b_slash) != 0)
		return false;
	snprintf(a_folder, sizeof(a_folder), "%.*s", (int)(a_slash - place->path) + 1, place->path);
	snprintf(b_folder, sizeof(b_folder), "%.*s", (int)(b_slash - path) + 1, path);
	if (stat(a_folder, &a_st) < 0 || stat(b_folder, &b_st) < 0)
		return strcmp(a_folder, b_folder) == 0; /* not created yet */
	return a_st.st_dev == b_st.st_dev && a_st.st_ino == b_st.st_ino;
}

static bool is_own(const struct place *place, const struct paths *p, const struct own_file *own)
{
	const char *const owners[] = {
		[BY_CONFIG] = p->config,
		[BY_STATE] = p->state_dir,
		[BY_RECORD] = p->db,
		[BY_LOG] = p->jsonl,
	};
	struct socket_paths sockets;

	if (own->owner == place->owner)
		return false;
	if (own->owner != BY_SOCKET)
		return is_at(place, owners[own->owner], own);
	if (socket_paths_find(&sockets, NULL) < 0)
		return false;
	for (size_t i = 0; i < sockets.n; i++)
		if (is_at(place, sockets.items[i], own))
			return true;
	return false;
}

/* Without a log there is still the record: that its place is a folder doctor tells. */
static bool is_folder(const struct place *place)
{
	const char *path = place->path;
	struct stat st;

	if (place->owner != BY_RECORD)
		return false;
	return path[strlen(path) - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* A place without a setting is the default one. In a conflict the error names the other place. */
static int check_place(const struct place *place, const struct paths *p, const char *file,
		       const struct config *c, struct err *err)
{
	const int line = config_line(c, place->key);
	char shown[UTF8_QUOTED_BYTES];

	if (line == 0 || !place->path[0])
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(own_files); i++)
		if (is_own(place, p, &own_files[i]))
			return err_set(
				err, -EINVAL,
				"%s:%d: '%s' is %s, which is %s; it must be a file of its own",
				file, line, place->key, utf8_quote(place->path, shown),
				own_files[i].what);
	if (is_folder(place))
		return err_set(err, -EINVAL,
			       "%s:%d: '%s' is %s, which is a folder; it must be a file", file,
			       line, place->key, utf8_quote(place->path, shown));
	return 0;
}

int settings_place(struct paths *p, const char *file, const struct config *c, struct err *err)
{
	const struct place db = { "storage_path", p->db, BY_RECORD };
	const struct place jsonl = { "jsonl_path", p->jsonl, BY_LOG };
	int r = paths_set_db(p, c->storage_path, err);

	if (r == 0)
		r = paths_set_jsonl(p, c->jsonl_path, err);
	if (r == 0)
		r = check_place(&db, p, file, c, err);
	if (r == 0)
		r = check_place(&jsonl, p, file, c, err);
	return r;
}

int settings_open_loosely(struct settings *ret, struct buf *slips, struct err *err)
{
	int r;

	ret->mask = NULL;
	config_init(&ret->config);
	r = paths_find(&ret->paths, err);
	if (r == 0)
		r = config_load_loosely(ret->paths.config, &ret->config, slips, err);
	if (r == 0)
		r = settings_place(&ret->paths, ret->paths.config, &ret->config, err);
	if (r == 0 && ret->config.mask_secrets)
		r = mask_new(ret->config.mask_patterns.items, ret->config.mask_patterns.n,
			     &ret->mask, err);
	if (r < 0)
		config_release(&ret->config);
	return r;
}

int settings_open(struct settings *ret, struct err *err)
{
	return settings_open_loosely(ret, NULL, err);
}

void settings_close(struct settings *s)
{
	s->mask = mask_free(s->mask);
	config_release(&s->config);
}
