#include "model/profile_accumulator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"
#include "model/headcount.h"

/* The largest sum that a moment had. */
struct peak {
	double max;
	double sum; /* of the moment that is being added up */
	uint64_t moment;
};

struct sheet_peaks {
	int num;
	struct peak rss_mb, cpu_percent;
};

struct profile_accumulator {
	enum profile_rules rules;
	char *job_id;
	uint64_t tick, n_samples;
	struct peak rss_mb;
	struct headcount processes;
	uint64_t n_spawns;

	struct map by_sheet; /* number -> index into sheets */
	struct sheet_peaks *sheets;
	size_t n_sheets, cap_sheets;
	bool is_missing_sheets;

	struct syscall_share hotspots[PROFILE_MAX_SYSCALLS];
	size_t n_hotspots;
	bool has_hotspots, is_missing_hotspots;
	struct arena names;
};

static struct peak peak_unknown(void)
{
	return (struct peak){ .max = F64_UNKNOWN };
}

struct profile_accumulator *profile_accumulator_new(const char *job_id, enum profile_rules rules)
{
	struct profile_accumulator *acc = calloc(1, sizeof(*acc));

	if (!acc)
		return NULL;
	acc->rules = rules;
	acc->rss_mb = peak_unknown();
	acc->job_id = strdup(job_id);
	if (!acc->job_id || headcount_init(&acc->processes) < 0)
		return profile_accumulator_free(acc);
	return acc;
}

struct profile_accumulator *profile_accumulator_free(struct profile_accumulator *acc)
{
	if (!acc)
		return NULL;
	free(acc->job_id);
	free(acc->sheets);
	headcount_release(&acc->processes);
	map_release(&acc->by_sheet);
	arena_release(&acc->names);
	free(acc);
	return NULL;
}

/* ---- ticks ---- */

void profile_accumulator_begin_tick(struct profile_accumulator *acc, const char *boot_id)
{
	acc->tick++;
	headcount_begin_tick(&acc->processes, boot_id);
}

/* What is added up: a tick, and by the rules of compat each sample for itself. */
static uint64_t moment_of(const struct profile_accumulator *acc)
{
	return acc->rules == PROFILE_COMPAT ? acc->n_samples : acc->tick;
}

static void peak_add(struct peak *p, uint64_t moment, double value)
{
	if (!isfinite(value))
		return;
	p->sum = p->moment == moment ? p->sum + value : value;
	p->moment = moment;
	p->max = f64_max_known(p->sum, p->max);
}

/* ---- sheets ---- */

static int grow_sheets(struct profile_accumulator *acc)
{
	size_t cap = acc->cap_sheets ? acc->cap_sheets * 2 : 16;
	struct sheet_peaks *grown;

	if (acc->n_sheets < acc->cap_sheets)
		return 0;
	grown = reallocarray(acc->sheets, cap, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	acc->sheets = grown;
	acc->cap_sheets = cap;
	return 0;
}

static int find_sheet(struct profile_accumulator *acc, int num, struct sheet_peaks **ret)
{
	uint64_t i = acc->n_sheets;

	if (!map_get(&acc->by_sheet, (uint64_t)num, &i)) {
		if (acc->n_sheets == PROFILE_MAX_SHEETS)
			return -ENOSPC;
		if (grow_sheets(acc) < 0 || map_put(&acc->by_sheet, (uint64_t)num, i) < 0)
			return -ENOMEM;
		acc->sheets[acc->n_sheets++] = (struct sheet_peaks){
			.num = num, .rss_mb = peak_unknown(), .cpu_percent = peak_unknown()
		};
	}
	*ret = &acc->sheets[i];
	return 0;
}

static int add_to_sheet(struct profile_accumulator *acc, const struct profile_sample *s)
{
	struct sheet_peaks *sheet;
	int r;

	if (s->sheet_num < 0)
		return 0;
	r = find_sheet(acc, s->sheet_num, &sheet);
	if (r < 0) {
		acc->is_missing_sheets = true;
		return r == -ENOMEM ? r : 0;
	}
	peak_add(&sheet->rss_mb, moment_of(acc), s->rss_mb);
	peak_add(&sheet->cpu_percent, moment_of(acc), s->cpu_percent);
	return 0;
}

/* ---- system calls ---- */

/* NULL: too many, too long, or no memory. */
static struct syscall_share *add_hotspot(struct profile_accumulator *acc, const char *name)
{
	struct syscall_share share = { .pct = 0.0 };

	if (acc->n_hotspots == PROFILE_MAX_SYSCALLS ||
	    strnlen(name, PROFILE_MAX_SYSCALL_BYTES + 1) > PROFILE_MAX_SYSCALL_BYTES)
		return NULL;
	share.name = arena_strdup(&acc->names, name);
	if (!share.name)
		return NULL;
	acc->hotspots[acc->n_hotspots] = share;
	return &acc->hotspots[acc->n_hotspots++];
}

/* hint: where it may be, since samples name them in much the same order. */
static struct syscall_share *find_hotspot(struct profile_accumulator *acc, const char *name,
					  size_t hint)
{
	for (size_t i = 0; i < acc->n_hotspots; i++) {
		struct syscall_share *h = &acc->hotspots[(hint + i) % acc->n_hotspots];

		if (strcmp(h->name, name) == 0)
			return h;
	}
	return add_hotspot(acc, name);
}

static void add_hotspots(struct profile_accumulator *acc, const struct profile_sample *s)
{
	size_t hint = 0;

	acc->has_hotspots |= s->syscalls != NULL;
	for (size_t i = 0; i < s->n_syscalls; i++) {
		struct syscall_share *h;

		if (!isfinite(s->syscalls[i].pct))
			continue;
		h = find_hotspot(acc, s->syscalls[i].name, hint);
		if (!h) {
			acc->is_missing_hotspots = true;
			continue;
		}
		h->pct += s->syscalls[i].pct;
		hint = (size_t)(h - acc->hotspots) + 1;
	}
}

/* ---- what is fed ---- */

void profile_sample_from(const struct proc_sample *p, struct profile_sample *ret)
{
	*ret = (struct profile_sample){
		.job_id = p->job_id,
		.key = p->key,
		.sheet_num = p->sheet_num,
		.rss_mb = u64_to_mb(p->rss_bytes),
		.cpu_percent = p->cpu_percent,
		.cpu_ns = u64_max_known(p->cpu_ns, u64_add(p->user_ns, p->system_ns)),
	};
}

static bool is_ours(const struct profile_accumulator *acc, const char *job_id)
{
	return job_id && strcmp(job_id, acc->job_id) == 0;
}

int profile_accumulator_add_sample(struct profile_accumulator *acc, const struct profile_sample *s)
{
	int r;

	if (!is_ours(acc, s->job_id))
		return 0;
	acc->n_samples++;
	peak_add(&acc->rss_mb, moment_of(acc), s->rss_mb);
	add_hotspots(acc, s);
	r = headcount_add(&acc->processes, s->key, s->cpu_ns);
	return r < 0 ? r : add_to_sheet(acc, s);
}

int profile_accumulator_add_snapshot(struct profile_accumulator *acc, const struct snapshot *s)
{
	profile_accumulator_begin_tick(acc, s->boot_id);
	for (size_t i = 0; i < s->n_processes; i++) {
		struct profile_sample sample;
		int r;

		profile_sample_from(&s->processes[i], &sample);
		r = profile_accumulator_add_sample(acc, &sample);
		if (r < 0)
			return r;
	}
	return 0;
}

void profile_accumulator_add_event(struct profile_accumulator *acc, const struct proc_event *ev)
{
	if (ev->type == EVENT_SPAWN && is_ours(acc, ev->job_id))
		acc->n_spawns++;
}

/* ---- what comes of it ---- */

/* Nothing seen is not the same as nothing there. */
static uint64_t count_or_unknown(uint64_t n, enum evidence *ret_evidence)
{
	*ret_evidence = n > 0 ? EVIDENCE_LOWER_BOUND : EVIDENCE_UNKNOWN;
	return n > 0 ? n : U64_UNKNOWN;
}

static enum evidence sampled_if(bool is_known)
{
	return is_known ? EVIDENCE_SAMPLED : EVIDENCE_UNKNOWN;
}

static void give_numbers(const struct profile_accumulator *acc, struct job_profile *p)
{
	p->peak_rss_mb = acc->rss_mb.max;
	p->peak_rss_evidence = sampled_if(f64_known(acc->rss_mb.max));
	p->total_cpu_seconds = u64_to_seconds(headcount_cpu_ns(&acc->processes));
	p->cpu_evidence = f64_known(p->total_cpu_seconds) ? EVIDENCE_LOWER_BOUND : EVIDENCE_UNKNOWN;
	p->process_spawn_count = count_or_unknown(acc->n_spawns, &p->spawn_evidence);
	p->unique_pid_count = count_or_unknown(acc->processes.n_pids, &p->unique_pid_evidence);
	p->unique_process_count =
		count_or_unknown(acc->processes.n_processes, &p->unique_process_evidence);
}

static int give_hotspots(const struct profile_accumulator *acc, struct job_profile *p)
{
	enum evidence evidence = sampled_if(acc->has_hotspots);

	if (acc->is_missing_hotspots)
		evidence = EVIDENCE_LOWER_BOUND;
	return profile_set_hotspots(p, acc->hotspots, acc->n_hotspots, evidence);
}

static int give_sheets(const struct profile_accumulator *acc, struct job_profile *p)
{
	p->sheet_evidence = sampled_if(acc->n_samples > 0);
	if (acc->is_missing_sheets)
		p->sheet_evidence = EVIDENCE_LOWER_BOUND;
	p->sheets = arena_alloc(&p->arena, acc->n_sheets * sizeof(*p->sheets));
	if (!p->sheets)
		return -ENOMEM;
	p->n_sheets = acc->n_sheets;
	for (size_t i = 0; i < p->n_sheets; i++) {
		const struct sheet_peaks *sheet = &acc->sheets[i];

		p->sheets[i] = (struct sheet_profile){
			.num = sheet->num,
			.peak_rss_mb = sheet->rss_mb.max,
			.peak_rss_evidence = sampled_if(f64_known(sheet->rss_mb.max)),
			.max_cpu_pct = sheet->cpu_percent.max,
		};
	}
	return 0;
}

int profile_accumulator_finish(const struct profile_accumulator *acc, struct job_profile *ret)
{
	struct job_profile p;

	profile_init(&p);
	p.job_id = arena_strdup(&p.arena, acc->job_id);
	if (!p.job_id || give_hotspots(acc, &p) < 0 || give_sheets(acc, &p) < 0) {
		profile_release(&p);
		return -ENOMEM;
	}
	give_numbers(acc, &p);
	*ret = p;
	return 0;
}
