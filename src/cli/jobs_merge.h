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

/*
 * The number that a daemon has for the attempt of a job that we call num: the one of our own
 * database (own has all of that job), or else one that only the daemon has recorded. A database
 * counts its own attempts, so the two differ where it is not the daemon's. -ENOENT: it has none.
 */
int jobs_find_elsewhere(const char *job_id, const struct attempt_list *own, int num, int *ret,
			struct err *err);

/*
 * Where our own database cannot be read: whether num can mean but one, as the daemon has that and
 * no other attempt of the job of this user. -EINVAL: it can mean another.
 */
int jobs_check_only(const char *job_id, uint64_t uid, int num, struct err *err);

/* The number that our own database has for one that a daemon tells of; its own, if it has none. */
int jobs_number_here(const struct attempt_list *own, const struct attempt *told);

/* The number of num in what a daemon has recorded, as above; 0: none. */
int jobs_match_number(const struct attempt_list *own, const struct attempt_list *theirs, int num);

#endif
