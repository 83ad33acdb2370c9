#include "sources/proc_text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"

/* ---- lines with a name ---- */

#define NUMBER_MAX_BYTES 32

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *p)
{
	while (is_blank(*p))
		p++;
	return p;
}

static const char *skip_word(const char *p)
{
	while (*p && *p != '\n' && !is_blank(*p))
		p++;
	return p;
}

int field_scan_u64(const char **cursor, uint64_t *ret)
{
	const char *p = skip_blanks(*cursor);
	uint64_t v;
	int r;

	r = num_scan_u64(&p, &v);
	if (r < 0)
		return r;
	if (!is_blank(*p) && *p != '\n')
		return -EINVAL;
	*cursor = p;
	*ret = v;
	return 0;
}

/* The same for "0.25"; nothing negative. */
static int field_scan_f64(const char **cursor, double *ret)
{
	const char *p = skip_blanks(*cursor);
	const char *end = skip_word(p);
	char word[NUMBER_MAX_BYTES];
	size_t n = (size_t)(end - p);
	int r;

	if (n >= sizeof(word) || *end == '\0' || *p == '-')
		return -EINVAL;
	memcpy(word, p, n);
	word[n] = '\0';
	r = num_parse_f64(word, ret);
	if (r < 0)
		return r;
	*cursor = end;
	return 0;
}

/* Behind the name and its separator if the line is that name's, else NULL. */
static const char *match_name(const char *line, const char *name)
{
	while (*name && *line == *name) {
		line++;
		name++;
	}
	if (*name || (*line != ':' && !is_blank(*line)))
		return NULL;
	return line + 1;
}

/* Where the value of the line begins; NULL if no complete line has that name. */
static const char *field_find(const char *text, const char *name)
{
	const char *end;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		const char *value = match_name(text, name);

		if (value)
			return value;
	}
	return NULL;
}

/* The start of the wanted word of a line, or NULL. */
static const char *find_column(const char *p, int column)
{
	const char *last = NULL;

	for (int i = 0;; i++) {
		p = skip_blanks(p);
		if (*p == '\n' || *p == '\0')
			return column == FIELD_LAST ? last : NULL;
		if (i == column)
			return p;
		last = p;
		p = skip_word(p);
	}
}

static uint64_t read_value(const char *line, const struct field *f)
{
	const char *p = find_column(line, f->column);
	uint64_t v;

	if (p && f->unit == FIELD_HEX) {
		const char *end = skip_word(p);

		v = 0;
		if (end == p || end - p > 16 || *end == '\0')
			return U64_UNKNOWN;
		for (; p < end; p++) {
			if (!isxdigit((unsigned char)*p))
				return U64_UNKNOWN;
			v = v << 4 | (uint64_t)(*p <= '9' ? *p - '0' : (*p | 0x20) - 'a' + 10);
		}
		return v;
	}
	if (!p || field_scan_u64(&p, &v) < 0)
		return U64_UNKNOWN;
	if (f->unit == FIELD_PLAIN)
		return v;
	p = skip_blanks(p);
	if (strncmp(p, "kB\n", 3) != 0 || __builtin_mul_overflow(v, UINT64_C(1024), &v))
		return U64_UNKNOWN;
	return v;
}

static void set_value(void *ret, const struct field *f, uint64_t v)
{
	memcpy((char *)ret + f->offset, &v, sizeof(v));
}

/* Writes those found to their places in ret and U64_UNKNOWN to the others. */
static void fields_read(const char *text, const struct field *fields, size_t n, void *ret)
{
	const char *end;
	size_t at =
		0; /* lines mostly come in the order of the table: the next row is tried first */

	for (size_t i = 0; i < n; i++)
		set_value(ret, &fields[i], U64_UNKNOWN);

	for (; (end = strchr(text, '\n')); text = end + 1) {
		const char *value = NULL;

		for (size_t tried = 0; tried < n && !value; tried++) {
			const struct field *f = &fields[at];

			at = at + 1 < n ? at + 1 : 0;
			value = match_name(text, f->name);
			if (value)
				set_value(ret, f, read_value(value, f));
		}
	}
}

/* ---- the whole machine ---- */

#define NS_PER_SECOND UINT64_C(1000000000)

uint64_t ticks_to_ns(uint64_t ticks, long clock_ticks)
{
	uint64_t hz = (uint64_t)clock_ticks, ns;

	if (!u64_known(ticks) || __builtin_mul_overflow(ticks / hz, NS_PER_SECOND, &ns))
		return U64_UNKNOWN;
	return u64_add(ns, ticks % hz * NS_PER_SECOND / hz);
}

uint64_t ns_to_ticks(uint64_t ns, long clock_ticks)
{
	uint64_t hz = (uint64_t)clock_ticks;

	return ns / NS_PER_SECOND * hz + ns % NS_PER_SECOND * hz / NS_PER_SECOND;
}

uint64_t pages_to_bytes(uint64_t pages, uint64_t page_bytes)
{
	uint64_t bytes;

	if (!u64_known(pages) || __builtin_mul_overflow(pages, page_bytes, &bytes))
		return U64_UNKNOWN;
	return bytes;
}

void meminfo_parse(const char *text, struct system_sample *ret)
{
#define AT(member) offsetof(struct system_sample, member)
	static const struct field fields[] = {
		{ "MemTotal", AT(memory_total_bytes), 0, FIELD_KB },
		{ "MemAvailable", AT(memory_available_bytes), 0, FIELD_KB },
		{ "SwapTotal", AT(swap_total_bytes), 0, FIELD_KB },
		{ "SwapFree", AT(swap_free_bytes), 0, FIELD_KB },
	};
#undef AT

	fields_read(text, fields, ARRAY_SIZE(fields), ret);
	ret->memory_used_bytes = u64_delta(ret->memory_total_bytes, ret->memory_available_bytes);
}

void loadavg_parse(const char *text, struct system_sample *ret)
{
	double one, five, fifteen;

	ret->load1 = ret->load5 = ret->load15 = F64_UNKNOWN;
	if (field_scan_f64(&text, &one) < 0 || field_scan_f64(&text, &five) < 0 ||
	    field_scan_f64(&text, &fifteen) < 0)
		return;
	ret->load1 = one;
	ret->load5 = five;
	ret->load15 = fifteen;
}

void uptime_parse(const char *text, struct system_sample *ret)
{
	if (field_scan_f64(&text, &ret->uptime_seconds) < 0)
		ret->uptime_seconds = F64_UNKNOWN;
}

uint64_t oom_kills_parse(const char *text)
{
	const char *value = field_find(text, "oom_kill");
	uint64_t kills;

	return value && field_scan_u64(&value, &kills) == 0 ? kills : U64_UNKNOWN;
}

void vmstat_parse(const char *text, uint64_t page_bytes, struct system_sample *ret)
{
	static const struct field fields[] = {
		{ "pswpin", offsetof(struct system_sample, swap_in_bytes), 0, FIELD_PLAIN },
		{ "pswpout", offsetof(struct system_sample, swap_out_bytes), 0, FIELD_PLAIN },
	};

	ret->oom_kills_total = oom_kills_parse(text);
	fields_read(text, fields, ARRAY_SIZE(fields), ret);
	ret->swap_in_bytes = pages_to_bytes(ret->swap_in_bytes, page_bytes);
	ret->swap_out_bytes = pages_to_bytes(ret->swap_out_bytes, page_bytes);
}

/* The columns of the line "cpu". */
enum {
	CPU_USER,
	CPU_NICE,
	CPU_SYSTEM,
	CPU_IDLE,
	CPU_IOWAIT,
	CPU_IRQ,
	CPU_SOFTIRQ,
	CPU_STEAL,
	CPU_N_COLUMNS
};

static void read_cpu_times(const char *line, long hz, struct system_sample *ret)
{
	uint64_t ns[CPU_N_COLUMNS];

	for (size_t i = 0; i < ARRAY_SIZE(ns); i++)
		ns[i] = U64_UNKNOWN;
	for (size_t i = 0; line && i < ARRAY_SIZE(ns); i++) {
		uint64_t ticks;

		if (field_scan_u64(&line, &ticks) < 0)
			break;
		ns[i] = ticks_to_ns(ticks, hz);
	}
	ret->cpu_user_ns = u64_add(ns[CPU_USER], ns[CPU_NICE]);
	ret->cpu_system_ns = u64_add(ns[CPU_SYSTEM], u64_add(ns[CPU_IRQ], ns[CPU_SOFTIRQ]));
	ret->cpu_idle_ns = ns[CPU_IDLE];
	ret->cpu_iowait_ns = ns[CPU_IOWAIT];
	ret->cpu_steal_ns = ns[CPU_STEAL];
}

void procstat_parse(const char *text, long clock_ticks, struct system_sample *ret)
{
	static const struct field fields[] = {
		{ "processes", offsetof(struct system_sample, forks_total), 0, FIELD_PLAIN },
	};

	const char *end;

	read_cpu_times(field_find(text, "cpu"), clock_ticks, ret);
	fields_read(text, fields, ARRAY_SIZE(fields), ret);
	ret->cpu_count = 0;
	for (; (end = strchr(text, '\n')); text = end + 1)
		ret->cpu_count += strncmp(text, "cpu", 3) == 0 && isdigit((unsigned char)text[3]);
}

/* Moves behind "avg10=" or whichever name comes next. */
static bool skip_key(const char **cursor, const char *key)
{
	const char *p = *cursor + strspn(*cursor, " ");
	size_t n = strlen(key);

	if (strncmp(p, key, n) != 0)
		return false;
	*cursor = p + n;
	return true;
}

static struct psi_line psi_line_parse(const char *line)
{
	const struct psi_line unknown = { F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, U64_UNKNOWN };
	struct psi_line psi;

	if (line && skip_key(&line, "avg10=") && field_scan_f64(&line, &psi.avg10) == 0 &&
	    skip_key(&line, "avg60=") && field_scan_f64(&line, &psi.avg60) == 0 &&
	    skip_key(&line, "avg300=") && field_scan_f64(&line, &psi.avg300) == 0 &&
	    skip_key(&line, "total=") && field_scan_u64(&line, &psi.total_us) == 0)
		return psi;
	return unknown;
}

void psi_parse(const char *text, struct psi *ret)
{
	ret->some = psi_line_parse(field_find(text, "some"));
	ret->full = psi_line_parse(field_find(text, "full"));
}

void boot_id_parse(const char *text, char ret[BOOT_ID_BYTES])
{
	size_t n = strspn(text, "0123456789abcdefABCDEF-");

	memset(ret, 0, BOOT_ID_BYTES);
	if (n == BOOT_ID_BYTES - 1 && (text[n] == '\n' || text[n] == '\0'))
		memcpy(ret, text, n);
}

/* More than any kernel is built for. */
#define MAX_CPUS 65536

/* They ascend: the last number is the highest. */
int cpu_ids_parse(const char *text)
{
	size_t len = strcspn(text, "\n"), at = len;
	uint64_t last;

	while (at > 0 && isdigit((unsigned char)text[at - 1]))
		at--;
	if (num_parse_u64_n(text + at, len - at, &last) < 0 || last >= MAX_CPUS)
		return -EBADMSG;
	return (int)last + 1;
}

/* ---- a process ---- */

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
	static const int fields[] = { STAT_STARTCODE, STAT_STARTSTACK, STAT_ARG_START,
				      STAT_ARG_END };
	uint64_t h;

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
	h = hash_bytes(HASH_INIT, st.comm, strlen(st.comm));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		h = hash_bytes(h, &v[fields[i]], sizeof(v[0]));
	st.image = h;
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

void pid_status_parse(const char *text, struct pid_status *ret)
{
	static const struct field fields[] = {
#define LINE(member_, name_, column_, unit_) \
	{ name_, offsetof(struct pid_status, member_), column_, unit_ },
		PID_STATUS_MEMORY(LINE) PID_STATUS_THREAD(LINE) PID_STATUS_REST(LINE)
#undef LINE
	};

	fields_read(text, fields, ARRAY_SIZE(fields), ret);
	/* The lowest bit is signal 1. */
	ret->ignores_sigchld =
		u64_known(ret->ignored_signals) && ret->ignored_signals >> (SIGCHLD - 1) & 1;
}

void pid_io_parse(const char *text, struct io_counts *ret)
{
	static const struct field fields[] = {
#define LINE(member_, name_, column_, unit_) \
	{ name_, offsetof(struct io_counts, member_), column_, unit_ },
		PID_IO(LINE)
#undef LINE
	};

	fields_read(text, fields, ARRAY_SIZE(fields), ret);
}

uint64_t pid_limit_parse(const char *text, const char *name)
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

/* True if the comma-separated list[0..n) has the word "memory". */
static bool has_memory_controller(const char *list, size_t n)
{
	static const char memory[] = "memory";
	const char *end = list + n;

	for (size_t word; list < end; list += word + 1) {
		word = strcspn(list, ",:");
		if (word == strlen(memory) && memcmp(list, memory, word) == 0)
			return true;
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
