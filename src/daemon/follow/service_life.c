#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/*
 * Starts and exits of the jobs' processes, as the kernel reports them. Those of attached trees are
 * published and recorded here. A runner records its own and hears more of them by its stream; what
 * it has recorded is published by service_records.c.
 */

/* ---- telling ---- */

/* As the last look saw it; NULL: it was not there. */
static const char *command_of(const struct service *s, const struct proc_key *key)
{
	int i = s->scan.has_snap ? membership_index(s->scan.membership, key->pid) : -1;
	const struct proc_sample *p;

	if (i < 0 || (size_t)i >= s->scan.snap.n_processes)
		return NULL;
	p = &s->scan.snap.processes[i];
	if (p->key.pid != key->pid || p->key.start_ticks != key->start_ticks)
		return NULL;
	return p->command ? p->command : p->comm;
}

/* Of attached trees alone. comm: the kernel's name, for one that no look has seen; NULL or "": it
 * has none. */
static void tell(struct service *s, const struct member *member, const struct proc_event *what,
		 const char *comm)
{
	struct watched *job = watch_find_attempt(s->watch, member->attempt_id);
	struct proc_event ev = *what;

	if (!job || !job->a.is_attached || member->is_runner)
		return;
	ev.job_id = job->job_id;
	ev.sheet_num = watch_sheet_at(s->watch, job, member->born_wall_ns);
	if (ev.sheet_num == SHEET_NONE)
		ev.sheet_num = member->sheet_num;
	service_note_attached(s, job, &ev);
	if (ev.type == EVENT_EXIT && !ev.details)
		ev.details = command_of(s, &ev.key); /* as it is written down */
	if (ev.type == EVENT_EXIT && !ev.details)
		ev.details = comm;
	s->life.n_told++;
	service_tell_process(s, &ev, job->a.attempt_num, job->a.uid);
}

void service_tell_birth(struct service *s, const struct member *member, uint64_t wall_ns)
{
	const struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = member->key,
		.type = EVENT_SPAWN,
		.status = { -1, -1 },
	};

	tell(s, member, &ev, NULL);
}

void service_tell_death(struct service *s, const struct member *member, struct exit_status status,
			uint64_t wall_ns, const char *details)
{
	const struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = member->key,
		.type = EVENT_EXIT,
		.status = status,
		.details = details,
	};

	tell(s, member, &ev, NULL);
}

static void tell_news_of_death(struct service *s, const struct member *member,
			       const struct life_event *news)
{
	const struct proc_event ev = {
		.wall_ns = news->wall_ns,
		.key = member->key,
		.type = EVENT_EXIT,
		.status = exit_status_from_wait(news->wait_status),
	};

	tell(s, member, &ev, news->comm);
}

/* ---- the kernel's news ---- */

/* Whose parent nobody knew: where the kernel side follows trees itself, its word counts. */
static const struct member *see_tagged(struct service *s, const struct life_event *ev)
{
	const struct member seen = {
		.key = { ev->pid, ev->start_ticks },
		.attempt_id = service_attempt_of_mark(s, ev->tag),
		.born_wall_ns = ev->wall_ns,
		.sheet_num = SHEET_NONE,
	};

	if (seen.attempt_id == 0 || !watch_find_attempt(s->watch, seen.attempt_id))
		return NULL;
	return members_see(s->life.members, &seen) < 0 ? NULL
						       : members_find(s->life.members, ev->pid);
}

static void on_birth(struct service *s, const struct life_event *ev)
{
	const struct proc_key key = { ev->pid, ev->start_ticks };
	const struct member *born =
		members_fork(s->life.members, ev->parent_pid, &key, ev->wall_ns);
	struct member named;

	if (!born)
		born = see_tagged(s, ev);
	if (!born) {
		unowned_note_birth(&s->signals.unowned, ev);
		return;
	}
	if (born->is_told)
		return; /* a look has shown it before the news came */
	named = *born;
	named.is_told = true;
	(void)service_keep_birth(s, &named);
	members_see(s->life.members, &named);
	service_tell_birth(s, &named, ev->wall_ns);
}

static void on_death(struct service *s, const struct life_event *ev)
{
	const struct member *member = members_exit(s->life.members, ev->pid);

	service_note_orphan_death(s, ev);
	service_note_job_death(s, member, ev);
	if (!member)
		return;
	service_note_exit(s, &member->key, ev->wall_ns);
	service_note_death(s, member, ev);
	tell_news_of_death(s, member, ev);
}

static void on_account(struct service *s, const struct life_event *ev)
{
	service_complete_death(s, ev);
	service_complete_job_death(s, ev);
}

static void on_life_event(void *ctx, const struct life_event *ev)
{
	static void (*const handlers[])(struct service * s, const struct life_event *ev) = {
		[LIFE_FORK] = on_birth,		  [LIFE_EXIT] = on_death,
		[LIFE_ACCOUNT] = on_account,	  [LIFE_SIGNAL] = service_note_signal,
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
	service_send_facts(s);
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

/* To be woken for each birth of the host costs more than the births are worth: what comes
 * within this time is taken together. */
#define GATHER_MS 50

/* Each is handed to every subscriber: after so many it is the turn of others. */
#define MAX_PER_TURN 256

static void on_life_timer(void *ctx)
{
	struct service *s = ctx;

	size_t n = drain(s, MAX_PER_TURN);

	if (n >= MAX_PER_TURN)
		loop_timer_set(s->life.timer, 1, 0);
	else if (s->life.watch)
		loop_fd_set_interest(s->life.watch, LOOP_READABLE);
}

static void on_life_fd(void *ctx)
{
	struct service *s = ctx;

	loop_fd_set_interest(s->life.watch, 0);
	loop_timer_set(s->life.timer, GATHER_MS, 0);
}

int service_open_life(struct service *s, struct err *err)
{
	const struct life_options options = { .want_ebpf =
						      s->settings.options->config->ebpf_enabled,
					      .why_no_ebpf = SOURCES_EBPF_FORBIDDEN };

	s->life.members = members_new();
	s->life.timer = loop_timer_new(s->loop, on_life_timer, s);
	if (!s->life.members || !s->life.timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	if (life_open_with(&options, &s->life.life, &s->life.why_not) < 0)
		return 0; /* daemon.status says which rung it is instead */
	s->life.watch = loop_watch_fd(s->loop, life_fd(s->life.life), on_life_fd, s);
	if (s->life.watch)
		return 0;
	stop_life(s);
	return err_set(err, -ENOMEM, "no memory left to begin");
}

void service_close_life(struct service *s)
{
	service_forget_streams(s);
	stop_life(s);
	s->life.members = members_free(s->life.members);
}
