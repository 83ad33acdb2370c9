#include "report/figures.h"

#include "base/map.h"
#include "base/unknown.h"

static void figures_from_usage(const struct usage *usage, struct figures *ret)
{
	*ret = (struct figures){ .usage = *usage, .unique_pids = U64_UNKNOWN };
	ret->cpu_ns = u64_add(usage->user_ns, usage->system_ns);
}

/* What the samples show, where there is no total. sheet NULL: of the whole attempt. */
static void add_seen_in_series(const struct attempt *a, const struct sheet_record *sheet,
			       struct usage *usage)
{
	uint64_t rss = U64_UNKNOWN, n_processes = U64_UNKNOWN;
	double cpu = F64_UNKNOWN;

	for (size_t i = 0; i < a->n_series; i++) {
		const struct series_point *p = &a->series[i];

		if (sheet && (p->sheet_num != sheet->num || p->wall_ns < sheet->started_wall_ns))
			continue;
		rss = u64_max_known(rss, p->rss_bytes);
		n_processes = u64_max_known(n_processes, p->n_processes);
		cpu = f64_max_known(p->cpu_percent, cpu);
	}
	if (!u64_known(usage->peak_rss_bytes) && u64_known(rss)) {
		usage->peak_rss_bytes = rss;
		usage->peak_rss_evidence = EVIDENCE_SAMPLED;
	}
	if (!u64_known(usage->peak_processes))
		usage->peak_processes = n_processes;
	if (!isfinite(usage->peak_cpu_percent))
		usage->peak_cpu_percent = cpu;
}

static void add_seen_in_processes(const struct attempt *a, struct usage *usage)
{
	uint64_t rss = U64_UNKNOWN, born = 0;

	for (size_t i = 0; i < a->n_processes; i++)
		rss = u64_max_known(rss, a->processes[i].max_rss_bytes);
	for (size_t i = 0; i < a->n_events; i++)
		born += a->events[i].type == EVENT_SPAWN;
	if (a->n_processes > born)
		born = a->n_processes;
	if (!u64_known(usage->max_process_rss_bytes) && u64_known(rss)) {
		usage->max_process_rss_bytes = rss;
		usage->max_process_rss_evidence = EVIDENCE_LOWER_BOUND;
	}
	if (!u64_known(usage->spawn_count) && born > 0) {
		usage->spawn_count = born;
		usage->spawn_evidence = EVIDENCE_LOWER_BOUND;
	}
}

static uint64_t count_unique_pids(const struct attempt *a)
{
	CLEANUP(map_release) struct map seen = MAP_INIT;

	for (size_t i = 0; i < a->n_processes; i++)
		if (map_put(&seen, (uint64_t)a->processes[i].key.pid, 1) < 0)
			return U64_UNKNOWN;
	for (size_t i = 0; i < a->n_events; i++)
		if (map_put(&seen, (uint64_t)a->events[i].key.pid, 1) < 0)
			return U64_UNKNOWN;
	return seen.len > 0 ? seen.len : U64_UNKNOWN;
}

uint64_t figures_last_seen(const struct attempt *a)
{
	uint64_t seen = a->started_wall_ns;

	if (u64_known(a->ended_wall_ns))
		return a->ended_wall_ns;
	for (size_t i = 0; i < a->n_series; i++)
		seen = u64_max_known(seen, a->series[i].wall_ns);
	for (size_t i = 0; i < a->n_events; i++)
		seen = u64_max_known(seen, a->events[i].wall_ns);
	for (size_t i = 0; i < a->n_sheets; i++) {
		seen = u64_max_known(seen, a->sheets[i].started_wall_ns);
		seen = u64_max_known(seen, a->sheets[i].ended_wall_ns);
	}
	return seen;
}

/* Without a wall time of its own: from start to end, or as far as anything is known of it. */
static void set_wall(struct figures *f, uint64_t started, uint64_t ended, uint64_t last_seen)
{
	bool has_end = u64_known(ended);

	if (figure_is_known(f, FIGURE_WALL))
		return;
	f->usage.wall_ns = u64_delta(has_end ? ended : last_seen, started);
	if (figure_is_known(f, FIGURE_WALL))
		f->evidence[FIGURE_WALL] = has_end ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
}

void figures_of_attempt(const struct attempt *a, struct figures *ret)
{
	figures_from_usage(&a->usage, ret);
	add_seen_in_series(a, NULL, &ret->usage);
	add_seen_in_processes(a, &ret->usage);
	ret->unique_pids = count_unique_pids(a);
	figures_set_evidence(ret);
	set_wall(ret, a->started_wall_ns, a->ended_wall_ns, figures_last_seen(a));
	if (ret->evidence[FIGURE_SPAWNS] == EVIDENCE_EXACT &&
	    ret->usage.spawn_count <= a->n_processes)
		ret->evidence[FIGURE_UNIQUE_PIDS] = EVIDENCE_EXACT;
}

void figures_of_sheet(const struct attempt *a, const struct sheet_record *sheet,
		      struct figures *ret)
{
	bool is_open = !u64_known(sheet->ended_wall_ns);

	figures_from_usage(&sheet->usage, ret);
	if (is_open)
		add_seen_in_series(a, sheet, &ret->usage);
	figures_set_evidence(ret);
	set_wall(ret, sheet->started_wall_ns, sheet->ended_wall_ns,
		 is_open ? figures_last_seen(a) : U64_UNKNOWN);
}
