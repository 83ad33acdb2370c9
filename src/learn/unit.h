/*
 * unit - what counts as one: the first run of each input.
 *
 * A run is a retry if it is of the same command and input as one that did not succeed, and
 * began within an hour of that one's end, whatever id the job was given. Of runs from a
 * file, which say nothing of that, those with the same job id.
 */
#ifndef PROCTOR_LEARN_UNIT_H
#define PROCTOR_LEARN_UNIT_H

#include <stddef.h>
#include <stdint.h>

#include "model/run.h"

#define UNIT_RETRY_NS UINT64_C(3600000000000) /* a retry begins within this */

/*
 * The whole runs with an outcome, without retries, by class and then by time.
 * *ret is the caller's to free; *ret_n_retries and *ret_n_undecided are those left
 * out. -ENOMEM.
 */
int units_list(const struct run_record *runs, size_t n, const struct run_record ***ret,
	       size_t *ret_n, size_t *ret_n_retries, size_t *ret_n_undecided);

/* Those of a class that ended later than so: [*ret_first, the end that is returned). */
size_t units_of_class(const struct run_record *const *units, size_t n, uint64_t class_key,
		      uint64_t after_wall_ns, size_t *ret_first);

#endif
