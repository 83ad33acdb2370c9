/*
 * alive - whether a process that was noted down earlier is still there.
 *
 * A pid alone says nothing, as pids are reused: it takes the boot id and the
 * start time (field 22 of proc/PID/stat, in clock ticks) too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define ALIVE_BOOT_ID_BYTES 37 /* 36 characters and a NUL */

/*
 * The root directory, for what is read below it. -EXDEV: /proc shows another pid namespace than
 * ours, so its numbers are those of other processes and it must not be used; err says so.
 */
int proc_open_root(struct err *err);
#define PROC_IS_FOREIGN "/proc shows the processes of another pid namespace"

/* Of the running kernel; "" where it cannot be read. */
void proc_boot_id(char ret[ALIVE_BOOT_ID_BYTES]);

/* A file of proc/PID, as io_read_text_at(); root_fd may be AT_FDCWD: that of this process. */
ssize_t proc_read_text(int root_fd, pid_t pid, const char *file, char *text, size_t size);

/* What it calls itself, which may be anything, as it may be shown; nothing where the kernel does
 * not report it.
 */
void proc_add_name(struct buf *out, int root_fd, pid_t pid);

/* Whether it runs the same program as this process: a proctor. */
bool proc_is_own_program(pid_t pid);

/* -ENOENT, -ESRCH: no such process. */
int proc_start_ticks(pid_t pid, uint64_t *ret);

/* Whether it is this process's parent, or a parent of that, and so on. */
bool proc_is_ancestor(pid_t pid);

/*
 * False when the machine has booted anew since, when the pid is free or is now
 * another process's, and for a zombie: it will do nothing any more. What cannot
 * be told (boot_id "", start_ticks U64_UNKNOWN, a file that cannot be read) does
 * not count against it.
 */
bool proc_is_alive(const char *boot_id, pid_t pid, uint64_t start_ticks);

/* The same below a root directory: a captured tree. */
bool proc_is_alive_at(int root_fd, const char *boot_id, pid_t pid, uint64_t start_ticks);

/*
 * State and start time (fields 3 and 22) of the text of proc/PID/stat. The state is '?' where the
 * first thread has ended and others go on: the process has not. -EINVAL: it is none.
 */
int alive_parse_stat(const char *text, char *ret_state, uint64_t *ret_start_ticks);
