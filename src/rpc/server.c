#include "rpc/server.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
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

/* ---- turns ---- */

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
		size_t n_before = server->n_conns;

		i = i < server->n_conns ? i : 0;
		if (server->conns[i]->is_unsettled)
			conn_continue(server->conns[i]);
		i += server->n_conns == n_before; /* one that closed gave its place to another */
		if (loop_round_ms(server->loop) >= ROUND_MS) {
			loop_soon_set(server->settle_soon);
			break;
		}
	}
	server->settle_from = i;
}

/* ---- sweeping: who holds something for too long ---- */

#define NS_PER_MS UINT64_C(1000000)
#define SWEEP_MS UINT64_C(1000)	 /* how late a timeout may be seen */
#define SWEEP_MIN_MS UINT64_C(5) /* for the short timeouts of tests */

static bool is_past(uint64_t since_ns, uint64_t timeout_ms, uint64_t now_ns)
{
	return timeout_ms > 0 && since_ns > 0 && now_ns > since_ns &&
	       now_ns - since_ns > timeout_ms * NS_PER_MS;
}

static void sweep_conn(struct rpc_conn *conn, uint64_t now_ns)
{
	const struct rpc_limits *limits = &conn->server->limits;
	bool is_waiting = conn->is_at_end || conn_is_full(conn);
	struct message *m;

	if (is_waiting && conn_has_hung_up(conn)) {
		conn->is_broken = true; /* the loop does not report it while it is not read */
	} else if (is_past(conn->half_since_ns, limits->line_timeout_ms, now_ns)) {
		/* The error is sent in case the client looks. */
		conn_send_error(conn, "null", -ETIMEDOUT, "a line was begun and not ended");
		conn_write(conn);
		conn_drop(conn, "half a line for too long");
	} else if ((conn->out.reply_bytes > 0 || outbox_half_written(&conn->out)) &&
		   is_past(conn->written_ns, limits->read_timeout_ms, now_ns)) {
		conn_drop(conn, "what it was sent is not read");
	}
	/*
	 * The oldest waiting events are dropped, but one that is half written stays until it is
	 * read, with its file. Clients that can read have done so by now.
	 */
	m = outbox_half_written(&conn->out);
	if (m && is_past(conn->written_ns, SWEEP_MS, now_ns))
		message_unshare(m);
	if (conn->is_broken)
		conn_close(conn);
}

/* What so many at once have used lies between that of others: free() alone gives none of it back.
 */
#define CROWD 64
#define FEW 16

static void on_sweep(void *ctx)
{
	struct rpc_server *server = ctx;
	uint64_t now_ns = clock_boot_ns();

	for (size_t i = server->n_conns; i-- > 0;)
		sweep_conn(server->conns[i], now_ns);
	conn_shed(server);
	if (server->n_conns >= CROWD)
		server->was_crowded = true;
	if (server->was_crowded && server->n_conns <= FEW) {
		server->was_crowded = false;
		malloc_trim(0);
	}
	if (server->n_conns == 0) {
		loop_timer_stop(server->sweep_timer);
		server->is_sweeping = false;
	}
}

/* Looks at every client now and then, whether its time is up. */
static void begin_sweeping(struct rpc_server *server)
{
	const struct rpc_limits *limits = &server->limits;
	const uint64_t timeouts[] = { limits->line_timeout_ms, limits->read_timeout_ms };
	uint64_t ms = SWEEP_MS;

	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++)
		if (timeouts[i] > 0 && timeouts[i] / 4 < ms)
			ms = timeouts[i] / 4;
	ms = ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms;
	if (!server->is_sweeping)
		loop_timer_set(server->sweep_timer, ms, ms);
	server->is_sweeping = true;
}

/* ---- accepting ---- */

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

/* Root and the server's own user have some places of their own. */
static int check_room(const struct rpc_server *server, const struct rpc_peer *peer, struct err *err)
{
	const struct rpc_limits *limits = &server->limits;
	size_t n = count_clients(server, EVERYBODY), per_user = limits->max_clients_per_user;

	if (server->n_conns >= limits->max_clients)
		return err_set(err, -EUSERS, "there are %zu clients already; try again later",
			       server->n_conns);
	if (is_privileged(server, peer))
		return 0;
	if (per_user > 0 && count_clients(server, peer->uid) >= per_user)
		return err_set(err, -EUSERS, "one user has at most %zu connections", per_user);
	if (n + limits->reserved_clients >= limits->max_clients)
		return err_set(err, -EUSERS, "there are %zu clients already; try again later", n);
	return 0;
}

/* The kernel hands out the lowest number that is free: a high one says that all below are in use.
 * Who may stop us gets in as long as half of the reserve is left. */
static int check_files(const struct rpc_server *server, const struct rpc_peer *peer, int fd,
		       struct err *err)
{
	struct rlimit limit;
	rlim_t reserved = server->limits.reserved_files;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	if (reserved > limit.rlim_cur / 4)
		reserved = limit.rlim_cur / 4;
	if (is_privileged(server, peer))
		reserved /= 2;
	if ((rlim_t)fd + reserved < limit.rlim_cur)
		return 0;
	return err_set(err, -EUSERS, "the daemon has too few files for more clients");
}

/* The fd is the connection's from then on, and its peer. */
static int add_client(struct rpc_server *server, int fd, struct rpc_peer *peer, struct err *err)
{
	struct rpc_conn *conn = NULL;
	int r = check_room(server, peer, err);

	if (r == 0)
		r = check_files(server, peer, fd, err);
	if (r < 0)
		return r;
	if (ARRAY_RESERVE(server->conns, server->cap_conns, server->n_conns + 1) == 0)
		conn = conn_new(server, fd, peer);
	if (!conn)
		return err_set(err, -ENOMEM, "out of memory");
	conn->index = server->n_conns;
	server->conns[server->n_conns++] = conn;
	server->stats.n_accepted++;
	begin_sweeping(server);
	return 0;
}

static void take_client(struct rpc_server *server, int fd)
{
	CLEANUP(rpc_peer_release) struct rpc_peer peer = { 0 };
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct err err = ERR_INIT;
	int r;

	r = rpc_peer_read(fd, &peer, &err);
	if (r == 0)
		r = add_client(server, fd, &peer, &err);
	if (r == 0)
		return;
	/* The refusal is one line, which a new socket has room for. */
	conn_render_error("null", r, err.text, &line);
	buf_add_char(&line, '\n');
	if (send(fd, line.data, line.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("a client that is refused cannot be told: %s", strerror(errno));
	server->stats.n_refused++;
	close(fd);
}

int rpc_server_connect(struct rpc_server *server, const struct rpc_peer *peer, int *ret_fd,
		       struct err *err)
{
	CLEANUP(rpc_peer_release) struct rpc_peer copy = { 0 };
	CLEANUP(close_fd) int ours = -1, theirs = -1;
	int fds[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, -errno, "cannot make a connection: %s", strerror(errno));
	ours = fds[0];
	theirs = fds[1];
	if (rpc_peer_copy(peer, &copy) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = add_client(server, ours, &copy, err);
	if (r < 0)
		return r;
	TAKE_FD(ours);
	*ret_fd = TAKE_FD(theirs);
	return 0;
}

/* There may be file descriptors again. */
static void accept_again(void *ctx)
{
	struct rpc_server *server = ctx;

	if (server->listen_watch) /* else it is to be made anew */
		loop_fd_set_interest(server->listen_watch, LOOP_READABLE);
}

static void accept_clients(void *ctx)
{
	struct rpc_server *server = ctx;

	for (int i = 0; i < AT_ONCE; i++) {
		int fd = accept4(server->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take_client(server, fd);
		} else if (errno == EAGAIN) {
			server->is_out_of_files = false; /* all who waited are in */
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			/* Clients wait in the kernel's queue meanwhile. To try at once would be to
			 * spin. */
			if (!server->is_out_of_files)
				log_warning("cannot accept a client: %s; trying again",
					    strerror(errno));
			server->is_out_of_files = true;
			loop_fd_set_interest(server->listen_watch, 0);
			loop_timer_set(server->accept_timer, RETRY_MS, 0);
			return;
		}
	}
}

/* ---- beginning and end ---- */

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
	/*
	 * By itself glibc learns from one request of 16 MB to keep 32 MB per thread for
	 * the next one, and malloc_trim() does not reach the ends of those of other threads. There
	 * may never be a next one, and the daemon is to be small. Its other threads do one thing at
	 * a time and have one heap together: each would keep a megabyte.
	 */
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
	server->loop = loop;
	server->methods = options->methods;
	server->n_methods = options->n_methods;
	server->ctx = options->ctx;
	server->limits = options->limits ? *options->limits : rpc_default_limits;
	server->own_uid = geteuid();
	server->listener = (struct listener)LISTENER_INIT;
	r = options->listen_fd > 0
		    ? listener_adopt(options->listen_fd, &server->listener, err)
		    : listener_open(options->path, options->mode, &server->listener, err);
	if (r < 0)
		return r;
	server->listen_watch = loop_watch_fd(loop, server->listener.fd, accept_clients, server);
	server->accept_timer = loop_timer_new(loop, accept_again, server);
	server->settle_soon = loop_soon_new(loop, on_settle, server);
	server->sweep_timer = loop_timer_new(loop, on_sweep, server);
	if (!server->listen_watch || !server->accept_timer || !server->settle_soon ||
	    !server->sweep_timer)
		return err_set(err, -ENOMEM, "out of memory");
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
	for (struct parse_job *job = server->jobs; job; job = job->next)
		job->server = NULL; /* which ends before they do */
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
