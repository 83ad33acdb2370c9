#include "sources/parse_host.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/fields.h"

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

static unsigned count_cpus(const char *text)
{
	unsigned n = 0;
	const char *end;

	for (; (end = strchr(text, '\n')); text = end + 1)
		if (strncmp(text, "cpu", 3) == 0 && isdigit((unsigned char)text[3]))
			n++;
	return n;
}

void procstat_parse(const char *text, long clock_ticks, struct system_sample *ret)
{
	static const struct field fields[] = {
		{ "processes", offsetof(struct system_sample, forks_total), 0, FIELD_PLAIN },
	};

	read_cpu_times(field_find(text, "cpu"), clock_ticks, ret);
	ret->cpu_count = count_cpus(text);
	fields_read(text, fields, ARRAY_SIZE(fields), ret);
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
