#include "rpc/outbox.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/macros.h"

/* ---- messages ---- */

#define SHARED_MIN_BYTES (64 * 1024)
#define SHARED_MIN_REFS 4 /* writing the file is as dear as one or two copies */
#define NOT_SHARED_YET (-1)
#define NOT_TO_BE_SHARED (-2)

struct message *message_new(struct buf *line)
{
	CLEANUP(free_ptr) struct message *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	buf_add_char(line, '\n');
	m->n_refs = 1;
	m->fd = NOT_SHARED_YET;
	m->len = line->len;
	m->bytes = buf_detach(line);
	return m->bytes ? TAKE_PTR(m) : NULL;
}

struct message *message_ref(struct message *m)
{
	m->n_refs++;
	return m;
}

struct message *message_unref(struct message *m)
{
	if (!m || --m->n_refs > 0)
		return NULL;
	close_fd(&m->fd);
	free(m->bytes);
	free(m);
	return NULL;
}

void message_unshare(struct message *m)
{
	close_fd(&m->fd);
	m->fd = NOT_TO_BE_SHARED;
}

static int message_queue_push(struct message_queue *q, struct message *m)
{
	size_t cap = q->cap;

	if (q->n == cap) {
		if (ARRAY_RESERVE(q->items, q->cap, q->n + 1) < 0) {
			message_unref(m);
			return -ENOMEM;
		}
		/* It has doubled at least: those at its beginning go behind the others. */
		memcpy(q->items + cap, q->items, q->first * sizeof(struct message *));
	}
	q->items[(q->first + q->n++) % q->cap] = m;
	q->bytes += m->len;
	return 0;
}

static struct message *message_queue_pop(struct message_queue *q)
{
	struct message *m;

	if (q->n == 0)
		return NULL;
	m = q->items[q->first];
	q->first = (q->first + 1) % q->cap;
	q->n--;
	q->bytes -= m->len;
	return m;
}

static void message_queue_release(struct message_queue *q)
{
	while (q->n > 0)
		message_unref(message_queue_pop(q));
	free(q->items);
	*q = (struct message_queue){ 0 };
}

/* {"jsonrpc":"2.0","method":"event","params":{"topic":… */
static void begin_notice(struct json *j, struct buf *line, const char *topic)
{
	json_init(j, line);
	json_begin_object(j);
	json_key_string(j, "jsonrpc", "2.0");
	json_key_string(j, "method", "event");
	json_key_object(j, "params");
	json_key_string(j, "topic", topic);
}

static struct message *end_notice(struct json *j, struct buf *line)
{
	json_end_object(j);
	json_end_object(j);
	return message_new(line);
}

struct message *message_new_event(const char *topic, uint64_t wall_ns, const char *json, size_t len)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct json j;

	if (memchr(json, '\n', len) || buf_reserve(&line, len + 160) < 0)
		return NULL;
	begin_notice(&j, &line, topic);
	json_key_f64(&j, "timestamp", clock_ns_to_seconds(wall_ns));
	json_key(&j, "data");
	json_raw(&j, json, len);
	return end_notice(&j, &line);
}

/* ---- the outbox ---- */

#define BATCH_BYTES (256 * 1024) /* more than a Unix socket takes at once by default */

void outbox_init(struct outbox *o, const struct outbox_limits *limits)
{
	*o = (struct outbox){ .limits = *limits };
}

void outbox_release(struct outbox *o)
{
	message_queue_release(&o->replies);
	message_queue_release(&o->events);
	for (size_t i = 0; i < o->n_writing; i++)
		message_unref(o->writing[i].message);
	o->n_writing = o->written = o->reply_bytes = 0;
}

int outbox_add_reply(struct outbox *o, struct message *m)
{
	size_t len = m->len;
	int r = message_queue_push(&o->replies, m);

	if (r == 0)
		o->reply_bytes += len;
	return r;
}

int outbox_add_event(struct outbox *o, struct message *m)
{
	int r = message_queue_push(&o->events, m);

	while (o->events.n > 1 && (o->events.n > o->limits.max_events ||
				   o->events.bytes > o->limits.max_event_bytes)) {
		message_unref(message_queue_pop(&o->events));
		o->n_lost_unsent++;
		o->n_lost++;
	}
	return r;
}

bool outbox_is_empty(const struct outbox *o)
{
	return o->n_writing == 0 && o->replies.n == 0 && o->events.n == 0;
}

struct message *outbox_half_written(const struct outbox *o)
{
	return o->n_writing > 0 && o->written > 0 ? o->writing[0].message : NULL;
}

static size_t part_of(const struct message *m)
{
	return (m->fd >= 0 ? 2 * m->len : m->len) / m->n_refs;
}

size_t outbox_event_bytes(const struct outbox *o)
{
	size_t sum = 0;

	for (size_t i = 0; i < o->n_writing; i++)
		sum += o->writing[i].is_reply ? 0 : part_of(o->writing[i].message);
	for (size_t i = 0; i < o->events.n; i++)
		sum += part_of(o->events.items[(o->events.first + i) % o->events.cap]);
	return sum;
}

bool outbox_is_full(const struct outbox *o)
{
	return o->events.n >= o->limits.max_events || o->events.bytes >= o->limits.max_event_bytes;
}

/* ---- from the queues to the kernel ---- */

/* Replies first; before an event comes the number of lost ones. -ENOMEM. */
static int fill_batch(struct outbox *o)
{
	size_t bytes = 0;

	for (size_t i = 0; i < o->n_writing; i++)
		bytes += o->writing[i].message->len;
	while (o->n_writing < OUTBOX_BATCH && bytes < BATCH_BYTES &&
	       o->replies.n + o->events.n > 0) {
		CLEANUP(buf_release) struct buf line = BUF_INIT;
		bool is_reply = o->replies.n > 0, is_lost = !is_reply && o->n_lost_unsent > 0;
		struct message *m;
		struct json j;

		if (is_lost) {
			begin_notice(&j, &line, "lost");
			json_key_u64(&j, "count", o->n_lost_unsent);
		}
		m = is_lost ? end_notice(&j, &line)
			    : message_queue_pop(is_reply ? &o->replies : &o->events);
		if (!m)
			return -ENOMEM;
		if (is_lost)
			o->n_lost_unsent = 0;
		bytes += m->len;
		o->writing[o->n_writing].message = m;
		o->writing[o->n_writing++].is_reply = is_reply;
	}
	return 0;
}

static ssize_t send_bytes(const struct outbox *o, int fd)
{
	struct iovec iov[OUTBOX_BATCH];
	struct msghdr header = { .msg_iov = iov, .msg_iovlen = o->n_writing };
	ssize_t n;

	for (size_t i = 0; i < o->n_writing; i++) {
		size_t done = i == 0 ? o->written : 0;
		const struct message *m = o->writing[i].message;

		iov[i] = (struct iovec){ m->bytes + done, m->len - done };
	}
	do
		n = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/*
 * A long message that many wait for goes alone, from a file in memory that it keeps: the kernel
 * hands its pages to all of them, where it would copy the bytes for each. Where there is no room
 * for such a file the message goes as any other.
 */
static ssize_t send_batch(const struct outbox *o, int fd)
{
	struct message *first = o->writing[0].message;
	off_t at = (off_t)o->written;
	ssize_t n;

	if (first->fd == NOT_SHARED_YET && first->len >= SHARED_MIN_BYTES &&
	    first->n_refs >= SHARED_MIN_REFS) {
		CLEANUP(close_fd) int file = memfd_create("proctor-message", MFD_CLOEXEC);

		first->fd = file < 0 || io_write_all(file, first->bytes, first->len) < 0
				    ? NOT_TO_BE_SHARED
				    : TAKE_FD(file);
	}
	if (first->fd < 0)
		return send_bytes(o, fd);
	/* sendfile() has no MSG_NOSIGNAL and no MSG_DONTWAIT: see outbox.h. */
	do
		n = sendfile(fd, first->fd, &at, first->len - o->written);
	while (n < 0 && errno == EINTR);
	n = n < 0 ? -errno : n;
	if (n > 0 || (n == -EAGAIN || n == -EPIPE || n == -ECONNRESET || n == -ENOTCONN))
		return n;
	message_unshare(first);
	return send_bytes(o, fd);
}

/* So many bytes have been written: messages that are through go. */
static void note_written(struct outbox *o, size_t n)
{
	size_t n_done = 0;

	o->written += n;
	while (n_done < o->n_writing && o->written >= o->writing[n_done].message->len) {
		struct message *m = o->writing[n_done].message;

		o->written -= m->len;
		if (o->writing[n_done].is_reply)
			o->reply_bytes -= m->len;
		message_unref(m);
		n_done++;
	}
	o->n_writing -= n_done;
	for (size_t i = 0; i < o->n_writing; i++)
		o->writing[i] = o->writing[i + n_done];
}

ssize_t outbox_write(struct outbox *o, int fd)
{
	ssize_t total = 0, n;

	do {
		int r = fill_batch(o);

		if (r < 0)
			return r;
		n = o->n_writing > 0 ? send_batch(o, fd) : 0;
		if (n < 0)
			return n == -EAGAIN ? total : n;
		note_written(o, (size_t)n);
		total += n;
	} while (n > 0);
	return total;
}
