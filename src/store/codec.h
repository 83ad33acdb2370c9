/*
 * codec - ticks and samples as few bytes: pure functions, no database.
 *
 * A struct becomes words: one uint64_t per field, U64_UNKNOWN where the field is
 * unknown, all other values exact. Words become one of two things:
 *
 *	a tick	all that is known at one moment, as what differs from the tick
 *		before it: that costs little to append (codec_tick.c);
 *	a table	up to CODEC_ROWS moments of one thing, column by column
 *		(codec_table.c).
 *
 * A fold is the ticks of a while as tables: one of its head (the host's values),
 * one for each GPU, each job's progress and each cgroup, which stand with the head in
 * one blob, and one for each point and each process, which are kept apart. Behind that of a
 * process stand those of its system calls (fold_calls.h).
 *
 * What is read may be damaged: -EBADMSG then, and no byte outside it is looked at.
 */
#ifndef PROCTOR_STORE_CODEC_H
#define PROCTOR_STORE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/job.h"
#include "model/sample_fields.h"
#include "model/snapshot.h"

#define CODEC_ROWS 120 /* at most, in a table; also the ticks of a fold */

/* ---- words ---- */

/* The words of a sample: SAMPLE_rss_bytes and so on, by the numbers of sample_fields.def. */
enum sample_word {
	SAMPLE_START, /* of the process, by the clock of the tick: its age grows, this stays */
#define SAMPLE_RECORDED(kind_, member_, key_, word_, help_) SAMPLE_##member_ = word_,
#include "model/sample_fields.def"
	SAMPLE_WORDS = 1 + SAMPLE_N_RECORDED
};

enum head_word {
	HOST_WALL_NS,
	HOST_BOOT_NS,
	HOST_WORDS = 51,
	HEAD_LEVEL = HOST_WORDS, /* the pressure level: number of its string */
	HEAD_HAS_GPUS,		 /* 1: somebody looked for them */
	HEAD_WORDS
};

enum progress_word {
	PROGRESS_TOTAL,
	PROGRESS_COMPLETED,
	PROGRESS_CURRENT,
	PROGRESS_JOB, /* numbers of strings */
	PROGRESS_STATUS,
	PROGRESS_WORDS
};

enum point_word {
	POINT_WALL_NS, /* unknown: the attempt was watched, and has no point */
	POINT_SHEET,
	POINT_RSS_BYTES,
	POINT_CPU_PERCENT,
	POINT_PROCESSES,
	POINT_WORDS
};

enum cgroup_word {
	CGROUP_PATH, /* number of its string; unknown: somebody looked, and there was none */
	CGROUP_NUMBERS,
	CGROUP_WORDS = CGROUP_NUMBERS + 12
};

enum syscall_word {
	SYSCALL_NAME, /* number of its string; unknown: they were counted, and there was none */
	SYSCALL_COUNT,
	SYSCALL_ERRORS,
	SYSCALL_CPU_NS,
	SYSCALL_WAIT_NS,
	SYSCALL_WORDS
};

/* Those that minutes have an average of, and which GPU it is. */
enum gpu_word {
	GPU_INDEX,
	GPU_UTILIZATION,
	GPU_MEMORY_USED,
	GPU_TEMPERATURE = 4,
	GPU_POWER,
	GPU_CLOCK = 7,
	GPU_WORDS = 11
};

enum {
	WORDS_MAX = HEAD_WORDS + 1,			       /* a fold's head also has ids */
	TABLE_COLUMNS = SAMPLE_WORDS + 2 + 4 * SAMPLE_N_GAUGES /* of the widest: a rollup's */
};

/* boot_ns: of the tick. */
void sample_to_words(const struct proc_sample *p, uint64_t boot_ns, uint64_t *ret);
/* What has no word is kept. */
int sample_from_words(const uint64_t *words, uint64_t boot_ns, struct proc_sample *ret);
/* How many of the first words tell the field at this offset of a sample; 0: it is in none. */
unsigned sample_words_up_to(size_t offset);
/* The word of a number with a point as one of 1/scale, which is what it mostly is; else rounded. */
uint64_t word_to_scaled(uint64_t word, double scale);
#define PERCENT_SCALE 100.0
#define MB_SCALE 1048576.0
#define POWER_SCALE 1000.0
void host_to_words(const struct snapshot *s, uint64_t *ret);
int host_from_words(const uint64_t *words, struct snapshot *ret);
void gpu_to_words(const struct gpu_sample *gpu, uint64_t *ret);
int gpu_from_words(const uint64_t *words, struct gpu_sample *ret);
/* Without the strings. */
void progress_to_words(const struct job_progress *progress, uint64_t *ret);
int progress_from_words(const uint64_t *words, struct job_progress *ret);
void cgroup_to_words(const struct cgroup_sample *c, uint64_t *ret);
int cgroup_from_words(const uint64_t *words, struct cgroup_sample *ret);
void point_to_words(const struct series_point *point, uint64_t *ret);
int point_from_words(const uint64_t *words, struct series_point *ret);

/* ---- a tick ---- */

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

#define SYSCALL_BITS 12
#define SYSCALL_NUMBERS ((1 << SYSCALL_BITS) - 1) /* from 1 on; see fold_calls.h */

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
/* NULL: there is none. */
const char *tick_string(const struct tick_reader *r, uint64_t word);

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
