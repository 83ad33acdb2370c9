#include "store/wal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

#define MAGIC 0x377f0682u /* the last bit says how words are summed up */
#define VERSION 3007000u

/* Where the fields of the head and of a frame are. */
enum {
	HEAD_VERSION = 4,
	HEAD_PAGE_BYTES = 8,
	HEAD_SALTS = 16,
	HEAD_SUMS = 24,
	FRAME_COMMIT = 4, /* 0 if it is not the last of a transaction */
	FRAME_SALTS = 8,
	FRAME_SUMS = 16,
};

static uint32_t read_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static bool has_pair(const uint8_t *p, const uint32_t pair[2])
{
	return read_u32(p) == pair[0] && read_u32(p + 4) == pair[1];
}

static void read_pair(const uint8_t *p, uint32_t ret[2])
{
	ret[0] = read_u32(p);
	ret[1] = read_u32(p + 4);
}

/* n is a multiple of 8. */
static void sum_up(bool is_big_endian, const uint8_t *p, size_t n, uint32_t sums[2])
{
	for (size_t i = 0; i < n; i += 8) {
		uint32_t words[2];

		read_pair(p + i, words);
		if (!is_big_endian) {
			words[0] = __builtin_bswap32(words[0]);
			words[1] = __builtin_bswap32(words[1]);
		}
		sums[0] += words[0] + sums[1];
		sums[1] += words[1] + sums[0];
	}
}

int wal_scan_begin(struct wal_scan *s, const uint8_t head[WAL_HEAD_BYTES])
{
	uint32_t magic = read_u32(head);
	uint32_t page_bytes = read_u32(head + HEAD_PAGE_BYTES);

	*s = (struct wal_scan){ .page_bytes = page_bytes, .is_big_endian = magic & 1 };
	if ((magic & ~1u) != MAGIC || read_u32(head + HEAD_VERSION) != VERSION)
		return -EBADMSG;
	if (page_bytes < 512 || page_bytes > WAL_MAX_PAGE_BYTES || (page_bytes & (page_bytes - 1)))
		return -EBADMSG;
	sum_up(s->is_big_endian, head, HEAD_SUMS, s->sums);
	if (!has_pair(head + HEAD_SUMS, s->sums))
		return -EBADMSG;
	read_pair(head + HEAD_SALTS, s->salts);
	return 0;
}

/* A frame that follows on the one before as it was written. */
static bool is_next(const struct wal_scan *s, const uint8_t *frame)
{
	uint32_t sums[2] = { s->sums[0], s->sums[1] };

	if (!has_pair(frame + FRAME_SALTS, s->salts))
		return false;
	sum_up(s->is_big_endian, frame, FRAME_SALTS, sums);
	sum_up(s->is_big_endian, frame + WAL_FRAME_HEAD_BYTES, s->page_bytes, sums);
	return has_pair(frame + FRAME_SUMS, sums);
}

/*
 * Commits behind the bad frame count as long as the frames hang together: what an
 * earlier crash left there was not written after what stands before it now.
 */
void wal_scan_frame(struct wal_scan *s, const uint8_t *frame)
{
	bool is_ours = has_pair(frame + FRAME_SALTS, s->salts);
	bool is_commit = is_ours && read_u32(frame + FRAME_COMMIT) != 0;
	bool is_good = is_next(s, frame);

	s->n_frames++;
	s->has_commit = s->has_commit || is_commit;
	if (!is_good && s->bad_frame == 0)
		s->bad_frame = s->n_frames;
	if (!is_good)
		s->n_commits = 0;
	if (is_commit && s->bad_frame != 0)
		s->n_commits++;
	if (s->n_commits > s->n_behind)
		s->n_behind = s->n_commits;
	read_pair(frame + FRAME_SUMS, s->sums);
}

/* ---- the file ---- */

/* False at the end of the file, and where it cannot be read. */
static bool read_whole(int fd, uint8_t *bytes, size_t n, off_t offset)
{
	return pread(fd, bytes, n, offset) == (ssize_t)n;
}

/* -EBADMSG: its head is damaged, and nothing more can be told. */
static int scan_file(const char *path, struct wal_scan *ret)
{
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	CLEANUP(free_ptr) uint8_t *frame = NULL;
	uint8_t head[WAL_HEAD_BYTES];
	off_t offset = WAL_HEAD_BYTES;
	size_t n;

	*ret = (struct wal_scan){ 0 };
	if (fd < 0 || !read_whole(fd, head, sizeof(head), 0))
		return 0;
	if (wal_scan_begin(ret, head) < 0)
		return -EBADMSG;
	n = WAL_FRAME_HEAD_BYTES + ret->page_bytes;
	frame = malloc(n);
	if (!frame)
		return -ENOMEM;
	for (; read_whole(fd, frame, n, offset); offset += (off_t)n)
		wal_scan_frame(ret, frame);
	return 0;
}

/* A single one is the end of a transaction that was not complete, as whoever is killed leaves it.
 */
static unsigned count_behind(const struct wal_scan *s)
{
	return s->n_behind > 1 ? s->n_behind : 0;
}

/* Whether two looks found the same: what is just being written looks bad only once. */
static bool are_same(const struct wal_scan *a, const struct wal_scan *b)
{
	return a->bad_frame == b->bad_frame && a->salts[0] == b->salts[0] &&
	       a->salts[1] == b->salts[1];
}

int wal_check(const char *db_path, struct wal_found *ret)
{
	/* The log lies beside the file, not beside a link to it. */
	CLEANUP(free_ptr) char *real = realpath(db_path, NULL);
	CLEANUP(free_ptr) char *path = NULL;
	struct wal_scan first, again;
	int r;

	*ret = (struct wal_found){ 0 };
	if (!real)
		return errno == ENOENT ? 0 : -errno;
	if (asprintf(&path, "%s-wal", real) < 0)
		return -ENOMEM;
	r = scan_file(path, &first);
	if (r < 0 || count_behind(&first) > 0)
		r = scan_file(path, &again);
	else
		again = first;
	ret->has_commit = r < 0 || again.has_commit;
	if (r < 0 || !are_same(&first, &again))
		return r;
	ret->n_behind = count_behind(&again);
	return 0;
}
