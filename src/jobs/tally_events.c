#include <signal.h>
#include <stdlib.h>

#include "base/unknown.h"
#include "jobs/tally_internal.h"

static bool is_notable(const struct proc_event *ev, bool is_root)
{
	if (ev->type == EVENT_SPAWN)
		return is_root;
	return is_root || ev->type != EVENT_EXIT || ev->status.exit_code != 0;
}

/* A flood of births must not keep out the one event that tells why the job ended. */
static bool has_room(struct tally *t, const struct proc_event *ev, bool is_root)
{
	if (t->n_events - t->n_notable < TALLY_MAX_EVENTS)
		return true;
	if (!is_notable(ev, is_root) || t->n_notable >= TALLY_MAX_NOTABLE_EVENTS)
		return false;
	t->n_notable++;
	return true;
}

static bool grow_events(struct tally *t)
{
	size_t cap = t->cap_events ? t->cap_events * 2 : 64;
	struct proc_event *grown;

	if (t->n_events < t->cap_events)
		return true;
	grown = reallocarray(t->events, cap, sizeof(*grown));
	if (!grown)
		return false;
	t->events = grown;
	t->cap_events = cap;
	return true;
}

void tally_add_event(struct tally *t, const struct proc_event *ev, bool is_root)
{
	if (!has_room(t, ev, is_root) || !grow_events(t)) {
		t->n_events_unlisted++;
		return;
	}
	t->events[t->n_events] = *ev;
	t->events[t->n_events++].job_id = t->job_id;
}

const struct proc_event *tally_events(const struct tally *t, size_t *ret_n)
{
	*ret_n = t->n_events;
	return t->events;
}

const struct proc_event *tally_pending_events(const struct tally *t, size_t *ret_n)
{
	*ret_n = t->n_events - t->n_stored;
	return t->events ? t->events + t->n_stored : NULL;
}

void tally_events_stored(struct tally *t)
{
	t->n_stored = t->n_events;
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

	tally_add_event(t, &ev, false);
}

/* The last that had this pid: it may have been waited for by now. */
static const struct entry *find_last(const struct tally *t, pid_t pid)
{
	for (size_t i = t->n; i > 0; i--)
		if (t->entries[i - 1].record.key.pid == pid)
			return &t->entries[i - 1];
	return NULL;
}

/* A shell whose command was killed tells that by its exit code. NULL: of none it is known. */
static const struct entry *find_killed(const struct tally *t)
{
	const struct entry *killed = NULL;

	for (size_t i = 0; i < t->n; i++) {
		const struct entry *e = &t->entries[i];

		if (e->serial == t->serial && e->record.status.signal == SIGKILL &&
		    (!killed || e->record.died_wall_ns >= killed->record.died_wall_ns))
			killed = e;
	}
	return killed;
}

static struct proc_key find_victim(const struct tally *t, pid_t pid)
{
	const struct entry *e = find_last(t, pid), *killed = NULL;

	if (e && e->record.status.exit_code >= 0)
		killed = find_killed(t);
	if (killed)
		return killed->record.key;
	return (struct proc_key){ pid, e ? e->record.key.start_ticks : U64_UNKNOWN };
}

void tally_orphan(struct tally *t, const struct proc_key *key, uint64_t wall_ns)
{
	const struct entry *e = find_last(t, key->pid);
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = *key,
		.type = EVENT_ORPHAN,
		.status = { -1, -1 },
		.sheet_num = e ? e->record.sheet_num : SHEET_NONE,
		.details = EVENT_ORPHAN_WORDS,
	};

	tally_add_event(t, &ev, false);
}

void tally_oom(struct tally *t, pid_t pid, int sheet_num, const char *details, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = find_victim(t, pid),
		.type = EVENT_OOM,
		.status = { -1, SIGKILL },
		.sheet_num = sheet_num,
		.details = arena_strdup(&t->arena, details),
	};

	tally_add_event(t, &ev, false);
}

static bool has_oom(const struct tally *t, pid_t pid)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (t->events[i].type == EVENT_OOM && t->events[i].key.pid == pid)
			return true;
	return false;
}

void tally_told_signal(struct tally *t, const struct proc_event *told)
{
	struct proc_event ev = *told;

	if (ev.type == EVENT_OOM && has_oom(t, ev.key.pid))
		return;
	ev.details = arena_strdup(&t->arena, told->details);
	tally_add_event(t, &ev, false);
}
