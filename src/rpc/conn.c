#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/server_internal.h"

/* ---- beginning and end ---- */

static void on_ready(void *ctx);

struct rpc_conn *conn_new(struct rpc_server *server, int fd, struct rpc_peer *peer)
{
	const struct rpc_limits *limits = &server->limits;
	const struct outbox_limits out = { limits->max_events, limits->max_event_bytes };
	struct rpc_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->watch = loop_watch_fd(server->loop, fd, on_ready, conn);
	if (!conn->watch) {
		free(conn);
		return NULL;
	}
	conn->server = server;
	conn->fd = fd;
	conn->peer = *peer;
	*peer = (struct rpc_peer){ 0 };
	conn->lines = (struct lines)LINES_INIT(limits->max_request_bytes);
	conn->unread = (struct buf)BUF_INIT;
	conn->active_ns = clock_boot_ns();
	outbox_init(&conn->out, &out);
	return conn;
}

void conn_count(struct rpc_conn *conn)
{
	struct rpc_stats *stats = &conn->server->stats;
	/* Of one that is about to be closed nothing counts: not even what its batches still hold.
	 */
	size_t requests =
		conn->is_broken ? 0 : lines_kept_bytes(&conn->lines) + conn->batch_request_bytes;
	size_t unread = conn->is_broken ? 0 : conn->out.reply_bytes + conn->batch_bytes;

	stats->request_bytes += requests - conn->counted_request_bytes;
	stats->unread_bytes += unread - conn->counted_unread_bytes;
	conn->counted_request_bytes = requests;
	conn->counted_unread_bytes = unread;
}

/* Gives up all that waits for it, or comes from it. */
static void conn_release_buffers(struct rpc_conn *conn)
{
	lines_release(&conn->lines);
	buf_release(&conn->unread);
	outbox_release(&conn->out);
	parse_forget(conn->parsing);
	conn->parsing = NULL;
	conn_count(conn);
}

static void remove_from_server(struct rpc_conn *conn)
{
	struct rpc_server *server = conn->server;
	struct rpc_conn *last = server->conns[--server->n_conns];

	last->index = conn->index;
	server->conns[conn->index] = last;
}

void conn_close(struct rpc_conn *conn)
{
	conn->is_broken = true;
	conn->is_handling = true; /* it is not to be settled any more */
	dispatch_abandon(conn);
	subscribers_abandon(conn);
	conn_release_buffers(conn);
	remove_from_server(conn);
	loop_fd_close(conn->watch);
	close(conn->fd);
	rpc_peer_release(&conn->peer);
	free(conn);
}

void conn_drop(struct rpc_conn *conn, const char *why)
{
	if (conn->is_broken)
		return;
	log_debug("client %d (uid %u) is dropped: %s", (int)conn->peer.pid,
		  (unsigned)conn->peer.uid, why);
	conn->server->stats.n_dropped++;
	conn->is_broken = true;
	conn_release_buffers(conn);
	server_settle_soon(conn);
}

bool rpc_call_wants_answer(const struct rpc_call *call)
{
	return call->id.len > 0;
}

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
	return &call->conn->peer;
}

/* ---- writing ---- */

void conn_write(struct rpc_conn *conn)
{
	ssize_t n;

	if (conn->is_broken || outbox_is_empty(&conn->out))
		return;
	n = outbox_write(&conn->out, conn->fd);
	if (n > 0)
		conn->written_ns = clock_boot_ns();
	if (n < 0)
		conn->is_broken = true;
	conn->is_clogged = !outbox_is_empty(&conn->out);
	conn_count(conn);
}

void conn_send(struct rpc_conn *conn, struct buf *line)
{
	struct message *m;

	if (conn->is_broken)
		return;
	if (conn->out.reply_bytes == 0)
		conn->written_ns = clock_boot_ns();
	m = message_new(line);
	if (!m || outbox_add_reply(&conn->out, m) < 0) {
		conn_drop(conn, "out of memory");
		return;
	}
	conn_count(conn);
	if (conn->server->stats.unread_bytes > conn->server->limits.max_all_unread_bytes) {
		conn_write(conn);
		bounds_shed(conn->server);
	}
}

void conn_send_error(struct rpc_conn *conn, const char *id, int error, const char *sentence)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	conn->server->stats.n_errors++;
	call_render_error(id, error, sentence, &line);
	conn_send(conn, &line);
}

/* ---- reading ---- */

bool conn_is_full(const struct rpc_conn *conn)
{
	const struct rpc_limits *limits = &conn->server->limits;

	return conn->parsing || conn->batch || conn->is_held ||
	       conn->n_calls >= limits->max_in_flight ||
	       conn->counted_unread_bytes >= limits->max_unread_bytes;
}

static void take_line(struct rpc_conn *conn, const char *line, size_t len)
{
	CLEANUP(buf_release) struct buf whole = BUF_INIT;

	if (len <= PARSE_ASIDE_BYTES || !lines_take(&conn->lines, &whole))
		dispatch_line(conn, line, len);
	else if (parse_aside(conn, &whole) < 0)
		conn_send_error(conn, "null", -ENOMEM, "out of memory");
}

static void refuse_line(struct rpc_conn *conn, int r)
{
	char text[96];

	snprintf(text, sizeof(text), "the line is longer than %zu bytes",
		 conn->server->limits.max_request_bytes);
	conn_send_error(conn, "null", r, r == -EMSGSIZE ? text : "out of memory");
}

/* Whether another line can be handled; what waits is written first, as that may make room. */
static bool may_go_on(struct rpc_conn *conn)
{
	if (conn_is_full(conn))
		conn_write(conn);
	return !conn->is_broken && !conn_is_full(conn) && clock_boot_ns() < conn->turn_ends_ns;
}

/* Since when half a line is there. One that was left out ends as any other does. */
static void note_half_line(struct rpc_conn *conn, size_t n_ended_before)
{
	if (conn->lines.n_ended != n_ended_before || !lines_has_half(&conn->lines))
		conn->half_since_ns = 0;
	if (lines_has_half(&conn->lines) && conn->half_since_ns == 0)
		conn->half_since_ns = clock_boot_ns();
}

/* Handles the lines in what has come; what there is no room or no time for is kept. */
static void take_bytes(struct rpc_conn *conn, const char *bytes, size_t n)
{
	size_t n_ended = conn->lines.n_ended;

	conn->turn_ends_ns = clock_boot_ns() + TURN_NS;
	while (n > 0 && may_go_on(conn)) {
		const char *line = NULL;
		size_t len = 0;
		int r = lines_next(&conn->lines, &bytes, &n, &line, &len);

		if (r > 0)
			take_line(conn, line, len);
		else if (r < 0)
			refuse_line(conn, r);
	}
	if (conn->is_broken)
		return;
	buf_add(&conn->unread, bytes, n);
	if (buf_error(&conn->unread) < 0)
		conn_drop(conn, "out of memory");
	note_half_line(conn, n_ended);
	conn_count(conn);
	if (conn->server->stats.request_bytes > conn->server->limits.max_all_request_bytes)
		bounds_shed(conn->server);
}

static void take_unread(struct rpc_conn *conn)
{
	CLEANUP(buf_release) struct buf bytes = conn->unread;

	conn->unread = (struct buf)BUF_INIT;
	take_bytes(conn, bytes.data, bytes.len);
}

bool conn_has_hung_up(const struct rpc_conn *conn)
{
	struct pollfd p = { .fd = conn->fd };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* No more of it will come: what is there is a line, as of "printf" without a newline. */
static void end_half_line(struct rpc_conn *conn)
{
	if (!conn->is_broken && lines_has_half(&conn->lines))
		take_bytes(conn, "\n", 1);
	conn->half_since_ns = 0;
}

static void receive(struct rpc_conn *conn)
{
	char *chunk = conn->server->chunk;
	ssize_t n = recv(conn->fd, chunk, CHUNK_BYTES, MSG_DONTWAIT);

	if (n > 0) {
		conn->active_ns = clock_boot_ns();
		take_bytes(conn, chunk, (size_t)n);
	} else if (n == 0) {
		conn->is_at_end = true;
		conn->is_broken = conn->is_broken || conn_has_hung_up(conn);
		end_half_line(conn);
	} else if (errno != EAGAIN && errno != EINTR) {
		conn->is_broken = true;
	}
}

/* Whether more is to be read from the socket: what came before it has been handled. */
static bool is_read(const struct rpc_conn *conn)
{
	return !conn->is_at_end && conn->unread.len == 0 && !conn_is_full(conn);
}

static void on_ready(void *ctx)
{
	struct rpc_conn *conn = ctx;

	if (server_is_round_over(conn->server)) {
		conn->is_ready = true;
		server_settle_soon(conn);
		return;
	}
	conn->is_ready = false;
	conn->is_handling = true;
	if (loop_fd_ready(conn->watch) & LOOP_WRITABLE)
		conn->is_clogged = false;
	if ((loop_fd_ready(conn->watch) & LOOP_READABLE) && is_read(conn))
		receive(conn);
	conn_settle(conn);
}

static bool has_more(const struct rpc_conn *conn)
{
	return conn->unread.len > 0 && !conn_is_full(conn);
}

void conn_continue(struct rpc_conn *conn)
{
	conn->is_handling = true;
	conn->turn_ends_ns = clock_boot_ns() + TURN_NS;
	if (conn->batch && !conn->is_held)
		dispatch_continue(conn);
	else if (has_more(conn))
		take_unread(conn);
	else if (conn->is_ready && is_read(conn))
		receive(conn);
	conn->is_ready = false;
	conn_settle(conn);
}

/* ---- after something has happened ---- */

static bool is_over(const struct rpc_conn *conn)
{
	if (conn->is_broken)
		return true;
	return conn->is_at_end && conn->n_calls == 0 && conn->n_subscribers == 0 &&
	       !conn->parsing && !conn->batch && conn->unread.len == 0 &&
	       outbox_is_empty(&conn->out);
}

static void wait_for_more(struct rpc_conn *conn)
{
	unsigned interest = is_read(conn) ? LOOP_READABLE : 0;

	if (!outbox_is_empty(&conn->out))
		interest |= LOOP_WRITABLE;
	loop_fd_set_interest(conn->watch, interest);
	if ((conn->batch && !conn->is_held) || has_more(conn))
		server_settle_soon(conn);
}

void conn_settle(struct rpc_conn *conn)
{
	conn->is_handling = true;
	conn->is_unsettled = false;
	conn_write(conn);
	conn->is_handling = false;
	if (is_over(conn))
		conn_close(conn);
	else
		wait_for_more(conn);
}
