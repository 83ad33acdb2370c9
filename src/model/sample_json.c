#include <math.h>
#include <stddef.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/snapshot.h"

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
 * they stand here, and no more is decided than what kind of value it is.
 */

/* Each value is written in its own way. */
enum field_kind {
	FIELD_PID, /* never unknown */
	FIELD_U64,
	FIELD_INT, /* below 0 it is unknown */
	FIELD_F64,
	FIELD_MB,      /* of bytes */
	FIELD_SECONDS, /* of nanoseconds */
	FIELD_STRING,
	FIELD_CHAR,
	FIELD_COMM,
	FIELD_COUNTS,
	FIELD_TIMES,
	FIELD_LIMIT,
};

/* In the order in which they are written. */
static const struct sample_field {
	char key[JSON_KEY_BYTES]; /* as it stands in JSON */
	size_t len;
	enum field_kind kind;
	size_t offset;
} sample_fields[] = {
#define FIELD(key_, kind_, field_)                                     \
	{                                                              \
		",\"" key_ "\":", sizeof(",\"" key_ "\":") - 1, kind_, \
			offsetof(struct proc_sample, field_)           \
	}
	FIELD("pid", FIELD_PID, key.pid),
	FIELD("ppid", FIELD_PID, ppid),
	FIELD("command", FIELD_STRING, command),
	FIELD("state", FIELD_CHAR, state),
	FIELD("cpu_percent", FIELD_F64, cpu_percent),
	FIELD("rss_mb", FIELD_MB, rss_bytes),
	FIELD("vms_mb", FIELD_MB, vms_bytes),
	FIELD("threads", FIELD_U64, threads),
	FIELD("open_fds", FIELD_U64, open_fds),
	FIELD("age_seconds", FIELD_F64, age_seconds),
	FIELD("job_id", FIELD_STRING, job_id),
	FIELD("sheet_num", FIELD_INT, sheet_num),
	FIELD("syscall_counts", FIELD_COUNTS, syscalls),
	FIELD("syscall_time_pct", FIELD_TIMES, syscalls),
	FIELD("comm", FIELD_COMM, comm),
	FIELD("rank", FIELD_INT, rank),
	FIELD("start_ticks", FIELD_U64, key.start_ticks),
	FIELD("start_time", FIELD_SECONDS, start_wall_ns),
	FIELD("cpu_seconds", FIELD_SECONDS, cpu_ns),
	FIELD("user_cpu_seconds", FIELD_SECONDS, user_ns),
	FIELD("system_cpu_seconds", FIELD_SECONDS, system_ns),
	FIELD("children_user_cpu_seconds", FIELD_SECONDS, child_user_ns),
	FIELD("children_system_cpu_seconds", FIELD_SECONDS, child_system_ns),
	FIELD("hwm_mb", FIELD_MB, hwm_bytes),
	FIELD("rss_anon_mb", FIELD_MB, rss_anon_bytes),
	FIELD("rss_file_mb", FIELD_MB, rss_file_bytes),
	FIELD("rss_shmem_mb", FIELD_MB, rss_shmem_bytes),
	FIELD("swap_mb", FIELD_MB, swap_bytes),
	FIELD("rchar", FIELD_U64, rchar),
	FIELD("wchar", FIELD_U64, wchar),
	FIELD("syscr", FIELD_U64, syscr),
	FIELD("syscw", FIELD_U64, syscw),
	FIELD("read_bytes", FIELD_U64, read_bytes),
	FIELD("write_bytes", FIELD_U64, write_bytes),
	FIELD("minor_faults", FIELD_U64, minor_faults),
	FIELD("major_faults", FIELD_U64, major_faults),
	FIELD("voluntary_switches", FIELD_U64, voluntary_switches),
	FIELD("involuntary_switches", FIELD_U64, involuntary_switches),
	FIELD("fd_limit", FIELD_LIMIT, fd_limit),
	FIELD("uid", FIELD_U64, uid),
	FIELD("cgroup", FIELD_STRING, cgroup),
	FIELD("ns_pid", FIELD_U64, ns_pid),
	FIELD("gpu_memory_mb", FIELD_MB, gpu_memory_bytes),
	FIELD("gpu_pct", FIELD_F64, gpu_percent),
#undef FIELD
};

static uint64_t u64_at(const void *place)
{
	return *(const uint64_t *)place;
}

/* Unlimited has no number; it is known all the same, so it is a word. */
static void write_limit(struct json *j, uint64_t limit)
{
	if (limit == FD_LIMIT_UNLIMITED)
		json_str(j, "unlimited");
	else
		json_u64(j, limit);
}

static void write_number(struct json *j, enum field_kind kind, const void *place)
{
	int n;

	switch (kind) {
	case FIELD_PID:
		json_i64(j, *(const pid_t *)place);
		break;
	case FIELD_INT:
		n = *(const int *)place;
		json_u64(j, n < 0 ? U64_UNKNOWN : (uint64_t)n);
		break;
	case FIELD_F64:
		json_f64(j, *(const double *)place);
		break;
	case FIELD_MB:
		json_f64(j, u64_to_mb(u64_at(place)));
		break;
	case FIELD_SECONDS:
		json_f64(j, u64_to_seconds(u64_at(place)));
		break;
	case FIELD_LIMIT:
		write_limit(j, u64_at(place));
		break;
	default:
		json_u64(j, u64_at(place));
	}
}

static void write_field(struct json *j, const struct sample_field *f, const struct proc_sample *p)
{
	const void *place = (const char *)p + f->offset;

	json_key_ready(j, f->key, f->len);
	switch (f->kind) {
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
	case FIELD_TIMES:
		syscall_uses_write_times(j, p->syscalls, p->n_syscalls);
		break;
	default:
		write_number(j, f->kind, place);
	}
}

/* Few have them: the others go without the keys. */
static void write_world(struct json *j, const struct proc_sample *p)
{
	if (p->local_rank >= 0)
		json_key_u64(j, "local_rank", (uint64_t)p->local_rank);
	if (p->world_size >= 0)
		json_key_u64(j, "world_size", (uint64_t)p->world_size);
}

void proc_sample_write_fields(struct json *j, const struct proc_sample *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_fields); i++)
		write_field(j, &sample_fields[i], p);
	write_world(j, p);
	/* Of now alone: recorded samples have no such keys. */
	if (u64_known(p->cpu_wait_ns))
		json_key_f64(j, "cpu_wait_seconds", u64_to_seconds(p->cpu_wait_ns));
	if (p->attempt_id > 0)
		json_key_i64(j, "attempt_id", p->attempt_id);
	if (p->ignores_sigchld != SIGCHLD_UNKNOWN)
		json_key_bool(j, "ignores_sigchld", p->ignores_sigchld > 0);
}
