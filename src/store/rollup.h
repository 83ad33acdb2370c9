/*
 * rollup - samples of a process or a GPU as minutes, and an hour of those as few bytes.
 * Pure functions, no database.
 *
 * A sample's value that is unknown counts for nothing. Of gauges a minute has the
 * sum, the least and the largest, of everything the last that was known. All are
 * exact, and the same in whatever order samples are added, except for the last where
 * an older sample comes after a newer one that did not know the value.
 */
#ifndef PROCTOR_STORE_ROLLUP_H
#define PROCTOR_STORE_ROLLUP_H

#include <stdint.h>
#include <sys/types.h>

#include "store/codec/codec.h"
#include "store/minutes.h"

#define MINUTE_NS (UINT64_C(60) * 1000000000)
#define HOUR_NS (60 * MINUTE_NS)
#define ROLLUP_MINUTES 60

/* As the file holds times. */
static inline int64_t minute_begin_ns(uint64_t minute)
{
	return minute > INT64_MAX / MINUTE_NS ? INT64_MAX : (int64_t)(minute * MINUTE_NS);
}

/* Of what: a process (enum sample_word) or a GPU of the host (enum gpu_word). */
enum rollup_kind { ROLLUP_SAMPLES, ROLLUP_GPUS };

/* A rollup's id is hour << ROLLUP_BITS | process; the hour is unix time by HOUR_NS. */
#define ROLLUP_BITS 30

#define ROLLUP_GAUGES SAMPLE_N_GAUGES /* at most: of a process; a GPU has fewer */

struct rollup_gauge {
	uint64_t n;   /* samples that knew it; 0: all else here means nothing */
	uint64_t sum; /* U64_UNKNOWN: more than fits */
	uint64_t min, max;
};

struct rollup_minute {
	uint64_t n;		     /* samples; 0: all else here means nothing */
	int64_t last_tick;	     /* the newest of their ticks */
	uint64_t last[SAMPLE_WORDS]; /* of a GPU the first GPU_WORDS */
	struct rollup_gauge gauges[ROLLUP_GAUGES];
};

struct rollup {
	struct rollup_minute minutes[ROLLUP_MINUTES];
};

void rollup_init(struct rollup *rollup); /* no samples */

/*
 * The minute of row from (unix time by MINUTE_NS), and behind which row another
 * begins; wall_ns is that of the table's ticks.
 */
unsigned rollup_find_run(const struct table *samples, unsigned from, const uint64_t *wall_ns,
			 uint64_t *ret_minute);

/* Adds rows from up to, and without, to; tick_ids are those of the table's ticks. */
void rollup_minute_add(struct rollup_minute *m, enum rollup_kind kind, const struct table *samples,
		       unsigned from, unsigned to, const int64_t *tick_ids);

/* At least one minute has samples. t is room to work in, here and below. */
void rollup_write(struct buf *out, const struct rollup *rollup, enum rollup_kind kind,
		  struct table *t);
/* The bytes that were read, or -EBADMSG. */
ssize_t rollup_read(const void *data, size_t len, enum rollup_kind kind, struct table *t,
		    struct rollup *ret);

/* All of the row that comes from samples; row->last holds who it is. -EBADMSG */
int rollup_minute_tell(const struct rollup_minute *m, struct minute_row *row);

/* A minute of a GPU as one sample: averages where it has them, else the last. -EBADMSG */
int rollup_minute_tell_gpu(const struct rollup_minute *m, struct gpu_sample *ret);

#endif
