#include "sources/host.h"

#include <errno.h>

#include "base/io.h"
#include "base/macros.h"
#include "sources/parse_host.h"

/* proc/stat has a line per CPU and a number per interrupt: large machines reach some 100 kB. */
#define HOST_MAX_BYTES (4 * 1024 * 1024)

static void take_meminfo(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	meminfo_parse(text, &s->system);
}

static void take_loadavg(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	loadavg_parse(text, &s->system);
}

static void take_stat(const char *text, const struct host_units *units, struct snapshot *s)
{
	procstat_parse(text, units->clock_ticks, &s->system);
}

static void take_vmstat(const char *text, const struct host_units *units, struct snapshot *s)
{
	vmstat_parse(text, units->page_bytes, &s->system);
}

static void take_uptime(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	uptime_parse(text, &s->system);
}

static void take_psi_cpu(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	psi_parse(text, &s->system.psi_cpu);
}

static void take_psi_memory(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	psi_parse(text, &s->system.psi_memory);
}

static void take_psi_io(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	psi_parse(text, &s->system.psi_io);
}

static void take_boot_id(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	boot_id_parse(text, s->boot_id);
}

/* One row per file, and what takes its text. */
static const struct {
	const char *path;
	void (*take)(const char *text, const struct host_units *units, struct snapshot *s);
} host_files[] = {
	{ "meminfo", take_meminfo },
	{ "loadavg", take_loadavg },
	{ "stat", take_stat },
	{ "vmstat", take_vmstat },
	{ "uptime", take_uptime },
	/* Absent without PSI in the kernel; EOPNOTSUPP at the read if it is switched off. */
	{ "pressure/cpu", take_psi_cpu },
	{ "pressure/memory", take_psi_memory },
	{ "pressure/io", take_psi_io },
	{ "sys/kernel/random/boot_id", take_boot_id },
};

int host_read(int proc_fd, const struct host_units *units, struct buf *text, struct snapshot *s)
{
	int result = 0;

	for (size_t i = 0; i < ARRAY_SIZE(host_files); i++) {
		int r = io_read_at(proc_fd, host_files[i].path, HOST_MAX_BYTES, text);

		if (r == 0)
			host_files[i].take(text->data, units, s);
		else if (r == -EMFILE || r == -ENFILE)
			result = r;
	}
	return result;
}
