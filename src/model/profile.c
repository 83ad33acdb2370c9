#include "model/profile.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "model/peaks.h"

void profile_init(struct job_profile *p)
{
	*p = (struct job_profile){
		.peak_rss_mb = F64_UNKNOWN,
		.total_cpu_seconds = F64_UNKNOWN,
		.process_spawn_count = U64_UNKNOWN,
		.unique_pid_count = U64_UNKNOWN,
		.unique_process_count = U64_UNKNOWN,
		.arena = ARENA_INIT,
	};
}

void profile_release(struct job_profile *p)
{
	arena_release(&p->arena);
	profile_init(p);
}

int profile_set_hotspots(struct job_profile *p, const struct syscall_share *shares, size_t n,
			 enum evidence evidence)
{
	struct syscall_share *copy = arena_alloc(&p->arena, n * sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		copy[i].pct = shares[i].pct;
		copy[i].name = arena_strdup(&p->arena, shares[i].name);
		if (!copy[i].name)
			return -ENOMEM;
	}
	p->hotspots = copy;
	p->n_hotspots = n;
	p->hotspot_evidence = evidence;
	return 0;
}

/* ---- from an attempt ---- */

static enum evidence evidence_if(bool is_known, enum evidence evidence)
{
	return is_known ? evidence : EVIDENCE_UNKNOWN;
}

static void take_usage(struct job_profile *p, const struct usage *u)
{
	uint64_t cpu_ns = u64_add(u->user_ns, u->system_ns);

	p->peak_rss_mb = u64_to_mb(u->peak_rss_bytes);
	p->peak_rss_evidence = evidence_if(u64_known(u->peak_rss_bytes), u->peak_rss_evidence);
	p->total_cpu_seconds = u64_to_seconds(cpu_ns);
	p->cpu_evidence = evidence_if(u64_known(cpu_ns), u->cpu_evidence);
	p->process_spawn_count = u->spawn_count;
	p->spawn_evidence = evidence_if(u64_known(u->spawn_count), u->spawn_evidence);
}

/* Every process that is listed is another one; more may have been counted than are listed. */
static void count_processes(struct job_profile *p, const struct attempt *a)
{
	uint64_t listed = a->n_processes > 0 ? a->n_processes : U64_UNKNOWN;
	bool is_told = u64_known(a->usage.spawn_count) && a->usage.spawn_count >= a->n_processes;

	p->unique_process_count = u64_max_known(listed, a->usage.spawn_count);
	p->unique_process_evidence =
		evidence_if(u64_known(p->unique_process_count),
			    is_told ? a->usage.spawn_evidence : EVIDENCE_LOWER_BOUND);
}

/* A sheet while its tries are gone through. */
struct tried_sheet {
	struct sheet_profile sheet;
	struct peaks rss;
};

static uint64_t sheet_key(int num)
{
	return (uint64_t)(uint32_t)num;
}

/* The place of the sheet in the map's values; it is n if it is new. -ENOMEM. */
static int find_sheet(struct map *by_num, int num, uint64_t n, uint64_t *ret_place)
{
	*ret_place = n;
	if (map_get(by_num, sheet_key(num), ret_place))
		return 0;
	return map_put(by_num, sheet_key(num), n);
}

static void add_try(struct tried_sheet *peaks, const struct usage *u)
{
	peaks_add(&peaks->rss, u->peak_rss_bytes, u->peak_rss_evidence);
	peaks->sheet.max_cpu_pct = f64_max_known(u->peak_cpu_percent, peaks->sheet.max_cpu_pct);
}

static int group_tries(const struct attempt *a, struct tried_sheet *ret, size_t *ret_n)
{
	CLEANUP(map_release) struct map by_num = MAP_INIT;
	size_t n = 0;

	for (size_t i = 0; i < a->n_sheets; i++) {
		int num = a->sheets[i].num;
		uint64_t place;

		if (find_sheet(&by_num, num, n, &place) < 0)
			return -ENOMEM;
		if (place == n) {
			ret[n].sheet =
				(struct sheet_profile){ .num = num, .max_cpu_pct = F64_UNKNOWN };
			peaks_init(&ret[n++].rss);
		}
		add_try(&ret[place], &a->sheets[i].usage);
	}
	*ret_n = n;
	return 0;
}

static void settle_sheet(const struct tried_sheet *peaks, struct sheet_profile *ret)
{
	uint64_t bytes;

	*ret = peaks->sheet;
	peaks_settle(&peaks->rss, &bytes, &ret->peak_rss_evidence);
	ret->peak_rss_mb = u64_to_mb(bytes);
}

static int take_sheets(struct job_profile *p, const struct attempt *a)
{
	CLEANUP(free_ptr) struct tried_sheet *peaks = NULL;
	bool is_over = !a->is_running && !a->is_lost;

	if (a->n_sheets == 0)
		return 0;
	peaks = calloc(a->n_sheets, sizeof(*peaks));
	if (!peaks || group_tries(a, peaks, &p->n_sheets) < 0)
		return -ENOMEM;
	p->sheets = arena_alloc(&p->arena, p->n_sheets * sizeof(*p->sheets));
	if (!p->sheets)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_sheets; i++)
		settle_sheet(&peaks[i], &p->sheets[i]);
	p->sheet_evidence = is_over ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
	return 0;
}

static double sum_cpu_ns(const struct attempt *a)
{
	double sum = 0;

	for (size_t i = 0; i < a->n_syscalls; i++)
		if (u64_known(a->syscalls[i].cpu_ns))
			sum += (double)a->syscalls[i].cpu_ns;
	return sum;
}

/* The share of each call in the time that all of them took on a CPU. Whoever counted may have come
 * late. */
static int take_hotspots(struct job_profile *p, const struct attempt *a)
{
	double total_ns = sum_cpu_ns(a);
	struct syscall_share *shares;

	if (!(total_ns > 0))
		return 0; /* nobody has counted, or not timed what was */
	shares = arena_alloc(&p->arena, a->n_syscalls * sizeof(*shares));
	if (!shares)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_syscalls; i++) {
		const struct syscall_use *use = &a->syscalls[i];
		double cpu_ns = u64_known(use->cpu_ns) ? (double)use->cpu_ns : 0;

		shares[i] = (struct syscall_share){ use->name, 100.0 * cpu_ns / total_ns };
	}
	return profile_set_hotspots(p, shares, a->n_syscalls, EVIDENCE_LOWER_BOUND);
}

int profile_from_attempt(const struct attempt *a, struct job_profile *ret)
{
	struct job_profile p;

	profile_init(&p);
	p.job_id = arena_strdup(&p.arena, a->job_id);
	if ((a->job_id && !p.job_id) || take_sheets(&p, a) < 0 || take_hotspots(&p, a) < 0) {
		profile_release(&p);
		return -ENOMEM;
	}
	take_usage(&p, &a->usage);
	count_processes(&p, a);
	p.unique_pid_count = attempt_count_pids(a, &p.unique_pid_evidence);
	*ret = p;
	return 0;
}

/* ---- the better of two ---- */

/* What was seen was there: the truth is not less. */
static bool is_floor(enum evidence evidence)
{
	return evidence == EVIDENCE_SAMPLED || evidence == EVIDENCE_LOWER_BOUND;
}

static bool is_better(double other, enum evidence of_other, double ours, enum evidence of_ours)
{
	if (of_other == EVIDENCE_UNKNOWN || of_ours == EVIDENCE_EXACT)
		return false;
	if (of_other == EVIDENCE_EXACT || of_ours == EVIDENCE_UNKNOWN)
		return true;
	return is_floor(of_other) && is_floor(of_ours) && other > ours;
}

static void improve_f64(double *ours, enum evidence *of_ours, double other, enum evidence of_other)
{
	if (!is_better(other, of_other, *ours, *of_ours))
		return;
	*ours = other;
	*of_ours = of_other;
}

static void improve_u64(uint64_t *ours, enum evidence *of_ours, uint64_t other,
			enum evidence of_other)
{
	if (!is_better((double)other, of_other, (double)*ours, *of_ours))
		return;
	*ours = other;
	*of_ours = of_other;
}

static int improve_hotspots(struct job_profile *p, const struct job_profile *other)
{
	if (!is_better((double)other->n_hotspots, other->hotspot_evidence, (double)p->n_hotspots,
		       p->hotspot_evidence))
		return 0;
	return profile_set_hotspots(p, other->hotspots, other->n_hotspots, other->hotspot_evidence);
}

static void improve_sheet(struct sheet_profile *sheet, const struct sheet_profile *other)
{
	improve_f64(&sheet->peak_rss_mb, &sheet->peak_rss_evidence, other->peak_rss_mb,
		    other->peak_rss_evidence);
	sheet->max_cpu_pct = f64_max_known(other->max_cpu_pct, sheet->max_cpu_pct);
}

/* A copy of p's sheets with room for those of other, and where each of them stands. */
static struct sheet_profile *copy_sheets(struct job_profile *p, size_t n_more, struct map *by_num)
{
	struct sheet_profile *copy = arena_alloc(&p->arena, (p->n_sheets + n_more) * sizeof(*copy));

	for (size_t i = 0; copy && i < p->n_sheets; i++) {
		copy[i] = p->sheets[i];
		if (map_put(by_num, sheet_key(copy[i].num), i) < 0)
			return NULL;
	}
	return copy;
}

static int improve_sheets(struct job_profile *p, const struct job_profile *other)
{
	CLEANUP(map_release) struct map by_num = MAP_INIT;
	struct sheet_profile *sheets = copy_sheets(p, other->n_sheets, &by_num);
	size_t n = p->n_sheets;

	if (!sheets)
		return -ENOMEM;
	if (is_better((double)other->n_sheets, other->sheet_evidence, (double)n, p->sheet_evidence))
		p->sheet_evidence = other->sheet_evidence;
	for (size_t i = 0; i < other->n_sheets; i++) {
		uint64_t place;

		if (find_sheet(&by_num, other->sheets[i].num, n, &place) < 0)
			return -ENOMEM;
		if (place == n)
			sheets[n++] = other->sheets[i];
		else
			improve_sheet(&sheets[place], &other->sheets[i]);
	}
	p->sheets = sheets;
	p->n_sheets = n;
	return 0;
}

int profile_improve(struct job_profile *p, const struct job_profile *other)
{
	int r;

	improve_f64(&p->peak_rss_mb, &p->peak_rss_evidence, other->peak_rss_mb,
		    other->peak_rss_evidence);
	improve_f64(&p->total_cpu_seconds, &p->cpu_evidence, other->total_cpu_seconds,
		    other->cpu_evidence);
	improve_u64(&p->process_spawn_count, &p->spawn_evidence, other->process_spawn_count,
		    other->spawn_evidence);
	improve_u64(&p->unique_pid_count, &p->unique_pid_evidence, other->unique_pid_count,
		    other->unique_pid_evidence);
	improve_u64(&p->unique_process_count, &p->unique_process_evidence,
		    other->unique_process_count, other->unique_process_evidence);
	r = improve_hotspots(p, other);
	return r < 0 ? r : improve_sheets(p, other);
}
