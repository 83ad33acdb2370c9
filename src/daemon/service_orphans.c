#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alive.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"

/* ---- when a job ends ---- */

struct ending {
	struct service *service;
	const struct watched *job;
};

static void suspect(void *ctx, const struct member *member)
{
	const struct ending *ending = ctx;
	const struct watched *job = ending->job;
	struct orphan orphan = {
		.key = member->key,
		.attempt_id = job->a.id,
		.uid = job->a.uid,
		.attempt_num = job->a.attempt_num,
		.sheet_num =
			watch_sheet_at(ending->service->watch, ending->job, member->born_wall_ns),
		.job_id = job->job_id,
	};

	if (!u64_known(orphan.key.start_ticks) &&
	    proc_start_ticks(orphan.key.pid, &orphan.key.start_ticks) < 0)
		return; /* gone */
	if (orphans_suspect(ending->service->orphans, &orphan) < 0)
		ending->service->n_orphans_unlisted++;
}

void service_leave_job(struct service *s, const struct watched *job)
{
	struct ending ending = { s, job };

	service_drain_life(s);
	members_each(s->life.members, job->a.id, suspect, &ending);
	assigner_forget_job(s->assigner, job->job_id);
}

/* ---- at each tick ---- */

static void on_found(void *ctx, const struct orphan *orphan, const struct proc_sample *p)
{
	struct service *s = ctx;
	const struct attempt a = { .id = orphan->attempt_id };
	const struct proc_event ev = {
		.wall_ns = s->snap.wall_ns,
		.key = p->key,
		.type = EVENT_ORPHAN,
		.status = { -1, -1 },
		.job_id = orphan->job_id,
		.sheet_num = orphan->sheet_num,
		.details = "lives on after the end of its job",
	};
	struct err err = ERR_INIT;

	s->n_orphans_found++;
	service_tell_process(s, &ev, orphan->attempt_num, orphan->uid);
	if (s->store && store_write_events(s->store, &a, &ev, 1, &err) < 0)
		log_warning("pid %d lives on after its job %s, which is not recorded: %s",
			    (int)p->key.pid, orphan->job_id, err.text);
}

/* Helpers that were started and not waited for. Nothing else is a child of the daemon. */
static void reap(struct service *s)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		s->n_reaped++;
}

int service_look_for_orphans(struct service *s, struct err *err)
{
	reap(s);
	if (!s->has_snap)
		return 0;
	if (orphans_look(s->orphans, &s->snap, on_found, s) < 0)
		return err_set(err, -ENOMEM, "no memory left to follow orphans");
	return 0;
}

void service_write_orphans(struct json *j, const struct service *s)
{
	json_key_u64(j, "orphans", orphans_count(s->orphans));
	json_key_u64(j, "orphans_found", s->n_orphans_found);
	json_key_u64(j, "orphans_not_followed", s->n_orphans_unlisted);
	json_key_u64(j, "zombies",
		     s->has_snap ? snapshot_count_zombies(&s->snap, SNAPSHOT_ALL) : U64_UNKNOWN);
	json_key_u64(j, "children_reaped", s->n_reaped);
}
