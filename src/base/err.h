/*
 * err - one full sentence about what went wrong, travelling beside a negative errno.
 *
 * Inner code fills it and returns; the edge (cli, daemon) prints it, once.
 * Every function that takes a struct err accepts NULL.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

struct err {
	int code; /* negative errno, 0 while nothing went wrong */
	char text[512];
	size_t fact_len; /* of text: behind it is what to do about it; 0: all of it is the fact */
};

#define ERR_INIT         \
	{                \
		0, "", 0 \
	}

/* Sets code and text, returns code: return err_set(err, -EINVAL, "…"). Long text is cut. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/*
 * Adds what to do about it to the text, behind a colon; for a record, where
 * advice comes too late, err_fact_len() says how much of the text is without it.
 */
void err_advise(struct err *err, const char *advice);
size_t err_fact_len(const struct err *err);
