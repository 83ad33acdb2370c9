#include "learn/admission.h"

#include <math.h>
#include <stdio.h>

#include "base/unknown.h"

/* ---- pressure ---- */

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

void pressure_judge(const struct system_sample *host, const struct pressure_limits *limits,
		    struct pressure *ret)
{
	const struct psi *psi = &host->psi_memory;
	uint64_t n = host->process_count, used = host->memory_used_bytes;
	uint64_t memory =
		u64_known(limits->memory_bytes) ? limits->memory_bytes : host->memory_total_bytes;

	if (u64_known(memory) && u64_known(used) && memory > 0) {
		double share = (double)used / (double)memory;

		ret->level = level_of_share(share);
		snprintf(ret->reason, sizeof(ret->reason), "memory %.0f %% of %.1f GB", share * 100,
			 u64_to_mb(memory) / 1024);
	} else {
		pressure_cannot_tell(ret);
	}
	if (u64_known(limits->processes)) {
		if (!u64_known(n) && is_worse(ret, PRESSURE_CRITICAL))
			snprintf(ret->reason, sizeof(ret->reason),
				 "the processes cannot be counted");
		if (u64_known(n) &&
		    is_worse(ret, level_of_share((double)n / (double)limits->processes)))
			snprintf(ret->reason, sizeof(ret->reason), "%llu of %llu processes",
				 (unsigned long long)n, (unsigned long long)limits->processes);
	}
	if (is_worse(ret, level_of_psi(psi)))
		snprintf(ret->reason, sizeof(ret->reason),
			 "tasks stalled for memory: some %.0f %%, all %.0f %% of 10 s",
			 f64_known(psi->some.avg10) ? psi->some.avg10 : 0,
			 f64_known(psi->full.avg10) ? psi->full.avg10 : 0);
}

/* ---- admission ---- */

/* Above it new jobs are refused (pressure_refuses_jobs()): it is not for one to bring the host
 * there. */
#define ROOM_SHARE 0.85
#define DELAY_MIN_SECONDS 2
#define DELAY_MAX_SECONDS 60
#define DELAY_UNKNOWN_SECONDS 10

const char *admit_name(enum admit_decision decision)
{
	static const char *const names[] = {
		[ADMIT] = "admit",
		[ADMIT_DELAY] = "delay",
		[ADMIT_REJECT] = "reject",
	};

	return names[decision];
}

/* Until the first of them is expected to be over. */
static unsigned wait_seconds(const struct admit_question *q)
{
	double soonest = INFINITY;

	for (size_t i = 0; i < q->n_running; i++) {
		double left = q->running[i].estimated_wall_seconds - q->running[i].age_seconds;

		if (f64_known(left))
			soonest = fmin(soonest, left);
	}
	if (!isfinite(soonest))
		return DELAY_UNKNOWN_SECONDS;
	return (unsigned)fmin(fmax(ceil(soonest), DELAY_MIN_SECONDS), DELAY_MAX_SECONDS);
}

static void judge_room(const struct admit_question *q, struct admit_answer *ret)
{
	double wanted = q->job->peak_rss_mb, room = q->limit_mb * ROOM_SHARE, promised = 0;

	for (size_t i = 0; i < q->n_running; i++) {
		const struct admit_running *other = &q->running[i];
		double now = f64_known(other->rss_mb) ? other->rss_mb : 0;

		if (f64_known(other->estimated_peak_mb))
			promised += fmax(other->estimated_peak_mb - now, 0);
	}
	ret->headroom_mb = room - q->used_mb - promised - wanted;
	if (wanted > room) {
		ret->decision = ADMIT_REJECT;
		ret->is_for_good = true;
		snprintf(
			ret->reason, sizeof(ret->reason),
			"it is expected to need %.0f MB, more than the %.0f MB that jobs may use here",
			wanted, room);
	} else if (ret->headroom_mb < 0) {
		ret->decision = ADMIT_DELAY;
		ret->delay_seconds = wait_seconds(q);
		snprintf(
			ret->reason, sizeof(ret->reason),
			"it is expected to need %.0f MB; %.0f MB of %.0f MB are in use and running "
			"jobs may want %.0f MB more",
			wanted, q->used_mb, room, promised);
	} else {
		snprintf(ret->reason, sizeof(ret->reason),
			 "it is expected to need %.0f MB, and %.0f MB are left then", wanted,
			 ret->headroom_mb);
	}
}

void admit_decide(const struct admit_question *q, struct admit_answer *ret)
{
	*ret = (struct admit_answer){
		.decision = ADMIT,
		.delay_seconds = pressure_delay_seconds(q->pressure->level),
		.headroom_mb = F64_UNKNOWN,
	};
	if (pressure_refuses_jobs(q->pressure->level)) {
		ret->decision = ADMIT_REJECT;
		snprintf(ret->reason, sizeof(ret->reason), "the pressure is %s (%s)",
			 pressure_name(q->pressure->level), q->pressure->reason);
	} else if (q->job->n_runs == 0 || !f64_known(q->job->peak_rss_mb)) {
		snprintf(ret->reason, sizeof(ret->reason),
			 "nothing is known of what it needs; the pressure is %s",
			 pressure_name(q->pressure->level));
	} else if (!f64_known(q->limit_mb) || !f64_known(q->used_mb)) {
		snprintf(ret->reason, sizeof(ret->reason),
			 "the memory in use cannot be read; the pressure is %s",
			 pressure_name(q->pressure->level));
	} else {
		judge_room(q, ret);
	}
}
