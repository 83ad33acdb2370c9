/*
 * phase_owner - whose a phase is that "proctor phase" marks, and whose it may be to leave it.
 *
 * The program is gone at once, and often so is the shell that called it: the "sh -c" of a
 * program's system(). What such a shell says is said for the program above it.
 */
#pragma once

#include <stdbool.h>

#include "store/store.h"

/* proc/PID/cmdline, of n bytes: a shell that runs a text and no file ("sh -c"). */
bool phase_is_text_shell(const char *cmdline, size_t n);

/*
 * The process that pid marks a phase for: itself, or what has started it, if it is a shell that
 * runs a text. It goes no higher than to the first process of a rank or of the job, whose runner is
 * named. pid itself where nothing can be read.
 */
pid_t phase_owner_find(int root_fd, pid_t pid, pid_t runner);

/* A phase_kin_fn. ctx: an int, the root directory. */
bool phase_are_kin(void *ctx, pid_t a, pid_t b);

/* A mark that was refused, as one sentence; returns its result. name: as it is to be told. */
int phase_refuse(const struct phase_mark *mark, const char *job_id, const char *name,
		 struct err *err);
