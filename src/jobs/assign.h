/*
 * assign - which process of a snapshot belongs to which of many jobs.
 *
 * A job has a root: its runner, whose descendants belong to the job (orphans too:
 * the runner is their subreaper), or a process that was attached, which belongs
 * to it itself. What belonged at one snapshot belongs at the next, whoever its
 * parent is by then. Of jobs inside jobs the nearest root counts. Takes time in
 * proportion to the processes, not to the jobs.
 */
#ifndef PROCTOR_JOBS_ASSIGN_H
#define PROCTOR_JOBS_ASSIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "model/snapshot.h"

struct assign_root {
	struct proc_key key;
	bool is_runner;	    /* is not itself of the job */
	const char *job_id; /* the same address at each snapshot, and another for another job */
	int64_t attempt_id; /* that its processes are told to be of */
	int sheet_num;	    /* of what is new */
};

struct assigner;

struct assigner *assigner_new(void);
struct assigner *assigner_free(struct assigner *a);

/*
 * Sets job_id (the root's pointer) and sheet_num of the snapshot's processes and
 * clears those of others; adds up in n_of, which has n_roots places, how many
 * each got. A root that is not in the snapshot has no new members. -ENOMEM: as
 * far as it got.
 */
int assign_processes(struct assigner *a, struct snapshot *s, const struct assign_root *roots,
		     size_t n_roots, size_t *n_of);

/*
 * This process belongs to the job, whoever its parent is at the next snapshot: for one that was
 * noted down earlier, or whose birth was told. -ENOMEM.
 */
int assign_remember(struct assigner *a, const struct proc_key *key, const char *job_id,
		    int sheet_num);

/* The job is over: its processes are nobody's, and its id may be freed. */
void assigner_forget_job(struct assigner *a, const char *job_id);

/*
 * After that, and after the sheets of those that are known were set: each of the same snapshot that
 * has none is of the sheet of the nearest ancestor in its job that has one.
 */
void assign_inherit_sheets(const struct assigner *a, struct snapshot *s);

/* The number in that snapshot of the process with this pid; -1: it was not there. */
int assign_find(const struct assigner *a, pid_t pid);

/* Whose process number i of that snapshot is: the number of the root, or -1. */
int assign_owner(const struct assigner *a, size_t i);

#endif
