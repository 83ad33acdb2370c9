#include "base/unknown.h"
#include "daemon/may_hear.h"
#include "daemon/service_follow.h"

/*
 * What a program with rights that its user lacks reads, writes and calls in that user's job: the
 * kernel keeps it from the user, who is shown the samples of the job.
 */

static bool is_of_root(const struct service *s, size_t n_jobs)
{
	size_t i = 0;

	while (i < n_jobs && s->root_uids[i] == 0)
		i++;
	return i == n_jobs;
}

/* One that has ended has files of root's, whoever it was; without eBPF that is all to go by. */
static uint64_t find_owner(const struct service *s, uint64_t uid, const struct proc_sample *p)
{
	if (u64_known(p->owner))
		return p->owner;
	if (p->state == 'Z')
		return p->uid;
	return may_hear_of(s->root_fd, uid, p->key.pid) ? uid : 0;
}

static void withhold_io(struct proc_sample *p)
{
	p->rchar = p->wchar = p->syscr = p->syscw = U64_UNKNOWN;
	p->read_bytes = p->write_bytes = U64_UNKNOWN;
}

void service_withhold_io(struct service *s, size_t n_jobs)
{
	if (is_of_root(s, n_jobs)) /* or all samples of the host are looked at */
		return;
	for (size_t i = 0; i < s->snap.n_processes; i++) {
		struct proc_sample *p = &s->snap.processes[i];
		int job = membership_owner(s->membership, i);
		uint64_t uid = job >= 0 ? s->root_uids[job] : 0;

		if (uid == 0)
			continue;
		p->owner = find_owner(s, uid, p);
		if (!may_hear(uid, p->owner))
			withhold_io(p);
	}
}
