/* link_internal - what the parts of a link share: link.c speaks, link_take.c asks, link_end.c says
 * for how long both wait when the job is over. */
#ifndef PROCTOR_DAEMON_LINK_INTERNAL_H
#define PROCTOR_DAEMON_LINK_INTERNAL_H

#include "base/buf.h"
#include "daemon/link.h"
#include "rpc/rpc.h"

/* A daemon that is busy for longer is done without. */
#define LINK_TIMEOUT_MS 100

/* What is left of the time that a run waits for the daemon when its job is over. */
struct link_patience {
	uint64_t spare_ns;  /* for what nobody has asked for */
	uint64_t wanted_ns; /* for the rest */
	bool is_late;	    /* a question other than for ends was not answered in time */
};

struct link {
	struct loop *loop;
	struct rpc_client *client; /* NULL: there is no connection */
	struct loop_fd *watch;
	bool has_begun;	   /* nothing else was said to it yet than that */
	bool was_followed; /* a daemon has said so, whatever has become of it since */
	bool began_late;
	bool records;
	bool is_early;		     /* our own daemon is there: hello is said to it later */
	bool is_guest;		     /* of the daemon that is there, or was; or it may be */
	bool counts_calls;	     /* the daemon does, from before the first of them */
	uint64_t tried_boot_ns;	     /* 0: never */
	uint64_t retry_ns;	     /* how long after that it is tried again; 0: RETRY_NS */
	uint64_t counts_due_boot_ns; /* before this it is not asked for counts */
	struct link_patience patience;
};

/* ---- link.c ---- */

void link_hang_up(struct link *link);
int link_say_hello(struct link *link, const struct link_job *job, struct err *err);

/*
 * -EAGAIN: it is too early for this daemon. If it has our database, which is likely as it
 * is our own user's, it is enough to say that there is something to see, now and whenever there
 * is more: so the connection stays.
 */
int link_say_greeting(struct link *link, const struct link_job *job, bool is_lasting,
		      uint64_t timeout_ms);

/* {"job":…} */
void link_write_change(struct buf *out, const struct link_job *job, size_t n_from);

/* ---- link_end.c: for who asks when the job is over, on a connection that is there ---- */

/* -ETIMEDOUT: the time for such questions is over, or is by now. */
int link_ask_wanted(struct link *link, const char *method, const char *params,
		    struct rpc_value **ret, struct err *err);
int link_ask_spare(struct link *link, const char *method, const char *params,
		   struct rpc_value **ret);

/* How long the next of these may take. */
uint64_t link_spare_ms(const struct link *link);

/* The time of what is wanted, but for no longer than a busy daemon needs; one that was late before
 * is not asked. */
int link_ask_unasked(struct link *link, const char *method, struct rpc_value **ret,
		     struct err *err);

#endif
