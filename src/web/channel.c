#include "web/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/num.h"

#define CHUNK_BYTES ((size_t)64 * 1024)
#define MAX_LINE_BYTES ((size_t)65 << 20) /* an answer of the server has 64 MiB at most */

/* A call that has not been answered. */
struct waiting {
	uint64_t id;
	answer_fn *fn;
	void *ctx;
	struct waiting *next;
};

struct channel {
	uid_t uid;
	int fd;
	struct loop_fd *watch;
	struct buf in;
	size_t scanned; /* of in: without a newline */
	struct buf out;
	uint64_t last_id;
	struct waiting *waiting;
	news_fn *news;
	void *ctx;
	bool is_broken;

	char feed_id[17];
	uint64_t next_num;
	struct feed_event *events[FEED_EVENTS]; /* by number; NULL: a newer one replaced it */
	uint64_t first_num;
	uint64_t snapshot_num; /* of the last snapshot, in the feed; 0: none */
	size_t feed_bytes;
};

/* ---- the feed ---- */

struct feed_event *feed_event_unref(struct feed_event *event)
{
	if (event && --event->refs == 0)
		free(event);
	return NULL;
}

static void drop_event(struct channel *c, uint64_t num)
{
	struct feed_event **at = &c->events[num % FEED_EVENTS];

	if (*at)
		c->feed_bytes -= (*at)->len;
	*at = feed_event_unref(*at);
}

static struct feed_event *event_new(const struct channel *c, uint64_t num, const char *topic,
				    size_t topic_len, const char *data, size_t len)
{
	char head[128];
	int n = snprintf(head, sizeof(head), "id: %s-%llu\nevent: %.*s\ndata: ", c->feed_id,
			 (unsigned long long)num, (int)topic_len, topic);
	struct feed_event *event = malloc(sizeof(*event) + (size_t)n + len + 2);

	if (!event)
		return NULL;
	event->refs = 1;
	event->num = num;
	event->len = (size_t)n + len + 2;
	memcpy(event->text, head, (size_t)n);
	memcpy(event->text + n, data, len);
	memcpy(event->text + n + len, "\n\n", 2);
	return event;
}

static void add_event(struct channel *c, const char *topic, size_t topic_len, const char *data,
		      size_t len)
{
	static const char snapshot[] = "snapshot";
	bool is_snapshot = topic_len == strlen(snapshot) && !memcmp(topic, snapshot, topic_len);
	struct feed_event *event = event_new(c, c->next_num, topic, topic_len, data, len);

	if (!event)
		return;
	/* The state of now: the ones before it are of no use to a page. */
	if (is_snapshot && c->snapshot_num >= c->first_num && c->snapshot_num > 0)
		drop_event(c, c->snapshot_num);
	while (c->next_num - c->first_num >= FEED_EVENTS ||
	       (c->first_num < c->next_num && c->feed_bytes + event->len > FEED_BYTES))
		drop_event(c, c->first_num++);
	c->events[c->next_num % FEED_EVENTS] = event;
	c->feed_bytes += event->len;
	if (is_snapshot)
		c->snapshot_num = c->next_num;
	c->next_num++;
}

struct feed_event *channel_read(struct channel *c, uint64_t *num)
{
	struct feed_event *event;

	if (*num < c->first_num || *num > c->next_num) {
		*num = c->next_num;
		return event_new(c, c->next_num - 1, "missed", 6, "{}", 2);
	}
	for (; *num < c->next_num; ++*num) {
		event = c->events[*num % FEED_EVENTS];
		if (!event)
			continue;
		event->refs++;
		++*num;
		return event;
	}
	return NULL;
}

/* ---- what comes ---- */

/* As HTTP has it, of the codes of rpc/value.h. */
static unsigned status_of(int64_t code)
{
	static const struct {
		enum rpc_code code;
		unsigned status;
	} rows[] = {
		{ RPC_INVALID_PARAMS, 400 }, { RPC_METHOD_NOT_FOUND, 404 },
		{ RPC_NOT_ALLOWED, 403 },    { RPC_NOT_FOUND, 404 },
		{ RPC_BUSY, 503 },	     { RPC_TOO_LARGE, 413 },
		{ RPC_TIMED_OUT, 504 },	     { RPC_EXISTS, 409 },
		{ RPC_NOT_SUPPORTED, 501 },  { RPC_ENDING, 503 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].code == code)
			return rows[i].status;
	return 500;
}

/* What the line begins with is left out of it. */
static bool skip(const char **at, const char *end, const char *prefix)
{
	size_t len = strlen(prefix);

	if ((size_t)(end - *at) < len || memcmp(*at, prefix, len) != 0)
		return false;
	*at += len;
	return true;
}

/* The lines are those of our own server, whose members have one order (rpc/server_internal.h). */
static void take_line(struct channel *c, const char *line, size_t len)
{
	static const char tail[] = ",\"id\":";
	const char *at = line, *end = line + len, *id = NULL;
	CLEANUP(buf_release) struct buf json = BUF_INIT;
	struct waiting *w;
	unsigned status = 200;
	uint64_t num;

	if (skip(&at, end, "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":")) {
		const char *topic = at, *quote;

		if (skip(&topic, end, "{\"topic\":\"") &&
		    (quote = memchr(topic, '"', (size_t)(end - topic))))
			add_event(c, topic, (size_t)(quote - topic), at, (size_t)(end - 1 - at));
		return;
	}
	if (skip(&at, end, "{\"jsonrpc\":\"2.0\",\"error\":")) {
		const char *code = at;

		status = skip(&code, end, "{\"code\":") ? status_of(strtoll(code, NULL, 10)) : 500;
	} else if (!skip(&at, end, "{\"jsonrpc\":\"2.0\",\"result\":")) {
		c->is_broken = true;
		return;
	}
	for (id = end - 1; id > at && *id != ',';)
		id--;
	if ((size_t)(end - id) < strlen(tail) + 2 || memcmp(id, tail, strlen(tail)) != 0 ||
	    num_parse_u64_n(id + strlen(tail), (size_t)(end - 1 - id) - strlen(tail), &num) < 0) {
		c->is_broken = true;
		return;
	}
	for (w = c->waiting; w && w->id != num;)
		w = w->next;
	if (!w) /* nobody waits for it any more */
		return;
	LIST_REMOVE(c->waiting, w, next);
	buf_add(&json, at, (size_t)(id - at));
	w->fn(w->ctx, buf_error(&json) < 0 ? 500 : status, &json);
	free(w);
}

static void take_lines(struct channel *c)
{
	size_t begin = 0;

	while (!c->is_broken) {
		char *newline = memchr(c->in.data + c->scanned, '\n', c->in.len - c->scanned);

		if (!newline)
			break;
		take_line(c, c->in.data + begin, (size_t)(newline - c->in.data) - begin);
		begin = c->scanned = (size_t)(newline - c->in.data) + 1;
	}
	if (begin > 0) {
		memmove(c->in.data, c->in.data + begin, c->in.len - begin);
		buf_truncate(&c->in, c->in.len - begin);
	}
	c->scanned = c->in.len;
}

static void flush(struct channel *c)
{
	ssize_t n = c->out.len > 0 ? send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		c->is_broken = true;
	if (n > 0) {
		memmove(c->out.data, c->out.data + n, c->out.len - (size_t)n);
		buf_truncate(&c->out, c->out.len - (size_t)n);
	}
	loop_fd_set_interest(c->watch, LOOP_READABLE | (c->out.len > 0 ? LOOP_WRITABLE : 0));
}

static void fail_all(struct channel *c)
{
	struct waiting *w;

	while ((w = c->waiting)) {
		CLEANUP(buf_release) struct buf json = BUF_INIT;

		c->waiting = w->next;
		buf_add_str(&json, "{\"message\":\"the daemon is ending\"}");
		w->fn(w->ctx, 503, &json);
		free(w);
	}
}

static void on_ready(void *ctx)
{
	struct channel *c = ctx;
	uint64_t next_num = c->next_num;
	ssize_t n;

	if (buf_reserve(&c->in, CHUNK_BYTES) < 0 || c->in.len > MAX_LINE_BYTES) {
		c->is_broken = true;
	} else {
		n = recv(c->fd, c->in.data + c->in.len, CHUNK_BYTES, MSG_DONTWAIT);
		if (n > 0)
			c->in.len += (size_t)n;
		c->in.data[c->in.len] = '\0';
		c->is_broken = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
	}
	if (!c->is_broken)
		take_lines(c);
	if (!c->is_broken)
		flush(c);
	if (c->is_broken) {
		loop_fd_set_interest(c->watch, 0);
		fail_all(c);
	}
	if (c->is_broken || c->next_num != next_num)
		c->news(c->ctx, c->is_broken);
}

/* ---- what is asked ---- */

void channel_call(struct channel *c, const char *method, const char *params, answer_fn *fn,
		  void *ctx)
{
	struct waiting *w = calloc(1, sizeof(*w));
	CLEANUP(buf_release) struct buf json = BUF_INIT;

	if (!w || c->is_broken) {
		free(w);
		buf_add_str(&json, "{\"message\":\"the daemon cannot answer now\"}");
		fn(ctx, 503, &json);
		return;
	}
	*w = (struct waiting){ .id = ++c->last_id, .fn = fn, .ctx = ctx, .next = c->waiting };
	c->waiting = w;
	buf_printf(&c->out, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"%s\",\"params\":%s}\n",
		   (unsigned long long)w->id, method, params);
	flush(c);
}

void channel_abandon(struct channel *c, const void *ctx)
{
	for (struct waiting **at = &c->waiting; *at;) {
		struct waiting *w = *at;

		if (w->ctx != ctx) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		free(w);
	}
}

static void ignore_answer(void *ctx, unsigned status, struct buf *json)
{
	(void)ctx;
	if (status != 200)
		log_warning("the page gets no events: %s", buf_error(json) == 0 ? json->data : "");
}

/* ---- beginning and end ---- */

int channel_new(struct loop *loop, struct rpc_server *server, const struct rpc_peer *peer,
		news_fn *news, void *ctx, struct channel **ret, struct err *err)
{
	struct channel *c = calloc(1, sizeof(*c));
	uint64_t id;
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	*c = (struct channel){ .uid = peer->uid,
			       .fd = -1,
			       .in = BUF_INIT,
			       .out = BUF_INIT,
			       .news = news,
			       .ctx = ctx,
			       .next_num = 1,
			       .first_num = 1 };
	r = getrandom(&id, sizeof(id), 0) == sizeof(id)
		    ? rpc_server_connect(server, peer, &c->fd, err)
		    : err_set(err, -EAGAIN, "no random numbers");
	if (r == 0)
		c->watch = loop_watch_fd(loop, c->fd, on_ready, c);
	if (r == 0 && !c->watch)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		channel_free(c);
		return r;
	}
	snprintf(c->feed_id, sizeof(c->feed_id), "%016llx", (unsigned long long)id);
	channel_call(c, "events.subscribe", "{\"topics\":[\"*\"]}", ignore_answer, NULL);
	*ret = c;
	return 0;
}

struct channel *channel_free(struct channel *c)
{
	if (!c)
		return NULL;
	fail_all(c);
	while (c->first_num < c->next_num)
		drop_event(c, c->first_num++);
	loop_fd_close(c->watch);
	close_fd(&c->fd);
	buf_release(&c->in);
	buf_release(&c->out);
	free(c);
	return NULL;
}

uid_t channel_uid(const struct channel *c)
{
	return c->uid;
}

bool channel_is_broken(const struct channel *c)
{
	return c->is_broken;
}

const char *channel_feed_id(const struct channel *c)
{
	return c->feed_id;
}

uint64_t channel_next_num(const struct channel *c)
{
	return c->next_num;
}
