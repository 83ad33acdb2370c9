#include "jobs/tally.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"
#include "jobs/account.h"

#define CPU_WINDOW_NS UINT64_C(90000000) /* so that --interval 0.1 has its percentages */

/* A proc_record and what only the tally wants to know about it. */
struct entry {
	struct proc_record record;
	bool is_alive;
	bool fork_was_told; /* by the kernel; a root is announced by the runner first */
	bool has_children;
	bool ignores_sigchld;
};

struct tally {
	const char *job_id;
	bool sees_births;
	struct entry *entries;
	size_t n, cap;
	uint64_t n_unlisted;
	struct map alive; /* pid -> index into entries */
	struct account attempt, sheet;
	bool sheet_is_open;
	/* The largest peak of a sheet that has ended; sheets come one after the other. */
	uint64_t ended_peak_rss_bytes;
	enum evidence ended_peak_rss_evidence;

	uint64_t last_total_cpu_ns; /* of the tree, at the last tick */
	uint64_t last_tick_boot_ns;
	uint64_t reaped_cpu_ns; /* of all that was waited for by us */

	struct proc_event *events;
	size_t n_events, cap_events;
	bool events_were_taken;
	uint64_t n_events_total, n_events_unlisted;
	uint64_t n_lost;
	struct proc_record *listed; /* what tally_processes() hands out */
	struct arena arena;
};

struct tally *tally_new(const char *job_id, bool sees_births)
{
	struct tally *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->job_id = job_id;
	t->sees_births = sees_births;
	t->last_tick_boot_ns = t->last_total_cpu_ns = U64_UNKNOWN;
	t->ended_peak_rss_bytes = U64_UNKNOWN;
	t->ended_peak_rss_evidence = EVIDENCE_EXACT; /* of none, nothing was missed */
	account_begin(&t->attempt, U64_UNKNOWN);
	account_begin(&t->sheet, U64_UNKNOWN);
	return t;
}

struct tally *tally_free(struct tally *t)
{
	if (!t)
		return NULL;
	free(t->entries);
	free(t->events);
	free(t->listed);
	map_release(&t->alive);
	arena_release(&t->arena);
	free(t);
	return NULL;
}

void tally_begin_sheet(struct tally *t, uint64_t boot_ns, bool is_clean)
{
	if (!u64_known(t->attempt.started_boot_ns))
		t->attempt.started_boot_ns = boot_ns;
	account_begin(&t->sheet, boot_ns);
	t->sheet_is_open = true;
	t->last_tick_boot_ns = boot_ns;
	t->last_total_cpu_ns = is_clean ? t->reaped_cpu_ns : U64_UNKNOWN;
}

/* ---- events ---- */

static void add_event(struct tally *t, const struct proc_event *ev)
{
	if (t->events_were_taken) {
		t->n_events = 0;
		t->events_were_taken = false;
	}
	if (t->n_events_total >= TALLY_MAX_EVENTS) {
		t->n_events_unlisted++;
		return;
	}
	if (t->n_events == t->cap_events) {
		size_t cap = t->cap_events ? t->cap_events * 2 : 64;
		struct proc_event *grown = reallocarray(t->events, cap, sizeof(*grown));

		if (!grown) {
			t->n_events_unlisted++;
			return;
		}
		t->events = grown;
		t->cap_events = cap;
	}
	t->events[t->n_events] = *ev;
	t->events[t->n_events++].job_id = t->job_id;
	t->n_events_total++;
}

const struct proc_event *tally_take_events(struct tally *t, size_t *ret_n)
{
	if (t->events_were_taken)
		t->n_events = 0;
	t->events_were_taken = true;
	*ret_n = t->n_events;
	return t->events;
}

/* ---- processes ---- */

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

static struct entry *find_alive(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) ? &t->entries[i] : NULL;
}

static void count_spawn(struct tally *t)
{
	account_add_spawn(&t->attempt);
	account_add_spawn(&t->sheet);
}

static struct entry *add_entry(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank)
{
	struct entry *e;

	count_spawn(t);
	if (t->n >= TALLY_MAX_PROCESSES) {
		t->n_unlisted++;
		map_remove(&t->alive, pid_key(pid));
		return NULL;
	}
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;

		e = reallocarray(t->entries, cap, sizeof(*e));
		if (!e) {
			t->n_unlisted++;
			return NULL;
		}
		t->entries = e;
		t->cap = cap;
	}
	if (map_put(&t->alive, pid_key(pid), t->n) < 0) {
		t->n_unlisted++;
		return NULL;
	}
	e = &t->entries[t->n++];
	*e = (struct entry){ .is_alive = true };
	proc_record_init(&e->record);
	e->record.key.pid = pid;
	e->record.ppid = ppid;
	e->record.sheet_num = sheet_num;
	e->record.rank = rank;
	return e;
}

static void note_birth(struct tally *t, struct entry *e, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_SPAWN,
		.status = { -1, -1 },
		.sheet_num = e->record.sheet_num,
	};

	e->record.born_wall_ns = wall_ns;
	add_event(t, &ev);
}

void tally_root(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank, uint64_t wall_ns)
{
	struct entry *e = add_entry(t, pid, ppid, sheet_num, rank);

	if (e)
		note_birth(t, e, wall_ns);
}

/*
 * A parent that ignores SIGCHLD has its children waited for by the kernel, which
 * adds what they used to nobody's account.
 */
static struct entry *note_parent(struct tally *t, pid_t pid)
{
	struct entry *parent = find_alive(t, pid);

	if (!parent)
		return NULL;
	parent->has_children = true;
	if (parent->ignores_sigchld)
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	return parent;
}

void tally_fork(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank, uint64_t wall_ns)
{
	struct entry *e = find_alive(t, pid);
	struct entry *parent;

	if (e && !e->fork_was_told) {
		e->fork_was_told = true; /* known already, from the runner or from a sample */
		return;
	}
	e = add_entry(t, pid, ppid, sheet_num, rank);
	parent = note_parent(t, ppid);
	if (!e)
		return;
	e->fork_was_told = true;
	/* Until it execs, a child runs its parent's program. */
	e->record.command = parent ? parent->record.command : NULL;
	e->record.uid = parent ? parent->record.uid : U64_UNKNOWN;
	e->ignores_sigchld = parent && parent->ignores_sigchld;
	note_birth(t, e, wall_ns);
}

void tally_exec(struct tally *t, pid_t pid, const char *command)
{
	struct entry *e = find_alive(t, pid);

	if (e)
		e->record.command = arena_strdup(&t->arena, command);
}

static void note_death(struct tally *t, struct entry *e, int wait_status, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_EXIT,
		.status = exit_status_from_wait(wait_status),
		.sheet_num = e->record.sheet_num,
		.details = e->record.command,
	};

	e->record.died_wall_ns = wall_ns;
	e->record.status = ev.status;
	add_event(t, &ev);
}

void tally_exit(struct tally *t, pid_t pid, int wait_status, uint64_t wall_ns)
{
	struct entry *e = find_alive(t, pid);

	if (e && !u64_known(e->record.died_wall_ns))
		note_death(t, e, wait_status, wall_ns);
}

void tally_lost(struct tally *t, uint64_t n)
{
	t->n_lost += n;
	if (n > 0)
		t->sees_births = false;
}

void tally_signal(struct tally *t, pid_t pid, int sheet_num, int sig, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = { .pid = pid, .start_ticks = U64_UNKNOWN },
		.type = sig == SIGKILL ? EVENT_KILL : EVENT_SIGNAL,
		.status = { -1, sig },
		.sheet_num = sheet_num,
		.details = "sent by proctor",
	};

	add_event(t, &ev);
}

void tally_oom(struct tally *t, int sheet_num, const char *details, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = { .pid = 0, .start_ticks = U64_UNKNOWN },
		.type = EVENT_OOM,
		.status = { -1, SIGKILL },
		.sheet_num = sheet_num,
		.details = arena_strdup(&t->arena, details),
	};

	add_event(t, &ev);
}

/* ---- the end of a process ---- */

static void finish_entry(const struct tally *t, struct entry *e, const struct reaped *reaped,
			 const struct proc_sample *zombie)
{
	uint64_t rss = (uint64_t)reaped->usage.ru_maxrss * 1024;
	/* ru_maxrss and I/O include descendants: they are its own only if it had none. */
	bool is_leaf = t->sees_births && !e->has_children;

	if (u64_known(zombie->user_ns)) {
		e->record.user_ns = zombie->user_ns;
		e->record.system_ns = zombie->system_ns;
	} else if (is_leaf) {
		e->record.user_ns = account_timeval_ns(reaped->usage.ru_utime);
		e->record.system_ns = account_timeval_ns(reaped->usage.ru_stime);
	}
	if (!is_leaf)
		return;
	e->record.major_faults = (uint64_t)reaped->usage.ru_majflt;
	e->record.rchar = zombie->rchar;
	e->record.wchar = zombie->wchar;
	e->record.read_bytes = zombie->read_bytes;
	e->record.write_bytes = zombie->write_bytes;
	if (account_is_own_peak(reaped)) {
		e->record.max_rss_bytes = u64_max_known(e->record.max_rss_bytes, rss);
		e->record.evidence = EVIDENCE_EXACT;
	}
}

uint64_t tally_reap(struct tally *t, const struct reaped *reaped, const struct proc_sample *zombie,
		    uint64_t wall_ns)
{
	struct entry *e = find_alive(t, reaped->pid);

	if (!e) /* an orphan that neither events nor samples have shown */
		e = add_entry(t, reaped->pid, zombie->ppid, zombie->sheet_num, RANK_NONE);
	account_add_reaped(&t->attempt, reaped, zombie);
	account_add_reaped(&t->sheet, reaped, zombie);
	t->reaped_cpu_ns += account_timeval_ns(reaped->usage.ru_utime) +
			    account_timeval_ns(reaped->usage.ru_stime);
	if (!e)
		return U64_UNKNOWN;
	if (u64_known(e->record.died_wall_ns)) /* wait4 knows better about threads that exit one by
						  one */
		e->record.status = exit_status_from_wait(reaped->wait_status);
	else
		note_death(t, e, reaped->wait_status, wall_ns);
	finish_entry(t, e, reaped, zombie);
	e->is_alive = false;
	map_remove(&t->alive, pid_key(reaped->pid));
	return e->record.died_wall_ns;
}

/* ---- samples ---- */

static bool is_same_process(const struct entry *e, const struct proc_sample *p)
{
	return !u64_known(e->record.key.start_ticks) ||
	       e->record.key.start_ticks == p->key.start_ticks;
}

static struct entry *entry_for_sample(struct tally *t, const struct proc_sample *p)
{
	struct entry *e = find_alive(t, p->key.pid);

	if (e && is_same_process(e, p))
		return e;
	e = add_entry(t, p->key.pid, p->ppid, p->sheet_num, p->rank);
	if (e)
		note_birth(t, e, p->start_wall_ns);
	return e;
}

/* Adds what a counter has grown by since it was last seen, which may be never. */
static void add_growth(uint64_t *sum, uint64_t now, uint64_t before)
{
	uint64_t growth = u64_delta(now, u64_known(before) ? before : 0);

	if (u64_known(growth))
		*sum += growth;
}

static void add_sampled_cpu(struct account *a, const struct proc_record *rec,
			    const struct proc_sample *p)
{
	add_growth(&a->sampled_user_ns, p->user_ns, rec->user_ns);
	add_growth(&a->sampled_system_ns, p->system_ns, rec->system_ns);
}

static void update_entry(struct tally *t, struct entry *e, const struct proc_sample *p)
{
	struct proc_record *rec = &e->record;

	rec->key.start_ticks = p->key.start_ticks;
	rec->uid = u64_known(p->uid) ? p->uid : rec->uid;
	if (p->command && p->state != 'Z' &&
	    (!rec->command || strcmp(rec->command, p->command) != 0))
		rec->command = arena_strdup(&t->arena, p->command);
	add_sampled_cpu(&t->attempt, rec, p);
	add_sampled_cpu(&t->sheet, rec, p);
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
	rec->n_samples++;
	rec->evidence = EVIDENCE_SAMPLED;
	if (p->state != 'Z')
		e->ignores_sigchld = p->ignores_sigchld;
	note_parent(t, p->ppid);
}

/*
 * The CPU time that the tree has used since its beginning: of the living with
 * all they have waited for, and of those that we have waited for. Unlike the
 * sum of cpu_percent it holds the short-lived children too.
 *
 * /proc counts in clock ticks of 10 ms. Over a stretch of 20 ms that is no
 * percentage at all, so a shorter stretch than CPU_WINDOW_NS gives unknown, and
 * counts towards the next.
 */
static double tree_cpu_percent(struct tally *t, uint64_t living_cpu_ns, uint64_t boot_ns)
{
	uint64_t total = u64_add(living_cpu_ns, t->reaped_cpu_ns);
	uint64_t used = u64_delta(total, t->last_total_cpu_ns);
	uint64_t elapsed = u64_delta(boot_ns, t->last_tick_boot_ns);

	if (u64_known(elapsed) && elapsed < CPU_WINDOW_NS)
		return F64_UNKNOWN;
	t->last_total_cpu_ns = total;
	t->last_tick_boot_ns = boot_ns;
	if (!u64_known(used) || !u64_known(elapsed))
		return F64_UNKNOWN;
	return (double)used / (double)elapsed * 100.0;
}

static uint64_t sample_cpu_ns(const struct proc_sample *p)
{
	return u64_add(u64_add(p->user_ns, p->system_ns),
		       u64_add_known(u64_add_known(p->child_user_ns, p->child_system_ns), 0));
}

void tally_snapshot(struct tally *t, const struct snapshot *snap, int sheet_num,
		    struct series_point *ret)
{
	struct series_point point = { .wall_ns = snap->wall_ns,
				      .sheet_num = sheet_num,
				      .rss_bytes = U64_UNKNOWN };
	uint64_t hwm = U64_UNKNOWN, cpu_ns = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		struct entry *e;

		if (!p->job_id)
			continue;
		e = entry_for_sample(t, p);
		if (e)
			update_entry(t, e, p);
		point.n_processes++;
		point.rss_bytes = u64_add_known(point.rss_bytes, p->rss_bytes);
		hwm = u64_max_known(hwm, p->hwm_bytes);
		cpu_ns = u64_add_known(cpu_ns, sample_cpu_ns(p));
	}
	point.cpu_percent = tree_cpu_percent(t, cpu_ns, snap->boot_ns);
	/* Rounding to ticks can give a little more than the machine has. */
	if (snap->system.cpu_count > 0 && point.cpu_percent > 100.0 * snap->system.cpu_count)
		point.cpu_percent = 100.0 * snap->system.cpu_count;
	account_add_tick(&t->attempt, &point, hwm);
	account_add_tick(&t->sheet, &point, hwm);
	*ret = point;
}

/* ---- results ---- */

/* The larger of two peaks; exact only if both are, as the smaller one may have been more in truth.
 */
static void fold_peak(uint64_t *peak, enum evidence *evidence, const struct usage *sheet)
{
	bool is_larger = u64_known(sheet->peak_rss_bytes) &&
			 (!u64_known(*peak) || sheet->peak_rss_bytes > *peak);
	enum evidence of_larger = is_larger ? sheet->peak_rss_evidence : *evidence;
	bool both_exact = *evidence == EVIDENCE_EXACT && sheet->peak_rss_evidence == EVIDENCE_EXACT;

	if (is_larger)
		*peak = sheet->peak_rss_bytes;
	if (both_exact)
		*evidence = EVIDENCE_EXACT;
	else if (of_larger == EVIDENCE_EXACT)
		*evidence = EVIDENCE_LOWER_BOUND;
	else
		*evidence = of_larger;
}

void tally_end_sheet(struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->sheet, boot_ns, t->sees_births, is_complete, ret);
	fold_peak(&t->ended_peak_rss_bytes, &t->ended_peak_rss_evidence, ret);
	t->sheet_is_open = false;
}

void tally_total(const struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->attempt, boot_ns, t->sees_births, is_complete, ret);
	/* What was left running in the background makes sheets overlap: then the sums stand. */
	if (t->sheet_is_open || !is_complete)
		return;
	ret->peak_rss_bytes = t->ended_peak_rss_bytes;
	ret->peak_rss_evidence =
		u64_known(ret->peak_rss_bytes) ? t->ended_peak_rss_evidence : EVIDENCE_UNKNOWN;
}

const struct proc_record *tally_processes(struct tally *t, size_t *ret_n)
{
	struct proc_record *listed = reallocarray(t->listed, t->n ? t->n : 1, sizeof(*listed));

	*ret_n = 0;
	if (!listed)
		return NULL;
	t->listed = listed;
	for (size_t i = 0; i < t->n; i++)
		listed[i] = t->entries[i].record;
	*ret_n = t->n;
	return listed;
}

uint64_t tally_unlisted_processes(const struct tally *t)
{
	return t->n_unlisted;
}

uint64_t tally_unlisted_events(const struct tally *t)
{
	return t->n_events_unlisted;
}

uint64_t tally_lost_events(const struct tally *t)
{
	return t->n_lost;
}
