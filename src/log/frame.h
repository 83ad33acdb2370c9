/*
 * frame - the bytes of a frame and of a segment's header. Pure functions.
 *
 * What is read may be torn, damaged or hostile: -EBADMSG then, and no byte outside it is read.
 * Numbers are little-endian.
 */
#pragma once

#include "base/buf.h"
#include "log/log.h"

#define FRAME_HEADER_BYTES 24
#define SEGMENT_HEADER_BYTES 128

/* Appends header and bytes. */
void frame_write(struct buf *out, uint64_t seq, uint8_t type, unsigned flags, const void *bytes,
		 size_t n);

/*
 * Reads the frame at the beginning of data; *ret borrows. -EAGAIN: it may go on behind the data,
 * and *ret_wanted is how many bytes it takes in all. -EBADMSG: there is none.
 */
int frame_read(const uint8_t *data, size_t len, struct log_frame *ret, size_t *ret_wanted);

/* Where the next frame might begin behind the first byte; len if nowhere. */
size_t frame_scan(const uint8_t *data, size_t len);

struct segment_header {
	struct log_origin origin;
	uint32_t index;
	uint32_t end_bytes; /* of the slot, with the header of its frame */
	uint64_t base;	    /* offset of the first frame */
};

void segment_header_write(const struct segment_header *h, uint8_t ret[SEGMENT_HEADER_BYTES]);
int segment_header_read(const uint8_t data[SEGMENT_HEADER_BYTES], struct segment_header *ret);

/* Where its frames begin in the file. */
static inline uint64_t segment_data_at(const struct segment_header *h)
{
	return SEGMENT_HEADER_BYTES + (uint64_t)h->end_bytes;
}

#define SEGMENT_NAME_BYTES (LOG_ID_TEXT_BYTES + 11)

void segment_name_format(const struct log_id *id, uint32_t index, char ret[SEGMENT_NAME_BYTES]);
int segment_name_parse(const char *name, struct log_id *ret_id, uint32_t *ret_index);
