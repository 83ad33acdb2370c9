/*
 * history_fold - folds that are being told, tick by tick, in the order of time.
 *
 * An open fold is a copy: nothing of the database is held by it.
 */
#ifndef PROCTOR_STORE_HISTORY_FOLD_H
#define PROCTOR_STORE_HISTORY_FOLD_H

#include "base/arena.h"
#include "store/codec.h"
#include "store/store.h"

/* All before it is told: ticks by time and id, in a tick the processes by id. */
struct place {
	uint64_t wall_ns;
	int64_t tick_id;
	int64_t process;
};

struct history_tick {
	uint64_t wall_ns;
	int64_t id;
	int attempt_num;
	const char *job_id;
};

/* A process of a fold, as its row has it, and its rows. */
struct fold_process {
	int64_t id;
	struct proc_sample process;
	uint8_t row_of[CODEC_ROWS]; /* of each tick of the fold; NO_ROW */
	uint64_t (*rows)[SAMPLE_WORDS];
};

struct fold_tick {
	uint64_t wall_ns;
	int64_t id;
	unsigned index; /* in the fold */
};

struct open_fold {
	int64_t id;
	int attempt_num;
	const char *job_id;
	struct fold_tick ticks[CODEC_ROWS]; /* those to tell, by time and id */
	unsigned n_ticks, next;
	struct fold_process *processes; /* by id */
	size_t n_processes, cap;
	struct arena arena;
	struct open_fold *others;
};

/* Opens this fold too, unless it is open or has nothing to tell; of its ticks those from place on,
 * up to the id. */
int open_folds_add(struct store *store, const struct history_filter *filter, int64_t id,
		   const struct place *place, int64_t last_tick_id, struct open_fold **folds,
		   struct err *err);
void open_folds_free(struct open_fold *folds);

/* Closes those that are told. Rows that came from them have been used by now. */
void open_folds_drop_done(struct open_fold **folds);

/* The one with the earliest tick; NULL: all are told. */
struct open_fold *open_folds_first(struct open_fold *folds);

/* Of a fold that is not told: its next tick. */
struct history_tick open_fold_tick(const struct open_fold *fold);
bool open_fold_is_before(const struct open_fold *fold, uint64_t wall_ns, int64_t tick_id);

struct fold_sample {
	int64_t id;
	const struct proc_sample *process;
	const uint64_t *words;
};

/* Of process number i at the next tick; false: it was not there. */
bool open_fold_sample(const struct open_fold *fold, size_t i, struct fold_sample *ret);

#endif
