#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "log/frame.h"
#include "log/log.h"

/* log_sweep() may take a file that has no header yet for one that never gets one. */
#define CREATE_TRIES 3

struct log_writer {
	struct log_fs fs;
	struct log_options options;

	int file; /* the last segment, locked */
	struct segment_header head;
	uint32_t next_index;
	int old_files[LOG_SYNC_FILES - 1]; /* earlier segments, not known to be on the disk */
	size_t n_old;

	/* Frames from the last key that is on the disk on, or less where memory is short. */
	struct buf queue;
	uint64_t queue_base; /* the offset of its first byte */
	uint64_t *keys;	     /* offsets of the key frames in it */
	size_t n_keys, cap_keys;

	uint64_t appended, written, synced; /* offsets behind the last such frame */
	uint64_t durable;		    /* as far as nothing before it is missing on the disk */
	bool has_gap;			    /* so durable stays where it is */
	uint64_t seq;			    /* of the next */
	uint64_t n_lost;
	unsigned n_made, n_made_synced; /* segments whose names the folder has, has on the disk */
	bool wants_key;
	bool is_syncing;    /* its files stay open */
	bool needs_segment; /* a sync failed: all that is not on the disk is written again */
};

static int write_all(struct log_writer *w, int file, const void *bytes, size_t n, uint64_t at)
{
	const char *p = bytes;

	while (n > 0) {
		ssize_t r = w->fs.pwrite(w->fs.ctx, file, p, n, at);

		if (r <= 0)
			return r < 0 ? (int)r : -EIO;
		p += r;
		n -= (size_t)r;
		at += (size_t)r;
	}
	return 0;
}

/*
 * A new segment with these frames. It is locked, and has them, before its header makes it one, and
 * the last one is let go of afterwards: whoever looks finds one of them locked, and no frame less.
 */
static int make_segment(struct log_writer *w, uint64_t base, const void *frames, size_t n,
			int *ret_file, struct segment_header *ret)
{
	struct segment_header head = {
		.origin = w->options.origin,
		.index = w->next_index,
		.end_bytes = (uint32_t)(w->options.end_bytes + FRAME_HEADER_BYTES),
		.base = base,
	};
	uint8_t bytes[SEGMENT_HEADER_BYTES];
	char name[SEGMENT_NAME_BYTES];
	int file, r;

	if (w->next_index == UINT32_MAX)
		return -EOVERFLOW;
	segment_name_format(&head.origin.id, head.index, name);
	file = w->fs.create(w->fs.ctx, name);
	if (file < 0)
		return file;
	w->next_index++;
	segment_header_write(&head, bytes);
	r = w->fs.lock(w->fs.ctx, file);
	if (r == 0)
		r = w->fs.reserve(w->fs.ctx, file, (size_t)segment_data_at(&head));
	if (r == 0)
		r = write_all(w, file, frames, n, segment_data_at(&head));
	if (r == 0)
		r = write_all(w, file, bytes, sizeof(bytes), 0);
	if (r < 0) {
		(void)w->fs.remove(w->fs.ctx, name);
		w->fs.close(w->fs.ctx, file);
		return r;
	}
	w->n_made++;
	*ret_file = file;
	*ret = head;
	return 0;
}

static void close_old(struct log_writer *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w->fs.close(w->fs.ctx, w->old_files[i]);
	w->n_old -= n;
	memmove(w->old_files, w->old_files + n, w->n_old * sizeof(w->old_files[0]));
}

int log_create(const struct log_fs *fs, const struct log_options *options, struct log_writer **ret,
	       struct err *err)
{
	struct log_writer *w;
	int r = -EAGAIN;

	if (options->end_bytes + sizeof(uint64_t) > LOG_END_MAX)
		return err_set(err, -EMSGSIZE, "the end of a log has at most %zu bytes",
			       LOG_END_MAX - sizeof(uint64_t));
	w = malloc(sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	*w = (struct log_writer){
		.fs = *fs,
		.options = *options,
		.next_index = options->first_index,
		.queue = BUF_INIT,
		.queue_base = options->first_offset,
		.appended = options->first_offset,
		.written = options->first_offset,
		.synced = options->first_offset,
		.durable = options->first_offset,
		.seq = options->first_seq,
		.wants_key = true,
	};
	w->options.end_bytes += sizeof(uint64_t); /* where the frames end stands before it */
	if (w->options.segment_bytes == 0)
		w->options.segment_bytes = LOG_SEGMENT_BYTES;
	if (w->options.queue_bytes == 0)
		w->options.queue_bytes = LOG_QUEUE_BYTES;
	for (int i = 0; i < CREATE_TRIES && (r == -EAGAIN || r == -ENOENT); i++)
		r = make_segment(w, w->appended, NULL, 0, &w->file, &w->head);
	if (r < 0) {
		free(w);
		return err_set(err, r, "cannot make a log: %s", strerror(-r));
	}
	*ret = w;
	return 0;
}

struct log_writer *log_writer_free(struct log_writer *w)
{
	if (!w)
		return NULL;
	close_old(w, w->n_old);
	w->fs.close(w->fs.ctx, w->file);
	buf_release(&w->queue);
	free(w->keys);
	free(w);
	return NULL;
}

/* Drops what stands before this offset from memory. */
static void forget_before(struct log_writer *w, uint64_t offset)
{
	size_t n = (size_t)(offset - w->queue_base), n_keys = 0;

	if (n == 0)
		return;
	memmove(w->queue.data, w->queue.data + n, w->queue.len - n);
	buf_truncate(&w->queue, w->queue.len - n);
	w->queue_base = offset;
	while (n_keys < w->n_keys && w->keys[n_keys] < offset)
		n_keys++;
	w->n_keys -= n_keys;
	memmove(w->keys, w->keys + n_keys, w->n_keys * sizeof(*w->keys));
}

/* The last key up to this offset, else the first there is. False: there is none. */
static bool find_key(const struct log_writer *w, uint64_t offset, uint64_t *ret)
{
	if (w->n_keys == 0)
		return false;
	*ret = w->keys[0];
	for (size_t i = 1; i < w->n_keys && w->keys[i] <= offset; i++)
		*ret = w->keys[i];
	return true;
}

/* Frames up to this offset that the last segment does not have yet. */
static int write_up_to(struct log_writer *w, uint64_t offset)
{
	int r;

	if (w->written >= offset)
		return 0;
	r = write_all(w, w->file, w->queue.data + (w->written - w->queue_base),
		      (size_t)(offset - w->written),
		      segment_data_at(&w->head) + (w->written - w->head.base));
	if (r == 0)
		w->written = offset;
	return r;
}

/*
 * After a failed sync: a new segment from the last key on that is on the disk. It overlaps those
 * before it. Where memory was short it begins later, and frames between are in the old segment
 * alone, as far as the disk has them.
 */
static int replace_segment(struct log_writer *w)
{
	struct segment_header head;
	uint64_t base;
	int file, r;

	if (w->is_syncing || !find_key(w, w->synced, &base))
		return write_up_to(w, w->appended); /* later; until then they outlive us there */
	r = write_up_to(w, base);
	if (r == 0)
		r = make_segment(w, base, w->queue.data + (base - w->queue_base),
				 (size_t)(w->appended - base), &file, &head);
	if (r < 0)
		return r;
	close_old(w, w->n_old);
	w->fs.close(w->fs.ctx, w->file);
	w->file = file;
	w->head = head;
	w->written = w->appended;
	w->has_gap = w->has_gap || base > w->synced;
	w->needs_segment = false;
	return 0;
}

static int write_queue(struct log_writer *w)
{
	return w->needs_segment ? replace_segment(w) : write_up_to(w, w->appended);
}

static bool is_segment_full(const struct log_writer *w)
{
	return w->appended - w->head.base >= w->options.segment_bytes;
}

/* Before a key is appended. Where no new segment can be made the log goes on in the last one. */
static void begin_segment_if_full(struct log_writer *w)
{
	struct segment_header head;
	int file;

	if (!is_segment_full(w) || w->needs_segment || w->written != w->appended ||
	    w->n_old == ARRAY_SIZE(w->old_files) ||
	    make_segment(w, w->appended, NULL, 0, &file, &head) < 0)
		return;
	w->old_files[w->n_old++] = w->file;
	w->file = file;
	w->head = head;
}

static bool has_room(struct log_writer *w, size_t n, unsigned flags)
{
	size_t room = flags & LOG_TICK ? w->options.queue_bytes : 2 * w->options.queue_bytes;

	if (w->queue.len + n <= room)
		return true;
	if (!w->needs_segment) /* the kernel has these: memory of them is for a failing disk */
		forget_before(w, w->written);
	return w->queue.len + n <= room || w->queue.len == 0;
}

int log_append(struct log_writer *w, uint8_t type, unsigned flags, const void *bytes, size_t n,
	       struct err *err)
{
	bool is_full;
	size_t len;
	int r;

	if (n > LOG_FRAME_MAX)
		return err_set(err, -EMSGSIZE, "a record has at most %zu bytes", LOG_FRAME_MAX);
	if (w->appended == w->options.first_offset && !(flags & LOG_KEY))
		return err_set(err, -EINVAL, "a log begins with a key record");
	if (flags & LOG_KEY)
		begin_segment_if_full(w);
	is_full = !has_room(w, FRAME_HEADER_BYTES + n, flags);
	len = w->queue.len;
	if (!is_full && ARRAY_RESERVE(w->keys, w->cap_keys, w->n_keys + 1) == 0)
		frame_write(&w->queue, w->seq, type, flags, bytes, n);
	w->seq++;
	if (w->queue.len == len || buf_error(&w->queue) < 0) {
		w->queue.failed = false;
		buf_truncate(&w->queue, len);
		w->n_lost++;
		w->wants_key = true;
		return is_full ? err_set(err, -ENOBUFS,
					 "a record is lost: the disk accepts none, and %zu "
					 "bytes of them wait in memory",
					 len)
			       : err_set(err, -ENOBUFS, "a record is lost: out of memory");
	}
	if (flags & LOG_KEY) {
		w->keys[w->n_keys++] = w->appended;
		w->wants_key = false;
	}
	w->appended += FRAME_HEADER_BYTES + n;
	r = write_queue(w);
	return r < 0 ? err_set(err, r, "cannot write the log: %s", strerror(-r)) : 0;
}

int log_append_frame(struct log_writer *w, const struct log_frame *frame, struct err *err)
{
	if (frame->offset != w->appended || frame->seq < w->seq)
		return err_set(err, -EINVAL, "a frame that does not follow the last one");
	w->seq = frame->seq;
	return log_append(w, frame->type, frame->flags, frame->bytes, frame->n, err);
}

bool log_wants_key(const struct log_writer *w)
{
	return w->wants_key || is_segment_full(w) || (w->needs_segment && w->n_keys == 0);
}

uint64_t log_lost_frames(const struct log_writer *w)
{
	return w->n_lost;
}

uint64_t log_appended(const struct log_writer *w)
{
	return w->appended;
}

uint64_t log_durable(const struct log_writer *w)
{
	return w->durable;
}

static void begin_sync(struct log_writer *w, struct log_sync *ret)
{
	w->is_syncing = true;
	*ret = (struct log_sync){
		.fs = &w->fs,
		.n_files = w->n_old + 1,
		.n_made = w->n_made,
		.with_folder = w->n_made != w->n_made_synced,
		.mark = w->needs_segment ? w->synced : w->written,
	};
	memcpy(ret->files, w->old_files, w->n_old * sizeof(w->old_files[0]));
	ret->files[w->n_old] = w->file;
}

void log_sync_begin(struct log_writer *w, struct log_sync *ret)
{
	(void)write_queue(w);
	begin_sync(w, ret);
}

void log_sync_run(struct log_sync *sync)
{
	const struct log_fs *fs = sync->fs;

	for (size_t i = 0; i < sync->n_files && sync->result == 0; i++)
		sync->result = fs->sync(fs->ctx, sync->files[i]);
	if (sync->result == 0 && sync->with_folder)
		sync->result = fs->sync_folder(fs->ctx);
}

int log_sync_end(struct log_writer *w, const struct log_sync *sync)
{
	uint64_t key;

	w->is_syncing = false;
	if (sync->result < 0) {
		w->needs_segment = true;
		return sync->result;
	}
	if (sync->mark > w->synced)
		w->synced = sync->mark;
	if (!w->has_gap)
		w->durable = w->synced;
	w->n_made_synced = sync->n_made;
	close_old(w, sync->n_files - 1); /* the last was written to, and may be so still */
	if (find_key(w, w->synced, &key) && key <= w->synced)
		forget_before(w, key);
	return 0;
}

/* Where the frames end, and the bytes. */
static int make_end(const struct log_writer *w, const void *bytes, size_t n, struct buf *ret,
		    struct err *err)
{
	CLEANUP(buf_release) struct buf body = BUF_INIT;
	uint64_t appended = htole64(w->appended);

	if (n > log_end_room(w))
		return err_set(err, -EMSGSIZE, "the end of this log has room for %zu bytes",
			       log_end_room(w));
	buf_add(&body, &appended, sizeof(appended));
	buf_add(&body, bytes, n);
	frame_write(ret, w->seq, 0, 0, body.data, body.len);
	if (buf_error(&body) < 0 || buf_error(ret) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/*
 * Into the slot of the last segment. The header goes with it: a failed sync may have cost that,
 * too. On a full disk the end has room though frames have none.
 */
static int write_slot(struct log_writer *w, const struct buf *frame)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	uint8_t header[SEGMENT_HEADER_BYTES];
	int r;

	(void)write_queue(w);
	segment_header_write(&w->head, header);
	buf_add(&bytes, header, sizeof(header));
	buf_add(&bytes, frame->data, frame->len);
	r = buf_error(&bytes);
	return r < 0 ? r : write_all(w, w->file, bytes.data, bytes.len, 0);
}

size_t log_end_room(const struct log_writer *w)
{
	return w->options.end_bytes - sizeof(uint64_t); /* which log_create() has added */
}

int log_write_end(struct log_writer *w, const void *bytes, size_t n, struct log_sync *ret_sync,
		  struct err *err)
{
	CLEANUP(buf_release) struct buf frame = BUF_INIT;
	int r = make_end(w, bytes, n, &frame, err);

	if (r < 0)
		return r;
	r = write_slot(w, &frame);
	if (r < 0)
		return err_set(err, r, "cannot write the end of the log: %s", strerror(-r));
	if (ret_sync)
		begin_sync(w, ret_sync); /* no frame is written behind the end */
	return 0;
}

int log_end(struct log_writer *w, const void *bytes, size_t n, struct err *err)
{
	struct log_sync sync;
	int r = -EIO;

	for (int tries = 0; r < 0 && tries < LOG_END_TRIES; tries++) {
		r = log_write_end(w, bytes, n, &sync, err);
		if (r < 0)
			continue;
		log_sync_run(&sync);
		r = log_sync_end(w, &sync);
		if (r < 0)
			err_set(err, r, "cannot write the end of the log: %s", strerror(-r));
	}
	return r;
}
