#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "report/report.h"
#include "rpc/rpc.h"

struct status_args {
	bool json;
};

static const struct argp_option status_options[] = {
	CLI_OPTION("json", status_args, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp status_argp = {
	.options = status_options,
	.parser = cli_parse_option,
	.doc = "Tells how the daemon is: how long it runs, what it costs, what it watches.\v"
	       "Exits with 1 if none runs.",
};

static double number(const struct rpc_value *status, const char *key)
{
	return rpc_value_f64(rpc_value_get(status, key));
}

static const char *text(const struct rpc_value *status, const char *key)
{
	const char *s = rpc_value_string(rpc_value_get(status, key));

	return s ? s : "-";
}

static void add_time(struct buf *out, const struct rpc_value *status, const char *key)
{
	double seconds = number(status, key);

	report_add_duration(out, f64_known(seconds) ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN);
}

/* "before", text of the daemon's made safe, "after". */
static void add_said(struct buf *out, const char *before, const char *said, const char *after)
{
	buf_add_str(out, before);
	cli_add_text(out, said, 500);
	buf_add_str(out, after);
}

static void add_rung(void *ctx, const char *measurement, const struct rpc_value *rung)
{
	const char *name = rpc_value_string(rung);

	buf_printf(ctx, "  %-28s ", measurement);
	add_said(ctx, "", name ? name : "-", "\n");
}

/* A line for each of these that is not 0. */
static const struct {
	const char *key, *before, *after;
} losses[] = {
	{ "process_events_lost", "births    ",
	  "of the kernel's news of births and deaths were lost" },
	{ "process_accounts_missing", "ends      of ",
	  "processes the kernel did not say in time all that they had used: their CPU time is a "
	  "least time" },
	{ "phase_markers_lost", "phases    ", "markers of them were lost" },
	{ "log_lines_lost", "log       ", "snapshots could not be written to it, and are missing" },
};

static void add_config(struct buf *out, const struct rpc_value *config)
{
	const char *group = rpc_value_string(rpc_value_get(config, "missing_group"));
	char when[32];

	if (!f64_known(number(config, "loaded")))
		return;
	add_said(out, "config    ", text(config, "file"),
		 rpc_value_bool(rpc_value_get(config, "was_read"), true) ? "" : " (not there)");
	buf_printf(
		out, ", read %s\n",
		clock_format_local((uint64_t)(number(config, "loaded") * 1e9), when, sizeof(when)));
	if (group)
		add_said(out, "          nobody reads all jobs: there is no group '", group,
			 "' here (access.read_group)\n");
	if (!f64_known(number(config, "refused")))
		return;
	buf_printf(out, "          refused %s",
		   clock_format_local((uint64_t)(number(config, "refused") * 1e9), when,
				      sizeof(when)));
	add_said(out, ", so the one before holds: ", text(config, "error"), "\n");
}

static void add_database(struct buf *out, const struct rpc_value *s)
{
	buf_printf(out, "database  %s\n", text(s, "database"));
	if (number(s, "over_max_bytes") > 0) {
		buf_add_str(out, "          with what lies beside it ");
		report_add_bytes(out, (uint64_t)number(s, "over_max_bytes"));
		buf_add_str(out, " above max_bytes (see \"proctor gc\")\n");
	}
	if (number(s, "ticks_lost") > 0)
		buf_printf(out, "          %.0f records could not be stored, and are lost\n",
			   number(s, "ticks_lost"));
	if (rpc_value_bool(rpc_value_get(s, "recording"), false))
		return;
	buf_add_str(out, "          cannot be used, so nothing is recorded");
	if (number(s, "ticks_waiting") > 0)
		buf_printf(out, " and records of %.0f jobs wait", number(s, "ticks_waiting"));
	add_said(out, ": ", text(s, "recording_error"), "\n");
}

static void write_text(const struct rpc_value *s, const struct rpc_value *config, struct buf *out)
{
	double orphans = number(s, "orphans"), wanted = number(s, "configured_interval_seconds");

	buf_printf(out, "proctor %s, pid %.0f, up ", text(s, "version"), number(s, "pid"));
	add_time(out, s, "uptime_seconds");
	buf_printf(out, "\njobs      %.0f running, %.0f queued; a sheet waits in %.0f\n",
		   number(s, "running_jobs"), number(s, "queued_jobs"), number(s, "held_jobs"));
	buf_printf(out, "pressure  %s (%s)\n", text(s, "pressure_level"),
		   text(s, "pressure_reason"));
	if (orphans > 0)
		buf_printf(out, "orphans   %.0f process%s whose job%s over\n", orphans,
			   orphans == 1 ? " lives on" : "es live on",
			   orphans == 1 ? " is" : "s are");
	buf_add_str(out, "cost      ");
	if (f64_known(number(s, "cpu_percent"))) /* what it costs to begin is not what it costs */
		buf_printf(out, "%.2f %% of a core", number(s, "cpu_percent"));
	else
		buf_add_str(out, "not known yet");
	buf_printf(out, ", %.1f MB; the last tick took ", number(s, "rss_mb"));
	add_time(out, s, "tick_cpu_seconds");
	buf_add_str(out, " of CPU and came ");
	add_time(out, s, "tick_lag_seconds");
	buf_printf(out, " late\nticks     %.0f, every %g s", number(s, "ticks"),
		   number(s, "interval_seconds"));
	if (f64_known(wanted) && number(s, "interval_seconds") > wanted)
		buf_printf(out, " instead of %g s, which costs more than it may", wanted);
	buf_printf(out, ", %.0f left out\n", number(s, "ticks_skipped"));
	buf_printf(out, "clients   %.0f, %.0f of them subscribers; %.0f events lost\n",
		   number(s, "clients"), number(s, "subscribers"), number(s, "events_lost"));
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		if (number(s, losses[i].key) > 0)
			buf_printf(out, "%s%.0f %s\n", losses[i].before, number(s, losses[i].key),
				   losses[i].after);
	add_database(out, s);
	add_config(out, config);
	if (rpc_value_string(rpc_value_get(s, "gpu_note"))) /* what is wrong with them */
		add_said(out, "GPUs      ", text(s, "gpu_note"), "\n");
	rpc_value_each(rpc_value_get(s, "rungs"), add_rung, out);
}

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	json_key(ctx, key);
	rpc_value_write(member, ctx);
}

int cli_status(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL, *config = NULL;
	struct status_args args = { 0 };
	struct err err = ERR_INIT;
	struct json j;

	cli_parse(&status_argp, argc, argv, 0, &args);
	if (cli_call("daemon.status", NULL, &status, &err) < 0 ||
	    cli_call("daemon.config", NULL, &config, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!args.json) {
		write_text(status, config, &out);
		return cli_print(&out);
	}
	json_init(&j, &out);
	json_begin_object(&j);
	rpc_value_each(status, write_member, &j);
	write_member(&j, "config", config);
	json_end_object(&j);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}
