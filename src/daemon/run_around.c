#include "daemon/run_around.h"

#include <stdio.h>

#include "base/macros.h"
#include "daemon/around.h"
#include "daemon/run_internal.h"

/* The look at all knows nothing of jobs. */
static void name_own(const struct run *run, struct anomaly_process *p)
{
	for (size_t i = 0; i < run->snap.n_processes; i++) {
		const struct proc_sample *own = &run->snap.processes[i];

		if (own->job_id && own->key.pid == p->key.pid &&
		    own->key.start_ticks == p->key.start_ticks)
			snprintf(p->job_id, sizeof(p->job_id), "%s", own->job_id);
	}
}

static void release_collector(struct collector **c)
{
	collector_free(*c);
}

/*
 * Not by the run's own collector: what that knows of the job's processes is from one tick to the
 * next, and the files that it keeps open are theirs.
 */
static int look(const struct run *run, struct around *ret)
{
	const struct collector_options options = { .root_fd = run->root_fd };
	CLEANUP(release_collector) struct collector *collector = NULL;
	CLEANUP(snapshot_release) struct snapshot all;
	struct err err = ERR_INIT;
	int r;

	snapshot_init(&all);
	r = collector_new(&options, &collector, &err);
	if (r == 0)
		r = collector_scan(collector, &all, &err);
	if (r < 0)
		return r;
	around_look(run->root_fd, &all, run->snap.boot_ns, ret);
	for (size_t i = 0; i < ret->n_top_rss; i++)
		name_own(run, &ret->top_rss[i]);
	return 0;
}

/* When a job goes wrong, one thing begins after the other: nobody looks at all for each. */
#define AROUND_NS UINT64_C(1000000000)

static bool is_recent(const struct around *around, uint64_t now_boot_ns)
{
	return around->boot_ns != 0 && now_boot_ns - around->boot_ns < AROUND_NS;
}

void run_look_around(struct run *run, struct anomaly_host *host)
{
	struct around *around = &run->around;

	host->running_jobs = -1;
	host->knows_cpu = host->knows_rss = false;
	host->n_top_cpu = host->n_top_rss = 0;
	if (!is_recent(around, run->snap.boot_ns) && look(run, around) < 0)
		return;
	around_tell(around, host);
}
