#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "query/query.h"
#include "report/report.h"
#include "rpc/rpc.h"
#include "sources/sources.h"
#include "tui/tui.h"

/* Two looks this far apart tell CPU percentages; one look could not. */
#define LOOK_AGAIN_NS 200000000L
#define GPU_WAIT_MS 3000 /* their driver may take a second to begin */
#define MAX_AGE_NS UINT64_C(15000000000)

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
	.doc = "Shows the host, each of its GPUs and the processes of running jobs now. CPU percentages "
	       "are taken over a fifth of a second.",
};

/* ---- taking it ---- */

/* Whether a daemon has a snapshot with GPUs that is not too old, which is in ret then. */
static bool find_gpus(struct snapshot *ret)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = cli_ask_soon(NULL, "daemon.top");
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json_cursor c;
	struct json j;

	if (!answer)
		return false;
	json_init(&j, &text);
	rpc_value_write(answer, &j);
	json_cursor_init(&c, text.data, text.len);
	return snapshot_from_json(&c, ret) == 0 && ret->n_gpus > 0 && u64_known(ret->boot_ns) &&
	       clock_boot_ns() <= ret->boot_ns + MAX_AGE_NS;
}

static int compare_pids(const void *left, const void *right)
{
	pid_t l = ((const struct proc_sample *)left)->key.pid;
	pid_t r = ((const struct proc_sample *)right)->key.pid;

	return COMPARE(l, r);
}

void cli_take_gpus(const struct snapshot *from, struct snapshot *snap)
{
	snap->gpus = arena_memdup(&snap->arena, from->gpus, from->n_gpus * sizeof(*from->gpus));
	snap->n_gpus = snap->gpus ? from->n_gpus : 0;
	for (size_t i = 0; snap->n_processes > 0 && i < from->n_processes; i++) {
		const struct proc_sample *p = &from->processes[i];
		struct proc_sample *own = bsearch(p, snap->processes, snap->n_processes,
						  sizeof(*own), compare_pids); /* by pid */

		if (!own || own->key.start_ticks != p->key.start_ticks)
			continue;
		own->gpu_memory_bytes = p->gpu_memory_bytes;
		own->gpu_percent = p->gpu_percent;
	}
}

static void add_daemon(struct snapshot *snap)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *status = cli_ask_soon(NULL, "daemon.status");
	double mb = rpc_value_f64(rpc_value_get(status, "rss_mb"));

	if (!status)
		return; /* nothing is known of it */
	snap->daemon_pid = (pid_t)rpc_value_i64(rpc_value_get(status, "pid"), 0);
	if (mb >= 0 && mb < 1e12)
		snap->daemon_rss_bytes = (uint64_t)(mb * (1 << 20) + 0.5);
	snap->daemon_uptime_seconds = rpc_value_f64(rpc_value_get(status, "uptime_seconds"));
	snap->pressure_level = arena_strdup(
		&snap->arena, rpc_value_string(rpc_value_get(status, "pressure_level")));
}

int cli_take_snapshot(const struct settings *ctx, enum snapshot_scope scope, struct snapshot *ret,
		      struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(close_fd) int root_fd = proc_open_root(NULL);
	CLEANUP(snapshot_release) struct snapshot daemons;
	CLEANUP(look_close) struct look look = { .root_fd = -1 };
	const struct timespec pause = { .tv_nsec = LOOK_AGAIN_NS };
	struct look_options options = { .mask = ctx->mask };
	struct err trouble = ERR_INIT;
	bool has_gpus = ctx->config.gpu_enabled && sources_has_gpu(root_fd), is_daemons;
	int r;

	snapshot_init(&daemons);
	/* a daemon shows processes of jobs alone: who wants all must ask the drivers */
	is_daemons = has_gpus && scope == SNAPSHOT_JOBS && find_gpus(&daemons);
	options.reads_gpus = has_gpus && !is_daemons;
	r = look_open(&look, &options, err);
	if (r == 0)
		r = collector_scan(look.collector, ret, err);
	if (r < 0)
		return r;
	nanosleep(&pause, NULL);
	if (look.gpus)
		gpus_wait(look.gpus, GPU_WAIT_MS);
	if (cli_open_store(&ctx->paths, STORE_READ, &store, &trouble) == -ENOENT)
		trouble.code = 0; /* nothing was ever recorded, so no job runs */
	r = look_take(&look, store, scope, ret, &trouble, err);
	if (trouble.code)
		log_warning("which processes belong to jobs is not known: %s", trouble.text);
	if (r == 0 && is_daemons)
		cli_take_gpus(&daemons, ret);
	if (r == 0)
		add_daemon(ret);
	return r;
}

/* ---- showing it ---- */

static int by_rss(const void *a, const void *b)
{
	const struct proc_sample *x = *(const struct proc_sample *const *)a;
	const struct proc_sample *y = *(const struct proc_sample *const *)b;

	/* unknown is the largest number, and one more is 0: it sorts last */
	return COMPARE(y->rss_bytes + 1, x->rss_bytes + 1) ?: COMPARE(x->key.pid, y->key.pid);
}

/* "memory 3 GB of 16 GB used, 12 GB available; load 0.10 0.20 0.30; 312 processes; 2 jobs running"
 */
static void add_host(struct buf *out, const struct snapshot *snap)
{
	const struct system_sample *sys = &snap->system;

	buf_add_str(out, "memory ");
	report_add_bytes(out, sys->memory_used_bytes);
	buf_add_str(out, " of ");
	report_add_bytes(out, sys->memory_total_bytes);
	buf_add_str(out, " used, ");
	report_add_bytes(out, sys->memory_available_bytes);
	buf_add_str(out, " available; load ");
	if (f64_known(sys->load1))
		buf_printf(out, "%.2f %.2f %.2f", sys->load1, sys->load5, sys->load15);
	else
		buf_add_char(out, '-');
	buf_printf(out, "; %llu processes; %d %s running\n", (unsigned long long)snap->n_processes,
		   snap->running_jobs, snap->running_jobs == 1 ? "job" : "jobs");
}

static void add_value(struct buf *out, double value, const char *unit)
{
	if (f64_known(value))
		buf_printf(out, "%.0f%s", value, unit);
	else
		buf_printf(out, "-%s", unit);
}

static void add_megabytes(struct buf *out, double mb)
{
	report_add_bytes(out, f64_known(mb) ? (uint64_t)(mb * 1024 * 1024) : U64_UNKNOWN);
}

/* "GPU 0: 50 % busy, 1 GB of 80 GB used, 40 C, 300 W" */
static void add_gpu(struct buf *out, const struct gpu_sample *gpu)
{
	buf_printf(out, "GPU %d: %s", gpu->index, gpu->is_lost ? "lost\n" : "");
	if (gpu->is_lost)
		return;
	add_value(out, gpu->utilization_pct, " % busy, ");
	add_megabytes(out, gpu->memory_used_mb);
	buf_add_str(out, " of ");
	add_megabytes(out, gpu->memory_total_mb);
	buf_add_str(out, " used, ");
	add_value(out, gpu->temperature_c, " C, ");
	add_value(out, gpu->power_watts, " W\n");
}

static int write_text(const struct snapshot *snap, bool all, struct buf *out)
{
	static const struct table_column columns[] = {
		{ "    PID", COLUMN_RIGHT },   { "S", COLUMN_LEFT },   { "  CPU%", COLUMN_RIGHT },
		{ "      RSS", COLUMN_RIGHT }, { "JOB", COLUMN_LEFT }, { "COMMAND", COLUMN_LEFT },
	};
	CLEANUP(free_ptr)
	const struct proc_sample **rows = calloc(snap->n_processes + 1, sizeof(*rows));
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	size_t n = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (all || snap->processes[i].job_id)
			rows[n++] = &snap->processes[i];
	qsort(rows, n, sizeof(*rows), by_rss);
	add_host(out, snap);
	for (size_t i = 0; i < snap->n_gpus; i++)
		add_gpu(out, &snap->gpus[i]);
	for (size_t i = 0; i < n && i < MAX_TEXT_ROWS; i++) {
		const struct proc_sample *p = rows[i];

		buf_printf(table_cell(&t), "%d", (int)p->key.pid);
		buf_add_char(table_cell(&t), p->state);
		add_decimal(table_cell(&t), p->cpu_percent);
		report_add_bytes(table_cell(&t), p->rss_bytes);
		buf_add_str(table_cell(&t), p->job_id ? p->job_id : "-");
		cli_add_text(table_cell(&t), p->command ? p->command : p->comm, 60);
	}
	if (n > 0)
		table_print(&t, out);
	if (n > MAX_TEXT_ROWS)
		buf_printf(out, "and %zu smaller ones (--json has all)\n", n - MAX_TEXT_ROWS);
	if (n == 0 && !all)
		buf_add_str(out, "no process belongs to a job (--all shows every process)\n");
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
	if (cli_take_snapshot(ctx, scope, &snap, &err) < 0)
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
