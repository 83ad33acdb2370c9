/*
 * syscall_table - the system calls of each counted process, as they add up.
 *
 * Pure bookkeeping: the owner hands in what the kernel side says and asks for
 * totals, or for what is new since it last asked.
 */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "bpf/syscalls.h"
#include "sources/sources.h"

struct syscall_row {
	uint32_t nr;
	struct syscall_value now, filled; /* the totals, and those when a sample was last filled */
};

struct counted {
	uint32_t id;		      /* 0: the rest of a tree */
	struct syscall_process about; /* without its uses */
	struct syscall_row *rows;
	uint32_t *order; /* of the rows by nr, ascending: rows are too large to be moved */
	size_t n_rows, cap_rows;
	uint64_t ended_ns[SYSCALL_TIMES], living_ns[SYSCALL_TIMES]; /* where the time of its
								       threads went */
	bool is_new;	    /* some total has changed since a sample was last filled */
	bool is_owner_told; /* with its end: nothing that comes later says more */
};

/* All zero is a good beginning. */
struct syscall_table {
	struct counted *items;
	size_t n, cap;
	struct map by_id; /* index into items */
	struct syscall_use *uses;
	size_t cap_uses;
};

void syscall_table_release(struct syscall_table *t);

/* A process begins or ends. -ENOMEM. */
int syscall_table_news(struct syscall_table *t, const struct syscall_news *news, long clock_ticks);

/* Its totals for one call, and whose they are: its beginning may not have been told. -ENOMEM. */
int syscall_table_put(struct syscall_table *t, const struct syscall_key *key,
		      const struct syscall_entry *entry, long clock_ticks);

/*
 * Where the time of a thread went that has ended; or of one that lives, after
 * syscall_table_begin_living(). Of a process that is not there it counts for its tree. -ENOMEM.
 */
int syscall_table_put_ended(struct syscall_table *t, const struct syscall_thread_times *times);
void syscall_table_begin_living(struct syscall_table *t);
void syscall_table_put_living(struct syscall_table *t, const struct syscall_thread_times *times);

/* The totals of those in a tree that were not told apart. -ENOMEM. */
int syscall_table_put_tree(struct syscall_table *t, const struct syscall_tree_key *key,
			   const struct syscall_value *value);

/* News were lost: whoever is_there() denies has ended. */
void syscall_table_end_missing(struct syscall_table *t,
			       bool (*is_there)(pid_t pid, uint64_t start_ticks));

/* It counts for another tree from now on, under another number. */
void syscall_table_end(struct syscall_table *t, uint32_t id);

/* Of a tree nothing is to be told any more. */
void syscall_table_drop_tree(struct syscall_table *t, uint64_t tag);

/* True if the process with this number has ended, or was never heard of. */
bool syscall_table_is_ended(const struct syscall_table *t, uint32_t id);

/* See sources.h. */
void syscall_table_each(struct syscall_table *t, bool only_ended, syscalls_fn *fn, void *ctx);
void syscall_table_each_living(struct syscall_table *t, uint64_t tag, syscalls_fn *fn, void *ctx);
void syscall_table_fill(struct syscall_table *t, struct snapshot *s);
void syscall_table_drop_ended(struct syscall_table *t);

/* Time as if all calls had been timed. */
uint64_t syscall_scale(uint64_t ns, uint64_t count, uint64_t timed);
