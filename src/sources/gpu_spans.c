#include "sources/gpu.h"

#include "base/unknown.h"

double gpu_idleness_of(const struct gpu_process *p)
{
	if (p->memory_bytes == 0)
		return 0;
	if (!u64_known(p->memory_bytes) || !f64_known(p->utilization_pct))
		return F64_UNKNOWN;
	return p->utilization_pct == 0;
}

static const struct gpu_span *find_span(const struct gpu_spans *s, const struct gpu_process *p)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->of[i].key.pid == p->key.pid &&
		    s->of[i].key.start_ticks == p->key.start_ticks && s->of[i].device == p->device)
			return &s->of[i];
	return NULL;
}

/* NULL: there is no room. */
static struct gpu_span *make_span(struct gpu_spans *s, const struct gpu_process *p)
{
	const struct gpu_span *found = find_span(s, p);

	if (found)
		return &s->of[found - s->of];
	if (s->n == GPU_MAX_PROCESSES)
		return NULL;
	s->of[s->n] = (struct gpu_span){ .key = p->key, .device = p->device };
	return &s->of[s->n++];
}

static void add_time(struct gpu_span *span, const struct gpu_process *p, double ns)
{
	double idleness = gpu_idleness_of(p);

	if (!f64_known(p->utilization_pct) || !f64_known(idleness)) {
		span->untold_ns += ns;
		return;
	}
	span->busy_ns += ns * p->utilization_pct / 100;
	span->idle_ns += ns * idleness;
}

void gpu_spans_add(struct gpu_spans *s, const struct gpu_reading *r, uint64_t since_ns)
{
	s->ns += (double)since_ns;
	for (uint32_t i = 0; i < r->n_processes; i++) {
		struct gpu_span *span = make_span(s, &r->processes[i]);

		if (span)
			add_time(span, &r->processes[i], (double)since_ns);
	}
}

void gpu_spans_tell(const struct gpu_spans *s, const struct gpu_process *p, double *ret_percent,
		    double *ret_idleness)
{
	const struct gpu_span *span = find_span(s, p);
	double told_ns = span ? s->ns - span->untold_ns : 0;
	bool is_told = f64_known(p->utilization_pct) && told_ns > 0;

	*ret_percent = is_told ? 100 * span->busy_ns / told_ns : p->utilization_pct;
	*ret_idleness = is_told ? span->idle_ns / told_ns : gpu_idleness_of(p);
}
