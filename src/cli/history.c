#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/csv.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/output.h"
#include "model/sample_fields.h"
#include "report/report.h"
#include "store/store.h"

struct history_args {
	bool json, csv, minutes;
	struct history_filter filter;
};

static const struct argp_option history_options[] = {
	CLI_OPTION("job", history_args, filter.job_id, "ID", "Samples of this job's processes"),
	CLI_OPTION("pid", history_args, filter.pid, "PID", "Samples of this process"),
	CLI_OPTION("since", history_args, filter.since_wall_ns, "TIME",
		   "Only of the last 30s, 5m, 2h, 7d"),
	CLI_OPTION("until", history_args, filter.until_wall_ns, "TIME",
		   "Only up to 30s, 5m, 2h, 7d ago"),
	CLI_OPTION(
		"minutes", history_args, minutes, NULL,
		"A minute at a time, with average, least and largest; also of what is older than a day"),
	CLI_OPTION("json", history_args, json, NULL, "Print a JSON array"),
	CLI_OPTION("csv", history_args, csv, NULL, "Print comma-separated values with a heading"),
	{ 0 },
};

static const struct argp history_argp = {
	.options = history_options,
	.doc = "Prints recorded samples, oldest first.",
};

/* Rows are written as they come: a history may be larger than memory. */
struct printer {
	struct lister lister;
	struct csv csv;
	uint64_t first_wall_ns; /* of the first row; U64_UNKNOWN */
};

/* ---- a minute at a time ---- */

#define MB(v_) ((v_) / 1048576.0)

/* A field of a sample as a number with a point, in the unit of JSON, by its kind. */
#define AVERAGE_F64(v_) (v_)
#define AVERAGE_U64(v_) (v_)
#define AVERAGE_MB(v_) MB(v_)
#define VALUE_F64(v_) (v_)
#define VALUE_U64(v_) (u64_known(v_) ? (double)(v_) : F64_UNKNOWN)
#define VALUE_MB(v_) u64_to_mb(v_)
#define IF_BRIEF(...) __VA_ARGS__
#define IF_LONG(...)

/* The four values of each gauge, in the order of recorded minutes. */
static void write_gauges(struct json *j, const struct minute_row *row)
{
	const struct {
		const char *key; /* NULL: not in the brief list */
		double avg, min, max, last;
	} gauges[SAMPLE_N_GAUGES] = {
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, brief_, help_)                           \
	IF_##brief_([gauge_] = { key_, AVERAGE_##kind_(row->avg.member_),                          \
				 VALUE_##kind_(row->min.member_), VALUE_##kind_(row->max.member_), \
				 VALUE_##kind_(row->last.member_) }, )
#include "model/sample_fields.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++) {
		if (!gauges[i].key)
			continue;
		json_key_object(j, gauges[i].key);
		json_key_f64(j, "avg", gauges[i].avg);
		json_key_f64(j, "min", gauges[i].min);
		json_key_f64(j, "max", gauges[i].max);
		json_key_f64(j, "last", gauges[i].last);
		json_end_object(j);
	}
}

static void write_json(struct json *j, const struct minute_row *row)
{
	const struct proc_sample *last = &row->last;

	json_begin_object(j);
	json_key_f64(j, "timestamp", clock_ns_to_seconds(row->wall_ns));
	json_key_u64(j, "samples", row->n_samples);
	json_key_string(j, "job_id", last->job_id);
	json_key_i64(j, "attempt", row->attempt_num);
	json_key_int(j, "sheet_num", last->sheet_num);
	json_key_i64(j, "pid", last->key.pid);
	json_key_u64(j, "start_ticks", last->key.start_ticks);
	json_key_string(j, "command", last->command);
	write_gauges(j, row);
#define WRITE_SECONDS(key_, v_) json_key_f64(j, key_, u64_to_seconds(v_))
#define WRITE_U64(key_, v_) json_key_u64(j, key_, v_)
#define SAMPLE_COUNTER(kind_, member_, key_, word_, brief_, help_) \
	IF_##brief_(WRITE_##kind_(key_, last->member_);)
#include "model/sample_fields.def"
	json_end_object(j);
}

static const struct table_column minute_columns[] = {
	{ "MINUTE", COLUMN_LEFT },     { "ATTEMPT", COLUMN_RIGHT },   { "    PID", COLUMN_RIGHT },
	{ "SAMPLES", COLUMN_RIGHT },   { "AVG_CPU%", COLUMN_RIGHT },  { "MAX_CPU%", COLUMN_RIGHT },
	{ "AVG_RSSMB", COLUMN_RIGHT }, { "MAX_RSSMB", COLUMN_RIGHT }, { "COMMAND", COLUMN_LEFT },
};

static int on_minute(void *ctx, const struct minute_row *row)
{
	struct printer *p = ctx;
	struct table *t = &p->lister.table;
	char when[32];

	if (p->lister.form == LISTER_ARRAY) {
		write_json(&p->lister.json, row);
		return lister_pass(&p->lister);
	}
	buf_add_str(table_cell(t), clock_format_local(row->wall_ns, when, sizeof(when)));
	buf_printf(table_cell(t), "%d", row->attempt_num);
	buf_printf(table_cell(t), "%d", (int)row->last.key.pid);
	buf_printf(table_cell(t), "%llu", (unsigned long long)row->n_samples);
	add_decimal(table_cell(t), row->avg.cpu_percent);
	add_decimal(table_cell(t), row->max.cpu_percent);
	add_decimal(table_cell(t), MB(row->avg.rss_bytes));
	add_decimal(table_cell(t), u64_to_mb(row->max.rss_bytes));
	cli_add_text(table_cell(t), row->last.command ? row->last.command : "-", 60);
	return lister_pass(&p->lister);
}

static int stop_at_first(void *ctx, const struct minute_row *row)
{
	(void)ctx;
	(void)row;
	return 1;
}

static int stop_at_sample(void *ctx, const struct history_row *row)
{
	(void)ctx;
	(void)row;
	return 1;
}

#define MINUTE_NS (UINT64_C(60) * 1000000000)

/*
 * Where there is nothing to print: says why, and returns the exit status. It is a failure only
 * where the process was never recorded, as a job that never was is one.
 */
static int tell_none(struct store *store, const struct history_filter *filter)
{
	const struct history_filter ever = { .pid = filter->pid };
	struct history_filter whole = *filter;

	/* a minute that is only begun in that time may be made of samples that came before it */
	whole.with_minutes = false;
	whole.since_wall_ns -= whole.since_wall_ns % MINUTE_NS;
	if (whole.until_wall_ns > 0 && whole.until_wall_ns < UINT64_MAX - MINUTE_NS)
		whole.until_wall_ns += MINUTE_NS - whole.until_wall_ns % MINUTE_NS;
	if (store_read_minutes(store, filter, stop_at_first, NULL, NULL) > 0 &&
	    store_read_history(store, &whole, stop_at_sample, NULL, NULL) <= 0) {
		log_error(
			"samples of that are not kept any more, only 1-minute values (--minutes)");
		return CLI_DONE;
	}
	log_error("nothing of that was recorded, or it is no longer kept");
	/* a job that was never recorded has been refused before */
	return filter->job_id || store_read_minutes(store, &ever, stop_at_first, NULL, NULL) > 0
		       ? CLI_DONE
		       : CLI_FAILED;
}

/* Minutes that lie in that time as a whole, and are over when the first sample comes. */
static void tell_older(struct store *store, const struct history_filter *filter,
		       uint64_t first_wall_ns)
{
	const struct history_filter minutes = { .job_id = filter->job_id,
						.pid = filter->pid,
						.since_wall_ns =
							filter->since_wall_ns + MINUTE_NS - 1,
						.until_wall_ns = first_wall_ns - MINUTE_NS };
	char first[32];

	if (first_wall_ns < MINUTE_NS || minutes.since_wall_ns > minutes.until_wall_ns ||
	    store_read_minutes(store, &minutes, stop_at_first, NULL, NULL) <= 0)
		return;
	log_warning("before %s only 1-minute values are kept (--minutes)",
		    clock_format_local(first_wall_ns, first, sizeof(first)));
}

/* ---- samples ---- */

static const struct table_column sample_columns[] = {
	{ "TIME                   ", COLUMN_LEFT },
	{ "ATTEMPT", COLUMN_RIGHT },
	{ "    PID", COLUMN_RIGHT },
	{ "S", COLUMN_LEFT },
	{ "  CPU%", COLUMN_RIGHT },
	{ "     RSS", COLUMN_RIGHT },
	{ "  FDS", COLUMN_RIGHT },
	{ "COMMAND", COLUMN_LEFT },
};

static int add_sample(struct lister *l, const struct history_row *row)
{
	const struct proc_sample *s = &row->sample;
	struct buf *cell;

	add_moment(table_cell(&l->table), row->wall_ns);
	buf_printf(table_cell(&l->table), "%d", row->attempt_num);
	buf_printf(table_cell(&l->table), "%d", (int)s->key.pid);
	buf_add_char(table_cell(&l->table), s->state);
	add_decimal(table_cell(&l->table), s->cpu_percent);
	report_add_bytes(table_cell(&l->table), s->rss_bytes);
	cell = table_cell(&l->table);
	if (u64_known(s->open_fds))
		buf_printf(cell, "%llu", (unsigned long long)s->open_fds);
	else
		buf_add_char(cell, '-');
	cli_add_text(table_cell(&l->table), s->command ? s->command : "-", 60);
	return lister_pass(l);
}

static int on_row(void *ctx, const struct history_row *row)
{
	struct printer *p = ctx;
	struct json *j = &p->lister.json;

	if (!u64_known(p->first_wall_ns))
		p->first_wall_ns = row->wall_ns;
	if (p->lister.form == LISTER_TABLE)
		return add_sample(&p->lister, row);
	if (p->lister.form == LISTER_BARE) {
		report_csv_sample(&p->csv, row->wall_ns, row->resolution_seconds, row->n_samples,
				  row->attempt_num, &row->sample);
		return lister_pass(&p->lister);
	}
	json_begin_object(j);
	json_key_f64(j, "timestamp", clock_ns_to_seconds(row->wall_ns));
	json_key_i64(j, "attempt", row->attempt_num);
	proc_sample_write_fields(j, &row->sample);
	json_end_object(j);
	return lister_pass(&p->lister);
}

static struct lister make_lister(const struct history_args *args)
{
	const enum lister_form form = args->json  ? LISTER_ARRAY
				      : args->csv ? LISTER_BARE
						  : LISTER_TABLE;

	return args->minutes ? (struct lister)LISTER_INIT(form, minute_columns)
			     : (struct lister)LISTER_INIT(form, sample_columns);
}

static int print_history(struct store *store, const struct history_args *args, struct err *err)
{
	struct printer p = { .lister = make_lister(args), .first_wall_ns = U64_UNKNOWN };
	const struct history_filter *filter = &args->filter;
	int r = lister_open(&p.lister, err);

	csv_init(&p.csv, &p.lister.out.buf);
	p.csv.is_shown = output_is_terminal(&p.lister.out);
	if (args->csv)
		report_csv_heading(&p.csv, REPORT_SAMPLES);
	if (r == 0)
		r = args->minutes ? store_read_minutes(store, filter, on_minute, &p, err)
				  : store_read_history(store, filter, on_row, &p, err);
	r = lister_end(&p.lister, r, NULL, err);
	if (r == CLI_DONE && u64_known(p.first_wall_ns))
		tell_older(store, filter, p.first_wall_ns);
	return r != CLI_DONE || p.lister.n_rows > 0 ? r : tell_none(store, filter);
}

/* ---- what a daemon has recorded ---- */

static int add_remote(struct lister *l, const struct rpc_value *row)
{
	const char *state = remote_text(row, "state");
	double rss_mb = rpc_value_f64(rpc_value_get(row, "rss_mb"));
	struct history_row sample = { .wall_ns = remote_time(row, "timestamp"),
				      .attempt_num = remote_int(row, "attempt", 0) };

	proc_sample_init(&sample.sample);
	sample.sample.key.pid = remote_int(row, "pid", 0);
	sample.sample.state = state && state[0] ? state[0] : '-';
	sample.sample.cpu_percent = rpc_value_f64(rpc_value_get(row, "cpu_percent"));
	if (rss_mb >= 0 && rss_mb < 1e12)
		sample.sample.rss_bytes = (uint64_t)(rss_mb * 1048576.0);
	sample.sample.open_fds = rpc_value_u64(rpc_value_get(row, "open_fds"));
	sample.sample.command = remote_text(row, "command");
	return add_sample(l, &sample);
}

static int print_remote(const struct history_args *args)
{
	const struct remote_question question = { .job_id = args->filter.job_id,
						  .pid = args->filter.pid,
						  .since_wall_ns = args->filter.since_wall_ns,
						  .until_wall_ns = args->filter.until_wall_ns };
	struct lister l = make_lister(args);
	struct err err = ERR_INIT;

	if (!args->filter.job_id)
		return -ENOENT;
	if (!args->minutes && !args->csv)
		return remote_print(REMOTE_SAMPLES, &question, &l, add_remote,
				    "no samples were recorded in that time");
	if (remote_read(REMOTE_ATTEMPTS,
			&(struct remote_question){ .job_id = args->filter.job_id, .limit = 1 },
			NULL, NULL, NULL) < 0)
		return -ENOENT;
	err_set(&err, -EOPNOTSUPP,
		"no job %s is in your own record: of one that a daemon has recorded there are "
		"samples alone, as a table or with --json",
		args->filter.job_id);
	return cli_fail(CLI_FAILED, &err);
}

int cli_history(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct history_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&history_argp, argc, argv, 0, &args);
	if (!args.filter.job_id && !args.filter.pid)
		cli_reject(argv, "whose history? --job ID or --pid PID");
	if (args.minutes && args.csv)
		cli_reject(argv, "--minutes goes with --json, not with --csv");
	if (args.json && args.csv)
		cli_reject(argv, "either --json or --csv");
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r == -ENOENT) {
		int printed = print_remote(&args);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0 || !store)
		return cli_fail(CLI_FAILED, &err);
	return print_history(store, &args, &err);
}
