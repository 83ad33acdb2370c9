/*
 * parse_host - the files of /proc about the whole machine, from text to numbers.
 *
 * Pure functions of NUL-terminated text. Each sets its own values of the
 * sample, to unknown where they are missing.
 */
#ifndef PROCTOR_SOURCES_PARSE_HOST_H
#define PROCTOR_SOURCES_PARSE_HOST_H

#include "model/snapshot.h"

/* proc/meminfo. Used is total less available, as an operator means it. */
void meminfo_parse(const char *text, struct system_sample *ret);

void loadavg_parse(const char *text, struct system_sample *ret);

/*
 * proc/stat: CPU times since boot, the number of CPUs online, forks. Nice is
 * counted as user, and interrupts as system.
 */
void procstat_parse(const char *text, long clock_ticks, struct system_sample *ret);

/* proc/vmstat: OOM kills (since Linux 4.13), and what was swapped, which it counts in pages. */
void vmstat_parse(const char *text, uint64_t page_bytes, struct system_sample *ret);

/* The line "oom_kill N" of vmstat, of a cgroup's memory.events or of its memory.oom_control. */
uint64_t oom_kills_parse(const char *text);

void uptime_parse(const char *text, struct system_sample *ret);

/* One of proc/pressure. Before Linux 5.13 cpu has no line "full". */
void psi_parse(const char *text, struct psi *ret);

/* proc/sys/kernel/random/boot_id; "" if it is none. */
void boot_id_parse(const char *text, char ret[BOOT_ID_BYTES]);

/*
 * sys/devices/system/cpu/possible, "0-3,8-11": one more than the highest number, which is more than
 * there are CPUs where numbers are left out. -EBADMSG: it is no such list.
 */
int cpu_ids_parse(const char *text);

/* Ticks as nanoseconds; unknown if they are, or if it does not fit. */
uint64_t ticks_to_ns(uint64_t ticks, long clock_ticks);

/* The other way, rounded down as the kernel does. */
uint64_t ns_to_ticks(uint64_t ns, long clock_ticks);

/* Pages as bytes; unknown if they are, or if it does not fit. */
uint64_t pages_to_bytes(uint64_t pages, uint64_t page_bytes);

#endif
