#include "daemon/queue/user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "daemon/queue/detach.h"

#define USER_PATH "/usr/local/bin:/usr/bin:/bin"
#define ACCOUNT_MAX_BYTES (1 << 20) /* what a directory service may say of one */
#define MAX_GROUPS 65536	    /* the kernel's NGROUPS_MAX */
#define KEYCTL_JOIN_SESSION_KEYRING 1

/* ---- the account ---- */

void user_release(struct user *user)
{
	free(user->name);
	free(user->home);
	free(user->shell);
	free(user->groups);
	*user = (struct user){ 0 };
}

/* room is where the strings of ret are. */
static int read_account(uid_t uid, char **room, struct passwd *ret)
{
	struct passwd *found = NULL;
	int r = ERANGE;

	for (size_t size = 4096; r == ERANGE && size <= ACCOUNT_MAX_BYTES; size *= 4) {
		char *grown = realloc(*room, size);

		if (!grown)
			return -ENOMEM;
		*room = grown;
		r = getpwuid_r(uid, ret, grown, size, &found);
	}
	if (r != 0)
		return -r;
	return found ? 0 : -ESRCH;
}

static int read_groups(const char *name, struct user *user)
{
	int n = 64, had;

	do {
		gid_t *groups = reallocarray(user->groups, (size_t)n, sizeof(*groups));

		if (!groups)
			return -ENOMEM;
		user->groups = groups;
		had = n;
		if (getgrouplist(name, user->gid, groups, &n) >= 0) {
			user->n_groups = (size_t)n;
			return 0;
		}
		n = n > had ? n : had * 2;
	} while (n <= MAX_GROUPS);
	return -E2BIG;
}

int user_find(uid_t uid, struct user *ret, struct err *err)
{
	CLEANUP(user_release) struct user user = { .uid = uid };
	CLEANUP(free_ptr) char *room = NULL;
	struct passwd account;
	int r = read_account(uid, &room, &account);

	if (r == -ESRCH)
		return err_set(err, r, "there is no account with the uid %u here", (unsigned)uid);
	if (r == 0) {
		user.gid = account.pw_gid;
		user.name = strdup(account.pw_name);
		user.home = strdup(account.pw_dir[0] == '/' ? account.pw_dir : "/");
		user.shell = strdup(account.pw_shell[0] ? account.pw_shell : "/bin/sh");
		r = user.name && user.home && user.shell ? read_groups(user.name, &user) : -ENOMEM;
	}
	if (r < 0)
		return err_set(err, -EAGAIN, "cannot read the account with the uid %u: %s",
			       (unsigned)uid, strerror(-r));
	*ret = user;
	user = (struct user){ 0 };
	return 0;
}

/* ---- becoming ---- */

int user_become(const struct user *user)
{
	uid_t uids[3];
	gid_t gids[3];

	if (setgroups(user->n_groups, user->groups) < 0 ||
	    setresgid(user->gid, user->gid, user->gid) < 0)
		return -errno;
	prctl(PR_SET_KEEPCAPS, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (setresuid(user->uid, user->uid, user->uid) < 0)
		return -errno;
	prctl(PR_SET_DUMPABLE, 0); /* our memory, until exec: not for them to trace */
	/* Whoever has our keyring has our keys. A kernel without keyrings has none to give. */
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);

	if (getresuid(&uids[0], &uids[1], &uids[2]) < 0 ||
	    getresgid(&gids[0], &gids[1], &gids[2]) < 0 ||
	    getgroups(0, NULL) != (int)user->n_groups)
		return -EPERM;
	for (size_t i = 0; i < ARRAY_SIZE(uids); i++)
		if (uids[i] != user->uid || gids[i] != user->gid)
			return -EPERM;
	/* With the capabilities went the right to take them again; this asks whether it has. */
	if (user->uid != 0 && (setresuid(0, 0, 0) == 0 || setgroups(0, NULL) == 0))
		return -EPERM;
	return 0;
}

int user_set_environment(const struct user *user)
{
	const char *lang = getenv("LANG");
	CLEANUP(free_ptr) char *kept = lang ? strdup(lang) : NULL;

	clearenv();
	if (setenv("HOME", user->home, 1) < 0 || setenv("USER", user->name, 1) < 0 ||
	    setenv("LOGNAME", user->name, 1) < 0 || setenv("SHELL", user->shell, 1) < 0 ||
	    setenv("PATH", USER_PATH, 1) < 0)
		return -ENOMEM;
	return kept && setenv("LANG", kept, 1) < 0 ? -ENOMEM : 0;
}

void child_word_tell(int word_fd, int word)
{
	io_write_all(word_fd, &word, sizeof(word));
}

int child_word_become(uid_t uid)
{
	struct user user = { 0 };
	int r;

	if (uid == geteuid())
		return 0;
	r = user_find(uid, &user, NULL);
	if (r == 0)
		r = user_set_environment(&user);
	return r < 0 ? r : user_become(&user);
}

int child_word_ask(child_fn *find, const void *ctx, int patience_ms, int *ret_word)
{
	const struct child_question question = { find, ctx, -1, patience_ms };
	int word;
	ssize_t n = child_ask(&question, &word, sizeof(word), NULL);

	if (n == (ssize_t)sizeof(word))
		*ret_word = word;
	return n == (ssize_t)sizeof(word) ? 0 : n < 0 ? (int)n : -ENODATA;
}

/* Others wait for their turn meanwhile. */
#define PATIENCE_MS 500

struct question {
	const char *path;
	uid_t uid;
};

/* In the child: why not, as an errno. What ends without a word could not tell. */
static void look(const void *ctx, int word_fd)
{
	const struct question *question = ctx;

	if (child_word_become(question->uid) == 0)
		child_word_tell(word_fd, chdir(question->path) < 0 ? errno : 0);
}

int workdir_check(const char *path, uid_t uid, struct err *err)
{
	const struct question question = { path, uid };
	int error;

	if (launch_is_set()) /* it may see other folders than we do */
		return 0;
	if (child_word_ask(look, &question, PATIENCE_MS, &error) < 0 || error == 0)
		return 0;
	return err_set(err, -EINVAL, "'workdir' cannot be entered: %s: %.300s", strerror(error),
		       path);
}

/* In the child: why not, as an errno. */
static void make_logs(const void *ctx, int word_fd)
{
	char folder[PATH_BYTES + 16];
	struct paths paths;
	int r;

	if (child_word_become(*(const uid_t *)ctx) < 0)
		return;
	r = paths_find(&paths, NULL);
	if (r == 0) {
		snprintf(folder, sizeof(folder), "%s/logs", paths.state_dir);
		r = path_make_dir(folder, NULL);
	}
	child_word_tell(word_fd, -r);
}

int workdir_make_logs(uid_t uid)
{
	int error;

	if (uid == geteuid() || launch_is_set() ||
	    child_word_ask(make_logs, &uid, PATIENCE_MS, &error) < 0)
		return 0;
	return -error;
}
