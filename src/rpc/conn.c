#include <errno.h>
#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/codes.h"
#include "rpc/server_internal.h"

void conn_settle_soon(struct rpc_conn *conn)
{
	struct rpc_server *server = conn->server;

	if (conn->is_handling)
		return;
	conn->is_unsettled = true;
	loop_soon_set(server->settle_soon);
}

bool conn_is_round_over(const struct rpc_server *server)
{
	return loop_round_ms(server->loop) >= ROUND_MS;
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

bool conn_is_full(const struct rpc_conn *conn)
{
	const struct rpc_limits *limits = &conn->server->limits;

	return conn->parsing || conn->batch || conn->is_held ||
	       conn->n_calls >= limits->max_in_flight ||
	       conn->counted_unread_bytes >= limits->max_unread_bytes;
}

bool conn_has_hung_up(const struct rpc_conn *conn)
{
	struct pollfd p = { .fd = conn->fd };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

void conn_release_buffers(struct rpc_conn *conn)
{
	lines_release(&conn->lines);
	buf_release(&conn->unread);
	outbox_release(&conn->out);
	if (conn->parsing) {
		conn->parsing->conn = NULL;
		atomic_store(&conn->parsing->is_forgotten, true);
		conn->parsing = NULL;
	}
	conn_count(conn);
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
	conn_settle_soon(conn);
}

/* ---- too much ---- */

/* How many bytes of something a connection holds that is too much for all, and since when. */
typedef size_t holds_fn(const struct rpc_conn *conn, uint64_t *ret_since_ns);

static size_t holds_half_line(const struct rpc_conn *conn, uint64_t *ret_since_ns)
{
	*ret_since_ns = conn->half_since_ns;
	return conn->counted_request_bytes > CHUNK_BYTES ? conn->counted_request_bytes : 0;
}

static size_t holds_replies(const struct rpc_conn *conn, uint64_t *ret_since_ns)
{
	*ret_since_ns = conn->written_ns;
	return conn->counted_unread_bytes;
}

/* How much all connections of one user hold of such things. */
static size_t sum_of_user(const struct rpc_server *server, uid_t uid, holds_fn *holds)
{
	uint64_t since_ns;
	size_t sum = 0;

	for (size_t i = 0; i < server->n_conns; i++)
		if (server->conns[i]->peer.uid == uid)
			sum += holds(server->conns[i], &since_ns);
	return sum;
}

static uid_t find_greediest(const struct rpc_server *server, holds_fn *holds)
{
	uid_t uid = server->own_uid;
	size_t most = 0;

	for (size_t i = 0; i < server->n_conns; i++) {
		size_t sum = sum_of_user(server, server->conns[i]->peer.uid, holds);

		if (sum > most) {
			most = sum;
			uid = server->conns[i]->peer.uid;
		}
	}
	return uid;
}

/* Of those of the user who holds the most of such things, the one who has done so the longest. */
static struct rpc_conn *find_oldest(struct rpc_server *server, holds_fn *holds)
{
	uid_t uid = find_greediest(server, holds);
	struct rpc_conn *oldest = NULL;
	uint64_t oldest_ns = 0, since_ns;

	for (size_t i = 0; i < server->n_conns; i++)
		if (server->conns[i]->peer.uid == uid && !server->conns[i]->is_broken &&
		    holds(server->conns[i], &since_ns) > 0 && (!oldest || since_ns < oldest_ns)) {
			oldest = server->conns[i];
			oldest_ns = since_ns;
		}
	return oldest;
}

void conn_shed(struct rpc_server *server)
{
	struct rpc_conn *conn;

	while (server->stats.unread_bytes > server->limits.max_all_unread_bytes &&
	       (conn = find_oldest(server, holds_replies)))
		conn_drop(conn, "too many replies wait, and its have waited the longest");
	while (server->stats.request_bytes > server->limits.max_all_request_bytes &&
	       (conn = find_oldest(server, holds_half_line)))
		conn_drop(conn, "too many long requests at once, and its has taken the longest");
}

/* ---- sending ---- */

void conn_render_id(struct buf *b, const char *id)
{
	buf_add_str(b, ",\"id\":");
	buf_add_str(b, id);
	buf_add_char(b, '}');
}

void conn_render_error(const char *id, int error, const char *sentence, const struct buf *data,
		       struct buf *ret)
{
	enum rpc_code code = rpc_code_of(error);
	struct json j;

	buf_add_str(ret, "{\"jsonrpc\":\"2.0\",\"error\":");
	json_init(&j, ret);
	json_begin_object(&j);
	json_key_i64(&j, "code", code);
	json_key_string(&j, "message", sentence[0] ? sentence : rpc_code_meaning(code));
	if (data && data->len > 0 && buf_error(data) == 0) {
		json_key(&j, "data");
		json_raw(&j, data->data, data->len);
	}
	json_end_object(&j);
	conn_render_id(ret, id);
}

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
		conn_shed(conn->server);
	}
}

void conn_send_error(struct rpc_conn *conn, const char *id, int error, const char *sentence)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	conn->server->stats.n_errors++;
	conn_render_error(id, error, sentence, NULL, &line);
	conn_send(conn, &line);
}
