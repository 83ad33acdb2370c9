#include "model/snapshot.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/sample_fields.h"

/* ---- system calls ---- */

/* Where nobody counts them null says so: {} would claim there were none. */
void syscall_uses_write_counts(struct json *j, const struct syscall_use *uses, size_t n)
{
	if (!uses) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	for (size_t i = 0; i < n; i++)
		json_key_u64(j, uses[i].name, uses[i].count);
	json_end_object(j);
}

/* To 1/1,000,000: more would be digits of the clock's noise, and dear to write. */
static double percent_of(uint64_t part_ns, double total_ns)
{
	return round(1e8 * (double)part_ns / total_ns) / 1e6;
}

void syscall_uses_write_times(struct json *j, const struct syscall_use *uses, size_t n)
{
	double total_ns = 0;

	if (!uses) {
		json_none(j);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (u64_known(uses[i].cpu_ns))
			total_ns += (double)uses[i].cpu_ns;
	json_begin_object(j);
	for (size_t i = 0; i < n; i++)
		if (u64_known(uses[i].cpu_ns) && total_ns > 0)
			json_key_f64(j, uses[i].name, percent_of(uses[i].cpu_ns, total_ns));
	json_end_object(j);
}

/* ---- one process ----
 *
 * A snapshot of a thousand processes has more than forty thousand of these: keys are written as
 * they stand here, no more is decided than what kind of value it is, and room is asked for once for
 * all that stands between two strings.
 */

#define ROW(kind_, member_, key_, is_rare_)                                    \
	{                                                                      \
		",\"" key_ "\":", sizeof(",\"" key_ "\":") - 1, FIELD_##kind_, \
			offsetof(struct proc_sample, member_), is_rare_        \
	}

const struct sample_field sample_fields[] = {
#define SAMPLE_FIELD(kind_, member_, key_, help_) ROW(kind_, member_, key_, false),
#define SAMPLE_RARE(kind_, member_, key_, help_) ROW(kind_, member_, key_, true),
#include "model/sample_fields.def"
};
const size_t n_sample_fields = ARRAY_SIZE(sample_fields);

static uint64_t u64_at(const void *place)
{
	return *(const uint64_t *)place;
}

static char *put_number(char *at, enum field_kind kind, const void *place)
{
	int n;
	uint64_t limit;

	switch (kind) {
	case FIELD_PID:
		return json_put_i64(at, *(const pid_t *)place);
	case FIELD_INT:
		n = *(const int *)place;
		return json_put_u64(at, n < 0 ? U64_UNKNOWN : (uint64_t)n);
	case FIELD_F64:
		return json_put_f64(at, *(const double *)place);
	case FIELD_MB:
		return json_put_f64(at, u64_to_mb(u64_at(place)));
	case FIELD_SECONDS:
		return json_put_f64(at, u64_to_seconds(u64_at(place)));
	case FIELD_LIMIT:
		/* Unlimited has no number; it is known all the same, so it is a word. */
		limit = u64_at(place);
		return limit == FD_LIMIT_UNLIMITED ? stpcpy(at, "\"unlimited\"")
						   : json_put_u64(at, limit);
	case FIELD_ID:
		return json_put_i64(at, *(const int64_t *)place);
	case FIELD_FLAG:
		return stpcpy(at, *(const signed char *)place > 0 ? "true" : "false");
	default:
		return json_put_u64(at, u64_at(place));
	}
}

/* Those that have no bound worth having room for. */
static bool is_long(enum field_kind kind)
{
	return kind == FIELD_STRING || kind == FIELD_CHAR || kind == FIELD_COMM ||
	       kind == FIELD_COUNTS || kind == FIELD_TIMES;
}

static void write_long(struct json *j, enum field_kind kind, const void *place,
		       const struct proc_sample *p)
{
	switch (kind) {
	case FIELD_STRING:
		json_str(j, *(const char *const *)place);
		break;
	case FIELD_CHAR:
		json_str_n(j, place, *(const char *)place ? 1 : 0);
		break;
	case FIELD_COMM:
		json_str(j, place);
		break;
	case FIELD_COUNTS:
		syscall_uses_write_counts(j, p->syscalls, p->n_syscalls);
		break;
	default:
		syscall_uses_write_times(j, p->syscalls, p->n_syscalls);
	}
}

/* One that may be left out. */
static bool is_known(enum field_kind kind, const void *place)
{
	switch (kind) {
	case FIELD_INT:
		return *(const int *)place >= 0;
	case FIELD_ID:
		return *(const int64_t *)place > 0;
	case FIELD_FLAG:
		return *(const signed char *)place >= 0;
	default:
		return u64_known(u64_at(place));
	}
}

/* For all of them, so that it is enough for those that are left. */
#define ROOM (n_sample_fields * (FIELD_KEY_BYTES + JSON_NUMBER_BYTES))

void proc_sample_write_fields(struct json *j, const struct proc_sample *p)
{
	bool has_comma = j->need_comma;
	char *at = json_room(j, ROOM);
	size_t skip;

	for (size_t i = 0; at && i < ARRAY_SIZE(sample_fields); i++) {
		const struct sample_field *f = &sample_fields[i];
		const void *place = (const char *)p + f->offset;

		if (f->is_rare && !is_known(f->kind, place))
			continue;
		/* The whole row, which is two moves; what is too much the value overwrites. */
		skip = has_comma ? 0 : 1;
		memcpy(at, f->key + skip, FIELD_KEY_BYTES - 1);
		at += f->len - skip;
		has_comma = true;
		if (is_long(f->kind)) {
			json_room_end(j, at, true);
			write_long(j, f->kind, place, p);
			at = json_room(j, ROOM);
		} else {
			at = put_number(at, f->kind, place);
		}
	}
	if (at)
		json_room_end(j, at, false);
}

/* ---- the host ---- */

static void write_psi_line(struct json *j, const char *key, const struct psi_line *line)
{
	json_key(j, key);
	if (!u64_known(line->total_us)) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	json_key_f64(j, "avg10", line->avg10);
	json_key_f64(j, "avg60", line->avg60);
	json_key_f64(j, "avg300", line->avg300);
	json_key_u64(j, "total_us", line->total_us);
	json_end_object(j);
}

void psi_write_json(struct json *j, const struct psi *psi)
{
	if (!u64_known(psi->some.total_us) && !u64_known(psi->full.total_us)) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	write_psi_line(j, "some", &psi->some);
	write_psi_line(j, "full", &psi->full);
	json_end_object(j);
}

static void write_psi(struct json *j, const char *key, const struct psi *psi)
{
	json_key(j, key);
	psi_write_json(j, psi);
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

static const struct {
	uint64_t bit;
	const char *name;
} throttles[] = {
	{ GPU_THROTTLE_IDLE, "idle" },
	{ GPU_THROTTLE_SETTING, "clock_setting" },
	{ GPU_THROTTLE_POWER_CAP, "power_cap" },
	{ GPU_THROTTLE_HARDWARE, "hardware" },
	{ GPU_THROTTLE_SYNC_BOOST, "sync_boost" },
	{ GPU_THROTTLE_THERMAL, "thermal" },
	{ GPU_THROTTLE_HARDWARE_THERMAL, "hardware_thermal" },
	{ GPU_THROTTLE_POWER_BRAKE, "power_brake" },
	{ GPU_THROTTLE_DISPLAY, "display_clock_setting" },
};

const char *gpu_throttle_name(size_t i, uint64_t *ret_bit)
{
	if (i >= ARRAY_SIZE(throttles))
		return NULL;
	*ret_bit = throttles[i].bit;
	return throttles[i].name;
}

/* Bits that nobody has named are left out. */
static void write_throttle(struct json *j, uint64_t bits)
{
	json_key(j, "throttle_reasons");
	if (!u64_known(bits)) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(throttles); i++)
		if (bits & throttles[i].bit)
			json_str(j, throttles[i].name);
	json_end_array(j);
}

void snapshot_write_gpus(struct json *j, const struct snapshot *s)
{
	if (!s->gpus) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < s->n_gpus; i++) {
		json_begin_object(j);
		json_key_i64(j, "index", s->gpus[i].index);
		json_key_f64(j, "utilization_pct", s->gpus[i].utilization_pct);
		json_key_f64(j, "memory_used_mb", s->gpus[i].memory_used_mb);
		json_key_f64(j, "memory_total_mb", s->gpus[i].memory_total_mb);
		json_key_f64(j, "temperature_c", s->gpus[i].temperature_c);
		json_key_f64(j, "power_watts", s->gpus[i].power_watts);
		json_key_f64(j, "energy_joules", s->gpus[i].energy_joules);
		json_key_f64(j, "sm_clock_mhz", s->gpus[i].sm_clock_mhz);
		write_throttle(j, s->gpus[i].throttle);
		json_key_u64(j, "ecc_errors", s->gpus[i].ecc_errors);
		json_key_u64(j, "last_xid", s->gpus[i].last_xid);
		if (s->gpus[i].is_lost)
			json_key_bool(j, "is_lost", true);
		json_end_object(j);
	}
	json_end_array(j);
}

/* null: none is set, or it is not known; flag_key says which. */
static void write_limit(struct json *j, const char *key, const char *flag_key, uint64_t bytes)
{
	bool is_unlimited = bytes == MEMORY_UNLIMITED;

	json_key_f64(j, key, is_unlimited ? F64_UNKNOWN : u64_to_mb(bytes));
	if (u64_known(bytes))
		json_key_bool(j, flag_key, is_unlimited);
	else
		json_key_null(j, flag_key);
}

void snapshot_write_cgroups(struct json *j, const struct snapshot *s)
{
	if (!s->cgroups) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < s->n_cgroups; i++) {
		const struct cgroup_sample *c = &s->cgroups[i];

		json_begin_object(j);
		json_key_string(j, "path", c->path);
		json_key_f64(j, "memory_current_mb", u64_to_mb(c->memory_current_bytes));
		write_limit(j, "memory_high_mb", "memory_high_unlimited", c->memory_high_bytes);
		write_limit(j, "memory_max_mb", "memory_max_unlimited", c->memory_max_bytes);
		write_psi(j, "psi_memory", &c->psi_memory);
		json_key_u64(j, "oom_kills", c->oom_kills);
		json_end_object(j);
	}
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

/* Of now alone: what is recorded of progress has no such keys. */
static void write_attempt(struct json *j, const struct job_progress *p)
{
	if (p->attempt_id > 0)
		json_key_i64(j, "attempt_id", p->attempt_id);
	if (p->attempt_num <= 0)
		return;
	json_key_i64(j, "attempt", p->attempt_num);
	json_key_u64(j, "uid", p->uid);
}

void snapshot_write_progress(struct json *j, const struct snapshot *s)
{
	if (f64_known(s->resolution_seconds)) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < s->n_progress; i++) {
		const struct job_progress *p = &s->progress[i];

		json_begin_object(j);
		json_key_string(j, "job_id", p->job_id);
		json_key_i64(j, "total_sheets", p->total_sheets);
		json_key_i64(j, "last_completed_sheet", p->last_completed_sheet);
		json_key_int(j, "current_sheet", p->current_sheet);
		json_key_string(j, "status", p->status);
		write_attempt(j, p);
		json_end_object(j);
	}
	json_end_array(j);
}

void snapshot_write_json(struct json *j, const struct snapshot *s, enum snapshot_scope scope)
{
	json_begin_object(j);
	json_key_f64(j, "timestamp", clock_ns_to_seconds(s->wall_ns));
	json_key_int(j, "daemon_pid", s->daemon_pid > 0 ? s->daemon_pid : -1);
	json_key_string(j, "boot_id", s->boot_id[0] ? s->boot_id : NULL);
	json_key_f64(j, "system_memory_total_mb", u64_to_mb(s->system.memory_total_bytes));
	json_key_f64(j, "system_memory_available_mb", u64_to_mb(s->system.memory_available_bytes));
	json_key_f64(j, "system_memory_used_mb", u64_to_mb(s->system.memory_used_bytes));
	json_key_f64(j, "load_avg_1", s->system.load1);
	json_key_f64(j, "load_avg_5", s->system.load5);
	json_key_f64(j, "load_avg_15", s->system.load15);
	json_key_f64(j, "swap_total_mb", u64_to_mb(s->system.swap_total_bytes));
	json_key_f64(j, "swap_free_mb", u64_to_mb(s->system.swap_free_bytes));
	json_key_f64(j, "cpu_user_seconds", u64_to_seconds(s->system.cpu_user_ns));
	json_key_f64(j, "cpu_system_seconds", u64_to_seconds(s->system.cpu_system_ns));
	json_key_f64(j, "cpu_idle_seconds", u64_to_seconds(s->system.cpu_idle_ns));
	json_key_f64(j, "cpu_iowait_seconds", u64_to_seconds(s->system.cpu_iowait_ns));
	json_key_f64(j, "cpu_steal_seconds", u64_to_seconds(s->system.cpu_steal_ns));
	json_key_u64(j, "cpu_count", s->system.cpu_count ? s->system.cpu_count : U64_UNKNOWN);
	write_psi(j, "psi_cpu", &s->system.psi_cpu);
	write_psi(j, "psi_memory", &s->system.psi_memory);
	write_psi(j, "psi_io", &s->system.psi_io);
	json_key_u64(j, "process_count", s->system.process_count);
	json_key_u64(j, "forks_total", s->system.forks_total);
	json_key_u64(j, "oom_kills_total", s->system.oom_kills_total);
	json_key_f64(j, "swap_in_mb", u64_to_mb(s->system.swap_in_bytes));
	json_key_f64(j, "swap_out_mb", u64_to_mb(s->system.swap_out_bytes));
	json_key_f64(j, "uptime_seconds", s->system.uptime_seconds);
	json_key_f64(j, "daemon_rss_mb", u64_to_mb(s->daemon_rss_bytes));
	json_key_string(j, "pressure_level", s->pressure_level);
	json_key_i64(j, "running_jobs", s->running_jobs);
	json_key_i64(j, "active_sheets", s->active_sheets);
	json_key_array(j, "processes");
	for (size_t i = 0; i < s->n_processes; i++)
		if (is_in_scope(&s->processes[i], scope)) {
			json_begin_object(j);
			proc_sample_write_fields(j, &s->processes[i]);
			json_end_object(j);
		}
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
	json_key_f64(j, "conductor_uptime_seconds", s->daemon_uptime_seconds);
	if (f64_known(s->resolution_seconds))
		json_key_f64(j, "resolution_seconds", s->resolution_seconds);
	json_end_object(j);
}
