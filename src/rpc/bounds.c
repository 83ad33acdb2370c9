#include <errno.h>
#include <malloc.h>

#include "base/clock.h"
#include "rpc/server_internal.h"

#define NS_PER_MS UINT64_C(1000000)
#define SWEEP_MS UINT64_C(1000)	 /* how late a timeout may be seen */
#define SWEEP_MIN_MS UINT64_C(5) /* for the short timeouts of tests */

/* ---- too long ---- */

static bool is_idle(const struct rpc_conn *conn)
{
	return conn->n_calls == 0 && conn->n_subscribers == 0 && !conn->parsing && !conn->batch &&
	       outbox_is_empty(&conn->out);
}

static bool is_past(uint64_t since_ns, uint64_t timeout_ms, uint64_t now_ns)
{
	return timeout_ms > 0 && since_ns > 0 && now_ns > since_ns &&
	       now_ns - since_ns > timeout_ms * NS_PER_MS;
}

/* Half a line was begun and not ended; told in case the client looks. */
static void drop_half_line(struct rpc_conn *conn)
{
	conn_send_error(conn, "null", -ETIMEDOUT, "a line was begun and not ended");
	conn_write(conn);
	conn_drop(conn, "half a line for too long");
}

/*
 * Of events that wait the oldest go, but one that is half written stays until it is read, with its
 * file. That is for those who can read: they have done so by now.
 */
static void give_up_file(struct rpc_conn *conn, uint64_t now_ns)
{
	struct message *m = outbox_half_written(&conn->out);

	if (m && is_past(conn->written_ns, SWEEP_MS, now_ns))
		message_unshare(m);
}

static bool owes_reading(const struct rpc_conn *conn)
{
	return conn->out.reply_bytes > 0 || outbox_half_written(&conn->out);
}

static void sweep_conn(struct rpc_conn *conn, uint64_t now_ns)
{
	const struct rpc_limits *limits = &conn->server->limits;
	bool is_waiting = conn->is_at_end || conn_is_full(conn);

	if (is_waiting && conn_has_hung_up(conn))
		conn->is_broken = true; /* nobody else tells while it is not read */
	else if (is_past(conn->half_since_ns, limits->line_timeout_ms, now_ns))
		drop_half_line(conn);
	else if (owes_reading(conn) && is_past(conn->written_ns, limits->read_timeout_ms, now_ns))
		conn_drop(conn, "what it was sent is not read");
	else if (is_idle(conn) && is_past(conn->active_ns, limits->idle_timeout_ms, now_ns))
		conn_drop(conn, "idle for too long");
	give_up_file(conn, now_ns);
	if (conn->is_broken)
		conn_close(conn);
}

/* Many share one message: each is counted once. */
static size_t sum_half_written(struct rpc_server *server)
{
	size_t sum = 0;

	server->n_sweeps++;
	for (size_t i = 0; i < server->n_conns; i++) {
		struct message *m = outbox_half_written(&server->conns[i]->out);

		if (!m || m->counted == server->n_sweeps)
			continue;
		m->counted = server->n_sweeps;
		sum += message_held_bytes(m);
	}
	return sum;
}

static struct rpc_conn *find_slowest(const struct rpc_server *server)
{
	struct rpc_conn *slowest = NULL;

	for (size_t i = 0; i < server->n_conns; i++) {
		struct rpc_conn *conn = server->conns[i];

		if (outbox_half_written(&conn->out) &&
		    (!slowest || conn->written_ns < slowest->written_ns))
			slowest = conn;
	}
	return slowest;
}

/* A snapshot of thousands of processes at every tick, and each stuck in another one. */
static void shed_half_written(struct rpc_server *server)
{
	struct rpc_conn *conn;

	while (sum_half_written(server) > server->limits.max_all_unread_bytes &&
	       (conn = find_slowest(server)))
		conn_drop(conn, "too much is half read, and its has been for the longest");
}

/* What so many at once have used lies between that of others: free() alone gives none of it back.
 */
#define CROWD 64
#define FEW 16

static void give_back(struct rpc_server *server)
{
	if (server->n_conns >= CROWD)
		server->was_crowded = true;
	if (!server->was_crowded || server->n_conns > FEW)
		return;
	server->was_crowded = false;
	malloc_trim(0);
}

void bounds_sweep(void *ctx)
{
	struct rpc_server *server = ctx;
	uint64_t now_ns = clock_boot_ns();

	for (size_t i = server->n_conns; i-- > 0;)
		sweep_conn(server->conns[i], now_ns);
	shed_half_written(server);
	give_back(server);
	if (server->n_conns == 0) {
		loop_timer_stop(server->sweep_timer);
		server->is_sweeping = false;
	}
}

static uint64_t sweep_interval_ms(const struct rpc_limits *limits)
{
	const uint64_t timeouts[] = { limits->line_timeout_ms, limits->read_timeout_ms,
				      limits->idle_timeout_ms };
	uint64_t ms = SWEEP_MS;

	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++)
		if (timeouts[i] > 0 && timeouts[i] / 4 < ms)
			ms = timeouts[i] / 4;
	return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms;
}

void bounds_begin(struct rpc_server *server)
{
	uint64_t ms = sweep_interval_ms(&server->limits);

	if (!server->is_sweeping)
		loop_timer_set(server->sweep_timer, ms, ms);
	server->is_sweeping = true;
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

void bounds_shed(struct rpc_server *server)
{
	struct rpc_conn *conn;

	while (server->stats.unread_bytes > server->limits.max_all_unread_bytes &&
	       (conn = find_oldest(server, holds_replies)))
		conn_drop(conn, "too many replies wait, and its have waited the longest");
	while (server->stats.request_bytes > server->limits.max_all_request_bytes &&
	       (conn = find_oldest(server, holds_half_line)))
		conn_drop(conn, "too many long requests at once, and its has taken the longest");
}
