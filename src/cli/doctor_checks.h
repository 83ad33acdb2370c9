/*
 * doctor_checks - what doctor looks at beside the rungs: this machine, and proctor's own files.
 */
#ifndef PROCTOR_CLI_DOCTOR_CHECKS_H
#define PROCTOR_CLI_DOCTOR_CHECKS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/settings.h"
#include "cli/doctor_rungs.h"
#include "model/snapshot.h"

enum health { HEALTH_OK, HEALTH_NOTE, HEALTH_BROKEN };

/* What the checks look at. */
struct patient {
	struct paths paths;
	struct err paths_err; /* code 0: paths is good */
	struct config config;
	struct err config_err; /* code 0: config is what the file says */
	int root_fd;
	struct snapshot snap; /* of the host alone */
	struct doctor_rungs rungs;
	struct arena arena;
};

/* detail gets what was found, in words; the lines behind its first stand below that. */
struct doctor_check {
	const char *name;
	enum health (*fn)(struct patient *p, struct buf *detail);
};

/* In the order in which they are told. That of the GPUs fills in their rungs. */
#define DOCTOR_N_CHECKS 9
extern const struct doctor_check doctor_checks[DOCTOR_N_CHECKS];

#endif
