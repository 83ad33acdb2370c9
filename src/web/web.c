#include "web/web.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/macros.h"
#include "web/web_internal.h"

#define MAX_CLIENTS 384
#define MAX_CLIENTS_PER_USER 128
#define ACCEPT_AT_ONCE 64
#define BACKLOG 128
#define SWEEP_MS 5000
#define IDLE_NS UINT64_C(60000000000) /* then a channel ends */

/* ---- running libmicrohttpd ---- */

void web_run_soon(struct web *web)
{
	loop_soon_set(web->run_soon);
}

static void on_run(void *ctx)
{
	struct web *web = ctx;
	MHD_UNSIGNED_LONG_LONG ms;

	if (!web->mhd)
		return;
	web->http.run(web->mhd);
	if (web->http.get_timeout(web->mhd, &ms) != MHD_YES)
		return;
	if (ms == 0)
		loop_soon_set(web->run_soon);
	else
		loop_timer_set(web->run_timer, ms < SWEEP_MS ? ms : SWEEP_MS, 0);
}

static int start(struct web *web, struct err *err)
{
	const union MHD_DaemonInfo *info;
	int r = http_start(web, err);

	if (r < 0)
		return r;
	info = web->http.get_daemon_info(web->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	web->mhd_watch = info ? loop_watch_fd(web->loop, info->epoll_fd, on_run, web) : NULL;
	return web->mhd_watch ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static void begin_sweeping(struct web *web)
{
	if (!web->is_sweeping)
		loop_timer_set(web->sweep_timer, SWEEP_MS, SWEEP_MS);
	web->is_sweeping = true;
}

/* ---- clients ---- */

static bool is_same_user(const struct client *a, const struct client *b)
{
	return a->is_uid_known == b->is_uid_known && (!a->is_uid_known || a->uid == b->uid);
}

/* A description, so that one user does not take all of them, and the daemon keeps some. */
static const char *why_no_room(const struct web *web, const struct client *client, int fd)
{
	struct rlimit limit;
	size_t n = 0;

	for (size_t i = 0; i < web->cap_clients; i++)
		n += web->clients[i].is_there && is_same_user(&web->clients[i], client);
	if (n >= MAX_CLIENTS_PER_USER || web->n_clients >= MAX_CLIENTS)
		return "there are too many connections";
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd > limit.rlim_cur / 4 * 3)
		return "the daemon has too few files";
	return NULL;
}

static void identify(const struct web *web, int fd, const struct sockaddr_storage *from,
		     struct client *ret)
{
	struct sockaddr_storage to = web->address;
	socklen_t len = sizeof(to);
	struct ucred peer;
	socklen_t peer_len = sizeof(peer);

	*ret = (struct client){ .is_there = true };
	if (web->unix_path) {
		ret->is_uid_known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0;
		ret->uid = peer.uid;
	} else if (getsockname(fd, (struct sockaddr *)&to, &len) == 0) {
		ret->is_uid_known = client_uid_find(from, &to, &ret->uid);
	}
}

static int reserve_client(struct web *web, int fd)
{
	size_t cap = web->cap_clients;

	if (ARRAY_RESERVE(web->clients, web->cap_clients, (size_t)fd + 1) < 0)
		return -ENOMEM;
	memset(web->clients + cap, 0, (web->cap_clients - cap) * sizeof(web->clients[0]));
	return 0;
}

static void take_client(struct web *web, int fd, const struct sockaddr_storage *from,
			socklen_t from_len)
{
	struct err err = ERR_INIT;
	struct client client;
	const char *why;
	char text[256];
	int n;

	identify(web, fd, from, &client);
	why = why_no_room(web, &client, fd);
	if (!why && !web->mhd && start(web, &err) < 0) {
		http_stop(web);
		why = err.text;
	}
	if (!why && reserve_client(web, fd) < 0)
		why = "out of memory";
	if (why) {
		n = snprintf(text, sizeof(text),
			     "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
			     "Connection: close\r\n\r\n%.120s\n",
			     why);
		if (send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			log_debug("a connection to the page is refused: %s", why);
		close(fd);
		return;
	}
	web->n_clients += !web->clients[fd].is_there;
	web->clients[fd] = client;
	/* It closes the file where it fails. */
	if (web->http.add_connection(web->mhd, fd, (const struct sockaddr *)from, from_len) !=
	    MHD_YES) {
		web->clients[fd].is_there = false;
		web->n_clients--;
	}
	web_run_soon(web);
	begin_sweeping(web);
}

static void on_client(void *ctx)
{
	struct web *web = ctx;

	for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t len = sizeof(from);
		int fd = accept4(web->fd, (struct sockaddr *)&from, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take_client(web, fd, &from, len);
		} else if (errno == EMFILE || errno == ENFILE) {
			loop_fd_set_interest(web->watch, 0); /* until the next sweep */
			begin_sweeping(web);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return;
		}
	}
}

/* ---- users ---- */

static void on_news(void *ctx, bool is_closed)
{
	struct user *user = ctx;

	(void)is_closed;
	http_wake(user->web, user);
}

static void user_free(struct web *web, struct user *user)
{
	LIST_REMOVE(web->users, user, next);
	channel_free(user->channel);
	free(user);
}

struct user *web_find_user(struct web *web, const struct session *session)
{
	struct err err = ERR_INIT;
	struct user *user;

	for (user = web->users; user; user = user->next)
		if (channel_uid(user->channel) == session->peer.uid &&
		    !channel_is_broken(user->channel))
			break;
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->web = web;
		if (channel_new(web->loop, web->rpc, &session->peer, on_news, user, &user->channel,
				&err) < 0) {
			log_debug("the page cannot serve uid %u: %s", session->peer.uid, err.text);
			free(user);
			return NULL;
		}
		user->next = web->users;
		web->users = user;
	}
	user->used_boot_ns = clock_boot_ns();
	return user;
}

static void on_sweep(void *ctx)
{
	struct web *web = ctx;

	for (struct user *user = web->users, *next; user; user = next) {
		next = user->next;
		if (user->n_requests > 0)
			user->used_boot_ns = clock_boot_ns();
		if (user->n_requests == 0 && (channel_is_broken(user->channel) ||
					      clock_boot_ns() - user->used_boot_ns > IDLE_NS))
			user_free(web, user);
	}
	loop_fd_set_interest(web->watch, LOOP_READABLE);
	on_run(web);
	if (web->n_clients == 0 && !web->users) {
		loop_timer_stop(web->sweep_timer);
		web->is_sweeping = false;
	}
}

/* ---- beginning and end ---- */

static int open_listener(struct web *web, bool is_for_all, struct err *err)
{
	const struct sockaddr *address = (const struct sockaddr *)&web->address;
	const int yes = 1;
	struct stat st;

	web->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (web->fd < 0)
		return err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (web->unix_path) {
		if (lstat(web->unix_path, &st) == 0) {
			if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
				return err_set(err, -EEXIST,
					       "%s is there, and not a socket of ours",
					       web->unix_path);
			if (connect(web->fd, address, web->address_len) == 0 || errno == EAGAIN)
				return err_set(err, -EADDRINUSE, "%s is in use", web->unix_path);
			unlink(web->unix_path);
		}
	} else {
		(void)setsockopt(web->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	}
	if (bind(web->fd, address, web->address_len) < 0 ||
	    (web->unix_path && chmod(web->unix_path, is_for_all ? 0666 : 0600) < 0) ||
	    listen(web->fd, BACKLOG) < 0)
		return err_set(err, -errno, "cannot listen on %s: %s", web->listen,
			       strerror(errno));
	return 0;
}

static int open_web(struct web *web, const struct web_options *options, struct err *err)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	const char *slash = strrchr(options->socket_path, '/');
	int r;

	web->listen = strdup(options->listen);
	if (!web->listen)
		return err_set(err, -ENOMEM, "out of memory");
	if (config_parse_listen(web->listen, &web->address, &web->address_len) < 0)
		return err_set(err, -EINVAL, "'%s' is no address of this host", web->listen);
	if (web->address.ss_family == AF_UNIX)
		web->unix_path = web->listen;
	snprintf(web->cookie, sizeof(web->cookie), "proctor_%s",
		 web->unix_path ? "socket" : strrchr(web->listen, ':') + 1);
	r = open_listener(web, options->is_for_all, err);
	if (r < 0)
		return r;
	buf_printf(&path, "%.*s/web-sessions", slash ? (int)(slash - options->socket_path) : 1,
		   slash ? options->socket_path : ".");
	web->sessions = buf_error(&path) == 0 ? sessions_new(path.data) : NULL;
	web->watch = loop_watch_fd(web->loop, web->fd, on_client, web);
	web->run_soon = loop_soon_new(web->loop, on_run, web);
	web->run_timer = loop_timer_new(web->loop, on_run, web);
	web->sweep_timer = loop_timer_new(web->loop, on_sweep, web);
	if (!web->sessions || !web->watch || !web->run_soon || !web->run_timer || !web->sweep_timer)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

int web_new(const struct web_options *options, struct web **ret, struct err *err)
{
	struct web *web = calloc(1, sizeof(*web));
	int r;

	if (!web)
		return err_set(err, -ENOMEM, "out of memory");
	web->loop = options->loop;
	web->rpc = options->server;
	web->fd = -1;
	r = open_web(web, options, err);
	if (r < 0)
		web_free(web);
	else
		*ret = web;
	return r;
}

struct web *web_free(struct web *web)
{
	if (!web)
		return NULL;
	if (web->watch && web->unix_path)
		unlink(web->unix_path);
	http_stop(web);
	while (web->users)
		user_free(web, web->users);
	loop_fd_close(web->watch);
	loop_soon_close(web->run_soon);
	loop_timer_close(web->run_timer);
	loop_timer_close(web->sweep_timer);
	close_fd(&web->fd);
	sessions_free(web->sessions);
	free(web->clients);
	free(web->listen);
	free(web);
	return NULL;
}

int web_issue_link(struct web *web, const struct rpc_peer *peer, struct buf *ret, struct err *err)
{
	char token[SECRET_CHARS + 1];
	int r = sessions_issue(web->sessions, peer, token, err);

	if (r < 0)
		return r;
	/* Behind "#", so that no request line, and no log of a proxy, has it. */
	buf_printf(ret, "http://%s/#link=%s", web->unix_path ? "localhost" : web->listen, token);
	return buf_error(ret) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}
