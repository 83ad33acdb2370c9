/*
 * The system calls of a process, or of all that is below a node, most frequent first. "-" where
 * they were not counted, which is not the same as none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "tui/draw.h"

#define MAX_NAMES 512 /* there are fewer system calls */
#define DESCRIBED 8

struct call {
	const char *name;
	uint64_t count;
	double time_ns; /* NaN: not timed */
};

struct call_sums {
	struct call items[MAX_NAMES];
	size_t n;
	bool is_counted; /* of one process, at least */
	struct map by_name;
};

static void add_process(struct call_sums *sums, const struct proc_sample *p)
{
	sums->is_counted |= p->syscalls != NULL;
	for (size_t i = 0; p->syscalls && i < p->n_syscalls; i++) {
		const struct syscall_use *use = &p->syscalls[i];
		uint64_t key = hash_bytes(HASH_INIT, use->name, strlen(use->name)), at = sums->n;
		struct call *call;

		if (!u64_known(use->count) || use->count == 0)
			continue;
		if (!map_get(&sums->by_name, key, &at)) {
			if (sums->n == MAX_NAMES || map_put(&sums->by_name, key, at) < 0)
				continue;
			sums->items[sums->n++] = (struct call){ use->name, 0, F64_UNKNOWN };
		}
		call = &sums->items[at];
		call->count += use->count;
		if (u64_known(use->cpu_ns))
			call->time_ns = (f64_known(call->time_ns) ? call->time_ns : 0) +
					(double)use->cpu_ns;
	}
}

static bool is_below(const struct proc_sample *p, const struct node *node)
{
	if (!node->job_id != !p->job_id || (p->job_id && strcmp(p->job_id, node->job_id) != 0))
		return false;
	if (p->attempt_id && p->attempt_id != node->attempt_id)
		return false;
	return (node->sheet_num == SHEET_NONE || p->sheet_num == node->sheet_num) &&
	       (node->rank == RANK_NONE || p->rank == node->rank);
}

static int compare_calls(const void *x, const void *y)
{
	const struct call *a = x, *b = y;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void sum_up(struct call_sums *sums, const struct snapshot *s, const struct node *node)
{
	sums->n = 0;
	sums->is_counted = false;
	sums->by_name = (struct map)MAP_INIT;
	if (node->p)
		add_process(sums, node->p);
	for (size_t i = 0; !node->p && i < s->n_processes; i++)
		if (is_below(&s->processes[i], node))
			add_process(sums, &s->processes[i]);
	map_release(&sums->by_name);
	qsort(sums->items, sums->n, sizeof(*sums->items), compare_calls);
}

void calls_name(const struct snapshot *s, const struct node *node, int columns, struct buf *out)
{
	struct call_sums sums;

	sum_up(&sums, s, node);
	for (size_t i = 0; i < sums.n; i++) {
		const char *name = sums.items[i].name;

		if ((int)(out->len + (out->len > 0) + strlen(name)) > columns)
			break;
		buf_printf(out, "%s%s", out->len > 0 ? " " : "", name);
	}
	if (!sums.is_counted)
		buf_add_char(out, '-');
}

/* Shares cannot be added up over processes: they are shown of one alone. */
void calls_describe(const struct snapshot *s, const struct node *node, struct buf *out)
{
	struct call_sums sums;
	const char *whose = " of their CPU time";
	double total_ns = 0;

	sum_up(&sums, s, node);
	for (size_t i = 0; node->p && i < sums.n; i++)
		total_ns += f64_known(sums.items[i].time_ns) ? sums.items[i].time_ns : 0;
	for (size_t i = 0; i < sums.n && i < DESCRIBED; i++) {
		const struct call *call = &sums.items[i];

		buf_printf(out, "%s%s %llu", i > 0 ? ", " : "", call->name,
			   (unsigned long long)call->count);
		if (!(total_ns > 0) || !f64_known(call->time_ns))
			continue;
		buf_printf(out, " (%.0f %%%s)", 100 * call->time_ns / total_ns, whose);
		whose = "";
	}
	if (sums.n > 0)
		buf_add_str(out, " since the look before");
	else
		buf_add_str(out, sums.is_counted ? "none since the look before" : "-");
}
