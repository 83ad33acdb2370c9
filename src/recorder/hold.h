/*
 * hold - whether the next sheet of a submitted job may start, by the daemon's word.
 *
 * Under pressure (learn/admission.h) a sheet waits. The daemon is asked again every
 * second meanwhile, so that the sheet starts as soon as the pressure falls, and
 * everybody can see why it waits. A job does not depend on a daemon: where none is,
 * nothing waits, and if it goes away during the wait the sheet starts after the
 * delay that was told last. Nobody knows then whether the pressure still lasts, and
 * who waited for an answer that never comes would hang for ever. One that is there and says nothing
 * is waited for once: until it has spoken again no other sheet waits for it.
 */
#ifndef PROCTOR_RECORDER_HOLD_H
#define PROCTOR_RECORDER_HOLD_H

#include <stdbool.h>
#include <stdint.h>

struct rpc_client;

/* All zero: nothing waits. */
struct hold {
	struct rpc_client *client; /* NULL: there is no connection */
	uint64_t since_boot_ns;	   /* the sheet waits; 0: none does */
	uint64_t until_boot_ns;	   /* it may start then, unless told otherwise */
	bool is_told;		   /* that it waits, and why */
	bool is_silent;		   /* the daemon, since a sheet has waited for it in vain */
};

/* 0: the sheet may start. Else: to be asked again after so many milliseconds. Takes half a second
 * at most. */
uint64_t hold_ask_ms(struct hold *h, const char *job_id);

/* Nothing waits any more. */
void hold_release(struct hold *h);

#endif
