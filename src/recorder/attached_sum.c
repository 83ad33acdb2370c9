#include "recorder/attached_sum.h"

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"

/* The last one that had the pid. */
static struct proc_record *find_process(const struct attempt *a, const struct map *index_of,
					const struct proc_key *key)
{
	struct proc_record *p;
	uint64_t i;

	if (!map_get(index_of, (uint64_t)(uint32_t)key->pid, &i))
		return NULL;
	p = &a->processes[i];
	return u64_known(key->start_ticks) && key->start_ticks != p->key.start_ticks ? NULL : p;
}

static void take_event(const struct attempt *a, const struct map *index_of,
		       const struct proc_event *ev, uint64_t *n_births)
{
	struct proc_record *p;

	*n_births += ev->type == EVENT_SPAWN;
	p = ev->type == EVENT_EXIT ? find_process(a, index_of, &ev->key) : NULL;
	if (!p)
		return;
	p->died_wall_ns = ev->wall_ns;
	p->status = ev->status;
}

/* Returns how many births there were. */
static uint64_t take_events(const struct attempt *a)
{
	CLEANUP(map_release) struct map index_of = MAP_INIT;
	uint64_t n_births = 0;

	for (size_t i = 0; i < a->n_processes; i++)
		map_put(&index_of, (uint64_t)(uint32_t)a->processes[i].key.pid, i);
	for (size_t i = 0; i < a->n_events; i++)
		take_event(a, &index_of, &a->events[i], &n_births);
	return n_births;
}

/*
 * Those that had ended before it was attached are in none of these, and whether there were any
 * nobody knows: what it used is certainly not less, and never exact.
 */
static void judge_processes(struct usage *u)
{
	if (u64_known(u->user_ns))
		u->cpu_evidence = EVIDENCE_LOWER_BOUND;
	if (u64_known(u->max_process_rss_bytes))
		u->max_process_rss_evidence = EVIDENCE_LOWER_BOUND;
}

static void add_processes(struct attempt *a)
{
	struct usage *u = &a->usage;

	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		u->user_ns = u64_add_known(u->user_ns, p->user_ns);
		u->system_ns = u64_add_known(u->system_ns, p->system_ns);
		u->max_process_rss_bytes =
			u64_max_known(u->max_process_rss_bytes, p->max_rss_bytes);
	}
}

static void add_io(struct usage *u, const struct proc_record *p)
{
	u->rchar = u64_add_known(u->rchar, p->rchar);
	u->wchar = u64_add_known(u->wchar, p->wchar);
	u->read_bytes = u64_add_known(u->read_bytes, p->read_bytes);
	u->write_bytes = u64_add_known(u->write_bytes, p->write_bytes);
}

/*
 * What a process did has what its children did that it has waited for: so those are added whom
 * none of the job could wait for. Of the others nobody knows whether that was done.
 */
static void add_counts(struct attempt *a)
{
	CLEANUP(map_release) struct map pids = MAP_INIT;
	struct usage *u = &a->usage;
	int r = 0;

	for (size_t i = 0; i < a->n_processes && r == 0; i++)
		r = map_put(&pids, (uint64_t)(uint32_t)a->processes[i].key.pid, 0);
	for (size_t i = 0; i < a->n_processes && r == 0; i++) {
		const struct proc_record *p = &a->processes[i];
		uint64_t ignored;

		u->major_faults = u64_add_known(u->major_faults, p->major_faults);
		if (!map_get(&pids, (uint64_t)(uint32_t)p->ppid, &ignored))
			add_io(u, p);
	}
	if (u64_known(u->rchar))
		u->io_evidence = EVIDENCE_LOWER_BOUND;
}

/* The sum over the tree was never less than its largest process. */
static void raise_peak(struct usage *u)
{
	if (!u64_known(u->max_process_rss_bytes) ||
	    (u64_known(u->peak_rss_bytes) && u->peak_rss_bytes >= u->max_process_rss_bytes))
		return;
	u->peak_rss_bytes = u->max_process_rss_bytes;
	u->peak_rss_evidence = EVIDENCE_LOWER_BOUND;
}

static void add_series(struct attempt *a)
{
	struct usage *u = &a->usage;

	for (size_t i = 0; i < a->n_series; i++) {
		const struct series_point *p = &a->series[i];

		u->peak_rss_bytes = u64_max_known(u->peak_rss_bytes, p->rss_bytes);
		u->peak_processes = u64_max_known(u->peak_processes, p->n_processes);
		u->peak_cpu_percent = f64_max_known(p->cpu_percent, u->peak_cpu_percent);
	}
	if (u64_known(u->peak_rss_bytes))
		u->peak_rss_evidence = EVIDENCE_SAMPLED;
	raise_peak(u);
}

/* Over less than this an average is no peak. */
#define AVERAGE_MIN_NS UINT64_C(100000000)

/* The job began with its first process, and that moment is reckoned twice, from two clocks. */
#define SAME_MOMENT_NS UINT64_C(10000000)

/*
 * The highest cannot have been below the average of those who lived within its time: most of what
 * short ones used no sample has seen.
 */
static void raise_peak_cpu(struct attempt *a)
{
	struct usage *u = &a->usage;
	uint64_t cpu_ns = 0;

	if (!u64_known(u->wall_ns) || u->wall_ns < AVERAGE_MIN_NS)
		return;
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		if (u64_known(p->born_wall_ns) &&
		    p->born_wall_ns + SAME_MOMENT_NS >= a->started_wall_ns)
			cpu_ns = u64_add_known(cpu_ns, u64_add(p->user_ns, p->system_ns));
	}
	u->peak_cpu_percent =
		f64_max_known(u->peak_cpu_percent, 100.0 * (double)cpu_ns / (double)u->wall_ns);
}

bool attached_has_all_ends(const struct attempt *a, bool births_are_told)
{
	bool has_all = births_are_told;

	for (size_t i = 0; i < a->n_processes; i++)
		has_all = has_all && a->processes[i].cpu_evidence == EVIDENCE_EXACT;
	return has_all;
}

void attached_sum_up(struct attempt *a, bool births_are_told)
{
	uint64_t n_births = take_events(a);

	usage_init(&a->usage);
	add_processes(a);
	judge_processes(&a->usage);
	if (births_are_told) /* else it may be counted twice */
		add_counts(a);
	add_series(a);
	a->usage.wall_ns = u64_delta(a->ended_wall_ns, a->started_wall_ns);
	raise_peak_cpu(a);
	if (n_births == 0)
		return;
	a->usage.spawn_count = n_births;
	a->usage.spawn_evidence = EVIDENCE_LOWER_BOUND; /* as above */
}
