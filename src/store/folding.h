/*
 * folding - what is behind a struct folding; for the files that fold only.
 */
#ifndef PROCTOR_STORE_FOLDING_H
#define PROCTOR_STORE_FOLDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "store/codec.h"
#include "store/fold.h"

/* The ticks that become one, and the thing that is taken out of all of them at once. */
struct folding {
	struct store *store;
	struct buf bytes;			/* of the ticks, one behind the other */
	size_t offsets[CODEC_ROWS + 2];		/* in bytes */
	struct fold_lost ticks[CODEC_ROWS + 1]; /* one more than fits: is there more? */
	bool has_more;				/* there is, or may be */
	struct tick_reader readers[CODEC_ROWS];
	bool is_done[N_LISTS][CODEC_ROWS]; /* its list is at the end */
	unsigned n_loaded, n;		   /* n of them could be read, and have a reader */
	int64_t read_ids[CODEC_ROWS];
	const char **strings_of[CODEC_ROWS]; /* of each reader; NULL where it has none */
	struct table head, table;
	struct fold_strings strings;
	struct map string_of; /* hash -> number of the string */
	struct buf things;    /* of the head, behind the strings, which are all known last */
};

/* NULL: no memory. */
struct folding *folding_new(struct store *store);

/*
 * The oldest ticks of the recorder, as fold_read_pending() says, with a reader for each that can
 * be read; those that cannot be are in ret->lost. 0: there are none. 1.
 */
int folding_load(struct folding *f, int64_t recorder, int64_t after_id, int64_t last_id,
		 struct folded *ret, struct err *err);

#endif
