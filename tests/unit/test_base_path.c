#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"

#define NOBODY 65534

/* One environment and what comes of it; NULL leaves a variable unset. */
struct row {
	const char *proctor_home, *home, *xdg_state, *xdg_config;
	int result;
	const char *db, *config;
};

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static bool is_as_expected(const void *rows, size_t i)
{
	const struct row *row = (const struct row *)rows + i;
	struct err err = ERR_INIT;
	struct paths p;
	int r;

	set("PROCTOR_HOME", row->proctor_home);
	set("HOME", row->home);
	set("XDG_STATE_HOME", row->xdg_state);
	set("XDG_CONFIG_HOME", row->xdg_config);
	r = paths_find(&p, &err);
	if (r == row->result && r < 0)
		return err.text[0] != '\0';
	if (r == row->result && strcmp(p.db, row->db) == 0 && strcmp(p.config, row->config) == 0 &&
	    strncmp(p.db, p.state_dir, strlen(p.state_dir)) == 0 && !p.jsonl[0])
		return true;
	fprintf(stderr, "got %d, %s, %s\n", r, p.db, p.config);
	return false;
}

/* Runs the rows (whatever they are) in a child, as uid where this user may become another.
 */
static void assert_rows(bool (*is_ok)(const void *rows, size_t i), const void *rows, size_t n,
			uid_t uid)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		size_t ok = 0;

		if (geteuid() != uid && setuid(uid) < 0)
			_exit(100);
		while (ok < n && is_ok(rows, ok))
			ok++;
		_exit(ok == n ? 0 : (int)ok + 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("row %d", WEXITSTATUS(status) - 1);
}

static void test_user(void **state)
{
	char longest[PATH_BYTES + 1];
	const struct row rows[] = {
		{ NULL, "/h", NULL, NULL, 0, "/h/.local/state/proctor/proctor.db",
		  "/h/.config/proctor/proctor.yaml" },
		{ NULL, "/h", "/s", "/c", 0, "/s/proctor/proctor.db", "/c/proctor/proctor.yaml" },
		{ NULL, "/h", "", "relative", 0, "/h/.local/state/proctor/proctor.db",
		  "/h/.config/proctor/proctor.yaml" },
		{ NULL, NULL, "/s", "/c", 0, "/s/proctor/proctor.db", "/c/proctor/proctor.yaml" },
		{ NULL, NULL, "/s", NULL, -ENOENT, NULL, NULL },
		{ NULL, NULL, NULL, NULL, -ENOENT, NULL, NULL },
		{ NULL, "relative", NULL, NULL, -ENOENT, NULL, NULL },
		{ "", "/h", NULL, NULL, 0, "/h/.local/state/proctor/proctor.db",
		  "/h/.config/proctor/proctor.yaml" },
		{ "/p", "/h", "/s", "/c", 0, "/p/proctor.db", "/p/proctor.yaml" },
		{ "/p", NULL, NULL, NULL, 0, "/p/proctor.db", "/p/proctor.yaml" },
		{ longest, "/h", NULL, NULL, -ENAMETOOLONG, NULL, NULL },
		{ longest + 5, "/h", NULL, NULL, -ENAMETOOLONG, NULL, NULL },
	};

	(void)state;
	memset(longest, 'p', sizeof(longest));
	longest[0] = longest[5] = '/';
	longest[PATH_BYTES] = '\0';
	assert_rows(is_as_expected, rows, sizeof(rows) / sizeof(rows[0]),
		    geteuid() == 0 ? NOBODY : geteuid());
}

static void test_root(void **state)
{
	static const struct row rows[] = {
		{ NULL, "/root", "/s", "/c", 0, "/var/lib/proctor/proctor.db",
		  "/etc/proctor/proctor.yaml" },
		{ NULL, NULL, NULL, NULL, 0, "/var/lib/proctor/proctor.db",
		  "/etc/proctor/proctor.yaml" },
		{ "/p", "/root", NULL, NULL, 0, "/p/proctor.db", "/p/proctor.yaml" },
	};

	(void)state;
	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	assert_rows(is_as_expected, rows, sizeof(rows) / sizeof(rows[0]), 0);
}

/* unshare -Ur: root there, and nobody where root keeps its files. */
static void test_root_of_a_user_namespace(void **state)
{
	static const struct row row = { NULL,
					"/h",
					NULL,
					NULL,
					0,
					"/h/.local/state/proctor/proctor.db",
					"/h/.config/proctor/proctor.yaml" };
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		char map[32];
		uid_t uid;
		int fd;

		if (geteuid() == 0 && setuid(NOBODY) < 0)
			_exit(77);
		uid = geteuid();
		prctl(PR_SET_DUMPABLE, 1); /* the map is its own again, which root has given away */
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(77);
		fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
		snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
		if (fd < 0 || write(fd, map, strlen(map)) < 0 || geteuid() != 0)
			_exit(77);
		_exit(!is_as_expected(&row, 0));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("# no user namespaces here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* NULL-terminated paths, in order; NULL first: refused. */
struct socket_row {
	const char *proctor_home, *home, *xdg_runtime;
	const char *paths[4];
};

static bool are_sockets_as_expected(const void *rows, size_t i)
{
	const struct socket_row *row = (const struct socket_row *)rows + i;
	struct err err = ERR_INIT;
	struct socket_paths p;
	size_t n = 0;
	int r;

	set("PROCTOR_HOME", row->proctor_home);
	set("HOME", row->home);
	set("XDG_RUNTIME_DIR", row->xdg_runtime);
	unsetenv("XDG_STATE_HOME");
	r = socket_paths_find(&p, &err);
	if (!row->paths[0])
		return r == -ENAMETOOLONG && err.text[0] != '\0';
	while (r == 0 && n < p.n && row->paths[n] && strcmp(p.items[n], row->paths[n]) == 0)
		n++;
	return r == 0 && n == p.n && !row->paths[n];
}

#define SYSTEM_SOCKET "/run/proctor/proctor.sock"

static void test_sockets(void **state)
{
	char longest[PATH_BYTES + 1], run_user[64];
	const struct socket_row rows[] = {
		{ NULL, "/h", "/r", { "/r/proctor/proctor.sock", SYSTEM_SOCKET } },
		{ NULL, NULL, "/r", { "/r/proctor/proctor.sock", SYSTEM_SOCKET } },
		{ "", "/h", "/r", { "/r/proctor/proctor.sock", SYSTEM_SOCKET } },
		{ "/p",
		  "/h",
		  "/r",
		  { "/p/proctor.sock", "/r/proctor/proctor.sock", SYSTEM_SOCKET } },
		{ longest, "/h", "/r", { NULL } },
		{ NULL, "/h", longest, { NULL } },
	};
	const struct socket_row without_runtime[] = {
		{ NULL, "/h", NULL, { "/h/.local/state/proctor/proctor.sock", SYSTEM_SOCKET } },
		{ NULL,
		  "/h",
		  "relative",
		  { "/h/.local/state/proctor/proctor.sock", SYSTEM_SOCKET } },
		{ NULL, NULL, NULL, { SYSTEM_SOCKET } },
		{ "/p", NULL, NULL, { "/p/proctor.sock", SYSTEM_SOCKET } },
	};
	uid_t uid = geteuid() == 0 ? NOBODY : geteuid();

	(void)state;
	memset(longest, 'p', sizeof(longest));
	longest[0] = '/';
	longest[PATH_BYTES] = '\0';
	assert_rows(are_sockets_as_expected, rows, sizeof(rows) / sizeof(rows[0]), uid);
	snprintf(run_user, sizeof(run_user), "/run/user/%u", (unsigned)uid);
	if (access(run_user, F_OK) < 0)
		assert_rows(are_sockets_as_expected, without_runtime,
			    sizeof(without_runtime) / sizeof(without_runtime[0]), uid);
}

static void test_sockets_of_root(void **state)
{
	static const struct socket_row rows[] = {
		{ NULL, "/root", "/run/user/0", { SYSTEM_SOCKET } },
		{ "/p", "/root", "/run/user/0", { "/p/proctor.sock", SYSTEM_SOCKET } },
	};

	(void)state;
	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	assert_rows(are_sockets_as_expected, rows, sizeof(rows) / sizeof(rows[0]), 0);
}

static void test_jsonl(void **state)
{
	char longest[PATH_BYTES + 1];
	struct paths p = { .state_dir = "/s" };
	struct err err = ERR_INIT;

	(void)state;
	set("HOME", "/h");
	assert_int_equal(paths_set_jsonl(&p, "p.jsonl", &err), 0);
	assert_string_equal(p.jsonl, "/s/p.jsonl");
	assert_int_equal(paths_set_jsonl(&p, "/var/log/p.jsonl", &err), 0);
	assert_string_equal(p.jsonl, "/var/log/p.jsonl");
	assert_int_equal(paths_set_jsonl(&p, "~/p.jsonl", &err), 0);
	assert_string_equal(p.jsonl, "/h/p.jsonl");
	assert_int_equal(paths_set_jsonl(&p, NULL, &err), 0);
	assert_string_equal(p.jsonl, "");

	set("HOME", NULL);
	assert_int_equal(paths_set_jsonl(&p, "~/p.jsonl", &err), -ENOENT);
	memset(longest, 'p', sizeof(longest));
	longest[PATH_BYTES] = '\0';
	assert_int_equal(paths_set_jsonl(&p, longest, &err), -ENAMETOOLONG);
}

static void test_making_folders(void **state)
{
	char top[] = "/tmp/proctor-path-XXXXXX", dir[PATH_BYTES], file[PATH_BYTES];
	struct err err = ERR_INIT;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/a/b//c/", top);
	assert_int_equal(path_make_dir(dir, &err), 0);
	assert_int_equal(path_make_dir(dir, &err), 0);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);

	snprintf(file, sizeof(file), "%s/file", top);
	assert_int_equal(close(open(file, O_CREAT | O_WRONLY, 0600)), 0);
	assert_int_equal(path_make_dir(file, &err), -EEXIST);
	assert_non_null(strstr(err.text, "is not a folder"));
	snprintf(dir, sizeof(dir), "%s/file/below", top);
	assert_int_equal(path_make_dir(dir, &err), -EEXIST);
	assert_int_equal(path_make_dir("/proc/no-such/below", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/proc/no-such"));
	assert_int_equal(path_make_dir("", &err), -ENOENT);
	assert_int_equal(path_make_dir("/", &err), 0);

	unlink(file);
	snprintf(dir, sizeof(dir), "%s/a/b/c", top);
	for (char *end = dir + strlen(dir); end > dir + strlen(top); *end = '\0') {
		assert_int_equal(rmdir(dir), 0);
		end = strrchr(dir, '/');
	}
	assert_int_equal(rmdir(top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_user),
		cmocka_unit_test(test_root),
		cmocka_unit_test(test_root_of_a_user_namespace),
		cmocka_unit_test(test_jsonl),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_sockets_of_root),
		cmocka_unit_test(test_making_folders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
