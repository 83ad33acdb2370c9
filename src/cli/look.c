#include "cli/look.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "rpc/rpc.h"
#include "sources/sources.h"
#include "tui/tui.h"

#define GPUS_TIMEOUT_MS 2000 /* a driver that begins takes about as long */
#define MAX_AGE_SECONDS 15

/* ---- GPUs, as a daemon has read them ---- */

static bool is_recent(const struct rpc_value *told)
{
	double uptime = rpc_value_f64(rpc_value_get(told, "uptime_seconds"));

	return (double)clock_boot_ns() / 1e9 - uptime <= MAX_AGE_SECONDS;
}

/*
 * The daemon's last snapshot, to be freed. NULL: no daemon answers at once, it reads no GPU, or
 * its snapshot is too old.
 */
static struct rpc_value *ask_gpus(void)
{
	const struct rpc_client_options options = { .timeout_ms = GPUS_TIMEOUT_MS };
	struct rpc_client *client = NULL;
	struct rpc_value *told = NULL;

	if (rpc_client_open(&options, &client, NULL) < 0)
		return NULL;
	rpc_client_call(client, "daemon.top", NULL, &told, NULL);
	rpc_client_close(client);
	if (told && rpc_value_len(rpc_value_get(told, "gpus")) > 0 && is_recent(told))
		return told;
	return rpc_value_free(told);
}

static const struct {
	const char *key;
	size_t offset; /* of a double in struct gpu_sample */
} numbers[] = {
	{ "utilization_pct", offsetof(struct gpu_sample, utilization_pct) },
	{ "memory_used_mb", offsetof(struct gpu_sample, memory_used_mb) },
	{ "memory_total_mb", offsetof(struct gpu_sample, memory_total_mb) },
	{ "temperature_c", offsetof(struct gpu_sample, temperature_c) },
	{ "power_watts", offsetof(struct gpu_sample, power_watts) },
	{ "energy_joules", offsetof(struct gpu_sample, energy_joules) },
	{ "sm_clock_mhz", offsetof(struct gpu_sample, sm_clock_mhz) },
};

static uint64_t find_throttle(const char *name)
{
	const char *known;
	uint64_t bit;

	for (size_t i = 0; name && (known = gpu_throttle_name(i, &bit)); i++)
		if (strcmp(known, name) == 0)
			return bit;
	return 0;
}

static uint64_t take_throttles(const struct rpc_value *list)
{
	uint64_t bits = 0;

	if (!rpc_value_is_list(list))
		return U64_UNKNOWN;
	for (size_t i = 0; i < rpc_value_len(list); i++)
		bits |= find_throttle(rpc_value_string(rpc_value_at(list, i)));
	return bits;
}

static void take_gpu(const struct rpc_value *told, size_t i, struct gpu_sample *ret)
{
	gpu_sample_init(ret);
	ret->index = (int)rpc_value_i64(rpc_value_get(told, "index"), (int64_t)i);
	for (size_t k = 0; k < ARRAY_SIZE(numbers); k++) {
		double value = rpc_value_f64(rpc_value_get(told, numbers[k].key));

		memcpy((char *)ret + numbers[k].offset, &value, sizeof(value));
	}
	ret->throttle = take_throttles(rpc_value_get(told, "throttle_reasons"));
	ret->ecc_errors = rpc_value_u64(rpc_value_get(told, "ecc_errors"));
	ret->last_xid = rpc_value_u64(rpc_value_get(told, "last_xid"));
	ret->is_lost = rpc_value_bool(rpc_value_get(told, "is_lost"), false);
}

static int compare_pid(const void *pid, const void *process)
{
	pid_t x = *(const pid_t *)pid, y = ((const struct proc_sample *)process)->key.pid;

	return (x > y) - (x < y);
}

/* They ascend by pid. */
static struct proc_sample *find_process(const struct snapshot *snap, pid_t pid)
{
	if (snap->n_processes == 0)
		return NULL;
	return bsearch(&pid, snap->processes, snap->n_processes, sizeof(snap->processes[0]),
		       compare_pid);
}

static void take_process(const struct rpc_value *told, struct snapshot *snap)
{
	pid_t pid = (pid_t)rpc_value_i64(rpc_value_get(told, "pid"), 0);
	double mb = rpc_value_f64(rpc_value_get(told, "gpu_memory_mb"));
	struct proc_sample *p = find_process(snap, pid);

	if (!p || p->key.start_ticks != rpc_value_u64(rpc_value_get(told, "start_ticks")))
		return;
	p->gpu_memory_bytes = mb >= 0 && mb < 1e12 ? (uint64_t)(mb * (1 << 20) + 0.5) : U64_UNKNOWN;
	p->gpu_percent = rpc_value_f64(rpc_value_get(told, "gpu_pct"));
}

void look_take_gpus(const struct rpc_value *told, struct snapshot *snap)
{
	const struct rpc_value *gpus = rpc_value_get(told, "gpus");
	const struct rpc_value *processes = rpc_value_get(told, "processes");
	size_t n = rpc_value_len(gpus);

	snap->gpus = arena_alloc(&snap->arena, (n + 1) * sizeof(*snap->gpus));
	if (!snap->gpus)
		return;
	for (size_t i = 0; i < n; i++)
		take_gpu(rpc_value_at(gpus, i), i, &snap->gpus[i]);
	snap->n_gpus = n;
	for (size_t i = 0; i < rpc_value_len(processes); i++)
		take_process(rpc_value_at(processes, i), snap);
}

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
		told = ask_gpus();
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
		r = tui_assign_jobs(snap, running);
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
