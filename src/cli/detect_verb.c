#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/detect_history.h"
#include "cli/compat_input.h"
#include "cli/output.h"

enum detect_key { KEY_SET = 256 };

#define MAX_SETS 64

struct detect_args {
	const char *input; /* NULL: the history is wanted */
	struct detect_period period;
	char *sets[MAX_SETS]; /* "KEY=VALUE" */
	size_t n_sets;
	bool json;
};

static const struct argp_option detect_options[] = {
	CLI_OPTION(
		"history", detect_args, period.since_wall_ns, "TIME",
		"Judge what was recorded in the last 30s, 5m, 2h, 7d: what would have been told"),
	CLI_OPTION("until", detect_args, period.until_wall_ns, "TIME",
		   "Only up to 30s, 5m, 2h, 7d ago"),
	CLI_OPTION("job", detect_args, period.job_id, "ID", "Only this job"),
	{ "set", KEY_SET, "KEY=VALUE", 0,
	  "With this setting instead of the configured one, as in anomaly.clear_seconds=10", 0 },
	CLI_OPTION(
		"input", detect_args, input, "FILE",
		"Judge {config, history, current} of this file (-: standard input) by the five checks of the reference implementation"),
	CLI_OPTION("json", detect_args, json, NULL, "Print a JSON array"),
	{ 0 },
};

static error_t parse_detect_option(int key, char *arg, struct argp_state *state)
{
	struct detect_args *args = state->input;

	switch (key) {
	case KEY_SET:
		if (strncmp(arg, "anomaly.", 8) != 0 || !strchr(arg, '='))
			cli_usage_error(state,
					"--set wants a setting of the anomaly mapping, as in "
					"anomaly.memory_spike_threshold=2, not '%s'",
					arg);
		if (args->n_sets == MAX_SETS)
			cli_usage_error(state, "--set is given more than %d times", MAX_SETS);
		args->sets[args->n_sets++] = arg;
		return 0;
	default:
		return cli_parse_option(key, arg, state);
	}
}

static const struct argp detect_argp = {
	.options = detect_options,
	.parser = parse_detect_option,
	.doc = "Tells what is out of the ordinary in what was recorded, or in a file.",
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

/* ---- what was recorded ---- */

static int apply_sets(struct config *c, const struct detect_args *args, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < args->n_sets; i++) {
		char *equals = strchr(args->sets[i], '=');

		*equals = '\0';
		r = config_set(c, args->sets[i], equals + 1, err);
		*equals = '=';
	}
	return r;
}

/* Who reads nothing of a type is to know whether there was nothing. */
static void tell_unjudged(const struct found_list *found)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	char *line, *end;

	found_list_add_unjudged(found, &lines);
	for (line = lines.data; line && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		log_error("%s", line);
	}
}

static int judge_store(struct store *store, const struct config_anomaly *config,
		       const struct detect_args *args)
{
	CLEANUP(found_list_release) struct found_list found = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	struct json j;

	if (store && detect_history(store, config, &args->period, &found, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	tell_unjudged(&found);
	json_init(&j, &out);
	if (args->json) {
		json_begin_array(&j);
		for (size_t i = 0; i < found.n; i++)
			show_anomaly_json(&j, &found.items[i]->episode,
					  found.items[i]->attempt_num);
		json_end_array(&j);
		buf_add_char(&out, '\n');
		return cli_print(&out);
	}
	if (found.n > 0)
		show_anomaly_titles(&out);
	for (size_t i = 0; i < found.n; i++)
		show_anomaly(&out, &found.items[i]->episode);
	if (found.n == 0)
		log_error("nothing out of the ordinary is in the %llu snapshots of that time",
			  (unsigned long long)found.n_snapshots);
	return cli_print(&out);
}

int cli_detect(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(settings_close) struct settings settings = { 0 };
	struct detect_args args = { 0 };
	struct err err = ERR_INIT;

	cli_parse(&detect_argp, argc, argv, 0, &args);
	if (!args.input && !args.period.since_wall_ns)
		cli_reject(argv, "say what to judge: --history 1h or --input FILE");
	if (args.input && (args.period.since_wall_ns || args.period.until_wall_ns ||
			   args.period.job_id || args.n_sets))
		cli_reject(
			argv,
			"--input says all there is: leave out --history, --until, --job and --set");
	if (args.input)
		return judge_file(&args);
	if (settings_open(&settings, &err) < 0 || apply_sets(&settings.config, &args, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	if (cli_open_record(args.period.job_id, &store, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store && !args.json)
		return cli_fail(CLI_DONE, &err);
	return judge_store(store, &settings.config.anomaly, &args);
}
