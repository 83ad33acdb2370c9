/*
 * sub - verbs that have verbs of their own: "proctor export csv", "proctor ranks merge".
 */
#ifndef PROCTOR_CLI_SUB_H
#define PROCTOR_CLI_SUB_H

#include <argp.h>
#include <stddef.h>

struct sub_verb {
	const char *name;
	int (*fn)(int argc, char **argv);
	const struct argp *argp;
	const char *summary;
};

struct sub_table {
	const char *verb;  /* "export" */
	const char *what;  /* what its words are called: "a kind" */
	const char *usage; /* the help's first lines */
	const struct sub_verb *items;
	size_t n;
};

/* Runs the one that argv[1] names, helps, or says what there is. Returns the exit status. */
int sub_run(const struct sub_table *table, int argc, char **argv);

#endif
