#include "model/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/members.h"
#include "model/sample_fields.h"

/* ---- one process ---- */

const struct member sample_fields[] = {
#define SAMPLE_FIELD(kind_, member_, key_, help_) MEMBER(proc_sample, kind_, member_, key_),
#define SAMPLE_RARE(kind_, member_, key_, help_) MEMBER_RARE(proc_sample, kind_, member_, key_),
#include "model/sample_fields.def"
};
const size_t n_sample_fields = ARRAY_SIZE(sample_fields);

void proc_sample_write_fields(struct json *j, const struct proc_sample *p)
{
	members_write(j, sample_fields, ARRAY_SIZE(sample_fields), p);
}

static bool is_in_scope(const struct proc_sample *p, enum snapshot_scope scope)
{
	return scope == SNAPSHOT_ALL || p->job_id;
}

static bool is_zombie(const struct proc_sample *p, enum snapshot_scope scope)
{
	return p->state == 'Z' && is_in_scope(p, scope);
}

uint64_t snapshot_count_zombies(const struct snapshot *s, enum snapshot_scope scope)
{
	uint64_t count = 0;

	for (size_t i = 0; i < s->n_processes; i++)
		count += is_zombie(&s->processes[i], scope);
	return count;
}

void snapshot_write_zombie_pids(struct json *j, const struct snapshot *s, enum snapshot_scope scope)
{
	json_begin_array(j);
	for (size_t i = 0; i < s->n_processes; i++)
		if (is_zombie(&s->processes[i], scope))
			json_i64(j, s->processes[i].key.pid);
	json_end_array(j);
}

/* ---- lists: GPUs, cgroups and progress ---- */

static const struct member gpu_members[] = {
	MEMBER(gpu_sample, PID, index, "index"),
	MEMBER(gpu_sample, F64, utilization_pct, "utilization_pct"),
	MEMBER(gpu_sample, F64, memory_used_mb, "memory_used_mb"),
	MEMBER(gpu_sample, F64, memory_total_mb, "memory_total_mb"),
	MEMBER(gpu_sample, F64, temperature_c, "temperature_c"),
	MEMBER(gpu_sample, F64, power_watts, "power_watts"),
	MEMBER(gpu_sample, F64, energy_joules, "energy_joules"),
	MEMBER(gpu_sample, F64, sm_clock_mhz, "sm_clock_mhz"),
	MEMBER(gpu_sample, THROTTLE, throttle, "throttle_reasons"),
	MEMBER(gpu_sample, U64, ecc_errors, "ecc_errors"),
	MEMBER(gpu_sample, U64, last_xid, "last_xid"),
	MEMBER_RARE(gpu_sample, TRUE, is_lost, "is_lost"),
};

static const struct member cgroup_members[] = {
	MEMBER(cgroup_sample, STRING, path, "path"),
	MEMBER(cgroup_sample, MB, memory_current_bytes, "memory_current_mb"),
	MEMBER(cgroup_sample, LIMIT_MB, memory_high_bytes, "memory_high_mb"),
	MEMBER(cgroup_sample, UNLIMITED, memory_high_bytes, "memory_high_unlimited"),
	MEMBER(cgroup_sample, LIMIT_MB, memory_max_bytes, "memory_max_mb"),
	MEMBER(cgroup_sample, UNLIMITED, memory_max_bytes, "memory_max_unlimited"),
	MEMBER(cgroup_sample, PSI, psi_memory, "psi_memory"),
	MEMBER(cgroup_sample, U64, oom_kills, "oom_kills"),
};

static const struct member progress_members[] = {
	MEMBER(job_progress, STRING, job_id, "job_id"),
	MEMBER(job_progress, PID, total_sheets, "total_sheets"),
	MEMBER(job_progress, PID, last_completed_sheet, "last_completed_sheet"),
	MEMBER(job_progress, INT, current_sheet, "current_sheet"),
	MEMBER(job_progress, STRING, status, "status"),
	MEMBER_RARE(job_progress, ID, attempt_id, "attempt_id"),
	/* Of now alone: what is recorded of progress has no such keys. */
	MEMBER(job_progress, PID, attempt_num, "attempt"),
	MEMBER(job_progress, U64, uid, "uid"),
};
#define N_OF_NOW 2

static void write_item(struct json *j, const struct member *members, size_t n, const void *item)
{
	json_begin_object(j);
	members_write(j, members, n, item);
	json_end_object(j);
}

void snapshot_write_gpus(struct json *j, const struct snapshot *s)
{
	if (!s->gpus) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < s->n_gpus; i++)
		write_item(j, gpu_members, ARRAY_SIZE(gpu_members), &s->gpus[i]);
	json_end_array(j);
}

void snapshot_write_cgroups(struct json *j, const struct snapshot *s)
{
	if (!s->cgroups) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < s->n_cgroups; i++)
		write_item(j, cgroup_members, ARRAY_SIZE(cgroup_members), &s->cgroups[i]);
	json_end_array(j);
}

/* The last that was completed is behind those that failed, where the job goes on all the same. */
int job_progress_over(const struct job_progress *p)
{
	int over = p->last_completed_sheet > 0 ? p->last_completed_sheet : 0;

	if (p->current_sheet <= p->total_sheets && p->current_sheet - 1 > over)
		over = p->current_sheet - 1;
	return over < p->total_sheets ? over : p->total_sheets;
}

void snapshot_write_progress(struct json *j, const struct snapshot *s)
{
	if (f64_known(s->resolution_seconds)) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < s->n_progress; i++)
		write_item(j, progress_members,
			   ARRAY_SIZE(progress_members) -
				   (s->progress[i].attempt_num > 0 ? 0 : N_OF_NOW),
			   &s->progress[i]);
	json_end_array(j);
}

/* ---- the host ---- */

static const struct member host_members[] = {
	MEMBER(snapshot, SECONDS, wall_ns, "timestamp"),
#define HOST_MEMBER(kind_, member_, key_, ...) MEMBER(snapshot, kind_, member_, key_),
#define HOST_FIELD(kind_, member_, key_, ...) MEMBER(snapshot, kind_, system.member_, key_),
#define HOST_PSI(member_, key_, help_) MEMBER(snapshot, PSI, system.member_, key_),
#include "model/host_fields.def"
	/* Behind the lists. */
	MEMBER(snapshot, F64, daemon_uptime_seconds, "conductor_uptime_seconds"),
	MEMBER_RARE(snapshot, F64, resolution_seconds, "resolution_seconds"),
};
#define N_LAST 2
#define N_FIRST (ARRAY_SIZE(host_members) - N_LAST)

void snapshot_write_json(struct json *j, const struct snapshot *s, enum snapshot_scope scope)
{
	json_begin_object(j);
	members_write(j, host_members, N_FIRST, s);
	json_key_array(j, "processes");
	for (size_t i = 0; i < s->n_processes; i++)
		if (is_in_scope(&s->processes[i], scope))
			write_item(j, sample_fields, ARRAY_SIZE(sample_fields), &s->processes[i]);
	json_end_array(j);
	json_key(j, "gpus");
	snapshot_write_gpus(j, s);
	if (s->cgroups) {
		json_key(j, "cgroups");
		snapshot_write_cgroups(j, s);
	}
	json_key(j, "zombie_pids");
	snapshot_write_zombie_pids(j, s, scope);
	json_key_u64(j, "zombie_count", snapshot_count_zombies(s, scope));
	json_key(j, "job_progress");
	snapshot_write_progress(j, s);
	members_write(j, host_members + N_FIRST, N_LAST, s);
	json_end_object(j);
}

/* ---- reading ---- */

static void init_gpu(void *item, size_t i)
{
	gpu_sample_init(item);
	((struct gpu_sample *)item)->index = (int)i;
}

static void init_cgroup(void *item, size_t i)
{
	(void)i;
	cgroup_sample_init(item);
}

static void init_progress(void *item, size_t i)
{
	(void)i;
	*(struct job_progress *)item =
		(struct job_progress){ .current_sheet = SHEET_NONE, .uid = U64_UNKNOWN };
}

/* Items of so many bytes, each as init makes the i-th; NULL: there is no list, or no memory. */
static void *read_list(struct json_cursor *c, struct arena *arena, const struct member *members,
		       size_t n_members, size_t size, void (*init)(void *item, size_t i),
		       size_t *ret_n)
{
	struct json_cursor counting = *c;
	size_t room = 0, n = 0;
	char *items;

	*ret_n = 0;
	if (json_cursor_enter(&counting, '['))
		for (; json_cursor_next_element(&counting); room++)
			json_cursor_skip(&counting);
	if (!json_cursor_enter(c, '['))
		return NULL; /* it is unknown */
	items = arena_alloc(arena, (room + 1) * size);
	while (json_cursor_next_element(c)) {
		if (!items || n == room) {
			json_cursor_skip(c);
			continue;
		}
		init(items + n * size, n);
		members_read(c, arena, members, n_members, items + n * size);
		n++;
	}
	*ret_n = n;
	return items;
}

static void read_processes(struct json_cursor *c, struct snapshot *s)
{
	if (!json_cursor_enter(c, '['))
		return;
	while (json_cursor_next_element(c)) {
		struct proc_sample *p = snapshot_add_process(s);

		if (p)
			members_read(c, &s->arena, sample_fields, n_sample_fields, p);
		else
			json_cursor_skip(c); /* without memory it is missing */
	}
}

/* Those without a job are left out. */
static void read_progress(struct json_cursor *c, struct snapshot *s)
{
	size_t n = 0;

	s->n_progress = 0;
	s->progress = read_list(c, &s->arena, progress_members, ARRAY_SIZE(progress_members),
				sizeof(*s->progress), init_progress, &n);
	for (size_t i = 0; s->progress && i < n; i++)
		if (s->progress[i].job_id)
			s->progress[s->n_progress++] = s->progress[i];
}

int snapshot_from_json(struct json_cursor *c, struct snapshot *ret)
{
	struct arena *arena = &ret->arena;
	const char *key;
	size_t len, at = 0;
	double up_ns;

	if (!json_cursor_enter(c, '{'))
		return -EINVAL;
	snapshot_reset(ret);
	while (json_cursor_next_key(c, &key, &len))
		if (json_cursor_is(key, len, "processes"))
			read_processes(c, ret);
		else if (json_cursor_is(key, len, "gpus"))
			ret->gpus = read_list(c, arena, gpu_members, ARRAY_SIZE(gpu_members),
					      sizeof(*ret->gpus), init_gpu, &ret->n_gpus);
		else if (json_cursor_is(key, len, "cgroups"))
			ret->cgroups =
				read_list(c, arena, cgroup_members, ARRAY_SIZE(cgroup_members),
					  sizeof(*ret->cgroups), init_cgroup, &ret->n_cgroups);
		else if (json_cursor_is(key, len, "job_progress"))
			read_progress(c, ret);
		else
			members_read_value(c, arena, host_members, ARRAY_SIZE(host_members), key,
					   len, &at, ret);
	/* The clock of the samples, which JSON has as the host's. */
	up_ns = ret->system.uptime_seconds * 1e9;
	ret->boot_ns = up_ns >= 0 && up_ns < 1.8e19 ? (uint64_t)(up_ns + 0.5) : U64_UNKNOWN;
	return c->is_bad ? -EINVAL : 0;
}
