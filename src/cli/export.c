#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/ranks/ranks.h"
#include "report/report.h"

/* ---- CSV ---- */

struct csv_args {
	enum report_table table;
	const char *job_id;
	const char *output;
	uint64_t since_wall_ns, until_wall_ns;
	bool for_spreadsheet;
};

static const struct argp_option csv_options[] = {
	CLI_CHOICE("what", csv_args, table, "TABLE",
		   "samples, snapshots, events, jobs, sheets or processes (samples)"),
	CLI_OPTION("job", csv_args, job_id, "ID", "Only of this job"),
	CLI_OPTION("since", csv_args, since_wall_ns, "TIME", "Only of the last 30s, 5m, 2h, 7d"),
	CLI_OPTION("until", csv_args, until_wall_ns, "TIME", "Only up to 30s, 5m, 2h, 7d ago"),
	CLI_OPTION("output", csv_args, output, "FILE",
		   "Write to FILE, once all of it is there; - is stdout"),
	CLI_SHORT('o'),
	CLI_OPTION("spreadsheet", csv_args, for_spreadsheet, NULL,
		   "Put a ' before text that a spreadsheet would run as a formula"),
	{ 0 },
};

static const struct argp export_csv_argp = {
	.options = csv_options,
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

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct exporter *e = ctx;

	report_csv_snapshot(&e->csv, snap);
	return pass(e);
}

static int on_event(void *ctx, const struct event_row *row)
{
	struct exporter *e = ctx;

	report_csv_event(&e->csv, row->attempt_num, &row->event);
	return pass(e);
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
	return report_csv_attempt(&e->csv, e->args->table, &a, pass, e);
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
		if (!(e->args->until_wall_ns != 0 && u64_known(list.items[i].started_wall_ns) &&
		      list.items[i].started_wall_ns > e->args->until_wall_ns))
			r = export_attempt(e, &list.items[i], err);
	return r;
}

static int export_table(struct exporter *e, struct err *err)
{
	const struct csv_args *a = e->args;
	const struct history_filter samples = { .job_id = a->job_id,
						.since_wall_ns = a->since_wall_ns,
						.until_wall_ns = a->until_wall_ns,
						.with_minutes = true };
	const struct snapshot_filter snapshots = { .job_id = a->job_id,
						   .since_wall_ns = a->since_wall_ns,
						   .until_wall_ns = a->until_wall_ns,
						   .with_minutes = true,
						   .with_attempts = true };
	const struct event_filter events = { a->job_id, a->since_wall_ns, a->until_wall_ns, 0 };

	switch (a->table) {
	case REPORT_SAMPLES:
		return store_read_history(e->store, &samples, on_sample, e, err);
	case REPORT_SNAPSHOTS:
		return store_read_snapshots(e->store, &snapshots, on_snapshot, e, err);
	case REPORT_EVENTS:
		cli_warn_of_cut_events(e->store, &events);
		return store_read_events(e->store, &events, on_event, e, err);
	default:
		return export_attempts(e, err);
	}
}

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
		r = export_table(&e, err);
	if (r == -ENOMEM && !err->code)
		err_set(err, r, "out of memory");
	return output_end(&e.out, r, err);
}

static int export_csv(int argc, char **argv)
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

/* ---- Prometheus ---- */

struct prometheus_args {
	const char *output;
};

static const struct argp_option prometheus_options[] = {
	CLI_OPTION(
		"output", prometheus_args, output, "FILE",
		"Write to FILE, once all of it is there, with the rights of the file it replaces; - is stdout"),
	CLI_SHORT('o'),
	{ 0 },
};

static const struct argp export_prometheus_argp = {
	.options = prometheus_options,
	.doc = "Writes the host, its GPUs and the running jobs as they are now in the text format that "
	       "Prometheus reads, for the textfile collector of its node exporter.",
};

static int export_prometheus(int argc, char **argv)
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
	r = cli_take_snapshot(&ctx, SNAPSHOT_JOBS, &snap, &err);
	out.for_others = true; /* the node exporter is another user */
	if (r == 0)
		r = output_open(&out, args.output, &err);
	if (r == 0 && report_prometheus(&out.buf, &snap) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	return output_end(&out, r, &err);
}

/* ---- telemetry ---- */

struct telemetry_args {
	struct ranks_job job;
	const char *output;
};

static const struct argp_option telemetry_options[] = {
	RANKS_JOB_OPTIONS(telemetry_args, "Of this job"),
	CLI_OPTION(
		"output", telemetry_args, output, "FILE",
		"Write to FILE, once all of it is there; into a folder, a file for each rank (FOLDER/ is made); - is stdout"),
	CLI_SHORT('o'),
	{ 0 },
};

static const struct argp export_telemetry_argp = {
	.options = telemetry_options,
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

/* "new/" is meant to be a folder: it is made if it is not there. What is in the way is told when
 * the first file is written. */
static bool is_folder(const char *path)
{
	size_t n = path ? strlen(path) : 0;
	struct stat st;

	return n > 0 &&
	       ((stat(path, &st) == 0 && S_ISDIR(st.st_mode)) ||
		(n > 1 && path[n - 1] == '/' && (mkdir(path, 0777) == 0 || errno == EEXIST)));
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

static int export_telemetry(int argc, char **argv)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt a;
	struct telemetry_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	attempt_init(&a);
	cli_parse(&export_telemetry_argp, argc, argv, 0, &args);
	if (!args.job.job_id)
		cli_reject(argv, "of which job? Say --job ID");
	ranks_check_job(argv, &args.job);
	r = ranks_read_job(&args.job, &a, &ranks, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	return is_folder(args.output) ? write_folder(&ranks, args.output)
				      : write_file(&ranks, args.output);
}

/* ---- the verb ---- */

/* One row per kind: its name, its function, its options, and its line in "export --help". */
static const struct cli_sub kinds[] = {
	{ "csv", export_csv, &export_csv_argp, "comma-separated values, for data frames and SQL" },
	{ "prometheus", export_prometheus, &export_prometheus_argp,
	  "the host, its GPUs and the running jobs as they are now, for Prometheus" },
	{ "telemetry", export_telemetry, &export_telemetry_argp,
	  "the memory and phases of a job's ranks, for \"proctor ranks\"" },
};

int cli_export(int argc, char **argv)
{
	static const struct cli_sub_table table = {
		.verb = "export",
		.what = "a kind",
		.usage = "Usage: proctor export KIND [OPTION...]\n"
			 "Hands what was recorded to other programs. The kinds:\n\n",
		.items = kinds,
		.n = ARRAY_SIZE(kinds),
	};

	return cli_run_sub(&table, argc, argv);
}
