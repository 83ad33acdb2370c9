#include "learn/pressure.h"

#include <stdio.h>

#include "base/macros.h"
#include "base/unknown.h"

/*
 * From which share of a limit a level begins; from which share of the last 10 s
 * all (or some) tasks stalled for memory; and what follows from it.
 */
static const struct level {
	const char *name;
	double share;
	double psi_some, psi_full;
	unsigned delay_seconds;
} levels[] = {
	[PRESSURE_NONE] = { "none", 0, 0, 0, 0 },
	[PRESSURE_LOW] = { "low", 0.50, 5, 1, 2 },
	[PRESSURE_MEDIUM] = { "medium", 0.70, 20, 5, 10 },
	[PRESSURE_HIGH] = { "high", 0.85, 60, 20, 30 },
	[PRESSURE_CRITICAL] = { "critical", 0.95, 101, 50, 60 }, /* some alone is never critical */
};

const char *pressure_name(enum pressure_level level)
{
	return levels[level].name;
}

unsigned pressure_delay_seconds(enum pressure_level level)
{
	return levels[level].delay_seconds;
}

bool pressure_refuses_jobs(enum pressure_level level)
{
	return level >= PRESSURE_HIGH;
}

bool pressure_holds_sheets(enum pressure_level level)
{
	return level >= PRESSURE_CRITICAL;
}

static enum pressure_level level_of_share(double share)
{
	enum pressure_level level = PRESSURE_CRITICAL;

	while (level > PRESSURE_NONE && share < levels[level].share)
		level--;
	return level;
}

static bool reaches(double percent, double bound)
{
	return f64_known(percent) && percent >= bound;
}

static enum pressure_level level_of_psi(const struct psi *psi)
{
	enum pressure_level level = PRESSURE_CRITICAL;

	while (level > PRESSURE_NONE && !reaches(psi->some.avg10, levels[level].psi_some) &&
	       !reaches(psi->full.avg10, levels[level].psi_full))
		level--;
	return level;
}

/* Takes over what is worse. */
static bool is_worse(struct pressure *p, enum pressure_level level)
{
	if (level <= p->level)
		return false;
	p->level = level;
	return true;
}

void pressure_cannot_tell(struct pressure *ret)
{
	ret->level = PRESSURE_CRITICAL;
	snprintf(ret->reason, sizeof(ret->reason), "the memory in use cannot be read");
}

static void judge_memory(const struct system_sample *host, uint64_t limit, struct pressure *ret)
{
	double share;

	if (!u64_known(limit))
		limit = host->memory_total_bytes;
	if (!u64_known(limit) || !u64_known(host->memory_used_bytes) || limit == 0) {
		pressure_cannot_tell(ret);
		return;
	}
	share = (double)host->memory_used_bytes / (double)limit;
	ret->level = level_of_share(share);
	snprintf(ret->reason, sizeof(ret->reason), "memory %.0f %% of %.1f GB", share * 100,
		 u64_to_mb(limit) / 1024);
}

static void judge_processes(uint64_t n, uint64_t limit, struct pressure *ret)
{
	if (!u64_known(limit))
		return;
	if (!u64_known(n) && is_worse(ret, PRESSURE_CRITICAL))
		snprintf(ret->reason, sizeof(ret->reason), "the processes cannot be counted");
	if (u64_known(n) && is_worse(ret, level_of_share((double)n / (double)limit)))
		snprintf(ret->reason, sizeof(ret->reason), "%llu of %llu processes",
			 (unsigned long long)n, (unsigned long long)limit);
}

void pressure_judge(const struct system_sample *host, const struct pressure_limits *limits,
		    struct pressure *ret)
{
	const struct psi *psi = &host->psi_memory;

	judge_memory(host, limits->memory_bytes, ret);
	judge_processes(host->process_count, limits->processes, ret);
	if (is_worse(ret, level_of_psi(psi)))
		snprintf(ret->reason, sizeof(ret->reason),
			 "tasks stalled for memory: some %.0f %%, all %.0f %% of 10 s",
			 f64_known(psi->some.avg10) ? psi->some.avg10 : 0,
			 f64_known(psi->full.avg10) ? psi->full.avg10 : 0);
}
