/*
 * ranks - what "proctor ranks validate", "merge" and "analyze" share.
 */
#ifndef PROCTOR_CLI_RANKS_H
#define PROCTOR_CLI_RANKS_H

#include "cli/cli.h"
#include "crossrank/crossrank.h"

extern const struct argp ranks_validate_argp, ranks_merge_argp, ranks_analyze_argp;
cli_verb ranks_validate, ranks_merge, ranks_analyze;

/* The files of a command line, and what came of them. */
struct ranks_input {
	char **files;
	int n_files;
	bool skips_invalid;
	bool may_be_empty; /* for whoever writes down that there was nothing */
	/* After ranks_load(). */
	uint64_t n_read, n_valid, n_invalid, n_cut;
};

/*
 * Reads all files into t. Faults are told on stderr, the first few of them one by
 * one. CLI_DONE; CLI_USAGE: there are invalid records, and nobody said to skip them, a
 * file is not there, or there is no record at all and that may not be. A record that the end of its
 * file cut off is told and no more.
 */
int ranks_load(struct ranks_input *input, struct telemetry *t);

/* Says that none of n files has a record in it. */
void ranks_tell_empty(uint64_t n_files);

#endif
