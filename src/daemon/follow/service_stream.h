/*
 * service_stream - the kernel's facts about the processes of a runner, sent to it as they come.
 *
 * The runner records its job. To root's daemon the kernel reports more than to the runner's user:
 * what each process had used when it ended, signals with their senders, kills for want of memory. A
 * runner opens its stream before the first command starts, and before its attempt is known: until
 * then what it starts is marked with a number of its own. The stream ends with the connection.
 *
 * A message has some facts, and how many there were before it: so the runner knows how many it has
 * missed, if the connection had no room for all. A barrier is answered when the kernel has reported
 * the last of what has ended; the runner waits for it once, at its end.
 */
#ifndef PROCTOR_DAEMON_FOLLOW_SERVICE_STREAM_H
#define PROCTOR_DAEMON_FOLLOW_SERVICE_STREAM_H

#include "daemon/service_internal.h"

/* A process that has ended and whose account is still to come. */
struct awaited_account {
	struct proc_key key;
	uint64_t died_wall_ns;
};

struct stream {
	struct service *service;
	struct rpc_subscriber *line;
	int64_t mark;	     /* of what it starts, until the attempt is known */
	int64_t attempt_id;  /* 0: it is not known yet */
	uint64_t outer_mark; /* of the run that this one runs in; 0 */
	char *job_id;	     /* as its runner says; NULL */
	struct proc_key runner;
	uint64_t uid;

	/* To be sent: */
	struct proc_record *ends;
	size_t n_ends, cap_ends;
	struct proc_event *events;
	size_t n_events, cap_events;
	struct arena arena; /* their texts */

	uint64_t n_facts;		 /* sent so far */
	uint64_t n_withheld;		 /* ends of others than uid, or of unknown owners */
	uint64_t n_lost_before;		 /* events of the kernel, of any process */
	struct awaited_account *awaited; /* in the order of their ends */
	size_t n_awaited, cap_awaited;
	struct barrier *barrier; /* NULL: the runner does not wait */
	struct stream *next;
};

/* By the attempt or by the mark; NULL: there is none. */
struct stream *stream_find(const struct service *s, int64_t id);

/* The stream of this runner; NULL. */
struct stream *stream_of_runner(const struct service *s, pid_t pid);

/* Whether the runner is there to record what is sent. */
bool stream_is_read(const struct stream *st);

/* A signal or a kill; the texts are copied. */
void stream_add_event(struct stream *st, const struct proc_event *ev);

#endif
