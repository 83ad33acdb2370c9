/*
 * jobs_merge - one list of jobs of several: those of our own database, those that a daemon
 * watches, and those that it has recorded.
 *
 * A runner tells a daemon that has another database when it began: so the same attempt is known
 * in both, and listed once, as our own database has it.
 */
#ifndef PROCTOR_CLI_JOBS_MERGE_H
#define PROCTOR_CLI_JOBS_MERGE_H

#include "cli/elsewhere.h"
#include "cli/live.h"
#include "store/store.h"

/* Those that run and are not there yet. -ENOMEM. The list borrows from live. */
int jobs_add_running(const struct live_jobs *live, struct attempt_list *list);

/*
 * Those that a daemon of another user has recorded, if one is there: in the order of their
 * beginnings. Where latest_only is asked for, one stays of each job of each user. -ENOMEM.
 */
int jobs_add_elsewhere(const struct elsewhere_question *question, struct attempt_list *list);

#endif
