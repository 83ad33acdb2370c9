#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/*
 * Whose each process is: as looks at the host and the trees of runners show it, and by the kernel's
 * reports, which go from here to the parts that want them. Starts and exits of attached trees are
 * published and recorded here; a runner records its own, and gets the kernel's facts by its stream.
 */

/* ---- starts and exits of attached trees ---- */

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

/* status { -1, -1 }: unknown; details NULL: what the last look saw, or comm, the kernel's name. */
static void tell(struct service *s, const struct job_member *member, enum event_type type,
		 uint64_t wall_ns, struct exit_status status, const char *details, const char *comm)
{
	struct watched *job = watch_find_attempt(s->watch, member->attempt_id);
	struct proc_event ev = { .wall_ns = wall_ns,
				 .key = member->key,
				 .type = type,
				 .status = status,
				 .details = details };

	if (!job || !job->a.is_attached)
		return;
	ev.job_id = job->job_id;
	ev.sheet_num = watch_sheet_at(s->watch, job, member->born_wall_ns);
	service_note_attached(s, job, &ev);
	if (ev.type == EVENT_EXIT && !ev.details)
		ev.details = command_of(s, &ev.key); /* as it is written down */
	if (ev.type == EVENT_EXIT && !ev.details)
		ev.details = comm;
	s->life.n_told++;
	service_tell_process(s, &ev, job->a.attempt_num, job->a.uid);
}

static const struct exit_status no_status = { -1, -1 };

/* ---- the kernel's reports ---- */

static void on_birth(struct service *s, const struct life_event *ev)
{
	struct membership *m = s->scan.membership;
	struct proc_key key = { ev->pid, ev->start_ticks };
	const struct job_member *born;
	bool is_new;

	/* The record tells processes apart by it. */
	if (!u64_known(key.start_ticks) &&
	    attached_find(s, membership_attempt_of(m, ev->parent_pid)))
		(void)proc_start_ticks(key.pid, &key.start_ticks);
	born = membership_start(m, ev->parent_pid, &key, ev->wall_ns, &is_new);
	if (!born) { /* where the kernel side follows trees itself, its word counts */
		const struct job_member seen = {
			.key = key,
			.attempt_id = service_attempt_of_mark(s, ev->tag),
			.born_wall_ns = ev->wall_ns,
			.sheet_num = SHEET_NONE,
			.rank = RANK_NONE,
			.is_told = true,
		};

		is_new = seen.attempt_id != 0 && watch_find_attempt(s->watch, seen.attempt_id) &&
			 membership_add(m, &seen) == 0;
		born = is_new ? membership_find(m, ev->pid) : NULL;
	}
	if (!born)
		unowned_note_birth(&s->signals.unowned, ev);
	else
		s->signals.has_new_owners = true;
	if (is_new)
		tell(s, born, EVENT_SPAWN, ev->wall_ns, no_status, NULL, NULL);
}

static void on_death(struct service *s, const struct life_event *ev)
{
	const struct job_member *member = membership_find(s->scan.membership, ev->pid);

	service_note_orphan_death(s, ev);
	service_note_job_death(s, member, ev);
	if (!member)
		return;
	service_note_exit(s, &member->key, ev->wall_ns);
	service_note_death(s, member, ev);
	tell(s, member, EVENT_EXIT, ev->wall_ns, exit_status_from_wait(ev->wait_status), NULL,
	     ev->comm);
	(void)membership_exit(s->scan.membership, ev->pid, ev->parent_pid);
}

static void on_life_event(struct service *s, const struct life_event *ev)
{
	switch (ev->type) {
	case LIFE_FORK:
		on_birth(s, ev);
		break;
	case LIFE_EXIT:
		on_death(s, ev);
		break;
	case LIFE_ACCOUNT:
		service_complete_death(s, ev);
		service_complete_job_death(s, ev);
		break;
	case LIFE_SIGNAL:
	case LIFE_OOM:
		service_note_signal(s, ev);
		break;
	default:
		break;
	}
}

static void on_drained(struct service *s)
{
	if (s->signals.has_new_owners)
		service_place_signals(s);
	service_send_facts(s);
}

static void on_missing(void *ctx, const struct job_member *member)
{
	struct service *s = ctx;

	tell(s, member, EVENT_EXIT, s->scan.snap.wall_ns, no_status, "nobody told how it ended",
	     NULL);
}

const struct life_ops service_life_ops = { on_life_event, on_drained, on_missing };

/* ---- looks ---- */

struct tracking {
	struct service *service;
	const struct watched *job;
	uint64_t runner_mark; /* until now */
};

/* Where the kernel side does not follow trees itself: who is there before the next look starts
 * others, and ends. A runner of our own user hears of ends itself; a zombie's end was reported. */
static void follow(void *ctx, pid_t pid)
{
	const struct tracking *tracking = ctx;
	struct service *s = tracking->service;
	const struct attempt *a = &tracking->job->a;
	struct process_facts facts;
	struct job_member seen = { .attempt_id = a->id,
				   .born_wall_ns = U64_UNKNOWN,
				   .sheet_num = SHEET_NONE,
				   .rank = RANK_NONE };

	if (process_facts_read(s->root_fd, pid, &facts) < 0)
		return;
	if (facts.is_pure)
		life_follow_owner(s->life.life, pid, facts.uid);
	seen.key = facts.key;
	if (pid != a->runner.pid && a->uid != geteuid() && facts.state != 'Z' && facts.state != 'X')
		(void)membership_add(s->scan.membership, &seen);
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

/* What is on its way by now is of before. Its runner has started the command, and that perhaps
 * others. */
void service_expect_births(struct service *s, const struct watched *job)
{
	const struct proc_key *runner = &job->a.runner;
	const struct membership_job tracked = service_membership_of(job);
	struct tracking tracking = { s, job, 0 };

	service_drain_life(s);
	(void)membership_add_job(s->scan.membership, &tracked);
	if (!s->life.life)
		return;
	tracking.runner_mark = life_tag_of(s->life.life, runner->pid);
	if (life_track(s->life.life, runner->pid, (uint64_t)job->a.id) == 0) {
		descendants_each(s->root_fd, runner->pid, track, &tracking);
	} else if (job->a.uid != geteuid() || job->a.is_attached) {
		follow(&tracking, runner->pid);
		descendants_each(s->root_fd, runner->pid, follow, &tracking);
	}
	service_place_signals(s);
}

static void on_untold(void *ctx, const struct job_member *member)
{
	tell(ctx, member, EVENT_SPAWN, member->born_wall_ns, no_status, NULL, NULL);
}

int service_settle_life(struct service *s, struct err *err)
{
	(void)err;
	if (!s->scan.has_snap)
		return 0;
	membership_each(s->scan.membership, MEMBERSHIP_UNTOLD, 0, on_untold, s);
	service_place_signals(s);
	return 0;
}

/* ---- whose a process is ---- */

/* Deeper than any tree of processes that somebody means. */
#define MAX_ANCESTORS 256

struct watched *service_job_of(struct service *s, pid_t pid)
{
	struct process_facts facts = { .ppid = pid };

	service_drain_life(s);
	for (int i = 0; i < MAX_ANCESTORS && facts.ppid > 1; i++) {
		const struct job_member *member;
		struct watched *job;

		if (process_facts_read(s->root_fd, facts.ppid, &facts) < 0)
			return NULL;
		/* What a runner starts belongs to its job. */
		job = watch_find_runner(s->watch, &facts.key);
		member = membership_find(s->scan.membership, facts.key.pid);
		if (!job && member &&
		    (!u64_known(member->key.start_ticks) ||
		     member->key.start_ticks == facts.key.start_ticks))
			job = watch_find_attempt(s->watch, member->attempt_id);
		if (job)
			return job;
	}
	return NULL;
}

/* ---- descendants ---- */

/* More than any job that somebody means; the rest is found at the next look. */
#define MAX_PIDS 65536
#define MAX_LIST_BYTES (1 << 20)

struct found {
	pid_t *items;
	size_t n, cap;
};

/* Each thread has its own. */
static void add_children(struct found *f, int root_fd, pid_t pid)
{
	struct dirent *entry;
	char path[300];
	DIR *threads;
	int fd;

	snprintf(path, sizeof(path), "proc/%d/task", (int)pid);
	fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	threads = fd < 0 ? NULL : fdopendir(fd);
	if (!threads) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(threads))) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		const char *at;
		uint64_t child;

		snprintf(path, sizeof(path), "%s/children", entry->d_name);
		if (entry->d_name[0] == '.' || io_read_at(fd, path, MAX_LIST_BYTES, &text) < 0)
			continue;
		at = text.len > 0 ? text.data : ""; /* "12 34 " */
		while (num_scan_u64(&at, &child) == 0 && child > 1 && child <= INT32_MAX) {
			if (f->n == MAX_PIDS || ARRAY_RESERVE(f->items, f->cap, f->n + 1) < 0)
				break;
			f->items[f->n++] = (pid_t)child;
			if (*at++ != ' ')
				break;
		}
	}
	closedir(threads);
}

void descendants_each(int root_fd, pid_t pid, descendants_fn *fn, void *ctx)
{
	struct found found = { 0 };

	add_children(&found, root_fd, pid);
	for (size_t i = 0; i < found.n; i++) {
		fn(ctx, found.items[i]);
		add_children(&found, root_fd, found.items[i]);
	}
	free(found.items);
}
