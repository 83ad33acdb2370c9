#include "cli/run_args.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "cli/cli.h"

#define INTERVAL_MIN_SECONDS 0.1
#define INTERVAL_MAX_SECONDS 300.0
#define PATIENCE_MAX_SECONDS 86400.0

enum run_key {
	KEY_SHEET = 256,
	KEY_SYSCALLS,
	KEY_JSON,
	KEY_OUTPUT,
	KEY_LEAVE,
	KEY_GRACE,
	KEY_KILL_AFTER,
	KEY_REPORT,
};

static const struct argp_option run_argp_options[] = {
	{ "file", 'f', "FILE", 0, "Run the sheets of a job file instead of one command", 0 },
	{ "job", 'j', "ID", 0, "Name the job; running it again makes another attempt of it", 0 },
	{ "sheet", KEY_SHEET, "N", 0, "Number the command as sheet N (1 if not given)", 0 },
	{ "interval", 'i', "SECONDS", 0, "Time between two samples, 0.1 to 300 (5)", 0 },
	{ "syscalls", KEY_SYSCALLS, "HOW", 0,
	  "How to count system calls: auto (by eBPF where this user or a daemon of root may), ebpf, "
	  "sampled (the same with times of one call in 16, at less cost), strace (tens of times "
	  "slower; setuid programs get no rights, unless for root), or off. Without it a daemon "
	  "counts them, or strace where the configuration has strace_enabled",
	  0 },
	{ "json", KEY_JSON, NULL, 0, "Write the whole report as JSON to stdout at the end", 0 },
	{ "output", KEY_OUTPUT, "FILE", 0, "Write that JSON to FILE instead; - is stdout", 0 },
	{ "report", KEY_REPORT, NULL, 0, "Print the report for people to stdout at the end", 0 },
	{ "quiet", 'q', NULL, 0, "No summary, no progress bar, no warnings", 0 },
	{ "leave-background", KEY_LEAVE, NULL, 0,
	  "Leave processes running that outlive the command; without it they are ended", 0 },
	{ "grace", KEY_GRACE, "TIME", 0,
	  "Wait so long for background processes to end by themselves, such as 30s (2s)", 0 },
	{ "kill-after", KEY_KILL_AFTER, "TIME", 0,
	  "From SIGTERM to SIGKILL when processes are ended, such as 30s (5s)", 0 },
	{ 0 },
};

static void parse_interval(struct argp_state *state, const char *text, double *ret)
{
	if (num_parse_f64(text, ret) < 0 || *ret < INTERVAL_MIN_SECONDS ||
	    *ret > INTERVAL_MAX_SECONDS)
		cli_usage_error(state, "--interval wants seconds from 0.1 to 300, not '%s'", text);
}

/* "0" and "0s" too: no patience at all. */
static double parse_patience(struct argp_state *state, const char *option, const char *text)
{
	double seconds = NAN;

	if (num_parse_duration(text, &seconds) < 0 || !(seconds >= 0) ||
	    seconds > PATIENCE_MAX_SECONDS)
		cli_usage_error(state,
				"%s wants a length of time from 0s to 1d, such as 30s, not '%s'",
				option, text);
	return seconds;
}

static void parse_job_id(struct argp_state *state, const char *text, const char **ret)
{
	if (!job_id_is_valid(text))
		cli_usage_error(
			state,
			"--job wants up to %d letters, digits or . _ - : / @ +, not starting with '-' or "
			"'.', not '%s'",
			JOB_ID_MAX, text);
	*ret = text;
}

static void parse_syscalls(struct argp_state *state, const char *text, struct run_args *args)
{
	static const struct {
		const char *name;
		enum run_syscalls_how how;
		bool is_sampled;
	} rows[] = {
		{ "auto", RUN_SYSCALLS_AUTO, false },	{ "ebpf", RUN_SYSCALLS_EBPF, false },
		{ "sampled", RUN_SYSCALLS_EBPF, true }, { "strace", RUN_SYSCALLS_STRACE, false },
		{ "off", RUN_SYSCALLS_OFF, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(text, rows[i].name) == 0) {
			args->syscalls = rows[i].how;
			args->is_sampled = rows[i].is_sampled;
			return;
		}
	cli_usage_error(state, "--syscalls wants auto, ebpf, sampled, strace or off, not '%s'",
			text);
}

/* What must be said about the arguments as a whole. */
static void check_args(struct argp_state *state, const struct run_args *args)
{
	if (!args->file && args->n_command == 0)
		cli_usage_error(state,
				"what shall be run? proctor run -- COMMAND [ARG...], or -f FILE");
	if (args->file && args->n_command > 0)
		cli_usage_error(state, "either -f FILE or a command, not both");
	if (args->file && args->sheet_num > 0)
		cli_usage_error(
			state, "--sheet goes with a command; a job file numbers its sheets itself");
	if (args->json && args->report && !args->output)
		cli_usage_error(
			state,
			"--json and --report both go to stdout: send one away with --output");
}

static error_t parse_run_option(int key, char *arg, struct argp_state *state)
{
	struct run_args *args = state->input;

	switch (key) {
	case 'f':
		if (args->file)
			cli_usage_error(state, "one job file at a time, not also '%s'", arg);
		args->file = arg;
		return 0;
	case 'j':
		parse_job_id(state, arg, &args->job_id);
		return 0;
	case KEY_SHEET:
		args->sheet_num = cli_parse_int(state, "--sheet", arg, 1, 1000000);
		return 0;
	case 'i':
		parse_interval(state, arg, &args->interval_seconds);
		return 0;
	case KEY_SYSCALLS:
		parse_syscalls(state, arg, args);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_OUTPUT:
		args->output = strcmp(arg, "-") == 0 ? NULL : arg;
		args->json = true;
		return 0;
	case KEY_REPORT:
		args->report = true;
		return 0;
	case 'q':
		args->quiet = true;
		return 0;
	case KEY_LEAVE:
		args->leave_background = true;
		return 0;
	case KEY_GRACE:
		args->grace_seconds = parse_patience(state, "--grace", arg);
		return 0;
	case KEY_KILL_AFTER:
		args->kill_after_seconds = parse_patience(state, "--kill-after", arg);
		return 0;
	case ARGP_KEY_ARGS:
		args->command = state->argv + state->next;
		args->n_command = state->argc - state->next;
		return 0;
	case ARGP_KEY_SUCCESS:
		check_args(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp run_argp = {
	.options = run_argp_options,
	.parser = parse_run_option,
	.args_doc = "-- COMMAND [ARG...]\n-f FILE",
	.doc = "Runs a command, or the sheets of a job file, as a job: profiles all its processes, records "
	       "them, and ends with a short summary on stderr.\v"
	       "Exits with the command's own status: its exit code, 128 + the signal that killed it, 127 if "
	       "it was not found, 126 if it could not be run; 124 if a time limit of the job file ended it.",
};
