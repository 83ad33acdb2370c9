/*
 * wal - whether a write-ahead log can be read to where it was written.
 *
 * SQLite takes the first frame that is not as it was written for the end of the
 * log. Transactions that come behind it are missing without a word. After a power cut they
 * are those that the disk had not taken yet, and that may be all since the last wait for it that
 * was over began; else the log is damaged. Nobody can tell one from the other, so how many they
 * are is said. Damaged for certain is only a log whose head makes no sense.
 */
#ifndef PROCTOR_STORE_WAL_H
#define PROCTOR_STORE_WAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAL_HEAD_BYTES 32
#define WAL_FRAME_HEAD_BYTES 24
#define WAL_MAX_PAGE_BYTES 65536

/* What was seen of a log so far. */
struct wal_scan {
	uint32_t page_bytes;
	uint32_t salts[2];  /* in each frame of this log; others are left of an older one */
	uint32_t sums[2];   /* of the frame before: each is summed up from there */
	bool is_big_endian; /* how words are summed up */
	uint64_t n_frames;
	uint64_t bad_frame; /* the first that is not as it was written, from 1; 0: none */
	unsigned n_commits; /* behind that, in frames that hang together up to this one */
	unsigned n_behind;  /* the most of those */
	bool has_commit;    /* anywhere, readable or not */
};

/* -EBADMSG: this is not how a log begins. */
int wal_scan_begin(struct wal_scan *s, const uint8_t head[WAL_HEAD_BYTES]);

/* frame has WAL_FRAME_HEAD_BYTES and then page_bytes. */
void wal_scan_frame(struct wal_scan *s, const uint8_t *frame);

struct wal_found {
	bool has_commit;   /* a transaction, readable or not; what cannot be told counts as one */
	unsigned n_behind; /* transactions that are not read, and may have been complete */
};

/*
 * The log beside a database: 0, or -EBADMSG if its head is damaged. A log that is not there is
 * empty. Others may write to it meanwhile. *ret is set in any case.
 */
int wal_check(const char *db_path, struct wal_found *ret);

#endif
