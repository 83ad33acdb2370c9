#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/compat_input.h"
#include "query/query.h"

#define SINCE_SECONDS (COMPAT_LOOKBACK_DAYS * 86400.0)

struct correlate_args {
	double since_seconds; /* 0: not given */
	const char *input;    /* NULL: the record */
	bool json;
};

static const struct argp_option correlate_options[] = {
	CLI_OPTION("since", correlate_args, since_seconds, "TIME",
		   "Only runs that ended in the last 12h, 7d (7d)"),
	CLI_OPTION(
		"input", correlate_args, input, "FILE",
		"Job profiles of a file, {\"profiles\": […]}, instead of the record; - is stdin"),
	CLI_OPTION("json", correlate_args, json, NULL,
		   "Print JSON, with the scores of the old rules beside it"),
	{ 0 },
};

static const struct argp correlate_argp = {
	.options = correlate_options,
	.doc = "Tells which resource patterns go with failure, from runs that have ended.\v"
	       "A finding is supported if noise would show one like it in at most 5 % of analyses, "
	       "and is kept: \"proctor patterns\" tells what became of it. With another look-back "
	       "than 7d nothing is kept.",
};

/* ---- output ---- */

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

#define MAX_LEFT_OUT 20

/* Which runs count for nothing, and why. -ENOMEM. */
static int add_left_out(const struct run_record *runs, size_t n, const struct analysis *a,
			struct buf *out)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	CLEANUP(free_ptr) bool *counts = calloc(n + 1, sizeof(*counts));
	size_t n_units, n_retries, n_undecided, n_left = a->n_retries + a->n_undecided, n_shown = 0;
	int r = counts ? units_list(runs, n, &units, &n_units, &n_retries, &n_undecided) : -ENOMEM;

	if (r < 0 || n_left == 0)
		return r;
	for (size_t i = 0; i < n_units; i++)
		counts[units[i] - runs] = true;
	buf_printf(out, "%zu run%s left out:\n", n_left, plural(n_left));
	for (size_t i = 0; i < n && n_shown < MAX_LEFT_OUT; i++) {
		if (!runs[i].is_whole || counts[i])
			continue;
		buf_add_str(out, "  ");
		cli_add_text(out, runs[i].job_id ? runs[i].job_id : "-", SIZE_MAX);
		if (runs[i].attempt_num > 0)
			buf_printf(out, " attempt %d", runs[i].attempt_num);
		else /* of a file */
			buf_printf(out, ", profile %zu", i + 1);
		buf_printf(out, ": %s\n",
			   run_is_decided(&runs[i]) ? "a retry of a run that is counted"
			   : runs[i].outcome == OUTCOME_NONE
				   ? "its outcome is not known"
				   : "it was cancelled, which is neither success nor failure");
		n_shown++;
	}
	if (n_left > n_shown)
		buf_printf(out, "  and %zu more\n", n_left - n_shown);
	return 0;
}

static void write_text(const struct analysis *a, struct buf *out)
{
	for (size_t i = 0; i < a->n; i++) {
		cli_add_text(out, a->findings[i].sentence, SIZE_MAX);
		buf_add_char(out, '\n');
	}
	buf_printf(out, "%s%zu finding%s in %zu run%s of %zu kind%s of jobs", a->n ? "\n" : "",
		   a->n, plural(a->n), a->n_runs, plural(a->n_runs), a->n_classes,
		   plural(a->n_classes));
	buf_printf(out, "; %zu of these had the %d failures and %d passes that a test needs\n",
		   a->n_tested, ANALYSIS_MIN_EACH, ANALYSIS_MIN_EACH);
}

/* ---- where the runs are from ---- */

static int analyze_file(const char *path, struct learning *l, struct err *err)
{
	CLEANUP(profiles_release) struct profiles p = PROFILES_INIT;
	int r = profiles_load(path, &p, err);

	if (r < 0)
		return r;
	if (p.ignored.len > 0)
		log_warning("%s: these fields of profiles are not used: %s", path, p.ignored.data);
	r = analysis_run(p.runs.items, p.runs.n, LEARNING_SEED, &l->analysis);
	if (r == 0)
		r = compat_analyze(p.compat, p.runs.n, l->min_jobs, &l->compat);
	l->runs = p.runs;
	p.runs = (struct run_list){ .arena = ARENA_INIT };
	return r < 0 ? err_set(err, r, "cannot analyse %s: %s", path, strerror(-r)) : 0;
}

static int analyze_record(const struct correlate_args *args, const struct settings *settings,
			  struct learning *l, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	bool is_writable;
	int r = cli_open_learned(settings, &store, &is_writable, err);

	if (r < 0 || !store)
		return r;
	r = learning_read(store, cli_time_ago(args->since_seconds), l, err);
	if (r < 0)
		return r;
	learning_analyze(l);
	/* Who tries one look-back after the other finds something: that is not kept. */
	if (is_writable && args->since_seconds == SINCE_SECONDS)
		return learning_write(store, l, err);
	return l->r < 0 ? err_set(err, l->r, "cannot analyse the runs: %s", strerror(-l->r)) : 0;
}

int cli_correlate(int argc, char **argv)
{
	CLEANUP(settings_close) struct settings settings = { 0 };
	CLEANUP(learning_release) struct learning l;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;
	struct correlate_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	learning_init(&l, 0);
	cli_parse(&correlate_argp, argc, argv, 0, &args);
	if (args.input && args.since_seconds > 0)
		cli_reject(argv, "--since goes with the record, not with --input");
	if (args.since_seconds == 0)
		args.since_seconds = SINCE_SECONDS;
	r = cli_open_settings(&settings, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	l.min_jobs = (size_t)settings.config.correlation.min_sample_size;
	r = args.input ? analyze_file(args.input, &l, &err)
		       : analyze_record(&args, &settings, &l, &err);
	if (r < 0)
		return cli_fail(args.input && r != -ENOMEM ? CLI_USAGE : CLI_FAILED, &err);
	json_init(&j, &out);
	if (args.json) {
		learning_write_json(&j, &l);
		buf_add_char(&out, '\n');
	} else {
		write_text(&l.analysis, &out);
		if (add_left_out(l.runs.items + l.n_older, l.runs.n - l.n_older, &l.analysis,
				 &out) < 0)
			out.failed = true;
	}
	return cli_print(&out);
}
