#include "report/seen.h"

#include <stddef.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "report/facts.h"

/* Totals of one evidence: known, unknown and filled together. The first decides. */
static const size_t cpu_group[] = {
	offsetof(struct usage, user_ns),
	offsetof(struct usage, system_ns),
	offsetof(struct usage, minor_faults),
	offsetof(struct usage, major_faults),
	offsetof(struct usage, voluntary_switches),
	offsetof(struct usage, involuntary_switches),
};
static const size_t io_group[] = {
	offsetof(struct usage, rchar),	    offsetof(struct usage, wchar),
	offsetof(struct usage, syscr),	    offsetof(struct usage, syscw),
	offsetof(struct usage, read_bytes), offsetof(struct usage, write_bytes),
};

static uint64_t *field(struct usage *usage, size_t at)
{
	return (uint64_t *)(void *)((char *)usage + at);
}

static void add_group(struct usage *sum, struct usage *part, const size_t group[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		*field(sum, group[i]) =
			u64_add_known(*field(sum, group[i]), *field(part, group[i]));
}

static void fill_group(struct usage *usage, struct usage *seen, const size_t group[], size_t n,
		       enum evidence *evidence)
{
	if (u64_known(*field(usage, group[0])) || !u64_known(*field(seen, group[0])))
		return;
	for (size_t i = 0; i < n; i++)
		*field(usage, group[i]) = *field(seen, group[i]);
	*evidence = EVIDENCE_LOWER_BOUND;
}

/* Of two peaks the larger. One that may be less than it says is no lower bound of anything. */
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
	uint64_t slack = sheet && sheet->try_num > 1 ? 0 : FACTS_TICK_SLACK_NS;

	if (!sheet)
		return true;
	return sheet_num == sheet->num && u64_known(wall_ns) &&
	       wall_ns + slack >= sheet->started_wall_ns;
}

static void add_series(const struct attempt *a, const struct sheet_record *sheet,
		       struct usage *seen)
{
	for (size_t i = 0; i < a->n_series; i++) {
		const struct series_point *p = &a->series[i];

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
	fill_group(usage, seen, cpu_group, ARRAY_SIZE(cpu_group), &usage->cpu_evidence);
	fill_group(usage, seen, io_group, ARRAY_SIZE(io_group), &usage->io_evidence);
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

void seen_of_sheet(const struct attempt *a, const struct sheet_record *sheet, struct usage *usage)
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
		seen_of_sheet(a, sheet, &part);
	add_group(sum, &part, cpu_group, ARRAY_SIZE(cpu_group));
	add_group(sum, &part, io_group, ARRAY_SIZE(io_group));
	raise_peak(&sum->peak_rss_bytes, &sum->peak_rss_evidence, part.peak_rss_bytes,
		   part.peak_rss_evidence);
	raise_peak(&sum->max_process_rss_bytes, &sum->max_process_rss_evidence,
		   part.max_process_rss_bytes, part.max_process_rss_evidence);
	sum->spawn_count = u64_add_known(sum->spawn_count, part.spawn_count);
	sum->peak_processes = u64_max_known(sum->peak_processes, part.peak_processes);
	sum->peak_cpu_percent = f64_max_known(part.peak_cpu_percent, sum->peak_cpu_percent);
}

void seen_of_attempt(const struct attempt *a, struct usage *usage)
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
