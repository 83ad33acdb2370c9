/*
 * codec - samples as few bytes: pure functions, no database.
 *
 * Words (model/words.h) become a table: up to CODEC_ROWS moments of one thing, column by column.
 * Tables become a pack: bytes that zstd has made short.
 *
 * A fold is the ticks of a while as tables: when they were; a head (the host's values) with one for
 * each GPU, each job's progress and each cgroup; one for each point; and one for each process, with
 * those of its system calls behind it (fold.h). Those of GROUP_PROCESSES processes make one pack,
 * as they are much like each other.
 *
 * What is read may be damaged: -EBADMSG then, and no byte outside it is looked at.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "model/tick.h"
#include "model/words.h"

#define CODEC_ROWS 120 /* at most, in a table; also the ticks of a fold */
enum { TABLE_COLUMNS = SAMPLE_WORDS + 2 + 4 * SAMPLE_N_GAUGES }; /* of the widest: a rollup's */

/* ---- tables ---- */

/* One thing: its rows, and of which tick of the fold each is. */
struct table {
	unsigned n;
	uint8_t tick[CODEC_ROWS];
	uint64_t columns[TABLE_COLUMNS][CODEC_ROWS];
};

/* boot_ns: of the fold's ticks, U64_UNKNOWN where it is. Tells samples nearly; NULL for others. */
void table_write(struct buf *out, const struct table *t, unsigned n_words, const uint64_t *boot_ns);
/*
 * Only the first n_read columns. Reading all takes longer, and shows where the table ends. Returns
 * the bytes that were read.
 */
ssize_t table_read(const void *data, size_t len, unsigned n_ticks, unsigned n_read,
		   const uint64_t *boot_ns, struct table *ret);

/* ---- packs ---- */

void pack_write(struct buf *out, const struct buf *raw);
/* ret is reset, not released. -EBADMSG, -ENOMEM */
int pack_read(const void *data, size_t len, struct buf *ret);

/* Processes whose rows differ in the last bits alone are a group, which has the row of the first
 * that it could have. */
#define GROUP_BITS 4
#define GROUP_PROCESSES (1 << GROUP_BITS)
#define GROUP_MASK (GROUP_PROCESSES - 1)
static inline int64_t group_of(int64_t process)
{
	return process & ~(int64_t)GROUP_MASK;
}

/* A pack of a group has items: which of its processes, and the bytes. */
void item_write(struct buf *raw, int64_t process, const void *data, size_t len);

struct item_reader {
	const uint8_t *p, *end;
	int64_t group;
};
static inline struct item_reader item_reader(const struct buf *raw, int64_t group)
{
	const uint8_t *p = (const uint8_t *)raw->data;

	return (struct item_reader){ p, p + raw->len, group };
}
/* 1: the next. 0: no more. */
int item_read(struct item_reader *r, int64_t *ret_process, const void **ret_data, size_t *ret_len);

/* ---- the head of a fold ---- */

/* Words that are strings are numbers of these; borrowed. */
struct fold_strings {
	const char **items;
	size_t n, cap;
};
void fold_strings_release(struct fold_strings *strings);
int fold_strings_add(struct fold_strings *strings, const char *s); /* -ENOMEM */

/* A pack: when the ticks were, and their ids, without which no samples can be read. */
void fold_write_times(struct buf *out, const int64_t *ids, const struct table *head);
/* All other words are unknown. -ENOMEM. */
int fold_read_times(const void *data, size_t len, int64_t *ids, struct table *head);

/*
 * What another pack has: the head, then the things of LIST_GPUS, an end, those of LIST_PROGRESS, an
 * end; where somebody looked, those of LIST_CGROUPS and an end.
 */
void fold_write_head(struct buf *raw, const struct table *head, const struct fold_strings *strings);
void fold_write_thing(struct buf *raw, enum tick_list list, const struct table *t);
void fold_write_end(struct buf *raw);

/* Walks through it in that order; borrows the bytes. */
struct fold_reader {
	const uint8_t *p, *end;
	unsigned n_ticks;
};

/* head has the times. The strings are in the bytes. -ENOMEM. */
int fold_read_head(struct fold_reader *r, const void *raw, size_t len, struct table *head,
		   struct fold_strings *strings);
/* 1: the next of the list. 0: its end. */
int fold_read_thing(struct fold_reader *r, enum tick_list list, struct table *ret);
