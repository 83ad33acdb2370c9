/* link_internal - what the parts of a link share: link.c speaks, link_take.c asks. */
#ifndef PROCTOR_DAEMON_LINK_INTERNAL_H
#define PROCTOR_DAEMON_LINK_INTERNAL_H

#include "daemon/link.h"
#include "rpc/rpc.h"

/* A daemon that is busy for longer is done without. */
#define LINK_TIMEOUT_MS 100
#define LINK_END_TIMEOUT_MS 1000

struct link {
	struct loop *loop;
	struct rpc_client *client; /* NULL: there is no connection */
	struct loop_fd *watch;
	bool has_begun; /* nothing else was said to it yet than that */
	bool began_late;
	bool records;
	bool is_early;		     /* our own daemon is there: hello is said to it later */
	bool is_guest;		     /* of the daemon that is there, or was; or it may be */
	bool counts_calls;	     /* the daemon does, from before the first of them */
	uint64_t tried_boot_ns;	     /* 0: never */
	uint64_t counts_due_boot_ns; /* before this it is not asked for counts */
	bool is_late; /* it did not answer a question of the end in time: it is asked no other */
};

#endif
