/*
 * gpu_minutes - the host's GPUs, a minute at a time: as rollup.h has it for processes.
 *
 * The row of an hour stands where that of process 0 would, which there is not: the tables of its
 * GPUs, one behind the other. Several recorders may have looked at the same GPU: their samples
 * count alike. In the sums a GPU's index is what a process's row is for others.
 */
#ifndef PROCTOR_STORE_GPU_MINUTES_H
#define PROCTOR_STORE_GPU_MINUTES_H

#include "base/buf.h"
#include "model/snapshot.h"
#include "store/fold_times.h"
#include "store/minute_sums.h"
#include "store/store.h"

#define GPU_MINUTES_PROCESS 0

/* Room to work in. */
struct gpu_work {
	struct table t;
	struct rollup rollup;
};

/*
 * Adds those minutes of a fold's GPUs that there is room for; head is its blob. *ret_any (NULL is
 * fine) is set where there were some. -EBADMSG, -ENOMEM, -EOVERFLOW
 */
int gpu_minutes_add_fold(struct minute_sums *s, const void *head, size_t len,
			 const struct fold_times *times, struct gpu_work *work, bool *ret_any);

/* The row of the hour that the sums are of, before anything else is added. The same. */
int gpu_minutes_add_row(struct minute_sums *s, const void *data, size_t len, struct gpu_work *work);

/* The same of the hour's row in the store, if there is one. For -EBADMSG err is not set. */
int64_t gpu_minutes_row_id(const struct minute_sums *s);
int gpu_minutes_read_row(struct store *store, struct minute_sums *s, struct gpu_work *work,
			 struct err *err);

/* The row of the hour. */
void gpu_minutes_write(struct buf *out, const struct minute_sums *s, struct gpu_work *work);

/* Of sums that were sorted: the averages of what goes up and down, of all else the last. NULL and
 * none where no GPU was seen. -EBADMSG, -ENOMEM */
int gpu_minutes_tell(const struct minute_sums *s, uint64_t minute, struct snapshot *ret);

#endif
