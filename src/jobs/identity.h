/*
 * identity - what makes two jobs the same: their commands, and what these are given.
 */
#ifndef PROCTOR_JOBS_IDENTITY_H
#define PROCTOR_JOBS_IDENTITY_H

#include <stdint.h>

#include "base/mask.h"
#include "model/job.h"

/* Of all commands as they are shown: a new token does not make a new kind of job. */
uint64_t job_spec_hash(const struct job_spec *spec, const struct mask *mask);

/* The files that a job is given. */
struct job_input {
	uint64_t bytes; /* of all of them; U64_UNKNOWN: it names none */
	uint64_t hash;	/* of their names, sizes and times of change; 0: it names none */
};

/*
 * Looks at the words of the commands (of "--data=FILE" at what follows the "=") that
 * name files, at most 4096 of each. Nothing is opened.
 */
struct job_input job_spec_measure_input(const struct job_spec *spec);

#endif
