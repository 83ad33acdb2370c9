/*
 * jobs - reads job files, runs their commands, and knows whose each process is.
 */
#pragma once

#include "base/err.h"
#include "base/mask.h"
#include "jobs/account.h"
#include "jobs/orphans.h"
#include "jobs/runner.h"
#include "jobs/tally.h"
#include "jobs/membership.h"
#include "model/job.h"

/*
 * Reads and checks a job file:
 *
 *	job_id: nightly            # optional
 *	limits: {memory: 8G, pids: 200, cpus: 2} # optional, for all sheets together
 *	sheets:                    # at least one
 *	  - run: make all          # for the shell; or a list: [make, all]
 *	    name: build            # all from here on are optional
 *	    workdir: src           # must be there; relative to where proctor runs
 *	    env: {CC: gcc}
 *	    retries: 2             # 0 to 100 further tries
 *	    timeout: 30m           # per try
 *	    on_failure: continue   # or stop, the default
 *	    ranks: 4               # 1 to 1024 copies with RANK, LOCAL_RANK, WORLD_SIZE
 *
 * ret is filled from scratch; job_spec_release() it after success. -EINVAL: err
 * names the file, the line and what would be right. Nothing has run by then.
 */
int job_file_load(const char *path, struct job_spec *ret, struct err *err);

/*
 * The same from text; name stands for the file in messages. The folders of a job that runs
 * elsewhere, or as another user (is_here is false), are not looked at.
 */
int job_file_parse(const char *text, size_t len, const char *name, bool is_here,
		   struct job_spec *ret, struct err *err);

/* ---- what makes two jobs the same: their commands, and what these are given ---- */

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
