/*
 * tick - all that is known at one moment, as few bytes: what differs from another tick.
 *
 * A tick in memory has the words of its head (the host's values) and of several lists, each sorted
 * by a key, and strings, which words refer to by number.
 *
 * Bytes that are read may be damaged: -EBADMSG then, and no byte outside them is looked at.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/words.h"

/* What a tick holds several of, and by what key. */
enum tick_list {
	LIST_GPUS,     /* their place in the snapshot */
	LIST_PROGRESS, /* the same */
	LIST_POINTS,   /* the attempt's row */
	LIST_SAMPLES,  /* the process's row */
	LIST_SYSCALLS, /* the process's row << SYSCALL_BITS | number of the call's name */
	LIST_CGROUPS,  /* their place in the snapshot */
	N_LISTS
};
extern const unsigned list_words[N_LISTS];

/* Rows of processes go up to here: a chunk's id has no room for more (fold.h). */
#define SAMPLE_KEY_MAX ((INT64_C(1) << 30) - 1)

#define TICK_ROWS_MAX ((size_t)1 << 20) /* of a list, in tick_take() */

#define SYSCALL_BITS 12
#define SYSCALL_NUMBERS ((1 << SYSCALL_BITS) - 1) /* from 1 on; see store/fold.h */

/* n times a key and its words, by key, ascending. */
struct tick_rows {
	uint64_t *rows;
	size_t n, cap;
};

struct tick {
	uint64_t head[HEAD_WORDS];
	struct tick_rows lists[N_LISTS];
	struct buf strings; /* each with its NUL */
	size_t n_strings;
};

#define TICK_INIT                   \
	{                           \
		.strings = BUF_INIT \
	}
void tick_release(struct tick *t);
/* Empties it and keeps its memory. */
void tick_reset(struct tick *t);
/* Room for the words of a key that is larger than those before; NULL when memory runs out. */
uint64_t *tick_add(struct tick *t, enum tick_list list, int64_t key);
/* The word for a string; NULL is unknown. */
uint64_t tick_add_string(struct tick *t, const char *s);

/* before: the tick that it differs from, whose id is before_id; or NULL and 0. */
void tick_write(struct buf *out, const struct tick *t, const struct tick *before,
		int64_t before_id);

/* Walks through a list of a tick. */
struct tick_cursor {
	const uint8_t *p, *end;
	size_t n_left;
	unsigned n_words;
	int64_t key;
};

/* 1: the next key is there, and its words have to be read. 0: no more. */
int tick_cursor_next(struct tick_cursor *c);
/* before: the words of the same key in the tick before; NULL: it is not there. */
int tick_cursor_read(struct tick_cursor *c, const uint64_t *before, uint64_t *ret);

/* Borrows the bytes. */
struct tick_reader {
	int64_t before_id; /* 0: it differs from none */
	uint64_t head[HEAD_WORDS];
	const char *strings; /* n_strings, each with its NUL */
	size_t n_strings;
	struct tick_cursor lists[N_LISTS];
};

/* before_head: of the tick that is read before this one, whose id is before_id; or NULL and 0. */
int tick_read(struct tick_reader *r, const void *data, size_t len, int64_t before_id,
	      const uint64_t *before_head);
/*
 * The head and all rows, into ret, which is reset; its strings stay with the reader. before: the
 * tick that this one differs from, if it does. -ENOMEM. -EBADMSG: more rows than any host has.
 */
int tick_take(struct tick_reader *r, const struct tick *before, struct tick *ret);

/* Its strings by number, for the caller to free; NULL where it has none. -ENOMEM. */
int tick_index_strings(const struct tick_reader *r, const char ***ret);
