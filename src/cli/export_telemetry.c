#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/export.h"
#include "cli/output.h"
#include "cli/ranks_recorded.h"

struct telemetry_args {
	struct ranks_job job;
	const char *output;
};

static const struct argp_option telemetry_options[] = {
	RANKS_JOB_OPTIONS("Of this job"),
	{ "output", 'o', "FILE", 0,
	  "Write to FILE, once all of it is there; into a folder, a file for each rank (FOLDER/ is made); - is stdout",
	  0 },
	{ 0 },
};

static error_t parse_telemetry_option(int key, char *arg, struct argp_state *state)
{
	struct telemetry_args *args = state->input;

	switch (key) {
	case 'o':
		if (arg[0] == '\0')
			cli_usage_error(state, "--output wants a file or a folder; - is stdout");
		args->output = arg;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --job %s", arg, arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->job.job_id)
			cli_usage_error(state, "of which job? Say --job ID");
		return 0;
	default:
		return ranks_parse_job_option(&args->job, key, arg, state);
	}
}

const struct argp export_telemetry_argp = {
	.options = telemetry_options,
	.parser = parse_telemetry_option,
	.doc = "Writes the memory and the phases of a job's ranks as telemetry of version 2, a JSON object "
	       "per line, which \"proctor ranks\" and other programs read.",
};

static int write_event(void *ctx, const struct telemetry_event *ev)
{
	struct output *out = ctx;
	struct json j;

	json_init(&j, &out->buf);
	event_write_json(&j, ev);
	buf_add_char(&out->buf, '\n');
	return output_pass(out);
}

static int write_file(struct recorded_ranks *ranks, const char *path)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	int r = output_open(&out, path, &err);

	if (r == 0)
		r = recorded_ranks_each(ranks, write_event, &out);
	if (r == -ENOMEM)
		err_set(&err, r, "out of memory");
	return output_end(&out, r, &err);
}

static bool is_folder(const char *path)
{
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* "new/" is meant to be a folder: it is made if it is not there. What is in the way is told when
 * the first file is written. */
static bool make_folder(const char *path)
{
	size_t n = path ? strlen(path) : 0;

	return n > 1 && path[n - 1] == '/' && (mkdir(path, 0777) == 0 || errno == EEXIST);
}

/* One rank after the other, each as if it were the only one. */
static int write_folder(struct recorded_ranks *ranks, const char *folder)
{
	struct recorded_ranks one = *ranks;
	int status = CLI_DONE;

	for (size_t i = 0; status == CLI_DONE && i < ranks->n_ranks; i++) {
		CLEANUP(buf_release) struct buf path = BUF_INIT;
		struct err err = ERR_INIT;

		buf_printf(&path, "%s/rank-%d.jsonl", folder, ranks->ranks[i].rank);
		if (buf_error(&path) < 0) {
			err_set(&err, -ENOMEM, "out of memory");
			status = cli_fail(CLI_FAILED, &err);
			break;
		}
		one.ranks = &ranks->ranks[i];
		one.n_ranks = 1;
		status = write_file(&one, path.data);
	}
	ranks->arena = one.arena; /* which has grown */
	return status;
}

int export_telemetry(int argc, char **argv)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt a;
	struct telemetry_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	attempt_init(&a);
	cli_parse(&export_telemetry_argp, argc, argv, 0, &args);
	r = ranks_read_job(&args.job, &a, &ranks, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	return is_folder(args.output) || make_folder(args.output)
		       ? write_folder(&ranks, args.output)
		       : write_file(&ranks, args.output);
}
