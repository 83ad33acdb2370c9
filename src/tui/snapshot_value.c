#include "tui/snapshot_value.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

enum unit { UNIT_U64, UNIT_F64, UNIT_MB, UNIT_SECONDS };

struct member {
	const char *key;
	enum unit unit;
	size_t offset;
};

/* To the whole, as it was: what does not fit is unknown. */
static uint64_t scaled(const struct rpc_value *value, double scale)
{
	double v = rpc_value_f64(value);

	if (isnan(v) || v < 0 || v * scale >= 1.8e19)
		return U64_UNKNOWN;
	return (uint64_t)llround(v * scale);
}

static void read_members(const struct rpc_value *value, const struct member *members, size_t n,
			 void *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct rpc_value *v = rpc_value_get(value, members[i].key);
		char *at = (char *)ret + members[i].offset;

		switch (members[i].unit) {
		case UNIT_U64:
			*(uint64_t *)at = rpc_value_u64(v);
			break;
		case UNIT_F64:
			*(double *)at = rpc_value_f64(v);
			break;
		case UNIT_MB:
			*(uint64_t *)at = scaled(v, 1 << 20);
			break;
		case UNIT_SECONDS:
			*(uint64_t *)at = scaled(v, 1e9);
			break;
		}
	}
}

/* ---- processes ---- */

#define P(key_, unit_, field_)                                    \
	{                                                         \
		key_, unit_, offsetof(struct proc_sample, field_) \
	}

static const struct member process_members[] = {
	P("cpu_percent", UNIT_F64, cpu_percent),
	P("rss_mb", UNIT_MB, rss_bytes),
	P("vms_mb", UNIT_MB, vms_bytes),
	P("threads", UNIT_U64, threads),
	P("open_fds", UNIT_U64, open_fds),
	P("age_seconds", UNIT_F64, age_seconds),
	P("start_ticks", UNIT_U64, key.start_ticks),
	P("user_cpu_seconds", UNIT_SECONDS, user_ns),
	P("system_cpu_seconds", UNIT_SECONDS, system_ns),
	P("hwm_mb", UNIT_MB, hwm_bytes),
	P("rss_file_mb", UNIT_MB, rss_file_bytes),
	P("swap_mb", UNIT_MB, swap_bytes),
	P("rchar", UNIT_U64, rchar),
	P("wchar", UNIT_U64, wchar),
	P("read_bytes", UNIT_U64, read_bytes),
	P("write_bytes", UNIT_U64, write_bytes),
	P("fd_limit", UNIT_U64, fd_limit),
	P("gpu_memory_mb", UNIT_MB, gpu_memory_bytes),
	P("gpu_pct", UNIT_F64, gpu_percent),
};

static int number_or(const struct rpc_value *value, int otherwise)
{
	int64_t v = rpc_value_i64(value, otherwise);

	return v >= INT32_MIN && v <= INT32_MAX ? (int)v : otherwise;
}

static void copy_comm(const char *comm, char ret[COMM_BYTES])
{
	size_t n = comm ? strnlen(comm, COMM_BYTES - 1) : 0;

	memcpy(ret, comm ? comm : "", n);
	ret[n] = '\0';
}

static int read_process(const struct rpc_value *value, struct snapshot *s)
{
	struct proc_sample *p = snapshot_add_process(s);
	const char *state = rpc_value_string(rpc_value_get(value, "state"));
	const char *limit = rpc_value_string(rpc_value_get(value, "fd_limit"));

	if (!p)
		return -ENOMEM;
	read_members(value, process_members, ARRAY_SIZE(process_members), p);
	p->key.pid = number_or(rpc_value_get(value, "pid"), 0);
	p->ppid = number_or(rpc_value_get(value, "ppid"), 0);
	p->state = state && state[0] ? state[0] : '?';
	p->sheet_num = number_or(rpc_value_get(value, "sheet_num"), SHEET_NONE);
	p->rank = number_or(rpc_value_get(value, "rank"), RANK_NONE);
	if (limit && strcmp(limit, "unlimited") == 0)
		p->fd_limit = FD_LIMIT_UNLIMITED;
	copy_comm(rpc_value_string(rpc_value_get(value, "comm")), p->comm);
	p->command = arena_strdup(&s->arena, rpc_value_string(rpc_value_get(value, "command")));
	p->job_id = arena_strdup(&s->arena, rpc_value_string(rpc_value_get(value, "job_id")));
	return 0;
}

static int read_processes(const struct rpc_value *list, struct snapshot *s)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < rpc_value_len(list); i++)
		r = read_process(rpc_value_at(list, i), s);
	return r;
}

/* ---- GPUs and progress ---- */

#define G(key_, field_)                                             \
	{                                                           \
		key_, UNIT_F64, offsetof(struct gpu_sample, field_) \
	}

static const struct member gpu_members[] = {
	G("utilization_pct", utilization_pct), G("memory_used_mb", memory_used_mb),
	G("memory_total_mb", memory_total_mb), G("temperature_c", temperature_c),
	G("power_watts", power_watts),
};

static int read_gpus(const struct rpc_value *list, struct snapshot *s)
{
	size_t n = rpc_value_len(list);

	if (!rpc_value_is_list(list))
		return 0;
	s->gpus = arena_alloc(&s->arena, (n + 1) * sizeof(*s->gpus));
	if (!s->gpus)
		return -ENOMEM;
	for (s->n_gpus = 0; s->n_gpus < n; s->n_gpus++) {
		const struct rpc_value *value = rpc_value_at(list, s->n_gpus);
		struct gpu_sample *gpu = &s->gpus[s->n_gpus];

		gpu_sample_init(gpu);
		gpu->index = number_or(rpc_value_get(value, "index"), (int)s->n_gpus);
		read_members(value, gpu_members, ARRAY_SIZE(gpu_members), gpu);
	}
	return 0;
}

static int read_progress(const struct rpc_value *list, struct snapshot *s)
{
	size_t n = rpc_value_len(list);

	s->progress = arena_alloc(&s->arena, (n + 1) * sizeof(*s->progress));
	if (!s->progress)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct rpc_value *value = rpc_value_at(list, i);
		const char *job_id = rpc_value_string(rpc_value_get(value, "job_id"));

		if (!job_id)
			continue;
		s->progress[s->n_progress++] = (struct job_progress){
			.job_id = arena_strdup(&s->arena, job_id),
			.total_sheets = number_or(rpc_value_get(value, "total_sheets"), 0),
			.last_completed_sheet =
				number_or(rpc_value_get(value, "last_completed_sheet"), 0),
			.current_sheet =
				number_or(rpc_value_get(value, "current_sheet"), SHEET_NONE),
			.status = arena_strdup(&s->arena,
					       rpc_value_string(rpc_value_get(value, "status"))),
		};
	}
	return 0;
}

/* ---- the host ---- */

#define H(key_, unit_, field_)                                 \
	{                                                      \
		key_, unit_, offsetof(struct snapshot, field_) \
	}

static const struct member host_members[] = {
	H("timestamp", UNIT_SECONDS, wall_ns),
	H("daemon_rss_mb", UNIT_MB, daemon_rss_bytes),
	H("conductor_uptime_seconds", UNIT_F64, daemon_uptime_seconds),
	H("system_memory_total_mb", UNIT_MB, system.memory_total_bytes),
	H("system_memory_available_mb", UNIT_MB, system.memory_available_bytes),
	H("system_memory_used_mb", UNIT_MB, system.memory_used_bytes),
	H("load_avg_1", UNIT_F64, system.load1),
	H("load_avg_5", UNIT_F64, system.load5),
	H("load_avg_15", UNIT_F64, system.load15),
	H("cpu_user_seconds", UNIT_SECONDS, system.cpu_user_ns),
	H("cpu_system_seconds", UNIT_SECONDS, system.cpu_system_ns),
	H("cpu_idle_seconds", UNIT_SECONDS, system.cpu_idle_ns),
	H("cpu_iowait_seconds", UNIT_SECONDS, system.cpu_iowait_ns),
	H("uptime_seconds", UNIT_SECONDS, boot_ns),
};

static void read_host(const struct rpc_value *value, struct snapshot *s)
{
	uint64_t cpus = rpc_value_u64(rpc_value_get(value, "cpu_count"));

	read_members(value, host_members, ARRAY_SIZE(host_members), s);
	s->system.cpu_count = cpus < 1 << 20 ? (unsigned)cpus : 0;
	s->system.psi_cpu.some.avg10 = rpc_value_f64(
		rpc_value_get(rpc_value_get(rpc_value_get(value, "psi_cpu"), "some"), "avg10"));
	s->system.psi_memory.some.avg10 = rpc_value_f64(
		rpc_value_get(rpc_value_get(rpc_value_get(value, "psi_memory"), "some"), "avg10"));
	s->system.psi_io.some.avg10 = rpc_value_f64(
		rpc_value_get(rpc_value_get(rpc_value_get(value, "psi_io"), "some"), "avg10"));
	s->pressure_level =
		arena_strdup(&s->arena, rpc_value_string(rpc_value_get(value, "pressure_level")));
	s->running_jobs = number_or(rpc_value_get(value, "running_jobs"), 0);
	s->active_sheets = number_or(rpc_value_get(value, "active_sheets"), 0);
}

int snapshot_from_value(const struct rpc_value *value, struct snapshot *ret)
{
	int r;

	if (!rpc_value_is_object(value))
		return -EINVAL;
	snapshot_reset(ret);
	read_host(value, ret);
	r = read_processes(rpc_value_get(value, "processes"), ret);
	if (r == 0)
		r = read_gpus(rpc_value_get(value, "gpus"), ret);
	if (r == 0)
		r = read_progress(rpc_value_get(value, "job_progress"), ret);
	return r;
}
