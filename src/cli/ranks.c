#include "cli/ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/suggest.h"
#include "base/utf8.h"

#define MAX_TOLD 20 /* faults that are told one by one */

/* One row per action: its name, its function, its options, and its line in "ranks --help". */
static const struct {
	const char *name;
	cli_verb *fn;
	const struct argp *argp;
	const char *summary;
} actions[] = {
	{ "analyze", ranks_analyze, &ranks_analyze_argp, "tell which rank's memory rose first" },
	{ "merge", ranks_merge, &ranks_merge_argp,
	  "print the samples of all ranks on one time line" },
	{ "validate", ranks_validate, &ranks_validate_argp, "check every record" },
};

static void name_action(size_t i, char name[64])
{
	snprintf(name, 64, "proctor ranks %s", actions[i].name);
}

static int print_help(void)
{
	fputs("Usage: proctor ranks ACTION [OPTION...] FILE...\n"
	      "Analyses telemetry of a job of many ranks. The actions:\n\n",
	      stdout);
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		printf("  %-10s %s\n", actions[i].name, actions[i].summary);
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		char name[64];

		name_action(i, name);
		putchar('\n');
		argp_help(actions[i].argp, stdout, ARGP_HELP_STD_HELP, name);
	}
	return CLI_DONE;
}

static int tell_actions(const char *name)
{
	struct suggest near = suggest_for(name ? name : "");
	CLEANUP(buf_release) struct buf list = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		suggest_offer(&near, actions[i].name);
		buf_printf(&list, "%s%s", i > 0 ? ", " : "", actions[i].name);
	}
	if (!name)
		log_error("do what with the ranks? There is: %s (see \"proctor ranks --help\")",
			  list.data);
	else if (name[0] == '-')
		log_error("ranks wants an action before '%s'; there is: %s", name, list.data);
	else
		log_error("there is no \"ranks %s\"; %s%s%sthere is: %s", name,
			  near.best ? "did you mean '" : "", near.best ? near.best : "",
			  near.best ? "'? " : "", list.data);
	return CLI_USAGE;
}

static bool is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "--usage") == 0 || strcmp(arg, "-?") == 0;
}

int cli_ranks(int argc, char **argv)
{
	if (argc > 1 && is_help(argv[1]))
		return print_help();
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(actions); i++) {
		char name[64];

		if (strcmp(argv[1], actions[i].name) != 0)
			continue;
		name_action(i, name);
		argv[1] = name;
		return actions[i].fn(argc - 1, argv + 1);
	}
	return tell_actions(argc > 1 ? argv[1] : NULL);
}

/* ---- reading ---- */

static int tell_fault(void *ctx, const struct fault *fault)
{
	uint64_t *n_told = ctx;
	char name[UTF8_QUOTED_BYTES];

	if ((*n_told)++ >= MAX_TOLD)
		return 0;
	log_error("%s:%llu: %s (%s)%s", utf8_quote(fault->file, name),
		  (unsigned long long)fault->line, reason_in_words(fault->reason),
		  reason_name(fault->reason),
		  fault->is_cut ? ": the file ends in it, only this record is lost" : "");
	return 0;
}

static int judge(const struct ranks_input *input, uint64_t n_told)
{
	if (n_told > MAX_TOLD)
		log_error("and %llu more", (unsigned long long)(n_told - MAX_TOLD));
	if (input->n_invalid == 0 || input->skips_invalid)
		return CLI_DONE;
	log_error("%llu of %llu records are invalid; --skip-invalid goes on without them",
		  (unsigned long long)input->n_invalid,
		  (unsigned long long)(input->n_invalid + input->n_valid + input->n_cut));
	return CLI_USAGE;
}

int ranks_load(struct ranks_input *input, struct telemetry *t)
{
	struct err err = ERR_INIT;
	struct intake intake;
	uint64_t n_told = 0;
	int r = intake_init(&intake, t, tell_fault, &n_told);

	for (int i = 0; r == 0 && i < input->n_files; i++)
		r = intake_read(&intake, input->files[i], &err);
	input->n_read = intake.n_files;
	input->n_valid = intake.n_valid;
	input->n_invalid = intake.n_invalid;
	input->n_cut = intake.n_cut;
	intake_release(&intake);
	if (r < 0 && err.code == 0)
		err_set(&err, r, "cannot read the telemetry: %s", strerror(-r));
	return r < 0 ? cli_fail(CLI_USAGE, &err) : judge(input, n_told);
}
