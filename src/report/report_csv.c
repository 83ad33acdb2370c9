/*
 * Tables of the export as CSV: each is a constant array of columns, with name, type and place of a
 * column in one line. A column that ends in _bytes or _ns is the number as it was measured, beside
 * the same in the unit of the contract.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "base/csv.h"
#include "report/facts.h"
#include "report/report.h"

/* Appends one field of the row; field points into the struct. */
typedef void csv_cell(struct csv *c, const void *field);

struct csv_column {
	const char *name;
	csv_cell *add;
	size_t offset;
};

#define CSV_COLUMN(name_, struct_, field_, cell_)              \
	{                                                      \
		name_, cell_, offsetof(struct struct_, field_) \
	}

/* For a cell that takes the whole struct. */
#define CSV_WHOLE(name_, cell_) \
	{                       \
		name_, cell_, 0 \
	}

struct csv_columns {
	const struct csv_column *items;
	size_t n;
};

#define CSV_COLUMNS(items_)                                  \
	{                                                    \
		items_, sizeof(items_) / sizeof((items_)[0]) \
	}

static void add_cells(struct csv *c, const struct csv_columns *columns, const void *from)
{
	for (size_t i = 0; i < columns->n; i++)
		columns->items[i].add(c, (const char *)from + columns->items[i].offset);
}

/* ---- cells ---- */

/* ---- numbers ---- */

static void cell_int(struct csv *c, const void *field)
{
	csv_i64(c, *(const int *)field);
}

/* Negative is unknown. */
static void cell_int_or_none(struct csv *c, const void *field)
{
	int v = *(const int *)field;

	csv_u64(c, v < 0 ? U64_UNKNOWN : (uint64_t)v);
}

/* 0 and below is unknown. */
static void cell_positive(struct csv *c, const void *field)
{
	int v = *(const int *)field;

	csv_u64(c, v <= 0 ? U64_UNKNOWN : (uint64_t)v);
}

/* 0 is unknown. */
static void cell_count(struct csv *c, const void *field)
{
	unsigned v = *(const unsigned *)field;

	csv_u64(c, v == 0 ? U64_UNKNOWN : v);
}

static void cell_u64(struct csv *c, const void *field)
{
	csv_u64(c, *(const uint64_t *)field);
}

static void cell_fd_limit(struct csv *c, const void *field)
{
	if (*(const uint64_t *)field == FD_LIMIT_UNLIMITED)
		csv_word(c, "unlimited");
	else
		cell_u64(c, field);
}

static void cell_seconds(struct csv *c, const void *field)
{
	csv_f64(c, u64_to_seconds(*(const uint64_t *)field));
}

static void cell_mb(struct csv *c, const void *field)
{
	csv_f64(c, u64_to_mb(*(const uint64_t *)field));
}

static void cell_f64(struct csv *c, const void *field)
{
	csv_f64(c, *(const double *)field);
}

static void cell_bool(struct csv *c, const void *field)
{
	csv_word(c, *(const bool *)field ? "true" : "false");
}

/* ---- text ---- */

static void cell_text(struct csv *c, const void *field)
{
	csv_text(c, *(const char *const *)field);
}

/* "" is unknown. */
static void cell_chars(struct csv *c, const void *field)
{
	const char *text = field;

	csv_text(c, text[0] ? text : NULL);
}

static void cell_state(struct csv *c, const void *field)
{
	char text[2] = { *(const char *)field, '\0' };

	csv_text(c, text[0] == '?' ? NULL : text);
}

/* A number that is a name. */
static void cell_hex(struct csv *c, const void *field)
{
	char text[20];

	snprintf(text, sizeof(text), "%016llx", *(const unsigned long long *)field);
	csv_text(c, text);
}

static void cell_outcome(struct csv *c, const void *field)
{
	csv_text(c, outcome_name(*(const enum outcome *)field));
}

static void cell_evidence(struct csv *c, const void *field)
{
	csv_text(c, evidence_name(*(const enum evidence *)field));
}

static void cell_event_type(struct csv *c, const void *field)
{
	csv_text(c, event_type_name(*(const enum event_type *)field));
}

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

void report_csv_sample(struct csv *c, uint64_t wall_ns, double resolution_seconds,
		       uint64_t n_samples, int attempt_num, const struct proc_sample *p)
{
	const struct sample_row row = { wall_ns, resolution_seconds, n_samples, attempt_num, *p };

	add_cells(c, &sample_columns, &row);
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

void report_csv_snapshot(struct csv *c, const struct snapshot *s)
{
	add_cells(c, &snapshot_columns, s);
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

void report_csv_event(struct csv *c, int attempt_num, const struct proc_event *ev)
{
	const struct event_row row = { attempt_num, *ev };

	add_cells(c, &event_columns, &row);
	csv_end_row(c);
}

/* ---- jobs: one row per attempt ---- */

static void cell_status(struct csv *c, const void *attempt)
{
	csv_text(c, attempt_status_name(attempt));
}

/* 0 was never asked for. */
static void cell_interval(struct csv *c, const void *field)
{
	double seconds = *(const double *)field;

	csv_f64(c, seconds > 0 ? seconds : F64_UNKNOWN);
}

#define ATTEMPT(name_, field_, cell_) CSV_COLUMN(name_, attempt, field_, cell_)

static const struct csv_column job_items[] = {
	ATTEMPT("job_id", job_id, cell_text),
	ATTEMPT("attempt", attempt_num, cell_int),
	CSV_WHOLE("status", cell_status),
	ATTEMPT("outcome", outcome, cell_outcome),
	ATTEMPT("exit_code", status.exit_code, cell_int_or_none),
	ATTEMPT("signal", status.signal, cell_int_or_none),
	ATTEMPT("started", started_wall_ns, cell_seconds),
	ATTEMPT("ended", ended_wall_ns, cell_seconds),
	ATTEMPT("total_sheets", total_sheets, cell_int_or_none),
	ATTEMPT("last_completed_sheet", last_completed_sheet, cell_int_or_none),
	ATTEMPT("current_sheet", current_sheet, cell_int_or_none),
	ATTEMPT("lost", is_lost, cell_bool),
	ATTEMPT("reason", reason, cell_text),
	ATTEMPT("command", command, cell_text),
	ATTEMPT("argv_hash", argv_hash, cell_hex),
	ATTEMPT("uid", uid, cell_u64),
	ATTEMPT("host", host, cell_text),
	ATTEMPT("workdir", workdir, cell_text),
	ATTEMPT("boot_id", boot_id, cell_chars),
	ATTEMPT("interval_seconds", interval_seconds, cell_interval),
	ATTEMPT("started_ns", started_wall_ns, cell_u64),
	ATTEMPT("ended_ns", ended_wall_ns, cell_u64),
};
static const struct csv_columns job_columns = CSV_COLUMNS(job_items);

static int write_job(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	add_cells(c, &job_columns, f->a);
	figures_write_csv(c, &f->figures, true);
	csv_end_row(c);
	return fn(ctx);
}

/* ---- sheets: one row per try ---- */

struct sheet_row {
	const char *job_id;
	int attempt_num;
	struct sheet_record sheet;
};

static void cell_ranks(struct csv *c, const void *sheet)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	json_write_ranks(&j, sheet);
	add_json(c, &text);
}

#define SHEET(name_, field_, cell_) CSV_COLUMN(name_, sheet_row, field_, cell_)

static const struct csv_column sheet_items[] = {
	SHEET("job_id", job_id, cell_text),
	SHEET("attempt", attempt_num, cell_int),
	SHEET("sheet_num", sheet.num, cell_int),
	SHEET("try", sheet.try_num, cell_int),
	SHEET("name", sheet.name, cell_text),
	SHEET("command", sheet.command, cell_text),
	SHEET("outcome", sheet.outcome, cell_outcome),
	SHEET("reason", sheet.reason, cell_text),
	SHEET("exit_code", sheet.status.exit_code, cell_int_or_none),
	SHEET("signal", sheet.status.signal, cell_int_or_none),
	SHEET("started", sheet.started_wall_ns, cell_seconds),
	SHEET("ended", sheet.ended_wall_ns, cell_seconds),
	SHEET("total_ranks", sheet.total_ranks, cell_int),
	SHEET("ranks", sheet, cell_ranks),
	SHEET("started_ns", sheet.started_wall_ns, cell_u64),
	SHEET("ended_ns", sheet.ended_wall_ns, cell_u64),
};
static const struct csv_columns sheet_columns = CSV_COLUMNS(sheet_items);

static int write_sheets(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < f->n_sheets; i++)
		for (size_t k = 0; r == 0 && k < f->sheets[i].n_tries; k++) {
			const struct sheet_record *sheet = f->sheets[i].tries[k];
			const struct sheet_row row = { f->a->job_id, f->a->attempt_num, *sheet };
			struct figures figures;

			figures_of_sheet(f->a, sheet, &figures);
			add_cells(c, &sheet_columns, &row);
			figures_write_csv(c, &figures, false);
			csv_end_row(c);
			r = fn(ctx);
		}
	return r;
}

/* ---- processes ---- */

struct process_row {
	const char *job_id;
	int attempt_num;
	struct proc_record p;
	uint64_t born_ns;
	enum evidence cpu_evidence;
};

/* Empty where nobody counted them. */
static void cell_calls(struct csv *c, const void *field)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const char *const *calls = field;
	struct json j;

	if (!*calls) {
		csv_unknown(c);
		return;
	}
	json_init(&j, &text);
	json_write_calls(&j, *calls);
	add_json(c, &text);
}

#define PROCESS(name_, field_, cell_) CSV_COLUMN(name_, process_row, field_, cell_)

static const struct csv_column process_items[] = {
	PROCESS("job_id", job_id, cell_text),
	PROCESS("attempt", attempt_num, cell_int),
	PROCESS("sheet_num", p.sheet_num, cell_int_or_none),
	PROCESS("rank", p.rank, cell_int_or_none),
	PROCESS("pid", p.key.pid, cell_int),
	PROCESS("start_ticks", p.key.start_ticks, cell_u64),
	PROCESS("ppid", p.ppid, cell_positive),
	PROCESS("command", p.command, cell_text),
	PROCESS("uid", p.uid, cell_u64),
	PROCESS("born", born_ns, cell_seconds),
	PROCESS("died", p.died_wall_ns, cell_seconds),
	PROCESS("exit_code", p.status.exit_code, cell_int_or_none),
	PROCESS("signal", p.status.signal, cell_int_or_none),
	PROCESS("user_cpu_seconds", p.user_ns, cell_seconds),
	PROCESS("system_cpu_seconds", p.system_ns, cell_seconds),
	PROCESS("max_rss_mb", p.max_rss_bytes, cell_mb),
	PROCESS("evidence", p.evidence, cell_evidence),
	PROCESS("cpu_evidence", cpu_evidence, cell_evidence),
	PROCESS("rchar", p.rchar, cell_u64),
	PROCESS("wchar", p.wchar, cell_u64),
	PROCESS("read_bytes", p.read_bytes, cell_u64),
	PROCESS("write_bytes", p.write_bytes, cell_u64),
	PROCESS("major_faults", p.major_faults, cell_u64),
	PROCESS("max_threads", p.max_threads, cell_u64),
	PROCESS("max_fds", p.max_fds, cell_u64),
	PROCESS("peak_gpu_memory_mb", p.max_gpu_bytes, cell_mb),
	PROCESS("gpu_seconds", p.gpu_busy_ns, cell_seconds),
	PROCESS("gpu_idle_seconds", p.gpu_idle_ns, cell_seconds),
	PROCESS("samples", p.n_samples, cell_u64),
	PROCESS("syscalls", p.syscalls, cell_calls),
	PROCESS("born_ns", born_ns, cell_u64),
	PROCESS("died_ns", p.died_wall_ns, cell_u64),
	PROCESS("user_cpu_ns", p.user_ns, cell_u64),
	PROCESS("system_cpu_ns", p.system_ns, cell_u64),
	PROCESS("max_rss_bytes", p.max_rss_bytes, cell_u64),
};
static const struct csv_columns process_columns = CSV_COLUMNS(process_items);

static int write_processes(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	const struct attempt *a = f->a;
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];
		const struct process_row row = { a->job_id, a->attempt_num, *p, facts_born_ns(f, p),
						 facts_cpu_evidence(p) };

		add_cells(c, &process_columns, &row);
		csv_end_row(c);
		r = fn(ctx);
	}
	return r;
}

/* ---- tables ---- */

static const struct {
	const char *name;
	const struct csv_columns *columns;
	/* Of those with a row for each attempt, sheet or process of one. */
	int (*write)(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx);
	bool has_figures; /* behind the columns */
} tables[] = {
	[REPORT_SAMPLES] = { "samples", &sample_columns },
	[REPORT_SNAPSHOTS] = { "snapshots", &snapshot_columns },
	[REPORT_EVENTS] = { "events", &event_columns },
	[REPORT_JOBS] = { "jobs", &job_columns, write_job, true },
	[REPORT_SHEETS] = { "sheets", &sheet_columns, write_sheets, true },
	[REPORT_PROCESSES] = { "processes", &process_columns, write_processes },
};

int report_table_from_name(const char *name, enum report_table *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (strcmp(tables[i].name, name) == 0) {
			*ret = (enum report_table)i;
			return 0;
		}
	return -EINVAL;
}

void report_csv_heading(struct csv *c, enum report_table table)
{
	for (size_t i = 0; i < tables[table].columns->n; i++)
		csv_word(c, tables[table].columns->items[i].name);
	if (tables[table].has_figures)
		figures_write_csv_names(c, table == REPORT_JOBS);
	csv_end_row(c);
}

int report_csv_attempt(struct csv *c, enum report_table table, const struct attempt *a,
		       report_row_fn *fn, void *ctx)
{
	struct facts f;
	int r = facts_init(&f, a);

	if (r < 0)
		return r;
	r = tables[table].write(c, &f, fn, ctx);
	facts_release(&f);
	return r;
}
