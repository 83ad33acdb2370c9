#include <errno.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/detect_input.h"
#include "cli/output.h"
#include "cli/show.h"
#include "detect/detect.h"

enum detect_key { KEY_INPUT = 256, KEY_JSON };

struct detect_args {
	const char *input;
	bool json;
};

static const struct argp_option detect_options[] = {
	{ "input", KEY_INPUT, "FILE", 0,
	  "Judge {config, history, current} of this file (-: standard input) by the five checks of "
	  "the reference implementation",
	  0 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static error_t parse_detect_option(int key, char *arg, struct argp_state *state)
{
	struct detect_args *args = state->input;

	switch (key) {
	case KEY_INPUT:
		args->input = arg;
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --input %s", arg, arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->input)
			cli_usage_error(state, "say what to judge: --input FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp detect_argp = {
	.options = detect_options,
	.parser = parse_detect_option,
	.doc = "Tells what is out of the ordinary.",
};

/* ---- a file ---- */

struct printer {
	struct buf *out;
	struct json j;
	bool json;
};

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	struct printer *p = ctx;

	if (p->json) {
		json_begin_object(&p->j);
		anomaly_write_fields(&p->j, a);
		json_end_object(&p->j);
		return;
	}
	buf_printf(p->out, "%-8s  %-16s  ", severity_name(a->severity), anomaly_type_name(a->type));
	cli_add_text(p->out, a->text, ANOMALY_TEXT_BYTES);
	buf_add_char(p->out, '\n');
}

static int judge_file(const struct detect_args *args)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(detect_input_release) struct detect_input in = { .arena = ARENA_INIT };
	struct printer p = { .out = &out, .json = args->json };
	struct err err = ERR_INIT;

	if (detect_input_load(args->input, &in, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	json_init(&p.j, &out);
	if (args->json)
		json_begin_array(&p.j);
	if (compat_detect(&in.config, in.history, in.n_history, &in.current, on_anomaly, &p) < 0) {
		err_set(&err, -ENOMEM, "out of memory");
		return cli_fail(CLI_FAILED, &err);
	}
	if (args->json) {
		json_end_array(&p.j);
		buf_add_char(&out, '\n');
	}
	return cli_print(&out);
}

int cli_detect(int argc, char **argv)
{
	struct detect_args args = { 0 };

	cli_parse(&detect_argp, argc, argv, 0, &args);
	return judge_file(&args);
}
