#include "jobs/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "jobs/tally_internal.h"

/* In the map of the living: counted, without an entry; the second kind has died and may be seen
 * again. */
#define UNLISTED UINT64_MAX
#define UNLISTED_DEAD (UINT64_MAX - 1)

struct tally *tally_new(const char *job_id, bool sees_births)
{
	struct tally *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->job_id = job_id;
	t->sees_births = sees_births;
	peaks_init(&t->ended_peaks);
	t->tick_boot_ns = t->since_tick_ns = U64_UNKNOWN;
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
	map_release(&t->commands);
	arena_release(&t->arena);
	free(t);
	return NULL;
}

void tally_begin_sheet(struct tally *t, uint64_t boot_ns, bool is_clean)
{
	if (!u64_known(t->attempt.started_boot_ns))
		t->attempt.started_boot_ns = boot_ns;
	account_begin(&t->sheet, boot_ns);
	t->serial++;
	t->sheet_is_open = true;
	t->sheet_is_alone = is_clean;
	t->n_marks = 0;
	if (is_clean)
		t->marks[t->n_marks++] = (struct cpu_mark){ boot_ns, t->reaped_cpu_ns };
}

struct account *tally_try_account(struct tally *t, const struct entry *e)
{
	return !e || e->serial == t->serial ? &t->sheet : NULL;
}

const char *tally_keep_command(struct tally *t, const char *command)
{
	uint64_t hash = hash_bytes(HASH_INIT, command, strlen(command)), found;
	const char *kept;

	if (map_get(&t->commands, hash, &found)) {
		kept = (const char *)(uintptr_t)found;
		return strcmp(kept, command) == 0 ? kept : NULL; /* never another's */
	}
	if (t->commands.len >= TALLY_MAX_COMMANDS)
		return NULL;
	kept = arena_strdup(&t->arena, command);
	if (kept)
		map_put(&t->commands, hash, (uint64_t)(uintptr_t)kept);
	return kept;
}

/* ---- births ---- */

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

static void count_death(struct tally *t)
{
	if (t->n_living > 0)
		t->n_living--;
}

struct entry *tally_find_alive(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i < UNLISTED_DEAD ? &t->entries[i] : NULL;
}

bool tally_is_unlisted(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i >= UNLISTED_DEAD;
}

/* True if it lived. */
static bool note_unlisted_death(struct tally *t, pid_t pid)
{
	uint64_t i;

	if (!map_get(&t->alive, pid_key(pid), &i) || i != UNLISTED)
		return false;
	map_put(&t->alive, pid_key(pid), UNLISTED_DEAD);
	count_death(t);
	return true;
}

static void count_birth(struct tally *t, unsigned serial)
{
	/* Without news of deaths nobody knows how many live; the samples tell. */
	uint64_t n_living = t->sees_births ? ++t->n_living : U64_UNKNOWN;

	account_add_spawn(&t->attempt, n_living);
	if (serial == t->serial) /* what else lives is not this try's */
		account_add_spawn(&t->sheet, t->sheet_is_alone ? n_living : U64_UNKNOWN);
}

static struct entry *grow_entries(struct tally *t)
{
	size_t cap = t->cap ? t->cap * 2 : 64;
	struct entry *grown;

	if (t->n >= TALLY_MAX_PROCESSES)
		return NULL;
	if (t->n < t->cap)
		return t->entries;
	grown = reallocarray(t->entries, cap, sizeof(*grown));
	if (!grown)
		return NULL;
	t->entries = grown;
	t->cap = cap;
	return grown;
}

struct entry *tally_add_entry(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank)
{
	struct entry *e = tally_find_alive(t, ppid);
	unsigned serial = e ? e->serial : t->serial;

	count_birth(t, serial);
	if (!grow_entries(t) || map_put(&t->alive, pid_key(pid), t->n) < 0) {
		t->n_unlisted++;
		map_put(&t->alive, pid_key(pid), UNLISTED);
		return NULL;
	}
	e = &t->entries[t->n++];
	*e = (struct entry){ .serial = serial };
	proc_record_init(&e->record);
	e->record.key.pid = pid;
	e->record.ppid = ppid;
	e->record.sheet_num = sheet_num;
	e->record.rank = rank;
	return e;
}

void tally_note_birth(struct tally *t, struct entry *e, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_SPAWN,
		.status = { -1, -1 },
		.sheet_num = e->record.sheet_num,
	};

	e->record.born_wall_ns = wall_ns;
	tally_add_event(t, &ev, e->is_root);
}

void tally_root(struct tally *t, const struct birth *b)
{
	struct entry *e = tally_add_entry(t, b->pid, b->ppid, b->sheet_num, b->rank);

	if (!e)
		return;
	e->is_root = true;
	e->record.command = b->command ? tally_keep_command(t, b->command) : NULL;
	e->record.uid = b->uid;
	tally_note_birth(t, e, b->wall_ns);
}

struct entry *tally_note_parent(struct tally *t, pid_t pid)
{
	struct entry *parent = tally_find_alive(t, pid);

	if (!parent)
		return NULL;
	parent->has_children = true;
	if (parent->ignores_sigchld)
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	return parent;
}

void tally_fork(struct tally *t, const struct birth *b)
{
	struct entry *e = tally_find_alive(t, b->pid);
	struct entry *parent;

	if (e && !e->fork_was_told && !u64_known(e->record.died_wall_ns)) {
		e->fork_was_told = true; /* known already, from the runner or from a sample */
		tally_note_parent(t, b->ppid);
		return;
	}
	e = tally_add_entry(t, b->pid, b->ppid, b->sheet_num, b->rank);
	parent = tally_note_parent(
		t, b->ppid); /* after tally_add_entry(), which may move the entries */
	if (!e)
		return;
	e->fork_was_told = true;
	/* Until it execs, a child runs its parent's program. */
	e->record.command = parent ? parent->record.command : NULL;
	e->record.uid = parent ? parent->record.uid : U64_UNKNOWN;
	e->ignores_sigchld = parent && parent->ignores_sigchld;
	tally_note_birth(t, e, b->wall_ns);
}

void tally_exec(struct tally *t, pid_t pid, const char *command)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e)
		e->n_execs++;
	/* Of the command itself we know what was asked for, even if it is gone already. */
	if (e && (command || !e->is_root))
		e->record.command = command ? tally_keep_command(t, command) : NULL;
}

void tally_name(struct tally *t, pid_t pid, const char *name)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e && !e->record.command)
		e->record.command = tally_keep_command(t, name);
}

void tally_lost(struct tally *t, uint64_t n)
{
	t->n_lost += n;
	if (n > 0)
		t->sees_births = false;
}

/* ---- deaths ---- */

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

	count_death(t);
	e->record.died_wall_ns = wall_ns;
	e->record.status = ev.status;
	tally_add_event(t, &ev, e->is_root);
}

void tally_exit(struct tally *t, pid_t pid, int wait_status, uint64_t wall_ns)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e && !u64_known(e->record.died_wall_ns))
		note_death(t, e, wait_status, wall_ns);
	else
		note_unlisted_death(t, pid);
}

/* Of a process that lived between two samples, and that we did not wait for, there is nothing else.
 */
void tally_account(struct tally *t, pid_t pid, const struct exit_account *account)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e)
		proc_record_account(&e->record, account);
}

/* With that of children that it has waited for, as everywhere. */
static void take_io(struct proc_record *p, const struct proc_sample *zombie)
{
	if (!u64_known(zombie->rchar))
		return;
	p->rchar = zombie->rchar;
	p->wchar = zombie->wchar;
	p->read_bytes = zombie->read_bytes;
	p->write_bytes = zombie->write_bytes;
}

/* Of a process without children, what wait4 told is its own: ru_maxrss is of its whole tree. */
static void finish_leaf(struct entry *e, const struct reaped *reaped)
{
	uint64_t rss = (uint64_t)reaped->usage.ru_maxrss * 1024;

	e->record.user_ns = account_timeval_ns(reaped->usage.ru_utime);
	e->record.system_ns = account_timeval_ns(reaped->usage.ru_stime);
	e->record.cpu_evidence = EVIDENCE_EXACT;
	e->record.major_faults = (uint64_t)reaped->usage.ru_majflt;
	if (account_is_own_peak(reaped)) {
		e->record.max_rss_bytes = u64_max_known(e->record.max_rss_bytes, rss);
		e->record.evidence = EVIDENCE_EXACT;
	} else if (!u64_known(e->record.max_rss_bytes)) {
		e->record.max_rss_bytes = rss;
		e->record.evidence = EVIDENCE_UPPER_BOUND;
	}
}

/* By its account, in nanoseconds, where a zombie tells clock ticks. */
static bool has_account(const struct entry *e)
{
	return e->record.cpu_evidence == EVIDENCE_LOWER_BOUND;
}

static void finish_entry(const struct tally *t, struct entry *e, const struct reaped *reaped,
			 const struct proc_sample *zombie)
{
	take_io(&e->record, zombie);
	if (t->sees_births && !e->has_children) {
		finish_leaf(e, reaped);
	} else if (u64_known(zombie->user_ns) && !has_account(e)) {
		e->record.user_ns = zombie->user_ns;
		e->record.system_ns = zombie->system_ns;
	}
}

static void note_reap_time(struct tally *t, struct account *sheet, uint64_t boot_ns)
{
	t->attempt.last_reap_boot_ns = boot_ns;
	if (sheet)
		sheet->last_reap_boot_ns = boot_ns;
}

uint64_t tally_reap(struct tally *t, const struct reaped *reaped, const struct proc_sample *zombie,
		    uint64_t wall_ns, uint64_t boot_ns)
{
	struct entry *e = tally_find_alive(t, reaped->pid);
	bool was_unlisted = tally_is_unlisted(t, reaped->pid);
	struct account *sheet;

	if (!e && !was_unlisted) /* an orphan that neither events nor samples have shown */
		e = tally_add_entry(t, reaped->pid, zombie->ppid, zombie->sheet_num, RANK_NONE);
	account_add_reaped(&t->attempt, reaped, zombie);
	sheet = tally_try_account(t, e);
	if (sheet)
		account_add_reaped(sheet, reaped, zombie);
	note_reap_time(t, sheet, boot_ns);
	if (zombie->ignores_sigchld > 0 && (!e || e->has_children))
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	t->reaped_cpu_ns += account_timeval_ns(reaped->usage.ru_utime) +
			    account_timeval_ns(reaped->usage.ru_stime);
	note_unlisted_death(t, reaped->pid);
	map_remove(&t->alive, pid_key(reaped->pid));
	if (!e)
		return U64_UNKNOWN;
	/* wait4 knows better about threads that exit one by one. */
	if (u64_known(e->record.died_wall_ns))
		e->record.status = exit_status_from_wait(reaped->wait_status);
	else
		note_death(t, e, reaped->wait_status, wall_ns);
	finish_entry(t, e, reaped, zombie);
	return e->record.died_wall_ns;
}
