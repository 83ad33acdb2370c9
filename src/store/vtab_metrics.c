#include <errno.h>

#include "base/macros.h"
#include "store/vtab.h"
#include "store/vtab_ticks.h"

struct metrics_row {
	int64_t tick_id;
	uint64_t wall_ns;
	double resolution_seconds;
	uint64_t n_samples;
	int attempt_num;
	struct proc_sample sample;
};

struct metrics_cursor {
	struct vtab_cursor base;
	struct vtab_ticks ticks;
	size_t process; /* in the fold, or row of the minute: the next one */
	struct metrics_row row;
};

/* ---- columns ---- */

#define ROW(field_) offsetof(struct metrics_row, field_)
#define SAMPLE(field_) ROW(sample.field_), VTAB_NO_KEY, 0

static const struct vtab_column columns[] = {
	{ "snapshot_id", "INTEGER", vtab_give_i64, ROW(tick_id), VTAB_TICK, 0, "snapshots.id" },
	{ "timestamp", "REAL", vtab_give_seconds, ROW(wall_ns), VTAB_TIME, 0,
	  "unix seconds, of the snapshot" },
	{ "pid", "INTEGER", vtab_give_int, ROW(sample.key.pid), VTAB_PID, 0,
	  "reused in time: with start_ticks it is one process of a boot" },
	{ "ppid", "INTEGER", vtab_give_int, SAMPLE(ppid), "its parent" },
	{ "command", "TEXT", vtab_give_text, SAMPLE(command), "without secrets" },
	{ "state", "TEXT", vtab_give_state, SAMPLE(state), "R S D Z T t X I" },
	{ "cpu_percent", "REAL", vtab_give_f64, SAMPLE(cpu_percent),
	  "since the sample before; 100 is one core" },
	{ "rss_mb", "REAL", vtab_give_mb, SAMPLE(rss_bytes), "memory" },
	{ "vms_mb", "REAL", vtab_give_mb, SAMPLE(vms_bytes), "address space" },
	{ "threads", "INTEGER", vtab_give_u64, SAMPLE(threads), "how many" },
	{ "open_fds", "INTEGER", vtab_give_u64, SAMPLE(open_fds), "open files" },
	{ "age_seconds", "REAL", vtab_give_f64, SAMPLE(age_seconds), "since it began" },
	{ "job_id", "TEXT", vtab_give_text, ROW(sample.job_id), VTAB_JOB, 0, "whose it is" },
	{ "sheet_num", "INTEGER", vtab_give_int_or_none, SAMPLE(sheet_num), "number of the sheet" },
	{ "syscall_counts", "TEXT", vtab_give_syscall_counts, ROW(sample), VTAB_NO_KEY, 0,
	  "calls since the sample before by name, as JSON" },
	{ "syscall_time_pct", "TEXT", vtab_give_syscall_times, ROW(sample), VTAB_NO_KEY, 0,
	  "share of each in their time on a CPU, as JSON" },
	{ "attempt", "INTEGER", vtab_give_int, ROW(attempt_num), VTAB_NO_KEY, 0,
	  "number of the attempt" },
	{ "comm", "TEXT", vtab_give_chars, SAMPLE(comm), "its name for the kernel" },
	{ "rank", "INTEGER", vtab_give_int_or_none, SAMPLE(rank), "of the sheet's ranks" },
	{ "start_ticks", "INTEGER", vtab_give_u64, SAMPLE(key.start_ticks),
	  "when it began, in the kernel's ticks since boot" },
	{ "start_time", "REAL", vtab_give_seconds, SAMPLE(start_wall_ns), "unix seconds" },
	{ "cpu_seconds", "REAL", vtab_give_seconds, SAMPLE(cpu_ns), "CPU time so far" },
	{ "user_cpu_seconds", "REAL", vtab_give_seconds, SAMPLE(user_ns), "in the program" },
	{ "system_cpu_seconds", "REAL", vtab_give_seconds, SAMPLE(system_ns), "in the kernel" },
	{ "children_user_cpu_seconds", "REAL", vtab_give_seconds, SAMPLE(child_user_ns),
	  "of children that it has waited for" },
	{ "children_system_cpu_seconds", "REAL", vtab_give_seconds, SAMPLE(child_system_ns),
	  "theirs in the kernel" },
	{ "hwm_mb", "REAL", vtab_give_mb, SAMPLE(hwm_bytes), "the largest rss ever" },
	{ "rss_anon_mb", "REAL", vtab_give_mb, SAMPLE(rss_anon_bytes), "its own" },
	{ "rss_file_mb", "REAL", vtab_give_mb, SAMPLE(rss_file_bytes), "of mapped files" },
	{ "rss_shmem_mb", "REAL", vtab_give_mb, SAMPLE(rss_shmem_bytes), "shared" },
	{ "swap_mb", "REAL", vtab_give_mb, SAMPLE(swap_bytes), "swapped out" },
	{ "rchar", "INTEGER", vtab_give_u64, SAMPLE(rchar), "bytes that read() gave it" },
	{ "wchar", "INTEGER", vtab_give_u64, SAMPLE(wchar), "bytes that write() took from it" },
	{ "syscr", "INTEGER", vtab_give_u64, SAMPLE(syscr), "reads" },
	{ "syscw", "INTEGER", vtab_give_u64, SAMPLE(syscw), "writes" },
	{ "read_bytes", "INTEGER", vtab_give_u64, SAMPLE(read_bytes), "from storage" },
	{ "write_bytes", "INTEGER", vtab_give_u64, SAMPLE(write_bytes), "to storage" },
	{ "minor_faults", "INTEGER", vtab_give_u64, SAMPLE(minor_faults),
	  "page faults without a disk" },
	{ "major_faults", "INTEGER", vtab_give_u64, SAMPLE(major_faults), "with a disk" },
	{ "voluntary_switches", "INTEGER", vtab_give_u64, SAMPLE(voluntary_switches),
	  "times that it waited" },
	{ "involuntary_switches", "INTEGER", vtab_give_u64, SAMPLE(involuntary_switches),
	  "times that the CPU was taken from it" },
	{ "fd_limit", "INTEGER", vtab_give_fd_limit, SAMPLE(fd_limit),
	  "of its open files; 'unlimited' is more than any number" },
	{ "uid", "INTEGER", vtab_give_u64, SAMPLE(uid), "user" },
	{ "cgroup", "TEXT", vtab_give_text, SAMPLE(cgroup), "path" },
	{ "ns_pid", "INTEGER", vtab_give_u64, SAMPLE(ns_pid), "in its own pid namespace" },
	{ "gpu_memory_mb", "REAL", vtab_give_mb, SAMPLE(gpu_memory_bytes), "on all GPUs" },
	{ "gpu_pct", "REAL", vtab_give_f64, SAMPLE(gpu_percent), "100 is one GPU" },
	{ "cpu_ns", "INTEGER", vtab_give_u64, SAMPLE(cpu_ns), "cpu_seconds, exact" },
	{ "rss_bytes", "INTEGER", vtab_give_u64, SAMPLE(rss_bytes), "rss_mb, in bytes" },
	{ "vms_bytes", "INTEGER", vtab_give_u64, SAMPLE(vms_bytes), "vms_mb, in bytes" },
	{ "hwm_bytes", "INTEGER", vtab_give_u64, SAMPLE(hwm_bytes), "hwm_mb, in bytes" },
	{ "resolution_seconds", "REAL", vtab_give_f64, ROW(resolution_seconds), VTAB_NO_KEY, 0,
	  "NULL: as it was read; 60: of a minute, averages; see process_minutes" },
	{ "samples", "INTEGER", vtab_give_u64, ROW(n_samples), VTAB_NO_KEY, 0,
	  "how many stand behind it: 1, or those of the minute" },
};

/* At least one, which is what tells samples from none. */
static unsigned n_words(const struct vtab_column *column)
{
	unsigned n = 0;

	if (column->give == vtab_give_syscall_counts || column->give == vtab_give_syscall_times)
		return SAMPLE_WORDS; /* they stand behind all others */
	if (column->give && column->offset >= ROW(sample))
		n = sample_words_up_to(column->offset - ROW(sample));
	return n > 0 ? n : 1;
}

static double count_rows(const struct vtab_size *size)
{
	return size->n_samples;
}

/* ---- rows ---- */

/* The next process that was there at the tick. */
static int next_of_fold(struct metrics_cursor *c, struct err *err)
{
	const struct open_fold *fold = c->ticks.fold;
	int r = 0;

	while (r == 0 && c->process < fold->n_processes)
		r = open_fold_sample(c->base.store, fold, c->process++, &c->row.sample,
				     &c->row.attempt_num, err);
	c->row.n_samples = 1;
	return r;
}

static int next_of_minute(struct metrics_cursor *c, struct err *err)
{
	const struct minute_rows *m = &c->ticks.minute;
	struct minute_row row;
	int r = 0;

	while (r == 0 && c->process < m->n)
		r = minute_window_row(m->window, m->first + c->process++, &row, err);
	if (r <= 0)
		return r;
	minute_row_sample(&row, &c->row.sample);
	c->row.attempt_num = row.attempt_num;
	c->row.n_samples = row.n_samples;
	return 1;
}

static int next_process(struct metrics_cursor *c, struct err *err)
{
	return c->ticks.fold ? next_of_fold(c, err) : next_of_minute(c, err);
}

/* From the moment, if there is one (r), on to one that has a process. */
static int find_row(struct metrics_cursor *c, int r, struct err *err)
{
	while (r > 0) {
		c->process = 0;
		r = next_process(c, err);
		if (r != 0)
			break;
		r = vtab_ticks_next(&c->ticks, err);
	}
	if (r <= 0)
		return r;
	c->row.tick_id = vtab_ticks_id(&c->ticks);
	c->row.wall_ns = vtab_ticks_wall_ns(&c->ticks);
	c->row.resolution_seconds = vtab_ticks_resolution(&c->ticks);
	return 1;
}

static int filter_rows(struct vtab_cursor *base, const struct vtab_filter *filter, struct err *err)
{
	struct metrics_cursor *c = (struct metrics_cursor *)base;
	struct vtab_filter with_samples = *filter;

	if (with_samples.n_words == 0) /* count(*) uses no column */
		with_samples.n_words = 1;
	return find_row(c, vtab_ticks_begin(&c->ticks, base->store, &with_samples, err), err);
}

static int next_row(struct vtab_cursor *base, struct err *err)
{
	struct metrics_cursor *c = (struct metrics_cursor *)base;
	int r = next_process(c, err);

	return r != 0 ? r : find_row(c, vtab_ticks_next(&c->ticks, err), err);
}

static const void *tell_row(struct vtab_cursor *base, const struct vtab_column *column,
			    struct err *err)
{
	(void)column;
	(void)err;
	return &((struct metrics_cursor *)base)->row;
}

/* As chunks have it, with the tick instead of the fold. */
static int64_t row_id(const struct vtab_cursor *base)
{
	const struct metrics_cursor *c = (const struct metrics_cursor *)base;
	const struct minute_rows *m = &c->ticks.minute;
	int64_t process = c->ticks.fold
				  ? open_fold_process_id(c->ticks.fold, c->process - 1)
				  : minute_window_process(m->window, m->first + c->process - 1);

	return c->row.tick_id * (CHUNK_PROCESS_MAX + 1) + (process & CHUNK_PROCESS_MAX);
}

static void close_rows(struct vtab_cursor *base)
{
	vtab_ticks_release(&((struct metrics_cursor *)base)->ticks);
}

const struct vtab_table vtab_metrics = {
	.name = "process_metrics",
	.about =
		"what each process of a job was doing, in each snapshot; in each minute of what is older. "
		"cpu_wait_seconds and ignores_sigchld are told of now alone, and in no record",
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.cursor_size = sizeof(struct metrics_cursor),
	.count = count_rows,
	.n_words = n_words,
	.close = close_rows,
	.filter = filter_rows,
	.next = next_row,
	.row = tell_row,
	.rowid = row_id,
};
