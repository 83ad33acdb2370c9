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

static const struct table_column file_columns[] = {
	{ "SEVERITY", COLUMN_LEFT },
	{ "TYPE            ", COLUMN_LEFT },
	{ "WHAT", COLUMN_LEFT },
};

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	struct lister *l = ctx;

	if (l->form == LISTER_ARRAY) {
		json_begin_object(&l->json);
		anomaly_write_fields(&l->json, a);
		json_end_object(&l->json);
	} else {
		buf_add_str(table_cell(&l->table), severity_name(a->severity));
		buf_add_str(table_cell(&l->table), anomaly_type_name(a->type));
		buf_add_str(table_cell(&l->table), a->text);
	}
	lister_pass(l); /* what went wrong shows at the end */
}

static int judge_file(const struct detect_args *args)
{
	CLEANUP(detect_input_release) struct detect_input in = { .arena = ARENA_INIT };
	struct lister l = LISTER_INIT(args->json ? LISTER_ARRAY : LISTER_TABLE, file_columns);
	struct err err = ERR_INIT;
	int r;

	l.table.hides_titles = true;
	if (detect_input_load(args->input, &in, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	r = lister_open(&l, &err);
	if (r == 0 &&
	    compat_detect(&in.config, in.history, in.n_history, &in.current, on_anomaly, &l) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	return lister_end(&l, r, NULL, &err);
}

/* ---- what was recorded ---- */

static int judge_store(struct store *store, const struct config_anomaly *config,
		       const struct detect_args *args)
{
	CLEANUP(found_list_release) struct found_list found = { 0 };
	struct lister l =
		LISTER_INIT(args->json ? LISTER_ARRAY : LISTER_TABLE, anomaly_list_columns);
	struct err err = ERR_INIT;
	int r;

	if (store && detect_history(store, config, &args->period, &found, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	found_list_log_unjudged(&found);
	if (found.n == 0 && !args->json)
		log_error("nothing out of the ordinary is in the %llu snapshots of that time",
			  (unsigned long long)found.n_snapshots);
	r = lister_open(&l, &err);
	for (size_t i = 0; r == 0 && i < found.n; i++)
		r = lister_add_anomaly(&l, &found.items[i]->episode, found.items[i]->attempt_num);
	return lister_end(&l, r, NULL, &err);
}

int cli_detect(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(settings_close) struct settings settings = { 0 };
	struct detect_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

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
	r = settings_open(&settings, &err);
	for (size_t i = 0; r == 0 && i < args.n_sets; i++) {
		char *value = strchr(args.sets[i], '=');

		*value++ = '\0';
		r = config_set(&settings.config, args.sets[i], value, &err);
	}
	if (r < 0)
		return cli_fail(CLI_USAGE, &err);
	if (cli_open_record(args.period.job_id, &store, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store && !args.json)
		return cli_fail(CLI_DONE, &err);
	return judge_store(store, &settings.config.anomaly, &args);
}
