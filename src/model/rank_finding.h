/*
 * rank_finding - which rank of an attempt was first, in the few words of a report.
 */
#ifndef PROCTOR_MODEL_RANK_FINDING_H
#define PROCTOR_MODEL_RANK_FINDING_H

#include <stdbool.h>
#include <stdint.h>

/* Texts are the attempt's. */
struct rank_finding {
	uint64_t n_ranks; /* with samples */
	int64_t world_size;
	uint64_t n_samples;
	const char *measure; /* "rss" or "gpu_memory" */
	const char
		*verdict; /* "named", "cannot_tell", "none"; NULL: samples are not there any more */
	int64_t rank;	  /* who was first; -1 unless named */
	double probability;	 /* NaN unless named */
	uint64_t onset_wall_ns;	 /* U64_UNKNOWN unless named */
	const char *phase;	 /* at the onset, of several the likely one; NULL: none */
	bool is_phase_ambiguous; /* there were several, or one that began or ended about then */
	bool has_passed;	 /* it came down again, and so did all that rose with it */
	const char *reason;	 /* one sentence, or two */
	const char *remedy;	 /* what would settle it; "" */
};

#endif
