#include "report/figures.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "report/seen.h"

#define AVERAGE_SLACK_PERCENT 5.0 /* the highest is sampled */

static void figures_from_usage(const struct usage *usage, struct figures *ret)
{
	*ret = (struct figures){ .usage = *usage,
				 .average_cpu_percent = F64_UNKNOWN,
				 .unique_pids = U64_UNKNOWN };
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

/* What follows from the numbers that are there, and the evidence of all of them. */
static void settle(struct figures *f, uint64_t started, uint64_t ended, uint64_t last_seen)
{
	f->cpu_ns = u64_add(f->usage.user_ns, f->usage.system_ns);
	figures_set_evidence(f);
	set_wall(f, started, ended, last_seen);
	if (!u64_known(f->cpu_ns) || !u64_known(f->usage.wall_ns) || f->usage.wall_ns == 0)
		return;
	f->average_cpu_percent = 100.0 * (double)f->cpu_ns / (double)f->usage.wall_ns;
	/* Above the highest, some of it was used after the command's end: then it is no average. */
	if (f->average_cpu_percent >
	    fmax(f->usage.peak_cpu_percent, 100.0) + AVERAGE_SLACK_PERCENT) {
		f->average_cpu_percent = F64_UNKNOWN;
		return;
	}
	f->evidence[FIGURE_AVERAGE_CPU] = f->evidence[FIGURE_CPU];
}

/* What was not told for a while is missing in the sum. */
static void mark_gpu_time(const struct attempt *a, struct figures *f)
{
	static const struct {
		const char *note;
		enum figure id;
	} sums[] = {
		{ NOTE_GPU_TIME, FIGURE_GPU_BUSY },
		{ NOTE_GPU_TIME, FIGURE_GPU_IDLE },
		{ NOTE_GPU_IDLE_TIME, FIGURE_GPU_IDLE },
	};

	for (size_t i = 0; i < a->n_unknowns; i++)
		for (size_t k = 0; k < ARRAY_SIZE(sums); k++)
			if (a->unknowns[i].what && strcmp(a->unknowns[i].what, sums[k].note) == 0 &&
			    figure_is_known(f, sums[k].id))
				f->evidence[sums[k].id] = EVIDENCE_LOWER_BOUND;
}

void figures_of_attempt(const struct attempt *a, struct figures *ret)
{
	figures_from_usage(&a->usage, ret);
	seen_of_attempt(a, &ret->usage);
	ret->unique_pids = attempt_count_pids(a, &ret->unique_pids_evidence);
	settle(ret, a->started_wall_ns, a->ended_wall_ns, figures_last_seen(a));
	mark_gpu_time(a, ret);
	/* Of an attached one that ended while nobody looked the end is when somebody did. */
	if (a->is_attached && u64_known(a->ended_wall_ns) && !u64_known(a->usage.wall_ns))
		ret->evidence[FIGURE_WALL] = EVIDENCE_UPPER_BOUND;
}

void figures_of_sheet(const struct attempt *a, const struct sheet_record *sheet,
		      struct figures *ret)
{
	bool is_open = !u64_known(sheet->ended_wall_ns);

	figures_from_usage(&sheet->usage, ret);
	if (is_open)
		seen_of_sheet(a, sheet, &ret->usage);
	settle(ret, sheet->started_wall_ns, sheet->ended_wall_ns,
	       is_open ? figures_last_seen(a) : U64_UNKNOWN);
	mark_gpu_time(a, ret);
}
