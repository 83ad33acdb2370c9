/*
 * turns - whose submitted job is next.
 *
 * Users take turns, and within one user the first comes first: the second job of one user
 * comes after the first of each other, however long it has waited. What a user has
 * running counts as turns that were had.
 */
#ifndef PROCTOR_DAEMON_QUEUE_TURNS_H
#define PROCTOR_DAEMON_QUEUE_TURNS_H

#include "daemon/queue/queue.h"

/*
 * The jobs that wait, next first; freed by the caller. last_uid is whose turn it was: of users
 * who have had as many, the next one by number comes first. -ENOMEM.
 */
int turns_take(struct queue *q, uid_t last_uid, struct queued ***ret, size_t *ret_n);

#endif
