/*
 * service_guest - runners that say hello, and guests among them: those whose log is not in our
 * folder, as of another user or of another PROCTOR_HOME.
 *
 * A guest sends the frames of its log. We append them to a copy in our folder of logs, with the
 * same id, offsets and numbers, and the copy is ingested as any other log. All that comes is
 * hostile: whose the copy is and who runs it the kernel says, frames have their checksums, a user
 * has a share of bytes and of guests, and the rest is ingest's to judge (store/ingest.h).
 */
#ifndef PROCTOR_DAEMON_SERVICE_GUEST_H
#define PROCTOR_DAEMON_SERVICE_GUEST_H

#include "daemon/service_internal.h"

/* Whether this user may have one more job that others record or start. -EBUSY: not now. -ENOMEM. */
int guest_check_share(struct service *s, const struct rpc_peer *peer, struct err *err);

#endif
