/*
 * service_attached - trees of processes that something else started, which the daemon records.
 *
 * There is no runner: the daemon appends what it sees to a log of each (attempt_log.h), and ends it
 * when the last of its processes is gone. A daemon that begins later continues the log.
 *
 * service_attached.c follows them, service_attached_end.c computes how they ended.
 */
#ifndef PROCTOR_DAEMON_FOLLOW_SERVICE_ATTACHED_H
#define PROCTOR_DAEMON_FOLLOW_SERVICE_ATTACHED_H

#include "recorder/recorder.h"
#include "daemon/service_internal.h"

/* Events are appended many at a time: at each tick, and when there are so many. */
#define ATTACHED_PENDING 64

struct attached {
	struct service *service;
	int64_t attempt_id;
	struct attempt begin;	 /* as it began, for the log */
	struct attempt_log *log; /* NULL: it is not opened yet, or has its end */
	uint64_t uid;
	struct proc_key root;
	int pidfd; /* of the root; -1: it is gone */
	struct loop_fd *watch;
	struct loop_timer *timer;
	bool is_recalled;	     /* its log is open, and who was recorded is known */
	bool has_all_births;	     /* since it was attached */
	bool was_gone;		     /* when we came back */
	uint64_t n_lost_before;	     /* of the kernel's news */
	struct exit_status status;   /* of the root; { -1, -1 }: not known (yet) */
	uint64_t last_death_wall_ns; /* 0: none is known */
	uint64_t cancelled_boot_ns;  /* 0: it was not */
	uint64_t check_ms;	     /* until the next look, from then on */
	struct deaths deaths;
	uint64_t n_withheld; /* ends that are not among them: nobody may hear of them */
	struct proc_event pending[ATTACHED_PENDING];
	size_t n_pending;
	unsigned n_births;
	struct attached *next;
};

/* NULL: no such attempt is followed. */
struct attached *attached_find(const struct service *s, int64_t attempt_id);

/* Makes a log for what begins with this attempt, whose strings are taken over, and follows it. */
int attached_begin(struct service *s, struct attempt *a, struct attached **ret, struct err *err);

/* Appends the events that wait. */
void attached_flush(struct attached *at);

/*
 * All of it is gone: appends its sums, and how it ended as far as that is known, and ends the log.
 * The sums are made of what the database has, so all of the log has to be there: -EBUSY, later.
 */
int attached_write_end(struct service *s, struct attached *at, const struct watched *job,
		       struct err *err);

#endif
