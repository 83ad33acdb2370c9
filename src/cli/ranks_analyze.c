#include "cli/ranks.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cli/output.h"
#include "cli/ranks_page.h"
#include "cli/ranks_recorded.h"

struct options {
	struct ranks_input input;
	struct rank_analysis_options analysis;
	enum ranks_format format;
	const char *path;
	struct ranks_job job;
};

enum { KEY_CLOCK_ERROR = 256 };

static const struct argp_option option_table[] = {
	{ "clock-error", KEY_CLOCK_ERROR, "MS", 0,
	  "How far the clocks of hosts that do not say may be off (10 ms)", 0 },
	{ "format", 'F', "NAME", 0, "text, md, html or json", 0 },
	RANKS_JOB_OPTIONS("The ranks of this job, as they were recorded, instead of files"),
	{ "json", 'J', NULL, 0, "The same as --format json", 0 },
	{ "output", 'o', "FILE", 0, "Write to FILE", 0 },
	{ "skip-invalid", 'S', NULL, 0, "Go on without invalid records", 0 },
	{ 0 },
};

static int64_t parse_clock_error(const struct argp_state *state, const char *arg)
{
	double ms = NAN;

	if (num_parse_f64(arg, &ms) < 0 || !(ms >= 0) || ms > 1e12)
		cli_usage_error(state,
				"--clock-error wants milliseconds such as 2 or 0.5, not '%s'", arg);
	return (int64_t)llround(ms * 1e6);
}

/* Files or a job, and not both. */
static void check_input(const struct argp_state *state, const struct options *o)
{
	if (!o->job.job_id && o->input.n_files == 0)
		cli_usage_error(state,
				"which files? Also folders, and - for standard input; or --job "
				"ID for what was recorded");
	if (o->job.job_id && o->input.n_files > 0)
		cli_usage_error(state, "files or --job, not both");
	if ((o->job.attempt_num > 0 || o->job.store) && !o->job.job_id)
		cli_usage_error(state, "--attempt and --store go with --job");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_CLOCK_ERROR:
		o->analysis.clock_error_ns = parse_clock_error(state, arg);
		return 0;
	case 'F':
		if (ranks_format_from_name(arg, &o->format) < 0)
			cli_usage_error(state,
					"there is no format '%s'; there are text, md, html "
					"and json",
					arg);
		return 0;
	case 'J':
		o->format = RANKS_JSON;
		return 0;
	case 'o':
		if (arg[0] == '\0')
			cli_usage_error(state, "-o wants the name of a file");
		o->path = arg;
		return 0;
	case 'S':
		o->input.skips_invalid = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->input.files = state->argv + state->next;
		o->input.n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_SUCCESS:
		check_input(state, o);
		return 0;
	default:
		return ranks_parse_job_option(&o->job, key, arg, state);
	}
}

const struct argp ranks_analyze_argp = {
	option_table,
	parse_option,
	"FILE...\n--job ID",
	"Tells which rank's memory began to rise first, with what probability, in which phase; or why "
	"that cannot be told, and what would settle it. Reads what \"ranks validate\" reads.",
	NULL,
	NULL,
	NULL,
};

static int analyze(const struct options *o, struct telemetry *t)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	struct rank_analysis a;
	int r = rank_analysis_init(&a, t);

	if (r == 0)
		r = rank_analysis_run(&a, &o->analysis);
	if (r < 0)
		err_set(&err, r, "cannot analyse: %s", strerror(-r));
	else
		r = output_open(&out, o->path, &err);
	if (r == 0)
		r = ranks_write(&out.buf, &a, &o->input, o->format);
	rank_analysis_release(&a);
	return output_end(&out, r, &err);
}

int ranks_analyze(int argc, char **argv)
{
	CLEANUP(telemetry_cleanup) struct telemetry *t = telemetry_new();
	struct options o = { .analysis = { .clock_error_ns = EVENT_UNKNOWN } };
	struct err err = ERR_INIT;
	int status;

	cli_parse(&ranks_analyze_argp, argc, argv, 0, &o);
	o.input.may_be_empty = o.format == RANKS_JSON;
	if (!t) {
		err_set(&err, -ENOMEM, "there is no memory left");
		return cli_fail(CLI_FAILED, &err);
	}
	status = o.job.job_id ? ranks_load_job(&o.job, &o.input, t) : ranks_load(&o.input, t);
	return status == CLI_DONE ? analyze(&o, t) : status;
}
