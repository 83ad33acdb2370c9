#include "cli/ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/sub.h"

#define MAX_TOLD 20 /* faults that are told one by one */

/* One row per action: its name, its function, its options, and its line in "ranks --help". */
static const struct sub_verb actions[] = {
	{ "analyze", ranks_analyze, &ranks_analyze_argp, "tell which rank's memory rose first" },
	{ "merge", ranks_merge, &ranks_merge_argp,
	  "print the samples of all ranks on one time line" },
	{ "validate", ranks_validate, &ranks_validate_argp, "check every record" },
};

int cli_ranks(int argc, char **argv)
{
	static const struct sub_table table = {
		.verb = "ranks",
		.what = "an action",
		.usage = "Usage: proctor ranks ACTION [OPTION...] FILE...\n"
			 "Analyses telemetry of a job of many ranks. The actions:\n\n",
		.items = actions,
		.n = ARRAY_SIZE(actions),
	};

	return sub_run(&table, argc, argv);
}

/* ---- reading ---- */

static int tell_fault(void *ctx, const struct fault *fault)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	uint64_t *n_told = ctx;

	if ((*n_told)++ >= MAX_TOLD)
		return 0;
	fault_add_text(&text, fault);
	log_error("%s", text.data);
	return buf_error(&text);
}

void ranks_tell_empty(uint64_t n_files)
{
	if (n_files == 1)
		log_error("there is no record in the file");
	else
		log_error("there is no record in any of the %llu files",
			  (unsigned long long)n_files);
}

static int judge(const struct ranks_input *input, uint64_t n_told)
{
	if (n_told > MAX_TOLD)
		log_error("and %llu more", (unsigned long long)(n_told - MAX_TOLD));
	if (input->n_invalid + input->n_valid + input->n_cut == 0) {
		ranks_tell_empty(input->n_read);
		return input->may_be_empty ? CLI_DONE : CLI_USAGE;
	}
	if (input->n_valid == 0 && (input->n_invalid == 0 || input->skips_invalid)) {
		log_error("there is no valid record left");
		return CLI_USAGE;
	}
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
