/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * kernel - the parts of the kernel's own data that the programs here look at.
 *
 * Only names and types count: where a field lies in the kernel that the program
 * is loaded into is found out at that moment, by the kernel's BTF. So nothing of
 * the build host's kernel is needed, and a field that is not named here costs
 * nothing. Layouts that changed between kernels have a second definition whose
 * name ends in "___" and something; who reads them asks differs.h.
 */
#ifndef PROCTOR_BPF_KERNEL_H
#define PROCTOR_BPF_KERNEL_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

#define NULL ((void *)0)

/* ---- what the kernel promises to programs, fixed numbers all ---- */

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_MMAPABLE = 1 << 10,
};

enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

enum {
	BPF_RB_NO_WAKEUP = 1 << 0,
	BPF_RB_FORCE_WAKEUP = 1 << 1,
	BPF_RB_AVAIL_DATA = 0, /* to be asked for */
};

#define PF_KTHREAD 0x00200000
#define KERNEL_TASK_RUNNING 0
#define KERNEL_TASK_UNINTERRUPTIBLE 0x2
#define KERNEL_TASK_STOPPED 0xc	     /* by a signal, or a tracer */
#define KERNEL_PF_FORKNOEXEC 0x40    /* of a task: it has executed no program yet */
#define KERNEL_PF_USER_WORKER 0x4010 /* it runs in the kernel alone, for io_uring and the like */
#define KERNEL_COMM_BYTES 16
#define KERNEL_RLIMIT_NPROC 6
#define KERNEL_RLIMIT_NOFILE 7
#define KERNEL_SIGALRM 14
#define KERNEL_SIGCHLD 17
#define KERNEL_SIGURG 23
#define KERNEL_SIGVTALRM 26
#define KERNEL_SIGPROF 27
#define KERNEL_SIGRTMIN 32
#define KERNEL_SIG_IGN 1
#define KERNEL_SIGNAL_GROUP_EXIT 0x4

/* ---- what lies in its memory ---- */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct percpu_counter {
	__s64 count;
	__s32 *counters;
};

enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES, NR_MM_COUNTERS };

struct inode {
	unsigned short i_mode;
	unsigned int i_flags;
	unsigned int i_rdev;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
};

typedef struct {
	__s64 counter;
} atomic_long_t;

struct mm_struct {
	unsigned long hiwater_rss;
	unsigned long total_vm;
	atomic_long_t pgtables_bytes;
	unsigned long arg_start, arg_end;
	struct file *exe_file;
	unsigned long flags;
	struct percpu_counter rss_stat[NR_MM_COUNTERS];
};

struct mm_flags {
	unsigned long __mm_flags[1];
};

/* Since Linux 6.18. */
struct mm_struct___since_6_18 {
	struct mm_flags flags;
};

/* Before Linux 6.2. */
struct mm_rss_stat {
	atomic_long_t count[NR_MM_COUNTERS];
};

struct mm_struct___before_6_2 {
	struct mm_rss_stat rss_stat;
};

struct task_io_accounting {
	__u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes;
};

struct rlimit {
	unsigned long rlim_cur;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	unsigned int flags;
	atomic_t live;
	int nr_threads;
	int group_exit_code;
	__u64 utime, stime, cutime, cstime;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	unsigned long maxrss;
	struct task_io_accounting ioac;
	unsigned long long sum_sched_runtime;
	struct rlimit rlim[16];
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
};

struct files_struct {
	struct fdtable *fdt;
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

struct cred {
	kuid_t uid, suid, euid;
	kgid_t gid, sgid, egid;
};

/* Whole: of an array that is indexed by a variable the size counts as well. */
struct upid {
	int nr;
	void *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[0];
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct sched_info {
	unsigned long long run_delay;
};

struct thread_info {
	unsigned int status; /* x86 has it */
};

/* What a program had in its registers when it called. */
struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	unsigned long cx, ip, di, si, dx, r10, orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	__u64 regs[31];
	__u64 pstate, orig_x0;
	__s32 syscallno;
#endif
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int exit_state;
	int exit_code;
	int pid, tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct sched_entity se;
	struct sched_info sched_info;
	struct mm_struct *mm;
	__u64 utime, stime;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	__u64 start_boottime;
	__u64 self_exec_id;
	const struct cred *cred;
	char comm[KERNEL_COMM_BYTES];
	struct files_struct *files;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct css_set *cgroups;
	struct task_io_accounting ioac;
};

struct kernel_siginfo {
	int si_code;
};

struct kernfs_node {
	const char *name;
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
};

struct page_counter {
	atomic_long_t usage;
	unsigned long max;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_map;

struct bpf_array {
	void *pptrs[0];
};

#pragma clang attribute pop

#endif
