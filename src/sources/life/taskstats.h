/*
 * taskstats - what each process used, as the kernel says when it ends, over netlink.
 *
 * The kernel tells of every thread. It does so before the proc connector tells of
 * the same end: who empties this one after having read the other has it all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sources/sources.h"

/* ---- messages, from bytes to plain data and back ---- */

#define THREAD_COMM_BYTES 16

/* What one thread used. */
struct thread_stats {
	pid_t pid;		      /* of its process */
	uint64_t start_wall_s;	      /* of its process too, to a second or two */
	struct exit_account used;     /* max_rss_bytes: of the process, so far */
	char comm[THREAD_COMM_BYTES]; /* raw bytes, NUL-terminated; "": of another than the first */
};

/*
 * Adds a thread to the sum of those of its process that have ended before. If that sum is of
 * another process, which had the same pid and of whose end nobody heard, it begins anew.
 */
void thread_stats_add(struct thread_stats *sum, const struct thread_stats *thread);

/* Whether its process may have been there at that time. 0: never. */
bool thread_stats_is_before(const struct thread_stats *stats, uint64_t wall_s);

/*
 * The first message of bytes[0..len): returns how many bytes it takes (at least 1,
 * at most len), or -EBADMSG. *ret_has is true if it tells of a thread: then *ret has
 * it. Messages of other families than this one's are passed over. A kernel that does
 * not say whose thread it was (before 5.19) tells nothing.
 */
ssize_t taskstats_parse(const void *bytes, size_t len, uint16_t family, struct thread_stats *ret,
			bool *ret_has);

/* The answer to the request for the family: its number, or -errno as the kernel said. */
int taskstats_parse_family(const void *bytes, size_t len, uint16_t *ret);

/* The answer to the request to be told of ends: 0, or -errno. -EBADMSG: it is none. */
int taskstats_parse_ack(const void *bytes, size_t len);

/*
 * The answer to the request for one process: 0, or -EOPNOTSUPP where the kernel does not say whose
 * thread it is, or the errno it said.
 */
int taskstats_parse_probe(const void *bytes, size_t len, uint16_t family);

/* ---- the socket ---- */

/*
 * With room for all that the proc connector sends: taskstats goes with its queue. -errno;
 * *ret_is_there is false where there are no such sockets.
 */
int netlink_socket(int protocol, uint32_t groups, bool *ret_is_there);

struct taskstats_feed;

/* -EPERM: root only (CAP_NET_ADMIN). -EOPNOTSUPP: not in this kernel. err has the sentence. */
int taskstats_open(struct taskstats_feed **ret, struct err *err);
struct taskstats_feed *taskstats_close(struct taskstats_feed *feed);

/*
 * Takes in all that wait. How many the kernel dropped, or were too many to keep, cannot be known:
 * 1 for "some", 0, -errno. Nothing is told then of those that wait.
 */
int taskstats_drain(struct taskstats_feed *feed);

/*
 * The account of a process that has ended, of all its threads together, and its name, and forgets
 * it. CPU time may be short by a clock tick; rchar and wchar are in whole KiB of each thread,
 * without those of children, and unknown below that. False: nothing was told of it, or what was
 * lost may be of it.
 */
bool taskstats_take(struct taskstats_feed *feed, pid_t pid, struct exit_account *ret,
		    char ret_comm[THREAD_COMM_BYTES]);
