/*
 * tasks_sample - from what the task iterator says to a sample as /proc would give it.
 */
#ifndef PROCTOR_SOURCES_TASKS_SAMPLE_H
#define PROCTOR_SOURCES_TASKS_SAMPLE_H

#include <linux/types.h>
#include <stdint.h>

#include "bpf/tasks.h"
#include "model/snapshot.h"

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

#endif
