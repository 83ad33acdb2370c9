#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "log/frame.h"
#include "log/log.h"

#define WINDOW_BYTES ((size_t)256 << 10) /* read at once */

/* Frames that are no frames may have been made to take long: checksums over so much of them. */
#define RESYNC_BYTES ((size_t)64 << 20)

#define LIVENESS_TRIES 8
#define SWEEP_SECONDS 3600.0
#define SWEEP_DAMAGED_SECONDS (30 * 86400.0) /* or of another format */

struct segment {
	struct segment_header head;
	int file;
};

struct log_reader {
	struct log_fs fs;
	struct log_id id;
	struct segment *segments; /* by index */
	size_t n, cap;
	uint8_t *window;
	size_t window_cap;
	bool has_locked_rest; /* a file without a header that makes sense is locked */
};

/* Returns how many bytes there are: n, or fewer at the end of the file. */
static ssize_t read_at(const struct log_fs *fs, int file, uint8_t *bytes, size_t n, uint64_t at)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = fs->pread(fs->ctx, file, bytes + have, n - have, at + have);

		if (got < 0)
			return got;
		if (got == 0)
			break;
		have += (size_t)got;
	}
	return (ssize_t)have;
}

static int read_header(const struct log_fs *fs, int file, struct segment_header *ret)
{
	uint8_t bytes[SEGMENT_HEADER_BYTES];
	ssize_t n = read_at(fs, file, bytes, sizeof(bytes), 0);

	if (n < (ssize_t)sizeof(bytes))
		return n < 0 ? (int)n : -EBADMSG;
	return segment_header_read(bytes, ret);
}

static bool is_segment_of(const char *name, const struct log_id *wanted, uint32_t *ret_index)
{
	struct log_id id;

	return segment_name_parse(name, &id, ret_index) == 0 &&
	       memcmp(&id, wanted, sizeof(id)) == 0;
}

static int by_index(const void *a, const void *b)
{
	return COMPARE(((const struct segment *)a)->head.index,
		       ((const struct segment *)b)->head.index);
}

/* One without a header is being made, or its recorder died before it was. */
static int add_segment(void *ctx, const char *name)
{
	struct log_reader *r = ctx;
	struct segment s;
	uint32_t index;
	int result;

	if (!is_segment_of(name, &r->id, &index))
		return 0;
	for (size_t i = 0; i < r->n; i++)
		if (r->segments[i].head.index == index)
			return 0;
	if (ARRAY_RESERVE(r->segments, r->cap, r->n + 1) < 0)
		return -ENOMEM;
	s.file = r->fs.open(r->fs.ctx, name);
	if (s.file == -ENOENT)
		return 0;
	if (s.file < 0)
		return s.file;
	result = read_header(&r->fs, s.file, &s.head);
	if (result == 0 &&
	    (s.head.index != index || memcmp(&s.head.origin.id, &r->id, sizeof(r->id)) != 0))
		result = -EBADMSG;
	if (result == -EBADMSG && r->fs.is_locked(r->fs.ctx, s.file) == 1)
		r->has_locked_rest = true; /* its recorder lives, whatever the header says */
	if (result < 0) {
		r->fs.close(r->fs.ctx, s.file);
		return result == -EBADMSG ? 0 : result;
	}
	r->segments[r->n++] = s;
	return 0;
}

int log_refresh(struct log_reader *r)
{
	int result;

	r->has_locked_rest = false;
	result = r->fs.list(r->fs.ctx, add_segment, r);
	if (r->n > 0)
		qsort(r->segments, r->n, sizeof(*r->segments), by_index);
	return result;
}

int log_reader_open(const struct log_fs *fs, const struct log_id *id, struct log_reader **ret,
		    struct err *err)
{
	struct log_reader *r = malloc(sizeof(*r));
	char text[LOG_ID_TEXT_BYTES];
	int result;

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	*r = (struct log_reader){ .fs = *fs, .id = *id };
	result = log_refresh(r);
	if (result == 0 && r->n == 0)
		result = -ENOENT;
	if (result < 0) {
		log_reader_close(r);
		log_id_format(id, text);
		return err_set(err, result, "cannot read the log %s: %s", text, strerror(-result));
	}
	*ret = r;
	return 0;
}

struct log_reader *log_reader_close(struct log_reader *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->n; i++)
		r->fs.close(r->fs.ctx, r->segments[i].file);
	free(r->segments);
	free(r->window);
	free(r);
	return NULL;
}

const struct log_origin *log_reader_origin(const struct log_reader *r)
{
	return &r->segments[0].head.origin;
}

/*
 * The last segment that begins at or before this offset, of those before the one at index i of the
 * array. After a failed sync segments overlap: any of them may have a frame, and it is the same
 * one.
 */
static const struct segment *find_segment(const struct log_reader *r, uint64_t offset, size_t i)
{
	while (i-- > 0)
		if (r->segments[i].head.base <= offset)
			return &r->segments[i];
	return NULL;
}

/* Where the next segment begins behind this offset; UINT64_MAX: none does. */
static uint64_t next_base(const struct log_reader *r, uint64_t offset)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < r->n; i++)
		if (r->segments[i].head.base > offset && r->segments[i].head.base < next)
			next = r->segments[i].head.base;
	return next;
}

uint64_t log_key_before(const struct log_reader *r, uint64_t offset)
{
	const struct segment *s = find_segment(r, offset, r->n);

	return s ? s->head.base : next_base(r, offset);
}

/* One call of log_read(). The window holds bytes of one segment from next on, at window + at. */
struct pass {
	struct log_reader *r;
	const struct segment *s; /* whose bytes the window has */
	size_t at, have;
	uint64_t last_seq; /* UINT64_MAX: none yet */
	size_t resync_left;
};

/* How many bytes of s there are at window + at: as many as wanted, or fewer at its end. */
static ssize_t peek(struct pass *p, const struct segment *s, uint64_t offset, size_t wanted)
{
	struct log_reader *r = p->r;
	uint64_t place = segment_data_at(&s->head) + (offset - s->head.base);
	ssize_t got;
	size_t n;

	if (p->s != s)
		p->at = p->have = 0;
	p->s = s;
	n = p->have - p->at;
	if (n >= wanted)
		return (ssize_t)n;
	if (wanted < WINDOW_BYTES)
		wanted = WINDOW_BYTES;
	if (wanted > r->window_cap) {
		uint8_t *more = realloc(r->window, wanted);

		if (!more)
			return -ENOMEM;
		r->window = more;
		r->window_cap = wanted;
	}
	memmove(r->window, r->window + p->at, n);
	p->at = 0;
	got = read_at(&r->fs, s->file, r->window + n, wanted - n, place + n);
	if (got < 0)
		return got;
	p->have = n + (size_t)got;
	return (ssize_t)p->have;
}

/* 1: the frame of s at this offset is whole. 0: s ends here. -EBADMSG: it makes no sense (yet). */
static int peek_frame(struct pass *p, const struct segment *s, uint64_t offset,
		      struct log_frame *ret)
{
	size_t wanted = FRAME_HEADER_BYTES;
	int r = -EAGAIN;

	for (int i = 0; i < 2 && r == -EAGAIN; i++) { /* its header, and all of it */
		ssize_t n = peek(p, s, offset, wanted);

		if (n <= 0)
			return (int)n;
		r = frame_read(p->r->window + p->at, (size_t)n, ret, &wanted);
	}
	if (r < 0 || (p->last_seq != UINT64_MAX && ret->seq <= p->last_seq)) {
		p->resync_left -= wanted < p->resync_left ? wanted : p->resync_left;
		return -EBADMSG;
	}
	ret->offset = offset;
	ret->next = offset + wanted;
	return 1;
}

/*
 * The frame at this offset, of whichever segment has it. 1, 0 or -EBADMSG, as of the last of these
 * segments, which is *ret_segment, if none has it.
 */
static int find_frame(struct pass *p, uint64_t offset, bool is_alive, struct log_frame *ret,
		      const struct segment **ret_segment)
{
	const struct log_reader *r = p->r;
	const struct segment *s = find_segment(r, offset, r->n);
	int result;

	*ret_segment = s;
	if (!s)
		return 0;
	result = peek_frame(p, s, offset, ret);
	if (result > 0 || (result < 0 && result != -EBADMSG) ||
	    (is_alive && s == &r->segments[r->n - 1]))
		return result;
	while ((s = find_segment(r, offset, (size_t)(s - r->segments)))) {
		int other = peek_frame(p, s, offset, ret);

		if (other > 0 || (other < 0 && other != -EBADMSG))
			return other;
	}
	return result;
}

int log_read(struct log_reader *r, uint64_t from, bool is_alive, log_frame_fn *fn, void *ctx,
	     struct log_read_result *ret)
{
	struct pass p = { .r = r, .last_seq = UINT64_MAX, .resync_left = RESYNC_BYTES };

	*ret = (struct log_read_result){ .next = from };
	for (;;) {
		const struct segment *s;
		struct log_frame frame;
		uint64_t step, base;
		int result = find_frame(&p, ret->next, is_alive, &frame, &s);

		if (result > 0) {
			result = fn(ctx, &frame);
			if (result != 0)
				return result;
			p.last_seq = frame.seq;
			p.at += (size_t)(frame.next - frame.offset);
			ret->next = frame.next;
			continue;
		}
		if (result < 0 && result != -EBADMSG)
			return result;
		if (is_alive && s == &r->segments[r->n - 1]) {
			ret->is_waiting = result == -EBADMSG;
			return 0;
		}
		/* No segment has it. Go on where a frame may begin again. */
		base = next_base(r, ret->next);
		step = base - ret->next;
		if (result == -EBADMSG && p.resync_left > 0 && peek(&p, s, ret->next, 1) > 0 &&
		    frame_scan(r->window + p.at, p.have - p.at) < step)
			step = frame_scan(r->window + p.at, p.have - p.at);
		else if (base == UINT64_MAX)
			return 0;
		ret->lost_bytes += step;
		ret->next += step;
		p.at += (size_t)step < p.have - p.at ? (size_t)step : p.have - p.at;
		if (ret->next == base)
			p.s = NULL;
	}
}

int log_reader_sync(const struct log_reader *r)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < r->n; i++)
		result = r->fs.sync(r->fs.ctx, r->segments[i].file);
	return result == 0 ? r->fs.sync_folder(r->fs.ctx) : result;
}

size_t log_reader_files(const struct log_reader *r, int *ret, size_t max)
{
	size_t n = r->n < max ? r->n : max;

	for (size_t i = 0; i < n; i++)
		ret[i] = r->segments[r->n - n + i].file;
	return n;
}

int log_is_alive(struct log_reader *r)
{
	for (int i = 0; i < LIVENESS_TRIES; i++) {
		size_t n = r->n;
		int locked, result = log_refresh(r);

		if (result < 0)
			return result;
		if (r->has_locked_rest)
			return 1;
		if (r->n == n && i > 0)
			return 0; /* it was free, and is the last one still */
		locked = r->fs.is_locked(r->fs.ctx, r->segments[r->n - 1].file);
		if (locked != 0)
			return locked;
	}
	return 1; /* somebody makes one segment after the other */
}

/* The slot of one segment: 1, or 0: there is no end in it. */
static int read_slot(struct log_reader *r, const struct segment *s, log_frame_fn *fn, void *ctx)
{
	CLEANUP(free_ptr) uint8_t *bytes = malloc(s->head.end_bytes ? s->head.end_bytes : 1);
	struct log_frame frame;
	size_t wanted;
	uint64_t end;
	ssize_t n;
	int result;

	if (!bytes)
		return -ENOMEM;
	n = read_at(&r->fs, s->file, bytes, s->head.end_bytes, SEGMENT_HEADER_BYTES);
	if (n < 0)
		return (int)n;
	if (frame_read(bytes, (size_t)n, &frame, &wanted) < 0 || frame.n < sizeof(end))
		return 0;
	memcpy(&end, frame.bytes, sizeof(end));
	frame.bytes += sizeof(end);
	frame.n -= sizeof(end);
	frame.offset = frame.next = le64toh(end);
	result = fn ? fn(ctx, &frame) : 0;
	return result != 0 ? result : 1;
}

int log_read_end(struct log_reader *r, bool is_alive, log_frame_fn *fn, void *ctx)
{
	int result = 0;

	for (size_t i = r->n; i-- > 0 && result == 0;) {
		result = read_slot(r, &r->segments[i], fn, ctx);
		if (is_alive)
			break; /* an earlier one failed, and the recorder writes all of it again */
	}
	return result;
}

/* ---- the folder ---- */

struct removal {
	const struct log_fs *fs;
	struct log_id id;
	int result;
};

static int remove_name(void *ctx, const char *name)
{
	struct removal *removal = ctx;
	uint32_t index;
	int r;

	if (!is_segment_of(name, &removal->id, &index))
		return 0;
	r = removal->fs->remove(removal->fs->ctx, name);
	if (r < 0 && r != -ENOENT)
		removal->result = r;
	return 0;
}

int log_remove(const struct log_fs *fs, const struct log_id *id, uint64_t below, bool is_over)
{
	struct removal removal = { fs, *id, 0 };
	struct log_reader *r;
	int result;

	if (is_over) {
		result = fs->list(fs->ctx, remove_name, &removal);
		return result < 0 ? result : removal.result;
	}
	result = log_reader_open(fs, id, &r, NULL);
	if (result < 0)
		return result == -ENOENT ? 0 : result;
	for (size_t i = 0; i + 1 < r->n; i++) {
		struct pass pass = { .r = r, .last_seq = UINT64_MAX, .resync_left = RESYNC_BYTES };
		const struct segment *s = &r->segments[i];
		char name[SEGMENT_NAME_BYTES];
		struct log_frame frame;
		int failure;

		if (s->head.base >= log_key_before(r, below) ||
		    peek_frame(&pass, s, below, &frame) > 0)
			continue; /* of two that overlap the later one may lack what is wanted */
		segment_name_format(id, s->head.index, name);
		failure = fs->remove(fs->ctx, name);
		if (failure < 0 && failure != -ENOENT)
			result = failure;
	}
	log_reader_close(r);
	return result;
}

/* Nothing was written where the header should be. */
static bool has_no_header(const struct log_fs *fs, int file)
{
	static const uint8_t nothing[SEGMENT_HEADER_BYTES];
	uint8_t bytes[SEGMENT_HEADER_BYTES];
	ssize_t n = fs->pread(fs->ctx, file, bytes, sizeof(bytes), 0);

	return n >= 0 && memcmp(bytes, nothing, (size_t)n) == 0;
}

/* A recorder writes the header at once. One whose clock jumps holds the lock, or finds it taken. */
static int sweep_name(void *ctx, const char *name)
{
	const struct log_fs *fs = ctx;
	struct segment_header head;
	struct log_id id;
	uint32_t index;
	int file;

	if (segment_name_parse(name, &id, &index) < 0)
		return 0;
	file = fs->open(fs->ctx, name);
	if (file < 0)
		return 0;
	if (read_header(fs, file, &head) == -EBADMSG &&
	    fs->age_seconds(fs->ctx, file) >
		    (has_no_header(fs, file) ? SWEEP_SECONDS : SWEEP_DAMAGED_SECONDS) &&
	    fs->lock(fs->ctx, file) == 0)
		(void)fs->remove(fs->ctx, name);
	fs->close(fs->ctx, file);
	return 0;
}

int log_sweep(const struct log_fs *fs)
{
	return fs->list(fs->ctx, sweep_name, (void *)fs);
}

/* Where the next frame stands, and its number. */
struct last_frame {
	uint64_t next, seq;
};

static int note_last(void *ctx, const struct log_frame *frame)
{
	*(struct last_frame *)ctx = (struct last_frame){ frame->next, frame->seq + 1 };
	return 0;
}

/* A segment that only holds a name still takes its number. */
static int note_index(void *ctx, const char *name)
{
	struct log_options *options = ctx;
	uint32_t index;

	if (is_segment_of(name, &options->origin.id, &index) && index >= options->first_index)
		options->first_index = index + 1;
	return 0;
}

int log_continue(const struct log_fs *fs, const struct log_id *id, struct log_options *options,
		 struct err *err)
{
	struct last_frame last = { 0 };
	struct log_read_result read;
	struct log_reader *r;
	int result = log_reader_open(fs, id, &r, err);

	if (result < 0)
		return result;
	options->origin = *log_reader_origin(r);
	options->first_index = 0;
	result = log_is_alive(r);
	last.next = log_key_before(r, 0);
	result = result > 0 ? -EBUSY : result;
	if (result == 0 && log_read_end(r, false, NULL, NULL) > 0)
		result = -EEXIST;
	if (result == 0)
		result = log_read(r, last.next, false, note_last, &last, &read);
	if (result == 0)
		result = fs->list(fs->ctx, note_index, options);
	options->first_offset = last.next;
	options->first_seq = last.seq;
	options->key_offset = log_key_before(r, last.next);
	log_reader_close(r);
	return result < 0 ? err_set(err, result, "cannot go on with a log: %s", strerror(-result))
			  : 0;
}

/* ---- into a store ---- */

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
		result = log_read_end(r, alive, sink->end, sink->ctx);
		if (result < 0)
			return result;
		ret->is_over = true;
		result = 0;
	} else if (!alive) {
		/* Asked again: with the first frame the sink knows whose log it is. */
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
