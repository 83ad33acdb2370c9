/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * life - what the ring buffer holds: births, programs, deaths, signals and OOM kills.
 *
 * Each record begins with struct life_head; its type says which struct it is.
 */
#ifndef PROCTOR_BPF_LIFE_H
#define PROCTOR_BPF_LIFE_H

enum life_record {
	LIFE_RECORD_FORK = 1, /* life_birth */
	LIFE_RECORD_EXEC,     /* life_birth */
	LIFE_RECORD_EXIT,   /* life_death: over, but some of its CPU time may not be counted yet */
	LIFE_RECORD_FREE,   /* life_death: waited for; all is counted, and max_rss_pages is 0 */
	LIFE_RECORD_SIGNAL, /* life_signalled */
	LIFE_RECORD_OOM,    /* life_oom */
};

#define LIFE_NO_COUNT (~0ULL)
#define LIFE_NO_UID (~0U)
#define LIFE_COMM_BYTES 16
#define LIFE_CGROUP_BYTES 64

/* Whether a failing call is kept, and what its arguments name. 0: it is not. */
enum life_call_kind {
	LIFE_CALL_PLAIN = 1,
	LIFE_CALL_FILE,	   /* the first is a file descriptor */
	LIFE_CALL_PATH,	   /* the first is a path */
	LIFE_CALL_AT,	   /* the second is a path */
	LIFE_CALL_ADDRESS, /* the second is an address, the third its length */
};

#define LIFE_CALL_NUMBERS 512 /* system calls with higher numbers are not kept */
#define LIFE_CALLS 8 /* of a process; one half for what was not found, which is mostly noise */
#define LIFE_OBJECT_BYTES 128
#define LIFE_NAME_BYTES 64

/* A call that failed. */
struct life_call {
	__u64 mono_ns; /* 0: this place is free */
	__u16 nr;
	__u16 error;
	__u16 kind; /* enum life_call_kind */
	__u16 len;  /* of object; 0: not known */
	/* A path; an address; or the names on the way from a file to its root, each with a NUL. */
	char object[LIFE_OBJECT_BYTES + LIFE_NAME_BYTES];
};

/* What a process has written to its standard error last; so much of one call at most. */
#define LIFE_SAID_BYTES 512
#define LIFE_SAID_ONCE 256

struct life_calls {
	__u64 said_len; /* of all that was kept; the last of it is in said, a ring */
	char said[LIFE_SAID_BYTES + LIFE_SAID_ONCE];
	__u32 n[2]; /* how many there were, found and not found */
	struct life_call calls[LIFE_CALLS];
};

struct life_head {
	__u32 type;
	__u32 pid;     /* of the process */
	__u64 mono_ns; /* CLOCK_MONOTONIC */
	__u64 tag;     /* what its tree was marked with, or 0 */
	__u64 start_boot_ns;
	char comm[LIFE_COMM_BYTES];
};

struct life_birth {
	struct life_head head;
	__u32 parent_pid;
	__u32 reserved;
};

struct life_death {
	struct life_head head;
	__u32 parent_pid;
	__u32 wait_status;
	__u32 uid; /* whose alone it was; 0: root's, or of several */
	__u32 reserved;
	__u64 user_ns, system_ns; /* in ticks of the kernel */
	__u64 run_ns;		  /* what the scheduler has counted */
	__u64 max_rss_pages;
	__u64 minor_faults, major_faults;
	__u64 rchar, wchar, read_bytes, write_bytes;
};

/* In place of a life_death, where it ended with an error and calls of it had failed. */
struct life_failure {
	struct life_death death;
	struct life_calls calls;
};

struct life_signalled {
	struct life_head head; /* whom it is for */
	__u32 signal;
	__s32 code; /* si_code: 0 kill(), -6 tgkill(), … */
	__u32 is_from_kernel;
	__u32 sender_pid;
	__u64 sender_tag;
	char sender_comm[LIFE_COMM_BYTES];
	__u32 uid; /* as of a death */
	__u32 reserved;
};

struct life_oom {
	struct life_head head;
	__u64 rss_pages;    /* of the victim */
	__u64 cgroup_pages; /* in use by its cgroup, or the one above it that is full; 0: there is
			       none */
	__u64 cgroup_limit_pages;
	__u64 cgroup_id;
	char cgroup[LIFE_CGROUP_BYTES]; /* the last part of its path */
	__u32 uid;			/* as of a death; LIFE_NO_UID: the kernel has it not */
	__u32 reserved;
};

/* Whether the program of a process has rights that its user lacks. */
enum life_rights { LIFE_RIGHTS_UNKNOWN, LIFE_RIGHTS_OWN, LIFE_RIGHTS_MORE };

/* What a tree is marked with; children inherit the tag. */
struct life_mark {
	__u64 tag;
	__u32 rights; /* enum life_rights; LIFE_RIGHTS_UNKNOWN: it has begun before it was marked */
	__u32 reserved;
};

/* A process, also when its pid is used again. */
struct life_key {
	__u64 start_boot_ns;
	__u32 pid;
	__u32 reserved;
};

#endif
