#include "recorder/evidence/around.h"

#include <string.h>

#include "base/unknown.h"
#include "detect/detect.h"
#include "sources/sources.h"

/* By eBPF it is there already; else one file of each, and not all that there are of a process. */
static void read_memory(int root_fd, struct snapshot *all)
{
	for (size_t i = 0; i < all->n_processes; i++) {
		struct proc_sample *p = &all->processes[i];

		if (!u64_known(p->rss_bytes))
			p->rss_bytes = sources_read_rss(root_fd, p->key.pid);
	}
}

void around_look(int root_fd, struct snapshot *all, uint64_t boot_ns, struct around *ret)
{
	struct anomaly_host host;

	read_memory(root_fd, all);
	detect_describe_host(all, &host);
	ret->boot_ns = boot_ns;
	ret->n_top_rss = host.n_top_rss;
	memcpy(ret->top_rss, host.top_rss, sizeof(ret->top_rss));
}

/* Whose memory could not be read has ended meanwhile. */
void around_tell(const struct around *around, struct anomaly_host *host)
{
	host->knows_rss = true;
	host->n_top_rss = around->n_top_rss;
	memcpy(host->top_rss, around->top_rss, sizeof(host->top_rss));
}
