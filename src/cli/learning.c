#include "cli/learning.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "cli/cli.h"
#include "daemon/daemon.h"

int cli_open_settings(struct settings *ret, struct err *err)
{
	int r = settings_open(ret, err);

	if (r == -EINVAL)
		exit(cli_fail(CLI_USAGE, err));
	return r;
}

static bool is_not_allowed(int r)
{
	return r == -EACCES || r == -EPERM || r == -EROFS;
}

int cli_open_learned(const struct settings *settings, struct store **ret, bool *ret_is_writable,
		     struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	int r = cli_open_store_to_write(&settings->paths, &store, err);

	*ret = NULL;
	*ret_is_writable = r == 0;
	if (r == 0)
		r = learning_catch_up(store, 0, NULL, err);
	if (is_not_allowed(r)) {
		store = store_close(store);
		*ret_is_writable = false;
		log_error("%s; what has ended since is left out, and nothing is kept", err->text);
		r = cli_open_store(&settings->paths, &store, err);
	}
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		*ret = TAKE_PTR(store);
	return r;
}
