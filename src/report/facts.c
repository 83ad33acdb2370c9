#include "report/facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "report/notes.h"

static int compare_tries(const void *left, const void *right)
{
	const struct sheet_record *l = *(const struct sheet_record *const *)left;
	const struct sheet_record *r = *(const struct sheet_record *const *)right;

	if (l->num != r->num)
		return l->num < r->num ? -1 : 1;
	return (l->try_num > r->try_num) - (l->try_num < r->try_num);
}

/* Largest first; those of the same size by pid, so that the order is stable. */
static int compare_rss(const void *left, const void *right)
{
	const struct proc_record *l = *(const struct proc_record *const *)left;
	const struct proc_record *r = *(const struct proc_record *const *)right;
	uint64_t lv = u64_known(l->max_rss_bytes) ? l->max_rss_bytes + 1 : 0;
	uint64_t rv = u64_known(r->max_rss_bytes) ? r->max_rss_bytes + 1 : 0;

	if (lv != rv)
		return lv > rv ? -1 : 1;
	if (l->key.pid != r->key.pid)
		return l->key.pid < r->key.pid ? -1 : 1;
	return (l->key.start_ticks > r->key.start_ticks) -
	       (l->key.start_ticks < r->key.start_ticks);
}

/* Pointers to the n items of size bytes at items, in the arena; NULL when memory runs out. */
static void *make_index(struct arena *arena, const void *items, size_t n, size_t size)
{
	const void **index = arena_alloc(arena, (n + 1) * sizeof(*index));

	for (size_t i = 0; index && i < n; i++)
		index[i] = (const char *)items + i * size;
	return index;
}

static int index_sheets(struct facts *f)
{
	const struct attempt *a = f->a;
	const struct sheet_record **tries =
		make_index(&f->arena, a->sheets, a->n_sheets, sizeof(a->sheets[0]));

	f->sheets = arena_alloc(&f->arena, (a->n_sheets + 1) * sizeof(f->sheets[0]));
	if (!tries || !f->sheets)
		return -ENOMEM;
	qsort(tries, a->n_sheets, sizeof(tries[0]), compare_tries);
	for (size_t i = 0; i < a->n_sheets; i++) {
		struct sheet_fact *sheet = f->n_sheets ? &f->sheets[f->n_sheets - 1] : NULL;

		if (!sheet || sheet->last->num != tries[i]->num) {
			sheet = &f->sheets[f->n_sheets++];
			*sheet = (struct sheet_fact){ .tries = &tries[i] };
		}
		sheet->n_tries++;
		sheet->last = tries[i];
	}
	for (size_t i = 0; i < f->n_sheets; i++)
		figures_of_sheet(a, f->sheets[i].last, &f->sheets[i].figures);
	return 0;
}

static int index_processes(struct facts *f)
{
	const struct attempt *a = f->a;
	uint64_t most = 0;

	f->processes = make_index(&f->arena, a->processes, a->n_processes, sizeof(a->processes[0]));
	if (!f->processes)
		return -ENOMEM;
	f->n_processes = a->n_processes;
	qsort(f->processes, f->n_processes, sizeof(f->processes[0]), compare_rss);
	for (size_t i = 0; i < f->n_processes; i++) {
		uint64_t cpu = facts_process_cpu_ns(f->processes[i]);

		if (u64_known(cpu) && (!f->top_cpu || cpu > most)) {
			f->top_cpu = f->processes[i];
			most = cpu;
		}
	}
	return 0;
}

int facts_init(struct facts *f, const struct attempt *a)
{
	*f = (struct facts){ .a = a, .arena = ARENA_INIT };
	figures_of_attempt(a, &f->figures);
	if (index_sheets(f) < 0 || index_processes(f) < 0 || notes_collect(f) < 0) {
		facts_release(f);
		return -ENOMEM;
	}
	return 0;
}

void facts_release(struct facts *f)
{
	arena_release(&f->arena);
	*f = (struct facts){ .arena = ARENA_INIT };
}

const struct sheet_fact *facts_culprit(const struct facts *f)
{
	const struct sheet_fact *first = NULL;

	for (size_t i = 0; i < f->n_sheets; i++) {
		enum outcome outcome = f->sheets[i].last->outcome;

		if (outcome == OUTCOME_SUCCESS || outcome == OUTCOME_NONE)
			continue;
		if (outcome == f->a->outcome)
			return &f->sheets[i];
		if (!first)
			first = &f->sheets[i];
	}
	return first;
}

const struct sheet_fact *facts_current(const struct facts *f)
{
	for (size_t i = 0; i < f->n_sheets; i++)
		if (f->sheets[i].last->outcome == OUTCOME_NONE &&
		    !u64_known(f->sheets[i].last->ended_wall_ns))
			return &f->sheets[i];
	return NULL;
}

static bool rank_failed(const struct rank_record *rank)
{
	return rank->status.exit_code > 0 || rank->status.signal >= 0;
}

const struct rank_record *facts_first_failed_rank(const struct sheet_record *sheet)
{
	const struct rank_record *first = NULL;

	for (size_t i = 0; i < sheet->n_ranks; i++) {
		const struct rank_record *rank = &sheet->ranks[i];

		if (rank_failed(rank) && (!first || rank->ended_wall_ns < first->ended_wall_ns))
			first = rank;
	}
	return first;
}

uint64_t facts_process_cpu_ns(const struct proc_record *p)
{
	return u64_add(p->user_ns, p->system_ns);
}

enum evidence facts_cpu_evidence(const struct proc_record *p)
{
	bool is_from_end = p->n_samples == 0 || p->evidence == EVIDENCE_UPPER_BOUND;

	if (!u64_known(facts_process_cpu_ns(p)))
		return EVIDENCE_UNKNOWN;
	if (p->cpu_evidence != EVIDENCE_UNKNOWN)
		return p->cpu_evidence;
	return is_from_end ? EVIDENCE_EXACT : p->evidence;
}

/* Not every event knows the start time; then the process is the one that lived at that moment. */
static bool is_process_of(const struct proc_record *p, const struct proc_event *ev)
{
	if (p->key.pid != ev->key.pid)
		return false;
	if (u64_known(p->key.start_ticks) && u64_known(ev->key.start_ticks))
		return p->key.start_ticks == ev->key.start_ticks;
	return (!u64_known(p->born_wall_ns) || p->born_wall_ns <= ev->wall_ns) &&
	       ev->wall_ns <= p->died_wall_ns; /* unknown is beyond all */
}

const struct proc_record *facts_find_process(const struct facts *f, const struct proc_event *ev)
{
	for (size_t i = 0; i < f->n_processes; i++)
		if (is_process_of(f->processes[i], ev))
			return f->processes[i];
	return NULL;
}

/* Below the first process of a rank many may fail whose failure is nobody's: those of a script. */
static bool leads_rank(const struct facts *f, const struct proc_record *p)
{
	if (p->rank == RANK_NONE)
		return false;
	for (size_t i = 0; i < f->n_processes; i++)
		if (f->processes[i]->key.pid == p->ppid && f->processes[i]->rank == p->rank)
			return false;
	return true;
}

const struct proc_record *facts_first_dead_rank(const struct facts *f)
{
	const struct proc_record *first = NULL;

	if (f->a->is_running || f->a->outcome == OUTCOME_SUCCESS)
		return NULL;
	for (size_t i = 0; i < f->n_processes; i++) {
		const struct proc_record *p = f->processes[i];

		if (exit_status_to_shell(p->status) > 0 && u64_known(p->died_wall_ns) &&
		    (!first || p->died_wall_ns < first->died_wall_ns) && leads_rank(f, p))
			first = p;
	}
	return first;
}

static uint64_t birth_event_ns(const struct facts *f, const struct proc_record *p)
{
	for (size_t i = 0; i < f->a->n_events; i++) {
		const struct proc_event *ev = &f->a->events[i];

		if (ev->type == EVENT_SPAWN && is_process_of(p, ev))
			return ev->wall_ns;
	}
	return U64_UNKNOWN;
}

uint64_t facts_born_ns(const struct facts *f, const struct proc_record *p)
{
	uint64_t early = u64_delta(f->a->started_wall_ns, p->born_wall_ns);
	uint64_t told;

	if (!u64_known(early) || early == 0 || early > FACTS_TICK_SLACK_NS)
		return p->born_wall_ns;
	told = birth_event_ns(f, p);
	return u64_known(told) && told > f->a->started_wall_ns ? told : f->a->started_wall_ns;
}

bool facts_is_left_running(const struct facts *f, const struct proc_record *p)
{
	return u64_known(f->a->ended_wall_ns) && !f->a->is_lost && !p->is_unaccounted &&
	       f->figures.evidence[FIGURE_SPAWNS] == EVIDENCE_EXACT &&
	       !u64_known(p->died_wall_ns) && exit_status_to_shell(p->status) < 0;
}

bool facts_runner_counts(const struct facts *f)
{
	const struct attempt *a = f->a;

	for (size_t i = 0; !a->is_attached && i < a->n_rungs; i++)
		if (strcmp(a->rungs[i].measurement, RUNG_SYSCALLS) == 0)
			return strcmp(a->rungs[i].rung, RUNG_UNKNOWN) != 0;
	return false;
}

struct rung facts_rung(const struct facts *f, size_t i)
{
	static const struct rung by_daemon = { RUNG_SYSCALLS, RUNG_SYSCALLS_EBPF,
					       "by the daemon, which may have come later" };
	const struct rung *rung = &f->a->rungs[i];

	if (f->a->n_syscalls > 0 && strcmp(rung->measurement, RUNG_SYSCALLS) == 0 &&
	    strcmp(rung->rung, RUNG_UNKNOWN) == 0)
		return by_daemon;
	return *rung;
}

static bool has_unknown(const struct attempt *a, const char *what)
{
	for (size_t i = 0; i < a->n_unknowns; i++)
		if (a->unknowns[i].what && strcmp(a->unknowns[i].what, what) == 0)
			return true;
	return false;
}

/* Of an attached job nobody has counted the beginning. */
enum evidence facts_syscall_evidence(const struct facts *f)
{
	if (has_unknown(f->a, "syscalls"))
		return EVIDENCE_LOWER_BOUND;
	return facts_runner_counts(f) ? EVIDENCE_EXACT : EVIDENCE_LOWER_BOUND;
}

/* strace goes by the clock ticks that a thread has got, of which a call takes a small part. */
static bool has_ticks(const struct attempt *a)
{
	for (size_t i = 0; i < a->n_rungs; i++)
		if (strcmp(a->rungs[i].measurement, RUNG_SYSCALLS) == 0)
			return strcmp(a->rungs[i].rung, RUNG_SYSCALLS_STRACE) == 0;
	return false;
}

/* Shares of a part of the calls are not less than those of all of them: they may be anything. */
enum evidence facts_hotspot_evidence(const struct facts *f)
{
	if (facts_syscall_evidence(f) != EVIDENCE_EXACT || has_unknown(f->a, NOTE_SYSCALL_TIMES) ||
	    has_ticks(f->a))
		return EVIDENCE_SAMPLED;
	return EVIDENCE_EXACT;
}
