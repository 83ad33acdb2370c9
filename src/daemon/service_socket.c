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
 * Who removes all that proctor has ever written takes the queue and the log as well.
 */

#define LOOK_MS 2000

int service_make_socket_folder(const char *path, mode_t socket_mode, struct err *err)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(free_ptr) char *folder = strndup(path, slash ? (size_t)(slash - path) : 0);
	int r;

	if (!folder)
		return err_set(err, -ENOMEM, "no memory left to begin");
	if (!folder[0])
		return 0; /* where we are, or the root: it is there */
	r = path_make_dir(folder, err);
	if (r == 0 && socket_mode == 0666 && chmod(folder, 0755) < 0)
		r = err_set(err, -errno, "cannot open %s to all users: %s", folder,
			    strerror(errno));
	return r;
}

static int renew_socket_at(struct service *s, struct err *err)
{
	const struct service_options *o = s->settings.options;
	int r = rpc_server_renew(s->server, o->socket_path, o->socket_mode, err);

	if (r != -ENOENT)
		return r;
	r = service_make_socket_folder(o->socket_path, o->socket_mode, err);
	return r < 0 ? r : rpc_server_renew(s->server, o->socket_path, o->socket_mode, err);
}

/* Where that cannot be told, there is nobody to tell. */
static void renew_log(const struct service *s)
{
	const char *path = s->settings.options->log_path;

	if (path && log_is_removed() &&
	    path_make_dir(s->settings.options->paths->state_dir, NULL) == 0 && log_open(path) == 0)
		log_warning("the log was removed, and begins again");
}

static void renew_queue(struct service *s)
{
	struct err err = ERR_INIT;
	int r = queue_renew(s->queue, &err);

	if (r < 0 && !s->starting.is_queue_gone)
		log_warning("no job can be submitted: %s", err.text);
	if (r > 0) {
		log_warning("the folder of the queue was gone, and is there again");
		service_look(s); /* the database is gone too, most likely: before a job begins */
	}
	s->starting.is_queue_gone = r < 0;
}

/* Said when it begins, and when it is over. */
static void renew_socket(struct service *s)
{
	struct err err = ERR_INIT;
	int r = renew_socket_at(s, &err);

	if (r < 0 && !s->answers.is_unreachable)
		log_warning("nobody can reach the daemon, which goes on: %s", err.text);
	else if (r > 0)
		log_warning("the socket was gone, and is there again: %s",
			    s->settings.options->socket_path);
	s->answers.is_unreachable = r < 0;
}

static void on_timer(void *ctx)
{
	struct service *s = ctx;

	renew_log(s); /* before the others have something to say */
	renew_queue(s);
	renew_socket(s);
}

int service_watch_socket(struct service *s, struct err *err)
{
	struct loop_timer *timer = loop_timer_new(s->loop, on_timer, s);

	if (!timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	loop_timer_set(timer, LOOK_MS, LOOK_MS);
	return 0;
}
