/*
 * taskstats - what each process used, as the kernel says when it ends, over netlink.
 *
 * The kernel tells of every thread. It does so before the proc connector tells of
 * the same end: who empties this one after having read the other has it all.
 */
#ifndef PROCTOR_SOURCES_TASKSTATS_H
#define PROCTOR_SOURCES_TASKSTATS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sources/sources.h"
#include "sources/taskstats_wire.h"

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

#endif
