/*
 * minute_gather - what a window of minutes is added up from: rollups, and the samples that have not
 * become any yet.
 */
#ifndef PROCTOR_STORE_MINUTE_GATHER_H
#define PROCTOR_STORE_MINUTE_GATHER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/map.h"
#include "store/codec.h"
#include "store/damage.h"
#include "store/fold_times.h"
#include "store/gpu_minutes.h"
#include "store/minute_sums.h"
#include "store/process.h"
#include "store/rollup.h"
#include "store/store.h"

struct minute_window {
	struct store *store;
	bool rollups_only;
	struct process_set wanted;
	struct minute_sums sums, gpus;
	struct map process_of; /* id -> struct process * */
	struct arena arena;    /* those */
	/* the fold whose samples are added, or what is folded for it */
	int64_t fold, recorder, first_ns, last_ns;
	uint64_t n_ticks;
	struct fold_times times;
	struct rollup rollup;
	struct table samples, t;
	struct gpu_work work;
};

/* All of the window, into its sums. Inside a transaction. */
int minute_gather(struct minute_window *m, struct err *err);

/* r, with its sentence where it has none yet. */
int minute_window_fail(const struct minute_window *m, int r, struct err *err);

/* What cannot be read of it: the samples of a process, or its minutes of the hour. */
int minute_window_leave_out(struct minute_window *m, enum damage_kind kind, int64_t id, uint64_t n,
			    struct err *err);

/* The row that has this minute. */
int64_t minute_window_rollup_id(int64_t process, uint64_t minute);

#endif
