/*
 * codec - samples as few bytes: pure functions, no database.
 *
 * Words (model/words.h) become one of two things:
 *
 *	a tick	all that is known at one moment, as what differs from the tick
 *		before it: that costs little to append (model/tick.h);
 *	a table	up to CODEC_ROWS moments of one thing, column by column
 *		(codec_table.c).
 *
 * A fold is the ticks of a while as tables: one of its head (the host's values),
 * one for each GPU, each job's progress and each cgroup, which stand with the head in
 * one blob, and one for each point and each process, which are kept apart. Behind that of a
 * process stand those of its system calls (fold.h).
 *
 * What is read may be damaged: -EBADMSG then, and no byte outside it is looked at.
 */
#ifndef PROCTOR_STORE_CODEC_CODEC_H
#define PROCTOR_STORE_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/tick.h"
#include "model/words.h"

#define CODEC_ROWS 120 /* at most, in a table; also the ticks of a fold */
enum { TABLE_COLUMNS = SAMPLE_WORDS + 2 + 4 * SAMPLE_N_GAUGES }; /* of the widest: a rollup's */

/* ---- tables ---- */

/* One thing: its rows, and of which tick of the fold each is. */
struct table {
	unsigned n;
	unsigned n_columns; /* of one that was read: how many its bytes have */
	uint8_t tick[CODEC_ROWS];
	uint64_t columns[TABLE_COLUMNS][CODEC_ROWS];
};

/* boot_ns: of the fold's ticks, U64_UNKNOWN where it is. Tells samples nearly; NULL for others. */
void table_write(struct buf *out, const struct table *t, unsigned n_words, const uint64_t *boot_ns);
/*
 * Only the first n_read columns, of which those that its bytes do not have are unknown. Reading all
 * takes longer, and shows where the table ends. Returns the bytes that were read.
 */
ssize_t table_read(const void *data, size_t len, unsigned n_ticks, unsigned n_read,
		   const uint64_t *boot_ns, struct table *ret);

/* ---- the head of a fold ---- */

/* Words that are strings are numbers of these; borrowed. */
struct fold_strings {
	const char **items;
	size_t n, cap;
};
void fold_strings_release(struct fold_strings *strings);
int fold_strings_add(struct fold_strings *strings, const char *s); /* -ENOMEM */

/*
 * The blob: the head, then the things of LIST_GPUS, an end, those of LIST_PROGRESS, an end;
 * where somebody looked, those of LIST_CGROUPS and an end.
 */
void fold_write_head(struct buf *out, const int64_t *ids, struct table *head,
		     const struct fold_strings *strings);
void fold_write_thing(struct buf *out, enum tick_list list, const struct table *t);
void fold_write_end(struct buf *out);

/* Walks through it in that order; borrows the bytes. */
struct fold_reader {
	const uint8_t *p, *end;
	unsigned n_ticks;
};

/* The strings are in the blob. */
int fold_read_head(struct fold_reader *r, const void *data, size_t len, int64_t *ids,
		   struct table *head, struct fold_strings *strings);
/*
 * Of a blob that is not what was written: when its ticks were, which has a sum of its own, and
 * their ids; all other words are unknown. -EBADMSG: not even those are right.
 */
int fold_read_times(const void *data, size_t len, int64_t *ids, struct table *head);
/* Whether another one of the list comes next. */
bool fold_has_thing(const struct fold_reader *r);
/* 1: the next of the list. 0: its end. */
int fold_read_thing(struct fold_reader *r, enum tick_list list, struct table *ret);

#endif
