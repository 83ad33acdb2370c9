#include "sources/life_loss.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CPUS 65536 /* the kernel's own bound is 8192 */

void life_loss_release(struct life_loss *loss)
{
	free(loss->cpus);
	*loss = (struct life_loss){ 0 };
}

static struct life_loss_cpu *get_cpu(struct life_loss *loss, uint32_t cpu)
{
	struct life_loss_cpu *cpus;
	size_t n = (size_t)cpu + 1;

	if (cpu >= MAX_CPUS)
		return NULL;
	if (n > loss->n_cpus) {
		cpus = reallocarray(loss->cpus, n, sizeof(*cpus));
		if (!cpus)
			return NULL;
		memset(cpus + loss->n_cpus, 0, (n - loss->n_cpus) * sizeof(*cpus));
		loss->cpus = cpus;
		loss->n_cpus = n;
	}
	return &loss->cpus[cpu];
}

bool life_loss_see(struct life_loss *loss, uint32_t cpu, uint32_t seq)
{
	struct life_loss_cpu *c = get_cpu(loss, cpu);
	int32_t gap;

	if (!c)
		return false;
	gap = c->is_seen ? (int32_t)(seq - c->next_seq) : 0;
	if (gap < 0) { /* late, not lost: old kernels number first and send later */
		if (loss->missing > 0)
			loss->missing--;
		return false;
	}
	loss->missing += (uint32_t)gap;
	*c = (struct life_loss_cpu){ .next_seq = seq + 1, .is_seen = true };
	return gap > 0;
}

void life_loss_overflow(struct life_loss *loss)
{
	loss->has_overflow = true;
}

uint64_t life_loss_take(struct life_loss *loss)
{
	uint64_t early = loss->missing < loss->told_early ? loss->missing : loss->told_early;
	uint64_t lost = loss->missing - early;

	loss->told_early -= early;
	loss->missing = 0;
	if (loss->has_overflow && lost == 0 && early == 0) {
		lost = 1;
		loss->told_early++;
	}
	loss->has_overflow = false;
	return lost;
}
