#include "crossrank/mixed.h"

#include "crossrank/strays.h"

#define MAX_SEEN 8    /* processes that are remembered; more take turns only if these do */
#define MIN_RETURNS 3 /* a process that ends writes one or two of its records late */

/* Those seen last, and whether this one is among them, though others came since. */
struct seen {
	uint64_t processes[MAX_SEEN];
	size_t n; /* so far, of which the last MAX_SEEN are there */
};

static bool returns(struct seen *seen, uint64_t process)
{
	size_t n = seen->n < MAX_SEEN ? seen->n : MAX_SEEN;

	for (size_t i = 0; i < n; i++)
		if (seen->processes[i] == process)
			return true;
	seen->processes[seen->n++ % MAX_SEEN] = process;
	return false;
}

/* By one device: each may have a process that looks after it. */
static bool is_mixed(const struct telemetry *t, const struct stream *s)
{
	struct seen seen = { .n = 0 };
	uint32_t identity = UINT32_MAX; /* which none has */
	uint64_t process = 0;
	unsigned n_returns = 0;

	for (size_t i = 0; i < s->n && n_returns < MIN_RETURNS; i++) {
		uint64_t next;

		if (s->samples[i].identity == identity ||
		    s->samples[i].device != s->samples[0].device)
			continue;
		identity = s->samples[i].identity;
		next = strays_process(&t->identities[identity]);
		if (i == 0 || next != process)
			n_returns += returns(&seen, next);
		process = next;
	}
	return n_returns >= MIN_RETURNS;
}

const struct rank *mixed_find(const struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++)
		if (is_mixed(a->telemetry, a->ranks[i].own))
			return &a->ranks[i];
	return NULL;
}
