#include "rpc/outbox.h"

#include <errno.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/json.h"
#include "rpc/notice.h"

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

static bool is_over(const struct outbox *o)
{
	return o->events.n > o->limits.max_events || o->events.bytes > o->limits.max_event_bytes;
}

int outbox_add_event(struct outbox *o, struct message *m)
{
	int r = message_queue_push(&o->events, m);

	while (o->events.n > 1 && is_over(o)) {
		message_unref(message_queue_pop(&o->events));
		o->n_lost_untold++;
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

bool outbox_is_full(const struct outbox *o)
{
	return o->events.n >= o->limits.max_events || o->events.bytes >= o->limits.max_event_bytes;
}

/* ---- from the queues to the kernel ---- */

static struct message *take_lost(struct outbox *o)
{
	struct message *m = notice_lost(o->n_lost_untold);

	if (m)
		o->n_lost_untold = 0;
	return m;
}

/* The next one to be written, out of its queue; NULL: none, or no memory. */
static struct message *take_next(struct outbox *o, bool *ret_is_reply)
{
	*ret_is_reply = o->replies.n > 0;
	if (o->replies.n > 0)
		return message_queue_pop(&o->replies);
	if (o->events.n > 0 && o->n_lost_untold > 0)
		return take_lost(o);
	return message_queue_pop(&o->events);
}

static int fill_batch(struct outbox *o)
{
	size_t bytes = 0;

	for (size_t i = 0; i < o->n_writing; i++)
		bytes += o->writing[i].message->len;
	while (o->n_writing < OUTBOX_BATCH && bytes < BATCH_BYTES &&
	       o->replies.n + o->events.n > 0) {
		bool is_reply;
		struct message *m = take_next(o, &is_reply);

		if (!m)
			return -ENOMEM;
		bytes += m->len;
		o->writing[o->n_writing].message = m;
		o->writing[o->n_writing++].is_reply = is_reply;
	}
	return 0;
}

/* sendfile() has no MSG_NOSIGNAL and no MSG_DONTWAIT: see outbox.h. */
static ssize_t send_file(const struct outbox *o, int file_fd, int fd)
{
	off_t at = (off_t)o->written;
	ssize_t n;

	do
		n = sendfile(fd, file_fd, &at, o->writing[0].message->len - o->written);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static bool is_gone_or_full(ssize_t r)
{
	return r == -EAGAIN || r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN;
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

/* A long message that many wait for goes alone, and without being copied for each. */
static ssize_t send_batch(const struct outbox *o, int fd)
{
	struct message *first = o->writing[0].message;
	int file_fd = message_share(first);
	ssize_t n;

	if (file_fd < 0)
		return send_bytes(o, fd);
	n = send_file(o, file_fd, fd);
	if (n > 0 || is_gone_or_full(n))
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
