#include "daemon/run_around.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
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

static int look(struct run *run, struct around *ret)
{
	CLEANUP(snapshot_release) struct snapshot all;
	struct anomaly_host host;
	struct err err = ERR_INIT;
	int r;

	snapshot_init(&all);
	r = run->collector ? collector_scan(run->collector, &all, &err) : -ENODEV;
	if (r < 0)
		return r;
	collector_fill(run->collector, &all, SNAPSHOT_ALL);
	detect_describe_host(&all, &host);
	ret->boot_ns = run->snap.boot_ns;
	ret->n_top_rss = host.n_top_rss;
	memcpy(ret->top_rss, host.top_rss, sizeof(ret->top_rss));
	for (size_t i = 0; i < ret->n_top_rss; i++)
		name_own(run, &ret->top_rss[i]);
	return 0;
}

void run_look_around(struct run *run, struct anomaly_host *host)
{
	struct around *around = &run->around;

	host->running_jobs = -1;
	host->knows_cpu = host->knows_rss = false;
	host->n_top_cpu = host->n_top_rss = 0;
	if (around->boot_ns != run->snap.boot_ns && look(run, around) < 0)
		return;
	host->knows_rss = true;
	host->n_top_rss = around->n_top_rss;
	memcpy(host->top_rss, around->top_rss, sizeof(host->top_rss));
}
