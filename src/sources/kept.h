/*
 * kept - files of /proc that stay open from one tick to the next.
 *
 * Reading again what is still open costs a third of opening it anew. And an
 * open file of /proc belongs to the process, not to its pid: after the
 * process's death it answers ESRCH, whoever has the pid by then.
 *
 * A file is kept from its second reading on, so that processes seen only once
 * cost nothing, and only while the budget lasts: above it, files are opened,
 * read and closed.
 */
#ifndef PROCTOR_SOURCES_KEPT_H
#define PROCTOR_SOURCES_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kept_budget {
	size_t max;
	size_t used;
	bool is_short; /* an open failed for want of files: close some, keep no more */
};

/* From the soft RLIMIT_NOFILE as it is now, less a reserve for the rest of the program. */
struct kept_budget kept_budget_from_limit(void);

struct kept {
	int fd; /* or one of the two below */
};

#define KEPT_UNREAD (-1)
#define KEPT_READ_ONCE (-2)
#define KEPT_INIT           \
	{                   \
		KEPT_UNREAD \
	}

/* Which file of which process, below the folder proc. */
struct kept_name {
	int proc_fd;
	pid_t pid;
	const char *file; /* "stat" */
};

/* The content into text, as io_pread_text() does. -ESRCH, -ENOENT: the process is gone. */
ssize_t kept_read(struct kept *k, struct kept_budget *budget, struct kept_name name, char *text,
		  size_t size);

/* st_size into *ret, for folders as well. */
int kept_stat_size(struct kept *k, struct kept_budget *budget, struct kept_name name,
		   uint64_t *ret);

/* Closes it if it is open; the next reading counts as the first. */
void kept_close(struct kept *k, struct kept_budget *budget);

#endif
