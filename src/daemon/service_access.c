#include <errno.h>
#include <unistd.h>

#include "base/unknown.h"
#include "daemon/service_internal.h"

bool service_sees_all(const struct rpc_peer *peer)
{
	return peer->uid == 0 || peer->uid == geteuid();
}

bool service_may_see(const struct rpc_peer *peer, uint64_t uid)
{
	return service_sees_all(peer) || (u64_known(uid) && (uid_t)uid == peer->uid);
}

/* A job of somebody else is as if it were not there. */
int service_find_job(struct service *s, const struct rpc_peer *peer, const char *job_id,
		     struct watched **ret, struct err *err)
{
	*ret = watch_find(s->watch, job_id);
	if (*ret && service_may_see(peer, (*ret)->a.uid))
		return 0;
	return err_set(err, -ENOENT, "no job %s is running", job_id);
}

int service_need_store(struct service *s, struct err *err)
{
	if (s->store)
		return 0;
	return err_set(err, -EBUSY, "the database cannot be opened now: see daemon.status");
}
