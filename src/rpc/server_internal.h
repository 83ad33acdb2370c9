/*
 * server_internal - what the parts of the server share. The parts are:
 *
 *	conn.c		one connection: lines are read, parsed and handed to calls.c; what is sent
 *			to it, when it is dropped, its end
 *	calls.c		requests become calls, calls become answers; subscribers get events
 *	server.c	accepts connections, gives them turns, drops those that are too slow
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
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

struct rpc_conn;

#define RPC_MAX_DEPTH 64      /* of lists and objects in each other, in a request */
#define RPC_MAX_VALUES 131072 /* in a request: a tree of at most 32 MB, beside its texts */

struct rpc_request {
	const struct rpc_value *id; /* text, number or null; NULL: a notification, never answered */
	const char *method;
	const struct rpc_value *params; /* an object or a list; NULL: none */
};

/* Requests that came in one line, and whose answers go into one. */
struct batch {
	struct rpc_value *requests; /* owned; NULL: all of them have been made calls */
	size_t n_begun;		    /* of these */
	struct buf line;	    /* "[…,…" so far */
	size_t n_open;		    /* calls that are not yet answered */
};

/* It belongs to its connection. A deferred call waits in the connection's list. */
struct rpc_call {
	struct rpc_conn *conn;
	struct batch *batch; /* NULL: it came alone */
	const struct rpc_value *params;
	struct buf id; /* as JSON; empty: a notification */
	struct buf result;
	struct json json; /* which writes it */
	bool has_result, is_deferred, is_holding;
	rpc_gone_fn *gone;
	void *gone_ctx;
	struct rpc_call *next; /* in the list of its connection, once it is deferred */
};

/* The result of parsing a line. */
struct parsed {
	int r;
	struct err err;
	struct rpc_value *value; /* owned */
	size_t line_bytes;
};

/* A line that is parsed on another thread. */
struct parse_job {
	struct rpc_server *server; /* NULL: has ended meanwhile */
	struct rpc_conn *conn;	   /* NULL: closed meanwhile */
	atomic_bool is_forgotten;  /* the same, for the other thread */
	struct parse_job *next;	   /* in the server's list */
	struct buf line;
	size_t max_batch;
	struct parsed parsed;
};

struct rpc_subscriber {
	struct rpc_conn *conn;
	rpc_gone_fn *gone;
	void *gone_ctx;
	struct rpc_subscriber *next;
};

struct rpc_conn {
	struct rpc_server *server;
	size_t index; /* in the server's array */
	int fd;
	struct loop_fd *watch;
	struct rpc_peer peer;

	struct lines lines;	   /* that have come, and wait for room or for their turn */
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

/* ---- conn.c ---- */

/* conn_continue() is called for it, in the loop's next round. */
void conn_settle_soon(struct rpc_conn *conn);

/* Brings the server's sums up to date with what this connection holds. */
void conn_count(struct rpc_conn *conn);

/* Back-pressure: nothing more is taken from it until it has read, or been answered. */
bool conn_is_full(const struct rpc_conn *conn);

/* Both directions are closed: nobody is there. (After one alone the client may still read.) */
bool conn_has_hung_up(const struct rpc_conn *conn);

/* A bound was passed: whatever waits is given up now, and the connection is closed soon. */
void conn_drop(struct rpc_conn *conn, const char *why);

/* If more is held than allowed: of the user who holds the most, the connections that have held it
 * the longest are dropped. */
void conn_shed(struct rpc_server *server);

/* Sends a line, which is used up. */
void conn_send(struct rpc_conn *conn, struct buf *line);
void conn_send_error(struct rpc_conn *conn, const char *id, int error, const char *sentence);

/* Writes what the socket takes, without waiting. The connection is not closed here. */
void conn_write(struct rpc_conn *conn);

/* An error as one object; id is JSON, "null" where it is unknown. */
void conn_render_error(const char *id, int error, const char *sentence, struct buf *ret);
void conn_render_id(struct buf *b, const char *id); /* the end of every answer */

/* ---- calls.c ---- */

/*
 * A request, or a list of them (a batch) of at most max_batch. -EBADMSG: not
 * JSON. -EMSGSIZE: too deep or too many values. -EPROTO: a batch that is empty or
 * too long.
 */
int rpc_request_parse(const char *line, size_t len, size_t max_batch, struct rpc_value **ret,
		      struct err *err);

/*
 * Reads one request out of the parsed line; ret borrows from v. -EPROTO: it is
 * none; ret->id is then the id of the error's answer, or NULL where that cannot be
 * read (which does not make it a notification: the error is sent all the same).
 */
int rpc_request_read(const struct rpc_value *v, struct rpc_request *ret, struct err *err);

/* Parses the line and makes the calls in it. */
void dispatch_line(struct rpc_conn *conn, const char *line, size_t len);

/* The same of a line that has been parsed; takes over the value. */
void dispatch_parsed(struct rpc_conn *conn, const struct parsed *parsed);

/*
 * The next requests of conn->batch, which is there: one, and more while the turn of this
 * client lasts. A batch of dear requests is so no dearer to the others than one.
 */
void dispatch_continue(struct rpc_conn *conn);

/* The client is gone: its calls and subscriptions are over. */
void dispatch_abandon(struct rpc_conn *conn);
void subscribers_abandon(struct rpc_conn *conn);

/* ---- conn.c: its beginning, reading and end ---- */

/* Takes over fd and what peer owns. NULL: no memory; both are still the caller's then. The
 * caller puts it into the server's array. */
struct rpc_conn *conn_new(struct rpc_server *server, int fd, struct rpc_peer *peer);

/* Owners of its calls and subscriptions are called back. */
void conn_close(struct rpc_conn *conn);

/* Handles what has come, or can be read, and had to wait, for one turn; then closes the
 * connection if all is done. conn may be gone. */
void conn_continue(struct rpc_conn *conn);
