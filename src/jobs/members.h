/*
 * members - whose each process is, from its birth to its death, for many jobs.
 *
 * Looks at all processes come at intervals and know all of them (assign.h); the
 * kernel's news of births and deaths come in between and name pids alone. Here
 * both meet: a child belongs to whom its parent belongs to from the moment it is
 * born, so that it is known even if it is gone before the next look.
 *
 * A look is members_begin_look(), members_see() for each process, and
 * members_end_look(). Whom two looks do not show, and of whose death nothing was
 * heard, is gone: the news of it may still have been on its way at the first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/snapshot.h"

struct member {
	struct proc_key key; /* start_ticks unknown until a look has shown it */
	int64_t attempt_id;
	uint64_t born_wall_ns; /* U64_UNKNOWN */
	int sheet_num;	       /* its own, or that of who started it; SHEET_NONE */
	bool is_runner;	       /* its children belong to the attempt, it does not */
	bool is_told;	       /* its birth was, by who has seen it first */
	bool is_dead;
	bool is_replaced; /* its pid is a stranger's by now, whose children are strangers too */
	unsigned look;	  /* the last one that has shown it */
};

struct members;

struct members *members_new(void); /* NULL: no memory */
struct members *members_free(struct members *m);

/* All are forgotten. */
void members_clear(struct members *m);

void members_begin_look(struct members *m);

/*
 * It lives, and this is whose it is (key, attempt_id, born_wall_ns, sheet_num, is_runner, is_told).
 * Also between two looks. 1: nobody had told of it. 0: it is known; a dead one stays dead. -ENOMEM.
 */
int members_see(struct members *m, const struct member *seen);

/* gone is called for each that is gone and did not die, and does not change the members. */
typedef void members_fn(void *ctx, const struct member *member);
void members_end_look(struct members *m, members_fn *gone, void *ctx);

/*
 * A birth: the child, or NULL if it is nobody's. One that a look has shown before the news came
 * stays as it is; start_ticks of the child may be unknown. A death: the one that died, or NULL; it
 * is known for a while still, for news of its children. Valid until the next call.
 */
const struct member *members_fork(struct members *m, pid_t parent, const struct proc_key *child,
				  uint64_t wall_ns);
const struct member *members_exit(struct members *m, pid_t pid);

/* One that lives; NULL: it is nobody's. */
const struct member *members_find(const struct members *m, pid_t pid);

/* Calls fn for each of the attempt that lives, runners left out; fn does not change the members. */
void members_each(const struct members *m, int64_t attempt_id, members_fn *fn, void *ctx);

size_t members_count(const struct members *m);
