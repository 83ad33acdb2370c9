#include "report/facts.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "report/format.h"
#include "report/report.h"

static int compare_tries(const void *left, const void *right)
{
	const struct sheet_record *l = *(const struct sheet_record *const *)left;
	const struct sheet_record *r = *(const struct sheet_record *const *)right;

	return COMPARE(l->num, r->num) ?: COMPARE(l->try_num, r->try_num);
}

/* Largest first; those of the same size by pid, so that the order is stable. */
static int compare_rss(const void *left, const void *right)
{
	const struct proc_record *l = *(const struct proc_record *const *)left;
	const struct proc_record *r = *(const struct proc_record *const *)right;
	uint64_t lv = u64_known(l->max_rss_bytes) ? l->max_rss_bytes + 1 : 0;
	uint64_t rv = u64_known(r->max_rss_bytes) ? r->max_rss_bytes + 1 : 0;

	return COMPARE(rv, lv) ?: COMPARE(l->key.pid, r->key.pid) ?: COMPARE(l->key.start_ticks, r->key.start_ticks);
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

const struct rank_record *facts_first_failed_rank(const struct sheet_record *sheet)
{
	const struct rank_record *first = NULL;

	for (size_t i = 0; i < sheet->n_ranks; i++) {
		const struct rank_record *rank = &sheet->ranks[i];

		if ((rank->status.exit_code > 0 || rank->status.signal >= 0) &&
		    (!first || rank->ended_wall_ns < first->ended_wall_ns))
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

const struct proc_record *facts_first_dead_rank(const struct facts *f)
{
	const struct proc_record *first = NULL;

	if (f->a->is_running || f->a->outcome == OUTCOME_SUCCESS)
		return NULL;
	for (size_t i = 0; i < f->n_processes; i++) {
		const struct proc_record *p = f->processes[i];
		bool leads_rank = p->rank != RANK_NONE;

		if (exit_status_to_shell(p->status) <= 0 || !u64_known(p->died_wall_ns) ||
		    (first && p->died_wall_ns >= first->died_wall_ns))
			continue;
		/* Below the first process of a rank many may fail without a fault: those of a
		 * script. */
		for (size_t k = 0; leads_rank && k < f->n_processes; k++)
			leads_rank = f->processes[k]->key.pid != p->ppid ||
				     f->processes[k]->rank != p->rank;
		if (leads_rank)
			first = p;
	}
	return first;
}

uint64_t facts_born_ns(const struct facts *f, const struct proc_record *p)
{
	const struct attempt *a = f->a;
	uint64_t early = u64_delta(a->started_wall_ns, p->born_wall_ns);

	if (!u64_known(early) || early == 0 || early > START_SLACK_NS)
		return p->born_wall_ns;
	for (size_t i = 0; i < a->n_events; i++) {
		const struct proc_event *ev = &a->events[i];

		if (ev->type == EVENT_SPAWN && is_process_of(p, ev))
			return u64_known(ev->wall_ns) && ev->wall_ns > a->started_wall_ns
				       ? ev->wall_ns
				       : a->started_wall_ns;
	}
	return a->started_wall_ns;
}

bool facts_is_left_running(const struct facts *f, const struct proc_record *p)
{
	return u64_known(f->a->ended_wall_ns) && !f->a->is_lost && !p->is_unaccounted &&
	       f->figures.evidence[FIGURE_SPAWNS] == EVIDENCE_EXACT &&
	       !u64_known(p->died_wall_ns) && exit_status_to_shell(p->status) < 0;
}

/* Whether who ran the job has counted its system calls, and no daemon that may have come later. */
static bool facts_runner_counts(const struct facts *f)
{
	const char *rung = attempt_find_rung(f->a, RUNG_SYSCALLS);

	return !f->a->is_attached && rung && strcmp(rung, RUNG_UNKNOWN) != 0;
}

struct rung facts_rung(const struct facts *f, size_t i)
{
	static const struct rung by_daemon = { RUNG_SYSCALLS, RUNG_SYSCALLS_EBPF,
					       "by the daemon, which may have come later" };
	const struct rung *rung = &f->a->details.rungs[i];

	if (f->a->details.n_syscalls > 0 && rung->measurement &&
	    strcmp(rung->measurement, RUNG_SYSCALLS) == 0 && strcmp(rung->rung, RUNG_UNKNOWN) == 0)
		return by_daemon;
	return *rung;
}

/* The beginning of an attached job was not counted. */
enum evidence facts_syscall_evidence(const struct facts *f)
{
	return !attempt_find_note(f->a, "syscalls") && facts_runner_counts(f)
		       ? EVIDENCE_EXACT
		       : EVIDENCE_LOWER_BOUND;
}

/*
 * Shares of a part of the calls are not less than those of all of them: they may be anything.
 * strace goes by the clock ticks that a thread has got, of which a call takes a small part.
 */
enum evidence facts_hotspot_evidence(const struct facts *f)
{
	const char *rung = attempt_find_rung(f->a, RUNG_SYSCALLS);

	if (facts_syscall_evidence(f) != EVIDENCE_EXACT ||
	    attempt_find_note(f->a, NOTE_SYSCALL_TIMES) ||
	    (rung && strcmp(rung, RUNG_SYSCALLS_STRACE) == 0))
		return EVIDENCE_SAMPLED;
	return EVIDENCE_EXACT;
}

/* ---- notes: what could not be measured, and why ---- */

/*
 * Subjects of notes that are no figures: their name in the JSON and in words. Those with a reason
 * are fields of the contract that are often not filled, and get a note where there is none.
 */
static const struct {
	const char *key;
	const char *words;
	const char *why;
	const char *why_yet; /* while it runs */
} subjects[] = {
	{ "syscall_hotspots", "system calls", "they were not counted",
	  "known when the attempt ends, if they are counted" },
	{ "telemetry", "telemetry of ranks", "it has none, or they were not looked at",
	  "known when the attempt ends, if it has any" },
	{ "io", "I/O", NULL, NULL },
	{ "anomalies", "anomalies", NULL, NULL },
	{ "gpus", "GPUs", NULL, NULL },
	{ "syscalls", "system calls", NULL, NULL },
	{ NOTE_FAILED_CALLS, "calls that failed", NULL, NULL },
	{ "syscall times", "times of system calls", NULL, NULL },
};

bool facts_has_note(const struct facts *f, const char *what)
{
	for (size_t i = 0; i < f->n_notes; i++)
		if (f->notes[i].what && strcmp(f->notes[i].what, what) == 0)
			return true;
	return false;
}

/* The runner's note may be outdated: a daemon has counted, or ranks were analysed. */
static bool is_measured(const struct attempt *a, const char *what)
{
	return what && ((a->details.n_syscalls > 0 && strcmp(what, "syscall_hotspots") == 0) ||
			(a->details.telemetry && strcmp(what, "telemetry") == 0));
}

/*
 * A runner that was killed while the database was unavailable left no note: the gap in the series
 * shows it.
 */
static int note_gap(struct facts *f)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct missing_samples gap;

	if (!sample_gaps_find_missing(f->a, &gap))
		return 0;
	buf_add_str(&why, "nothing is recorded from ");
	format_time(&why, gap.from_wall_ns);
	buf_add_str(&why, " on for ");
	report_add_duration(&why, gap.until_wall_ns - gap.from_wall_ns);
	if (gap.n == 2)
		buf_add_str(&why, ", and once more for less");
	else if (gap.n > 2)
		buf_printf(&why, ", and %zu more times for less", gap.n - 1);
	if (buf_error(&why) < 0)
		return -ENOMEM;
	f->notes[f->n_notes].what = "history";
	f->notes[f->n_notes].why = arena_strdup(&f->arena, why.data);
	return f->notes[f->n_notes++].why ? 0 : -ENOMEM;
}

/*
 * Fills f->notes: the attempt's own notes, then every number of the contract that is missing
 * without one, and what no part of proctor measured. Reads f->a and f->figures. -ENOMEM.
 */
static int collect_notes(struct facts *f)
{
	const struct attempt *a = f->a;
	size_t max = a->details.n_unknowns + FIGURE_COUNT + ARRAY_SIZE(subjects) + 2;
	const char *why = a->is_running ? "known when the attempt ends"
			  : a->is_lost	? "the runner ended before it could be written"
					: "nothing was recorded";

	f->notes = arena_alloc(&f->arena, max * sizeof(f->notes[0]));
	if (!f->notes)
		return -ENOMEM;
	for (size_t i = 0; i < a->details.n_unknowns; i++)
		if (!is_measured(a, a->details.unknowns[i].what))
			f->notes[f->n_notes++] = a->details.unknowns[i];
	/* No record has the time at which a daemon began, or whether another one took over. */
	if (a->details.n_syscalls > 0 && !facts_runner_counts(f))
		f->notes[f->n_notes++] = (struct unknown_note){
			"syscalls",
			"a daemon has counted them from when it began to: what was called "
			"before, or while no daemon ran, is missing"
		};
	if (note_gap(f) < 0)
		return -ENOMEM;
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		if (!figure_is_optional(id) && !figure_is_known(&f->figures, id) &&
		    !facts_has_note(f, figure_key(id)))
			f->notes[f->n_notes++] = (struct unknown_note){ figure_key(id), why };
	}
	for (size_t i = 0; i < ARRAY_SIZE(subjects) && subjects[i].why; i++)
		if (!facts_has_note(f, subjects[i].key) && !is_measured(a, subjects[i].key))
			f->notes[f->n_notes++] =
				(struct unknown_note){ subjects[i].key,
						       a->is_running ? subjects[i].why_yet
								     : subjects[i].why };
	return 0;
}

const char *facts_note_label(const char *what)
{
	for (enum figure id = 0; id < FIGURE_COUNT; id++)
		if (strcmp(what, figure_key(id)) == 0)
			return figure_label(id);
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++)
		if (strcmp(what, subjects[i].key) == 0)
			return subjects[i].words;
	return what;
}

int facts_init(struct facts *f, const struct attempt *a)
{
	*f = (struct facts){ .a = a, .arena = ARENA_INIT };
	figures_of_attempt(a, &f->figures);
	if (index_sheets(f) < 0 || index_processes(f) < 0 || collect_notes(f) < 0) {
		facts_release(f);
		return -ENOMEM;
	}
	return 0;
}

/* ---- how the processes ended ---- */

static void count_status(struct exit_tally *tally, struct exit_status status)
{
	if (status.signal >= 0 && status.signal < EXIT_SIGNALS) {
		tally->killed[status.signal]++;
	} else if (status.exit_code >= 0 && status.exit_code < EXIT_CODES) {
		tally->exited[status.exit_code]++;
	} else {
		tally->n_unseen++;
		return;
	}
	tally->n_ended++;
}

void exit_tally_count(const struct facts *f, struct exit_tally *ret)
{
	const struct attempt *a = f->a;

	memset(ret, 0, sizeof(*ret));
	ret->has_ends = a->n_processes > 0 && u64_known(a->ended_wall_ns);
	for (size_t i = 0; ret->has_ends && i < a->n_processes; i++) {
		if (facts_is_left_running(f, &a->processes[i]))
			ret->n_left++;
		else
			count_status(ret, a->processes[i].status);
	}
	/* Signals and kills that were sent are not deaths: only exits are. */
	for (size_t i = 0; !ret->has_ends && i < a->n_events; i++)
		if (a->events[i].type == EVENT_EXIT)
			count_status(ret, a->events[i].status);
	for (size_t i = 0; i < a->n_events; i++)
		ret->n_oom += a->events[i].type == EVENT_OOM;
	ret->n_all = ret->n_ended + ret->n_left + ret->n_unseen;
}

/* Begins a part of the list. */
static struct buf *part(struct buf *out, size_t start)
{
	if (out->len > start)
		buf_add_str(out, ", ");
	return out;
}

void exit_tally_add(struct buf *out, const struct exit_tally *tally, bool is_running)
{
	size_t start = out->len;

	for (int code = 0; code < EXIT_CODES; code++)
		if (tally->exited[code])
			buf_printf(part(out, start), "%llu exited %d",
				   (unsigned long long)tally->exited[code], code);
	for (int sig = 0; sig < EXIT_SIGNALS; sig++)
		if (tally->killed[sig]) {
			buf_printf(part(out, start), "%llu killed by ",
				   (unsigned long long)tally->killed[sig]);
			format_signal(out, sig);
			if (sig == SIGKILL && tally->n_oom > 0)
				buf_printf(out, ", %llu of them for want of memory",
					   (unsigned long long)tally->n_oom);
		}
	if (tally->n_left)
		buf_printf(part(out, start), "%llu still running when proctor ended",
			   (unsigned long long)tally->n_left);
	if (tally->n_unseen)
		buf_printf(part(out, start), "%llu %s", (unsigned long long)tally->n_unseen,
			   is_running ? "not seen to end" : "whose end nobody saw");
}

/* 0 is worst; -1: nothing to tell. */
static int severity(const struct proc_event *ev)
{
	switch (ev->type) {
	case EVENT_OOM:
		return 0;
	case EVENT_KILL:
		return 1;
	case EVENT_SIGNAL:
	case EVENT_ORPHAN:
		return 2;
	case EVENT_EXIT:
		return exit_status_to_shell(ev->status) > 0 ? 3 : -1;
	default:
		return -1;
	}
}

static bool comes_before(const struct proc_event *l, const struct proc_event *r, int sheet_num)
{
	if ((l->sheet_num == sheet_num) != (r->sheet_num == sheet_num))
		return l->sheet_num == sheet_num;
	if (severity(l) != severity(r))
		return severity(l) < severity(r);
	return l->wall_ns < r->wall_ns;
}

size_t facts_find_notable(const struct attempt *a, int sheet_num, size_t max,
			  const struct proc_event **ret)
{
	size_t n = 0, total = 0;

	for (size_t i = 0; i < a->n_events; i++) {
		const struct proc_event *ev = &a->events[i];
		size_t at = n;

		if (severity(ev) < 0)
			continue;
		total++;
		for (; at > 0 && comes_before(ev, ret[at - 1], sheet_num); at--)
			if (at < max)
				ret[at] = ret[at - 1];
		if (at < max) {
			ret[at] = ev;
			n += n < max;
		}
	}
	return total;
}
