#include "daemon/rank_phases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"

/* ---- whose a pid was ---- */

/* By pid, then by birth; U64_UNKNOWN is behind all others. */
static int compare_processes(const void *left, const void *right)
{
	const struct proc_record *l = *(const struct proc_record *const *)left;
	const struct proc_record *r = *(const struct proc_record *const *)right;

	if (l->key.pid != r->key.pid)
		return l->key.pid < r->key.pid ? -1 : 1;
	if (l->born_wall_ns != r->born_wall_ns)
		return l->born_wall_ns < r->born_wall_ns ? -1 : 1;
	return (l > r) - (l < r);
}

static size_t list_processes(const struct attempt *a, int sheet_num, const struct proc_record **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].sheet_num == sheet_num)
			ret[n++] = &a->processes[i];
	if (n > 0)
		qsort(ret, n, sizeof(*ret), compare_processes);
	return n;
}

static bool is_before(const struct proc_record *p, const struct phase_record *phase)
{
	return p->key.pid < phase->pid ||
	       (p->key.pid == phase->pid && p->born_wall_ns <= phase->entered_wall_ns);
}

static int rank_of(const struct phase_record *phase, const struct proc_record **processes, size_t n)
{
	size_t low = 0, high = n;

	if (phase->rank != RANK_NONE)
		return phase->rank;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_before(processes[middle], phase))
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && processes[low - 1]->key.pid == phase->pid)
		return processes[low - 1]->rank;
	return low < n && processes[low]->key.pid == phase->pid ? processes[low]->rank : RANK_NONE;
}

/* ---- phases by rank ---- */

static int compare_items(const void *left, const void *right)
{
	const struct rank_phase *l = left, *r = right;

	if (l->rank != r->rank)
		return l->rank < r->rank ? -1 : 1;
	return (l->phase > r->phase) - (l->phase < r->phase);
}

int rank_phases_find(const struct attempt *a, int sheet_num, struct rank_phases *ret)
{
	CLEANUP(free_ptr)
	const struct proc_record **processes = calloc(a->n_processes + 1, sizeof(*processes));
	struct rank_phase *items = calloc(a->n_phases + 1, sizeof(*items));
	size_t n = 0, n_processes;

	if (!processes || !items) {
		free(items);
		return -ENOMEM;
	}
	n_processes = list_processes(a, sheet_num, processes);
	for (size_t i = 0; i < a->n_phases; i++) {
		int rank = rank_of(&a->phases[i], processes, n_processes);

		if (rank != RANK_NONE)
			items[n++] = (struct rank_phase){ rank, i };
	}
	qsort(items, n, sizeof(*items), compare_items);
	*ret = (struct rank_phases){ items, n };
	return 0;
}

void rank_phases_release(struct rank_phases *p)
{
	free(p->items);
	*p = (struct rank_phases){ 0 };
}

size_t rank_phases_first(const struct rank_phases *p, int rank)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->items[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
