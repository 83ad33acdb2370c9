#include "rpc/server.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "rpc/server_internal.h"

#define MIB ((size_t)1024 * 1024)

const struct rpc_limits rpc_default_limits = {
	.max_clients = 512,
	.reserved_clients = 8,
	.reserved_files = 32,
	.max_request_bytes = 16 * MIB,
	.max_batch = 100,
	.max_in_flight = 64,
	.max_subscriptions = 16,
	.max_events = 1024,
	.max_event_bytes = 1 * MIB,
	.max_reply_bytes = 64 * MIB,
	.max_unread_bytes = 256 * 1024,
	.max_all_unread_bytes = 256 * MIB,
	.max_all_request_bytes = 64 * MIB,
	.line_timeout_ms = 30000,
	.read_timeout_ms = 30000,
};

/* ---- soon ---- */

void server_settle_soon(struct rpc_conn *conn)
{
	struct rpc_server *server = conn->server;

	if (conn->is_handling)
		return;
	conn->is_unsettled = true;
	loop_soon_set(server->settle_soon);
}

bool server_is_round_over(const struct rpc_server *server)
{
	return loop_round_ms(server->loop) >= ROUND_MS;
}

/* Whoever closes gives its place to another one, who is next then. Returns who is next. */
static size_t settle_at(struct rpc_server *server, size_t i)
{
	size_t n = server->n_conns;

	if (server->conns[i]->is_unsettled)
		conn_continue(server->conns[i]);
	return server->n_conns == n ? i + 1 : i;
}

/*
 * Each once, beginning with who would have been next when the last round was over.
 * The kernel tells of those who are ready in an order of its own, in which some could
 * always be the last.
 */
static void on_settle(void *ctx)
{
	struct rpc_server *server = ctx;
	size_t i = server->settle_from;

	for (size_t n = server->n_conns; n > 0 && server->n_conns > 0; n--) {
		i = settle_at(server, i < server->n_conns ? i : 0);
		if (server_is_round_over(server)) {
			loop_soon_set(server->settle_soon);
			break;
		}
	}
	server->settle_from = i;
}

/* ---- beginning and end ---- */

static int begin_listening(struct rpc_server *server, const struct rpc_options *options,
			   struct err *err)
{
	int r = options->listen_fd > 0
			? listener_adopt(options->listen_fd, &server->listener, err)
			: listener_open(options->path, options->mode, &server->listener, err);

	if (r < 0)
		return r;
	server->listen_watch =
		loop_watch_fd(server->loop, server->listener.fd, accept_clients, server);
	server->accept_timer = loop_timer_new(server->loop, accept_again, server);
	server->settle_soon = loop_soon_new(server->loop, on_settle, server);
	server->sweep_timer = loop_timer_new(server->loop, bounds_sweep, server);
	if (!server->listen_watch || !server->accept_timer || !server->settle_soon ||
	    !server->sweep_timer)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/*
 * By itself glibc learns from one request of 16 MB to keep 32 MB per thread for
 * the next one, and malloc_trim() does not reach the ends of those of other threads. There may
 * never be a next one, and the daemon is to be small. Its other threads do one thing at a time and
 * have one heap together: each would keep a megabyte.
 */
static void bound_free_memory(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

static void cleanup_server(struct rpc_server **server)
{
	*server = rpc_server_free(*server);
}

int rpc_server_new(struct loop *loop, const struct rpc_options *options, struct rpc_server **ret,
		   struct err *err)
{
	CLEANUP(cleanup_server) struct rpc_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return err_set(err, -ENOMEM, "out of memory");
	bound_free_memory();
	server->loop = loop;
	server->methods = options->methods;
	server->n_methods = options->n_methods;
	server->ctx = options->ctx;
	server->limits = options->limits ? *options->limits : rpc_default_limits;
	server->own_uid = geteuid();
	server->listener = (struct listener)LISTENER_INIT;
	r = begin_listening(server, options, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(server);
	return 0;
}

int rpc_server_renew(struct rpc_server *server, const char *path, mode_t mode, struct err *err)
{
	int r;

	if (listener_is_there(&server->listener))
		return 0;
	server->listen_watch = loop_fd_close(server->listen_watch);
	listener_close(&server->listener);
	r = listener_open(path, mode, &server->listener, err);
	if (r < 0)
		return r;
	server->listen_watch =
		loop_watch_fd(server->loop, server->listener.fd, accept_clients, server);
	if (server->listen_watch)
		return 1;
	listener_close(&server->listener);
	return err_set(err, -ENOMEM, "out of memory");
}

struct rpc_server *rpc_server_free(struct rpc_server *server)
{
	if (!server)
		return NULL;
	while (server->n_conns > 0) {
		struct rpc_conn *conn = server->conns[server->n_conns - 1];

		conn->is_handling = true; /* it is settled here */
		dispatch_abandon(conn);
		conn_write(conn);
		conn_close(conn);
	}
	parse_forget_server(server);
	free(server->conns);
	loop_timer_close(server->sweep_timer);
	loop_soon_close(server->settle_soon);
	loop_timer_close(server->accept_timer);
	loop_fd_close(server->listen_watch);
	listener_close(&server->listener);
	free(server);
	return NULL;
}

void rpc_server_get_stats(const struct rpc_server *server, struct rpc_stats *ret)
{
	*ret = server->stats;
	ret->n_clients = server->n_conns;
	ret->n_open_calls = 0;
	for (size_t i = 0; i < server->n_conns; i++)
		ret->n_open_calls += server->conns[i]->n_calls;
}
