#include "crossrank/reading/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/macros.h"

#define RAW_BYTES (256 * 1024)
#define MAGIC_BYTES 4
#define GZIP_MAGIC "\x1f\x8b"
#define GZIP_WINDOW (15 + 16)  /* the largest, in a gzip wrapper */
#define ZSTD_WINDOW_LOG 27     /* 128 MiB, as for "zstd --long": a file may ask for 2 GiB */
#define ZSTD_STEP (128 * 1024) /* a call that finds damage keeps nothing of what it took out */

struct input {
	int fd;
	enum { FORMAT_PLAIN, FORMAT_GZIP, FORMAT_ZSTD } format;
	char *raw;
	size_t begin, len; /* of what was read and not taken */
	bool at_end;	   /* of the file */
	bool is_inside;	   /* a compressed frame has begun and not ended */
	bool has_frame;	   /* one was read to its end */
	enum input_end end;
	z_stream gzip;
	ZSTD_DStream *zstd;
};

/* ---- what is compressed ---- */

/* Of a single byte the first one tells. */
static bool is_gzip(const char *s, size_t n)
{
	return n > 0 && memcmp(s, GZIP_MAGIC, n > 1 ? 2 : 1) == 0;
}

/* A frame, or one to be skipped: parallel compressors put such before each of theirs. */
static bool is_zstd(const char *s, size_t n)
{
	return n >= MAGIC_BYTES &&
	       (memcmp(s, "\x28\xb5\x2f\xfd", MAGIC_BYTES) == 0 ||
		((s[0] & 0xf0) == 0x50 && memcmp(s + 1, "\x2a\x4d\x18", 3) == 0));
}

static int begin_format(struct input *in)
{
	if (in->len > 1 && is_gzip(in->raw, in->len)) {
		if (inflateInit2(&in->gzip, GZIP_WINDOW) != Z_OK)
			return -ENOMEM;
		in->format = FORMAT_GZIP;
	} else if (is_zstd(in->raw, in->len)) {
		in->zstd = ZSTD_createDStream();
		if (!in->zstd)
			return -ENOMEM;
		ZSTD_DCtx_setParameter(in->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
		in->format = FORMAT_ZSTD;
	}
	return 0;
}

static void end_frame(struct input *in)
{
	in->is_inside = false;
	in->has_frame = true;
}

/*
 * Both take from raw and give to to[0..n). They return the number of bytes; 0: more is needed, or a
 * frame is done; -EBADMSG: damaged, or something else follows what is compressed.
 */
static ssize_t decode_gzip(struct input *in, char *to, size_t n)
{
	int r;

	if (!in->is_inside && !is_gzip(in->raw + in->begin, in->len))
		return -EBADMSG; /* of a member with such a beginning nobody knows the size */

	in->gzip.next_in = (Bytef *)in->raw + in->begin;
	in->gzip.avail_in = (uInt)in->len;
	in->gzip.next_out = (Bytef *)to;
	in->gzip.avail_out = (uInt)n;
	in->is_inside = true;
	r = inflate(&in->gzip, Z_NO_FLUSH);
	in->begin += in->len - in->gzip.avail_in;
	in->len = in->gzip.avail_in;
	n -= in->gzip.avail_out;
	if (r == Z_STREAM_END) {
		/* Another member may follow: files that were appended to have several. */
		end_frame(in);
		inflateReset(&in->gzip);
	} else if (r != Z_OK && r != Z_BUF_ERROR && n == 0) {
		return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	}
	return (ssize_t)n; /* and what is wrong shows again */
}

static ssize_t decode_zstd(struct input *in, char *to, size_t n)
{
	ZSTD_outBuffer out = { to, n < ZSTD_STEP ? n : ZSTD_STEP, 0 };
	ZSTD_inBuffer from = { in->raw + in->begin, in->len, 0 };
	size_t r = ZSTD_decompressStream(in->zstd, &out, &from);

	if (ZSTD_getErrorCode(r) == ZSTD_error_frameParameter_windowTooLarge)
		return -EFBIG;
	if (ZSTD_isError(r))
		return -EBADMSG;
	in->begin += from.pos;
	in->len -= from.pos;
	in->is_inside = true;
	if (r == 0)
		end_frame(in);
	return (ssize_t)out.pos;
}

/* ---- the file ---- */

static ssize_t read_some(int fd, char *to, size_t n)
{
	ssize_t got;

	do
		got = read(fd, to, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Adds what one read gives; 0 at the end. */
static ssize_t read_more(struct input *in)
{
	ssize_t n;

	if (in->len > 0 && in->begin > 0)
		memmove(in->raw, in->raw + in->begin, in->len);
	in->begin = 0;
	n = read_some(in->fd, in->raw + in->len, RAW_BYTES - in->len);
	in->at_end = n == 0;
	in->len += n > 0 ? (size_t)n : 0;
	return n;
}

int input_open(int fd, struct input **ret)
{
	struct input *in = calloc(1, sizeof(*in));
	ssize_t n = 1;

	if (!in) {
		close(fd);
		return -ENOMEM;
	}
	in->fd = fd;
	in->raw = calloc(1, RAW_BYTES);
	if (!in->raw)
		n = -ENOMEM;
	while (n > 0 && in->len < MAGIC_BYTES)
		n = read_more(in);
	if (n >= 0)
		n = begin_format(in);
	if (n < 0)
		input_close(in);
	else
		*ret = in;
	return n < 0 ? (int)n : 0;
}

struct input *input_close(struct input *in)
{
	if (!in)
		return NULL;
	if (in->format == FORMAT_GZIP)
		inflateEnd(&in->gzip);
	ZSTD_freeDStream(in->zstd);
	close(in->fd);
	free(in->raw);
	free(in);
	return NULL;
}

/* Takes out the next bytes of a compressed file; 0 at its end. */
static ssize_t read_compressed(struct input *in, char *to, size_t n)
{
	ssize_t got = 0;

	while (got == 0 && in->end == INPUT_WHOLE) {
		if (in->len == 0 && !in->at_end)
			got = read_more(in);
		/* Tapes and block devices fill up with zeros, which are no other frame. */
		while (!in->is_inside && in->has_frame && in->len > 0 &&
		       in->raw[in->begin] == '\0') {
			in->begin++;
			in->len--;
		}
		if (got < 0)
			return got;
		if (in->len == 0 && !in->is_inside) {
			if (in->at_end)
				return 0;
			got = 0;
			continue;
		}
		got = in->format == FORMAT_GZIP ? decode_gzip(in, to, n) : decode_zstd(in, to, n);
		if (got == -EBADMSG || got == -EFBIG) {
			in->end = got == -EFBIG ? INPUT_LARGE_WINDOW : INPUT_DAMAGED;
			got = 0;
		} else if (got == 0 && in->len == 0 && in->at_end) {
			in->end = in->is_inside ? INPUT_CUT : INPUT_WHOLE;
			return 0;
		}
	}
	return got;
}

ssize_t input_read(struct input *in, char *to, size_t n)
{
	if (in->format != FORMAT_PLAIN)
		return read_compressed(in, to, n);
	if (in->len == 0)
		return read_some(in->fd, to, n);
	/* What was read to find out what it is comes first. */
	n = n < in->len ? n : in->len;
	memcpy(to, in->raw + in->begin, n);
	in->begin += n;
	in->len -= n;
	return (ssize_t)n;
}

enum input_end input_end(const struct input *in)
{
	return in->end;
}
