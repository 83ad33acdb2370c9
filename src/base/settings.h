/*
 * settings - where things are and how they are wanted: what a verb begins with,
 * and what the daemon reads again when it is told to.
 */
#ifndef PROCTOR_BASE_SETTINGS_H
#define PROCTOR_BASE_SETTINGS_H

#include "base/config.h"
#include "base/err.h"
#include "base/mask.h"
#include "base/path.h"

struct settings {
	struct paths paths; /* with what the configuration says of them */
	struct config config;
	struct mask *mask; /* NULL: the user wants none */
};

/* From the environment and the configuration; a bad file is an error. */
int settings_open(struct settings *ret, struct err *err);
/* As config_load_loosely() reads it. */
int settings_open_loosely(struct settings *ret, struct buf *slips, struct err *err);
void settings_close(struct settings *s); /* also after a failure, and a second time */

/*
 * Puts the record and the log where c, read from file, says. -EINVAL, with file and line: another
 * of proctor's files is at that place (its configuration, socket, what the daemon says), which one
 * of the two would spoil; or the record would be a folder.
 */
int settings_place(struct paths *p, const char *file, const struct config *c, struct err *err);

#endif
