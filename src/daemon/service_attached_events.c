#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/may_see.h"
#include "daemon/service_attached.h"
#include "daemon/service_follow.h"

#define MAX_PENDING 16384      /* events that wait for the next tick */
#define USER_MAX_PENDING 32768 /* of all jobs of one user who is not ours */

/* What all that one user has attached takes. */
struct taken {
	size_t n_deaths, n_pending;
};

static struct taken count_taken(const struct service *s, uint64_t uid)
{
	struct taken taken = { 0 };

	if (uid == geteuid())
		return taken;
	for (const struct attached *at = s->attached; at; at = at->next) {
		taken.n_deaths += at->uid == uid ? at->deaths.n : 0;
		taken.n_pending += at->uid == uid ? at->n_pending : 0;
	}
	return taken;
}

static bool make_room(struct attached *at)
{
	size_t cap = at->cap_pending ? at->cap_pending * 2 : 64;
	struct proc_event *grown;

	if (count_taken(at->service, at->uid).n_pending >= USER_MAX_PENDING)
		return false;
	if (at->n_pending < at->cap_pending)
		return true;
	grown = cap <= MAX_PENDING ? reallocarray(at->pending, cap, sizeof(*grown)) : NULL;
	if (!grown)
		return false;
	at->pending = grown;
	at->cap_pending = cap;
	return true;
}

void service_note_attached(struct service *s, const struct watched *job,
			   const struct proc_event *ev)
{
	struct attached *at = attached_find(s, job->a.id);

	if (!at)
		return;
	if (ev->type == EVENT_EXIT && ev->key.pid == at->root.pid &&
	    exit_status_to_shell(ev->status) >= 0)
		at->status = ev->status;
	if (ev->type == EVENT_EXIT)
		at->last_death_wall_ns = ev->wall_ns;
	if (!make_room(at)) {
		at->n_unlisted++;
		return;
	}
	at->pending[at->n_pending] = *ev;
	at->pending[at->n_pending++].job_id = job->job_id;
}

void service_note_death(struct service *s, const struct member *member, const struct life_event *ev)
{
	struct attached *at = attached_find(s, member->attempt_id);

	if (!at || member->is_runner)
		return;
	if (!may_see(at->uid, ev->uid, -1, 0))
		at->n_withheld++;
	else if (count_taken(s, at->uid).n_deaths < DEATHS_USER_MAX)
		deaths_note(&at->deaths, member, ev);
	else
		deaths_leave_out(&at->deaths);
}

void service_complete_death(struct service *s, const struct life_event *ev)
{
	for (struct attached *at = s->attached; at; at = at->next)
		deaths_complete(&at->deaths, ev);
}

int service_gather_events(struct service *s, struct proc_event **ret, size_t *ret_n)
{
	struct proc_event *all = NULL;
	size_t n = 0;

	for (struct attached *at = s->attached; at; at = at->next)
		n += at->n_pending;
	if (n > 0)
		all = reallocarray(NULL, n, sizeof(*all));
	if (n > 0 && !all)
		return -ENOMEM;
	n = 0;
	for (struct attached *at = s->attached; at; at = at->next) {
		if (at->n_pending > 0)
			memcpy(all + n, at->pending, at->n_pending * sizeof(*all));
		n += at->n_gathered = at->n_pending;
	}
	*ret = all;
	*ret_n = n;
	return 0;
}

void service_events_stored(struct service *s)
{
	for (struct attached *at = s->attached; at; at = at->next) {
		if (at->n_gathered == 0)
			continue;
		memmove(at->pending, at->pending + at->n_gathered,
			(at->n_pending - at->n_gathered) * sizeof(*at->pending));
		at->n_pending -= at->n_gathered;
		at->n_gathered = 0;
	}
}

/* There is no further tick that would. */
void service_store_last_events(struct service *s)
{
	for (struct attached *at = s->attached; at; at = at->next) {
		const struct watched *job = watch_find_attempt(s->watch, at->attempt_id);
		struct err err = ERR_INIT;

		if (at->n_pending == 0 || !job)
			continue;
		if (store_write_events(s->store, &job->a, at->pending, at->n_pending, &err) < 0)
			log_warning("the last %zu events of job %s are not recorded: %s",
				    at->n_pending, job->job_id, err.text);
	}
}
