#include "daemon/service_internal.h"

/*
 * Of a process that is too young for the record to know its sheet, and that has no ancestor with
 * one. A job's processes may say what they like there, as of their ranks; but it is one of the
 * sheets that there are, and none that is over.
 */
static int ask_sheet(const struct service *s, const struct watched *job,
		     const struct proc_sample *p)
{
	int last = job->a.n_sheets ? job->a.sheets[job->a.n_sheets - 1].num : 1;
	int num = sources_read_sheet(s->root_fd, p->key.pid, job->job_id);

	return num >= last && num <= job->a.total_sheets ? num : SHEET_NONE;
}

void service_ask_sheets(struct service *s, struct watched *const *jobs)
{
	size_t n_found = 0;

	for (size_t k = 0; k < s->snap.n_processes; k++) {
		struct proc_sample *p = &s->snap.processes[k];
		int owner = membership_owner(s->membership, k);

		if (owner < 0 || p->sheet_num != SHEET_NONE || jobs[owner]->a.is_attached)
			continue;
		p->sheet_num = ask_sheet(s, jobs[owner], p);
		n_found += p->sheet_num != SHEET_NONE;
	}
	if (n_found > 0)
		membership_inherit_sheets(s->membership, &s->snap);
}
