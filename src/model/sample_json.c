#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/json_number.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/sample_fields.h"
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
 * they stand here, no more is decided than what kind of value it is, and room is asked for once for
 * all that stands between two strings.
 */

#define ROW(key_, kind_, field_, is_rare_)                             \
	{                                                              \
		",\"" key_ "\":", sizeof(",\"" key_ "\":") - 1, kind_, \
			offsetof(struct proc_sample, field_), is_rare_ \
	}
#define FIELD(key_, kind_, field_) ROW(key_, kind_, field_, false)
#define RARE(key_, kind_, field_) ROW(key_, kind_, field_, true)

const struct sample_field sample_fields[] = {
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
	RARE("local_rank", FIELD_INT, local_rank), /* few have them */
	RARE("world_size", FIELD_INT, world_size),
	RARE("attempt_id", FIELD_ID, attempt_id),	      /* of now, and in a replay */
	RARE("cpu_wait_seconds", FIELD_SECONDS, cpu_wait_ns), /* from here on of now alone: */
	RARE("ignores_sigchld", FIELD_FLAG, ignores_sigchld), /* recorded samples have no such */
};
const size_t n_sample_fields = ARRAY_SIZE(sample_fields);

/* Between ,\" and \": */
bool sample_field_is(size_t i, const char *name, size_t len)
{
	return sample_fields[i].len == len + 4 && memcmp(sample_fields[i].key + 2, name, len) == 0;
}

static uint64_t u64_at(const void *place)
{
	return *(const uint64_t *)place;
}

/* Unlimited has no number; it is known all the same, so it is a word. */
static char *put_limit(char *at, uint64_t limit)
{
	return limit == FD_LIMIT_UNLIMITED ? stpcpy(at, "\"unlimited\"") : json_put_u64(at, limit);
}

static char *put_number(char *at, enum field_kind kind, const void *place)
{
	int n;

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
		return put_limit(at, u64_at(place));
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

/* The whole row, which is two moves; what is too much the value overwrites. */
static char *put_key(char *at, const struct sample_field *f, bool has_comma)
{
	size_t skip = has_comma ? 0 : 1;

	memcpy(at, f->key + skip, FIELD_KEY_BYTES - 1);
	return at + f->len - skip;
}

void proc_sample_write_fields(struct json *j, const struct proc_sample *p)
{
	bool has_comma = j->need_comma;
	char *at = json_room(j, ROOM);

	for (size_t i = 0; at && i < ARRAY_SIZE(sample_fields); i++) {
		const struct sample_field *f = &sample_fields[i];
		const void *place = (const char *)p + f->offset;

		if (f->is_rare && !is_known(f->kind, place))
			continue;
		at = put_key(at, f, has_comma);
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
