#include "tui/tui.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/sample_fields.h"

/* Reads one value to where it belongs; strings go into the snapshot's arena. */
typedef void read_fn(struct json_cursor *c, struct snapshot *s, void *ret);

struct member {
	const char *key;
	size_t len;
	read_fn *read;
	size_t offset;
};

#define M(key_, type_, read_, field_)                                         \
	{                                                                     \
		key_, sizeof(key_) - 1, read_, offsetof(struct type_, field_) \
	}

/* They come in the order in which they were written, which is mostly that of the table: a member is
 * looked up from where the last one was. */
static void read_members(struct json_cursor *c, struct snapshot *s, const struct member *members,
			 size_t n, void *ret)
{
	const char *key;
	size_t len, at = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		size_t i = 0;

		while (i < n &&
		       (members[at].len != len || memcmp(members[at].key, key, len) != 0)) {
			at = (at + 1) % n;
			i++;
		}
		if (i < n)
			members[at].read(c, s, (char *)ret + members[at].offset);
		else
			json_cursor_skip(c);
	}
}

/* How many there are, of a list or an object; the cursor is a copy. */
static size_t count_inside(struct json_cursor c, char bracket)
{
	const char *key;
	size_t n = 0, len;

	if (!json_cursor_enter(&c, bracket))
		return 0;
	while (bracket == '{' ? json_cursor_next_key(&c, &key, &len)
			      : json_cursor_next_element(&c)) {
		json_cursor_skip(&c);
		n++;
	}
	return n;
}

/* ---- values ---- */

static void read_u64(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)s;
	*(uint64_t *)ret = json_cursor_u64(c);
}

static void read_f64(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)s;
	*(double *)ret = json_cursor_f64(c);
}

/* To the whole, as it was: what does not fit is unknown. */
static uint64_t scaled(double v, double scale)
{
	if (isnan(v) || v < 0 || v * scale >= 1.8e19)
		return U64_UNKNOWN;
	return (uint64_t)(v * scale + 0.5);
}

static void read_mb(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)s;
	*(uint64_t *)ret = scaled(json_cursor_f64(c), 1 << 20);
}

static void read_seconds(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)s;
	*(uint64_t *)ret = scaled(json_cursor_f64(c), 1e9);
}

/* What it is where none is told, it keeps. */
static void read_int(struct json_cursor *c, struct snapshot *s, void *ret)
{
	int64_t v = json_cursor_i64(c, *(int *)ret);

	(void)s;
	if (v >= INT32_MIN && v <= INT32_MAX)
		*(int *)ret = (int)v;
}

static void read_id(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)s;
	*(int64_t *)ret = json_cursor_i64(c, 0);
}

static void read_unsigned(struct json_cursor *c, struct snapshot *s, void *ret)
{
	uint64_t v = json_cursor_u64(c);

	(void)s;
	*(unsigned *)ret = v < 1 << 20 ? (unsigned)v : 0;
}

static void read_text(struct json_cursor *c, struct snapshot *s, void *ret)
{
	*(const char **)ret = json_cursor_string(c, &s->arena);
}

/* ---- processes ---- */

static void read_state(struct json_cursor *c, struct snapshot *s, void *ret)
{
	const char *state = json_cursor_string(c, &s->arena);

	*(char *)ret = state && state[0] ? state[0] : '?';
}

static void read_comm(struct json_cursor *c, struct snapshot *s, void *ret)
{
	const char *comm = json_cursor_string(c, &s->arena);
	size_t n = comm ? strnlen(comm, COMM_BYTES - 1) : 0;

	memcpy(ret, comm ? comm : "", n);
	((char *)ret)[n] = '\0';
}

/* A number, or "unlimited". */
static void read_fd_limit(struct json_cursor *c, struct snapshot *s, void *ret)
{
	struct json_cursor text = *c;
	const char *limit;

	read_u64(c, s, ret);
	if (u64_known(*(uint64_t *)ret))
		return;
	limit = json_cursor_string(&text, &s->arena);
	if (limit && strcmp(limit, "unlimited") == 0)
		*(uint64_t *)ret = FD_LIMIT_UNLIMITED;
}

/* What it is where neither is told, it keeps. */
static void read_flag(struct json_cursor *c, struct snapshot *s, void *ret)
{
	const char *text;
	size_t len;

	(void)s;
	json_cursor_value(c, &text, &len);
	if (json_cursor_is(text, len, "true") || json_cursor_is(text, len, "false"))
		*(signed char *)ret = text[0] == 't';
}

/* {"read":12,…}: the process whose they are is the last one. */
static void read_call_counts(struct json_cursor *c, struct snapshot *s, void *ret)
{
	struct proc_sample *p = ret;
	size_t n = count_inside(*c, '{'), len;
	struct syscall_use *uses;
	const char *key;

	if (!json_cursor_enter(c, '{'))
		return; /* they were not counted */
	uses = arena_alloc(&s->arena, (n + 1) * sizeof(*uses));
	p->syscalls = uses;
	p->n_syscalls = 0;
	while (json_cursor_next_key(c, &key, &len)) {
		const char *name = uses ? arena_strndup(&s->arena, key, len) : NULL;
		uint64_t count = json_cursor_u64(c);

		if (name && u64_known(count))
			uses[p->n_syscalls++] = (struct syscall_use){
				.name = name,
				.count = count,
				.errors = U64_UNKNOWN,
				.cpu_ns = U64_UNKNOWN,
				.wait_ns = U64_UNKNOWN,
			};
	}
}

/* Behind their counts, and in the same order. */
static void read_call_times(struct json_cursor *c, struct snapshot *s, void *ret)
{
	struct proc_sample *p = ret;
	const char *key;
	size_t len, i = 0;

	(void)s;
	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		double share = json_cursor_f64(c);
		/* The array is ours: it came from this arena. */
		struct syscall_use *uses = (struct syscall_use *)(uintptr_t)p->syscalls;

		while (i < p->n_syscalls && !json_cursor_is(key, len, uses[i].name))
			i++;
		if (i < p->n_syscalls)
			uses[i].cpu_ns = scaled(share, 1e7); /* of 1 s, and they are percent */
	}
}

static read_fn *const readers[FIELD_KINDS] = {
	[FIELD_PID] = read_int,
	[FIELD_U64] = read_u64,
	[FIELD_INT] = read_int,
	[FIELD_F64] = read_f64,
	[FIELD_MB] = read_mb,
	[FIELD_SECONDS] = read_seconds,
	[FIELD_STRING] = read_text,
	[FIELD_CHAR] = read_state,
	[FIELD_COMM] = read_comm,
	[FIELD_COUNTS] = read_call_counts,
	[FIELD_TIMES] = read_call_times,
	[FIELD_LIMIT] = read_fd_limit,
	[FIELD_ID] = read_id,
	[FIELD_FLAG] = read_flag,
};

/* As read_members(), by the table of all fields. */
static void read_process(struct json_cursor *c, struct snapshot *s, struct proc_sample *p)
{
	const char *key;
	size_t len, at = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		const struct sample_field *f = &sample_fields[at];
		size_t i = 0;

		for (; i < n_sample_fields && !sample_field_is(at, key, len); i++)
			f = &sample_fields[at = (at + 1) % n_sample_fields];
		if (i == n_sample_fields)
			json_cursor_skip(c);
		else if (f->kind == FIELD_COUNTS || f->kind == FIELD_TIMES)
			readers[f->kind](c, s, p);
		else
			readers[f->kind](c, s, (char *)p + f->offset);
	}
}

static void read_processes(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)ret;
	if (!json_cursor_enter(c, '['))
		return;
	while (json_cursor_next_element(c)) {
		struct proc_sample *p = snapshot_add_process(s);

		if (p)
			read_process(c, s, p);
		else
			json_cursor_skip(c); /* without memory it is missing */
	}
}

/* ---- lists: GPUs, cgroups and progress ---- */

/* n items of so many bytes, each as init makes the i-th; NULL: there is no list, or no memory. */
static void *read_list(struct json_cursor *c, struct snapshot *s, const struct member *members,
		       size_t n_members, size_t size, void (*init)(void *item, size_t i),
		       size_t *ret_n)
{
	size_t room = count_inside(*c, '['), n = 0;
	char *items;

	if (!json_cursor_enter(c, '['))
		return NULL; /* it is unknown */
	items = arena_alloc(&s->arena, (room + 1) * size);
	while (json_cursor_next_element(c)) {
		if (!items || n == room) {
			json_cursor_skip(c);
			continue;
		}
		init(items + n * size, n);
		read_members(c, s, members, n_members, items + n * size);
		n++;
	}
	*ret_n = n;
	return items;
}

static void read_throttles(struct json_cursor *c, struct snapshot *s, void *ret)
{
	uint64_t *bits = ret, bit;

	if (!json_cursor_enter(c, '['))
		return; /* it is unknown */
	*bits = 0;
	while (json_cursor_next_element(c)) {
		const char *name = json_cursor_string(c, &s->arena), *known;

		for (size_t i = 0; name && (known = gpu_throttle_name(i, &bit)); i++)
			*bits |= strcmp(known, name) == 0 ? bit : 0;
	}
}

static const struct member gpu_members[] = {
	M("index", gpu_sample, read_int, index),
	M("utilization_pct", gpu_sample, read_f64, utilization_pct),
	M("memory_used_mb", gpu_sample, read_f64, memory_used_mb),
	M("memory_total_mb", gpu_sample, read_f64, memory_total_mb),
	M("temperature_c", gpu_sample, read_f64, temperature_c),
	M("power_watts", gpu_sample, read_f64, power_watts),
	M("energy_joules", gpu_sample, read_f64, energy_joules),
	M("sm_clock_mhz", gpu_sample, read_f64, sm_clock_mhz),
	M("throttle_reasons", gpu_sample, read_throttles, throttle),
	M("ecc_errors", gpu_sample, read_u64, ecc_errors),
	M("last_xid", gpu_sample, read_u64, last_xid),
	M("is_lost", gpu_sample, read_flag, is_lost),
};

static void init_gpu(void *item, size_t i)
{
	gpu_sample_init(item);
	((struct gpu_sample *)item)->index = (int)i;
}

static void read_gpus(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)ret;
	s->gpus = read_list(c, s, gpu_members, ARRAY_SIZE(gpu_members), sizeof(*s->gpus), init_gpu,
			    &s->n_gpus);
}

/* Behind the limit itself, which is null then. */
static void read_unlimited(struct json_cursor *c, struct snapshot *s, void *ret)
{
	signed char is_unlimited = 0;

	read_flag(c, s, &is_unlimited);
	if (is_unlimited)
		*(uint64_t *)ret = MEMORY_UNLIMITED;
}

static const struct member cgroup_members[] = {
	M("path", cgroup_sample, read_text, path),
	M("memory_current_mb", cgroup_sample, read_mb, memory_current_bytes),
	M("memory_high_mb", cgroup_sample, read_mb, memory_high_bytes),
	M("memory_high_unlimited", cgroup_sample, read_unlimited, memory_high_bytes),
	M("memory_max_mb", cgroup_sample, read_mb, memory_max_bytes),
	M("memory_max_unlimited", cgroup_sample, read_unlimited, memory_max_bytes),
	M("oom_kills", cgroup_sample, read_u64, oom_kills),
};

static void init_cgroup(void *item, size_t i)
{
	(void)i;
	cgroup_sample_init(item);
}

static void read_cgroups(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)ret;
	s->cgroups = read_list(c, s, cgroup_members, ARRAY_SIZE(cgroup_members),
			       sizeof(*s->cgroups), init_cgroup, &s->n_cgroups);
}

static const struct member progress_members[] = {
	M("job_id", job_progress, read_text, job_id),
	M("total_sheets", job_progress, read_int, total_sheets),
	M("last_completed_sheet", job_progress, read_int, last_completed_sheet),
	M("current_sheet", job_progress, read_int, current_sheet),
	M("status", job_progress, read_text, status),
	M("attempt_id", job_progress, read_id, attempt_id),
	M("attempt", job_progress, read_int, attempt_num),
	M("uid", job_progress, read_u64, uid),
};

static void init_progress(void *item, size_t i)
{
	(void)i;
	*(struct job_progress *)item =
		(struct job_progress){ .current_sheet = SHEET_NONE, .uid = U64_UNKNOWN };
}

/* Those without a job are left out. */
static void read_progress(struct json_cursor *c, struct snapshot *s, void *ret)
{
	size_t n = 0;

	(void)ret;
	s->n_progress = 0;
	s->progress = read_list(c, s, progress_members, ARRAY_SIZE(progress_members),
				sizeof(*s->progress), init_progress, &n);
	for (size_t i = 0; s->progress && i < n; i++)
		if (s->progress[i].job_id)
			s->progress[s->n_progress++] = s->progress[i];
}

/* ---- the host ---- */

static const struct member psi_line_members[] = { M("avg10", psi_line, read_f64, avg10) };

static void read_psi_line(struct json_cursor *c, struct snapshot *s, void *ret)
{
	read_members(c, s, psi_line_members, ARRAY_SIZE(psi_line_members), ret);
}

static const struct member psi_members[] = { M("some", psi, read_psi_line, some) };

static void read_psi(struct json_cursor *c, struct snapshot *s, void *ret)
{
	read_members(c, s, psi_members, ARRAY_SIZE(psi_members), ret);
}

static const struct member host_members[] = {
	M("timestamp", snapshot, read_seconds, wall_ns),
	M("system_memory_total_mb", snapshot, read_mb, system.memory_total_bytes),
	M("system_memory_available_mb", snapshot, read_mb, system.memory_available_bytes),
	M("system_memory_used_mb", snapshot, read_mb, system.memory_used_bytes),
	M("load_avg_1", snapshot, read_f64, system.load1),
	M("load_avg_5", snapshot, read_f64, system.load5),
	M("load_avg_15", snapshot, read_f64, system.load15),
	M("cpu_user_seconds", snapshot, read_seconds, system.cpu_user_ns),
	M("cpu_system_seconds", snapshot, read_seconds, system.cpu_system_ns),
	M("cpu_idle_seconds", snapshot, read_seconds, system.cpu_idle_ns),
	M("cpu_iowait_seconds", snapshot, read_seconds, system.cpu_iowait_ns),
	M("cpu_count", snapshot, read_unsigned, system.cpu_count),
	M("psi_cpu", snapshot, read_psi, system.psi_cpu),
	M("psi_memory", snapshot, read_psi, system.psi_memory),
	M("psi_io", snapshot, read_psi, system.psi_io),
	M("uptime_seconds", snapshot, read_seconds, boot_ns),
	M("daemon_rss_mb", snapshot, read_mb, daemon_rss_bytes),
	M("pressure_level", snapshot, read_text, pressure_level),
	M("running_jobs", snapshot, read_int, running_jobs),
	M("active_sheets", snapshot, read_int, active_sheets),
	M("processes", snapshot, read_processes, processes),
	M("gpus", snapshot, read_gpus, gpus),
	M("cgroups", snapshot, read_cgroups, cgroups),
	M("job_progress", snapshot, read_progress, progress),
	M("conductor_uptime_seconds", snapshot, read_f64, daemon_uptime_seconds),
};

int snapshot_from_json(struct json_cursor *c, struct snapshot *ret)
{
	struct json_cursor first = *c;

	if (!json_cursor_enter(&first, '{'))
		return -EINVAL;
	snapshot_reset(ret);
	read_members(c, ret, host_members, ARRAY_SIZE(host_members), ret);
	return c->is_bad ? -EINVAL : 0;
}
