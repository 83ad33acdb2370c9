/*
 * input - the bytes of a file or pipe, taken out of gzip or zstd where it is in one.
 *
 * Which of them it is the first bytes tell, whatever the name.
 */
#ifndef PROCTOR_CROSSRANK_READING_INPUT_H
#define PROCTOR_CROSSRANK_READING_INPUT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct input;

/* Owns fd from here on, also when it fails. */
int input_open(int fd, struct input **ret);
struct input *input_close(struct input *in); /* NULL is fine. Returns NULL. */

/* At most n bytes; 0 at the end, also where damage is it. */
ssize_t input_read(struct input *in, char *to, size_t n);

/* How compressed data ended, once there are no more; what is not compressed is whole. */
enum input_end {
	INPUT_WHOLE,
	INPUT_CUT, /* before they are whole: all that came out is good */
	/* Some of what came out just before may be wrong, or what follows it is something else than
	   zeros: nobody knows how much is lost. */
	INPUT_DAMAGED,
	INPUT_LARGE_WINDOW, /* it takes more than 128 MiB to take out any of it */
};
enum input_end input_end(const struct input *in);

#endif
