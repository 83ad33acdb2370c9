#include "tui/tui.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/sample_fields.h"

/* Beside those of enum field_kind, which are read into a process too. */
enum member_kind {
	MEMBER_UNSIGNED = FIELD_KINDS,
	MEMBER_UNLIMITED, /* behind a limit, which is null then */
	MEMBER_THROTTLES,
	MEMBER_PSI,
	MEMBER_PSI_LINE,
	/* Lists, of the whole snapshot. */
	MEMBER_PROCESSES,
	MEMBER_GPUS,
	MEMBER_CGROUPS,
	MEMBER_PROGRESS,
};

#define M(key_, type_, kind_, field_)                                                     \
	{                                                                                 \
		",\"" key_ "\":", sizeof(",\"" key_ "\":") - 1, (enum field_kind)(kind_), \
			offsetof(struct type_, field_), false                             \
	}

/* To the whole, as it was: what does not fit is unknown. */
static uint64_t scaled(double v, double scale)
{
	if (isnan(v) || v < 0 || v * scale >= 1.8e19)
		return U64_UNKNOWN;
	return (uint64_t)(v * scale + 0.5);
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

/* {"read":12,…} */
static void read_call_counts(struct json_cursor *c, struct snapshot *s, struct proc_sample *p)
{
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
static void read_call_times(struct json_cursor *c, struct proc_sample *p)
{
	const char *key;
	size_t len, i = 0;

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

static void read_throttles(struct json_cursor *c, struct snapshot *s, uint64_t *bits)
{
	uint64_t bit;

	if (!json_cursor_enter(c, '['))
		return; /* it is unknown */
	*bits = 0;
	while (json_cursor_next_element(c)) {
		const char *name = json_cursor_string(c, &s->arena), *known;

		for (size_t i = 0; name && (known = gpu_throttle_name(i, &bit)); i++)
			*bits |= strcmp(known, name) == 0 ? bit : 0;
	}
}

static void read_special(struct json_cursor *c, struct snapshot *s, int kind, void *ret);

/* Strings go into the snapshot's arena. Integers and flags keep what they are where there is none.
 */
static void read_value(struct json_cursor *c, struct snapshot *s, int kind, void *ret)
{
	struct json_cursor again = *c;
	const char *text;
	size_t len;
	uint64_t u64;
	int64_t i64;

	switch (kind) {
	case FIELD_PID:
	case FIELD_INT:
		i64 = json_cursor_i64(c, *(int *)ret);
		if (i64 >= INT32_MIN && i64 <= INT32_MAX)
			*(int *)ret = (int)i64;
		return;
	case FIELD_F64:
		*(double *)ret = json_cursor_f64(c);
		return;
	case FIELD_MB:
		*(uint64_t *)ret = scaled(json_cursor_f64(c), 1 << 20);
		return;
	case FIELD_SECONDS:
		*(uint64_t *)ret = scaled(json_cursor_f64(c), 1e9);
		return;
	case FIELD_STRING:
		*(const char **)ret = json_cursor_string(c, &s->arena);
		return;
	case FIELD_CHAR:
		text = json_cursor_string(c, &s->arena);
		*(char *)ret = text && text[0] ? text[0] : '?';
		return;
	case FIELD_COMM:
		text = json_cursor_string(c, &s->arena);
		snprintf(ret, COMM_BYTES, "%s", text ? text : "");
		return;
	case FIELD_COUNTS:
		read_call_counts(c, s, ret);
		return;
	case FIELD_TIMES:
		read_call_times(c, ret);
		return;
	case FIELD_ID:
		*(int64_t *)ret = json_cursor_i64(c, 0);
		return;
	case FIELD_FLAG:
	case MEMBER_UNLIMITED:
		json_cursor_value(c, &text, &len);
		if (kind == FIELD_FLAG && json_cursor_is(text, len, "false"))
			*(signed char *)ret = false;
		if (!json_cursor_is(text, len, "true"))
			return;
		if (kind == FIELD_FLAG)
			*(signed char *)ret = true;
		else
			*(uint64_t *)ret = MEMORY_UNLIMITED;
		return;
	case MEMBER_UNSIGNED:
		u64 = json_cursor_u64(c);
		*(unsigned *)ret = u64 < 1 << 20 ? (unsigned)u64 : 0;
		return;
	case FIELD_U64:
	case FIELD_LIMIT: /* a number, or "unlimited" */
		*(uint64_t *)ret = json_cursor_u64(c);
		text = kind == FIELD_LIMIT && !u64_known(*(uint64_t *)ret)
			       ? json_cursor_string(&again, &s->arena)
			       : NULL;
		if (text && strcmp(text, "unlimited") == 0)
			*(uint64_t *)ret = FD_LIMIT_UNLIMITED;
		return;
	default:
		read_special(c, s, kind, ret);
	}
}

/* They come in the order in which they were written, which is mostly that of the table: a member is
 * looked up from where the last one was. Counts and times of system calls are of the whole process.
 */
static void read_members(struct json_cursor *c, struct snapshot *s,
			 const struct sample_field *fields, size_t n, void *ret)
{
	const char *key;
	size_t len, at = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		size_t i = 0;

		while (i < n &&
		       (fields[at].len != len + 4 || memcmp(fields[at].key + 2, key, len) != 0)) {
			at = (at + 1) % n;
			i++;
		}
		if (i == n)
			json_cursor_skip(c);
		else if (fields[at].kind == FIELD_COUNTS || fields[at].kind == FIELD_TIMES)
			read_value(c, s, fields[at].kind, ret);
		else
			read_value(c, s, fields[at].kind, (char *)ret + fields[at].offset);
	}
}

/* ---- lists ---- */

static void read_processes(struct json_cursor *c, struct snapshot *s)
{
	if (!json_cursor_enter(c, '['))
		return;
	while (json_cursor_next_element(c)) {
		struct proc_sample *p = snapshot_add_process(s);

		if (p)
			read_members(c, s, sample_fields, n_sample_fields, p);
		else
			json_cursor_skip(c); /* without memory it is missing */
	}
}

/* n items of so many bytes, each as init makes the i-th; NULL: there is no list, or no memory. */
static void *read_list(struct json_cursor *c, struct snapshot *s, const struct sample_field *fields,
		       size_t n_fields, size_t size, void (*init)(void *item, size_t i),
		       size_t *ret_n)
{
	size_t room = count_inside(*c, '['), n = 0;
	char *items;

	*ret_n = 0;
	if (!json_cursor_enter(c, '['))
		return NULL; /* it is unknown */
	items = arena_alloc(&s->arena, (room + 1) * size);
	while (json_cursor_next_element(c)) {
		if (!items || n == room) {
			json_cursor_skip(c);
			continue;
		}
		init(items + n * size, n);
		read_members(c, s, fields, n_fields, items + n * size);
		n++;
	}
	*ret_n = n;
	return items;
}

static const struct sample_field gpu_members[] = {
	M("index", gpu_sample, FIELD_INT, index),
	M("utilization_pct", gpu_sample, FIELD_F64, utilization_pct),
	M("memory_used_mb", gpu_sample, FIELD_F64, memory_used_mb),
	M("memory_total_mb", gpu_sample, FIELD_F64, memory_total_mb),
	M("temperature_c", gpu_sample, FIELD_F64, temperature_c),
	M("power_watts", gpu_sample, FIELD_F64, power_watts),
	M("energy_joules", gpu_sample, FIELD_F64, energy_joules),
	M("sm_clock_mhz", gpu_sample, FIELD_F64, sm_clock_mhz),
	M("throttle_reasons", gpu_sample, MEMBER_THROTTLES, throttle),
	M("ecc_errors", gpu_sample, FIELD_U64, ecc_errors),
	M("last_xid", gpu_sample, FIELD_U64, last_xid),
	M("is_lost", gpu_sample, FIELD_FLAG, is_lost),
};

static void init_gpu(void *item, size_t i)
{
	gpu_sample_init(item);
	((struct gpu_sample *)item)->index = (int)i;
}

static const struct sample_field cgroup_members[] = {
	M("path", cgroup_sample, FIELD_STRING, path),
	M("memory_current_mb", cgroup_sample, FIELD_MB, memory_current_bytes),
	M("memory_high_mb", cgroup_sample, FIELD_MB, memory_high_bytes),
	M("memory_high_unlimited", cgroup_sample, MEMBER_UNLIMITED, memory_high_bytes),
	M("memory_max_mb", cgroup_sample, FIELD_MB, memory_max_bytes),
	M("memory_max_unlimited", cgroup_sample, MEMBER_UNLIMITED, memory_max_bytes),
	M("oom_kills", cgroup_sample, FIELD_U64, oom_kills),
};

static void init_cgroup(void *item, size_t i)
{
	(void)i;
	cgroup_sample_init(item);
}

static const struct sample_field progress_members[] = {
	M("job_id", job_progress, FIELD_STRING, job_id),
	M("total_sheets", job_progress, FIELD_INT, total_sheets),
	M("last_completed_sheet", job_progress, FIELD_INT, last_completed_sheet),
	M("current_sheet", job_progress, FIELD_INT, current_sheet),
	M("status", job_progress, FIELD_STRING, status),
	M("attempt_id", job_progress, FIELD_ID, attempt_id),
	M("attempt", job_progress, FIELD_INT, attempt_num),
	M("uid", job_progress, FIELD_U64, uid),
};

static void init_progress(void *item, size_t i)
{
	(void)i;
	*(struct job_progress *)item =
		(struct job_progress){ .current_sheet = SHEET_NONE, .uid = U64_UNKNOWN };
}

/* Those without a job are left out. */
static void read_progress(struct json_cursor *c, struct snapshot *s)
{
	size_t n = 0;

	s->n_progress = 0;
	s->progress = read_list(c, s, progress_members, ARRAY_SIZE(progress_members),
				sizeof(*s->progress), init_progress, &n);
	for (size_t i = 0; s->progress && i < n; i++)
		if (s->progress[i].job_id)
			s->progress[s->n_progress++] = s->progress[i];
}

/* ---- the host ---- */

static const struct sample_field psi_line_members[] = { M("avg10", psi_line, FIELD_F64, avg10) };

static const struct sample_field psi_members[] = { M("some", psi, MEMBER_PSI_LINE, some) };

static const struct sample_field host_members[] = {
	M("timestamp", snapshot, FIELD_SECONDS, wall_ns),
	M("system_memory_total_mb", snapshot, FIELD_MB, system.memory_total_bytes),
	M("system_memory_available_mb", snapshot, FIELD_MB, system.memory_available_bytes),
	M("system_memory_used_mb", snapshot, FIELD_MB, system.memory_used_bytes),
	M("load_avg_1", snapshot, FIELD_F64, system.load1),
	M("load_avg_5", snapshot, FIELD_F64, system.load5),
	M("load_avg_15", snapshot, FIELD_F64, system.load15),
	M("cpu_user_seconds", snapshot, FIELD_SECONDS, system.cpu_user_ns),
	M("cpu_system_seconds", snapshot, FIELD_SECONDS, system.cpu_system_ns),
	M("cpu_idle_seconds", snapshot, FIELD_SECONDS, system.cpu_idle_ns),
	M("cpu_iowait_seconds", snapshot, FIELD_SECONDS, system.cpu_iowait_ns),
	M("cpu_count", snapshot, MEMBER_UNSIGNED, system.cpu_count),
	M("psi_cpu", snapshot, MEMBER_PSI, system.psi_cpu),
	M("psi_memory", snapshot, MEMBER_PSI, system.psi_memory),
	M("psi_io", snapshot, MEMBER_PSI, system.psi_io),
	M("uptime_seconds", snapshot, FIELD_SECONDS, boot_ns),
	M("daemon_rss_mb", snapshot, FIELD_MB, daemon_rss_bytes),
	M("pressure_level", snapshot, FIELD_STRING, pressure_level),
	M("running_jobs", snapshot, FIELD_INT, running_jobs),
	M("active_sheets", snapshot, FIELD_INT, active_sheets),
	M("processes", snapshot, MEMBER_PROCESSES, processes),
	M("gpus", snapshot, MEMBER_GPUS, gpus),
	M("cgroups", snapshot, MEMBER_CGROUPS, cgroups),
	M("job_progress", snapshot, MEMBER_PROGRESS, progress),
	M("conductor_uptime_seconds", snapshot, FIELD_F64, daemon_uptime_seconds),
};

static void read_special(struct json_cursor *c, struct snapshot *s, int kind, void *ret)
{
	switch (kind) {
	case MEMBER_THROTTLES:
		read_throttles(c, s, ret);
		return;
	case MEMBER_PSI:
		read_members(c, s, psi_members, ARRAY_SIZE(psi_members), ret);
		return;
	case MEMBER_PSI_LINE:
		read_members(c, s, psi_line_members, ARRAY_SIZE(psi_line_members), ret);
		return;
	case MEMBER_PROCESSES:
		read_processes(c, s);
		return;
	case MEMBER_GPUS:
		s->gpus = read_list(c, s, gpu_members, ARRAY_SIZE(gpu_members), sizeof(*s->gpus),
				    init_gpu, &s->n_gpus);
		return;
	case MEMBER_CGROUPS:
		s->cgroups = read_list(c, s, cgroup_members, ARRAY_SIZE(cgroup_members),
				       sizeof(*s->cgroups), init_cgroup, &s->n_cgroups);
		return;
	default:
		read_progress(c, s);
	}
}

int snapshot_from_json(struct json_cursor *c, struct snapshot *ret)
{
	struct json_cursor first = *c;

	if (!json_cursor_enter(&first, '{'))
		return -EINVAL;
	snapshot_reset(ret);
	read_members(c, ret, host_members, ARRAY_SIZE(host_members), ret);
	return c->is_bad ? -EINVAL : 0;
}
