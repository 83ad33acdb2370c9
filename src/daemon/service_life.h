/*
 * service_life - telling that a job's process was born or has died.
 *
 * By the kernel's news (service_life.c) or by what a look has shown (service_members.c). Of a
 * job's runner itself nothing is told; what a runner has told already is not told again.
 */
#ifndef PROCTOR_DAEMON_SERVICE_LIFE_H
#define PROCTOR_DAEMON_SERVICE_LIFE_H

#include "daemon/service_internal.h"

void service_tell_birth(struct service *s, const struct member *member, uint64_t wall_ns);

/* status { -1, -1 }: nobody told; details NULL: as the last look saw it. */
void service_tell_death(struct service *s, const struct member *member, struct exit_status status,
			uint64_t wall_ns, const char *details);

#endif
