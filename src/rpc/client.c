#include "rpc/client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "rpc/value.h"
#include "rpc/lines.h"
#include "rpc/listen.h"

/* ---- the wire: a socket that is written to and read from with a deadline ---- */

struct wire {
	int fd;
	struct lines lines;
};

#define NS_PER_MS UINT64_C(1000000)
#define CONNECT_RETRY_MS 10

/* On the boot clock; UINT64_MAX ms is no deadline. */
static uint64_t wire_deadline(uint64_t timeout_ms)
{
	uint64_t now_ns = clock_boot_ns();

	if (timeout_ms > (UINT64_MAX - now_ns) / NS_PER_MS)
		return UINT64_MAX;
	return now_ns + timeout_ms * NS_PER_MS;
}

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now_ns = clock_boot_ns(), ms = 0;
	int r;

	/* Rounded up, so that the time is over when poll() returns 0. */
	if (deadline_ns > now_ns)
		ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	r = poll(&p, 1, deadline_ns == UINT64_MAX ? -1 : ms > INT_MAX ? INT_MAX : (int)ms);
	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r == 0 && clock_boot_ns() >= deadline_ns ? -ETIMEDOUT : 0;
}

struct rpc_client {
	struct wire wire;
	pid_t daemon_pid;
	uid_t daemon_uid;
	uint64_t timeout_ms;
	rpc_event_fn *on_event;
	const char *text_topic;
	rpc_text_fn *on_text;
	rpc_answer_fn *on_answer;
	void *ctx;
	int text_r; /* what on_text said to the last line that was for it */
	uint64_t last_id;
	bool is_dead;		   /* the order of lines is lost: nothing can be asked any more */
	struct rpc_value *failure; /* the answer to the last call, if that was an error */
};

/* ---- connecting ---- */

/*
 * Connects, and makes sure that the listener is root or this user. Waits until
 * the deadline if too many others are waiting. -EPERM, -ETIMEDOUT, errno of connect().
 */
static int wire_connect(struct rpc_client *client, const char *path, uint64_t deadline_ns,
			struct err *err)
{
	CLEANUP(rpc_peer_release) struct rpc_peer peer = { 0 };
	CLEANUP(close_fd) int fd = -1;
	struct address address;
	int r;

	r = address_of_path(path, &address, err);
	if (r < 0)
		return r;
	/* A Unix socket does not say when there is room among those who wait. */
	while ((fd = address_connect(&address)) == -EAGAIN || fd == -EINTR) {
		uint64_t now_ns = clock_boot_ns(), ns = CONNECT_RETRY_MS * NS_PER_MS;

		if (now_ns >= deadline_ns)
			return err_set(err, -ETIMEDOUT, "cannot connect to %s: %s", path,
				       strerror(ETIMEDOUT));
		ns = deadline_ns - now_ns < ns ? deadline_ns - now_ns : ns;
		nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
	}
	if (fd < 0)
		return err_set(err, fd, "cannot connect to %s: %s", path, strerror(-fd));
	r = rpc_peer_read(fd, &peer, err);
	if (r < 0)
		return r;
	if (peer.uid != 0 && peer.uid != geteuid())
		return err_set(err, -EPERM,
			       "on %s listens uid %u, who is neither root nor this user", path,
			       (unsigned)peer.uid);
	client->daemon_pid = peer.pid;
	client->daemon_uid = peer.uid;
	client->wire.fd = TAKE_FD(fd);
	return 0;
}

/* ---- writing and reading ---- */

/* All of it. -ETIMEDOUT: a part may have been written. */
static int wire_write(struct wire *w, const char *bytes, size_t n, uint64_t deadline_ns)
{
	while (n > 0) {
		ssize_t done = send(w->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		int r = 0;

		if (done >= 0) {
			bytes += done;
			n -= (size_t)done;
		} else if (errno == EAGAIN) {
			r = wait_for(w->fd, POLLOUT, deadline_ns);
		} else if (errno != EINTR) {
			r = errno == EPIPE ? -ECONNRESET : -errno;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* The next line, valid until the next call. -ETIMEDOUT, -ECONNRESET: it has ended, -EMSGSIZE. */
static int wire_read(struct wire *w, uint64_t deadline_ns, const char **ret_line, size_t *ret_len)
{
	for (;;) {
		char chunk[RPC_CLIENT_CHUNK_BYTES];
		int r = lines_next(&w->lines, ret_line, ret_len);
		ssize_t n;

		if (r != 0)
			return r < 0 ? r : 0;
		n = recv(w->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		if (n > 0)
			r = lines_add(&w->lines, chunk, (size_t)n);
		else if (n == 0)
			r = -ECONNRESET;
		else if (errno == EAGAIN)
			r = wait_for(w->fd, POLLIN, deadline_ns);
		else if (errno != EINTR)
			r = -errno;
		if (r < 0)
			return r;
	}
}

/* To the value of this key; those before it are passed over, but for one that must be this text,
 * without escapes. */
static bool go_to(struct json_cursor *c, const char *key, const char *before, const char *wanted)
{
	const char *name, *text;
	size_t n, len = strlen(wanted);
	bool is_right = false;

	if (!json_cursor_enter(c, '{'))
		return false;
	while (json_cursor_next_key(c, &name, &n)) {
		if (json_cursor_is(name, n, key))
			return is_right;
		if (json_cursor_is(name, n, "result"))
			return false; /* an answer, and a long one perhaps */
		if (!json_cursor_is(name, n, before)) {
			json_cursor_skip(c);
			continue;
		}
		json_cursor_value(c, &text, &n);
		is_right = n == len + 2 && text[0] == '"' && memcmp(text + 1, wanted, len) == 0;
	}
	return false;
}

/* ---- the client ---- */

#define DEFAULT_TIMEOUT_MS 10000
#define DEFAULT_LINE_BYTES \
	((size_t)65 * 1024 * 1024) /* the longest answer, and what is around it */

/* Larger than for requests: a report of a job with many processes is one answer. */
static const struct rpc_value_limits limits = { .max_depth = 256, .max_values = 8000000 };

/* ---- opening ---- */

static bool is_absent(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR;
}

/*
 * Where nothing is, the next place is tried. Another failure is reported if no other place has a
 * daemon; else all that were tried, as only the caller knows which of them matters.
 */
static int find_daemon(struct rpc_client *client, uint64_t deadline_ns, struct err *err)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct socket_paths paths;
	struct err first = ERR_INIT;
	struct stat st;
	int r = socket_paths_find(&paths, err);

	for (size_t i = 0; r == 0 && i < paths.n; i++) {
		bool is_between = i > 0 && i + 1 < paths.n; /* neither named, nor the system's */
		struct err why = ERR_INIT;

		if (wire_connect(client, paths.items[i], deadline_ns, &why) == 0)
			return 0;
		/* A directory that this user may not enter is somebody else's, as HOME may be. */
		if (is_between && why.code == -EACCES && lstat(paths.items[i], &st) < 0 &&
		    errno == EACCES)
			continue;
		if (!is_absent(why.code) && first.code == 0)
			first = why;
	}
	if (r < 0)
		return r;
	if (first.code < 0)
		return err_set(err, first.code, "%s", first.text);
	for (size_t i = 0; i < paths.n; i++)
		buf_printf(&all, "%s%.150s", i > 0 ? ", nor on " : "", paths.items[i]);
	return err_set(err, -ENOENT, "no daemon is running (nobody listens on %s)",
		       all.len > 0 ? all.data : "");
}

static void cleanup_client(struct rpc_client **client)
{
	*client = rpc_client_close(*client);
}

int rpc_client_open(const struct rpc_client_options *options, struct rpc_client **ret,
		    struct err *err)
{
	CLEANUP(cleanup_client) struct rpc_client *client = calloc(1, sizeof(*client));
	size_t max_bytes = options->max_line_bytes ? options->max_line_bytes : DEFAULT_LINE_BYTES;
	uint64_t deadline_ns;
	int r;

	if (!client)
		return err_set(err, -ENOMEM, "out of memory");
	client->wire.fd = -1;
	client->wire.lines = (struct lines)LINES_INIT(max_bytes);
	client->timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
	client->on_event = options->on_event;
	client->text_topic = options->text_topic;
	client->on_text = options->on_text;
	client->on_answer = options->on_answer;
	client->ctx = options->ctx;
	deadline_ns = wire_deadline(client->timeout_ms);
	r = options->path ? wire_connect(client, options->path, deadline_ns, err)
			  : find_daemon(client, deadline_ns, err);
	if (options->path && is_absent(r))
		return err_set(err, -ENOENT, "no daemon is running (nobody listens on %s)",
			       options->path);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(client);
	return 0;
}

struct rpc_client *rpc_client_close(struct rpc_client *client)
{
	if (!client)
		return NULL;
	rpc_value_free(client->failure);
	close_fd(&client->wire.fd);
	lines_release(&client->wire.lines);
	free(client);
	return NULL;
}

void rpc_client_set_timeout(struct rpc_client *client, uint64_t timeout_ms)
{
	client->timeout_ms = timeout_ms;
}

int rpc_client_fd(const struct rpc_client *client)
{
	return client->wire.fd;
}

pid_t rpc_client_daemon_pid(const struct rpc_client *client)
{
	return client->daemon_pid;
}

uid_t rpc_client_daemon_uid(const struct rpc_client *client)
{
	return client->daemon_uid;
}

/* ---- sending ---- */

static int fail(struct rpc_client *client, int r, struct err *err)
{
	if (r == -ETIMEDOUT)
		return err_set(err, r, "the daemon did not answer in time");
	client->is_dead = true;
	if (r == -ECONNRESET)
		return err_set(err, r, "the daemon has closed the connection");
	if (r == -EMSGSIZE)
		return err_set(err, r, "the daemon's answer is longer than %zu bytes",
			       client->wire.lines.max_bytes);
	return err_set(err, r, "cannot talk to the daemon: %s", strerror(-r));
}

/* id 0: a notification. */
static int send_request(struct rpc_client *client, uint64_t id, const char *method,
			const char *params, uint64_t deadline_ns, struct err *err)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct json j;
	int r;

	if (client->is_dead)
		return err_set(err, -ENOTCONN, "the connection to the daemon is lost");
	if (params && strchr(params, '\n'))
		return err_set(err, -EINVAL, "the params of %s are more than one line", method);
	json_init_object(&j, &line);
	json_key_string(&j, "jsonrpc", "2.0");
	json_key_string(&j, "method", method);
	if (params) {
		json_key(&j, "params");
		json_raw(&j, params, strlen(params));
	}
	if (id > 0)
		json_key_u64(&j, "id", id);
	json_end_object(&j);
	buf_add_char(&line, '\n');
	if (buf_error(&line) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = wire_write(&client->wire, line.data, line.len, deadline_ns);
	if (r == 0)
		return 0;
	client->is_dead = true; /* half of it may be there */
	/* A daemon that sends clients away says why before it closes: what it said can be read. */
	return r == -ECONNRESET && id > 0 ? 0 : fail(client, r, err);
}

/* ---- what comes back ---- */

/* NULL: it was for on_text, and is dealt with. */
static int read_message(struct rpc_client *client, uint64_t deadline_ns, struct rpc_value **ret,
			struct err *err)
{
	struct json_cursor data;
	const char *line;
	size_t len;
	int r;

	r = wire_read(&client->wire, deadline_ns, &line, &len);
	if (r < 0)
		return fail(client, r, err);
	*ret = NULL;
	/* Only lines as the daemon writes them, in which the topic comes before the data. */
	json_cursor_init(&data, line, len);
	if (client->text_topic && go_to(&data, "params", "method", "event") &&
	    go_to(&data, "data", "topic", client->text_topic)) {
		client->text_r = client->on_text(client->ctx, &data);
		return 0;
	}
	r = rpc_value_parse(line, len, &limits, ret, err);
	if (r < 0)
		client->is_dead = true;
	return r;
}

/* Non-zero is what the handler wants; a message that was handed on as text is NULL. */
static int take_event(struct rpc_client *client, const struct rpc_value *message)
{
	const char *method = rpc_value_string(rpc_value_get(message, "method"));

	if (!message)
		return client->text_r;
	if (!method || strcmp(method, "event") != 0 || !client->on_event)
		return 0;
	return client->on_event(client->ctx, rpc_value_get(message, "params"));
}

/* The daemon's sentence, and the errno of its code. */
static int read_error(const struct rpc_value *error, struct err *err)
{
	const char *text = rpc_value_string(rpc_value_get(error, "message"));

	return err_set(err, rpc_errno_of(rpc_value_i64(rpc_value_get(error, "code"), 0)), "%s",
		       text ? text : "the daemon said that something failed");
}

/* One that was asked for with rpc_client_ask(). False: it is no answer. */
static bool hand_on_answer(struct rpc_client *client, const struct rpc_value *message)
{
	const struct rpc_value *error = rpc_value_get(message, "error");
	const struct rpc_value *result = rpc_value_get(message, "result");
	uint64_t id = rpc_value_u64(rpc_value_get(message, "id"));
	struct err err = ERR_INIT;
	int r;

	if (!client->on_answer || !u64_known(id) || (!error && !result))
		return false;
	r = error ? read_error(error, &err) : 0;
	client->on_answer(client->ctx, id, r, result, &err);
	return true;
}

int rpc_client_call(struct rpc_client *client, const char *method, const char *params,
		    struct rpc_value **ret, struct err *err)
{
	uint64_t deadline_ns = wire_deadline(client->timeout_ms), id = ++client->last_id;
	int r;

	client->failure = rpc_value_free(client->failure);
	r = send_request(client, id, method, params, deadline_ns, err);
	while (r == 0) {
		struct rpc_value *message = NULL, *result;
		const struct rpc_value *its_id, *error;

		r = read_message(client, deadline_ns, &message, err);
		if (r < 0)
			break;
		its_id = rpc_value_get(message, "id");
		error = rpc_value_get(message, "error");
		/* An error without an id is about our request too: only one is under way. */
		if (message &&
		    (rpc_value_u64(its_id) == id || (rpc_value_is_null(its_id) && error))) {
			/* Takes over the answer. */
			if (error) {
				client->failure = message;
				return read_error(error, err);
			}
			result = rpc_value_take(message, "result");
			if (!result)
				return err_set(err, -EBADMSG,
					       "the daemon's answer has neither result nor error");
			if (ret)
				*ret = result;
			else
				rpc_value_free(result);
			return 0;
		}
		if (!hand_on_answer(client, message))
			(void)take_event(client, message);
		rpc_value_free(message);
		/* Lines may come for ever without the one that is awaited. */
		if (clock_boot_ns() >= deadline_ns)
			r = fail(client, -ETIMEDOUT, err);
	}
	return r;
}

int rpc_client_ask(struct rpc_client *client, const char *method, const char *params,
		   uint64_t *ret_id, struct err *err)
{
	uint64_t id = ++client->last_id;
	int r = send_request(client, id, method, params, wire_deadline(client->timeout_ms), err);

	if (r == 0)
		*ret_id = id;
	return r;
}

int rpc_client_notify(struct rpc_client *client, const char *method, const char *params,
		      struct err *err)
{
	return send_request(client, 0, method, params, wire_deadline(client->timeout_ms), err);
}

long long rpc_client_error_code(const struct rpc_client *client)
{
	return rpc_value_i64(rpc_value_get(rpc_value_get(client->failure, "error"), "code"), 0);
}

const struct rpc_value *rpc_client_error_data(const struct rpc_client *client)
{
	return rpc_value_get(rpc_value_get(client->failure, "error"), "data");
}

int rpc_client_listen(struct rpc_client *client, uint64_t timeout_ms, struct err *err)
{
	uint64_t deadline_ns = wire_deadline(timeout_ms);

	for (;;) {
		struct rpc_value *message = NULL;
		int r = client->is_dead ? fail(client, -ECONNRESET, err)
					: read_message(client, deadline_ns, &message, err);

		if (r < 0)
			return r;
		r = hand_on_answer(client, message) ? 0 : take_event(client, message);
		rpc_value_free(message);
		if (r != 0)
			return r;
		/* What was read is handed out; but lines may come for ever. */
		if (!lines_has_line(&client->wire.lines) && clock_boot_ns() >= deadline_ns)
			return fail(client, -ETIMEDOUT, err);
	}
}
