/*
 * known - what the collector remembers of one process from tick to tick.
 *
 * Its open files, its last CPU time (for the percentage), and what changes so
 * seldom that it is not read every time: command line, limit of files, cgroup.
 */
#ifndef PROCTOR_SOURCES_KNOWN_H
#define PROCTOR_SOURCES_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "model/snapshot.h"
#include "sources/kept.h"
#include "sources/parse_process.h"
#include "sources/reader.h"

/* After so many fills everything is read again, whatever seems unchanged. */
#define KNOWN_REFRESH_FILLS 60

struct known {
	struct proc_key key;
	struct kept stat_file, statm_file, schedstat_file, io_file, status_file, fd_file;

	uint64_t start_wall_ns;
	uint64_t cpu_ns; /* used until boot_ns; U64_UNKNOWN before the first sample */
	uint64_t boot_ns;

	uint64_t image; /* see struct pid_stat */
	bool is_due;	/* the three below are to be read */
	char *command, *cgroup;
	uint64_t fd_limit;

	/* As they were read one after the other, schedstat first; see known_fill(). */
	bool has_usage;
	struct pid_schedstat schedstat;
	struct pid_statm statm;
	struct pid_io io;
	struct pid_status status;
	uint64_t open_fds;
};

/* NULL when memory runs out. */
struct known *known_new(pid_t pid);
struct known *known_free(struct known *k, struct kept_budget *budget);

void known_close_files(struct known *k, struct kept_budget *budget);

/*
 * Everything that stat does not say. Files that cannot be read leave their
 * values unknown.
 *
 * Most processes sleep through most ticks, and status is the dear file (as much
 * as all others together). A process with one thread that has not had a CPU
 * since its files were read (schedstat tells, to the nanosecond) cannot have
 * changed its I/O, switches, user or open files: those are carried over. Its
 * memory the kernel may have taken all the same, so statm is read always, and
 * status is unless statm says the same as before. What could slip through is a
 * change made by others that leaves the same sizes: memory shared by vfork(),
 * files by CLONE_FILES. Every KNOWN_REFRESH_FILLS everything is read.
 */
void known_fill(struct known *k, struct reader *r, struct proc_sample *p, struct arena *arena);

#endif
