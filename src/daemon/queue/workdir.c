#include "daemon/queue/workdir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "daemon/queue/child_word.h"
#include "daemon/queue/launch.h"

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
