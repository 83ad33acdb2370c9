#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "jobs/jobs.h"
#include "sources/sources.h"

/* Two looks this far apart tell CPU percentages; one look could not. */
#define LOOK_AGAIN_NS 200000000L
#define GPU_WAIT_MS 3000 /* their driver may take a second to begin */
#define MAX_TEXT_ROWS 40

enum snapshot_key { KEY_JSON = 256, KEY_ALL };

struct snapshot_args {
	bool json, all;
};

static const struct argp_option snapshot_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print one SystemSnapshot as JSON", 0 },
	{ "all", KEY_ALL, NULL, 0, "Every process of the host, not only those of jobs", 0 },
	{ 0 },
};

static error_t parse_snapshot_option(int key, char *arg, struct argp_state *state)
{
	struct snapshot_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_ALL:
		args->all = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp snapshot_argp = {
	.options = snapshot_options,
	.parser = parse_snapshot_option,
	.doc = "Shows the host and the processes of running jobs now. CPU percentages are taken over a "
	       "fifth of a second.",
};

/* ---- which jobs run ---- */

static int list_running(const struct paths *paths, struct attempt_list *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct attempt_filter filter = { .since_wall_ns = clock_wall_ns() };
	int r = cli_open_store(paths, &store, err);

	if (r == -ENOENT)
		return 0; /* nothing was ever recorded, so no job runs */
	return r < 0 ? r : store_list_attempts(store, &filter, ret, err);
}

static int assign_job(const struct attempt *a, struct snapshot *snap)
{
	struct tree *tree = tree_new(a->job_id, a->runner.pid);
	int r;

	if (!tree)
		return -ENOMEM;
	tree_set_sheet(tree, a->current_sheet);
	r = tree_assign(tree, snap, TREE_FORGET_MISSING);
	tree_free(tree);
	return r;
}

static int add_jobs(const struct attempt_list *running, struct snapshot *snap)
{
	snap->progress = arena_alloc(&snap->arena, running->n * sizeof(*snap->progress));
	if (!snap->progress)
		return -ENOMEM;
	for (size_t i = 0; i < running->n; i++) {
		const struct attempt *a = &running->items[i];
		int r;

		if (!a->is_running)
			continue; /* lost, with a last sign of life after we began to look */
		r = assign_job(a, snap);
		if (r < 0)
			return r;
		snap->progress[snap->n_progress++] = (struct job_progress){
			.job_id = a->job_id,
			.total_sheets = a->total_sheets,
			.last_completed_sheet = a->last_completed_sheet,
			.current_sheet = a->current_sheet,
			.status = attempt_status_name(a),
		};
		snap->active_sheets += a->current_sheet != SHEET_NONE;
	}
	snap->running_jobs = (int)snap->n_progress;
	return 0;
}

/* ---- taking it ---- */

static int take(const struct settings *ctx, const struct attempt_list *running,
		enum snapshot_scope scope, struct snapshot *snap, struct err *err)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collector_options options = { .root_fd = root_fd, .mask = ctx->mask };
	struct gpus_options gpu_options = { .root_fd = root_fd, .at_once = true };
	struct timespec pause = { .tv_nsec = LOOK_AGAIN_NS };
	struct collector *collector = NULL;
	int r;

	if (root_fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	if (ctx->config.gpu_enabled)
		gpus_open(&gpu_options, &options.gpus, NULL);
	r = collector_new(&options, &collector, err);
	if (r == 0)
		r = collector_scan(collector, snap, err);
	if (r == 0) {
		nanosleep(&pause, NULL);
		if (options.gpus)
			gpus_wait(options.gpus, GPU_WAIT_MS);
		r = collector_scan(collector, snap, err);
	}
	if (r == 0) {
		r = add_jobs(running, snap);
		if (r < 0)
			err_set(err, r, "cannot take a snapshot: %s", strerror(-r));
		else
			collector_fill(collector, snap, scope);
	}
	collector_free(collector);
	gpus_close(options.gpus);
	return r;
}

/* ---- showing it ---- */

static void add_host(struct buf *out, const struct snapshot *snap)
{
	show_host(out, &snap->system);
	buf_printf(out, "; %llu processes; %d %s running\n", (unsigned long long)snap->n_processes,
		   snap->running_jobs, snap->running_jobs == 1 ? "job" : "jobs");
}

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
	add_host(out, snap);
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

static int write_json(const struct snapshot *snap, enum snapshot_scope scope, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	snapshot_write_json(&j, snap, scope);
	buf_add_char(out, '\n');
	return 0;
}

static int snapshot(const struct snapshot_args *args, const struct settings *ctx)
{
	CLEANUP(attempt_list_release) struct attempt_list running = { 0 };
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	enum snapshot_scope scope = args->all ? SNAPSHOT_ALL : SNAPSHOT_JOBS;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	/* The host can be shown without the database. */
	if (list_running(&ctx->paths, &running, &err) < 0)
		log_warning("which processes belong to jobs is not known: %s", err.text);
	if (take(ctx, &running, scope, &snap, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (args->json)
		write_json(&snap, scope, &out);
	else if (write_text(&snap, args->all, &out) < 0)
		return CLI_FAILED;
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
