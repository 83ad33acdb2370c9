/*
 * reader - what it takes to read the files of proc/PID, shared by all processes.
 */
#ifndef PROCTOR_SOURCES_READER_H
#define PROCTOR_SOURCES_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mask.h"
#include "sources/kept.h"

/* The longest file is status: with the 65,536 groups that Linux allows it would be cut, and what
 * stands behind them unknown. */
#define READER_TEXT_BYTES (64 * 1024)

struct reader {
	int proc_fd; /* the folder proc; borrowed */
	struct kept_budget budget;
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
ssize_t reader_read(struct reader *r, struct kept *k, pid_t pid, const char *file);

/* Number of open files of a process; U64_UNKNOWN: not for this user, or it is gone. */
uint64_t reader_count_fds(struct reader *r, struct kept *k, pid_t pid);

#endif
