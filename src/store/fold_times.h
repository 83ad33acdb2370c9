/*
 * fold_times - when the ticks of a fold were, out of its head.
 */
#ifndef PROCTOR_STORE_FOLD_TIMES_H
#define PROCTOR_STORE_FOLD_TIMES_H

#include "store/codec.h"

struct fold_times {
	unsigned n;
	int64_t ids[CODEC_ROWS];
	uint64_t wall_ns[CODEC_ROWS]; /* each is known */
	uint64_t boot_ns[CODEC_ROWS];
	size_t things_at; /* where in the blob what stands behind the head begins… */
	bool has_gpus;	  /* …and whether those do */
};

/*
 * Where the head is not what was written (query_read_some_blob()) its times may be all the
 * same: then it has nothing behind it. t is room to work in. -EBADMSG, -ENOMEM
 */
int fold_times_read(const void *head, size_t len, bool is_whole, struct table *t,
		    struct fold_times *ret);

#endif
