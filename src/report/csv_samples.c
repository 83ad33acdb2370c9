#include "base/unknown.h"
#include "model/snapshot.h"
#include "report/csv_columns.h"
#include "report/report.h"

/* ---- samples ---- */

/* Lists and objects are one cell each, as JSON has them. */
static void add_json(struct csv *c, const struct buf *text)
{
	if (buf_error(text) < 0)
		c->out->failed = true;
	csv_text(c, text->data);
}

static void add_calls(struct csv *c, const struct proc_sample *p,
		      void (*write)(struct json *, const struct syscall_use *, size_t))
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	if (!p->syscalls) {
		csv_unknown(c);
		return;
	}
	json_init(&j, &text);
	write(&j, p->syscalls, p->n_syscalls);
	add_json(c, &text);
}

static void cell_syscall_counts(struct csv *c, const void *sample)
{
	add_calls(c, sample, syscall_uses_write_counts);
}

static void cell_syscall_times(struct csv *c, const void *sample)
{
	add_calls(c, sample, syscall_uses_write_times);
}

struct sample_row {
	uint64_t wall_ns;
	double resolution_seconds;
	uint64_t n_samples;
	int attempt_num;
	struct proc_sample p;
};

#define SAMPLE(name_, field_, cell_) CSV_COLUMN(name_, sample_row, field_, cell_)

/* The cell of a field, by its kind in sample_fields.def. */
#define CELL_PID cell_int
#define CELL_INT cell_int_or_none
#define CELL_U64 cell_u64
#define CELL_LIMIT cell_fd_limit
#define CELL_F64 cell_f64
#define CELL_MB cell_mb
#define CELL_SECONDS cell_seconds
#define CELL_STRING cell_text
#define CELL_CHAR cell_state
#define CELL_COMM cell_chars
#define CELL_COUNTS cell_syscall_counts
#define CELL_TIMES cell_syscall_times

static const struct csv_column sample_items[] = {
	SAMPLE("timestamp", wall_ns, cell_seconds),
	SAMPLE("job_id", p.job_id, cell_text),
	SAMPLE("attempt", attempt_num, cell_int),
	SAMPLE("sheet_num", p.sheet_num, cell_int_or_none),
	SAMPLE("rank", p.rank, cell_int_or_none),
#define SAMPLE_FIELD(kind_, member_, key_, help_) SAMPLE(key_, p.member_, CELL_##kind_),
#define SAMPLE_CALLS(kind_, key_, help_) SAMPLE(key_, p, CELL_##kind_),
#define SAMPLE_JOB(...) /* they come first */
#include "model/sample_fields.def"
	SAMPLE("timestamp_ns", wall_ns, cell_u64),
#define SAMPLE_EXACT(member_, key_, where_, help_) SAMPLE(key_, p.member_, cell_u64),
#include "model/sample_fields.def"
	SAMPLE("resolution_seconds", resolution_seconds, cell_f64),
	SAMPLE("samples", n_samples, cell_u64),
};
static const struct csv_columns sample_columns = CSV_COLUMNS(sample_items);

void csv_samples_heading(struct csv *c)
{
	csv_add_names(c, &sample_columns);
}

void report_csv_sample(struct csv *c, uint64_t wall_ns, double resolution_seconds,
		       uint64_t n_samples, int attempt_num, const struct proc_sample *p)
{
	const struct sample_row row = { wall_ns, resolution_seconds, n_samples, attempt_num, *p };

	csv_add_cells(c, &sample_columns, &row);
	csv_end_row(c);
}

/* ---- snapshots ---- */

static void add_list(struct csv *c, void (*write)(struct json *, const struct snapshot *),
		     const struct snapshot *s)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	write(&j, s);
	add_json(c, &text);
}

static void write_zombie_pids(struct json *j, const struct snapshot *s)
{
	snapshot_write_zombie_pids(j, s, SNAPSHOT_ALL);
}

static void cell_zombie_pids(struct csv *c, const void *snapshot)
{
	add_list(c, write_zombie_pids, snapshot);
}

static void cell_zombie_count(struct csv *c, const void *snapshot)
{
	csv_u64(c, snapshot_count_zombies(snapshot, SNAPSHOT_ALL));
}

static void cell_progress(struct csv *c, const void *snapshot)
{
	const struct snapshot *s = snapshot;

	if (f64_known(s->resolution_seconds))
		csv_unknown(c); /* not kept */
	else
		add_list(c, snapshot_write_progress, s);
}

static void cell_cgroups(struct csv *c, const void *snapshot)
{
	const struct snapshot *s = snapshot;

	if (s->cgroups)
		add_list(c, snapshot_write_cgroups, s);
	else
		csv_unknown(c);
}

static void cell_gpus(struct csv *c, const void *snapshot)
{
	const struct snapshot *s = snapshot;

	if (s->gpus)
		add_list(c, snapshot_write_gpus, s);
	else
		csv_unknown(c);
}

#define SNAPSHOT(name_, field_, cell_) CSV_COLUMN(name_, snapshot, field_, cell_)

#define PSI_LINE(name_, field_)                                     \
	SNAPSHOT(name_ "_avg10", field_.avg10, cell_f64),           \
		SNAPSHOT(name_ "_avg60", field_.avg60, cell_f64),   \
		SNAPSHOT(name_ "_avg300", field_.avg300, cell_f64), \
		SNAPSHOT(name_ "_total_us", field_.total_us, cell_u64)

static const struct csv_column snapshot_items[] = {
	SNAPSHOT("timestamp", wall_ns, cell_seconds),
	SNAPSHOT("daemon_pid", daemon_pid, cell_positive),
	SNAPSHOT("boot_id", boot_id, cell_chars),
	SNAPSHOT("system_memory_total_mb", system.memory_total_bytes, cell_mb),
	SNAPSHOT("system_memory_available_mb", system.memory_available_bytes, cell_mb),
	SNAPSHOT("system_memory_used_mb", system.memory_used_bytes, cell_mb),
	SNAPSHOT("load_avg_1", system.load1, cell_f64),
	SNAPSHOT("load_avg_5", system.load5, cell_f64),
	SNAPSHOT("load_avg_15", system.load15, cell_f64),
	SNAPSHOT("swap_total_mb", system.swap_total_bytes, cell_mb),
	SNAPSHOT("swap_free_mb", system.swap_free_bytes, cell_mb),
	SNAPSHOT("cpu_user_seconds", system.cpu_user_ns, cell_seconds),
	SNAPSHOT("cpu_system_seconds", system.cpu_system_ns, cell_seconds),
	SNAPSHOT("cpu_idle_seconds", system.cpu_idle_ns, cell_seconds),
	SNAPSHOT("cpu_iowait_seconds", system.cpu_iowait_ns, cell_seconds),
	SNAPSHOT("cpu_steal_seconds", system.cpu_steal_ns, cell_seconds),
	SNAPSHOT("cpu_count", system.cpu_count, cell_count),
	PSI_LINE("psi_cpu_some", system.psi_cpu.some),
	PSI_LINE("psi_cpu_full", system.psi_cpu.full),
	PSI_LINE("psi_memory_some", system.psi_memory.some),
	PSI_LINE("psi_memory_full", system.psi_memory.full),
	PSI_LINE("psi_io_some", system.psi_io.some),
	PSI_LINE("psi_io_full", system.psi_io.full),
	SNAPSHOT("process_count", system.process_count, cell_u64),
	SNAPSHOT("forks_total", system.forks_total, cell_u64),
	SNAPSHOT("oom_kills_total", system.oom_kills_total, cell_u64),
	SNAPSHOT("swap_in_mb", system.swap_in_bytes, cell_mb),
	SNAPSHOT("swap_out_mb", system.swap_out_bytes, cell_mb),
	SNAPSHOT("uptime_seconds", system.uptime_seconds, cell_f64),
	SNAPSHOT("daemon_rss_mb", daemon_rss_bytes, cell_mb),
	SNAPSHOT("pressure_level", pressure_level, cell_text),
	SNAPSHOT("running_jobs", running_jobs, cell_int),
	SNAPSHOT("active_sheets", active_sheets, cell_int),
	CSV_WHOLE("gpus", cell_gpus),
	CSV_WHOLE("zombie_pids", cell_zombie_pids),
	CSV_WHOLE("zombie_count", cell_zombie_count),
	CSV_WHOLE("job_progress", cell_progress),
	SNAPSHOT("conductor_uptime_seconds", daemon_uptime_seconds, cell_f64),
	SNAPSHOT("timestamp_ns", wall_ns, cell_u64),
	SNAPSHOT("system_memory_total_bytes", system.memory_total_bytes, cell_u64),
	SNAPSHOT("system_memory_available_bytes", system.memory_available_bytes, cell_u64),
	SNAPSHOT("system_memory_used_bytes", system.memory_used_bytes, cell_u64),
	SNAPSHOT("swap_total_bytes", system.swap_total_bytes, cell_u64),
	SNAPSHOT("swap_free_bytes", system.swap_free_bytes, cell_u64),
	SNAPSHOT("cpu_user_ns", system.cpu_user_ns, cell_u64),
	SNAPSHOT("cpu_system_ns", system.cpu_system_ns, cell_u64),
	SNAPSHOT("cpu_idle_ns", system.cpu_idle_ns, cell_u64),
	SNAPSHOT("cpu_iowait_ns", system.cpu_iowait_ns, cell_u64),
	SNAPSHOT("cpu_steal_ns", system.cpu_steal_ns, cell_u64),
	SNAPSHOT("daemon_rss_bytes", daemon_rss_bytes, cell_u64),
	SNAPSHOT("resolution_seconds", resolution_seconds, cell_f64),
	CSV_WHOLE("cgroups", cell_cgroups),
};
static const struct csv_columns snapshot_columns = CSV_COLUMNS(snapshot_items);

void csv_snapshots_heading(struct csv *c)
{
	csv_add_names(c, &snapshot_columns);
}

void report_csv_snapshot(struct csv *c, const struct snapshot *s)
{
	csv_add_cells(c, &snapshot_columns, s);
	csv_end_row(c);
}

/* ---- events ---- */

struct event_row {
	int attempt_num;
	struct proc_event ev;
};

#define EVENT(name_, field_, cell_) CSV_COLUMN(name_, event_row, field_, cell_)

static const struct csv_column event_items[] = {
	EVENT("timestamp", ev.wall_ns, cell_seconds),
	EVENT("job_id", ev.job_id, cell_text),
	EVENT("attempt", attempt_num, cell_int),
	EVENT("sheet_num", ev.sheet_num, cell_int_or_none),
	EVENT("pid", ev.key.pid, cell_int),
	EVENT("event_type", ev.type, cell_event_type),
	EVENT("exit_code", ev.status.exit_code, cell_int_or_none),
	EVENT("signal_num", ev.status.signal, cell_int_or_none),
	EVENT("details", ev.details, cell_text),
	EVENT("start_ticks", ev.key.start_ticks, cell_u64),
	EVENT("timestamp_ns", ev.wall_ns, cell_u64),
};
static const struct csv_columns event_columns = CSV_COLUMNS(event_items);

void csv_events_heading(struct csv *c)
{
	csv_add_names(c, &event_columns);
}

void report_csv_event(struct csv *c, int attempt_num, const struct proc_event *ev)
{
	const struct event_row row = { attempt_num, *ev };

	csv_add_cells(c, &event_columns, &row);
	csv_end_row(c);
}
