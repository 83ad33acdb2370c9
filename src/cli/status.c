#include <errno.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "report/report.h"
#include "rpc/rpc.h"

enum status_key { KEY_JSON = 256 };

static const struct argp_option status_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static error_t parse_status_option(int key, char *arg, struct argp_state *state)
{
	bool *json = state->input;

	switch (key) {
	case KEY_JSON:
		*json = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp status_argp = {
	.options = status_options,
	.parser = parse_status_option,
	.doc = "Tells how the daemon is: how long it runs, what it costs, what it watches.\v"
	       "Exits with 1 if none runs.",
};

static void add_time(struct buf *out, const struct rpc_value *status, const char *key)
{
	double seconds = rpc_value_f64(rpc_value_get(status, key));

	report_add_duration(out, f64_known(seconds) ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN);
}

static double number(const struct rpc_value *status, const char *key)
{
	return rpc_value_f64(rpc_value_get(status, key));
}

static const char *text(const struct rpc_value *status, const char *key)
{
	const char *s = rpc_value_string(rpc_value_get(status, key));

	return s ? s : "-";
}

static void add_rung(void *ctx, const char *measurement, const struct rpc_value *rung)
{
	const char *name = rpc_value_string(rung);

	buf_printf(ctx, "  %-28s ", measurement);
	cli_add_text(ctx, name ? name : "-", 100);
	buf_add_char(ctx, '\n');
}

static void add_moment(struct buf *out, const struct rpc_value *from, const char *key)
{
	char when[32];

	buf_add_str(out,
		    clock_format_local((uint64_t)(number(from, key) * 1e9), when, sizeof(when)));
}

static void add_missing_group(struct buf *out, const struct rpc_value *config)
{
	const char *group = rpc_value_string(rpc_value_get(config, "missing_group"));

	if (!group)
		return;
	buf_add_str(out, "          nobody reads all jobs: there is no group '");
	cli_add_text(out, group, 100);
	buf_add_str(out, "' here (access.read_group)\n");
}

static void add_config(struct buf *out, const struct rpc_value *config)
{
	if (!f64_known(number(config, "loaded")))
		return;
	buf_add_str(out, "config    ");
	cli_add_text(out, text(config, "file"), PATH_BYTES);
	if (!rpc_value_bool(rpc_value_get(config, "was_read"), true))
		buf_add_str(out, " (not there)");
	buf_add_str(out, ", read ");
	add_moment(out, config, "loaded");
	buf_add_char(out, '\n');
	add_missing_group(out, config);
	if (!f64_known(number(config, "refused")))
		return;
	buf_add_str(out, "          refused ");
	add_moment(out, config, "refused");
	buf_add_str(out, ", so the one before holds: ");
	cli_add_text(out, text(config, "error"), 500);
	buf_add_char(out, '\n');
}

static void add_log(struct buf *out, const struct rpc_value *s)
{
	if (number(s, "log_lines_lost") > 0)
		buf_printf(out,
			   "log       %.0f snapshots could not be written to it, and are missing\n",
			   number(s, "log_lines_lost"));
}

static void add_over(struct buf *out, const struct rpc_value *s)
{
	double over = number(s, "over_max_bytes");

	if (!(over > 0))
		return;
	buf_add_str(out, "          with what lies beside it ");
	report_add_bytes(out, (uint64_t)over);
	buf_add_str(out, " above max_bytes (see \"proctor gc\")\n");
}

static void add_database(struct buf *out, const struct rpc_value *s)
{
	buf_printf(out, "database  %s\n", text(s, "database"));
	add_over(out, s);
	if (number(s, "ticks_lost") > 0)
		buf_printf(out, "          %.0f ticks could not be stored in it, and are lost\n",
			   number(s, "ticks_lost"));
	if (rpc_value_bool(rpc_value_get(s, "recording"), false))
		return;
	buf_add_str(out, "          cannot be used, so nothing is recorded");
	if (number(s, "ticks_waiting") > 0)
		buf_printf(out, " and %.0f ticks wait", number(s, "ticks_waiting"));
	buf_add_str(out, ": ");
	cli_add_text(out, text(s, "recording_error"), 500);
	buf_add_char(out, '\n');
}

/* What it costs to begin is not what it costs. */
static void add_cost(struct buf *out, const struct rpc_value *s)
{
	buf_add_str(out, "cost      ");
	if (f64_known(rpc_value_f64(rpc_value_get(s, "cpu_percent"))))
		buf_printf(out, "%.2f %% of a core", number(s, "cpu_percent"));
	else
		buf_add_str(out, "not known yet");
	buf_printf(out, ", %.1f MB; the last tick took ", number(s, "rss_mb"));
}

static void add_back_off(struct buf *out, const struct rpc_value *s)
{
	double wanted = rpc_value_f64(rpc_value_get(s, "configured_interval_seconds"));

	if (f64_known(wanted) && number(s, "interval_seconds") > wanted)
		buf_printf(out, " instead of %g s, which costs more than it may", wanted);
}

/* What is wrong with them, beside who answers. */
static void add_gpu_note(struct buf *out, const struct rpc_value *s)
{
	const char *note = rpc_value_string(rpc_value_get(s, "gpu_note"));

	if (!note)
		return;
	buf_add_str(out, "GPUs      ");
	cli_add_text(out, note, 500);
	buf_add_char(out, '\n');
}

static void write_text(const struct rpc_value *s, const struct rpc_value *config, struct buf *out)
{
	buf_printf(out, "proctor %s, pid %.0f, up ", text(s, "version"), number(s, "pid"));
	add_time(out, s, "uptime_seconds");
	buf_printf(out, "\njobs      %.0f running, %.0f queued; a sheet waits in %.0f\n",
		   number(s, "running_jobs"), number(s, "queued_jobs"), number(s, "held_jobs"));
	buf_printf(out, "pressure  %s (%s)\n", text(s, "pressure_level"),
		   text(s, "pressure_reason"));
	if (number(s, "orphans") == 1)
		buf_add_str(out, "orphans   1 process lives on whose job is over\n");
	else if (number(s, "orphans") > 1)
		buf_printf(out, "orphans   %.0f processes live on whose jobs are over\n",
			   number(s, "orphans"));
	if (number(s, "process_events_lost") > 0)
		buf_printf(out,
			   "births    %.0f of the kernel's news of births and deaths were lost\n",
			   number(s, "process_events_lost"));
	if (number(s, "process_accounts_missing") > 0)
		buf_printf(out,
			   "ends      of %.0f processes the kernel did not say in time all that "
			   "they had used: their CPU time is a least time\n",
			   number(s, "process_accounts_missing"));
	if (number(s, "phase_markers_lost") > 0)
		buf_printf(out, "phases    %.0f markers of them were lost\n",
			   number(s, "phase_markers_lost"));
	add_cost(out, s);
	add_time(out, s, "tick_cpu_seconds");
	buf_add_str(out, " of CPU and came ");
	add_time(out, s, "tick_lag_seconds");
	buf_printf(out, " late\nticks     %.0f, every %g s", number(s, "ticks"),
		   number(s, "interval_seconds"));
	add_back_off(out, s);
	buf_printf(out, ", %.0f left out\n", number(s, "ticks_skipped"));
	buf_printf(out, "clients   %.0f, %.0f of them subscribers; %.0f events lost\n",
		   number(s, "clients"), number(s, "subscribers"), number(s, "events_lost"));
	add_database(out, s);
	add_log(out, s);
	add_config(out, config);
	add_gpu_note(out, s);
	rpc_value_each(rpc_value_get(s, "rungs"), add_rung, out);
}

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	json_key(ctx, key);
	rpc_value_write(member, ctx);
}

static void write_json(const struct rpc_value *status, const struct rpc_value *config,
		       struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	rpc_value_each(status, write_member, &j);
	write_member(&j, "config", config);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

int cli_status(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL, *config = NULL;
	struct err err = ERR_INIT;
	bool json = false;

	cli_parse(&status_argp, argc, argv, 0, &json);
	if (cli_call("daemon.status", NULL, &status, &err) < 0 ||
	    cli_call("daemon.config", NULL, &config, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	(json ? write_json : write_text)(status, config, &out);
	return cli_print(&out);
}
