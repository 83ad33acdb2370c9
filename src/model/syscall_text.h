/*
 * syscall_text - what a process has called, as one line of text: "read 10 1 2000 -;futex 3 0 5 90".
 *
 * For each call its name, how often, errors, nanoseconds on a CPU and without one; - is unknown.
 */
#ifndef PROCTOR_MODEL_SYSCALL_TEXT_H
#define PROCTOR_MODEL_SYSCALL_TEXT_H

#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/snapshot.h"

void syscall_text_write(struct buf *out, const struct syscall_use *uses, size_t n);

/* Into the arena; the text may be anything. -EBADMSG: it is not of this kind; -ENOMEM. */
int syscall_text_read(const char *text, struct arena *arena, struct syscall_use **ret,
		      size_t *ret_n);

#endif
