#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "cli/export.h"
#include "cli/output.h"
#include "model/attempts.h"
#include "report/report.h"

enum csv_key { KEY_JOB = 256, KEY_SINCE, KEY_UNTIL, KEY_WHAT, KEY_SPREADSHEET };

struct csv_args {
	enum report_table table;
	const char *job_id;
	const char *output;
	uint64_t since_wall_ns, until_wall_ns;
	bool for_spreadsheet;
};

#define TABLES "samples, snapshots, events, jobs, sheets or processes"

static const struct argp_option csv_options[] = {
	{ "what", KEY_WHAT, "TABLE", 0, TABLES " (samples)", 0 },
	{ "job", KEY_JOB, "ID", 0, "Only of this job", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only of the last 30s, 5m, 2h, 7d", 0 },
	{ "until", KEY_UNTIL, "TIME", 0, "Only up to 30s, 5m, 2h, 7d ago", 0 },
	{ "output", 'o', "FILE", 0, "Write to FILE, once all of it is there; - is stdout", 0 },
	{ "spreadsheet", KEY_SPREADSHEET, NULL, 0,
	  "Put a ' before text that a spreadsheet would run as a formula", 0 },
	{ 0 },
};

static error_t parse_csv_option(int key, char *arg, struct argp_state *state)
{
	struct csv_args *args = state->input;

	switch (key) {
	case KEY_WHAT:
		if (report_table_from_name(arg, &args->table) < 0)
			cli_usage_error(state, "--what wants " TABLES ", not '%s'", arg);
		return 0;
	case KEY_JOB:
		args->job_id = cli_parse_job_id(state, arg);
		return 0;
	case KEY_SINCE:
		args->since_wall_ns = cli_parse_ago(state, "--since", arg);
		return 0;
	case KEY_UNTIL:
		args->until_wall_ns = cli_parse_ago(state, "--until", arg);
		return 0;
	case 'o':
		if (arg[0] == '\0')
			cli_usage_error(state, "--output wants a file; - is stdout");
		args->output = arg;
		return 0;
	case KEY_SPREADSHEET:
		args->for_spreadsheet = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --job %s or --what %s", arg,
				arg, arg);
		return 0;
	case ARGP_KEY_END:
		cli_check_period(state, args->since_wall_ns, args->until_wall_ns);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp export_csv_argp = {
	.options = csv_options,
	.parser = parse_csv_option,
	.doc = "Writes what was recorded as comma-separated values with a heading, oldest first. Unknown "
	       "is an empty field.",
};

/* ---- rows ---- */

/* Rows are written as they come: what was recorded may be larger than memory. */
struct exporter {
	const struct csv_args *args;
	struct store *store;
	struct output out;
	struct csv csv;
	struct attempts attempts; /* whose progress it may be */
};

static int pass(void *ctx)
{
	return output_pass(&((struct exporter *)ctx)->out);
}

static int on_sample(void *ctx, const struct history_row *row)
{
	struct exporter *e = ctx;

	report_csv_sample(&e->csv, row->wall_ns, row->resolution_seconds, row->n_samples,
			  row->attempt_num, &row->sample);
	return pass(e);
}

static int export_samples(struct exporter *e, struct err *err)
{
	const struct history_filter filter = {
		.job_id = e->args->job_id,
		.since_wall_ns = e->args->since_wall_ns,
		.until_wall_ns = e->args->until_wall_ns,
		.with_minutes = true,
	};

	return store_read_history(e->store, &filter, on_sample, e, err);
}

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct exporter *e = ctx;
	struct snapshot told;
	CLEANUP(free_ptr)
	struct job_progress *own = attempts_tell(&e->attempts, snap, e->args->job_id, &told);

	if (!own)
		return -ENOMEM;
	report_csv_snapshot(&e->csv, &told);
	return pass(e);
}

/* All that may have run in that time. */
static int read_attempts(struct exporter *e, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = e->args->job_id,
					       .since_wall_ns = e->args->since_wall_ns };
	int r = store_list_attempts(e->store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (attempts_add(&e->attempts, &list.items[i]) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	return r;
}

static int export_snapshots(struct exporter *e, struct err *err)
{
	const struct snapshot_filter filter = {
		.job_id = e->args->job_id,
		.since_wall_ns = e->args->since_wall_ns,
		.until_wall_ns = e->args->until_wall_ns,
		.with_minutes = true,
		.with_attempts = true,
	};
	int r = read_attempts(e, err);

	if (r == 0)
		r = store_read_snapshots(e->store, &filter, on_snapshot, e, err);
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

static int on_event(void *ctx, const struct event_row *row)
{
	struct exporter *e = ctx;

	report_csv_event(&e->csv, row->attempt_num, &row->event);
	return pass(e);
}

static int export_events(struct exporter *e, struct err *err)
{
	const struct event_filter filter = {
		.job_id = e->args->job_id,
		.since_wall_ns = e->args->since_wall_ns,
		.until_wall_ns = e->args->until_wall_ns,
	};

	cli_warn_of_cut_events(e->store, &filter);
	return store_read_events(e->store, &filter, on_event, e, err);
}

/* All of the attempt is read, as for its report, so that its numbers are those of the report. */
static int export_attempt(struct exporter *e, const struct attempt *listed, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_attempt(e->store, listed->job_id, listed->attempt_num, &a, err);
	if (r == -ENOENT) {
		*err = (struct err)ERR_INIT; /* it was deleted since it was listed */
		return 0;
	}
	if (r < 0)
		return r;
	r = report_csv_attempt(&e->csv, e->args->table, &a, pass, e);
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

static bool began_later(const struct attempt *a, uint64_t until_wall_ns)
{
	return until_wall_ns != 0 && u64_known(a->started_wall_ns) &&
	       a->started_wall_ns > until_wall_ns;
}

static int export_attempts(struct exporter *e, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = {
		.job_id = e->args->job_id,
		.since_wall_ns = e->args->since_wall_ns,
	};
	int r = store_list_attempts(e->store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (!began_later(&list.items[i], e->args->until_wall_ns))
			r = export_attempt(e, &list.items[i], err);
	return r;
}

static int (*const exports[])(struct exporter *e, struct err *err) = {
	[REPORT_SAMPLES] = export_samples, [REPORT_SNAPSHOTS] = export_snapshots,
	[REPORT_EVENTS] = export_events,   [REPORT_JOBS] = export_attempts,
	[REPORT_SHEETS] = export_attempts, [REPORT_PROCESSES] = export_attempts,
};

/* ---- the kind ---- */

static int export(const struct csv_args *args, struct store *store, struct err *err)
{
	struct exporter e = { .args = args, .store = store, .out = OUTPUT_INIT };
	int r = output_open(&e.out, args->output, err);

	csv_init(&e.csv, &e.out.buf);
	e.csv.is_shown = output_is_terminal(&e.out);
	e.csv.guards_formulas = args->for_spreadsheet;
	report_csv_heading(&e.csv, args->table);
	if (r == 0 && store)
		r = exports[args->table](&e, err);
	r = output_end(&e.out, r, err);
	attempts_release(&e.attempts);
	output_release(&e.out);
	return r;
}

int export_csv(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct csv_args args = { .table = REPORT_SAMPLES };
	struct err err = ERR_INIT, writing = ERR_INIT;
	int r;

	cli_parse(&export_csv_argp, argc, argv, 0, &args);
	r = cli_open_record(args.job_id, &store, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store)
		cli_fail(CLI_DONE, &err); /* said, and then a heading without rows */
	return export(&args, store, &writing);
}
