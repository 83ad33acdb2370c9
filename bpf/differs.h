/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * differs - what is not the same in all kernels from 5.15 on, one helper each.
 *
 * No helper can help on aarch64 before Linux 5.18: its compiler for these programs knows no atomic
 * operation that has a result, which the numbers of counted processes are drawn by. System calls
 * are not counted there, and why is said.
 *
 * A helper finds out by the running kernel's BTF. What it does not take is dead
 * code there and never looked at by the verifier.
 */
#ifndef PROCTOR_BPF_DIFFERS_H
#define PROCTOR_BPF_DIFFERS_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * Since Linux 6.2 resident pages are counted per CPU, and a sum is due; before, in one
 * place. Asked by the field and not by the old type: for a type that the kernel does not
 * have, libbpf 1.1 looks through all modules, which only root may.
 */
static __always_inline bool has_percpu_rss(void)
{
	return bpf_core_field_exists(((struct mm_struct *)0)->rss_stat[0].counters);
}

/* A count of resident pages (MM_...) before Linux 6.2, as exact as proc/PID/statm was then. */
static __always_inline __s64 plain_rss(struct mm_struct *mm, int k)
{
	struct mm_struct___before_6_2 *old = (void *)mm;
	__s64 n = 0;

	bpf_core_read(&n, sizeof(n), &old->rss_stat.count[k].counter);
	return n;
}

/*
 * Whether who has this memory may be looked into by its user: the lowest two bits of its flags,
 * which have a type of their own since Linux 6.18. A kernel that has neither says nothing.
 */
#define KERNEL_DUMPABLE_MASK 3
#define KERNEL_DUMPABLE_BY_USER 1

static __always_inline bool is_dumpable(const struct mm_struct *mm)
{
	const struct mm_struct___since_6_18 *now = (const void *)mm;
	unsigned long flags = KERNEL_DUMPABLE_BY_USER;

	if (bpf_core_field_exists(now->flags.__mm_flags))
		bpf_core_read(&flags, sizeof(flags), &now->flags.__mm_flags[0]);
	else if (bpf_core_field_exists(mm->flags))
		bpf_core_read(&flags, sizeof(flags), &mm->flags);
	return (flags & KERNEL_DUMPABLE_MASK) == KERNEL_DUMPABLE_BY_USER;
}

/* For tests: what kernels have since 5.17 and can do without is left alone. */
const volatile bool is_as_old;

/* bpf_loop() is there since Linux 5.17. */
enum bpf_func_id___has_loop { BPF_FUNC_loop___has_loop = 181 };

static __always_inline bool has_loop(void)
{
	return !is_as_old &&
	       bpf_core_enum_value_exists(enum bpf_func_id___has_loop, BPF_FUNC_loop___has_loop);
}

/* As libbpf finds it where the program is loaded. */
extern int LINUX_KERNEL_VERSION __kconfig;

/*
 * Before Linux 6.2 a look at what is kept with a task fails if it has interrupted another one on
 * the same CPU: that nothing was found does not mean that there is nothing.
 */
static __always_inline bool storage_may_be_busy(void)
{
	return is_as_old || LINUX_KERNEL_VERSION < 0x60200;
}

/*
 * The number of the memory controller depends on what the kernel was built with.
 * -1: it has none.
 */
enum cgroup_subsys_id___any { memory_cgrp_id___any };

static __always_inline int memory_controller(void)
{
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id___any, memory_cgrp_id___any))
		return -1;
	return bpf_core_enum_value(enum cgroup_subsys_id___any, memory_cgrp_id___any);
}

/*
 * A dying process has its memory still when the tracepoint tells of it, since
 * Linux 6.16; before, there is only the largest of all programs that it ever was.
 */
static __always_inline bool has_memory_at_exit(const struct task_struct *t)
{
	return t->mm != NULL;
}

/* How long t was ready to run and had no CPU; 0: this kernel was built not to count that. */
static __always_inline __u64 cpu_wait_ns(const struct task_struct *t)
{
	return bpf_core_field_exists(t->sched_info.run_delay) ? t->sched_info.run_delay : 0;
}

/*
 * Whether the call that is about to be made goes by the 32-bit table, whose numbers mean other
 * calls: on x86 each call may, on ARM all of a program.
 *
 * On x86 only the thread knows, and asking who runs costs more than counting. But where "syscall"
 * has called, which is by the 64-bit table, it has left the address that it returns to in cx. (Not
 * on processors with FRED, which are asked; and who calls otherwise and puts that there by itself
 * has its own calls named wrongly.)
 */
#define KERNEL_TS_COMPAT 0x2
#define KERNEL_PSR_MODE32 0x10

static __always_inline bool is_compat_call(const struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	const struct task_struct *t;

	if (regs->cx == regs->ip)
		return false;
	t = bpf_get_current_task_btf();
	return bpf_core_field_exists(t->thread_info.status) &&
	       t->thread_info.status & KERNEL_TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	return regs->pstate & KERNEL_PSR_MODE32;
#else
	return false;
#endif
}

/*
 * The call that a thread waits in, by the registers that it called with, and its first arguments.
 * Negative: in none, as in a page fault.
 */
static __always_inline int waiting_call(struct task_struct *t, __u64 args[4])
{
	const struct pt_regs *regs = (void *)bpf_task_pt_regs(t);

#if defined(__TARGET_ARCH_x86)
	args[0] = regs->di;
	args[1] = regs->si;
	args[2] = regs->dx;
	args[3] = regs->r10;
	return (int)regs->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	args[0] = regs->regs[0]; /* once the call returns it is the result */
	args[1] = regs->regs[1];
	args[2] = regs->regs[2];
	args[3] = regs->regs[3];
	return regs->syscallno;
#else
	return -1;
#endif
}

/* Whether it goes by the 32-bit table, of any thread. */
static __always_inline bool is_compat_thread(struct task_struct *t)
{
#if defined(__TARGET_ARCH_x86)
	return bpf_core_field_exists(t->thread_info.status) &&
	       t->thread_info.status & KERNEL_TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	return is_compat_call((void *)bpf_task_pt_regs(t));
#else
	return false;
#endif
}

/* Whether that call is the way out of a signal's handler, of which tables of 32 bits have two. */
static __always_inline bool is_sigreturn(__u32 nr, bool is_compat)
{
#if defined(__TARGET_ARCH_x86)
	const __u32 own = 15;
#else
	const __u32 own = 139;
#endif
	return is_compat ? nr == 119 || nr == 173 : nr == own;
}

#endif
