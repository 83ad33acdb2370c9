/*
 * service_attached - what the parts share that follow jobs which something else started.
 *
 * service_attached.c follows them, service_attached_events.c keeps what happens to their processes,
 * service_attached_end.c writes down how they ended.
 */
#ifndef PROCTOR_DAEMON_SERVICE_ATTACHED_H
#define PROCTOR_DAEMON_SERVICE_ATTACHED_H

#include "daemon/deaths.h"
#include "daemon/service_internal.h"

struct attached {
	struct service *service;
	int64_t attempt_id;
	uint64_t uid;
	struct proc_key root;
	int pidfd; /* of the root; -1: it is gone */
	struct loop_fd *watch;
	struct loop_timer *timer;
	bool is_recalled;	     /* who was noted down is remembered */
	bool has_all_births;	     /* since it was attached */
	bool was_gone;		     /* when we came back */
	uint64_t n_lost_before;	     /* of the kernel's news */
	struct exit_status status;   /* of the root; { -1, -1 }: nobody told (yet) */
	uint64_t last_death_wall_ns; /* 0: none was told */
	uint64_t cancelled_boot_ns;  /* 0: it was not */
	uint64_t check_ms;	     /* until the next look, from then on */
	struct deaths deaths;
	uint64_t n_withheld; /* ends that are not among them: nobody may hear of them */
	struct proc_event *pending;
	size_t n_pending, cap_pending, n_gathered;
	uint64_t n_unlisted;
	unsigned n_births;
	struct attached *next;
};

/* NULL: no such attempt is followed. */
struct attached *attached_find(const struct service *s, int64_t attempt_id);

/* All of it is gone: its sums, and how it ended as far as anybody knows. -EBUSY: later. */
int attached_write_end(struct service *s, struct attached *at, const struct watched *job,
		       struct err *err);

#endif
