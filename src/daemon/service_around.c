/*
 * service_around - what else the host was doing, for a daemon whose ticks have not all of it.
 */
#include "base/macros.h"
#include "daemon/around.h"
#include "daemon/service_anomaly.h"

/* In a copy: the snapshot of the tick is what others show and record. -ENOMEM. */
static int look(const struct service *s, struct around *ret)
{
	CLEANUP(snapshot_release) struct snapshot all;
	int r;

	snapshot_init(&all);
	r = snapshot_copy(&all, &s->snap, SNAPSHOT_ALL);
	if (r == 0)
		around_look(s->root_fd, &all, s->snap.boot_ns, ret);
	return r;
}

void service_look_around(struct service *s, struct anomaly_host *host)
{
	if (host->knows_rss || !s->has_snap)
		return;
	if (s->around.boot_ns == s->snap.boot_ns || look(s, &s->around) == 0)
		around_tell(&s->around, host);
}
