#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/look.h"
#include "cli/show.h"

#define MAX_TEXT_ROWS 40

struct snapshot_args {
	bool json, all;
};

static const struct argp_option snapshot_options[] = {
	CLI_OPTION("json", snapshot_args, json, NULL, "Print one SystemSnapshot as JSON"),
	CLI_OPTION("all", snapshot_args, all, NULL,
		   "Every process of the host, not only those of jobs"),
	{ 0 },
};

static const struct argp snapshot_argp = {
	.options = snapshot_options,
	.parser = cli_parse_option,
	.doc = "Shows the host, each of its GPUs and the processes of running jobs now. CPU percentages "
	       "are taken over a fifth of a second.",
};

/* ---- showing it ---- */

static int by_rss(const void *a, const void *b)
{
	const struct proc_sample *x = *(const struct proc_sample *const *)a;
	const struct proc_sample *y = *(const struct proc_sample *const *)b;
	/* unknown sorts last */
	uint64_t rx = u64_known(x->rss_bytes) ? x->rss_bytes : 0;
	uint64_t ry = u64_known(y->rss_bytes) ? y->rss_bytes : 0;

	if (rx != ry)
		return rx < ry ? 1 : -1;
	return (x->key.pid > y->key.pid) - (x->key.pid < y->key.pid);
}

static int write_text(const struct snapshot *snap, bool all, struct buf *out)
{
	const struct proc_sample **rows = calloc(snap->n_processes + 1, sizeof(*rows));
	size_t n = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (all || snap->processes[i].job_id)
			rows[n++] = &snap->processes[i];
	qsort(rows, n, sizeof(*rows), by_rss);
	show_host(out, &snap->system);
	buf_printf(out, "; %llu processes; %d %s running\n", (unsigned long long)snap->n_processes,
		   snap->running_jobs, snap->running_jobs == 1 ? "job" : "jobs");
	for (size_t i = 0; i < snap->n_gpus; i++)
		show_gpu(out, &snap->gpus[i]);
	if (n > 0)
		show_process_titles(out);
	for (size_t i = 0; i < n && i < MAX_TEXT_ROWS; i++)
		show_process(out, rows[i]);
	if (n > MAX_TEXT_ROWS)
		buf_printf(out, "and %zu smaller ones (--json has all)\n", n - MAX_TEXT_ROWS);
	if (n == 0 && !all)
		buf_add_str(out, "no process belongs to a job (--all shows every process)\n");
	free(rows);
	return 0;
}

static int snapshot(const struct snapshot_args *args, const struct settings *ctx)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	enum snapshot_scope scope = args->all ? SNAPSHOT_ALL : SNAPSHOT_JOBS;
	struct err err = ERR_INIT;
	struct json j;

	snapshot_init(&snap);
	if (look_now(ctx, scope, &snap, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	json_init(&j, &out);
	if (args->json) {
		snapshot_write_json(&j, &snap, scope);
		buf_add_char(&out, '\n');
	} else if (write_text(&snap, args->all, &out) < 0) {
		return CLI_FAILED;
	}
	return cli_print(&out);
}

int cli_snapshot(int argc, char **argv)
{
	CLEANUP(settings_close) struct settings ctx;
	struct snapshot_args args = { 0 };
	struct err err = ERR_INIT;

	cli_parse(&snapshot_argp, argc, argv, 0, &args);
	if (settings_open(&ctx, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	return snapshot(&args, &ctx);
}
