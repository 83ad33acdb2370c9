#include "tui/snapshot_json.h"

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

/*
 * They come in the order in which they were written, which is mostly that of the table: it is
 * looked up from where the last one was.
 */
static const struct member *find_member(const struct member *members, size_t n, size_t *at,
					const char *key, size_t len)
{
	for (size_t i = 0; i < n; i++) {
		const struct member *m = &members[(*at + i) % n];

		if (m->len == len && memcmp(m->key, key, len) == 0) {
			*at = (*at + i + 1) % n;
			return m;
		}
	}
	return NULL;
}

static void read_members(struct json_cursor *c, struct snapshot *s, const struct member *members,
			 size_t n, void *ret)
{
	const char *key;
	size_t len, at = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		const struct member *m = find_member(members, n, &at, key, len);

		if (m)
			m->read(c, s, (char *)ret + m->offset);
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
		return; /* nobody counted them */
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

/* As find_member(); NULL: nobody knows it. */
static const struct sample_field *find_field(size_t *at, const char *key, size_t len)
{
	for (size_t i = 0; i < n_sample_fields; i++) {
		size_t k = (*at + i) % n_sample_fields;

		if (sample_field_is(k, key, len)) {
			*at = (k + 1) % n_sample_fields;
			return &sample_fields[k];
		}
	}
	return NULL;
}

static void read_process(struct json_cursor *c, struct snapshot *s, struct proc_sample *p)
{
	const char *key;
	size_t len, at = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		const struct sample_field *f = find_field(&at, key, len);
		bool is_whole = f && (f->kind == FIELD_COUNTS || f->kind == FIELD_TIMES);

		if (f)
			readers[f->kind](c, s, is_whole ? (char *)p : (char *)p + f->offset);
		else
			json_cursor_skip(c);
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

/* ---- GPUs, cgroups and progress ---- */

#define G(key_, read_, field_) M(key_, gpu_sample, read_, field_)

static const struct member gpu_members[] = {
	G("index", read_int, index),
	G("utilization_pct", read_f64, utilization_pct),
	G("memory_used_mb", read_f64, memory_used_mb),
	G("memory_total_mb", read_f64, memory_total_mb),
	G("temperature_c", read_f64, temperature_c),
	G("power_watts", read_f64, power_watts),
};

static void read_gpus(struct json_cursor *c, struct snapshot *s, void *ret)
{
	size_t n = count_inside(*c, '[');

	(void)ret;
	if (!json_cursor_enter(c, '['))
		return; /* nobody looked */
	s->n_gpus = 0;
	s->gpus = arena_alloc(&s->arena, (n + 1) * sizeof(*s->gpus));
	while (json_cursor_next_element(c)) {
		struct gpu_sample gpu = { 0 };

		gpu_sample_init(&gpu);
		gpu.index = (int)s->n_gpus;
		read_members(c, s, gpu_members, ARRAY_SIZE(gpu_members), &gpu);
		if (s->gpus && s->n_gpus < n)
			s->gpus[s->n_gpus++] = gpu;
	}
}

#define C(key_, read_, field_) M(key_, cgroup_sample, read_, field_)

/* Behind the limit itself, which is null then. */
static void read_unlimited(struct json_cursor *c, struct snapshot *s, void *ret)
{
	const char *text;
	size_t len;

	(void)s;
	json_cursor_value(c, &text, &len);
	if (json_cursor_is(text, len, "true"))
		*(uint64_t *)ret = MEMORY_UNLIMITED;
}

static const struct member cgroup_members[] = {
	C("path", read_text, path),
	C("memory_current_mb", read_mb, memory_current_bytes),
	C("memory_high_mb", read_mb, memory_high_bytes),
	C("memory_high_unlimited", read_unlimited, memory_high_bytes),
	C("memory_max_mb", read_mb, memory_max_bytes),
	C("memory_max_unlimited", read_unlimited, memory_max_bytes),
	C("oom_kills", read_u64, oom_kills),
};

static void read_cgroups(struct json_cursor *c, struct snapshot *s, void *ret)
{
	size_t n = count_inside(*c, '[');

	(void)ret;
	if (!json_cursor_enter(c, '['))
		return; /* nobody looked */
	s->n_cgroups = 0;
	s->cgroups = arena_alloc(&s->arena, (n + 1) * sizeof(*s->cgroups));
	while (json_cursor_next_element(c)) {
		struct cgroup_sample cgroup;

		cgroup_sample_init(&cgroup);
		read_members(c, s, cgroup_members, ARRAY_SIZE(cgroup_members), &cgroup);
		if (s->cgroups && s->n_cgroups < n)
			s->cgroups[s->n_cgroups++] = cgroup;
	}
}

#define J(key_, read_, field_) M(key_, job_progress, read_, field_)

static const struct member progress_members[] = {
	J("job_id", read_text, job_id),
	J("total_sheets", read_int, total_sheets),
	J("last_completed_sheet", read_int, last_completed_sheet),
	J("current_sheet", read_int, current_sheet),
	J("status", read_text, status),
	J("attempt_id", read_id, attempt_id),
	J("attempt", read_int, attempt_num),
	J("uid", read_u64, uid),
};

static void read_progress(struct json_cursor *c, struct snapshot *s, void *ret)
{
	size_t n = count_inside(*c, '[');

	(void)ret;
	if (!json_cursor_enter(c, '['))
		return;
	s->n_progress = 0;
	s->progress = arena_alloc(&s->arena, (n + 1) * sizeof(*s->progress));
	while (json_cursor_next_element(c)) {
		struct job_progress progress = { .current_sheet = SHEET_NONE, .uid = U64_UNKNOWN };

		read_members(c, s, progress_members, ARRAY_SIZE(progress_members), &progress);
		if (progress.job_id && s->progress && s->n_progress < n)
			s->progress[s->n_progress++] = progress;
	}
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

#define H(key_, read_, field_) M(key_, snapshot, read_, field_)

static const struct member host_members[] = {
	H("timestamp", read_seconds, wall_ns),
	H("system_memory_total_mb", read_mb, system.memory_total_bytes),
	H("system_memory_available_mb", read_mb, system.memory_available_bytes),
	H("system_memory_used_mb", read_mb, system.memory_used_bytes),
	H("load_avg_1", read_f64, system.load1),
	H("load_avg_5", read_f64, system.load5),
	H("load_avg_15", read_f64, system.load15),
	H("cpu_user_seconds", read_seconds, system.cpu_user_ns),
	H("cpu_system_seconds", read_seconds, system.cpu_system_ns),
	H("cpu_idle_seconds", read_seconds, system.cpu_idle_ns),
	H("cpu_iowait_seconds", read_seconds, system.cpu_iowait_ns),
	H("cpu_count", read_unsigned, system.cpu_count),
	H("psi_cpu", read_psi, system.psi_cpu),
	H("psi_memory", read_psi, system.psi_memory),
	H("psi_io", read_psi, system.psi_io),
	H("uptime_seconds", read_seconds, boot_ns),
	H("daemon_rss_mb", read_mb, daemon_rss_bytes),
	H("pressure_level", read_text, pressure_level),
	H("running_jobs", read_int, running_jobs),
	H("active_sheets", read_int, active_sheets),
	H("processes", read_processes, processes),
	H("gpus", read_gpus, gpus),
	H("cgroups", read_cgroups, cgroups),
	H("job_progress", read_progress, progress),
	H("conductor_uptime_seconds", read_f64, daemon_uptime_seconds),
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
