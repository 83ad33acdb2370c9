/*
 * fd_cache - files of /proc that stay open from one tick to the next.
 *
 * Reading again what is still open costs a third of opening it anew. And an
 * open file of /proc belongs to the process, not to its pid: after the
 * process's death it answers ESRCH, whoever has the pid by then.
 *
 * A file is kept from its second reading on, so that processes seen only once
 * cost nothing, and only while the budget lasts: above it, files are opened,
 * read and closed.
 */
#ifndef PROCTOR_SOURCES_FD_CACHE_H
#define PROCTOR_SOURCES_FD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/mask.h"

struct fd_budget {
	size_t max;
	size_t used;
	bool is_short; /* an open failed for want of files: close some, keep no more */
};

struct fd_cache {
	int fd; /* or one of the two below */
};

#define FD_UNREAD (-1)
#define FD_READ_ONCE (-2)
#define FD_CACHE_INIT     \
	{                 \
		FD_UNREAD \
	}

/* Which file of which process, below the folder proc. */
struct fd_name {
	int proc_fd;
	pid_t pid;
	const char *file; /* "stat" */
};

/* Closes it if it is open; the next reading counts as the first. */
void fd_cache_close(struct fd_cache *k, struct fd_budget *budget);

/* ---- what it takes to read the files of proc/PID, shared by all processes ---- */

/* The longest file is status: with the 65,536 groups that Linux allows it would be cut, and what
 * stands behind them unknown. */
#define READER_TEXT_BYTES (64 * 1024)

struct reader {
	int proc_fd; /* the folder proc; borrowed */
	struct fd_budget budget;
	bool has_fd_size; /* st_size of proc/PID/fd is the number of open files */
	const struct mask *mask;
	uint64_t page_bytes;
	uint64_t (*now_boot_ns)(void);
	struct buf command;
	char *text; /* READER_TEXT_BYTES, what was read last */
	bool has_told_odd_rank;
};

/* Takes mask, page_bytes and now_boot_ns as they stand in r; sets the rest. */
int reader_init(struct reader *r, int proc_fd);
void reader_release(struct reader *r);

/* False for a captured tree. */
bool reader_is_live(const struct reader *r);

/* Reads proc/PID/<file> into r->text, through k or, if that is NULL, once. Returns its length. */
ssize_t reader_read(struct reader *r, struct fd_cache *k, pid_t pid, const char *file);

/* Number of open files of a process; U64_UNKNOWN: not for this user, or it is gone. */
uint64_t reader_count_fds(struct reader *r, struct fd_cache *k, pid_t pid);

#endif
