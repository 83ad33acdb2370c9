#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define NOTE_MAX_BYTES 1000

enum outcome_key { KEY_NOTE = 256, KEY_ATTEMPT };

struct outcome_args {
	const char *job_id, *note;
	enum outcome outcome;
	int attempt_num; /* 0: the latest */
};

static const struct argp_option outcome_options[] = {
	{ "note", KEY_NOTE, "TEXT", 0, "Why", 0 },
	{ "attempt", KEY_ATTEMPT, "N", 0, "The job's Nth attempt instead of its latest", 0 },
	{ 0 },
};

static void parse_word(struct argp_state *state, struct outcome_args *args, const char *word)
{
	if (!args->job_id) {
		args->job_id = word;
		return;
	}
	if (args->outcome != OUTCOME_NONE)
		cli_usage_error(state, "'%s' is one word too many; a note goes behind --note",
				word);
	args->outcome = outcome_from_name(word);
	if (args->outcome != OUTCOME_SUCCESS && args->outcome != OUTCOME_FAILURE)
		cli_usage_error(state, "an outcome is success or failure, not '%s'", word);
}

static error_t parse_outcome_option(int key, char *arg, struct argp_state *state)
{
	struct outcome_args *args = state->input;

	switch (key) {
	case KEY_NOTE:
		if (strlen(arg) > NOTE_MAX_BYTES)
			cli_usage_error(state, "--note takes at most %d bytes", NOTE_MAX_BYTES);
		args->note = arg;
		return 0;
	case KEY_ATTEMPT:
		args->attempt_num = cli_parse_int(state, "--attempt", arg, 1, 1000000000);
		return 0;
	case ARGP_KEY_ARG:
		parse_word(state, args, arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->job_id || args->outcome == OUTCOME_NONE)
			cli_usage_error(
				state,
				"which job, and what came of it? proctor outcome JOB success|failure");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp outcome_argp = {
	.options = outcome_options,
	.parser = parse_outcome_option,
	.args_doc = "JOB success|failure",
	.doc = "Says what came of a job that has ended, where its exit status does not: one that exits "
	       "with 0 can still be wrong. Everything that asks how jobs ended goes by it; what was "
	       "measured is kept beside it.",
};

int cli_outcome(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct outcome_args args = { 0 };
	struct store_verdict verdict;
	struct err err = ERR_INIT;
	struct paths paths;
	int r;

	cli_parse(&outcome_argp, argc, argv, 0, &args);
	verdict = (struct store_verdict){ args.outcome, args.note, geteuid(), clock_wall_ns() };
	r = cli_find_paths(&paths, &err);
	if (r == 0)
		r = cli_open_store_to_write(&paths, &store, &err);
	if (r == 0)
		r = store_set_outcome(store, args.job_id, args.attempt_num, &verdict, &err);
	return r < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
}
