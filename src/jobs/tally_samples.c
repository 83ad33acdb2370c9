#include <string.h>

#include "base/unknown.h"
#include "jobs/tally_internal.h"

/*
 * A percentage is taken over at least this long: counters come in clock ticks of
 * 10 ms at worst, and over 20 ms such a tick would be half a core.
 */
#define CPU_WINDOW_NS UINT64_C(90000000)

static bool is_same_process(const struct entry *e, const struct proc_sample *p)
{
	return !u64_known(e->record.key.start_ticks) ||
	       e->record.key.start_ticks == p->key.start_ticks;
}

/* A sample knows it to a clock tick, rounded down: but nobody is born before its parent. */
static uint64_t birth_by_sample(const struct tally *t, const struct proc_sample *p)
{
	const struct entry *parent = tally_find_alive(t, p->ppid);

	if (!parent || !u64_known(p->start_wall_ns))
		return p->start_wall_ns;
	return u64_max_known(p->start_wall_ns, parent->record.born_wall_ns);
}

static struct entry *entry_for_sample(struct tally *t, const struct proc_sample *p)
{
	struct entry *e = tally_find_alive(t, p->key.pid);

	if (tally_is_unlisted(t, p->key.pid))
		return NULL;
	if (e && is_same_process(e, p))
		return e;
	e = tally_add_entry(t, p->key.pid, p->ppid, p->sheet_num, p->rank);
	if (e)
		tally_note_birth(t, e, birth_by_sample(t, p));
	return e;
}

static void update_identity(struct tally *t, struct entry *e, const struct proc_sample *p)
{
	struct proc_record *rec = &e->record;
	const char *kept;

	rec->key.start_ticks = p->key.start_ticks;
	rec->uid = u64_known(p->uid) ? p->uid : rec->uid;
	if (rec->rank == RANK_NONE)
		rec->rank = p->rank;
	if (rec->rank == p->rank) {
		rec->local_rank = p->local_rank;
		rec->world_size = p->world_size;
	}
	if (p->state == 'Z')
		return;
	e->ignores_sigchld = p->ignores_sigchld > 0;
	if (p->command && (!rec->command || strcmp(rec->command, p->command) != 0)) {
		kept = tally_keep_command(t, p->command);
		rec->command = kept ? kept : rec->command;
	}
}

static void update_numbers(struct proc_record *rec, const struct proc_sample *p)
{
	rec->user_ns = u64_max_known(rec->user_ns, p->user_ns);
	rec->system_ns = u64_max_known(rec->system_ns, p->system_ns);
	rec->max_rss_bytes = u64_max_known(rec->max_rss_bytes, p->rss_bytes);
	rec->max_rss_bytes = u64_max_known(rec->max_rss_bytes, p->hwm_bytes);
	rec->rchar = u64_max_known(rec->rchar, p->rchar);
	rec->wchar = u64_max_known(rec->wchar, p->wchar);
	rec->read_bytes = u64_max_known(rec->read_bytes, p->read_bytes);
	rec->write_bytes = u64_max_known(rec->write_bytes, p->write_bytes);
	rec->major_faults = u64_max_known(rec->major_faults, p->major_faults);
	rec->max_threads = u64_max_known(rec->max_threads, p->threads);
	rec->max_fds = u64_max_known(rec->max_fds, p->open_fds);
	rec->max_gpu_bytes = u64_max_known(rec->max_gpu_bytes, p->gpu_memory_bytes);
	rec->n_samples++;
	rec->evidence = EVIDENCE_SAMPLED;
}

static void take_sample(struct tally *t, const struct proc_sample *p)
{
	const struct gpu_use gpu = gpu_use_of(p);
	struct entry *e = entry_for_sample(t, p);
	struct account *sheet;

	if (!e)
		return;
	update_identity(t, e, p);
	account_add_sampled_cpu(&t->attempt, &e->record, p);
	sheet = tally_try_account(t, e);
	if (sheet)
		account_add_sampled_cpu(sheet, &e->record, p);
	update_numbers(&e->record, p);
	gpu_time_add(&e->gpu, &gpu, t->since_tick_ns);
	e->record.gpu_busy_ns = gpu_time_busy_ns(&e->gpu);
	e->record.gpu_idle_ns = gpu_time_idle_ns(&e->gpu);
	tally_note_parent(t, p->ppid);
}

/* The latest mark that is a window or more ago; NULL: none yet. */
static const struct cpu_mark *mark_before(const struct tally *t, uint64_t boot_ns)
{
	const struct cpu_mark *found = NULL;

	for (size_t i = 0; i < t->n_marks; i++)
		if (t->marks[i].boot_ns + CPU_WINDOW_NS <= boot_ns)
			found = &t->marks[i];
	return found;
}

/*
 * The CPU time that the tree has used since its beginning: of the living with
 * all they have waited for, and of those that we have waited for. Unlike the
 * sum of cpu_percent it holds the short-lived children too. It never falls: a
 * child that was waited for between the reading of its parent and its own is
 * missing once, and that is not to be billed again when it is back.
 */
static double tree_cpu_percent(struct tally *t, uint64_t living_cpu_ns, uint64_t boot_ns)
{
	uint64_t total = u64_add(living_cpu_ns, t->reaped_cpu_ns);
	const struct cpu_mark *before = mark_before(t, boot_ns);
	double percent = F64_UNKNOWN;

	if (!u64_known(total))
		return F64_UNKNOWN;
	if (t->n_marks > 0 && total < t->marks[t->n_marks - 1].total_ns)
		total = t->marks[t->n_marks - 1].total_ns;
	if (before)
		percent = 100.0 * (double)(total - before->total_ns) /
			  (double)(boot_ns - before->boot_ns);
	if (t->n_marks == CPU_MARKS) {
		memmove(t->marks, t->marks + 1, (CPU_MARKS - 1) * sizeof(t->marks[0]));
		t->n_marks--;
	}
	t->marks[t->n_marks++] = (struct cpu_mark){ boot_ns, total };
	return percent;
}

static uint64_t sample_cpu_ns(const struct proc_sample *p)
{
	uint64_t own = u64_max_known(p->cpu_ns, u64_add(p->user_ns, p->system_ns));

	return u64_add_known(own, u64_add_known(p->child_user_ns, p->child_system_ns));
}

/* What the processes of a tick add up to: of the whole job, and of the try that runs. */
struct tick_sum {
	uint64_t n_processes, rss_bytes, hwm_bytes;
	struct gpu_use gpu;    /* of those that told */
	bool has_untold_share; /* of one that may use a GPU: then the sum says nothing */
};

static void tick_sum_add(struct tick_sum *sum, const struct proc_sample *p)
{
	const struct gpu_use use = gpu_use_of(p);

	sum->n_processes++;
	sum->rss_bytes = u64_add_known(sum->rss_bytes, p->rss_bytes);
	sum->hwm_bytes = u64_max_known(sum->hwm_bytes, p->hwm_bytes);
	sum->gpu.held_bytes = u64_add_known(sum->gpu.held_bytes, use.held_bytes);
	if (f64_known(use.idle_devices))
		sum->gpu.idle_devices += use.idle_devices;
	else
		sum->gpu.idle_is_least = true;
	if (f64_known(use.percent))
		sum->gpu.percent =
			f64_known(sum->gpu.percent) ? sum->gpu.percent + use.percent : use.percent;
	else if (use.held_bytes > 0) /* or unknown, which is more */
		sum->has_untold_share = true;
}

static void add_tick(struct account *a, const struct tick_sum *sum, struct series_point point,
		     uint64_t since_ns)
{
	struct gpu_use gpu = sum->gpu;

	point.n_processes = sum->n_processes;
	point.rss_bytes = sum->rss_bytes;
	account_add_tick(a, &point, sum->hwm_bytes);
	if (sum->has_untold_share)
		gpu.percent = F64_UNKNOWN;
	account_add_gpu_tick(a, &gpu, since_ns);
}

/* Rounding to ticks can give a little more than the machine has. */
static double cap_percent(double percent, unsigned cpu_count)
{
	return cpu_count > 0 && percent > 100.0 * cpu_count ? 100.0 * cpu_count : percent;
}

/* A zombie whose death was told: all that it will ever add is in the account of who waits for it.
 */
static bool is_settled_zombie(const struct tally *t, const struct proc_sample *p)
{
	return p->state == 'Z' && t->sees_births && !tally_find_alive(t, p->key.pid);
}

/* Who has died, and was counted so, is not counted again because nobody waits for it. */
static bool is_told_dead(const struct tally *t, const struct proc_sample *p)
{
	const struct entry *e = p->state == 'Z' ? tally_find_alive(t, p->key.pid) : NULL;

	return e && u64_known(e->record.died_wall_ns);
}

void tally_snapshot(struct tally *t, const struct snapshot *snap, int sheet_num,
		    struct series_point *ret)
{
	struct tick_sum all = { .rss_bytes = U64_UNKNOWN,
				.hwm_bytes = U64_UNKNOWN,
				.gpu = { .held_bytes = U64_UNKNOWN, .percent = F64_UNKNOWN } };
	struct tick_sum of_try = all;
	struct series_point point = { .wall_ns = snap->wall_ns, .sheet_num = sheet_num };
	uint64_t cpu_ns = 0;

	t->since_tick_ns = u64_delta(snap->boot_ns, t->tick_boot_ns);
	t->tick_boot_ns = snap->boot_ns;
	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];

		if (!p->job_id)
			continue;
		cpu_ns = u64_add_known(cpu_ns, sample_cpu_ns(p));
		if (is_settled_zombie(t, p))
			continue;
		take_sample(t, p);
		if (is_told_dead(t, p))
			continue;
		tick_sum_add(&all, p);
		if (tally_try_account(t, tally_find_alive(t, p->key.pid)))
			tick_sum_add(&of_try, p);
	}
	point.n_processes = all.n_processes;
	point.rss_bytes = all.rss_bytes;
	point.cpu_percent =
		cap_percent(tree_cpu_percent(t, cpu_ns, snap->boot_ns), snap->system.cpu_count);
	add_tick(&t->attempt, &all, point, t->since_tick_ns);
	*ret = point;
	if (!t->sheet_is_alone)
		point.cpu_percent = F64_UNKNOWN; /* whose CPU is it? */
	add_tick(&t->sheet, &of_try, point, t->since_tick_ns);
}
