#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "rpc/value.h"
#include "rpc/server_internal.h"

void conn_settle_soon(struct rpc_conn *conn)
{
	struct rpc_server *server = conn->server;

	if (conn->is_handling)
		return;
	conn->is_unsettled = true;
	loop_soon_set(server->settle_soon);
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

/* Frees all that waits for it, or comes from it. A line that is being parsed goes nowhere, and
 * counts until that is over. */
static void conn_release_buffers(struct rpc_conn *conn)
{
	lines_release(&conn->lines);
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

static size_t holds_events(const struct rpc_conn *conn, uint64_t *ret_since_ns)
{
	*ret_since_ns = conn->written_ns;
	return outbox_event_bytes(&conn->out);
}

/* How much all connections hold of such things. */
static size_t sum_of_all(const struct rpc_server *server, holds_fn *holds)
{
	uint64_t since_ns;
	size_t sum = 0;

	for (size_t i = 0; i < server->n_conns; i++)
		sum += holds(server->conns[i], &since_ns);
	return sum;
}

/*
 * Of those of the user who holds the most of such things, the one who has done so the longest. Each
 * connection is asked once, as one that holds many events takes a walk over them.
 */
static struct rpc_conn *find_oldest(struct rpc_server *server, holds_fn *holds)
{
	CLEANUP(free_ptr) size_t *held = calloc(server->n_conns + 1, sizeof(*held));
	CLEANUP(free_ptr) uint64_t *since_ns = calloc(server->n_conns + 1, sizeof(*since_ns));
	struct rpc_conn *const *conns = server->conns;
	uid_t uid = server->own_uid;
	size_t oldest = SIZE_MAX, most = 0;

	if (!held || !since_ns)
		return NULL;
	for (size_t i = 0; i < server->n_conns; i++)
		held[i] = holds(conns[i], &since_ns[i]);
	for (size_t i = 0; i < server->n_conns; i++) {
		size_t sum = 0;

		for (size_t k = 0; k < server->n_conns; k++)
			sum += conns[k]->peer.uid == conns[i]->peer.uid ? held[k] : 0;
		if (sum > most) {
			most = sum;
			uid = conns[i]->peer.uid;
		}
	}
	for (size_t i = 0; i < server->n_conns; i++)
		if (conns[i]->peer.uid == uid && !conns[i]->is_broken && held[i] > 0 &&
		    (oldest == SIZE_MAX || since_ns[i] < since_ns[oldest]))
			oldest = i;
	return oldest == SIZE_MAX ? NULL : conns[oldest];
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
	/* A snapshot of thousands of processes at every tick, and each stuck in another one. */
	while (sum_of_all(server, holds_events) > server->limits.max_all_unread_bytes &&
	       (conn = find_oldest(server, holds_events)))
		conn_drop(conn, "too many events wait, and it has read nothing for the longest");
}

/* ---- sending ---- */

void conn_render_id(struct buf *b, const char *id)
{
	buf_add_str(b, ",\"id\":");
	buf_add_str(b, id);
	buf_add_char(b, '}');
}

void conn_render_error(const char *id, int error, const char *sentence, struct buf *ret)
{
	enum rpc_code code = rpc_code_of(error);
	struct json j;

	buf_add_str(ret, "{\"jsonrpc\":\"2.0\",\"error\":");
	json_init_object(&j, ret);
	json_key_i64(&j, "code", code);
	json_key_string(&j, "message", sentence[0] ? sentence : rpc_code_meaning(code));
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
	conn_render_error(id, error, sentence, &line);
	conn_send(conn, &line);
}

/* ---- the end ---- */

void conn_close(struct rpc_conn *conn)
{
	struct rpc_server *server;
	struct rpc_conn *last;

	conn->is_broken = true;
	conn->is_handling = true; /* it is not to be settled any more */
	dispatch_abandon(conn);
	subscribers_abandon(conn);
	conn_release_buffers(conn);
	server = conn->server;
	last = server->conns[--server->n_conns];
	last->index = conn->index;
	server->conns[conn->index] = last;
	loop_fd_close(conn->watch);
	close(conn->fd);
	rpc_peer_release(&conn->peer);
	free(conn);
}

/* ---- after something has happened ---- */

/* Whether more is to be read from the socket: what came before it has been handled. */
static bool is_read(struct rpc_conn *conn)
{
	return !conn->is_at_end && !lines_has_line(&conn->lines) && !conn_is_full(conn);
}

static bool has_more(struct rpc_conn *conn)
{
	return lines_has_line(&conn->lines) && !conn_is_full(conn);
}

/* Writes what waits; then closes if all is done, or waits for what is next. conn may be gone. */
static void conn_settle(struct rpc_conn *conn)
{
	bool is_over;

	conn->is_handling = true;
	conn->is_unsettled = false;
	conn_write(conn);
	conn->is_handling = false;
	is_over = conn->is_at_end && conn->n_calls == 0 && conn->n_subscribers == 0 &&
		  !conn->parsing && !conn->batch && !lines_has_line(&conn->lines) &&
		  outbox_is_empty(&conn->out);
	if (conn->is_broken || is_over) {
		conn_close(conn);
	} else {
		unsigned interest = is_read(conn) ? LOOP_READABLE : 0;

		if (!outbox_is_empty(&conn->out))
			interest |= LOOP_WRITABLE;
		loop_fd_set_interest(conn->watch, interest);
		if ((conn->batch && !conn->is_held) || has_more(conn))
			conn_settle_soon(conn);
	}
}

/* ---- long lines, parsed on another thread ---- */

/* On another thread: touches nothing but the job's own. */
static void parse(void *ctx)
{
	struct parse_job *job = ctx;

	if (!atomic_load(&job->is_forgotten))
		job->parsed.r = rpc_request_parse(job->line.data, job->line.len, job->max_batch,
						  &job->parsed.value, &job->parsed.err);
}

static void on_parsed(void *ctx)
{
	struct parse_job *job = ctx;
	struct rpc_conn *conn = job->conn;

	if (job->server) {
		LIST_REMOVE(job->server->jobs, job, next);
		job->server->stats.request_bytes -= job->line.len;
	}
	buf_release(&job->line);
	if (conn) {
		conn->parsing = NULL;
		conn->is_handling = true;
		conn->turn_ends_ns = 0;
		dispatch_parsed(conn, &job->parsed);
		conn_settle(conn);
	} else {
		rpc_value_free(job->parsed.value);
	}
	free(job);
}

static int parse_aside(struct rpc_conn *conn, struct buf *line)
{
	struct parse_job *job = calloc(1, sizeof(*job));
	struct rpc_server *server = conn->server;

	if (!job)
		return -ENOMEM;
	job->server = server;
	job->conn = conn;
	job->max_batch = server->limits.max_batch;
	job->line = *line;
	job->parsed.line_bytes = line->len;
	if (loop_queue_work(server->loop, parse, on_parsed, job) < 0) {
		free(job); /* the line is still the caller's */
		return -ENOMEM;
	}
	*line = (struct buf)BUF_INIT;
	job->next = server->jobs;
	server->jobs = job;
	server->stats.request_bytes += job->line.len;
	conn->parsing = job;
	return 0;
}

/* ---- reading ---- */

/* Handles the lines that have come; those that there is no room or no time for wait. */
static void take_lines(struct rpc_conn *conn)
{
	size_t n_ended = conn->lines.n_ended;

	conn->turn_ends_ns = clock_boot_ns() + TURN_NS;
	while (!conn->is_broken && clock_boot_ns() < conn->turn_ends_ns) {
		CLEANUP(buf_release) struct buf whole = BUF_INIT;
		const char *line = NULL;
		char text[96];
		size_t len = 0;
		int r;

		if (conn_is_full(conn))
			conn_write(conn); /* that may make room */
		r = conn->is_broken || conn_is_full(conn) ? 0
							  : lines_next(&conn->lines, &line, &len);
		if (r == 0)
			break;
		if (r < 0) {
			snprintf(text, sizeof(text), "the line is longer than %zu bytes",
				 conn->server->limits.max_request_bytes);
			conn_send_error(conn, "null", r, text);
		} else if (len <= PARSE_ASIDE_BYTES) {
			dispatch_line(conn, line, len);
		} else if (lines_take(&conn->lines, line, len, &whole) < 0 ||
			   parse_aside(conn, &whole) < 0) {
			conn_send_error(conn, "null", -ENOMEM, "out of memory");
		}
	}
	if (conn->is_broken)
		return;
	/* Since when half a line is there. One that was left out ends as any other does. */
	if (conn->lines.n_ended != n_ended || !lines_has_half(&conn->lines))
		conn->half_since_ns = 0;
	if (lines_has_half(&conn->lines) && conn->half_since_ns == 0)
		conn->half_since_ns = clock_boot_ns();
	conn_count(conn);
	if (conn->server->stats.request_bytes > conn->server->limits.max_all_request_bytes)
		conn_shed(conn->server);
}

static void receive(struct rpc_conn *conn)
{
	char *chunk = conn->server->chunk;
	ssize_t n = recv(conn->fd, chunk, CHUNK_BYTES, MSG_DONTWAIT);

	if (n > 0) {
		if (lines_add(&conn->lines, chunk, (size_t)n) < 0)
			conn_drop(conn, "out of memory");
		else
			take_lines(conn);
	} else if (n == 0) {
		conn->is_at_end = true;
		conn->is_broken = conn->is_broken || conn_has_hung_up(conn);
		/* No more of it will come: what is there is a line, as of "printf" without a
		 * newline. */
		if (!conn->is_broken && lines_has_half(&conn->lines) &&
		    lines_add(&conn->lines, "\n", 1) == 0)
			take_lines(conn);
		conn->half_since_ns = 0;
	} else if (errno != EAGAIN && errno != EINTR) {
		conn->is_broken = true;
	}
}

static void on_ready(void *ctx)
{
	struct rpc_conn *conn = ctx;

	if (loop_round_ms(conn->server->loop) >= ROUND_MS) {
		conn->is_ready = true;
		conn_settle_soon(conn);
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

void conn_continue(struct rpc_conn *conn)
{
	conn->is_handling = true;
	conn->turn_ends_ns = clock_boot_ns() + TURN_NS;
	if (conn->batch && !conn->is_held) {
		dispatch_continue(conn);
	} else if (has_more(conn)) {
		take_lines(conn);
	} else if (conn->is_ready && is_read(conn)) {
		receive(conn);
	}
	conn->is_ready = false;
	conn_settle(conn);
}

/* ---- the beginning ---- */

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
	outbox_init(&conn->out, &out);
	return conn;
}
