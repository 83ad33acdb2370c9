/*
 * input - the bytes of a file or pipe, taken out of gzip or zstd where it is in one.
 *
 * Which of them it is the first bytes tell, whatever the name.
 */
#ifndef PROCTOR_CROSSRANK_INPUT_H
#define PROCTOR_CROSSRANK_INPUT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct input;

/* Owns fd from here on, also when it fails. */
int input_open(int fd, struct input **ret);
struct input *input_close(struct input *in); /* NULL is fine. Returns NULL. */

/* At most n bytes; 0 at the end. -EBADMSG: what is compressed is damaged. */
ssize_t input_read(struct input *in, char *to, size_t n);

/* At the end: whether the compressed data stop before they are whole. */
bool input_is_cut(const struct input *in);

#endif
