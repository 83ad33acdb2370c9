/*
 * life_loss - counts the messages that the kernel dropped, by the gaps in their numbers.
 */
#ifndef PROCTOR_SOURCES_LIFE_LOSS_H
#define PROCTOR_SOURCES_LIFE_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is a good beginning. */
struct life_loss {
	struct life_loss_cpu {
		uint32_t next_seq;
		bool is_seen;
	} * cpus;
	size_t n_cpus;
	uint64_t missing;    /* not yet told */
	uint64_t told_early; /* told by life_loss_take() before the gap showed */
	bool has_overflow;
};

void life_loss_release(struct life_loss *loss);

/*
 * A message has come. The first of each CPU sets where counting begins. True if
 * some are missing right before it.
 */
bool life_loss_see(struct life_loss *loss, uint32_t cpu, uint32_t seq);

/* The socket said that it overflowed: something is missing, even if no gap shows it yet. */
void life_loss_overflow(struct life_loss *loss);

/* How many are missing since the last call. */
uint64_t life_loss_take(struct life_loss *loss);

#endif
