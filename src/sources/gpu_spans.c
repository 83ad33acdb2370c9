#include <stdlib.h>

#include "base/unknown.h"
#include "sources/gpu.h"

double gpu_idleness_of(const struct gpu_process *p)
{
	if (p->memory_bytes == 0 || p->utilization_pct > 0)
		return 0;
	if (!u64_known(p->memory_bytes) || !f64_known(p->utilization_pct))
		return F64_UNKNOWN;
	return 1;
}

static int compare_keys(const struct proc_key *a, const struct proc_key *b)
{
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return (a->start_ticks > b->start_ticks) - (a->start_ticks < b->start_ticks);
}

static int compare_processes(const void *a, const void *b)
{
	return compare_keys(&((const struct gpu_process *)a)->key,
			    &((const struct gpu_process *)b)->key);
}

void gpu_sort_processes(struct gpu_reading *r)
{
	qsort(r->processes, r->n_processes, sizeof(r->processes[0]), compare_processes);
}

static int compare_spans(const void *a, const void *b)
{
	return compare_keys(&((const struct gpu_span *)a)->key, &((const struct gpu_span *)b)->key);
}

/* Among the first n. */
static const struct gpu_span *find_span(const struct gpu_spans *s, uint32_t n,
					const struct proc_key *key)
{
	const struct gpu_span wanted = { .key = *key };

	return bsearch(&wanted, s->of, n, sizeof(s->of[0]), compare_spans);
}

/* Behind those n that are sorted, if it is not among them. NULL: there is no room. */
static struct gpu_span *make_span(struct gpu_spans *s, uint32_t n, const struct proc_key *key)
{
	const struct gpu_span *found = find_span(s, n, key);

	if (found)
		return &s->of[found - s->of];
	if (s->n == GPU_MAX_PROCESSES) {
		s->is_full = true;
		return NULL;
	}
	s->of[s->n] = (struct gpu_span){ .key = *key };
	return &s->of[s->n++];
}

/* Whether who is not in it used no GPU. */
static bool tells_of_all(const struct gpu_reading *r)
{
	return r->n_left_out == 0 || r->has_holders;
}

static void add_time(struct gpu_mean *m, double value, double ns, bool is_of_all)
{
	if (f64_known(value)) {
		m->sum += value * ns;
		m->more_ns += is_of_all ? 0 : ns;
	} else {
		m->more_ns -= is_of_all ? ns : 0;
	}
}

void gpu_spans_add(struct gpu_spans *s, const struct gpu_reading *r, uint64_t since_ns)
{
	bool is_of_all = tells_of_all(r);
	uint32_t n = s->n, next;

	s->ns += is_of_all ? (double)since_ns : 0;
	for (uint32_t i = 0; i < r->n_processes; i = next) {
		struct gpu_span *span = make_span(s, n, &r->processes[i].key);
		double percent = 0, idleness = 0;

		for (next = i; next < r->n_processes &&
			       compare_processes(&r->processes[i], &r->processes[next]) == 0;
		     next++) {
			percent += r->processes[next].utilization_pct;
			idleness += gpu_idleness_of(&r->processes[next]);
		}
		if (!span)
			continue;
		add_time(&span->percent, percent, (double)since_ns, is_of_all);
		add_time(&span->idleness, idleness, (double)since_ns, is_of_all);
	}
	if (s->n > n)
		qsort(s->of, s->n, sizeof(s->of[0]), compare_spans);
}

static double mean_of(const struct gpu_spans *s, const struct gpu_mean *m, double last)
{
	double told_ns = s->ns + m->more_ns;

	return f64_known(last) && told_ns > 0 ? m->sum / told_ns : last;
}

void gpu_spans_tell(const struct gpu_spans *s, const struct proc_key *key, double *percent,
		    double *idleness)
{
	const struct gpu_span *span = find_span(s, s->n, key);

	if (span) {
		*percent = mean_of(s, &span->percent, *percent);
		*idleness = mean_of(s, &span->idleness, *idleness);
	} else if (s->is_full) {
		*percent = *idleness = F64_UNKNOWN;
	}
}

void gpu_spans_reset(struct gpu_spans *s)
{
	s->ns = s->n = 0;
	s->is_full = false;
}
