/*
 * err - one full sentence about what went wrong, travelling beside a negative errno.
 *
 * Inner code fills it and returns; the edge (cli, daemon) prints it, once.
 * Every function that takes a struct err accepts NULL.
 */
#ifndef PROCTOR_BASE_ERR_H
#define PROCTOR_BASE_ERR_H

#include "base/macros.h"

struct err {
	int code; /* negative errno, 0 while nothing went wrong */
	char text[512];
};

#define ERR_INIT      \
	{             \
		0, "" \
	}

/* Sets code and text, returns code: return err_set(err, -EINVAL, "…"). Long text is cut. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
