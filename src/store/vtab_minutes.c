#include "base/macros.h"
#include "store/fold.h"
#include "store/minute_walk.h"
#include "store/rollup.h"
#include "store/vtab.h"

struct minutes_cursor {
	struct vtab_cursor base;
	struct minute_walk *walk;
};

/* ---- columns ---- */

#define ROW(field_) offsetof(struct minute_row, field_)
#define LAST(field_) ROW(last.field_), VTAB_NO_KEY, 0

/* What goes up and down: its average, which is a double, and as samples have it the others. */
#define GAUGE(name_, field_, give_avg_, give_, about_)                                           \
	{ name_ "_avg", "REAL", give_avg_, ROW(avg.field_), VTAB_NO_KEY, 0, about_ },            \
		{ name_ "_min", "REAL", give_, ROW(min.field_), VTAB_NO_KEY, 0, "the least" },   \
		{ name_ "_max", "REAL", give_, ROW(max.field_), VTAB_NO_KEY, 0, "the largest" }, \
	{                                                                                        \
		name_ "_last", "REAL", give_, ROW(last.field_), VTAB_NO_KEY, 0, "the last"       \
	}
#define BYTES(name_, field_, about_) GAUGE(name_, field_, vtab_give_mb_f64, vtab_give_mb, about_)
#define COUNT(name_, field_, about_) GAUGE(name_, field_, vtab_give_f64, vtab_give_u64, about_)

static const struct vtab_column columns[] = {
	{ "timestamp", "REAL", vtab_give_seconds, ROW(wall_ns), VTAB_TIME, 0,
	  "unix seconds, when the minute begins" },
	{ "job_id", "TEXT", vtab_give_text, ROW(last.job_id), VTAB_JOB, 0, "whose it is" },
	{ "attempt", "INTEGER", vtab_give_int, ROW(attempt_num), VTAB_NO_KEY, 0,
	  "number of the attempt" },
	{ "sheet_num", "INTEGER", vtab_give_int_or_none, LAST(sheet_num), "number of the sheet" },
	{ "rank", "INTEGER", vtab_give_int_or_none, LAST(rank), "of the sheet's ranks" },
	{ "pid", "INTEGER", vtab_give_int, ROW(last.key.pid), VTAB_PID, 0,
	  "reused in time: with start_ticks it is one process of a boot" },
	{ "start_ticks", "INTEGER", vtab_give_u64, LAST(key.start_ticks),
	  "when it began, in the kernel's ticks since boot" },
	{ "start_time", "REAL", vtab_give_seconds, LAST(start_wall_ns), "unix seconds" },
	{ "comm", "TEXT", vtab_give_chars, LAST(comm), "its name for the kernel" },
	{ "command", "TEXT", vtab_give_text, LAST(command), "without secrets" },
	{ "samples", "INTEGER", vtab_give_u64, ROW(n_samples), VTAB_NO_KEY, 0,
	  "how many stand behind it" },
	{ "state", "TEXT", vtab_give_state, LAST(state), "the last: R S D Z T t X I" },
	GAUGE("cpu_percent", cpu_percent, vtab_give_f64, vtab_give_f64,
	      "100 is one core; the average of the samples"),
	BYTES("rss_mb", rss_bytes, "memory, on average"),
	BYTES("rss_anon_mb", rss_anon_bytes, "its own"),
	BYTES("rss_file_mb", rss_file_bytes, "of mapped files"),
	BYTES("rss_shmem_mb", rss_shmem_bytes, "shared"),
	BYTES("hwm_mb", hwm_bytes, "the largest rss ever"),
	BYTES("vms_mb", vms_bytes, "address space"),
	BYTES("swap_mb", swap_bytes, "swapped out"),
	COUNT("threads", threads, "how many"),
	COUNT("open_fds", open_fds, "open files"),
	BYTES("gpu_memory_mb", gpu_memory_bytes, "on all GPUs"),
	GAUGE("gpu_pct", gpu_percent, vtab_give_f64, vtab_give_f64, "100 is one GPU"),
	{ "ppid", "INTEGER", vtab_give_int, LAST(ppid), "its parent; from here on the last" },
	{ "uid", "INTEGER", vtab_give_u64, LAST(uid), "user" },
	{ "cgroup", "TEXT", vtab_give_text, LAST(cgroup), "path" },
	{ "cpu_seconds", "REAL", vtab_give_seconds, LAST(cpu_ns), "CPU time so far" },
	{ "user_cpu_seconds", "REAL", vtab_give_seconds, LAST(user_ns), "in the program" },
	{ "system_cpu_seconds", "REAL", vtab_give_seconds, LAST(system_ns), "in the kernel" },
	{ "children_user_cpu_seconds", "REAL", vtab_give_seconds, LAST(child_user_ns),
	  "of children that it has waited for" },
	{ "children_system_cpu_seconds", "REAL", vtab_give_seconds, LAST(child_system_ns),
	  "theirs in the kernel" },
	{ "rchar", "INTEGER", vtab_give_u64, LAST(rchar), "bytes that read() gave it" },
	{ "wchar", "INTEGER", vtab_give_u64, LAST(wchar), "bytes that write() took from it" },
	{ "syscr", "INTEGER", vtab_give_u64, LAST(syscr), "reads" },
	{ "syscw", "INTEGER", vtab_give_u64, LAST(syscw), "writes" },
	{ "read_bytes", "INTEGER", vtab_give_u64, LAST(read_bytes), "from storage" },
	{ "write_bytes", "INTEGER", vtab_give_u64, LAST(write_bytes), "to storage" },
	{ "minor_faults", "INTEGER", vtab_give_u64, LAST(minor_faults),
	  "page faults without a disk" },
	{ "major_faults", "INTEGER", vtab_give_u64, LAST(major_faults), "with a disk" },
	{ "voluntary_switches", "INTEGER", vtab_give_u64, LAST(voluntary_switches),
	  "times that it waited" },
	{ "involuntary_switches", "INTEGER", vtab_give_u64, LAST(involuntary_switches),
	  "times that the CPU was taken from it" },
	{ "fd_limit", "INTEGER", vtab_give_fd_limit, LAST(fd_limit),
	  "of its open files; 'unlimited' is more than any number" },
};

static unsigned n_words(const struct vtab_column *column)
{
	(void)column;
	return 0;
}

/* A guess: a tick every five seconds. */
static double count_rows(const struct vtab_size *size)
{
	return size->n_samples / 12;
}

/* ---- rows ---- */

static int next_row(struct vtab_cursor *base, struct err *err)
{
	return minute_walk_next(((struct minutes_cursor *)base)->walk, err);
}

/* The limits are those of the minute's beginning: of others SQLite would say that they do not
 * match. */
static int filter_rows(struct vtab_cursor *base, const struct vtab_filter *filter, struct err *err)
{
	struct minutes_cursor *c = (struct minutes_cursor *)base;
	const struct minute_filter minutes = { filter->job_id, filter->pid, filter->since_wall_ns,
					       filter->until_wall_ns };
	int r;

	minute_walk_close(&c->walk);
	if (filter->is_empty)
		return 0;
	r = minute_walk_open(base->store, &minutes, filter->newest_first, &c->walk, err);
	return r < 0 ? r : next_row(base, err);
}

static const void *tell_row(struct vtab_cursor *base, const struct vtab_column *column,
			    struct err *err)
{
	(void)column;
	(void)err;
	return minute_walk_row(((struct minutes_cursor *)base)->walk);
}

static int64_t row_id(const struct vtab_cursor *base)
{
	const struct minute_walk *walk = ((const struct minutes_cursor *)base)->walk;
	int64_t minute = (int64_t)(minute_walk_row(walk)->wall_ns / MINUTE_NS);

	return minute << CHUNK_BITS | (minute_walk_process(walk) & CHUNK_PROCESS_MAX);
}

static void close_rows(struct vtab_cursor *base)
{
	minute_walk_close(&((struct minutes_cursor *)base)->walk);
}

const struct vtab_table vtab_minutes = {
	.name = "process_minutes",
	.about = "each process of a job in each minute: average, least, largest and last",
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.cursor_size = sizeof(struct minutes_cursor),
	.count = count_rows,
	.n_words = n_words,
	.close = close_rows,
	.filter = filter_rows,
	.next = next_row,
	.row = tell_row,
	.rowid = row_id,
};
