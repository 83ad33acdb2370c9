#include "web/web_internal.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/num.h"
#include "web/assets.inc.h"

#define REQUEST_BYTES 16384 /* of the request line and all headers, and what is not sent yet */
#define TIMEOUT_SECONDS 20  /* for a request to come, and for an answer to be read */
#define MAX_HELD_BYTES ((size_t)128 << 20) /* of answers that are being sent */
#define MAX_USER_HELD_BYTES ((size_t)32 << 20)
#define MAX_STREAMS_PER_USER 100

/* Nothing is loaded from elsewhere, no script or style stands in a page, and no other site shows
 * the page in a frame. */
static const char content_policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

enum request_state { REQUEST_NEW, REQUEST_WAITS, REQUEST_ANSWERED, REQUEST_STREAMS };

struct request {
	struct web *web;
	struct MHD_Connection *connection;
	struct user *user; /* whose channel it uses; NULL: none */
	enum request_state state;
	bool has_body, is_suspended;
	unsigned status; /* of the answer */
	struct buf json;
	size_t held_bytes;

	/* A stream. */
	uint64_t next_num;
	struct feed_event *event; /* that is being sent */
	size_t sent;		  /* of it */

	struct request *next;
};

/* ---- answers ---- */

static enum MHD_Result send_response(struct web *web, struct MHD_Connection *connection,
				     unsigned status, struct MHD_Response *response,
				     const char *type, const char *cookie)
{
	const char *const headers[][2] = {
		{ "Content-Type", type },
		{ "Content-Security-Policy", content_policy },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Opener-Policy", "same-origin" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Cache-Control", "no-store" },
		{ "Set-Cookie", cookie },
	};
	enum MHD_Result r = MHD_YES;

	if (!response)
		return MHD_NO;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (r == MHD_YES && headers[i][1])
			r = web->http.add_response_header(response, headers[i][0], headers[i][1]);
	if (r == MHD_YES)
		r = web->http.queue_response(connection, status, response);
	web->http.destroy_response(response);
	return r;
}

/* Takes what json has. */
static enum MHD_Result send_json(struct web *web, struct MHD_Connection *connection,
				 unsigned status, struct buf *json, const char *cookie)
{
	size_t len = json->len;
	char *text = buf_error(json) == 0 ? buf_detach(json) : NULL;

	if (!text)
		return MHD_NO;
	return send_response(
		web, connection, status,
		web->http.create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE),
		"application/json", cookie);
}

static enum MHD_Result send_error(struct web *web, struct MHD_Connection *connection,
				  unsigned status, const char *message)
{
	CLEANUP(buf_release) struct buf json = BUF_INIT;
	struct json j;

	json_init_object(&j, &json);
	json_key_string(&j, "message", message);
	json_end_object(&j);
	return send_json(web, connection, status, &json, NULL);
}

static const char *header_of(const struct request *q, const char *name)
{
	return q->web->http.lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

/* ---- who asks ---- */

static const struct client *client_of(const struct web *web, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		web->http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	static const struct client none;

	return info && (size_t)info->connect_fd < web->cap_clients ? &web->clients[info->connect_fd]
								   : &none;
}

/* A cookie that another user has got hold of is of no use: the kernel knows whose a connection is,
 * of most. Root could read the cookie anywhere. */
static bool is_client_of(const struct request *q, const struct session *session)
{
	const struct client *client = client_of(q->web, q->connection);

	return !client->is_uid_known || client->uid == 0 || client->uid == session->peer.uid;
}

static const struct session *find_session(const struct request *q)
{
	const char *header = header_of(q, "Cookie");
	const struct session *session = NULL;
	char secret[SECRET_CHARS + 1];

	if (header && cookie_find(header, q->web->cookie, secret))
		session = sessions_find(q->web->sessions, secret);
	return session && is_client_of(q, session) ? session : NULL;
}

/* NULL: the request is from our page, or from no page. */
static const char *why_foreign(const struct request *q, bool is_change)
{
	const char *host = header_of(q, "Host"), *origin = header_of(q, "Origin"),
		   *site = header_of(q, "Sec-Fetch-Site");

	if (!host || !host_is_local(host))
		return "the Host header is not a name of this host";
	if (origin ? !origin_is_own(origin, host) : is_change)
		return "the request is from another site";
	if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return "the request is from another site";
	return NULL;
}

/* ---- sessions ---- */

static void write_session(struct buf *out, const struct session *session)
{
	const struct passwd *user = getpwuid(session->peer.uid);
	struct json j;

	json_init_object(&j, out);
	json_key_u64(&j, "uid", session->peer.uid);
	json_key_string(&j, "user", user ? user->pw_name : NULL);
	json_key_string(&j, "action_token", session->action_token);
	json_key_string(&j, "version", PROCTOR_VERSION);
	json_end_object(&j);
}

static enum MHD_Result open_session(struct request *q)
{
	CLEANUP(buf_release) struct buf json = BUF_INIT, cookie = BUF_INIT;
	const char *token = header_of(q, "X-Proctor-Link");
	const struct session *session = token ? sessions_redeem(q->web->sessions, token) : NULL;

	if (!session || !is_client_of(q, session))
		return send_error(q->web, q->connection, 403,
				  "the link was used before, is older than a minute, or is "
				  "another user's: \"proctor web\" prints a new one");
	write_session(&json, session);
	buf_printf(&cookie, "%s=%s; Max-Age=%d; Path=/; HttpOnly; SameSite=Strict", q->web->cookie,
		   session->secret, SESSION_SECONDS);
	if (buf_error(&cookie) < 0)
		return MHD_NO;
	return send_json(q->web, q->connection, 200, &json, cookie.data);
}

/* ---- methods ---- */

/* Those that the page may call: they only read, but for those that ask for the action token. */
static const struct {
	const char *name;
	bool is_change;
} methods[] = {
	{ "daemon.status", false },  { "daemon.top", false },	 { "daemon.events", false },
	{ "job.list", false },	     { "job.attempts", false },	 { "job.report", false },
	{ "job.events", false },     { "job.anomalies", false }, { "job.series", false },
	{ "learn.patterns", false }, { "job.cancel", true },	 { "job.outcome", true },
};

/* Of all of them. */
static const struct {
	const char *name;
	enum { PARAM_TEXT, PARAM_NUMBER, PARAM_FLAG } type;
} params[] = {
	{ "job_id", PARAM_TEXT },     { "attempt", PARAM_NUMBER },  { "uid", PARAM_NUMBER },
	{ "since_ns", PARAM_NUMBER }, { "until_ns", PARAM_NUMBER }, { "limit", PARAM_NUMBER },
	{ "latest", PARAM_FLAG },     { "queued", PARAM_FLAG },	    { "points", PARAM_NUMBER },
	{ "metric", PARAM_TEXT },     { "outcome", PARAM_TEXT },    { "note", PARAM_TEXT },
};

struct params {
	struct json json;
	unsigned seen;	   /* a bit for each row above */
	const char *wrong; /* the name of one that is not there, or twice */
};

static enum MHD_Result add_param(void *ctx, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	struct params *p = ctx;
	size_t i = 0;
	uint64_t number;

	(void)kind;
	while (i < ARRAY_SIZE(params) && strcmp(params[i].name, name) != 0)
		i++;
	if (i == ARRAY_SIZE(params) || !value || p->seen & 1u << i) {
		p->wrong = name;
		return MHD_NO;
	}
	p->seen |= 1u << i;
	json_key(&p->json, name);
	if (params[i].type == PARAM_TEXT)
		json_str(&p->json, value);
	else if (params[i].type == PARAM_FLAG)
		json_bool(&p->json, strcmp(value, "true") == 0);
	else if (num_parse_u64(value, &number) == 0)
		json_u64(&p->json, number);
	else
		json_str(&p->json, value); /* which the method refuses, in its words */
	return MHD_YES;
}

static void use_user(struct request *q, struct user *user, enum request_state state)
{
	q->user = user;
	user->n_requests++;
	q->state = state;
	q->next = q->web->requests;
	q->web->requests = q;
}

static void on_answer(void *ctx, unsigned status, struct buf *json)
{
	struct request *q = ctx;

	/* One answer may be large; many at once are for a client that does not read them. */
	if (q->user->held_bytes > 0 && (q->user->held_bytes + json->len > MAX_USER_HELD_BYTES ||
					q->web->held_bytes + json->len > MAX_HELD_BYTES)) {
		buf_release(json);
		*json = (struct buf)BUF_INIT;
		buf_add_str(json,
			    "{\"message\":\"too many answers are being sent to this user\"}\n");
		status = 503;
	}
	q->status = status;
	q->json = *json;
	*json = (struct buf)BUF_INIT;
	q->held_bytes = q->json.len;
	q->web->held_bytes += q->held_bytes;
	q->user->held_bytes += q->held_bytes;
	q->state = REQUEST_ANSWERED;
	if (q->is_suspended) {
		q->is_suspended = false;
		q->web->http.resume_connection(q->connection);
		web_run_soon(q->web);
	}
}

static enum MHD_Result call_method(struct request *q, const char *name, bool is_post)
{
	CLEANUP(buf_release) struct buf json = BUF_INIT;
	const struct session *session = find_session(q);
	const char *token = header_of(q, "X-Proctor-Action");
	struct params p = { .wrong = NULL };
	struct user *user;
	size_t i = 0;

	if (!session)
		return send_error(q->web, q->connection, 401,
				  "no session: \"proctor web\" prints a link to the page");
	while (i < ARRAY_SIZE(methods) && strcmp(methods[i].name, name) != 0)
		i++;
	if (i == ARRAY_SIZE(methods))
		return send_error(q->web, q->connection, 404, "the page has no such method");
	if (methods[i].is_change != is_post)
		return send_error(q->web, q->connection, 405,
				  is_post ? "that is asked for with GET" : "that takes a POST");
	if (is_post && !(token && secret_equals(token, session->action_token)))
		return send_error(q->web, q->connection, 403,
				  "what changes something needs the session's action token");
	json_init_object(&p.json, &json);
	q->web->http.get_connection_values(q->connection, MHD_GET_ARGUMENT_KIND, add_param, &p);
	json_end_object(&p.json);
	if (p.wrong || buf_error(&json) < 0)
		return send_error(q->web, q->connection, 400,
				  "a parameter is not known here, or there twice");
	user = web_find_user(q->web, session);
	if (!user)
		return send_error(q->web, q->connection, 503, "the daemon cannot answer now");
	use_user(q, user, REQUEST_WAITS);
	channel_call(user->channel, name, json.data, on_answer, q);
	if (q->state == REQUEST_WAITS) {
		q->is_suspended = true;
		q->web->http.suspend_connection(q->connection);
	}
	return MHD_YES;
}

/* ---- the stream of events ---- */

static ssize_t read_stream(void *ctx, uint64_t pos, char *out, size_t max)
{
	struct request *q = ctx;
	size_t n = 0;

	(void)pos;
	while (n < max) {
		size_t part;

		if (!q->event)
			q->event = channel_read(q->user->channel, &q->next_num);
		if (!q->event)
			break;
		part = q->event->len - q->sent;
		part = part < max - n ? part : max - n;
		memcpy(out + n, q->event->text + q->sent, part);
		n += part;
		q->sent += part;
		if (q->sent == q->event->len) {
			q->event = feed_event_unref(q->event);
			q->sent = 0;
		}
	}
	if (n == 0 && channel_is_broken(q->user->channel))
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == 0) {
		q->is_suspended = true;
		q->web->http.suspend_connection(q->connection);
	}
	return (ssize_t)n;
}

/* Where the page broke off: "FEED-NUMBER", the id of the last event that it has. */
static uint64_t next_num_of(const struct request *q)
{
	const struct channel *channel = q->user->channel;
	const char *id = q->web->http.lookup_connection_value(q->connection, MHD_GET_ARGUMENT_KIND,
							      "after"),
		   *feed = channel_feed_id(channel);
	uint64_t num;

	id = id ?: header_of(q, "Last-Event-ID");

	if (!id)
		return channel_next_num(channel);
	if (strncmp(id, feed, strlen(feed)) == 0 && id[strlen(feed)] == '-' &&
	    num_parse_u64(id + strlen(feed) + 1, &num) == 0 && num < channel_next_num(channel))
		return num + 1;
	return 0; /* another daemon's: the page missed something */
}

static enum MHD_Result open_stream(struct request *q)
{
	const struct session *session = find_session(q);
	struct user *user = session ? web_find_user(q->web, session) : NULL;
	size_t n = 0;

	if (!session)
		return send_error(q->web, q->connection, 401,
				  "no session: \"proctor web\" prints a link to the page");
	for (const struct request *other = q->web->requests; other; other = other->next)
		n += other->user == user && other->state == REQUEST_STREAMS;
	if (!user || n >= MAX_STREAMS_PER_USER)
		return send_error(q->web, q->connection, 503, "too many pages are open");
	use_user(q, user, REQUEST_STREAMS);
	q->next_num = next_num_of(q);
	return send_response(q->web, q->connection, 200,
			     q->web->http.create_response_from_callback(MHD_SIZE_UNKNOWN, 65536,
									read_stream, q, NULL),
			     "text/event-stream", NULL);
}

void http_wake(struct web *web, const struct user *user)
{
	for (struct request *q = web->requests; q; q = q->next)
		if (q->user == user && q->state == REQUEST_STREAMS && q->is_suspended) {
			q->is_suspended = false;
			web->http.resume_connection(q->connection);
		}
	web_run_soon(web);
}

/* ---- requests ---- */

static enum MHD_Result route(struct request *q, const char *url, const char *method)
{
	static const char api[] = "/api/";
	bool is_post = strcmp(method, "POST") == 0;
	const struct session *session;
	const char *why;

	if (!is_post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return send_error(q->web, q->connection, 405, "the page takes GET and POST");
	for (size_t i = 0; i < ARRAY_SIZE(assets); i++)
		if (!is_post && strcmp(url, assets[i].path) == 0)
			return !host_is_local(header_of(q, "Host") ?: "")
				       ? send_error(q->web, q->connection, 403,
						    "the Host header is not a name of this host")
				       : send_response(q->web, q->connection, 200,
						       q->web->http.create_response_from_buffer(
							       assets[i].len,
							       (void *)(uintptr_t)assets[i].data,
							       MHD_RESPMEM_PERSISTENT),
						       assets[i].type, NULL);
	why = why_foreign(q, is_post);
	if (why)
		return send_error(q->web, q->connection, 403, why);
	if (q->has_body)
		return send_error(q->web, q->connection, 413, "a request has no body here");
	if (strcmp(method, "HEAD") == 0)
		return send_error(q->web, q->connection, 405, "that is asked for with GET");
	if (strcmp(url, "/session") == 0 && is_post)
		return open_session(q);
	if (strcmp(url, "/session") == 0) {
		CLEANUP(buf_release) struct buf json = BUF_INIT;

		session = find_session(q);
		if (!session)
			return send_error(q->web, q->connection, 401, "no session");
		write_session(&json, session);
		return send_json(q->web, q->connection, 200, &json, NULL);
	}
	if (strcmp(url, "/events") == 0 && !is_post)
		return open_stream(q);
	if (strncmp(url, api, strlen(api)) == 0)
		return call_method(q, url + strlen(api), is_post);
	return send_error(q->web, q->connection, 404, "there is no such page");
}

/* Called when the headers are there, with each piece of a body, behind that, and when an answer has
 * come. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *body,
				  size_t *body_len, void **request)
{
	struct web *web = ctx;
	struct request *q = *request;

	(void)version;
	(void)body;
	if (!q) {
		q = calloc(1, sizeof(*q));
		if (!q)
			return MHD_NO;
		*q = (struct request){ .web = web, .connection = connection, .json = BUF_INIT };
		*request = q;
		return MHD_YES;
	}
	if (*body_len > 0) {
		q->has_body = true;
		*body_len = 0;
		return MHD_YES;
	}
	if (q->state == REQUEST_ANSWERED)
		return send_json(web, connection, q->status, &q->json, NULL);
	return route(q, url, method);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **request,
			 enum MHD_RequestTerminationCode code)
{
	struct web *web = ctx;
	struct request *q = *request;

	(void)connection;
	(void)code;
	if (!q)
		return;
	if (q->user) {
		LIST_REMOVE(web->requests, q, next);
		channel_abandon(q->user->channel, q);
		q->user->n_requests--;
		q->user->held_bytes -= q->held_bytes;
	}
	web->held_bytes -= q->held_bytes;
	feed_event_unref(q->event);
	buf_release(&q->json);
	free(q);
	*request = NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
			  enum MHD_ConnectionNotificationCode code)
{
	struct web *web = ctx;
	struct client *client = (struct client *)(uintptr_t)client_of(web, connection);

	(void)socket_ctx;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED && client->is_there) {
		client->is_there = false;
		web->n_clients--;
	}
}

/* ---- beginning and end ---- */

static void log_nothing(void *ctx, const char *format, va_list args)
{
	(void)ctx;
	(void)format;
	(void)args;
}

int http_start(struct web *web, struct err *err)
{
	int r = http_library_load(&web->http, err);

	if (r < 0)
		return r;
	web->mhd = web->http.start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
			MHD_USE_ERROR_LOG,
		0, NULL, NULL, on_request, web, MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, web, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, web, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_SECONDS,
		MHD_OPTION_CONNECTION_LIMIT, 1024u, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_END);
	return web->mhd ? 0 : err_set(err, -EIO, "libmicrohttpd does not start");
}

void http_stop(struct web *web)
{
	struct MHD_Daemon *mhd = TAKE_PTR(web->mhd);

	web->mhd_watch = loop_fd_close(web->mhd_watch);
	if (!mhd)
		return;
	/* It must not be stopped while connections are suspended. */
	for (struct request *q = web->requests; q; q = q->next)
		if (q->is_suspended) {
			q->is_suspended = false;
			web->http.resume_connection(q->connection);
		}
	web->http.stop_daemon(mhd);
}
