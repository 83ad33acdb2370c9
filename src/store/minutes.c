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

/* An average of whole things is rounded to one of them. */
static uint64_t whole(double average)
{
	return f64_known(average) && average < (double)INT64_MAX ? (uint64_t)llround(average)
								 : U64_UNKNOWN;
}

/* An average as the member of a sample, by its kind. */
#define AVERAGE_F64(average_) (average_)
#define AVERAGE_U64(average_) whole(average_)
#define AVERAGE_MB(average_) whole(average_)

void minute_row_sample(const struct minute_row *row, struct proc_sample *ret)
{
	*ret = row->last;
#define SAMPLE_GAUGE(kind_, member_, ...) ret->member_ = AVERAGE_##kind_(row->avg.member_);
#include "model/sample_fields.def"
	ret->hwm_bytes = row->max.hwm_bytes; /* an average of high-water marks is none */
}
