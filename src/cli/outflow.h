/*
 * outflow - standard output that does not keep its writer waiting.
 *
 * Whoever reads it may stop ("| less") while the writer holds on to something that
 * others need. What nobody takes within a second goes into a file without a
 * name, and from there to the reader when the writer is done.
 */
#ifndef PROCTOR_CLI_OUTFLOW_H
#define PROCTOR_CLI_OUTFLOW_H

#include <stddef.h>
#include <stdio.h>

struct outflow {
	FILE *kept; /* NULL while the reader keeps up */
};

/* A negative errno; -EPIPE: the reader is gone. */
int outflow_write(struct outflow *flow, const void *bytes, size_t n);

/* Hands over what was kept, however long it takes. */
int outflow_finish(struct outflow *flow);

void outflow_release(struct outflow *flow);

#endif
