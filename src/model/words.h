/*
 * words - a struct of numbers as an array of uint64_t: one word per field, U64_UNKNOWN where the
 * field is unknown, all other values exact. Ticks (tick.h) and the tables of store/ are made of
 * them.
 *
 * Functions ..._from_words() return -EBADMSG for a word that no field can have written.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "model/job.h"
#include "model/sample_fields.h"
#include "model/snapshot.h"

/* Small numbers of either sign become small ones without: 0, -1, 1, -2… are 0, 1, 2, 3… */
static inline uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ -(v >> 63);
}

static inline uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ -(v & 1);
}

/* Numbers in bytes: seven bits each, the last is below 128. */
#define NUMBER_BYTES 10 /* of the largest */

static inline uint8_t *number_put(uint8_t *p, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		*p++ = (uint8_t)(v | 128);
	*p++ = (uint8_t)v;
	return p;
}

/* Moves behind it. -EBADMSG */
static inline int number_get(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		if (shift == 63 && byte > 1)
			return -EBADMSG;
		v |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*ret = v;
			return 0;
		}
	}
	return -EBADMSG;
}

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
	HOST_SYSTEM = 7, /* the first of the members of its system */
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

enum { WORDS_MAX = HEAD_WORDS + 1 }; /* of any row; the head of a fold also has ids */

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
void system_clear(struct snapshot *s); /* all of its system is unknown */
void gpu_to_words(const struct gpu_sample *gpu, uint64_t *ret);
int gpu_from_words(const uint64_t *words, struct gpu_sample *ret);
/* Without the strings. */
void progress_to_words(const struct job_progress *progress, uint64_t *ret);
int progress_from_words(const uint64_t *words, struct job_progress *ret);
void cgroup_to_words(const struct cgroup_sample *c, uint64_t *ret);
int cgroup_from_words(const uint64_t *words, struct cgroup_sample *ret);
void point_to_words(const struct series_point *point, uint64_t *ret);
int point_from_words(const uint64_t *words, struct series_point *ret);
