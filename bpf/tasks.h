/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * tasks - what the task iterator writes: one record per process, one per further thread.
 *
 * Records follow each other without a gap, ascending by thread id. Each begins
 * with struct task_head, which says what it is and how long.
 */
#ifndef PROCTOR_BPF_TASKS_H
#define PROCTOR_BPF_TASKS_H

enum task_kind { TASK_PROCESS = 1, TASK_THREAD = 2 };

#define TASK_COMM_BYTES 16
#define TASK_NO_COUNT (~0ULL)

struct task_head {
	__u32 kind;  /* enum task_kind */
	__u32 bytes; /* of the whole record */
	__u32 pid;   /* the process, also for a thread */
	__u32 state; /* the kernel's bits, exit_state among them */
};

/* What each thread counts for itself; a process has the sum of those that have ended in it. */
struct task_counts {
	__u64 user_ns, system_ns; /* in ticks of the kernel, and not adjusted to run_ns */
	__u64 run_ns;		  /* what the scheduler has counted */
	__u64 wait_ns;		  /* ready to run, and without a CPU; threads that ended: 0 */
	__u64 minor_faults, major_faults;
	__u64 voluntary_switches, involuntary_switches;
	__u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes;
};

struct task_thread {
	struct task_head head;
	struct task_counts own;
};

struct task_process {
	struct task_head head;
	struct task_counts own; /* of the first thread, and of those that are gone */

	__u32 parent_pid;
	__u32 threads;
	__u32 uid;    /* effective */
	__u32 ns_pid; /* in its innermost pid namespace */
	__u32 is_kernel_thread;
	__u32 has_memory; /* the seven below say something */
	__u32 ignores_sigchld;
	__u32 has_files;
	__u32 owner; /* whose alone it is; 0: root's, or of several */
	__u32 reserved;

	__u64 start_boot_ns;
	__u64 exec_id;		  /* another one after an exec */
	__u64 arg_start, arg_end; /* where its command line lies; 0 without memory */
	__u64 child_user_ns, child_system_ns;
	__u64 ended_run_ns; /* of own.run_ns, that of threads that are gone */

	__u64 vms_pages, hwm_pages;
	__s64 file_pages, anon_pages, swap_pages, shmem_pages;
	__s64 page_table_bytes;
	__u64 open_fds; /* TASK_NO_COUNT: this kernel's programs cannot count so many */
	__u64 fd_limit, process_limit;
	char comm[TASK_COMM_BYTES];
};

#endif
