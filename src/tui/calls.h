/*
 * calls - the system calls of a process, or of all that is below a node, most frequent first.
 *
 * "-" where nobody counted them, which is not the same as none.
 */
#ifndef PROCTOR_TUI_CALLS_H
#define PROCTOR_TUI_CALLS_H

#include "base/buf.h"
#include "model/snapshot.h"
#include "tui/outline.h"

/* As many as so many columns have room for: "read write futex". */
void calls_name(const struct snapshot *s, const struct node *node, int columns, struct buf *out);

/* With their number, and of a process with their share of the time: "read 1200 (40 % of their CPU
 * time), write 7 (60 %) since the look before". */
void calls_describe(const struct snapshot *s, const struct node *node, struct buf *out);

#endif
