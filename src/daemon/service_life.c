#include <errno.h>
#include <string.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/descendants.h"
#include "daemon/process_facts.h"
#include "daemon/service_internal.h"

/*
 * Births and deaths of the jobs' processes, on the bus as they happen. A runner
 * writes down those of its own job, exactly: so here they are told and not
 * stored. Signals and kills are told when they are in the database, whoever has written
 * them down (service_signals.c), and so is everything where the kernel does not tell us.
 */

/* ---- what was told ---- */

/*
 * A birth or a death is told by who hears of it first: the kernel (or a look) tells us, and the
 * runner writes it down. What the one has told is kept until the other tells of it too.
 */
enum teller { BY_US, BY_RUNNER };

#define MAX_TOLD 65536 /* of some the other never tells */

static uint64_t key_of_told(enum teller teller, int64_t attempt_id, const struct proc_event *ev)
{
	const int64_t parts[] = { teller, attempt_id, ev->key.pid, (int64_t)ev->type };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

/* A pid may be used again in the same attempt: they are counted. */
static void note_told(struct service *s, enum teller teller, int64_t attempt_id,
		      const struct proc_event *ev)
{
	uint64_t key = key_of_told(teller, attempt_id, ev), n = 0;

	if (s->life.told.len >= MAX_TOLD)
		map_clear(&s->life.told);
	map_get(&s->life.told, key, &n);
	map_put(&s->life.told, key, n + 1); /* without memory it is told twice */
}

/* True: the other one has told of it. */
static bool take_told(struct service *s, enum teller teller, int64_t attempt_id,
		      const struct proc_event *ev)
{
	uint64_t key = key_of_told(teller, attempt_id, ev), n = 0;

	if (!map_get(&s->life.told, key, &n))
		return false;
	if (n > 1)
		map_put(&s->life.told, key, n - 1); /* it is there: no memory is needed */
	else
		map_remove(&s->life.told, key);
	return true;
}

/* ---- telling ---- */

/* As the last look saw it; NULL: it was not there. */
static const char *command_of(const struct service *s, const struct proc_key *key)
{
	int i = s->has_snap ? assign_find(s->assigner, key->pid) : -1;
	const struct proc_sample *p;

	if (i < 0 || (size_t)i >= s->snap.n_processes)
		return NULL;
	p = &s->snap.processes[i];
	if (p->key.pid != key->pid || p->key.start_ticks != key->start_ticks)
		return NULL;
	return p->command ? p->command : p->comm;
}

/* Whoever runs the job writes it down; of what was attached that is us. */
static void tell(struct service *s, const struct member *member, const struct proc_event *what)
{
	struct watched *job = watch_find_attempt(s->watch, member->attempt_id);
	struct proc_event ev = *what;

	if (!job || member->is_runner)
		return;
	ev.job_id = job->job_id;
	ev.sheet_num = watch_sheet_at(s->watch, job, member->born_wall_ns);
	if (ev.sheet_num == SHEET_NONE)
		ev.sheet_num = member->sheet_num;
	if (job->a.is_attached)
		service_note_attached(s, job, &ev);
	else if (!s->life.life)
		return;
	else if (take_told(s, BY_RUNNER, member->attempt_id, &ev))
		return;
	else
		note_told(s, BY_US, member->attempt_id, &ev);
	if (ev.type == EVENT_EXIT && !ev.details)
		ev.details = command_of(s, &ev.key); /* as it is written down */
	s->life.n_told++;
	service_tell_process(s, &ev, job->a.attempt_num, job->a.uid);
}

static void tell_birth(struct service *s, const struct member *member, uint64_t wall_ns)
{
	const struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = member->key,
		.type = EVENT_SPAWN,
		.status = { -1, -1 },
	};

	tell(s, member, &ev);
}

static void tell_death(struct service *s, const struct member *member, struct exit_status status,
		       uint64_t wall_ns, const char *details)
{
	const struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = member->key,
		.type = EVENT_EXIT,
		.status = status,
		.details = details,
	};

	tell(s, member, &ev);
}

/* ---- the kernel's news ---- */

/* Whose parent nobody knew: where the kernel side follows trees itself, its word counts. */
static const struct member *see_tagged(struct service *s, const struct life_event *ev)
{
	const struct member seen = {
		.key = { ev->pid, ev->start_ticks },
		.attempt_id = (int64_t)ev->tag,
		.born_wall_ns = ev->wall_ns,
		.sheet_num = SHEET_NONE,
	};

	if (ev->tag == 0 || !watch_find_attempt(s->watch, seen.attempt_id))
		return NULL;
	return members_see(s->life.members, &seen) < 0 ? NULL
						       : members_find(s->life.members, ev->pid);
}

static void on_birth(struct service *s, const struct life_event *ev)
{
	const struct member *born =
		members_fork(s->life.members, ev->parent_pid, ev->pid, ev->wall_ns);
	struct member named;

	if (!born)
		born = see_tagged(s, ev);
	if (!born) {
		unowned_note_birth(&s->signals.unowned, ev);
		return;
	}
	named = *born;
	if (service_keep_birth(s, &named))
		members_see(s->life.members, &named);
	tell_birth(s, &named, ev->wall_ns);
}

static void on_death(struct service *s, const struct life_event *ev)
{
	const struct member *member = members_exit(s->life.members, ev->pid);

	service_note_orphan_death(s, ev->pid, ev->start_ticks,
				  exit_status_from_wait(ev->wait_status));
	if (member && s->attached)
		service_note_death(s, member, ev);
	if (member)
		tell_death(s, member, exit_status_from_wait(ev->wait_status), ev->wall_ns, NULL);
}

static void on_life_event(void *ctx, const struct life_event *ev)
{
	static void (*const handlers[])(struct service * s, const struct life_event *ev) = {
		[LIFE_FORK] = on_birth,
		[LIFE_EXIT] = on_death,
		[LIFE_ACCOUNT] = service_complete_death,
		[LIFE_SIGNAL] = service_note_signal,
		[LIFE_OOM] = service_note_signal,
	};
	struct service *s = ctx;

	s->life.n_taken++;
	if ((size_t)ev->type < ARRAY_SIZE(handlers) && handlers[ev->type])
		handlers[ev->type](s, ev);
}

static void stop_life(struct service *s)
{
	s->life.watch = loop_fd_close(s->life.watch);
	s->life.life = life_close(s->life.life);
}

/* Returns how many have come, of at most about max. */
static uint64_t drain(struct service *s, size_t max)
{
	uint64_t before = s->life.n_taken;
	int64_t lost;

	if (!s->life.life)
		return 0;
	lost = life_drain_some(s->life.life, max, on_life_event, s);
	if (lost > 0)
		s->life.n_lost += (uint64_t)lost;
	if (lost >= 0)
		return s->life.n_taken - before;
	log_warning("the kernel's news of births and deaths ended, and the daemon goes on: %s",
		    strerror((int)-lost));
	s->life.n_lost++;
	stop_life(s);
	return 0;
}

void service_drain_life(struct service *s)
{
	drain(s, SIZE_MAX);
}

/*
 * To be woken for each birth of the host costs more than the births are worth: what comes
 * within this time is taken together, unless whoever wakes us has waited already.
 */
#define GATHER_MS 50

/* Each is handed to every subscriber: after so many it is the turn of others. */
#define MAX_PER_TURN 256

void service_tell_signals(struct service *s)
{
	struct err err = ERR_INIT;

	if (s->signals.n > 0 && service_record_signals(s, &err) == 0)
		(void)service_relay_events(s, &err);
}

static void on_life_timer(void *ctx)
{
	struct service *s = ctx;

	size_t n = drain(s, MAX_PER_TURN);

	service_tell_signals(s);
	if (n >= MAX_PER_TURN)
		loop_timer_set(s->life.timer, 1, 0);
	else if (s->life.watch)
		loop_fd_set_interest(s->life.watch, LOOP_READABLE);
}

static void on_life_fd(void *ctx)
{
	struct service *s = ctx;

	if (life_gathers(s->life.life)) {
		on_life_timer(s);
		return;
	}
	loop_fd_set_interest(s->life.watch, 0);
	loop_timer_set(s->life.timer, GATHER_MS, 0);
}

static int begin_life(struct service *s, struct err *err)
{
	const struct life_options options = { .want_ebpf = s->options->config->ebpf_enabled,
					      .why_no_ebpf = SOURCES_EBPF_FORBIDDEN };

	if (life_open_with(&options, &s->life.life, &s->life.why_not) < 0)
		return 0; /* daemon.status says which rung it is instead */
	s->life.watch = loop_watch_fd(s->loop, life_fd(s->life.life), on_life_fd, s);
	if (s->life.watch)
		return 0;
	stop_life(s);
	return err_set(err, -ENOMEM, "no memory left to begin");
}

int service_open_life(struct service *s, struct err *err)
{
	s->life.members = members_new();
	s->life.timer = loop_timer_new(s->loop, on_life_timer, s);
	if (!s->life.members || !s->life.timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	return begin_life(s, err);
}

void service_close_life(struct service *s)
{
	stop_life(s);
	s->life.members = members_free(s->life.members);
	map_release(&s->life.known_since);
	map_release(&s->life.told);
}

/* What the kernel side has marked it has marked with numbers of attempts. */
void service_forget_life(struct service *s)
{
	struct err err = ERR_INIT;
	bool was_open = s->life.life != NULL;

	members_clear(s->life.members);
	map_clear(&s->life.known_since);
	map_clear(&s->life.told);
	s->life.last_event_id = 0;
	s->life.is_relaying = false;
	s->life.relay_from_wall_ns = s->store_seen_wall_ns;
	stop_life(s);
	if (was_open && begin_life(s, &err) < 0)
		log_warning("births and deaths are seen by looking from now on: %s", err.text);
}

/* ---- looks ---- */

static void see_root(struct service *s, const struct watched *job)
{
	const struct member root = {
		.key = job->a.runner,
		.attempt_id = job->a.id,
		.born_wall_ns = U64_UNKNOWN,
		.sheet_num = SHEET_NONE,
		.is_runner = true,
	};

	if (!job->a.is_attached)
		members_see(s->life.members, &root);
}

/* Attempts that are over are still asked for until all that was written of them was read. */
#define MAX_KNOWN 16384

struct tracking {
	struct life *life;
	uint64_t tag;
};

static void track(void *ctx, pid_t pid)
{
	const struct tracking *tracking = ctx;

	(void)life_track(tracking->life, pid, tracking->tag);
}

/* Its runner has started the command by now, and that perhaps others. */
static void track_tree(struct service *s, const struct watched *job)
{
	struct tracking tracking = { s->life.life, (uint64_t)job->a.id };

	if (!s->life.life || life_track(s->life.life, job->a.runner.pid, tracking.tag) < 0)
		return;
	descendants_each(s->root_fd, job->a.runner.pid, track, &tracking);
}

/* What is on its way by now is of before. */
void service_expect_births(struct service *s, const struct watched *job)
{
	service_drain_life(s);
	if (s->life.known_since.len >= MAX_KNOWN)
		map_clear(&s->life.known_since);
	map_put(&s->life.known_since, (uint64_t)job->a.id, clock_wall_ns());
	see_root(s, job);
	track_tree(s, job);
	service_place_signals(s);
}

/* Whether we know of this attempt's births and deaths at that moment ourselves. */
static bool was_known(const struct service *s, int64_t attempt_id, uint64_t wall_ns)
{
	uint64_t since;

	return s->life.life && map_get(&s->life.known_since, (uint64_t)attempt_id, &since) &&
	       u64_known(wall_ns) && wall_ns >= since;
}

/* What was born earlier is told by who wrote it down, unless that is us. */
static bool is_news(const struct service *s, const struct watched *job, const struct proc_sample *p)
{
	return job->a.is_attached || was_known(s, job->a.id, p->start_wall_ns);
}

static int see_process(struct service *s, const struct watched *job, const struct proc_sample *p)
{
	const struct member seen = {
		.key = p->key,
		.attempt_id = job->a.id,
		.born_wall_ns = p->start_wall_ns,
		.sheet_num = p->sheet_num,
	};
	int r;

	if (p->state == 'Z' || p->state == 'X')
		return 0; /* its death was told */
	r = members_see(s->life.members, &seen);
	if (r == 1 && is_news(s, job, p))
		tell_birth(s, &seen, p->start_wall_ns);
	return r;
}

static void on_gone(void *ctx, const struct member *member)
{
	struct service *s = ctx;

	tell_death(s, member, (struct exit_status){ -1, -1 }, s->snap.wall_ns,
		   "nobody told how it ended");
}

int service_settle_life(struct service *s, struct err *err)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	int r = 0;

	if (!s->has_snap)
		return 0;
	members_begin_look(s->life.members);
	for (size_t i = 0; i < n; i++)
		see_root(s, jobs[i]);
	for (size_t i = 0; r >= 0 && i < s->snap.n_processes; i++) {
		int owner = assign_owner(s->assigner, i);

		if (owner >= 0)
			r = see_process(s, jobs[owner], &s->snap.processes[i]);
	}
	service_place_signals(s);
	members_end_look(s->life.members, on_gone, s);
	return r < 0 ? err_set(err, r, "no memory left to follow births and deaths") : 0;
}

/* ---- whose a process is ---- */

static bool is_same(const struct proc_key *known, const struct proc_key *key)
{
	return !u64_known(known->start_ticks) || known->start_ticks == key->start_ticks;
}

/* The job that it belongs to, or that it runs: what it starts belongs to that. */
static struct watched *find_by_key(struct service *s, const struct proc_key *key)
{
	const struct member *member = members_find(s->life.members, key->pid);
	struct watched *job = watch_find_runner(s->watch, key);

	if (!job && member && is_same(&member->key, key))
		job = watch_find_attempt(s->watch, member->attempt_id);
	return job;
}

/* Deeper than any tree of processes that somebody means. */
#define MAX_ANCESTORS 256

struct watched *service_job_of(struct service *s, pid_t pid)
{
	struct process_facts facts = { .ppid = pid };

	service_drain_life(s);
	for (int i = 0; i < MAX_ANCESTORS && facts.ppid > 1; i++) {
		struct watched *job;

		if (process_facts_read(s->root_fd, facts.ppid, &facts) < 0)
			return NULL;
		job = find_by_key(s, &facts.key);
		if (job)
			return job;
	}
	return NULL;
}

/* ---- what runners write down ---- */

void service_forget_ooms(struct service *s)
{
	s->ooms.n = 0;
	arena_reset(&s->ooms.arena);
}

void service_keep_news(struct service *s, const struct proc_event *ev, int64_t attempt_id)
{
	struct proc_event *kept = &s->ooms.items[s->ooms.n];

	if (s->ooms.n == SERVICE_MAX_OOMS)
		return;
	*kept = *ev;
	kept->attempt_id = attempt_id;
	kept->job_id = arena_strdup(&s->ooms.arena, ev->job_id);
	kept->details = arena_strdup(&s->ooms.arena, ev->details);
	if (!kept->job_id || !kept->details)
		return;
	s->ooms.n++;
	if (ev->type == EVENT_OOM)
		service_tell_kills_soon(s);
}

/*
 * Of some births and deaths the kernel has told us in vain: those of a process whose parent was not
 * known to be a job's by then.
 */
static void relay_one(struct service *s, const struct event_row *row)
{
	bool is_life = row->event.type == EVENT_SPAWN || row->event.type == EVENT_EXIT;

	if (row->event.type == EVENT_OOM)
		service_keep_news(s, &row->event, row->attempt_id);
	if (row->is_attached || (is_life && take_told(s, BY_US, row->attempt_id, &row->event)))
		return;
	if (is_life && s->life.life)
		note_told(s, BY_RUNNER, row->attempt_id, &row->event);
	service_tell_process(s, &row->event, row->attempt_num, row->uid);
}

static int relay(void *ctx, const struct event_row *row)
{
	struct service *s = ctx;

	s->life.last_event_id = row->id;
	relay_one(s, row);
	return 0;
}

/* What was written since, relay() tells. */
static int relay_early(void *ctx, const struct event_row *row)
{
	struct service *s = ctx;

	if (row->id <= s->life.last_event_id)
		relay_one(s, row);
	return 0;
}

/*
 * From the moment that the database was opened; where it came in place of another, from when that
 * was last there.
 */
static int begin_relay(struct service *s, struct err *err)
{
	const struct event_filter early = { .since_wall_ns = s->life.relay_from_wall_ns };
	int r = store_follow_events(s->store, NULL, &s->life.last_event_id, NULL, s, err);

	if (r == 0 && early.since_wall_ns)
		r = store_read_events(s->store, &early, relay_early, s, err);
	if (r == 0)
		s->life.relay_from_wall_ns = 0;
	s->life.is_relaying = r == 0;
	return r;
}

int service_relay_events(struct service *s, struct err *err)
{
	int r;

	if (!s->store)
		return 0;
	service_drain_life(s); /* the kernel's news is older than what runners write of it */
	r = service_record_signals(s, err);
	if (r < 0)
		return r;
	if (!s->life.is_relaying)
		return begin_relay(s, err);
	return store_follow_events(s->store, NULL, &s->life.last_event_id, relay, s, err);
}
