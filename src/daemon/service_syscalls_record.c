#include <stdlib.h>

#include "base/macros.h"
#include "daemon/own.h"
#include "daemon/service_syscalls.h"
#include "daemon/service_follow.h"

/*
 * What the processes of a job have called goes into our database when it is over.
 */

/* So many are over and wait for the database. */
#define MAX_WAITING_JOBS 1000

/* As the store takes them: only whose they are counts. NULL and 0: no memory, or none. */
static struct proc_record *list_processes(const struct process_calls *calls, size_t *ret_n)
{
	struct proc_record *list = calls->n ? calloc(calls->n, sizeof(*list)) : NULL;

	*ret_n = list ? calls->n : 0;
	for (size_t i = 0; i < *ret_n; i++) {
		list[i].key = calls->items[i].key;
		list[i].syscalls = calls->items[i].text;
	}
	return list;
}

static int store_job(struct store *store, struct job_calls *job, struct err *err)
{
	const struct call_sums *sums = &job->calls.sums;
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct attempt a = { .id = job->attempt_id };
	int r;

	call_sums_settle(&job->calls.sums);
	told_calls_say_missing(&job->calls, &why);
	told_calls_say_error(&job->calls, &why);
	a.processes = list_processes(&job->calls.processes, &a.n_processes);
	r = store_add_syscalls(store, &a, sums->uses, sums->n, why.len > 0 ? why.data : NULL, err);
	free(a.processes);
	return r;
}

/* While nothing can be written it waits for the next tick. */
static int write_totals(struct service *s, struct job_calls **at, struct err *err)
{
	int r = store_job(s->store, *at, err);

	if (trouble_is_of_database(r))
		return r;
	s->syscalls.n_totals_lost += r < 0;
	job_calls_drop(s, at);
	return r;
}

/* The newest are first: of those that wait for too long the oldest go. */
static void drop_excess(struct service *s)
{
	struct job_calls **at = &s->syscalls.jobs;
	size_t n_over = 0;

	while (*at) {
		n_over += (*at)->is_over;
		if (!(*at)->is_over || n_over <= MAX_WAITING_JOBS) {
			at = &(*at)->next;
			continue;
		}
		s->syscalls.n_totals_lost++;
		job_calls_drop(s, at);
	}
}

int service_record_calls(struct service *s, struct err *err)
{
	struct job_calls **at = &s->syscalls.jobs;
	int r = 0;

	drop_excess(s);
	while (s->store && *at && r == 0)
		if ((*at)->is_over)
			r = write_totals(s, at, err);
		else
			at = &(*at)->next;
	return r;
}
