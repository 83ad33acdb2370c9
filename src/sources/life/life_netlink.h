/*
 * life_netlink - the rung on the proc connector: its messages, and what it keeps in mind of them:
 * losses, owners, threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "sources/sources.h"

/*
 * ---- messages of the proc connector, from bytes to plain data and back ----
 *
 * They tell of threads; what follows makes processes of them.
 */

enum life_raw_type {
	LIFE_RAW_FOREIGN, /* not of the proc connector: has no sequence number */
	LIFE_RAW_ACK,	  /* the answer to somebody's request to listen */
	LIFE_RAW_OTHER,	  /* a change of name, session, …: only its sequence number matters */
	LIFE_RAW_UID,	  /* it has become another user's, or changes between two */
	LIFE_RAW_GID,	  /* the same of its group */
	LIFE_RAW_FORK,
	LIFE_RAW_EXEC,
	LIFE_RAW_EXIT,
};

struct life_raw {
	enum life_raw_type type;
	uint32_t cpu, seq;  /* the kernel numbers the messages of each CPU without gaps */
	uint64_t mono_ns;   /* CLOCK_MONOTONIC */
	pid_t tid, pid;	    /* the thread and its process; of the child for LIFE_RAW_FORK */
	pid_t parent_pid;   /* its process; 0: not told (before Linux 4.18 not for LIFE_RAW_EXIT) */
	int wait_status;    /* LIFE_RAW_EXIT */
	uint32_t uid, euid; /* LIFE_RAW_UID: real and effective */
	uint32_t ack;	    /* LIFE_RAW_ACK: the number in the request, plus one */
	int ack_errno;	    /* LIFE_RAW_ACK: 0, or why the request was refused */
};

/*
 * The first message of bytes[0..len). Returns how many bytes it takes, at
 * least 1 and at most len, or -EBADMSG if it is none or is cut off.
 */
ssize_t life_parse(const void *bytes, size_t len, struct life_raw *ret);

#define LIFE_REQUEST_BYTES 64

/*
 * A request to listen, or to stop it, into ret; returns its length. The kernel
 * answers with a message LIFE_RAW_ACK that bears ack + 1.
 */
size_t life_write_request(bool is_listen, uint32_t ack, char ret[LIFE_REQUEST_BYTES]);

/* ---- messages that the kernel dropped, counted by the gaps in their numbers ---- */

/* All zero is a good beginning. */
struct life_loss {
	struct life_loss_cpu {
		uint32_t next_seq;
		bool is_seen;
	} * cpus;
	size_t n_cpus;
	uint64_t missing;    /* not yet told */
	uint64_t told_early; /* told by life_loss_take() before the gap showed */
	bool has_overflow;
};

void life_loss_release(struct life_loss *loss);

/*
 * A message has come. The first of each CPU sets where counting begins. True if
 * some are missing right before it.
 */
bool life_loss_see(struct life_loss *loss, uint32_t cpu, uint32_t seq);

/* The socket said that it overflowed: something is missing, even if no gap shows it yet. */
void life_loss_overflow(struct life_loss *loss);

/* How many are missing since the last call. */
uint64_t life_loss_take(struct life_loss *loss);

/*
 * ---- the user that alone owns a followed process, by the proc connector ----
 *
 * Who starts another hands it on, and a program that is set-user-ID or set-group-ID makes its
 * process somebody else's as well, whatever it executes later. What is not known for sure is
 * unknown: after a loss that is everything. Three things are in no message: the saved user, so that
 * a process of root that has given away the two others and keeps that one looks like that user's;
 * the capabilities of a program's file; and who has really made a child that is to be its parent's
 * (CLONE_PARENT).
 */

/* All zero is a good beginning; where messages were lost, the map is cleared. */
struct life_owners {
	struct map by_pid; /* pid -> uid */
};

/* From now on, and who it starts. */
void life_owners_follow(struct life_owners *o, pid_t pid, uint64_t uid);

/* Takes the next message. */
void life_owners_feed(struct life_owners *o, const struct life_raw *raw);

/* Of a process that has ended, once: U64_UNKNOWN, or whose alone it was. */
uint64_t life_owners_take(struct life_owners *o, pid_t pid);

/*
 * ---- the death of a process, as distinct from the death of one of its threads ----
 *
 * The kernel reports the end of each thread. A process is over when its last
 * thread is, and that need not be the first one: the first may end early, and
 * when another thread executes a program, the kernel ends the first and lets the
 * other take over its id, which looks like a death and is none. So this counts
 * the threads it saw begin. Of processes older than itself it knows no threads
 * and takes the end of the first for the end.
 */

/* All zero is a good beginning. */
struct life_threads {
	struct map extra;     /* pid -> threads beside the first, and whether that has ended */
	unsigned n_forgotten; /* how often all of it was */
};

void life_threads_release(struct life_threads *t);

/* Messages were lost: counts that may be wrong are worse than none. Once per loss is enough. */
void life_threads_forget(struct life_threads *t);

/*
 * Takes the next message, after noting its number in loss: where some are
 * missing before it, it forgets. True if the message tells of a whole process:
 * then *ret says what (all but wall_ns).
 */
bool life_threads_feed(struct life_threads *t, struct life_loss *loss, const struct life_raw *raw,
		       struct life_event *ret);
