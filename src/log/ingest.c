#include <errno.h>

#include "log/log.h"

/* What an end says of where it stands is not believed beyond this. */
#define LOG_LOST_MAX (UINT64_C(1) << 40)

struct ingest {
	const struct log_sink *sink;
	uint64_t stored; /* frames before this offset are */
	size_t left;	 /* bytes that this call may take; SIZE_MAX: any */
	bool is_stopped;
	bool has_frames;
};

static int on_frame(void *ctx, const struct log_frame *frame)
{
	struct ingest *in = ctx;
	size_t bytes = (size_t)(frame->next - frame->offset);

	in->has_frames = true;
	if (in->left == 0) {
		in->is_stopped = true;
		return 1;
	}
	if (in->left != SIZE_MAX)
		in->left -= bytes < in->left ? bytes : in->left;
	return in->sink->frame(in->sink->ctx, frame, true);
}

static int on_stored(void *ctx, const struct log_frame *frame)
{
	struct ingest *in = ctx;

	if (frame->offset >= in->stored)
		return 1;
	return in->sink->frame(in->sink->ctx, frame, false);
}

/* The end stands where frames may be missing before it: the sink learns where they should end. */
static int on_end(void *ctx, const struct log_frame *end)
{
	struct ingest *in = ctx;

	return in->sink->end(in->sink->ctx, end);
}

static int note_end(void *ctx, const struct log_frame *end)
{
	*(uint64_t *)ctx = end->offset;
	return 0;
}

static int ingest(struct log_reader *r, struct ingest *in, struct log_cursor *ret)
{
	const struct log_sink *sink = in->sink;
	const struct log_origin *origin = log_reader_origin(r);
	struct log_cursor from = { 0 };
	struct log_read_result read;
	uint64_t end = 0, key;
	int alive, has_end, result = sink->find(sink->ctx, origin, &from);

	if (result < 0 && result != -ENOENT)
		return result;
	*ret = from;
	if (from.is_over)
		return 0;
	/* In this order: a recorder that is dead adds no end, and an end comes behind all frames.
	 */
	alive = log_is_alive(r);
	if (alive < 0)
		return alive;
	if (!alive) { /* where another may go on, what is not whole may still become so */
		int gone = sink->is_gone(sink->ctx, origin);

		if (gone < 0)
			return gone;
		alive = !gone;
	}
	has_end = log_read_end(r, alive, note_end, &end);
	if (has_end < 0)
		return has_end;
	in->stored = from.offset;
	key = log_key_before(r, from.offset);
	if (key < from.offset && !from.is_ready) { /* only needed to decode what follows */
		result = log_read(r, key, alive && !has_end, on_stored, in, &read);
		if (result < 0)
			return result;
	}
	result = log_read(r, from.offset, alive && !has_end, on_frame, in, &read);
	if (result < 0)
		return result;
	ret->offset = read.next;
	if (in->is_stopped) {
		result = 1;
	} else if (has_end) {
		if (end > ret->offset && end - ret->offset <= LOG_LOST_MAX)
			read.lost_bytes += end - ret->offset;
		result = log_read_end(r, alive, on_end, in);
		if (result < 0)
			return result;
		ret->is_over = true;
		result = 0;
	} else if (!alive) {
		int gone = sink->is_gone(sink->ctx, origin);

		result = gone > 0 ? sink->lost(sink->ctx) : gone;
		if (result < 0)
			return result;
		ret->is_over = gone > 0;
		/* Without a frame its command never began: nothing is stored of it. */
		if (ret->is_over && from.offset == 0 && !in->has_frames && read.lost_bytes == 0)
			return 0;
	}
	if (ret->offset != from.offset || ret->is_over) {
		int moved = sink->move(sink->ctx, origin, &from, ret, read.lost_bytes);

		if (moved < 0)
			return moved;
	}
	return result;
}

int log_ingest(const struct log_fs *fs, const struct log_id *id, const struct log_sink *sink,
	       size_t max_bytes, struct log_cursor *ret, struct err *err)
{
	struct ingest in = { .sink = sink, .left = max_bytes ? max_bytes : SIZE_MAX };
	struct log_reader *r;
	int result = log_reader_open(fs, id, &r, err);

	if (result < 0)
		return result;
	result = ingest(r, &in, ret);
	log_reader_close(r);
	if (result < 0)
		return err_set(err, result, "cannot store what a log has");
	return result;
}
