/*
 * tree - which processes belong to a job, and to which sheet and rank of it.
 *
 * A process belongs if the runner started it or one of its ancestors, also
 * after its parent died: children keep their job once known, and orphans come
 * to the runner, which is their subreaper. Members are added by kernel events
 * as they are born and by every scan; both may be missing.
 *
 * What was the runner's child before the job began (a shell that started a
 * helper and then became proctor by exec) are strangers: never members. So is what
 * the runner has started for itself, with all that this starts.
 */
#ifndef PROCTOR_JOBS_TREE_H
#define PROCTOR_JOBS_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "model/snapshot.h"

#define TREE_MAX_ENDED 256

struct tree;

struct tree_member {
	struct proc_key key; /* start_ticks unknown until a scan has seen it */
	int sheet_num;
	int rank;
	unsigned long round; /* of the last scan that saw it */
};

/* job_id is borrowed. runner_pid: whose children are members. NULL: no memory. */
struct tree *tree_new(const char *job_id, pid_t runner_pid);
struct tree *tree_free(struct tree *tree);

/* Orphans whose parents were never seen go to this sheet. */
void tree_set_sheet(struct tree *tree, int sheet_num);

/*
 * All descendants that the runner has in this snapshot are strangers. To be
 * called before the first root is started. Returns how many, or -ENOMEM.
 */
int tree_note_strangers(struct tree *tree, struct snapshot *snap);
/* One that the runner has started for itself: not of the job either. -ENOMEM. */
int tree_add_stranger(struct tree *tree, pid_t pid);
bool tree_is_stranger(const struct tree *tree, pid_t pid);
bool tree_has_strangers(const struct tree *tree);
void tree_forget_stranger(struct tree *tree, pid_t pid);

/* A process that the runner has started. -ENOMEM. */
int tree_add_root(struct tree *tree, pid_t pid, int sheet_num, int rank);

/* A birth: true if the child now belongs to the job. */
bool tree_on_fork(struct tree *tree, pid_t parent, pid_t child);

/* A death, of a child of parent: true if it belonged. */
bool tree_on_exit(struct tree *tree, pid_t pid, pid_t parent);

/* NULL: not a member. Valid until the tree changes. */
const struct tree_member *tree_find(const struct tree *tree, pid_t pid);

/* Members, as far as known; those that the last scan has seen. */
size_t tree_count(const struct tree *tree);
size_t tree_count_seen(const struct tree *tree);

/*
 * The pids of all members, and of up to TREE_MAX_ENDED that have ended and may be zombies, as
 * their parent has not waited for them; valid until the tree changes. NULL: there are no members,
 * or no memory.
 */
const pid_t *tree_pids(struct tree *tree, size_t *ret_n);

/*
 * What becomes of members that a scan does not show any more. Where the kernel
 * tells of deaths they stay for one more scan: a child that was born and died
 * between two scans is known by its parent alone, and the news of its birth may
 * still wait in the queue when the parent is gone from /proc. By the next scan
 * (the queue is emptied before each) that news has come; who is missing twice is
 * gone, and its pid may belong to somebody else.
 */
enum tree_missing { TREE_KEEP_ONCE, TREE_FORGET_MISSING };

/*
 * Marks the snapshot's processes that belong (job_id, sheet_num, rank) and
 * learns new ones by their parents. A zombie is marked, and never becomes a
 * member: it will do nothing any more, and its death was told. Linear in the number of processes.
 * -ENOMEM.
 */
int tree_assign(struct tree *tree, struct snapshot *snap, enum tree_missing missing);

/* Calls fn for every member that the last scan has seen; fn must not change the tree. */
typedef void tree_fn(void *ctx, const struct tree_member *member);
void tree_for_each_seen(const struct tree *tree, tree_fn *fn, void *ctx);

#endif
