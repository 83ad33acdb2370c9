#include "cli/look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/look_gpus.h"
#include "jobs/jobs.h"
#include "rpc/rpc.h"
#include "sources/sources.h"

/* Two looks this far apart tell CPU percentages; one look could not. */
#define LOOK_AGAIN_NS 200000000L
#define DAEMON_WAIT_MS 1000
#define GPU_WAIT_MS 3000 /* their driver may take a second to begin */

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

static int add_job(const struct attempt *a, struct snapshot *snap, struct membership_job *ret)
{
	/* lives as long as the snapshot */
	const char *job_id = arena_strdup(&snap->arena, a->job_id);

	if (!job_id)
		return -ENOMEM;
	snap->progress[snap->n_progress++] = (struct job_progress){
		.job_id = job_id,
		.total_sheets = a->total_sheets,
		.last_completed_sheet = a->last_completed_sheet,
		.current_sheet = a->current_sheet,
		.status = attempt_status_name(a),
		.attempt_num = a->attempt_num,
		.uid = a->uid,
	};
	snap->active_sheets += a->current_sheet != SHEET_NONE;
	*ret = (struct membership_job){
		.kind = a->is_attached ? MEMBERSHIP_ATTACHED : MEMBERSHIP_RUNNER,
		.root = a->runner,
		.job_id = job_id,
		.attempt_id = a->id,
		.sheet_num = a->current_sheet,
	};
	return 0;
}

static int add_jobs(const struct attempt_list *running, struct snapshot *snap)
{
	size_t n = running->n + 1;
	struct membership_job *roots = arena_alloc(&snap->arena, n * sizeof(*roots));
	struct membership *membership;
	int r = 0;

	snap->progress = arena_alloc(&snap->arena, n * sizeof(*snap->progress));
	if (!snap->progress || !roots)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < running->n; i++)
		if (running->items[i].is_running) /* else lost, with a late sign of life */
			r = add_job(&running->items[i], snap, &roots[snap->n_progress]);
	snap->running_jobs = (int)snap->n_progress;
	if (r < 0)
		return r;
	membership = membership_new();
	r = membership ? membership_set_jobs(membership, roots, snap->n_progress) : -ENOMEM;
	if (r == 0)
		r = membership_scan(membership, snap, MEMBERSHIP_FORGET_MISSING, NULL);
	membership_free(membership);
	return r;
}

/* ---- the daemon ---- */

static void take_daemon(const struct rpc_value *status, struct snapshot *snap)
{
	double mb = rpc_value_f64(rpc_value_get(status, "rss_mb"));

	snap->daemon_pid = (pid_t)rpc_value_i64(rpc_value_get(status, "pid"), 0);
	if (mb >= 0 && mb < 1e12)
		snap->daemon_rss_bytes = (uint64_t)(mb * (1 << 20) + 0.5);
	snap->daemon_uptime_seconds = rpc_value_f64(rpc_value_get(status, "uptime_seconds"));
	snap->pressure_level = arena_strdup(
		&snap->arena, rpc_value_string(rpc_value_get(status, "pressure_level")));
}

/* Where none answers soon nothing is known of it. */
static void ask_daemon(struct snapshot *snap)
{
	const struct rpc_client_options options = { .timeout_ms = DAEMON_WAIT_MS };
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL;
	struct rpc_client *client = NULL;

	if (rpc_client_open(&options, &client, NULL) < 0)
		return;
	if (rpc_client_call(client, "daemon.status", NULL, &status, NULL) == 0)
		take_daemon(status, snap);
	rpc_client_close(client);
}

/* ---- taking it ---- */

/* A daemon shows processes of jobs alone: who wants all must ask the drivers. */
static struct rpc_value *find_gpus(const struct settings *ctx, int root_fd,
				   enum snapshot_scope scope, struct gpus **ret)
{
	const struct gpus_options options = { .root_fd = root_fd, .at_once = true };
	struct rpc_value *told = NULL;

	if (!ctx->config.gpu_enabled || !sources_has_gpu(root_fd))
		return NULL;
	if (scope == SNAPSHOT_JOBS)
		told = look_ask_gpus();
	if (!told)
		gpus_open(&options, ret, NULL);
	return told;
}

static int take(const struct settings *ctx, const struct attempt_list *running,
		enum snapshot_scope scope, struct snapshot *snap, struct err *err)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collector_options options = { .root_fd = root_fd, .mask = ctx->mask };
	CLEANUP(cli_value_cleanup) struct rpc_value *told_gpus = NULL;
	struct timespec pause = { .tv_nsec = LOOK_AGAIN_NS };
	struct collector *collector = NULL;
	int r;

	if (root_fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	told_gpus = find_gpus(ctx, root_fd, scope, &options.gpus);
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
	if (r == 0 && told_gpus)
		look_take_gpus(told_gpus, snap);
	if (r == 0)
		ask_daemon(snap);
	collector_free(collector);
	gpus_close(options.gpus);
	return r;
}

int look_now(const struct settings *ctx, enum snapshot_scope scope, struct snapshot *ret,
	     struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list running = { 0 };

	if (list_running(&ctx->paths, &running, err) < 0)
		log_warning("which processes belong to jobs is not known: %s", err->text);
	return take(ctx, &running, scope, ret, err);
}
