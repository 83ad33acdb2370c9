#include <errno.h>

#include "cli/export.h"
#include "cli/look.h"
#include "cli/output.h"
#include "report/report.h"

struct prometheus_args {
	const char *output;
};

static const struct argp_option prometheus_options[] = {
	{ "output", 'o', "FILE", 0,
	  "Write to FILE, once all of it is there, with the rights of the file it replaces; - is "
	  "stdout",
	  0 },
	{ 0 },
};

static error_t parse_prometheus_option(int key, char *arg, struct argp_state *state)
{
	struct prometheus_args *args = state->input;

	switch (key) {
	case 'o':
		if (arg[0] == '\0')
			cli_usage_error(state, "--output wants a file; - is stdout");
		args->output = arg;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp export_prometheus_argp = {
	.options = prometheus_options,
	.parser = parse_prometheus_option,
	.doc = "Writes the host, its GPUs and the running jobs as they are now in the text format that "
	       "Prometheus reads, for the textfile collector of its node exporter.",
};

int export_prometheus(int argc, char **argv)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct prometheus_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	snapshot_init(&snap);
	cli_parse(&export_prometheus_argp, argc, argv, 0, &args);
	if (settings_open(&ctx, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	r = look_now(&ctx, SNAPSHOT_JOBS, &snap, &err);
	if (r == 0)
		r = output_open(&out, args.output, &err);
	if (r == 0 && report_prometheus(&out.buf, &snap) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	return output_end(&out, r, &err);
}
