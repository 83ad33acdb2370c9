#include "store/minutes.h"

#include <math.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/minute_walk.h"

int store_read_minutes(struct store *store, const struct minute_filter *filter, minute_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(minute_walk_close) struct minute_walk *walk = NULL;
	int r = minute_walk_open(store, filter, false, &walk, err);

	while (r == 0 && (r = minute_walk_next(walk, err)) > 0)
		r = fn(ctx, minute_walk_row(walk));
	return r;
}

/* An average of whole things, as one of them would be told. */
static uint64_t whole(double average)
{
	return f64_known(average) && average < (double)INT64_MAX ? (uint64_t)llround(average)
								 : U64_UNKNOWN;
}

void minute_row_sample(const struct minute_row *row, struct proc_sample *ret)
{
	*ret = row->last;
	ret->cpu_percent = row->avg.cpu_percent;
	ret->rss_bytes = whole(row->avg.rss_bytes);
	ret->rss_anon_bytes = whole(row->avg.rss_anon_bytes);
	ret->rss_file_bytes = whole(row->avg.rss_file_bytes);
	ret->rss_shmem_bytes = whole(row->avg.rss_shmem_bytes);
	ret->vms_bytes = whole(row->avg.vms_bytes);
	ret->swap_bytes = whole(row->avg.swap_bytes);
	ret->threads = whole(row->avg.threads);
	ret->open_fds = whole(row->avg.open_fds);
	ret->gpu_memory_bytes = whole(row->avg.gpu_memory_bytes);
	ret->gpu_percent = row->avg.gpu_percent;
	ret->hwm_bytes = row->max.hwm_bytes;
}
