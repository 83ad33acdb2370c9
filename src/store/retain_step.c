#include <errno.h>

#include "base/unknown.h"
#include "store/handle.h"
#include "store/retention.h"

/* So often a full disk is met before nothing more is tried: each time less is asked of it. */
#define FULL_TIMES 5

bool retention_is_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

/* The slices that follow say it, when they are through. */
static int cut_short(struct store *store, struct retention *run, const struct err *full)
{
	if (run->is_cut_short || !u64_known(run->result.bytes_before) ||
	    store_retain_cut_short(store, run, NULL) < 0)
		return full->code;
	run->full = *full;
	return 1;
}

/* 1: to be tried again, with less, or with more room than before. */
static int meet_full(struct store *store, struct retention *run, const struct err *full)
{
	uint64_t n_logs;

	if (++run->n_full < FULL_TIMES)
		return 1;
	run->n_full = 0;
	n_logs = store_drop_logs(store->path, &run->policy);
	run->result.n_logs += n_logs;
	return n_logs > 0 ? 1 : cut_short(store, run, full);
}

int store_retain_step(struct store *store, struct retention *run, struct err *err)
{
	struct err found = ERR_INIT;
	int r = store_retain_slice(store, run, &found);

	if (r > 0)
		run->n_full = 0;
	else if (r == 0 && run->is_cut_short)
		found = run->full;
	else if (retention_is_full(r))
		r = meet_full(store, run, &found);
	if (r > 0 || found.code == 0)
		return r;
	if (err)
		*err = found;
	return found.code;
}
