#include <errno.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/unknown.h"
#include "daemon/follow/descendants.h"
#include "recorder/recorder.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/*
 * Which processes are a job's, as the looks at the host and the trees of its runners show it: who
 * is new or gone is told, if the kernel has not done so.
 */

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

struct tracking {
	struct service *service;
	const struct watched *job;
	uint64_t runner_mark; /* until now */
};

/* A runner of our own user hears of ends itself. */
static bool is_others(const struct watched *job)
{
	return job->a.uid != geteuid();
}

/* A zombie's death was told. */
static void see_guests(const struct tracking *tracking, const struct process_facts *facts)
{
	const struct member seen = {
		.key = facts->key,
		.attempt_id = tracking->job->a.id,
		.born_wall_ns = U64_UNKNOWN,
		.sheet_num = SHEET_NONE,
	};

	if (is_others(tracking->job) && facts->state != 'Z' && facts->state != 'X')
		(void)members_see(tracking->service->life.members, &seen);
}

/* Where the kernel side does not follow trees itself: who is there before the next look starts
 * others, and ends. */
static void follow(void *ctx, pid_t pid)
{
	const struct tracking *tracking = ctx;
	struct service *s = tracking->service;
	struct process_facts facts;

	if (process_facts_read(s->root_fd, pid, &facts) < 0)
		return;
	if (facts.is_pure)
		life_follow_owner(s->life.life, pid, facts.uid);
	if (pid != tracking->job->a.runner.pid)
		see_guests(tracking, &facts);
}

static void track(void *ctx, pid_t pid)
{
	const struct tracking *tracking = ctx;
	const struct attempt *a = &tracking->job->a;
	struct life *life = tracking->service->life.life;

	if (!service_is_inside(tracking->service, life_tag_of(life, pid), &a->runner,
			       tracking->runner_mark))
		(void)life_track(life, pid, (uint64_t)a->id);
}

/* Its runner has started the command by now, and that perhaps others. */
static void track_tree(struct service *s, const struct watched *job)
{
	struct tracking tracking = { s, job, 0 };

	if (!s->life.life)
		return;
	tracking.runner_mark = life_tag_of(s->life.life, job->a.runner.pid);
	if (life_track(s->life.life, job->a.runner.pid, (uint64_t)job->a.id) == 0) {
		descendants_each(s->root_fd, job->a.runner.pid, track, &tracking);
	} else if (is_others(job) || job->a.is_attached) {
		follow(&tracking, job->a.runner.pid);
		descendants_each(s->root_fd, job->a.runner.pid, follow, &tracking);
	}
}

/* What is on its way by now is of before. */
void service_expect_births(struct service *s, const struct watched *job)
{
	service_drain_life(s);
	see_root(s, job);
	track_tree(s, job);
	service_place_signals(s);
}

static int see_process(struct service *s, const struct watched *job, const struct proc_sample *p)
{
	const struct member seen = {
		.key = p->key,
		.attempt_id = job->a.id,
		.born_wall_ns = p->start_wall_ns,
		.sheet_num = p->sheet_num,
		.is_told = true,
	};
	int r;

	if (p->state == 'Z' || p->state == 'X')
		return 0; /* its death was told */
	r = members_see(s->life.members, &seen);
	if (r == 1)
		service_tell_birth(s, &seen, p->start_wall_ns);
	return r;
}

static void on_gone(void *ctx, const struct member *member)
{
	struct service *s = ctx;

	service_tell_death(s, member, (struct exit_status){ -1, -1 }, s->scan.snap.wall_ns,
			   "nobody told how it ended");
}

int service_settle_life(struct service *s, struct err *err)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	int r = 0;

	if (!s->scan.has_snap)
		return 0;
	members_begin_look(s->life.members);
	for (size_t i = 0; i < n; i++)
		see_root(s, jobs[i]);
	for (size_t i = 0; r >= 0 && i < s->scan.snap.n_processes; i++) {
		int owner = membership_owner(s->scan.membership, i);

		if (owner >= 0)
			r = see_process(s, jobs[owner], &s->scan.snap.processes[i]);
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
