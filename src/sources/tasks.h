/*
 * tasks - all processes with all that a sample needs, by one read through the kernel's task
 * iterator.
 *
 * Costs a fraction of reading /proc, and 40 to 100 ms of CPU time once: for who
 * looks often. Command lines and cgroup paths are not in it.
 */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "bpf/tasks.h"
#include "model/job.h"
#include "model/snapshot.h"

struct tasks;

/*
 * -EPERM, -EOPNOTSUPP…: not here or not for this user, and err says why. is_as_old is for tests: it
 * goes the ways of the oldest kernels.
 */
int tasks_open(bool is_as_old, struct tasks **ret, struct err *err);
struct tasks *tasks_close(struct tasks *t);

/* Valid until the next reading; ascending by pid. own is that of all threads, also of those ended.
 */
struct task_list {
	struct task_process *const *items;
	size_t n;
};

/* All processes, or these (in any order) if pids is not NULL. -errno: ret is untouched. */
int tasks_read(struct tasks *t, const pid_t *pids, size_t n_pids, struct task_list *ret);

/* The rung of process samples: the task iterator, or /proc because of why (borrowed). rungs.c. */
struct rung rung_of_samples(bool is_ebpf, const char *why);

/*
 * ---- from what the task iterator says to a sample as /proc would give it ----
 */

/* The letter of proc/PID/stat for the kernel's bits. */
char task_state_letter(uint32_t state);

/* Another value means another command line: an exec, another name, another place of the words. */
uint64_t task_image(const struct task_process *t);

/*
 * All values but key, boot_ns, start_wall_ns, age_seconds, the CPU values, command
 * and cgroup. open_fds is unknown where the kernel side could not count them.
 */
void task_fill_sample(const struct task_process *t, uint64_t page_bytes, struct proc_sample *p);

/* CPU time of a process, as it was last told. All zero is a good beginning. */
struct cpu_split {
	uint64_t user_ns, system_ns;
};

/*
 * How /proc and wait4() split it: the scheduler's sum is exact, and who used it,
 * user or kernel, is known from where the clock ticks fell. Neither part ever
 * shrinks.
 */
void task_split_cpu(const struct task_counts *counts, struct cpu_split *split);
