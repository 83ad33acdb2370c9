#include "log/frame.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/num.h"

#define FRAME_MAGIC UINT32_C(0x9e4c50f1)	   /* not text, and no run of one byte */
#define SEGMENT_MAGIC UINT64_C(0x31676f6c72746370) /* "pctrlog1" */

/* A frame: magic, length, sequence, type, flags, two bytes of 0, checksum of all but itself. */
enum { AT_LENGTH = 4, AT_SEQ = 8, AT_TYPE = 16, AT_FLAGS = 17, AT_ZERO = 18, AT_SUM = 20 };

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint32_t frame_sum(const uint8_t *header, const uint8_t *bytes, size_t n)
{
	uLong sum = crc32(0, header, AT_SUM);

	return (uint32_t)(n > 0 ? crc32(sum, bytes, (uInt)n) : sum); /* it takes NULL for a reset */
}

void frame_write(struct buf *out, uint64_t seq, uint8_t type, unsigned flags, const void *bytes,
		 size_t n)
{
	uint8_t header[FRAME_HEADER_BYTES] = { 0 };

	put32(header, FRAME_MAGIC);
	put32(header + AT_LENGTH, (uint32_t)n);
	put64(header + AT_SEQ, seq);
	header[AT_TYPE] = type;
	header[AT_FLAGS] = (uint8_t)flags;
	put32(header + AT_SUM, frame_sum(header, bytes, n));
	buf_add(out, header, sizeof(header));
	buf_add(out, bytes, n);
}

int frame_read(const uint8_t *data, size_t len, struct log_frame *ret, size_t *ret_wanted)
{
	size_t n;

	*ret_wanted = FRAME_HEADER_BYTES;
	if (len < FRAME_HEADER_BYTES)
		return -EAGAIN;
	n = get32(data + AT_LENGTH);
	if (get32(data) != FRAME_MAGIC || n > LOG_FRAME_MAX || data[AT_ZERO] || data[AT_ZERO + 1])
		return -EBADMSG;
	*ret_wanted = FRAME_HEADER_BYTES + n;
	if (len < *ret_wanted)
		return -EAGAIN;
	if (get32(data + AT_SUM) != frame_sum(data, data + FRAME_HEADER_BYTES, n))
		return -EBADMSG;
	*ret = (struct log_frame){
		.seq = get64(data + AT_SEQ),
		.type = data[AT_TYPE],
		.flags = data[AT_FLAGS],
		.bytes = data + FRAME_HEADER_BYTES,
		.n = n,
	};
	return 0;
}

void log_frame_write(const struct log_frame *frame, struct buf *out)
{
	frame_write(out, frame->seq, frame->type, frame->flags, frame->bytes, frame->n);
}

int log_frame_read(const void *bytes, size_t n, struct log_frame *ret)
{
	size_t wanted;

	if (frame_read(bytes, n, ret, &wanted) < 0)
		return -EBADMSG;
	ret->offset = 0;
	ret->next = wanted;
	return 0;
}

size_t frame_scan(const uint8_t *data, size_t len)
{
	uint8_t magic[4];
	const uint8_t *found;

	put32(magic, FRAME_MAGIC);
	if (len < 1)
		return len;
	found = memmem(data + 1, len - 1, magic, sizeof(magic));
	if (found)
		return (size_t)(found - data);
	return len > sizeof(magic) ? len - (sizeof(magic) - 1) : len; /* half of one may be last */
}

/* A segment's header: the rest up to the checksum in its last four bytes is 0. */
enum {
	AT_END_BYTES = 8,
	AT_INDEX = 12,
	AT_BASE = 16,
	AT_ID = 24,
	AT_UID = 40,
	AT_CREATED = 48,
	AT_BOOT_ID = 56,
	AT_RUNNER_PID = 72,
	AT_IS_COPY = 76,
	AT_START_TICKS = 80,
	AT_PID_NS = 88,
	AT_ATTEMPT_NUM = 96,
	AT_HEADER_SUM = SEGMENT_HEADER_BYTES - 4
};

void segment_header_write(const struct segment_header *h, uint8_t ret[SEGMENT_HEADER_BYTES])
{
	memset(ret, 0, SEGMENT_HEADER_BYTES);
	put64(ret, SEGMENT_MAGIC);
	put32(ret + AT_END_BYTES, h->end_bytes);
	put32(ret + AT_INDEX, h->index);
	put64(ret + AT_BASE, h->base);
	memcpy(ret + AT_ID, h->origin.id.bytes, LOG_ID_BYTES);
	put64(ret + AT_UID, h->origin.uid);
	put64(ret + AT_CREATED, h->origin.created_wall_ns);
	memcpy(ret + AT_BOOT_ID, h->origin.boot_id, sizeof(h->origin.boot_id));
	put32(ret + AT_RUNNER_PID, (uint32_t)h->origin.runner_pid);
	put32(ret + AT_IS_COPY, h->origin.is_copy);
	put64(ret + AT_START_TICKS, h->origin.runner_start_ticks);
	put64(ret + AT_PID_NS, h->origin.pid_ns);
	put32(ret + AT_ATTEMPT_NUM, (uint32_t)h->origin.attempt_num);
	put32(ret + AT_HEADER_SUM, (uint32_t)crc32(0, ret, AT_HEADER_SUM));
}

int segment_header_read(const uint8_t data[SEGMENT_HEADER_BYTES], struct segment_header *ret)
{
	struct segment_header h = {
		.end_bytes = get32(data + AT_END_BYTES),
		.index = get32(data + AT_INDEX),
		.base = get64(data + AT_BASE),
		.origin.uid = get64(data + AT_UID),
		.origin.created_wall_ns = get64(data + AT_CREATED),
		.origin.runner_pid = (int32_t)get32(data + AT_RUNNER_PID),
		.origin.is_copy = get32(data + AT_IS_COPY),
		.origin.runner_start_ticks = get64(data + AT_START_TICKS),
		.origin.pid_ns = get64(data + AT_PID_NS),
		.origin.attempt_num = (int32_t)get32(data + AT_ATTEMPT_NUM),
	};

	if (get64(data) != SEGMENT_MAGIC ||
	    get32(data + AT_HEADER_SUM) != (uint32_t)crc32(0, data, AT_HEADER_SUM) ||
	    h.end_bytes > LOG_END_MAX + FRAME_HEADER_BYTES || h.base > INT64_MAX)
		return -EBADMSG;
	memcpy(h.origin.id.bytes, data + AT_ID, LOG_ID_BYTES);
	memcpy(h.origin.boot_id, data + AT_BOOT_ID, sizeof(h.origin.boot_id));
	*ret = h;
	return 0;
}

void segment_name_format(const struct log_id *id, uint32_t index, char ret[SEGMENT_NAME_BYTES])
{
	char text[LOG_ID_TEXT_BYTES];

	log_id_format(id, text);
	snprintf(ret, SEGMENT_NAME_BYTES, "%s.%u", text, index);
}

int segment_name_parse(const char *name, struct log_id *ret_id, uint32_t *ret_index)
{
	char text[LOG_ID_TEXT_BYTES], canonical[SEGMENT_NAME_BYTES];
	uint64_t index;

	if (strlen(name) < LOG_ID_TEXT_BYTES || name[LOG_ID_TEXT_BYTES - 1] != '.')
		return -EINVAL;
	memcpy(text, name, LOG_ID_TEXT_BYTES - 1);
	text[LOG_ID_TEXT_BYTES - 1] = '\0';
	if (log_id_parse(text, ret_id) < 0 || num_parse_u64(name + LOG_ID_TEXT_BYTES, &index) < 0 ||
	    index > UINT32_MAX)
		return -EINVAL;
	segment_name_format(ret_id, (uint32_t)index, canonical);
	if (strcmp(name, canonical) != 0)
		return -EINVAL;
	*ret_index = (uint32_t)index;
	return 0;
}
