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
	MEMBER_OTHER,	  /* by read */
};

struct member {
	const char *key;
	size_t len;
	int kind;
	size_t offset;
	void (*read)(struct json_cursor *c, struct snapshot *s, void *ret);
};

#define M(key_, type_, kind_, field_)                                \
	{                                                            \
		.key = key_, .len = sizeof(key_) - 1, .kind = kind_, \
		.offset = offsetof(struct type_, field_),            \
	}
#define M_BY(key_, type_, read_, field_)                                    \
	{                                                                   \
		.key = key_, .len = sizeof(key_) - 1, .kind = MEMBER_OTHER, \
		.offset = offsetof(struct type_, field_), .read = read_,    \
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
	default: /* FIELD_U64, FIELD_LIMIT: a number, or "unlimited" */
		*(uint64_t *)ret = json_cursor_u64(c);
		text = kind == FIELD_LIMIT && !u64_known(*(uint64_t *)ret)
			       ? json_cursor_string(&again, &s->arena)
			       : NULL;
		if (text && strcmp(text, "unlimited") == 0)
			*(uint64_t *)ret = FD_LIMIT_UNLIMITED;
		return;
	}
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
		if (i == n)
			json_cursor_skip(c);
		else if (members[at].read)
			members[at].read(c, s, (char *)ret + members[at].offset);
		else
			read_value(c, s, members[at].kind, (char *)ret + members[at].offset);
	}
}

/* ---- processes ---- */

/* As read_members(), by the table of all fields. */
static void read_processes(struct json_cursor *c, struct snapshot *s, void *ret)
{
	const char *key;
	size_t len;

	(void)ret;
	if (!json_cursor_enter(c, '['))
		return;
	while (json_cursor_next_element(c)) {
		struct proc_sample *p = snapshot_add_process(s);
		size_t at = 0;

		if (!p || !json_cursor_enter(c, '{')) {
			if (!p)
				json_cursor_skip(c); /* without memory it is missing */
			continue;
		}
		while (json_cursor_next_key(c, &key, &len)) {
			const struct sample_field *f = &sample_fields[at];
			size_t i = 0;

			for (; i < n_sample_fields && !sample_field_is(at, key, len); i++)
				f = &sample_fields[at = (at + 1) % n_sample_fields];
			if (i == n_sample_fields)
				json_cursor_skip(c);
			else
				read_value(c, s, f->kind,
					   f->kind == FIELD_COUNTS || f->kind == FIELD_TIMES
						   ? (void *)p
						   : (char *)p + f->offset);
		}
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
	M("index", gpu_sample, FIELD_INT, index),
	M("utilization_pct", gpu_sample, FIELD_F64, utilization_pct),
	M("memory_used_mb", gpu_sample, FIELD_F64, memory_used_mb),
	M("memory_total_mb", gpu_sample, FIELD_F64, memory_total_mb),
	M("temperature_c", gpu_sample, FIELD_F64, temperature_c),
	M("power_watts", gpu_sample, FIELD_F64, power_watts),
	M("energy_joules", gpu_sample, FIELD_F64, energy_joules),
	M("sm_clock_mhz", gpu_sample, FIELD_F64, sm_clock_mhz),
	M_BY("throttle_reasons", gpu_sample, read_throttles, throttle),
	M("ecc_errors", gpu_sample, FIELD_U64, ecc_errors),
	M("last_xid", gpu_sample, FIELD_U64, last_xid),
	M("is_lost", gpu_sample, FIELD_FLAG, is_lost),
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

static const struct member cgroup_members[] = {
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

static void read_cgroups(struct json_cursor *c, struct snapshot *s, void *ret)
{
	(void)ret;
	s->cgroups = read_list(c, s, cgroup_members, ARRAY_SIZE(cgroup_members),
			       sizeof(*s->cgroups), init_cgroup, &s->n_cgroups);
}

static const struct member progress_members[] = {
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

static const struct member psi_line_members[] = { M("avg10", psi_line, FIELD_F64, avg10) };

static void read_psi_line(struct json_cursor *c, struct snapshot *s, void *ret)
{
	read_members(c, s, psi_line_members, ARRAY_SIZE(psi_line_members), ret);
}

static const struct member psi_members[] = { M_BY("some", psi, read_psi_line, some) };

static void read_psi(struct json_cursor *c, struct snapshot *s, void *ret)
{
	read_members(c, s, psi_members, ARRAY_SIZE(psi_members), ret);
}

static const struct member host_members[] = {
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
	M_BY("psi_cpu", snapshot, read_psi, system.psi_cpu),
	M_BY("psi_memory", snapshot, read_psi, system.psi_memory),
	M_BY("psi_io", snapshot, read_psi, system.psi_io),
	M("uptime_seconds", snapshot, FIELD_SECONDS, boot_ns),
	M("daemon_rss_mb", snapshot, FIELD_MB, daemon_rss_bytes),
	M("pressure_level", snapshot, FIELD_STRING, pressure_level),
	M("running_jobs", snapshot, FIELD_INT, running_jobs),
	M("active_sheets", snapshot, FIELD_INT, active_sheets),
	M_BY("processes", snapshot, read_processes, processes),
	M_BY("gpus", snapshot, read_gpus, gpus),
	M_BY("cgroups", snapshot, read_cgroups, cgroups),
	M_BY("job_progress", snapshot, read_progress, progress),
	M("conductor_uptime_seconds", snapshot, FIELD_F64, daemon_uptime_seconds),
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
