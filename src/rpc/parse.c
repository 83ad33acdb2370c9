#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "rpc/server_internal.h"

struct parse_job {
	struct rpc_server *server;     /* NULL: has ended meanwhile */
	struct rpc_conn *conn;	       /* NULL: closed meanwhile */
	atomic_bool is_forgotten;      /* the same, for the other thread */
	struct parse_job *prev, *next; /* in the server's list */
	struct buf line;
	size_t max_batch;
	struct parsed parsed;
};

static void link_job(struct parse_job *job)
{
	struct rpc_server *server = job->server;

	job->next = server->jobs;
	if (server->jobs)
		server->jobs->prev = job;
	server->jobs = job;
	server->stats.request_bytes += job->line.len;
}

static void unlink_job(struct parse_job *job)
{
	struct rpc_server *server = job->server;

	if (job->prev)
		job->prev->next = job->next;
	else
		server->jobs = job->next;
	if (job->next)
		job->next->prev = job->prev;
	server->stats.request_bytes -= job->line.len;
}

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

	if (job->server)
		unlink_job(job);
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

int parse_aside(struct rpc_conn *conn, struct buf *line)
{
	struct parse_job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->server = conn->server;
	job->conn = conn;
	job->max_batch = conn->server->limits.max_batch;
	job->line = *line;
	job->parsed.line_bytes = line->len;
	if (loop_queue_work(conn->server->loop, parse, on_parsed, job) < 0) {
		free(job); /* the line is still the caller's */
		return -ENOMEM;
	}
	*line = (struct buf)BUF_INIT;
	link_job(job);
	conn->parsing = job;
	return 0;
}

void parse_forget(struct parse_job *job)
{
	if (!job)
		return;
	job->conn = NULL;
	atomic_store(&job->is_forgotten, true);
}

void parse_forget_server(struct rpc_server *server)
{
	for (struct parse_job *job = server->jobs; job; job = job->next)
		job->server = NULL;
}
