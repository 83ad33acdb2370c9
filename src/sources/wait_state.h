/*
 * wait_state - what a process does at this moment: it runs, or it waits for something, and maybe
 * for another process.
 *
 * Read from /proc at once, as far as the kernel lets the caller look at the process (the rules of
 * ptrace). A process goes on while it is read: a state is a hint about one moment, not a
 * measurement. Of several threads the one that explains most is taken: one that runs, then one that
 * waits for a named thing, then the rest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mask.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "model/time_ledger.h"

/* The order is that in which threads, and processes of a job, explain what holds it up. */
enum wait_kind {
	WAIT_STOPPED,	/* by a signal, or by a tracer */
	WAIT_FILE_LOCK, /* flock(), fcntl() */
	WAIT_NONE,	/* it runs, or is ready to */
	WAIT_FILE,	/* the disk, a network file system, or the other end of a FIFO to open */
	WAIT_PAGE,	/* a page fault: the program itself, mapped files, swap */
	WAIT_GPU,
	WAIT_SOCKET,
	WAIT_PIPE,
	WAIT_TERMINAL,
	WAIT_FUTEX, /* another thread: a lock, a condition, its end */
	WAIT_TIMER,
	WAIT_OTHER, /* another system call */
	WAIT_SIGNAL,
	WAIT_EVENTS,  /* poll() and the like, on what has no name here */
	WAIT_UNKNOWN, /* it sleeps, and this user may not see in which call */
	WAIT_CHILD,
	WAIT_ZOMBIE,
	N_WAIT_KINDS,
};

#define WAIT_OBJECT_BYTES 256
#define WAIT_CALL_BYTES 24

struct wait_state {
	struct proc_key key;
	pid_t tid; /* the thread that is described */
	char comm[COMM_BYTES];
	char state; /* as in stat: R, S, D, … */
	enum wait_kind kind;
	bool is_write;			/* it waits for room, not for data */
	bool is_listening;		/* a socket that takes connections, or what anyone sends */
	bool is_timed;			/* the call ends by itself after a time */
	char call[WAIT_CALL_BYTES];	/* the system call; "": none, or unknown */
	char object[WAIT_OBJECT_BYTES]; /* path or address, masked; "": none, or unknown */
	uint64_t inode;			/* of a pipe; U64_UNKNOWN */
	size_t n_threads, n_futex;	/* those that were looked at, and those that wait so */
	pid_t other; /* that holds the lock, or has the other end of the pipe; 0: unknown */
	char other_comm[COMM_BYTES]; /* "": it has ended */
};

/* "stopped", "file_lock", …: of JSON. */
const char *wait_kind_name(enum wait_kind kind);

/* Where time in it counts. One that runs: TIME_USER; a zombie: N_TIME_CATEGORIES. */
enum time_category wait_kind_category(enum wait_kind kind);

/*
 * For eBPF (bpf/syscalls.h): of each system call below n, by its number, the category of what it
 * waits for, or how that is found.
 */
void wait_calls_fill(uint8_t *ret, size_t n);

/*
 * What the threads of a process wait for, without names: some ten microseconds for each thread.
 * Looks at max of them; what they share counts once.
 */
struct wait_counts {
	unsigned n[N_WAIT_KINDS];
	unsigned n_threads;   /* that were looked at */
	uint64_t cpu_wait_ns; /* that these were ready to run and got no CPU; U64_UNKNOWN */
};

/* False: it is gone, or may not be seen. */
bool sources_count_waits(int root_fd, const struct proc_key *key, unsigned max,
			 struct wait_counts *ret);

/*
 * The states of these processes, and of pipes between them the processes at the other end. Those
 * that are gone, or are others by now, are left out. Returns how many ret has, at most n; 0 also
 * where it takes longer than a second. A child does it, as memory of a process and files on a
 * server that is gone may hang who reads them: *ret_pid as of child_ask().
 */
size_t sources_read_waits(int root_fd, const struct proc_key *keys, size_t n,
			  const struct mask *mask, struct wait_state *ret, pid_t *ret_pid);

/* Of processes of one tree the one that explains best why the tree is not done; NULL: n is 0. */
const struct wait_state *wait_state_pick(const struct wait_state *states, size_t n);

/* The same in one word, with whom it waits for. */
struct cause wait_state_cause(const struct wait_state *w);

/* "waiting for a lock on /run/x, held by backup.sh (pid 4711)": behind "is" or "was". */
void wait_state_add(struct buf *out, const struct wait_state *w);

/* The kernel's functions that its thread is in, the innermost first, separated by blanks. Nothing:
 * root alone may see them. */
void sources_read_kernel_stack(int root_fd, const struct wait_state *w, struct buf *out);

/* "tar (pid 12)". */
void wait_state_add_process(struct buf *out, const struct wait_state *w);

/* Its fields, without braces. */
void wait_state_write_fields(struct json *j, const struct wait_state *w);
