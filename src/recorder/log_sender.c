#include "recorder/log_sender.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"

/* In one message, but for a frame that is larger: a socket takes that without being read. */
#define BATCH_BYTES ((size_t)96 << 10)

struct log_sender {
	struct log_reader *reader;
	struct log_id id;
	size_t end_bytes;
	uint64_t from;	 /* the next frame that the daemon lacks, */
	uint64_t behind; /* and that behind those of the last message */
};

int log_sender_open(const struct log_fs *fs, const struct log_id *id, size_t end_bytes,
		    struct log_sender **ret, struct err *err)
{
	struct log_sender *s = malloc(sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	*s = (struct log_sender){ .id = *id, .end_bytes = end_bytes };
	r = log_reader_open(fs, id, &s->reader, err);
	if (r < 0)
		free(s);
	else
		*ret = s;
	return r;
}

struct log_sender *log_sender_close(struct log_sender *s)
{
	if (!s)
		return NULL;
	log_reader_close(s->reader);
	free(s);
	return NULL;
}

/* Frames that stand one behind the other. */
struct batch {
	struct buf bytes;
	uint64_t offset, next;
};

static int add_frame(void *ctx, const struct log_frame *frame)
{
	struct batch *b = ctx;
	size_t n = (size_t)(frame->next - frame->offset);

	if (b->bytes.len > 0 && (frame->offset != b->next || b->bytes.len + n > BATCH_BYTES))
		return 1;
	if (b->bytes.len == 0)
		b->offset = frame->offset;
	log_frame_write(frame, &b->bytes);
	b->next = frame->next;
	return buf_error(&b->bytes);
}

/* Where a segment is gone it goes on with the next. */
static bool read_batch(struct log_sender *s, uint64_t from, struct batch *ret)
{
	struct log_read_result result;

	*ret = (struct batch){ .bytes = BUF_INIT };
	if (log_read(s->reader, from, true, add_frame, ret, &result) < 0)
		buf_reset(&ret->bytes);
	return ret->bytes.len > 0;
}

static void write_batch(struct json *j, const struct batch *b)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	buf_add_base64(&text, b->bytes.data, b->bytes.len);
	json_key_u64(j, "offset", b->offset);
	if (text.len > 0)
		json_key_string(j, "frames", text.data);
}

void log_sender_write_hello(struct log_sender *s, struct json *j)
{
	struct batch batch;
	char id[LOG_ID_TEXT_BYTES];

	read_batch(s, 0, &batch);
	log_id_format(&s->id, id);
	json_key_string(j, "log", id);
	json_key_u64(j, "end_bytes", s->end_bytes);
	write_batch(j, &batch);
	buf_release(&batch.bytes);
}

void log_sender_begin(struct log_sender *s, uint64_t from)
{
	s->from = s->behind = from;
}

bool log_sender_next(struct log_sender *s, uint64_t appended, struct buf *ret)
{
	struct batch batch;
	struct json j;
	bool has_some = read_batch(s, s->from, &batch);

	if (!has_some && s->from < appended && log_refresh(s->reader) == 0)
		has_some = read_batch(s, s->from, &batch);
	if (has_some) {
		buf_reset(ret);
		json_init(&j, ret);
		json_begin_object(&j);
		write_batch(&j, &batch);
		json_end_object(&j);
		s->behind = batch.next;
	}
	buf_release(&batch.bytes);
	return has_some && buf_error(ret) == 0;
}

void log_sender_accept(struct log_sender *s)
{
	s->from = s->behind;
}

static int write_end(void *ctx, const struct log_frame *end)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json *j = ctx;

	buf_add_base64(&text, end->bytes, end->n);
	json_key_string(j, "end", text.data);
	return buf_error(&text);
}

static int call(struct rpc_client *client, const char *params, uint64_t until_boot_ns)
{
	uint64_t now = clock_boot_ns();

	if (now >= until_boot_ns) /* it may read it when it goes on */
		return rpc_client_notify(client, "runner.frames", params, NULL) < 0 ? -ECONNRESET
										    : -ETIMEDOUT;
	rpc_client_set_timeout(client, (until_boot_ns - now) / 1000000 + 1);
	return rpc_client_call(client, "runner.frames", params, NULL, NULL);
}

int log_sender_finish(struct log_sender *s, struct rpc_client *client, uint64_t until_boot_ns)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;
	int r = 0;

	while (r == 0 && log_sender_next(s, 0, &params)) {
		r = call(client, params.data, until_boot_ns);
		if (r == 0)
			log_sender_accept(s);
	}
	if (r < 0)
		return r;
	buf_reset(&params);
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_u64(&j, "offset", s->from);
	r = log_read_end(s->reader, false, write_end, &j);
	json_end_object(&j);
	if (r <= 0 || buf_error(&params) < 0)
		return r < 0 ? r : -ENODATA;
	return call(client, params.data, until_boot_ns);
}

void log_sender_hold(struct log_sender *s)
{
	(void)log_refresh(s->reader);
}

size_t log_sender_files(const struct log_sender *s, int *ret, size_t max)
{
	return log_reader_files(s->reader, ret, max);
}
