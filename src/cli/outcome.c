#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define NOTE_MAX_BYTES 1000

struct outcome_args {
	const char *job_id, *word, *note;
	enum outcome outcome; /* OUTCOME_NONE: what was measured */
	int attempt_num;      /* 0: the latest */
};

#define ASK "which job, and what came of it? proctor outcome JOB success|failure|measured"

static const struct argp_option outcome_options[] = {
	CLI_OPTION("note", outcome_args, note, "TEXT", "Why"),
	CLI_WORD(outcome_args, job_id, ASK),
	CLI_WORD(outcome_args, word, ASK),
	CLI_OPTION("attempt", outcome_args, attempt_num, "N",
		   "The job's Nth attempt instead of its latest"),
	{ 0 },
};

static const struct argp outcome_argp = {
	.options = outcome_options,
	.args_doc = "JOB success|failure|measured",
	.doc = "Says what came of a job that has ended, where its exit status does not: one that exits "
	       "with 0 can still be wrong. Everything that asks how jobs ended goes by it; what was "
	       "measured is kept beside it, and \"measured\" goes back to that.",
};

int cli_outcome(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(attempt_release) struct attempt a;
	struct store_verdict verdict = { .uid = geteuid(), .wall_ns = clock_wall_ns() };
	struct outcome_args args = { 0 };
	struct err err = ERR_INIT;
	struct paths paths;
	int r;

	attempt_init(&a);
	cli_parse(&outcome_argp, argc, argv, 0, &args);
	if (strcmp(args.word, "measured") != 0)
		args.outcome = outcome_from_name(args.word);
	if (args.outcome == OUTCOME_NONE
		    ? strcmp(args.word, "measured") != 0
		    : args.outcome != OUTCOME_SUCCESS && args.outcome != OUTCOME_FAILURE)
		cli_reject(argv, "an outcome is success, failure or measured, not '%s'", args.word);
	if (args.note && args.outcome == OUTCOME_NONE)
		cli_reject(argv, "what was measured takes no --note");
	if (args.note && strlen(args.note) > NOTE_MAX_BYTES)
		cli_reject(argv, "--note takes at most %d bytes", NOTE_MAX_BYTES);
	r = cli_find_paths(&paths, &err);
	if (r == 0)
		r = cli_open_store(&paths, STORE_WRITE, &store, &err);
	verdict.outcome = args.outcome;
	verdict.note = args.note;
	if (r == 0 && args.outcome == OUTCOME_NONE)
		r = store_restore_outcome(store, args.job_id, args.attempt_num, &err);
	else if (r == 0)
		r = store_set_outcome(store, args.job_id, args.attempt_num, &verdict, &err);
	if (r == 0)
		r = store_read_progress(store, args.job_id, args.attempt_num, &a, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	cli_add_text(&out, a.job_id, SIZE_MAX);
	buf_printf(&out, " attempt %d: %s, as %s\n", a.attempt_num,
		   a.outcome ? outcome_name(a.outcome) : "unknown",
		   args.outcome == OUTCOME_NONE ? "measured" : "you say");
	return cli_print(&out);
}
