/*
 * codec - ticks and samples as few bytes: pure functions, no database.
 *
 * A struct becomes words: one uint64_t per field, U64_UNKNOWN where the field is
 * unknown, all other values exact. Words become one of two things:
 *
 *	a tick	all that is known at one moment, in a form that costs little to
 *		append and needs no other tick to be read (codec_tick.c);
 *	a table	up to CODEC_ROWS moments, column by column (codec_table.c): the
 *		host's values of a fold, or the samples of one process.
 *
 * What is read may be damaged: -EBADMSG then, and no byte outside it is looked at.
 */
#ifndef PROCTOR_STORE_CODEC_H
#define PROCTOR_STORE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/job.h"
#include "model/snapshot.h"

#define CODEC_ROWS 120 /* at most, in a table; also the ticks of a fold */

/* ---- words ---- */

/* Where a few words stand that others are told by; all others: codec_words.c. */
enum sample_word {
	SAMPLE_BOOT_NS,
	SAMPLE_AGE,
	SAMPLE_USER_NS,
	SAMPLE_SYSTEM_NS,
	SAMPLE_CPU_NS,
	SAMPLE_CPU_PERCENT,
	SAMPLE_ANON_BYTES,
	SAMPLE_FILE_BYTES,
	SAMPLE_SHMEM_BYTES,
	SAMPLE_RSS_BYTES,
	SAMPLE_HWM_BYTES,
	SAMPLE_RCHAR,
	SAMPLE_WCHAR,
	SAMPLE_READ_BYTES,
	SAMPLE_WRITE_BYTES,
	SAMPLE_MAJOR_FAULTS,
	SAMPLE_THREADS,
	SAMPLE_OPEN_FDS,
	SAMPLE_WORDS = 31
};

enum host_word { HOST_WALL_NS, HOST_BOOT_NS, HOST_WORDS = 49 };
enum { POINT_WORDS = 5 };

void sample_to_words(const struct proc_sample *p, uint64_t *ret);
int sample_from_words(const uint64_t *words,
		      struct proc_sample *ret); /* what has no word is kept */
void host_to_words(const struct snapshot *s, uint64_t *ret);
int host_from_words(const uint64_t *words, struct snapshot *ret);
void point_to_words(const struct series_point *point, uint64_t *ret);
int point_from_words(const uint64_t *words, struct series_point *ret);

/* ---- a tick ---- */

/* What belongs to the moment and not to a process, as words in this order. */
enum head_word {
	HEAD_HOST = 0,
	HEAD_POINT = HEAD_HOST + HOST_WORDS,
	HEAD_HAS_POINT = HEAD_POINT + POINT_WORDS, /* 1, or unknown */
	HEAD_WORDS
};

struct tick_head {
	uint64_t words[HEAD_WORDS];
	const char *level; /* the pressure level: not terminated, NULL if there is none */
	size_t level_len;
};

/* point may be NULL. level is the snapshot's. */
void tick_head_init(struct tick_head *head, const struct snapshot *s,
		    const struct series_point *point);

/* The head, then n_samples times tick_write_sample(), by process, ascending. */
void tick_write_head(struct buf *out, const struct tick_head *head, size_t n_samples);
/* previous: the process before, 0 for the first. */
void tick_write_sample(struct buf *out, const struct tick_head *head, int64_t previous,
		       int64_t process, const struct proc_sample *p);

/* Walks through a tick; borrows the bytes. */
struct tick_reader {
	struct tick_head head;
	size_t n_left; /* samples behind this one */
	int64_t process;
	uint64_t words[SAMPLE_WORDS];
	const uint8_t *p, *end;
};

int tick_read_head(struct tick_reader *r, const void *data, size_t len);
/* 1: the next sample is there. 0: no more. */
int tick_read_sample(struct tick_reader *r);

/* ---- tables ---- */

/* One process: its rows, and of which tick of the fold each is. */
struct chunk {
	unsigned n;
	uint8_t tick[CODEC_ROWS];
	uint64_t columns[SAMPLE_WORDS][CODEC_ROWS];
};

/* boot_ns: of the fold's ticks, U64_UNKNOWN where it is. */
void chunk_write(struct buf *out, const struct chunk *chunk, const uint64_t *boot_ns);
/* Only the first n_words columns: reading all takes longer. */
int chunk_read(const void *data, size_t len, const uint64_t *boot_ns, unsigned n_ticks,
	       unsigned n_words, struct chunk *ret);

/* The ticks of a fold, without their samples. */
struct fold_head {
	unsigned n;
	int64_t ids[CODEC_ROWS];
	uint64_t columns[HEAD_WORDS][CODEC_ROWS];
	const char *levels[CODEC_ROWS]; /* borrowed, not terminated */
	size_t level_lens[CODEC_ROWS];
};

void fold_head_write(struct buf *out, const struct fold_head *head);
int fold_head_read(const void *data, size_t len, struct fold_head *ret);

#endif
