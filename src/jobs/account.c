#include "jobs/account.h"

#include <math.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/unknown.h"

#define FIRST_READING_NS UINT64_C(2500000000) /* it comes by then, unless something is wrong */

/* What had to wait for the first reading. */
static uint64_t take_beginning_ns(struct gpu_time *t)
{
	uint64_t untold_ns = t->blind_ns[0];

	if (t->seen_ns[0] > 0 || untold_ns > FIRST_READING_NS)
		return 0;
	t->blind_ns[0] = t->blind_ns[1] = 0;
	return untold_ns;
}

struct gpu_use gpu_use_of(const struct proc_sample *p)
{
	struct gpu_use use = { .held_bytes = p->gpu_memory_bytes,
			       .percent = p->gpu_percent,
			       .idle_devices = p->gpu_idle_devices };

	if (f64_known(use.idle_devices))
		return use;
	if (use.held_bytes == 0)
		use.idle_devices = 0;
	else if (u64_known(use.held_bytes) && f64_known(use.percent))
		use.idle_devices = use.percent == 0.0;
	return use;
}

void gpu_time_add(struct gpu_time *t, const struct gpu_use *use, uint64_t since_ns)
{
	bool is_held = u64_known(use->held_bytes) && use->held_bytes > 0;
	uint64_t *spent = f64_known(use->percent) ? t->seen_ns : t->blind_ns;

	if (!u64_known(since_ns))
		return;
	if (f64_known(use->percent))
		since_ns += take_beginning_ns(t);
	spent[0] += since_ns;
	if (is_held)
		spent[1] += since_ns;
	if (!f64_known(use->percent))
		return;
	t->busy_ns += (uint64_t)((double)since_ns * use->percent / 100.0);
	if (f64_known(use->idle_devices))
		t->idle_ns += (uint64_t)((double)since_ns * use->idle_devices);
	if (!f64_known(use->idle_devices) || use->idle_is_least)
		t->idle_untold_ns += since_ns;
}

static bool was_told(const struct gpu_time *t)
{
	return t->seen_ns[0] > 0 && t->seen_ns[0] >= t->blind_ns[0] &&
	       t->seen_ns[1] >= t->blind_ns[1];
}

uint64_t gpu_time_busy_ns(const struct gpu_time *t)
{
	return was_told(t) ? t->busy_ns : U64_UNKNOWN;
}

uint64_t gpu_time_idle_ns(const struct gpu_time *t)
{
	return was_told(t) && t->seen_ns[1] >= t->idle_untold_ns ? t->idle_ns : U64_UNKNOWN;
}

/* ---- account ---- */

/* A child grows a little between telling its mark and exec. */
#define PRE_EXEC_GROWTH_BYTES (256 * 1024)

/*
 * Since Linux 6.2 each CPU counts a process's pages on its own and hands them on by the batch
 * (percpu_counter_batch: twice the CPUs, at least 32), for each of three kinds of pages: who reads
 * the sum misses that much of each CPU that the child has been on, which are few.
 */
#define MIN_BATCH_PAGES 32
#define KINDS_OF_PAGES 3
#define MAX_CPUS_BEEN_ON 4

/* Clock ticks and wait4 differ by rounding. */
#define PARTS_CPU_SLACK_NS UINT64_C(10000000)

/* Over less than this an average is no peak. */
#define AVERAGE_MIN_NS UINT64_C(100000000)

void account_begin(struct account *a, uint64_t boot_ns)
{
	*a = (struct account){
		.started_boot_ns = boot_ns,
		.last_reap_boot_ns = U64_UNKNOWN,
		.sampled_peak_rss_bytes = U64_UNKNOWN,
		.sampled_peak_memory_bytes = U64_UNKNOWN,
		.sampled_hwm_bytes = U64_UNKNOWN,
		.reaped_rss_bytes = U64_UNKNOWN,
		.reaped_rss_limit_bytes = U64_UNKNOWN,
	};
	usage_init(&a->usage);
	a->usage.spawn_count = 0;
}

void account_add_spawn(struct account *a, uint64_t n_living)
{
	a->usage.spawn_count++;
	a->usage.peak_processes = u64_max_known(a->usage.peak_processes, n_living);
}

uint64_t account_timeval_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000u;
}

static uint64_t pre_exec_slack_bytes(void)
{
	uint64_t n_cpus = (uint64_t)get_nprocs(), page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t batch = 2 * n_cpus > MIN_BATCH_PAGES ? 2 * n_cpus : MIN_BATCH_PAGES;
	uint64_t been_on = n_cpus < MAX_CPUS_BEEN_ON ? n_cpus : MAX_CPUS_BEEN_ON;

	return PRE_EXEC_GROWTH_BYTES + KINDS_OF_PAGES * batch * been_on * page_bytes;
}

bool account_is_own_peak(const struct reaped *reaped)
{
	uint64_t rss = (uint64_t)reaped->usage.ru_maxrss * 1024;

	if (!u64_known(reaped->pre_exec_rss_bytes))
		return true;
	return rss > reaped->pre_exec_rss_bytes && /* to count the CPUs takes a file */
	       rss > reaped->pre_exec_rss_bytes + pre_exec_slack_bytes();
}

void account_add_reaped(struct account *a, const struct reaped *reaped,
			const struct proc_sample *zombie)
{
	const struct rusage *ru = &reaped->usage;
	struct usage *u = &a->usage;
	uint64_t rss = (uint64_t)ru->ru_maxrss * 1024;

	u->user_ns = u64_add_known(u->user_ns, account_timeval_ns(ru->ru_utime));
	u->system_ns = u64_add_known(u->system_ns, account_timeval_ns(ru->ru_stime));
	u->minor_faults = u64_add_known(u->minor_faults, (uint64_t)ru->ru_minflt);
	u->major_faults = u64_add_known(u->major_faults, (uint64_t)ru->ru_majflt);
	u->voluntary_switches = u64_add_known(u->voluntary_switches, (uint64_t)ru->ru_nvcsw);
	u->involuntary_switches = u64_add_known(u->involuntary_switches, (uint64_t)ru->ru_nivcsw);
	if (account_is_own_peak(reaped))
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

void account_add_tick(struct account *a, const struct series_point *point, uint64_t hwm_bytes,
		      const struct gpu_use *gpu, uint64_t since_ns)
{
	struct usage *u = &a->usage;

	a->sampled_peak_rss_bytes = u64_max_known(a->sampled_peak_rss_bytes, point->rss_bytes);
	a->sampled_hwm_bytes = u64_max_known(a->sampled_hwm_bytes, hwm_bytes);
	u->peak_processes = u64_max_known(u->peak_processes, point->n_processes);
	u->peak_cpu_percent = fmax(u->peak_cpu_percent, point->cpu_percent); /* skips NaN */
	u->peak_gpu_bytes = u64_max_known(u->peak_gpu_bytes, gpu->held_bytes);
	gpu_time_add(&a->gpu, gpu, since_ns);
}

/* ---- what may be claimed ---- */

/*
 * The largest ru_maxrss is exact if nothing is missing: everything was waited
 * for, and no mark from before an exec may hide a larger one.
 */
static void settle_max_process_rss(const struct account *a, bool is_complete, struct usage *u)
{
	uint64_t seen = u64_max_known(a->reaped_rss_bytes, a->sampled_hwm_bytes);
	uint64_t limit = a->reaped_rss_limit_bytes;
	bool is_hidden = u64_known(limit) && (!u64_known(seen) || limit > seen);

	if (!u64_known(seen)) {
		u->max_process_rss_bytes = is_complete ? limit : U64_UNKNOWN;
		u->max_process_rss_evidence =
			is_complete && u64_known(limit) ? EVIDENCE_UPPER_BOUND : EVIDENCE_UNKNOWN;
		return;
	}
	u->max_process_rss_bytes = seen;
	u->max_process_rss_evidence = is_complete && !is_hidden && u64_known(a->reaped_rss_bytes)
					      ? EVIDENCE_EXACT
					      : EVIDENCE_LOWER_BOUND;
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

/* Processes that add up to more than wait4 returned: nobody has waited for some of them, as with
 * SA_NOCLDWAIT, which /proc does not show. */
static bool is_all_waited(const struct account *a)
{
	uint64_t waited_ns = u64_add(a->usage.user_ns, a->usage.system_ns);
	uint64_t parts_ns = a->parts_user_ns + a->parts_system_ns;

	if (a->has_unwaited)
		return false;
	return !u64_known(waited_ns) || parts_ns <= waited_ns + waited_ns / 20 + PARTS_CPU_SLACK_NS;
}

void account_settle(const struct account *a, uint64_t boot_ns, bool sees_births, bool is_complete,
		    struct usage *ret)
{
	uint64_t cpu_ns;
	uint64_t span_ns;

	*ret = a->usage;
	ret->wall_ns = u64_delta(boot_ns, a->started_boot_ns);
	ret->gpu_busy_ns = gpu_time_busy_ns(&a->gpu);
	ret->gpu_idle_ns = gpu_time_idle_ns(&a->gpu);
	ret->spawn_evidence = sees_births ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
	if (!is_all_waited(a))
		is_complete = false;
	if (!is_complete) {
		ret->user_ns = u64_max_known(ret->user_ns, a->parts_user_ns);
		ret->system_ns = u64_max_known(ret->system_ns, a->parts_system_ns);
	}
	ret->cpu_evidence = sum_evidence(ret->user_ns, is_complete);
	ret->io_evidence = sum_evidence(ret->rchar, is_complete && !a->has_unreadable_io);
	settle_max_process_rss(a, is_complete, ret);
	settle_peak_rss(a, ret);
	if (a->has_shared)
		ret->peak_memory_bytes =
			u64_max_known(a->sampled_peak_memory_bytes,
				      ret->max_process_rss_evidence == EVIDENCE_UPPER_BOUND
					      ? U64_UNKNOWN
					      : ret->max_process_rss_bytes);
	/*
	 * The highest between two samples cannot have been below the average of the
	 * whole: until the last process that was counted had ended, which may be later
	 * than the command's own end.
	 */
	cpu_ns = u64_add(ret->user_ns, ret->system_ns);
	span_ns = u64_delta(u64_max_known(boot_ns, a->last_reap_boot_ns), a->started_boot_ns);
	if (u64_known(cpu_ns) && u64_known(span_ns) && span_ns >= AVERAGE_MIN_NS)
		ret->peak_cpu_percent =
			fmax(ret->peak_cpu_percent, 100.0 * (double)cpu_ns / (double)span_ns);
}

void peaks_init(struct peaks *p)
{
	*p = (struct peaks){ .bytes = U64_UNKNOWN, .limit_bytes = U64_UNKNOWN, .all_exact = true };
}

void peaks_add(struct peaks *p, uint64_t bytes, enum evidence evidence)
{
	if (evidence == EVIDENCE_UPPER_BOUND) {
		p->limit_bytes = u64_max_known(p->limit_bytes, bytes);
		return;
	}
	if (evidence != EVIDENCE_EXACT)
		p->all_exact = false;
	if (u64_known(bytes) && (!u64_known(p->bytes) || bytes > p->bytes)) {
		p->bytes = bytes;
		p->evidence = evidence;
	}
}

void peaks_settle(const struct peaks *p, uint64_t *ret_bytes, enum evidence *ret_evidence)
{
	bool limit_decides =
		u64_known(p->limit_bytes) && (!u64_known(p->bytes) || p->limit_bytes > p->bytes);

	*ret_bytes = p->bytes;
	*ret_evidence = p->evidence;
	if (limit_decides && p->all_exact) {
		*ret_bytes = p->limit_bytes;
		*ret_evidence = EVIDENCE_UPPER_BOUND;
	} else if (!u64_known(p->bytes)) {
		*ret_evidence = EVIDENCE_UNKNOWN;
	} else if (p->evidence == EVIDENCE_EXACT && (!p->all_exact || limit_decides)) {
		*ret_evidence = EVIDENCE_LOWER_BOUND;
	}
}
