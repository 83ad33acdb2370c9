#include "daemon/rank_lives.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"

/* A birth is known to a clock tick of the kernel, and may seem to be behind a death. */
#define BIRTH_SLACK_NS UINT64_C(10000000)

/* A process comes, or goes. */
struct change {
	uint64_t wall_ns;
	const struct proc_record *process;
	bool is_death;
};

static bool counts(const struct proc_record *p, const struct rank_lives_of *of)
{
	return p->rank >= 0 && p->sheet_num == of->sheet_num &&
	       (!u64_known(p->died_wall_ns) || p->died_wall_ns >= of->since_wall_ns);
}

static uint64_t birth_of(const struct proc_record *p)
{
	return u64_known(p->born_wall_ns) && p->born_wall_ns > BIRTH_SLACK_NS
		       ? p->born_wall_ns - BIRTH_SLACK_NS
		       : 0;
}

/* By rank, then time; who comes when another goes was there with it. */
static int compare_changes(const void *left, const void *right)
{
	const struct change *l = left, *r = right;

	if (l->process->rank != r->process->rank)
		return l->process->rank < r->process->rank ? -1 : 1;
	if (l->wall_ns != r->wall_ns)
		return l->wall_ns < r->wall_ns ? -1 : 1;
	return l->is_death - r->is_death;
}

static size_t list_changes(const struct attempt *a, const struct rank_lives_of *of,
			   struct change *changes)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];
		uint64_t born = birth_of(p);

		if (!counts(p, of))
			continue;
		changes[n++] = (struct change){ born, p, false };
		/* U64_UNKNOWN is behind all others. */
		changes[n++] =
			(struct change){ p->died_wall_ns > born ? p->died_wall_ns : born, p, true };
	}
	qsort(changes, n, sizeof(*changes), compare_changes);
	return n;
}

/* The changes [from, to) are those of one rank. */
static struct rank_life describe(const struct change *from, const struct change *to, bool is_gpu)
{
	const struct proc_record *root = from->process;
	struct rank_life life = { .rank = root->rank };
	uint64_t held = 0;

	for (const struct change *c = from; c < to; c++) {
		uint64_t peak = is_gpu ? c->process->max_gpu_bytes : c->process->max_rss_bytes;

		root = c->process < root ? c->process : root; /* they are in the order of births */
		if (c->process->died_wall_ns > life.ended_wall_ns)
			life.ended_wall_ns = c->process->died_wall_ns;
		if (c->is_death)
			held -= u64_known(peak) ? peak : 0;
		else if (!u64_known(peak) || __builtin_add_overflow(held, peak, &held))
			life.peak_bytes = U64_UNKNOWN;
		if (held > life.peak_bytes)
			life.peak_bytes = held;
	}
	life.local_rank = root->local_rank >= 0 ? root->local_rank : root->rank;
	life.pid = root->key.pid;
	life.born_wall_ns = root->born_wall_ns;
	return life;
}

int rank_lives_find(const struct attempt *a, const struct rank_lives_of *of, struct rank_life **ret,
		    size_t *ret_n)
{
	CLEANUP(free_ptr) struct change *changes = calloc(2 * a->n_processes + 1, sizeof(*changes));
	struct rank_life *lives = calloc(a->n_processes + 1, sizeof(*lives));
	size_t n_changes, n = 0;

	if (!changes || !lives) {
		free(lives);
		return -ENOMEM;
	}
	n_changes = list_changes(a, of, changes);
	for (size_t from = 0, to; from < n_changes; from = to) {
		for (to = from;
		     to < n_changes && changes[to].process->rank == changes[from].process->rank;)
			to++;
		lives[n++] = describe(changes + from, changes + to, of->is_gpu);
	}
	*ret = lives;
	*ret_n = n;
	return 0;
}
