#include "rpc/message.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/io.h"

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

static int make_file(const struct message *m)
{
	CLEANUP(close_fd) int fd = memfd_create("proctor-message", MFD_CLOEXEC);

	if (fd < 0 || io_write_all(fd, m->bytes, m->len) < 0)
		return NOT_TO_BE_SHARED;
	return TAKE_FD(fd);
}

int message_share(struct message *m)
{
	if (m->fd == NOT_SHARED_YET && m->len >= SHARED_MIN_BYTES && m->n_refs >= SHARED_MIN_REFS)
		m->fd = make_file(m);
	return m->fd >= 0 ? m->fd : -1;
}

void message_unshare(struct message *m)
{
	close_fd(&m->fd);
	m->fd = NOT_TO_BE_SHARED;
}

size_t message_held_bytes(const struct message *m)
{
	return m->fd >= 0 ? 2 * m->len : m->len;
}

void message_queue_release(struct message_queue *q)
{
	while (q->n > 0)
		message_unref(message_queue_pop(q));
	free(q->items);
	*q = (struct message_queue){ 0 };
}

static int message_queue_grow(struct message_queue *q)
{
	size_t cap = q->cap ? q->cap * 2 : 4;
	struct message **items = calloc(cap, sizeof(*items));

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < q->n; i++)
		items[i] = q->items[(q->first + i) % q->cap];
	free(q->items);
	q->items = items;
	q->first = 0;
	q->cap = cap;
	return 0;
}

int message_queue_push(struct message_queue *q, struct message *m)
{
	if (q->n == q->cap && message_queue_grow(q) < 0) {
		message_unref(m);
		return -ENOMEM;
	}
	q->items[(q->first + q->n++) % q->cap] = m;
	q->bytes += m->len;
	return 0;
}

struct message *message_queue_pop(struct message_queue *q)
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
