/*
 * fold - ticks of a recorder become a fold: tables, column by column, which take
 * a fraction of the room.
 *
 * A recorder is who writes ticks: the runner of an attempt (the attempt's row id)
 * or a daemon (its row id, negative). Ticks differ from the ones before, in
 * segments of at most CODEC_ROWS that begin with a whole one; what is folded is
 * always whole segments.
 */
#ifndef PROCTOR_STORE_FOLD_H
#define PROCTOR_STORE_FOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/codec/codec.h"
#include "store/store.h"

/* So many ticks, or so many bytes of them (what many processes bring), make a fold. */
#define FOLD_TICKS CODEC_ROWS
#define FOLD_BYTES (1 << 20)

/* A chunk's id is fold << CHUNK_BITS | process. A fold's is that of a tick. */
#define CHUNK_BITS 30
#define CHUNK_PROCESS_MAX SAMPLE_KEY_MAX
#define TICK_ID_MAX (INT64_MAX >> CHUNK_BITS)

/* What the seal of a curve's points has for their key (query.h). */
static inline int64_t points_key(int64_t attempt, int64_t fold)
{
	return (int64_t)((uint64_t)attempt << CHUNK_BITS ^ (uint64_t)fold);
}

/* Ticks that lie further apart are not of one fold: somebody has set the clock, or slept. */
#define FOLD_GAP_NS UINT64_C(3600000000000)
static inline bool fold_has_gap(int64_t a_ns, int64_t b_ns)
{
	uint64_t a = (uint64_t)a_ns, b = (uint64_t)b_ns;

	return (a_ns > b_ns ? a - b : b - a) > FOLD_GAP_NS;
}

/* A table of a fold that is kept by itself. */
struct fold_part {
	enum tick_list list; /* LIST_POINTS or LIST_SAMPLES */
	int64_t key;
	size_t at, len; /* in bytes */
};

/* A tick that could not be read. */
struct fold_lost {
	int64_t id, wall_ns;
};

/* A fold as the database gets it. */
struct folded {
	int64_t id; /* of its newest tick, which may be one that could not be read */
	int64_t first_ns, last_ns;
	unsigned n_ticks; /* 0: none could be read, and all else here means nothing */
	struct fold_lost lost[CODEC_ROWS]; /* those that could not be: they are left out */
	unsigned n_lost;
	struct buf head, bytes;
	struct fold_part *parts;
	size_t n_parts, cap;
};

#define FOLDED_INIT                                 \
	{                                           \
		.head = BUF_INIT, .bytes = BUF_INIT \
	}
void folded_release(struct folded *f);

/*
 * The oldest segments of the recorder that are not folded yet, of ticks with ids
 * above after_id and up to last_id. 1: ret (FOLDED_INIT, or used before) has
 * them. 0: there are none. Inside a transaction; writes nothing.
 */
int fold_read_pending(struct store *store, int64_t recorder, int64_t after_id, int64_t last_id,
		      struct folded *ret, struct err *err);

/* Notes those of its ticks that could not be read, from since to until (damage.h). */
int fold_leave_out(struct store *store, int64_t recorder, const struct folded *f, int64_t since_ns,
		   int64_t until_ns, struct err *err);

/*
 * Calls fn for each table of the list in ticks that are not folded and may be of
 * the attempt: those of its runner, and of daemons. LIST_POINTS: only the
 * attempt's own. Inside a transaction.
 */
typedef int fold_part_fn(void *ctx, const void *data, size_t len, int64_t key, struct err *err);
int fold_each_pending(struct store *store, int64_t attempt_id, enum tick_list list,
		      fold_part_fn *fn, void *ctx, struct err *err);

/* Folds all that the recorder has. Inside a transaction that writes. The next tick of a recorder
 * that goes on begins a segment. */
int fold_all(struct store *store, int64_t recorder, struct err *err);

#endif
