#include "base/path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"

static int path_format(char *path, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

static int path_format(char *path, struct err *err, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, PATH_BYTES, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= PATH_BYTES)
		return err_set(err, -ENAMETOOLONG, "the path for proctor's files is too long");
	return 0;
}

/*
 * <$variable or HOME/fallback>/proctor; XDG says a relative path is to be ignored.
 * ret_variable is the one that it was taken from.
 */
static int path_xdg(char *path, const char *variable, const char *fallback,
		    const char **ret_variable, struct err *err)
{
	const char *value = getenv(variable);
	const char *home = getenv("HOME");

	*ret_variable = value && value[0] == '/' ? variable : "HOME";
	if (value && value[0] == '/')
		return path_format(path, err, "%s/proctor", value);
	if (home && home[0] == '/')
		return path_format(path, err, "%s/%s/proctor", home, fallback);
	return err_set(err, -ENOENT, "no place for proctor's files: set PROCTOR_HOME or HOME");
}

/* Root of a user namespace (unshare -Ur) owns nothing of what root has outside of it. */
static bool is_root(void)
{
	return geteuid() == 0 &&
	       (access("/var/lib", W_OK) == 0 || (errno != EACCES && errno != EPERM));
}

int paths_find(struct paths *ret, struct err *err)
{
	const char *home = getenv("PROCTOR_HOME");
	char config_dir[PATH_BYTES];
	int r;

	ret->state_variable = ret->config_variable = NULL;
	if (home && home[0]) {
		ret->state_variable = ret->config_variable = "PROCTOR_HOME";
		r = path_format(ret->state_dir, err, "%s", home);
		if (r == 0)
			r = path_format(config_dir, err, "%s", home);
	} else if (is_root()) {
		r = path_format(ret->state_dir, err, "/var/lib/proctor");
		if (r == 0)
			r = path_format(config_dir, err, "/etc/proctor");
	} else {
		r = path_xdg(ret->state_dir, "XDG_STATE_HOME", ".local/state", &ret->state_variable,
			     err);
		if (r == 0)
			r = path_xdg(config_dir, "XDG_CONFIG_HOME", ".config",
				     &ret->config_variable, err);
	}
	if (r == 0)
		r = paths_set_db(ret, "proctor.db", err);
	if (r == 0)
		r = paths_set_jsonl(ret, NULL, err);
	return r < 0 ? r : path_format(ret->config, err, "%s/proctor.yaml", config_dir);
}

/* What key of the configuration says. */
static int path_given(const struct paths *p, const char *key, const char *given, char *ret,
		      struct err *err)
{
	const char *home = getenv("HOME");

	if (given[0] == '/')
		return path_format(ret, err, "%s", given);
	if (strncmp(given, "~/", 2) != 0)
		return path_format(ret, err, "%s/%s", p->state_dir, given);
	if (!home || home[0] != '/')
		return err_set(err, -ENOENT, "%s begins with ~/, but HOME is not set", key);
	return path_format(ret, err, "%s/%s", home, given + 2);
}

int paths_set_jsonl(struct paths *p, const char *jsonl_path, struct err *err)
{
	if (!jsonl_path)
		return path_format(p->jsonl, err, "%s", "");
	return path_given(p, "jsonl_path", jsonl_path, p->jsonl, err);
}

int paths_set_db(struct paths *p, const char *storage_path, struct err *err)
{
	return path_given(p, "storage_path", storage_path, p->db, err);
}

static int path_user_runtime(char *path, struct err *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *variable;
	char run_user[PATH_BYTES];
	struct stat st;

	if (runtime && runtime[0] == '/')
		return path_format(path, err, "%s/proctor", runtime);
	/* A login session made it; cron and su do not set the variable. */
	snprintf(run_user, sizeof(run_user), "/run/user/%u", (unsigned)geteuid());
	if (stat(run_user, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		return path_format(path, err, "%s/proctor", run_user);
	return path_xdg(path, "XDG_STATE_HOME", ".local/state", &variable, err);
}

static int socket_paths_add(struct socket_paths *list, const char *dir, struct err *err)
{
	return path_format(list->items[list->n++], err, "%s/proctor.sock", dir);
}

int socket_paths_find(struct socket_paths *ret, struct err *err)
{
	const char *home = getenv("PROCTOR_HOME");
	char dir[PATH_BYTES];
	int r = 0;

	ret->n = 0;
	if (home && home[0])
		r = socket_paths_add(ret, home, err);
	if (r == 0 && !is_root()) {
		r = path_user_runtime(dir, err);
		if (r == 0)
			r = socket_paths_add(ret, dir, err);
		else if (r == -ENOENT)
			r = 0; /* no folder of their own, and the system's may still be there */
	}
	return r < 0 ? r : socket_paths_add(ret, "/run/proctor", err);
}

int path_refuse_links(const char *path, struct err *err)
{
	char part[PATH_BYTES];
	size_t n = strlen(path);
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (n >= sizeof(part))
		return err_set(err, -ENAMETOOLONG, "the path %.64s… is too long", path);
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (lstat(part, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != 0)
			return err_set(err, -ELOOP,
				       "%s is a link that user %u has made, and root follows none "
				       "of those: set PROCTOR_HOME to another folder",
				       part, (unsigned)st.st_uid);
	}
	return 0;
}

static int path_make_one(const char *dir, struct err *err)
{
	struct stat st;

	if (mkdir(dir, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return err_set(err, -errno, "cannot make the folder %s: %s", dir, strerror(errno));
	if (stat(dir, &st) < 0)
		return err_set(err, -errno, "cannot use the folder %s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -EEXIST, "%s is not a folder", dir);
	return 0;
}

int path_make_dir(const char *dir, struct err *err)
{
	char part[PATH_BYTES];
	size_t n = strlen(dir);
	struct stat st;
	int refused = path_refuse_links(dir, err);

	if (refused < 0)
		return refused;
	if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (n == 0)
		return err_set(err, -ENOENT, "the name of a folder is empty");
	if (n >= sizeof(part))
		return err_set(err, -ENAMETOOLONG, "the path %.64s… is too long", dir);
	memcpy(part, dir, n + 1);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int r;

		*slash = '\0';
		r = stat(part, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : path_make_one(part, err);
		*slash = '/';
		if (r < 0)
			return r;
	}
	return path_make_one(part, err);
}

void path_give_to_folder_owner(const char *path, int fd)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(free_ptr)
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	struct stat st;

	if (geteuid() != 0 || !folder || stat(folder, &st) < 0 || st.st_uid == 0)
		return;
	if (fchown(fd, st.st_uid, st.st_gid) < 0)
		return; /* a file system without owners */
}

bool path_has_program(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_BYTES];

	while (path && *path) {
		size_t n = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, name);
		if (access(file, X_OK) == 0)
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}
