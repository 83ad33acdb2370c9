#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "rpc/server_internal.h"

#define AT_ONCE 64   /* then it is the turn of those who are in */
#define RETRY_MS 200 /* until a file descriptor may be free again */
#define EVERYBODY ((uid_t)-1)

static bool is_privileged(const struct rpc_server *server, const struct rpc_peer *peer)
{
	return peer->uid == 0 || peer->uid == server->own_uid;
}

/* Connections of one user, or (EVERYBODY) of all but the privileged. */
static size_t count_clients(const struct rpc_server *server, uid_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < server->n_conns; i++) {
		const struct rpc_peer *peer = &server->conns[i]->peer;

		n += uid == EVERYBODY ? !is_privileged(server, peer) : peer->uid == uid;
	}
	return n;
}

/* What only those meet who are neither root nor the server's own user. */
static int check_share(const struct rpc_server *server, uid_t uid, struct err *err)
{
	const struct rpc_limits *limits = &server->limits;
	size_t n = count_clients(server, EVERYBODY), per_user = limits->max_clients_per_user;

	if (per_user > 0 && count_clients(server, uid) >= per_user)
		return err_set(err, -EUSERS, "one user has at most %zu connections", per_user);
	if (n + limits->reserved_clients >= limits->max_clients)
		return err_set(err, -EUSERS, "there are %zu clients already; try again later", n);
	return 0;
}

static int check_room(const struct rpc_server *server, const struct rpc_peer *peer, struct err *err)
{
	if (server->n_conns >= server->limits.max_clients)
		return err_set(err, -EUSERS, "there are %zu clients already; try again later",
			       server->n_conns);
	return is_privileged(server, peer) ? 0 : check_share(server, peer->uid, err);
}

/* The kernel hands out the lowest number that is free: a high one says that all below are in use.
 */
static int check_files(const struct rpc_server *server, int fd, struct err *err)
{
	struct rlimit limit;
	rlim_t reserved = server->limits.reserved_files;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	if (reserved > limit.rlim_cur / 4)
		reserved = limit.rlim_cur / 4;
	if ((rlim_t)fd + reserved < limit.rlim_cur)
		return 0;
	return err_set(err, -EUSERS, "the daemon has too few files for more clients");
}

static int reserve_place(struct rpc_server *server)
{
	size_t cap = server->cap_conns ? server->cap_conns * 2 : 16;
	struct rpc_conn **conns;

	if (server->n_conns < server->cap_conns)
		return 0;
	conns = reallocarray(server->conns, cap, sizeof(*conns));
	if (!conns)
		return -ENOMEM;
	server->conns = conns;
	server->cap_conns = cap;
	return 0;
}

static int add_client(struct rpc_server *server, int fd, struct rpc_peer *peer, struct err *err)
{
	struct rpc_conn *conn = NULL;

	if (reserve_place(server) == 0)
		conn = conn_new(server, fd, peer);
	if (!conn)
		return err_set(err, -ENOMEM, "out of memory");
	conn->index = server->n_conns;
	server->conns[server->n_conns++] = conn;
	server->stats.n_accepted++;
	bounds_begin(server);
	return 0;
}

/* Told so in one line, which a new socket has room for. */
static void refuse_client(struct rpc_server *server, int fd, int error, const struct err *err)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	call_render_error("null", error, err->text, &line);
	buf_add_char(&line, '\n');
	if (send(fd, line.data, line.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("a client that is refused cannot be told: %s", strerror(errno));
	server->stats.n_refused++;
	close(fd);
}

static void take_client(struct rpc_server *server, int fd)
{
	CLEANUP(rpc_peer_release) struct rpc_peer peer = { 0 };
	struct err err = ERR_INIT;
	int r;

	r = rpc_peer_read(fd, &peer, &err);
	if (r == 0)
		r = check_room(server, &peer, &err);
	if (r == 0)
		r = check_files(server, fd, &err);
	if (r == 0)
		r = add_client(server, fd, &peer, &err);
	if (r < 0)
		refuse_client(server, fd, r, &err);
}

/* Clients wait in the kernel's queue meanwhile. To try at once would be to spin. */
static void pause_accepting(struct rpc_server *server)
{
	if (!server->is_out_of_files)
		log_warning("cannot accept a client: %s; trying again", strerror(errno));
	server->is_out_of_files = true;
	loop_fd_set_interest(server->listen_watch, 0);
	loop_timer_set(server->accept_timer, RETRY_MS, 0);
}

void accept_again(void *ctx)
{
	struct rpc_server *server = ctx;

	if (server->listen_watch) /* else it is to be made anew */
		loop_fd_set_interest(server->listen_watch, LOOP_READABLE);
}

static bool is_passing(int error)
{
	return error == EINTR || error == ECONNABORTED;
}

void accept_clients(void *ctx)
{
	struct rpc_server *server = ctx;

	for (int i = 0; i < AT_ONCE; i++) {
		int fd = accept4(server->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take_client(server, fd);
		} else if (errno == EAGAIN) {
			server->is_out_of_files = false; /* all who waited are in */
			return;
		} else if (!is_passing(errno)) {
			pause_accepting(server);
			return;
		}
	}
}
