#include "tui/calls.h"

#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

#define MAX_NAMES 512 /* there are fewer system calls */
#define DESCRIBED 8

struct call {
	const char *name;
	uint64_t count;
	double time_ns; /* NaN: not timed */
};

/* Those of all processes of a node, by name. */
struct call_sums {
	struct call items[MAX_NAMES];
	size_t n;
	bool is_counted; /* of one of them, at least */
	struct map by_name;
};

static struct call *find_or_add(struct call_sums *sums, const char *name)
{
	uint64_t key = hash_bytes(HASH_INIT, name, strlen(name)), at;

	if (map_get(&sums->by_name, key, &at))
		return &sums->items[at];
	if (sums->n == MAX_NAMES || map_put(&sums->by_name, key, sums->n) < 0)
		return NULL;
	sums->items[sums->n] = (struct call){ name, 0, F64_UNKNOWN };
	return &sums->items[sums->n++];
}

static void add_process(struct call_sums *sums, const struct proc_sample *p)
{
	sums->is_counted |= p->syscalls != NULL;
	for (size_t i = 0; p->syscalls && i < p->n_syscalls; i++) {
		const struct syscall_use *use = &p->syscalls[i];
		struct call *call = find_or_add(sums, use->name);

		if (!call || !u64_known(use->count))
			continue;
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

static void sum_up(struct call_sums *sums, const struct snapshot *s, const struct node *node)
{
	if (node->p) {
		add_process(sums, node->p);
		return;
	}
	for (size_t i = 0; i < s->n_processes; i++)
		if (is_below(&s->processes[i], node))
			add_process(sums, &s->processes[i]);
}

/* The next by their number, which is then taken out; NULL: no more. */
static const struct call *take_most(struct call_sums *sums, struct call *ret)
{
	size_t most = 0;

	for (size_t i = 1; i < sums->n; i++)
		if (sums->items[i].count > sums->items[most].count ||
		    (sums->items[i].count == sums->items[most].count &&
		     strcmp(sums->items[i].name, sums->items[most].name) < 0))
			most = i;
	if (sums->n == 0 || sums->items[most].count == 0)
		return NULL;
	*ret = sums->items[most];
	sums->items[most] = sums->items[--sums->n];
	return ret;
}

/* Shares cannot be added up over processes: only of one they are told. */
static void add_call(struct buf *out, const struct call *call, double total_ns, bool *was_said)
{
	buf_printf(out, "%s %llu", call->name, (unsigned long long)call->count);
	if (!(total_ns > 0) || !f64_known(call->time_ns))
		return;
	buf_printf(out, " (%.0f %%%s)", 100 * call->time_ns / total_ns,
		   *was_said ? "" : " of their CPU time");
	*was_said = true;
}

static double total_time(const struct call_sums *sums)
{
	double total = 0;

	for (size_t i = 0; i < sums->n; i++)
		total += f64_known(sums->items[i].time_ns) ? sums->items[i].time_ns : 0;
	return total;
}

/* As many as fit into so many columns. */
static void tell_names(struct call_sums *sums, int columns, struct buf *out)
{
	struct call call;

	while (take_most(sums, &call) &&
	       (int)(out->len + (out->len > 0) + strlen(call.name)) <= columns) {
		if (out->len > 0)
			buf_add_char(out, ' ');
		buf_add_str(out, call.name);
	}
}

static void tell_counts(struct call_sums *sums, double total_ns, struct buf *out)
{
	bool was_said = false; /* of what a share is */
	struct call call;

	for (size_t n = 0; n < DESCRIBED && take_most(sums, &call); n++) {
		if (n > 0)
			buf_add_str(out, ", ");
		add_call(out, &call, total_ns, &was_said);
	}
	if (out->len > 0)
		buf_add_str(out, " since the look before");
}

void calls_name(const struct snapshot *s, const struct node *node, int columns, struct buf *out)
{
	struct call_sums sums = { .by_name = MAP_INIT };

	sum_up(&sums, s, node);
	tell_names(&sums, columns, out);
	if (!sums.is_counted)
		buf_add_char(out, '-');
	map_release(&sums.by_name);
}

void calls_describe(const struct snapshot *s, const struct node *node, struct buf *out)
{
	struct call_sums sums = { .by_name = MAP_INIT };

	sum_up(&sums, s, node);
	tell_counts(&sums, node->p ? total_time(&sums) : 0, out);
	if (out->len == 0)
		buf_add_str(out, sums.is_counted ? "none since the look before" : "-");
	map_release(&sums.by_name);
}
