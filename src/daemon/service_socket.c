#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/path.h"
#include "daemon/service_internal.h"

/*
 * The socket is in a folder that others clean up: a session that ends takes its folder with it.
 * A daemon that nobody finds any more can be neither asked nor stopped, so the socket is made anew.
 */

#define LOOK_MS 2000

int service_make_socket_folder(const char *path, mode_t socket_mode, struct err *err)
{
	CLEANUP(free_ptr) char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int r;

	if (!slash)
		return err_set(err, -ENOMEM, "no memory left to begin");
	*slash = '\0';
	r = path_make_dir(folder, err);
	if (r == 0 && socket_mode == 0666 && chmod(folder, 0755) < 0)
		r = err_set(err, -errno, "cannot open %s to all users: %s", folder,
			    strerror(errno));
	return r;
}

static int renew(struct service *s, struct err *err)
{
	const struct service_options *o = s->options;
	int r = rpc_server_renew(s->server, o->socket_path, o->socket_mode, err);

	if (r != -ENOENT)
		return r;
	r = service_make_socket_folder(o->socket_path, o->socket_mode, err);
	return r < 0 ? r : rpc_server_renew(s->server, o->socket_path, o->socket_mode, err);
}

/* Said when it begins, and when it is over. */
static void on_socket_timer(void *ctx)
{
	struct service *s = ctx;
	struct err err = ERR_INIT;
	int r = renew(s, &err);

	if (r < 0 && !s->is_unreachable)
		log_warning("nobody can reach the daemon, which goes on: %s", err.text);
	else if (r > 0)
		log_warning("the socket was gone, and is there again: %s", s->options->socket_path);
	s->is_unreachable = r < 0;
}

int service_watch_socket(struct service *s, struct err *err)
{
	struct loop_timer *timer = loop_timer_new(s->loop, on_socket_timer, s);

	if (!timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	loop_timer_set(timer, LOOK_MS, LOOK_MS);
	return 0;
}
