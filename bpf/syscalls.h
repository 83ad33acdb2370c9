/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * syscalls - what is counted per process and system call, and how the two sides share it.
 */
#ifndef PROCTOR_BPF_SYSCALLS_H
#define PROCTOR_BPF_SYSCALLS_H

/*
 * A program can call any number. No architecture has a call from here on, so these count as one:
 * nobody can fill the maps with what there is not. -1 (a call that was skipped) is among them.
 */
#define SYSCALL_OTHER 1024

/* Added to the number of a 32-bit call, which is of another table. */
#define SYSCALL_COMPAT 0x8000

/* Every process that is counted has a number of its own: pids are used again. */
struct syscall_key {
	__u32 id;
	__u32 nr; /* of the system call, or SYSCALL_OTHER */
};

/* Where there is no room left to tell processes apart, calls are counted for their whole tree. */
struct syscall_tree_key {
	__u64 tag;
	__u32 nr;
	__u32 reserved;
};

struct syscall_value {
	__u64 count;
	__u64 errors;
	__u64 timed; /* how many of them were timed */
	__u64 ns;    /* the time those took, but for that in which they could run and had no CPU */
	__u64 wait_ns; /* the part of ns in which they slept */
	__u64 squares; /* where only some are timed: of each one's time on a CPU, in these units */
};

/* A process that is counted. */
struct syscall_owner {
	__u64 tag;
	__u64 start_boot_ns;
	__u32 pid;
	__u32 uid; /* whose alone it is; 0: root's, or of several */
};

/*
 * What was counted says itself whose it is: news of a process may be lost. It may become somebody
 * else's, with another program: then whose it was when this call was last made.
 */
struct syscall_entry {
	struct syscall_value value;
	struct syscall_owner owner;
};

#define SYSCALL_SQUARE_UNIT_NS 8
#define SYSCALL_SQUARE_MAX (1ull << 28) /* 2 s: longer ones count as that */

/* In the ring: a process begins or ceases to be counted. */
struct syscall_news {
	struct syscall_owner owner;
	__u32 id;
	__u32 is_end;
};

/*
 * What a thread is doing: enum time_category (model/time_ledger.h), as far as the kernel side has
 * to know. On a CPU is one category here, as where its ticks fell is known of the process alone.
 */
#define SYSCALL_TIME_CPU 0
#define SYSCALL_TIME_CPU_WAIT 2
#define SYSCALL_TIME_DISK 3
#define SYSCALL_TIME_PAGE_FAULT 4
#define SYSCALL_TIME_FILE_LOCK 5
#define SYSCALL_TIME_PIPE 7
#define SYSCALL_TIME_SOCKET 8
#define SYSCALL_TIME_EVENTS 9
#define SYSCALL_TIME_TIMER 12
#define SYSCALL_TIME_GPU 13
#define SYSCALL_TIME_STOPPED 14
#define SYSCALL_TIME_OTHER 15
#define SYSCALL_TIME_UNKNOWN 16
#define SYSCALL_TIMES 17

/* How the category of a call that waits is found, by its number. Below these: it is that one, and
 * 0: none. */
#define SYSCALL_WAITS_FD 64    /* by its first argument, a file */
#define SYSCALL_WAITS_FCNTL 65 /* the second says whether it locks */
#define SYSCALL_WAITS_POLL 66
#define SYSCALL_WAITS_SELECT 67

/* Added to a category, as the number of a call: what of a tree had no room in the ring. */
#define SYSCALL_TREE_TIME 0x10000

/* Kept with every thread. */
struct syscall_times {
	__u64 since_ns;	    /* that it is in its state; 0: it is not counted (any more) */
	__u64 run_delay_ns; /* as the scheduler had counted, when it last lost its CPU */
	__u32 state;	    /* what it does */
	__u32 waited;	    /* what it did before it got its CPU */
	__u64 ns[SYSCALL_TIMES];
};

/* In the ring: where the time of a thread went that ends; and of one that lives, as the iterator
 * writes it. */
struct syscall_thread_times {
	struct syscall_owner owner;
	__u32 id;
	__u32 reserved;
	__u64 ns[SYSCALL_TIMES];
};

/* Whom a thread counts for. */
struct syscall_mark {
	__u32 id;	 /* 0: it is not counted (yet) */
	__u32 is_root;	 /* of a tree: it is of no other, wherever it was started */
	__u32 is_silent; /* what it starts is counted, and itself not, or not yet */
	__u32 reserved;
	struct syscall_owner owner;
};

/* Kept with every thread that is counted. What every call needs stands first, and mark's there. */
struct syscall_thread {
	__u32 nr;
	__u32 is_inside;
	__u32 n_skip;	  /* calls until the next that is timed */
	__u32 is_ready;	  /* the CPU was taken from it */
	__u64 entered_ns; /* 0: the call under way, if there is one, is not timed */
	struct syscall_mark mark;
	__u64 left_ns; /* when it lost its CPU; 0: it has it */
	__u64 wait_ns; /* how long it slept, in the call under way, if that is timed */
};

/* The whole of what is kept with it. The first is copied to its CPU and back. */
struct syscall_kept {
	struct syscall_thread thread;
	struct syscall_times times;
};

/* Calls of one kind that this CPU has counted and not added to the map yet. */
struct syscall_slot {
	struct syscall_key key;
	struct syscall_value value; /* its count is 0: nothing is in it */
	struct syscall_owner owner;
};

#define SYSCALL_SLOTS 16 /* a power of two */

/* Kept with every CPU. What every call needs are 64 bytes, and with them a slot's first 24. */
struct syscall_cpu {
	__u64 task;		      /* where the kernel has that thread; its pid may change */
	__u64 regs;		      /* where it has what it called with; 0: not seen yet */
	__u32 n_marks;		      /* as of when this was looked up */
	__u32 has_slots;	      /* some have something in them */
	struct syscall_thread thread; /* that it runs; its id is 0 if that is not counted */
	struct syscall_slot slots[SYSCALL_SLOTS];
};

#endif
