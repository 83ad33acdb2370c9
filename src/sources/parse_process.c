#include "sources/parse_process.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/fields.h"

/* Fields of stat by their numbers in proc(5); the third is the state. */
enum {
	STAT_PPID = 4,
	STAT_MINFLT = 10,
	STAT_MAJFLT = 12,
	STAT_UTIME = 14,
	STAT_STIME = 15,
	STAT_CUTIME = 16,
	STAT_CSTIME = 17,
	STAT_THREADS = 20,
	STAT_START = 22,
	STAT_STARTCODE = 26,
	STAT_STARTSTACK = 28,
	STAT_ARG_START = 48,
	STAT_ARG_END = 49,
	STAT_N_FIELDS = 50,
};

/*
 * Fields 4 and on into v[], those that are negative or do not fit as unknown.
 * Returns the number of the first field that was not there.
 */
static int scan_stat_fields(const char *p, uint64_t v[STAT_N_FIELDS])
{
	int i;

	for (i = STAT_PPID; i < STAT_N_FIELDS; i++) {
		while (*p == ' ')
			p++;
		if (*p == '-') {
			p++;
			p += strspn(p, "0123456789");
			v[i] = U64_UNKNOWN;
		} else if (num_scan_u64(&p, &v[i]) < 0) {
			break;
		}
		if (*p != ' ' && *p != '\n')
			break; /* cut off in the middle of the number */
	}
	return i;
}

static uint64_t hash_image(const char *comm, const uint64_t v[STAT_N_FIELDS])
{
	static const int fields[] = { STAT_STARTCODE, STAT_STARTSTACK, STAT_ARG_START,
				      STAT_ARG_END };
	uint64_t h = hash_bytes(HASH_INIT, comm, strlen(comm));

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		h = hash_bytes(h, &v[fields[i]], sizeof(v[0]));
	return h;
}

static bool is_pid(uint64_t v)
{
	return v <= INT_MAX;
}

int pid_stat_parse(const char *text, struct pid_stat *ret)
{
	uint64_t v[STAT_N_FIELDS] = { 0 };
	struct pid_stat st = { 0 };
	const char *open, *close;
	uint64_t pid;
	size_t n;

	open = text;
	if (num_scan_u64(&open, &pid) < 0 || !is_pid(pid) || strncmp(open, " (", 2) != 0)
		return -EINVAL;
	open += 2;
	close = strrchr(open, ')');
	if (!close || close[1] != ' ' || !isalpha((unsigned char)close[2]) || close[3] != ' ')
		return -EINVAL;
	if (scan_stat_fields(close + 3, v) <= STAT_START || !is_pid(v[STAT_PPID]) ||
	    !u64_known(v[STAT_START]))
		return -EINVAL;

	n = (size_t)(close - open);
	memcpy(st.comm, open, n < sizeof(st.comm) ? n : sizeof(st.comm) - 1);
	st.pid = (pid_t)pid;
	st.ppid = (pid_t)v[STAT_PPID];
	st.state = close[2];
	st.minor_faults = v[STAT_MINFLT];
	st.major_faults = v[STAT_MAJFLT];
	st.user_ticks = v[STAT_UTIME];
	st.system_ticks = v[STAT_STIME];
	st.child_user_ticks = v[STAT_CUTIME];
	st.child_system_ticks = v[STAT_CSTIME];
	st.threads = v[STAT_THREADS];
	st.start_ticks = v[STAT_START];
	st.image = hash_image(st.comm, v);
	*ret = st;
	return 0;
}

int pid_statm_parse(const char *text, struct pid_statm *ret)
{
	struct pid_statm m;

	if (field_scan_u64(&text, &m.size) < 0 || field_scan_u64(&text, &m.resident) < 0 ||
	    field_scan_u64(&text, &m.shared) < 0)
		return -EINVAL;
	*ret = m;
	return 0;
}

int pid_schedstat_parse(const char *text, struct pid_schedstat *ret)
{
	struct pid_schedstat s;

	if (field_scan_u64(&text, &s.run_ns) < 0 || field_scan_u64(&text, &s.wait_ns) < 0 ||
	    field_scan_u64(&text, &s.slices) < 0)
		return -EINVAL;
	if (s.run_ns == 0 || s.slices == 0)
		return -ENODATA;
	*ret = s;
	return 0;
}

/* The lowest bit is signal 1. */
static bool has_signal(uint64_t mask, int sig)
{
	return u64_known(mask) && mask >> (sig - 1) & 1;
}

void pid_status_parse(const char *text, struct pid_status *ret)
{
	static const struct field fields[] = {
#define LINE(member_, name_, column_, unit_) \
	{ name_, offsetof(struct pid_status, member_), column_, unit_ },
		PID_STATUS_MEMORY(LINE) PID_STATUS_THREAD(LINE) PID_STATUS_REST(LINE)
#undef LINE
	};

	fields_read(text, fields, ARRAY_SIZE(fields), ret);
	ret->ignores_sigchld = has_signal(ret->ignored_signals, SIGCHLD);
}

void pid_io_parse(const char *text, struct pid_io *ret)
{
	static const struct field fields[] = {
#define LINE(member_, name_, column_, unit_) \
	{ name_, offsetof(struct pid_io, member_), column_, unit_ },
		PID_IO(LINE)
#undef LINE
	};

	fields_read(text, fields, ARRAY_SIZE(fields), ret);
}

static uint64_t parse_limit(const char *text, const char *name)
{
	static const char unlimited[] = "unlimited";
	const char *p = field_find(text, name);
	uint64_t limit;

	if (!p)
		return U64_UNKNOWN;
	p += strspn(p, " ");
	if (strncmp(p, unlimited, sizeof(unlimited) - 1) == 0)
		return FD_LIMIT_UNLIMITED;
	if (field_scan_u64(&p, &limit) < 0)
		return U64_UNKNOWN;
	return limit < FD_LIMIT_UNLIMITED ? limit : FD_LIMIT_UNLIMITED;
}

uint64_t pid_limits_parse(const char *text)
{
	return parse_limit(text, "Max open files");
}

uint64_t pid_limits_parse_processes(const char *text)
{
	return parse_limit(text, "Max processes");
}

/* True if the comma-separated list[0..n) has the word "memory". */
static bool has_memory_controller(const char *list, size_t n)
{
	static const char memory[] = "memory";
	const size_t len = sizeof(memory) - 1;

	while (n > 0) {
		const char *comma = memchr(list, ',', n);
		size_t word = comma ? (size_t)(comma - list) : n;

		if (word == len && memcmp(list, memory, len) == 0)
			return true;
		if (!comma)
			return false;
		list += word + 1;
		n -= word + 1;
	}
	return false;
}

/* Paths inside the text; NULL where the process is in none. */
struct cgroup_paths {
	const char *v1, *v2; /* v1: of the memory controller */
	size_t v1_len, v2_len;
};

static struct cgroup_paths find_cgroups(const char *text)
{
	struct cgroup_paths found = { 0 };
	const char *end;

	/* "HIERARCHY:CONTROLLERS:PATH"; v2 is hierarchy 0 and names no controller. */
	for (; (end = strchr(text, '\n')); text = end + 1) {
		const char *list = memchr(text, ':', (size_t)(end - text));
		const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

		if (!path || path[1] != '/')
			continue;
		if (strncmp(text, "0::", 3) == 0) {
			found.v2 = path + 1;
			found.v2_len = (size_t)(end - found.v2);
		} else if (has_memory_controller(list + 1, (size_t)(path - list - 1))) {
			found.v1 = path + 1;
			found.v1_len = (size_t)(end - found.v1);
		}
	}
	return found;
}

const char *pid_cgroup_parse(const char *text, size_t *ret_len)
{
	struct cgroup_paths found = find_cgroups(text);
	bool is_v2 = found.v2 && (found.v2_len > 1 || !found.v1);

	*ret_len = is_v2 ? found.v2_len : found.v1_len;
	return is_v2 ? found.v2 : found.v1;
}

const char *pid_memory_cgroup_parse(const char *text, size_t *ret_len, bool *ret_is_v1)
{
	struct cgroup_paths found = find_cgroups(text);

	*ret_is_v1 = found.v1 != NULL;
	*ret_len = found.v1 ? found.v1_len : found.v2_len;
	return found.v1 ? found.v1 : found.v2;
}
