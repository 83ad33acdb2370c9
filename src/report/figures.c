#include "report/figures.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "report/format.h"
#include "report/report.h"

/* What stands behind each kind of evidence, where numbers of one origin can have it. */
struct origin {
	enum evidence evidence; /* of numbers that keep none beside them */
	const char *how[EVIDENCE_UPPER_BOUND + 1];
	const char *of_attached; /* for whose processes nobody waits; NULL: the same */
};

static const struct origin from_clock = {
	.evidence = EVIDENCE_EXACT,
	.how[EVIDENCE_EXACT] = "from start to end",
	.how[EVIDENCE_LOWER_BOUND] = "up to the last record",
	.how[EVIDENCE_UPPER_BOUND] = "until its end was noticed",
};
static const struct origin from_samples = {
	.evidence = EVIDENCE_SAMPLED,
	.how[EVIDENCE_SAMPLED] = "the highest seen",
};
static const struct origin from_gpu_readings = {
	.evidence = EVIDENCE_SAMPLED,
	.how[EVIDENCE_SAMPLED] = "the highest reading",
};
static const struct origin from_shares = {
	.evidence = EVIDENCE_SAMPLED,
	.how[EVIDENCE_SAMPLED] = "shares of the time between readings",
	.how[EVIDENCE_LOWER_BOUND] = "it was not always told",
};
static const struct origin from_processes = {
	.how[EVIDENCE_EXACT] = "every process is listed",
	.how[EVIDENCE_LOWER_BOUND] = "of the processes that are listed",
};
static const struct origin from_wait4 = {
	.how[EVIDENCE_EXACT] = "wait4 of the whole tree",
	.how[EVIDENCE_LOWER_BOUND] = "of what was seen",
	.of_attached = "of what lived since it was attached",
};
static const struct origin from_cpu_and_clock = {
	.how[EVIDENCE_EXACT] = "CPU time over wall time",
	.how[EVIDENCE_LOWER_BOUND] = "CPU time over wall time",
};
static const struct origin from_proc_io = {
	.how[EVIDENCE_EXACT] = "wait4 of the whole tree",
	.how[EVIDENCE_LOWER_BOUND] = "of what was waited for",
	.of_attached = "of what lived since it was attached",
};
static const struct origin from_births = {
	.how[EVIDENCE_EXACT] = "the kernel told of each",
	.how[EVIDENCE_LOWER_BOUND] = "short ones go unseen",
	.of_attached = "of what lived since it was attached",
};
static const struct origin from_tree_memory = {
	.how[EVIDENCE_EXACT] = "kernel's high-water mark",
	.how[EVIDENCE_SAMPLED] = "highest sum seen",
	.how[EVIDENCE_LOWER_BOUND] = "mark of a part of it",
	.how[EVIDENCE_UPPER_BOUND] = "maybe the runner's",
};
static const struct origin from_process_memory = {
	.how[EVIDENCE_EXACT] = "kernel's high-water mark",
	.how[EVIDENCE_LOWER_BOUND] = "the highest mark seen",
	.how[EVIDENCE_UPPER_BOUND] = "maybe the runner's",
	.of_attached = "of what lived since it was attached",
};

static const struct origin from_cgroup = {
	.evidence =
		EVIDENCE_LOWER_BOUND, /* a process that may can leave it, as sudo and docker do */
	.how[EVIDENCE_LOWER_BOUND] = "the job's cgroup",
};
static const struct origin from_limits = {
	.evidence = EVIDENCE_EXACT,
	.how[EVIDENCE_EXACT] = "as asked for",
};

#define AT(member) offsetof(struct figures, member)
#define CPU_EVIDENCE AT(usage.cpu_evidence)
#define IO_EVIDENCE AT(usage.io_evidence)

static const struct figure_row {
	const char *key;
	const char *label;
	int kind;
	size_t at;
	size_t evidence_at; /* where it is kept; 0: it is the origin's */
	const struct origin *origin;
} rows[FIGURE_COUNT] = {
#define FIGURE(id_, key_, label_, kind_, member_, evidence_, origin_) \
	[FIGURE_##id_] = { key_, label_, FIELD_##kind_, AT(member_), evidence_, &origin_ },
#include "report/figures.def"
};

static uint64_t figure_u64(const struct figures *f, enum figure id)
{
	uint64_t v;

	memcpy(&v, (const char *)f + rows[id].at, sizeof(v));
	return v;
}

static double figure_f64(const struct figures *f, enum figure id)
{
	double v;

	memcpy(&v, (const char *)f + rows[id].at, sizeof(v));
	return v;
}

bool figure_is_known(const struct figures *f, enum figure id)
{
	return rows[id].kind == FIELD_F64 ? isfinite(figure_f64(f, id))
					  : u64_known(figure_u64(f, id));
}

bool figure_is_optional(enum figure id)
{
	const struct origin *origin = rows[id].origin;

	return origin == &from_cgroup || origin == &from_limits || origin == &from_gpu_readings ||
	       origin == &from_shares;
}

bool figures_used_gpu(const struct figures *f)
{
	return u64_known(f->usage.peak_gpu_bytes) && f->usage.peak_gpu_bytes > 0;
}

const char *figure_key(enum figure id)
{
	return rows[id].key;
}

const char *figure_label(enum figure id)
{
	return rows[id].label;
}

void figure_add_value(struct buf *out, const struct figures *f, enum figure id)
{
	switch (rows[id].kind) {
	case FIELD_SECONDS:
		report_add_duration(out, figure_u64(f, id));
		break;
	case FIELD_MB:
	case FIELD_BYTES:
		report_add_bytes(out, figure_u64(f, id));
		break;
	case FIELD_F64:
		format_percent(out, figure_f64(f, id));
		break;
	default:
		format_count(out, figure_u64(f, id));
		break;
	}
}

/*
 * Of sampled numbers the time between two samples says more than that it is the highest of them.
 * GPUs have their own: how far apart their drivers were asked, if that was recorded.
 */
void figure_add_source(struct buf *out, const struct figures *f, enum figure id,
		       const struct attempt *a)
{
	const struct origin *origin = rows[id].origin;
	const bool is_of_gpus = origin == &from_gpu_readings || origin == &from_shares;
	const enum evidence evidence = f->evidence[id];
	struct sample_gaps gaps = sample_gaps_of(a, id == FIGURE_MAX_CPU);
	const char *how = origin->how[evidence];

	if (!figure_is_known(f, id)) {
		buf_add_char(out, '-');
		return;
	}
	format_evidence(out, evidence);
	if (a->is_attached && how && origin->of_attached)
		how = origin->of_attached;
	if (is_of_gpus && evidence == EVIDENCE_SAMPLED && attempt_find_rung(a, RUNG_GPU_READINGS))
		how = attempt_find_rung(a, RUNG_GPU_READINGS);
	if (!is_of_gpus && evidence == EVIDENCE_SAMPLED && u64_known(gaps.min_ns)) {
		buf_add_str(out, ", ");
		sample_gaps_add(out, &gaps);
	} else if (how) {
		buf_printf(out, ", %s", how);
	}
}

/* ---- how far apart the samples are ---- */

struct sample_gaps sample_gaps_of(const struct attempt *a, bool of_cpu)
{
	struct sample_gaps gaps = { U64_UNKNOWN, U64_UNKNOWN };
	uint64_t before = U64_UNKNOWN;

	for (size_t i = 0; i < a->details.n_series; i++) {
		const struct series_point *p = &a->details.series[i];
		uint64_t gap;

		if (!u64_known(p->wall_ns) || (of_cpu && !isfinite(p->cpu_percent)))
			continue;
		gap = u64_delta(p->wall_ns, before);
		before = p->wall_ns;
		if (gap < gaps.min_ns) /* unknown is never less */
			gaps.min_ns = gap;
		gaps.max_ns = u64_max_known(gaps.max_ns, gap);
	}
	return gaps;
}

#define GAP_INTERVALS 5
#define GAP_SECONDS 5.0

bool sample_gaps_find_missing(const struct attempt *a, struct missing_samples *ret)
{
	const double usual_ns =
		1e9 * f64_max_known(GAP_INTERVALS * a->interval_seconds, GAP_SECONDS);
	uint64_t before = U64_UNKNOWN, longest_ns = 0;

	ret->n = 0;
	for (size_t i = 0; i < a->details.n_series; i++) {
		const uint64_t now = a->details.series[i].wall_ns, gap_ns = u64_delta(now, before);

		if (u64_known(gap_ns) && (double)gap_ns > usual_ns) {
			ret->n++;
			if (gap_ns > longest_ns) {
				ret->from_wall_ns = before;
				ret->until_wall_ns = now;
				longest_ns = gap_ns;
			}
		}
		before = u64_known(now) ? now : before;
	}
	return ret->n > 0;
}

void sample_gaps_add(struct buf *out, const struct sample_gaps *gaps)
{
	CLEANUP(buf_release) struct buf min = BUF_INIT;
	CLEANUP(buf_release) struct buf max = BUF_INIT;

	if (!u64_known(gaps->min_ns))
		return;
	report_add_duration(&min, gaps->min_ns);
	report_add_duration(&max, gaps->max_ns);
	if (strcmp(min.data, max.data) == 0)
		buf_printf(out, "%s apart", max.data);
	else
		buf_printf(out, "%s to %s apart", min.data, max.data);
}

/* ---- totals from what was recorded so far ---- */

/* Totals with one evidence: known, unknown and filled together. The first of a group decides. */
#define GROUP_SIZE 6
static const struct {
	size_t evidence, totals[GROUP_SIZE];
} groups[] = {
	{ offsetof(struct usage, cpu_evidence),
	  { offsetof(struct usage, user_ns), offsetof(struct usage, system_ns),
	    offsetof(struct usage, minor_faults), offsetof(struct usage, major_faults),
	    offsetof(struct usage, voluntary_switches),
	    offsetof(struct usage, involuntary_switches) } },
	{ offsetof(struct usage, io_evidence),
	  { offsetof(struct usage, rchar), offsetof(struct usage, wchar),
	    offsetof(struct usage, syscr), offsetof(struct usage, syscw),
	    offsetof(struct usage, read_bytes), offsetof(struct usage, write_bytes) } },
};

static uint64_t *field(struct usage *usage, size_t at)
{
	return (uint64_t *)(void *)((char *)usage + at);
}

/* Keeps the larger of two peaks. An upper bound is no lower bound of anything. */
static void raise_peak(uint64_t *peak, enum evidence *evidence, uint64_t value,
		       enum evidence of_value)
{
	if (!u64_known(value) || of_value == EVIDENCE_UPPER_BOUND ||
	    (u64_known(*peak) && value <= *peak))
		return;
	*peak = value;
	*evidence = of_value == EVIDENCE_SAMPLED ? EVIDENCE_SAMPLED : EVIDENCE_LOWER_BOUND;
}

/*
 * sheet NULL: of the whole attempt. Start times are cut to clock ticks, so the
 * first process of a sheet can seem older than it. Of a later try that is not
 * believed: it could be the try before that is counted twice.
 */
static bool is_of(const struct sheet_record *sheet, int sheet_num, uint64_t wall_ns)
{
	uint64_t slack = sheet && sheet->try_num > 1 ? 0 : START_SLACK_NS;

	if (!sheet)
		return true;
	return sheet_num == sheet->num && u64_known(wall_ns) &&
	       wall_ns + slack >= sheet->started_wall_ns;
}

static void add_series(const struct attempt *a, const struct sheet_record *sheet,
		       struct usage *seen)
{
	for (size_t i = 0; i < a->details.n_series; i++) {
		const struct series_point *p = &a->details.series[i];

		if (!is_of(sheet, p->sheet_num, p->wall_ns))
			continue;
		raise_peak(&seen->peak_rss_bytes, &seen->peak_rss_evidence, p->rss_bytes,
			   EVIDENCE_SAMPLED);
		seen->peak_processes = u64_max_known(seen->peak_processes, p->n_processes);
		seen->peak_cpu_percent = f64_max_known(p->cpu_percent, seen->peak_cpu_percent);
	}
}

/* Their I/O is not added up: it holds that of the children they have waited for. */
static void add_processes(const struct attempt *a, const struct sheet_record *sheet,
			  struct usage *seen)
{
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		if (!is_of(sheet, p->sheet_num, p->born_wall_ns))
			continue;
		seen->user_ns = u64_add_known(seen->user_ns, p->user_ns);
		seen->system_ns = u64_add_known(seen->system_ns, p->system_ns);
		raise_peak(&seen->max_process_rss_bytes, &seen->max_process_rss_evidence,
			   p->max_rss_bytes,
			   p->evidence == EVIDENCE_UPPER_BOUND ? EVIDENCE_UPPER_BOUND
							       : EVIDENCE_LOWER_BOUND);
	}
}

static uint64_t count_births(const struct attempt *a, const struct sheet_record *sheet)
{
	uint64_t listed = 0, told = 0;

	for (size_t i = 0; i < a->n_processes; i++)
		listed += is_of(sheet, a->processes[i].sheet_num, a->processes[i].born_wall_ns);
	for (size_t i = 0; i < a->n_events; i++)
		told += a->events[i].type == EVENT_SPAWN &&
			is_of(sheet, a->events[i].sheet_num, a->events[i].wall_ns);
	told = listed > told ? listed : told;
	return told > 0 ? told : U64_UNKNOWN; /* no record is not the same as no process */
}

static void fill(struct usage *usage, struct usage *seen)
{
	for (size_t g = 0; g < ARRAY_SIZE(groups); g++) {
		const size_t *at = groups[g].totals;

		if (u64_known(*field(usage, at[0])) || !u64_known(*field(seen, at[0])))
			continue;
		for (size_t i = 0; i < GROUP_SIZE; i++)
			*field(usage, at[i]) = *field(seen, at[i]);
		*(enum evidence *)(void *)((char *)usage + groups[g].evidence) =
			EVIDENCE_LOWER_BOUND;
	}
	if (!u64_known(usage->peak_rss_bytes))
		raise_peak(&usage->peak_rss_bytes, &usage->peak_rss_evidence, seen->peak_rss_bytes,
			   seen->peak_rss_evidence);
	if (!u64_known(usage->max_process_rss_bytes))
		raise_peak(&usage->max_process_rss_bytes, &usage->max_process_rss_evidence,
			   seen->max_process_rss_bytes, seen->max_process_rss_evidence);
	if (!u64_known(usage->spawn_count)) {
		usage->spawn_count = seen->spawn_count;
		usage->peak_processes = u64_max_known(usage->peak_processes, seen->peak_processes);
		usage->spawn_evidence = EVIDENCE_LOWER_BOUND;
	}
	if (!isfinite(usage->peak_cpu_percent))
		usage->peak_cpu_percent = seen->peak_cpu_percent;
}

static void fill_from_records(const struct attempt *a, const struct sheet_record *sheet,
			      struct usage *usage)
{
	struct usage seen;

	usage_init(&seen);
	add_series(a, sheet, &seen);
	add_processes(a, sheet, &seen);
	seen.spawn_count = count_births(a, sheet);
	fill(usage, &seen);
}

/* One try after the other: totals add up, peaks do not. */
static void add_sheet(const struct attempt *a, const struct sheet_record *sheet, struct usage *sum)
{
	struct usage part = sheet->usage;

	if (!u64_known(sheet->ended_wall_ns))
		fill_from_records(a, sheet, &part);
	for (size_t g = 0; g < ARRAY_SIZE(groups); g++)
		for (size_t i = 0; i < GROUP_SIZE; i++) {
			uint64_t *total = field(sum, groups[g].totals[i]);

			*total = u64_add_known(*total, *field(&part, groups[g].totals[i]));
		}
	raise_peak(&sum->peak_rss_bytes, &sum->peak_rss_evidence, part.peak_rss_bytes,
		   part.peak_rss_evidence);
	raise_peak(&sum->max_process_rss_bytes, &sum->max_process_rss_evidence,
		   part.max_process_rss_bytes, part.max_process_rss_evidence);
	sum->spawn_count = u64_add_known(sum->spawn_count, part.spawn_count);
	sum->peak_processes = u64_max_known(sum->peak_processes, part.peak_processes);
	sum->peak_cpu_percent = f64_max_known(part.peak_cpu_percent, sum->peak_cpu_percent);
}

static void fill_attempt_from_records(const struct attempt *a, struct usage *usage)
{
	struct usage whole, seen;

	usage_init(&whole);
	usage_init(&seen);
	add_processes(a, NULL, &whole);
	for (size_t i = 0; i < a->n_sheets; i++)
		add_sheet(a, &a->sheets[i], &seen);
	if (!u64_known(seen.user_ns)) {
		seen.user_ns = whole.user_ns;
		seen.system_ns = whole.system_ns;
	}
	raise_peak(&seen.max_process_rss_bytes, &seen.max_process_rss_evidence,
		   whole.max_process_rss_bytes, EVIDENCE_LOWER_BOUND);
	add_series(a, NULL, &seen);
	seen.spawn_count = u64_max_known(seen.spawn_count, count_births(a, NULL));
	seen.spawn_count = u64_max_known(seen.spawn_count, seen.peak_processes);
	fill(usage, &seen);
}

/* ---- all numbers ---- */

#define AVERAGE_SLACK_PERCENT 5.0 /* the highest is sampled */

static void figures_from_usage(const struct usage *usage, struct figures *ret)
{
	*ret = (struct figures){ .usage = *usage,
				 .average_cpu_percent = F64_UNKNOWN,
				 .unique_pids = U64_UNKNOWN };
	memset(&ret->contained, 0xff, sizeof(ret->contained)); /* which is unknown for each */
}

uint64_t figures_last_seen(const struct attempt *a)
{
	uint64_t seen = a->started_wall_ns;

	if (u64_known(a->ended_wall_ns))
		return a->ended_wall_ns;
	for (size_t i = 0; i < a->details.n_series; i++)
		seen = u64_max_known(seen, a->details.series[i].wall_ns);
	for (size_t i = 0; i < a->n_events; i++)
		seen = u64_max_known(seen, a->events[i].wall_ns);
	for (size_t i = 0; i < a->n_sheets; i++) {
		seen = u64_max_known(seen, a->sheets[i].started_wall_ns);
		seen = u64_max_known(seen, a->sheets[i].ended_wall_ns);
	}
	return seen;
}

/* Fills what follows from the numbers that are there, and the evidence of all of them. */
static void derive(struct figures *f, uint64_t started, uint64_t ended, uint64_t last_seen)
{
	f->cpu_ns = u64_add(f->usage.user_ns, f->usage.system_ns);
	f->memory_bytes = usage_memory_bytes(&f->usage);
	f->memory_evidence = u64_known(f->usage.peak_memory_bytes) ? EVIDENCE_SAMPLED
								   : f->usage.peak_rss_evidence;
	/* Fills evidence[] from the numbers. */
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		f->evidence[id] = rows[id].origin->evidence;
		if (!figure_is_known(f, id))
			f->evidence[id] = EVIDENCE_UNKNOWN;
		else if (rows[id].evidence_at)
			memcpy(&f->evidence[id], (const char *)f + rows[id].evidence_at,
			       sizeof(f->evidence[id]));
	}
	/* Without a wall time of its own: from start to end, or as far as anything is known of it.
	 */
	if (!figure_is_known(f, FIGURE_WALL)) {
		f->usage.wall_ns = u64_delta(u64_known(ended) ? ended : last_seen, started);
		if (figure_is_known(f, FIGURE_WALL))
			f->evidence[FIGURE_WALL] =
				u64_known(ended) ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
	}
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

	for (size_t k = 0; k < ARRAY_SIZE(sums); k++)
		if (attempt_find_note(a, sums[k].note) && figure_is_known(f, sums[k].id))
			f->evidence[sums[k].id] = EVIDENCE_LOWER_BOUND;
}

void figures_of_attempt(const struct attempt *a, struct figures *ret)
{
	figures_from_usage(&a->usage, ret);
	ret->contained = a->contained;
	fill_attempt_from_records(a, &ret->usage);
	ret->unique_pids = attempt_count_pids(a, &ret->unique_pids_evidence);
	derive(ret, a->started_wall_ns, a->ended_wall_ns, figures_last_seen(a));
	mark_gpu_time(a, ret);
	/* The end of an attached job without a witness is when the daemon noticed it. */
	if (a->is_attached && u64_known(a->ended_wall_ns) && !u64_known(a->usage.wall_ns))
		ret->evidence[FIGURE_WALL] = EVIDENCE_UPPER_BOUND;
}

void figures_of_sheet(const struct attempt *a, const struct sheet_record *sheet,
		      struct figures *ret)
{
	bool is_open = !u64_known(sheet->ended_wall_ns);

	figures_from_usage(&sheet->usage, ret);
	if (is_open)
		fill_from_records(a, sheet, &ret->usage);
	derive(ret, sheet->started_wall_ns, sheet->ended_wall_ns,
	       is_open ? figures_last_seen(a) : U64_UNKNOWN);
	mark_gpu_time(a, ret);
}
