#include "cli/look_gpus.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"

#define TIMEOUT_MS 2000 /* a driver that begins takes about as long */
#define MAX_AGE_SECONDS 15

/* ---- asking ---- */

static bool is_recent(const struct rpc_value *told)
{
	double uptime = rpc_value_f64(rpc_value_get(told, "uptime_seconds"));

	return (double)clock_boot_ns() / 1e9 - uptime <= MAX_AGE_SECONDS;
}

struct rpc_value *look_ask_gpus(void)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
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

/* ---- devices ---- */

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

/* ---- processes ---- */

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

/* ---- both ---- */

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
