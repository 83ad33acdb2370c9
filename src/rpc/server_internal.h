/*
 * server_internal - what the parts of the server share.
 *
 * server.c is the beginning and the end. accept.c lets clients in, bounds.c drops
 * those who hold too much for too long. conn.c reads and writes one of them;
 * dispatch.c makes calls of its lines, parse.c has the long ones parsed elsewhere,
 * subscriber.c pushes events.
 */
#ifndef PROCTOR_RPC_SERVER_INTERNAL_H
#define PROCTOR_RPC_SERVER_INTERNAL_H

#include <stdbool.h>

#include "rpc/call.h"
#include "rpc/lines.h"
#include "rpc/listen.h"
#include "rpc/outbox.h"
#include "rpc/server.h"

/*
 * A client's turn: so much is read, lines are handled until the time is over, and
 * then it is the next one's. With hundreds of clients that never stop asking this
 * bounds how late the loop comes to everything else.
 */
#define CHUNK_BYTES (32 * 1024)
#define TURN_NS UINT64_C(100000)

/* A turn lasts for one request at least, and that can be dear. When all turns of a round have
 * taken so long, the others come in the next, after the timers. */
#define ROUND_MS 20

/* Longer lines are parsed on another thread: jansson takes 20 ms for a megabyte. */
#define PARSE_ASIDE_BYTES CHUNK_BYTES

struct parse_job;

struct rpc_subscriber {
	struct rpc_conn *conn;
	rpc_gone_fn *gone;
	void *gone_ctx;
	struct rpc_subscriber *prev, *next;
};

struct rpc_conn {
	struct rpc_server *server;
	size_t index; /* in the server's array */
	int fd;
	struct loop_fd *watch;
	struct rpc_peer peer;

	struct lines lines;
	struct buf unread;	   /* has come, and waits for room or for its turn */
	struct parse_job *parsing; /* the line that is being parsed elsewhere */
	struct outbox out;
	struct batch *batch; /* of which there are more requests to be made calls; NULL: none */
	size_t batch_request_bytes; /* the line that it came in */
	size_t batch_bytes;	    /* answers that wait for the others of their batch */
	struct rpc_call *calls;	    /* the deferred ones */
	size_t n_calls;
	struct rpc_subscriber *subscribers;
	size_t n_subscribers;

	uint64_t turn_ends_ns;
	uint64_t half_since_ns; /* when the line began that has not ended; 0: none has */
	uint64_t written_ns;	/* when replies began to wait, or something was last written */
	uint64_t active_ns;	/* when something last came */
	size_t counted_request_bytes, counted_unread_bytes; /* its part of the server's sums */

	bool is_held;	  /* by a call that the others wait for */
	bool is_clogged;  /* the socket took not all that waited; until the loop says that it can */
	bool is_at_end;	  /* the client sends no more; it may still read */
	bool is_broken;	  /* to be closed */
	bool is_handling; /* conn_settle() comes anyway */
	bool is_unsettled; /* conn_continue() is to come */
	bool is_ready;	   /* the loop has told of it, and it is to be read then */
};

struct rpc_server {
	struct loop *loop;
	const struct rpc_method *methods;
	size_t n_methods;
	void *ctx;
	struct rpc_limits limits;
	uid_t own_uid;

	struct listener listener;
	struct loop_fd *listen_watch;
	struct loop_timer *accept_timer; /* after there was no file descriptor left */
	struct loop_soon *settle_soon;
	struct loop_timer *sweep_timer;
	uint64_t n_sweeps;
	size_t settle_from; /* whose turn it is in on_settle() */
	bool is_sweeping;
	bool was_crowded;     /* since memory was last given back */
	bool is_out_of_files; /* said once */

	struct rpc_conn **conns;
	size_t n_conns, cap_conns;
	struct parse_job *jobs; /* that are not over, whosever they were */
	struct rpc_stats stats;
	char chunk[CHUNK_BYTES];
};

/* ---- server.c ---- */

/* conn_continue() is called for it, in the loop's next round. */
void server_settle_soon(struct rpc_conn *conn);

/* This round has lasted long enough: who can wait for the next one does. */
bool server_is_round_over(const struct rpc_server *server);

/* ---- accept.c ---- */

/* Somebody wants to connect. (Of the loop; ctx is the server.) */
void accept_clients(void *ctx);

/* There may be file descriptors again. */
void accept_again(void *ctx);

/* ---- bounds.c ---- */

/* Looks at every client now and then, whether its time is up. */
void bounds_begin(struct rpc_server *server);
void bounds_sweep(void *ctx);

/* If more is held than may be: of the user who holds the most, those who have held it the longest
 * are dropped. */
void bounds_shed(struct rpc_server *server);

/* ---- conn.c ---- */

/* Takes over fd and what peer owns. NULL: no memory; both are still the caller's then. The
 * caller puts it into the server's array. */
struct rpc_conn *conn_new(struct rpc_server *server, int fd, struct rpc_peer *peer);

/* Those who wait for it are told. */
void conn_close(struct rpc_conn *conn);

/* A bound was passed: whatever waits is given up now, and the connection is closed soon. */
void conn_drop(struct rpc_conn *conn, const char *why);

/* Brings the server's sums up to date with what this connection holds. */
void conn_count(struct rpc_conn *conn);

/* Sends a line, which is used up. */
void conn_send(struct rpc_conn *conn, struct buf *line);
void conn_send_error(struct rpc_conn *conn, const char *id, int error, const char *sentence);

/* Writes what the socket takes, without waiting. The connection is not closed here. */
void conn_write(struct rpc_conn *conn);

/* Writes what waits; then closes if all is done, or waits for what is next. conn may be gone. */
void conn_settle(struct rpc_conn *conn);

/* Handles what has come, or can be read, and had to wait, for one turn; then as conn_settle(). */
void conn_continue(struct rpc_conn *conn);

/* Back-pressure: nothing more is taken from it until it has read, or been answered. */
bool conn_is_full(const struct rpc_conn *conn);

/* Both directions are closed: nobody is there. (After one alone the client may still read.) */
bool conn_has_hung_up(const struct rpc_conn *conn);

/* ---- dispatch.c ---- */

/* Parses the line and makes the calls in it. */
void dispatch_line(struct rpc_conn *conn, const char *line, size_t len);

/* What came of a line. */
struct parsed {
	int r;
	struct err err;
	struct rpc_value *value; /* owned */
	size_t line_bytes;
};

/* The same of a line that has been parsed; takes over the value. */
void dispatch_parsed(struct rpc_conn *conn, const struct parsed *parsed);

/*
 * The next requests of conn->batch, which is there: one, and more while the turn of this
 * client lasts. A batch of dear requests is so no dearer to the others than one.
 */
void dispatch_continue(struct rpc_conn *conn);

/* The client is gone: what it waits for is over. */
void dispatch_abandon(struct rpc_conn *conn);

/* ---- subscriber.c ---- */

/* The client is gone: nothing can be pushed to it any more. */
void subscribers_abandon(struct rpc_conn *conn);

/* ---- parse.c ---- */

/* Parses the line on another thread and then goes on with it; conn->parsing is set meanwhile.
 * -ENOMEM. */
int parse_aside(struct rpc_conn *conn, struct buf *line);

/* The connection is closed: what comes of the job goes nowhere. It counts until it is over. */
void parse_forget(struct parse_job *job);

/* The server ends before its jobs. */
void parse_forget_server(struct rpc_server *server);

#endif
