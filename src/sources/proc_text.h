/*
 * proc_text - the files of /proc, from text to numbers.
 *
 * Pure functions of NUL-terminated text, so that tests and fuzzers call them without a kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/snapshot.h"
#include "sources/sources.h"

/*
 * ---- numbers from text of the form "name: value" or "name value", one per line ----
 *
 * Lines are found by name, in any order, and what is missing, negative, too
 * large or not a number is unknown. A last line without its newline was cut
 * off, perhaps in the middle of a number, and does not count.
 */

#define FIELD_LAST (-1)

enum field_unit {
	FIELD_PLAIN,
	FIELD_KB,  /* "12 kB", wanted as bytes; without its unit it is unknown */
	FIELD_HEX, /* "0000000000010000": a mask of up to 64 bits */
};

/* One row: a line that is wanted. */
struct field {
	const char *name; /* without the colon */
	size_t offset;	  /* of a uint64_t in the result */
	int column;	  /* which number of the line, from 0; FIELD_LAST: the last */
	enum field_unit unit;
};

/*
 * Reads the unsigned number at *cursor, with the blanks before it skipped, and
 * moves behind it. -EINVAL: no number there, or it does not end at a blank or
 * at the end of its line.
 */
int field_scan_u64(const char **cursor, uint64_t *ret);

/*
 * ---- files about the whole machine ----
 *
 * Each sets its own values of the sample, to unknown where they are missing.
 */

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

/*
 * ---- files of proc/PID ----
 *
 * Values that are missing are unknown (base/unknown.h); -EINVAL where too little is there to be of
 * any use. On failure *ret is untouched.
 */

/* proc/PID/stat, times in clock ticks. */
struct pid_stat {
	pid_t pid, ppid;
	char state;
	char comm[COMM_BYTES];
	uint64_t minor_faults, major_faults;
	uint64_t user_ticks, system_ticks;
	uint64_t child_user_ticks, child_system_ticks; /* of those waited for */
	uint64_t threads;
	uint64_t start_ticks;
	/* Another value means another program: it changes with comm, and at exec as far as this
	 * user is told the addresses. */
	uint64_t image;
};

/* The name may hold blanks, newlines and parentheses: it ends at the last ')'. */
int pid_stat_parse(const char *text, struct pid_stat *ret);

/* proc/PID/statm, in pages. */
struct pid_statm {
	uint64_t size, resident, shared;
};

int pid_statm_parse(const char *text, struct pid_statm *ret);

/* proc/PID/schedstat: of the first thread only. */
struct pid_schedstat {
	uint64_t run_ns;
	uint64_t wait_ns; /* ready to run, and without a CPU */
	uint64_t slices;  /* how often it got a CPU */
};

/* -ENODATA: this kernel does not count, and says "0 0 0". */
int pid_schedstat_parse(const char *text, struct pid_schedstat *ret);

/*
 * Lines of proc/PID/status and proc/PID/io: the member (of struct proc_sample too, where it has
 * one of that name), the name of the line, which of its numbers, and the unit (enum field_unit).
 */
#define PID_STATUS_MEMORY(LINE)                        \
	LINE(hwm_bytes, "VmHWM", 0, FIELD_KB)          \
	LINE(rss_anon_bytes, "RssAnon", 0, FIELD_KB)   \
	LINE(rss_file_bytes, "RssFile", 0, FIELD_KB)   \
	LINE(rss_shmem_bytes, "RssShmem", 0, FIELD_KB) \
	LINE(swap_bytes, "VmSwap", 0, FIELD_KB)        \
	LINE(page_table_bytes, "VmPTE", 0, FIELD_KB)
/* Of the first thread only. */
#define PID_STATUS_THREAD(LINE)                                             \
	LINE(voluntary_switches, "voluntary_ctxt_switches", 0, FIELD_PLAIN) \
	LINE(involuntary_switches, "nonvoluntary_ctxt_switches", 0, FIELD_PLAIN)
#define PID_STATUS_REST(LINE)                            \
	LINE(uid, "Uid", 1, FIELD_PLAIN) /* effective */ \
	LINE(ns_pid, "NSpid", FIELD_LAST, FIELD_PLAIN)   \
	LINE(ignored_signals, "SigIgn", 0, FIELD_HEX) /* a mask */
#define PID_IO(LINE)                                   \
	LINE(rchar, "rchar", 0, FIELD_PLAIN)           \
	LINE(wchar, "wchar", 0, FIELD_PLAIN)           \
	LINE(syscr, "syscr", 0, FIELD_PLAIN)           \
	LINE(syscw, "syscw", 0, FIELD_PLAIN)           \
	LINE(read_bytes, "read_bytes", 0, FIELD_PLAIN) \
	LINE(write_bytes, "write_bytes", 0, FIELD_PLAIN)

#define PID_MEMBER(member_, ...) uint64_t member_;

struct pid_status {
	PID_STATUS_MEMORY(PID_MEMBER)
	PID_STATUS_THREAD(PID_MEMBER)
	PID_STATUS_REST(PID_MEMBER)
	bool ignores_sigchld; /* the kernel waits for its children itself, and reports none */
};

void pid_status_parse(const char *text, struct pid_status *ret);

void pid_io_parse(const char *text, struct io_counts *ret);

/* A soft limit of proc/PID/limits by its name there; "unlimited" is FD_LIMIT_UNLIMITED. */
uint64_t pid_limit_parse(const char *text, const char *name);
#define LIMIT_OPEN_FILES "Max open files"
#define LIMIT_PROCESSES "Max processes" /* and threads, of the user */

/*
 * The path that tells most in proc/PID/cgroup: of v2; but where v1 has the
 * memory controller and leaves v2 at "/" (a hybrid), of that. Points into text;
 * NULL: neither is there.
 */
const char *pid_cgroup_parse(const char *text, size_t *ret_len);

/*
 * The path in the hierarchy that has the memory controller: v1's where that
 * names it, else v2's. Points into text; NULL: in neither.
 */
const char *pid_memory_cgroup_parse(const char *text, size_t *ret_len, bool *ret_is_v1);
