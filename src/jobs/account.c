#include "jobs/account.h"

#include <math.h>

#include "base/unknown.h"

/*
 * A child grows a little between telling its mark and exec, and the kernel's
 * count of pages is itself rounded per CPU.
 */
#define PRE_EXEC_SLACK_BYTES (256 * 1024)
#define SAMPLED_CPU_SLACK_NS UINT64_C(100000000)

void account_begin(struct account *a, uint64_t boot_ns)
{
	usage_init(&a->usage);
	a->started_boot_ns = boot_ns;
	a->sampled_peak_rss_bytes = a->sampled_hwm_bytes = U64_UNKNOWN;
	a->reaped_rss_bytes = a->reaped_rss_limit_bytes = U64_UNKNOWN;
	a->has_unreadable_io = a->has_unwaited = false;
	a->sampled_user_ns = a->sampled_system_ns = 0;
	a->usage.spawn_count = 0;
}

void account_add_spawn(struct account *a)
{
	a->usage.spawn_count++;
}

uint64_t account_timeval_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000u;
}

bool account_is_own_peak(const struct reaped *reaped)
{
	uint64_t rss = (uint64_t)reaped->usage.ru_maxrss * 1024;

	return !u64_known(reaped->pre_exec_rss_bytes) ||
	       rss > reaped->pre_exec_rss_bytes + PRE_EXEC_SLACK_BYTES;
}

void account_add_reaped(struct account *a, const struct reaped *reaped,
			const struct proc_sample *zombie)
{
	const struct rusage *ru = &reaped->usage;
	struct usage *u = &a->usage;
	uint64_t rss = (uint64_t)ru->ru_maxrss * 1024;
	bool is_own = account_is_own_peak(reaped);

	u->user_ns = u64_add_known(u->user_ns, account_timeval_ns(ru->ru_utime));
	u->system_ns = u64_add_known(u->system_ns, account_timeval_ns(ru->ru_stime));
	u->minor_faults = u64_add_known(u->minor_faults, (uint64_t)ru->ru_minflt);
	u->major_faults = u64_add_known(u->major_faults, (uint64_t)ru->ru_majflt);
	u->voluntary_switches = u64_add_known(u->voluntary_switches, (uint64_t)ru->ru_nvcsw);
	u->involuntary_switches = u64_add_known(u->involuntary_switches, (uint64_t)ru->ru_nivcsw);
	if (is_own)
		a->reaped_rss_bytes = u64_max_known(a->reaped_rss_bytes, rss);
	else
		a->reaped_rss_limit_bytes = u64_max_known(a->reaped_rss_limit_bytes, rss);
	if (!u64_known(zombie->rchar))
		a->has_unreadable_io = true;
	u->rchar = u64_add_known(u->rchar, zombie->rchar);
	u->wchar = u64_add_known(u->wchar, zombie->wchar);
	u->syscr = u64_add_known(u->syscr, zombie->syscr);
	u->syscw = u64_add_known(u->syscw, zombie->syscw);
	u->read_bytes = u64_add_known(u->read_bytes, zombie->read_bytes);
	u->write_bytes = u64_add_known(u->write_bytes, zombie->write_bytes);
}

void account_add_tick(struct account *a, const struct series_point *point, uint64_t hwm_bytes)
{
	struct usage *u = &a->usage;

	a->sampled_peak_rss_bytes = u64_max_known(a->sampled_peak_rss_bytes, point->rss_bytes);
	a->sampled_hwm_bytes = u64_max_known(a->sampled_hwm_bytes, hwm_bytes);
	u->peak_processes = u64_max_known(u->peak_processes, point->n_processes);
	u->peak_cpu_percent = fmax(u->peak_cpu_percent, point->cpu_percent); /* skips NaN */
}

static void settle_max_process_rss(const struct account *a, struct usage *u)
{
	if (u64_known(a->reaped_rss_bytes)) {
		u->max_process_rss_bytes = u64_max_known(a->reaped_rss_bytes, a->sampled_hwm_bytes);
		u->max_process_rss_evidence = EVIDENCE_EXACT;
	} else if (u64_known(a->sampled_hwm_bytes)) {
		u->max_process_rss_bytes = a->sampled_hwm_bytes;
		u->max_process_rss_evidence = EVIDENCE_LOWER_BOUND;
	} else if (u64_known(a->reaped_rss_limit_bytes)) {
		u->max_process_rss_bytes = a->reaped_rss_limit_bytes;
		u->max_process_rss_evidence = EVIDENCE_UPPER_BOUND;
	}
}

/* The sum over the tree was never less than its largest process. */
static void settle_peak_rss(const struct account *a, struct usage *u)
{
	bool is_alone = u->spawn_count == 1 && u->spawn_evidence == EVIDENCE_EXACT;

	if (is_alone && u64_known(u->max_process_rss_bytes)) {
		u->peak_rss_bytes = u->max_process_rss_bytes;
		u->peak_rss_evidence = u->max_process_rss_evidence;
		return;
	}
	u->peak_rss_bytes = a->sampled_peak_rss_bytes;
	u->peak_rss_evidence = u64_known(u->peak_rss_bytes) ? EVIDENCE_SAMPLED : EVIDENCE_UNKNOWN;
	if (u->max_process_rss_evidence == EVIDENCE_UPPER_BOUND ||
	    !u64_known(u->max_process_rss_bytes))
		return;
	if (!u64_known(u->peak_rss_bytes) || u->peak_rss_bytes < u->max_process_rss_bytes) {
		u->peak_rss_bytes = u->max_process_rss_bytes;
		u->peak_rss_evidence = EVIDENCE_LOWER_BOUND;
	}
}

static enum evidence sum_evidence(uint64_t sum, bool is_complete)
{
	if (!u64_known(sum))
		return EVIDENCE_UNKNOWN;
	return is_complete ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
}

/*
 * Samples that add up to more than wait4 told mean that some process was waited
 * for by nobody. Clock ticks and wait4 differ by rounding, hence the slack.
 */
static bool is_all_waited(const struct account *a)
{
	uint64_t waited_ns = u64_add(a->usage.user_ns, a->usage.system_ns);
	uint64_t sampled_ns = a->sampled_user_ns + a->sampled_system_ns;

	if (a->has_unwaited)
		return false;
	return !u64_known(waited_ns) ||
	       sampled_ns <= waited_ns + waited_ns / 20 + SAMPLED_CPU_SLACK_NS;
}

void account_settle(const struct account *a, uint64_t boot_ns, bool sees_births, bool is_complete,
		    struct usage *ret)
{
	*ret = a->usage;
	ret->wall_ns = u64_delta(boot_ns, a->started_boot_ns);
	ret->spawn_evidence = sees_births ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
	if (!is_all_waited(a)) {
		is_complete = false;
		ret->user_ns = u64_max_known(ret->user_ns, a->sampled_user_ns);
		ret->system_ns = u64_max_known(ret->system_ns, a->sampled_system_ns);
	}
	ret->cpu_evidence = sum_evidence(ret->user_ns, is_complete);
	ret->io_evidence = sum_evidence(ret->rchar, is_complete && !a->has_unreadable_io);
	settle_max_process_rss(a, ret);
	settle_peak_rss(a, ret);
}
