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

/* One way of taking bytes out; a row of the table at the end. */
struct codec {
	bool (*begins)(const char *s, size_t n);
	int (*begin)(struct input *in);
	/*
	 * Takes from raw, gives to to[0..n); the number of bytes, 0: needs more or is done.
	 * -EBADMSG: damaged, or something else follows what is compressed.
	 */
	ssize_t (*decode)(struct input *in, char *to, size_t n);
	void (*end)(struct input *in);
};

struct input {
	int fd;
	const struct codec *codec; /* NULL: plain */
	char *raw;
	size_t begin, len; /* of what was read and not taken */
	bool at_end;	   /* of the file */
	bool is_inside;	   /* a compressed frame has begun and not ended */
	bool has_frame;	   /* one was read to its end */
	enum input_end end;
	z_stream gzip;
	ZSTD_DStream *zstd;
};

static void end_frame(struct input *in)
{
	in->is_inside = false;
	in->has_frame = true;
}

/* Tapes and block devices fill up with zeros, which are no other frame. */
static void skip_zeros(struct input *in)
{
	while (in->len > 0 && in->raw[in->begin] == '\0') {
		in->begin++;
		in->len--;
	}
}

/* ---- gzip ---- */

static bool is_gzip(const char *s, size_t n)
{
	return n >= 2 && memcmp(s, GZIP_MAGIC, 2) == 0;
}

static int gzip_begin(struct input *in)
{
	return inflateInit2(&in->gzip, GZIP_WINDOW) == Z_OK ? 0 : -ENOMEM;
}

/* Of a single byte that is left of what was read the first one tells. */
static bool begins_gzip(const struct input *in)
{
	return memcmp(in->raw + in->begin, GZIP_MAGIC, in->len > 1 ? 2 : 1) == 0;
}

static ssize_t gzip_decode(struct input *in, char *to, size_t n)
{
	int r;

	if (!in->is_inside && in->has_frame)
		skip_zeros(in);
	if (in->len == 0 && !in->is_inside)
		return 0;
	if (!in->is_inside && !begins_gzip(in))
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

static void gzip_end(struct input *in)
{
	inflateEnd(&in->gzip);
}

/* ---- zstd ---- */

/* A frame, or one to be skipped: parallel compressors put such before each of theirs. */
static bool is_zstd(const char *s, size_t n)
{
	return n >= MAGIC_BYTES &&
	       (memcmp(s, "\x28\xb5\x2f\xfd", MAGIC_BYTES) == 0 ||
		((s[0] & 0xf0) == 0x50 && memcmp(s + 1, "\x2a\x4d\x18", 3) == 0));
}

static int zstd_begin(struct input *in)
{
	in->zstd = ZSTD_createDStream();
	if (!in->zstd)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(in->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
	return 0;
}

static ssize_t zstd_decode(struct input *in, char *to, size_t n)
{
	ZSTD_outBuffer out = { to, n < ZSTD_STEP ? n : ZSTD_STEP, 0 };
	ZSTD_inBuffer from;
	size_t r;

	if (!in->is_inside && in->has_frame)
		skip_zeros(in);
	if (in->len == 0 && !in->is_inside)
		return 0;

	from = (ZSTD_inBuffer){ in->raw + in->begin, in->len, 0 };
	r = ZSTD_decompressStream(in->zstd, &out, &from);
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

static void zstd_end(struct input *in)
{
	ZSTD_freeDStream(in->zstd);
}

static const struct codec codecs[] = {
	{ is_gzip, gzip_begin, gzip_decode, gzip_end },
	{ is_zstd, zstd_begin, zstd_decode, zstd_end },
};

/* ---- the file ---- */

/* Adds what one read gives; 0 at the end. */
static ssize_t read_more(struct input *in)
{
	ssize_t n;

	if (in->len > 0 && in->begin > 0)
		memmove(in->raw, in->raw + in->begin, in->len);
	in->begin = 0;
	do
		n = read(in->fd, in->raw + in->len, RAW_BYTES - in->len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	in->at_end = n == 0;
	in->len += (size_t)n;
	return n;
}

static int find_codec(struct input *in)
{
	ssize_t n = 1;

	while (in->len < MAGIC_BYTES && n > 0)
		n = read_more(in);
	if (n < 0)
		return (int)n;
	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
		if (codecs[i].begins(in->raw, in->len)) {
			int r = codecs[i].begin(in);

			if (r == 0)
				in->codec = &codecs[i];
			return r;
		}
	return 0;
}

int input_open(int fd, struct input **ret)
{
	struct input *in = calloc(1, sizeof(*in));
	int r;

	if (!in) {
		close(fd);
		return -ENOMEM;
	}
	in->fd = fd;
	in->raw = calloc(1, RAW_BYTES);
	r = in->raw ? find_codec(in) : -ENOMEM;
	if (r == 0)
		*ret = in;
	else
		input_close(in);
	return r;
}

struct input *input_close(struct input *in)
{
	if (!in)
		return NULL;
	if (in->codec)
		in->codec->end(in);
	close(in->fd);
	free(in->raw);
	free(in);
	return NULL;
}

/* More from the file where nothing is left of it. 1; 0: there is nothing more to take out. */
static int refill(struct input *in)
{
	ssize_t r = 0;

	if (in->len == 0 && !in->at_end)
		r = read_more(in);
	return r < 0 ? (int)r : in->len > 0 || in->is_inside;
}

ssize_t input_read(struct input *in, char *to, size_t n)
{
	ssize_t got = 0;

	if (!in->codec) {
		/* What was read to find out what it is comes first; then straight into the caller's
		 * memory. */
		if (in->len > 0) {
			n = n < in->len ? n : in->len;
			memcpy(to, in->raw + in->begin, n);
			in->begin += n;
			in->len -= n;
			return (ssize_t)n;
		}
		do
			got = read(in->fd, to, n);
		while (got < 0 && errno == EINTR);
		return got < 0 ? -errno : got;
	}
	while (got == 0 && in->end == INPUT_WHOLE) {
		int r = refill(in);

		if (r <= 0)
			return r;
		got = in->codec->decode(in, to, n);
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

enum input_end input_end(const struct input *in)
{
	return in->end;
}
