/*
 * detect_input - {config, history, current} as a file has it, for compat_detect().
 *
 * A key that is absent (or null) has its default, and one that is not known is
 * passed over. A value of another type is refused, with where it stands.
 */
#ifndef PROCTOR_CLI_DETECT_DETECT_INPUT_H
#define PROCTOR_CLI_DETECT_DETECT_INPUT_H

#include <stddef.h>

#include "base/arena.h"
#include "base/config.h"
#include "base/err.h"
#include "detect/detect.h"

struct detect_input {
	struct config_anomaly config;
	struct compat_snapshot *history; /* as the file has them */
	size_t n_history;
	struct compat_snapshot current;
	struct arena arena; /* owns all of it */
};

void detect_input_release(struct detect_input *in);

/* ret is overwritten. name is for messages. -EINVAL, -EBADMSG: not such a document. */
int detect_input_parse(const char *text, size_t len, const char *name, struct detect_input *ret,
		       struct err *err);

/* The same from a file; "-" is standard input. */
int detect_input_load(const char *path, struct detect_input *ret, struct err *err);

#endif
