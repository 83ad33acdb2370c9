#include "base/macros.h"
#include "base/unknown.h"
#include "report/csv_columns.h"
#include "report/facts.h"
#include "report/report_json.h"
#include "report/report.h"

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

void csv_jobs_heading(struct csv *c)
{
	csv_add_names(c, &job_columns);
	figures_write_csv_names(c, true);
}

static int write_job(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	csv_add_cells(c, &job_columns, f->a);
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

/* A list is one cell, as JSON has it. */
static void cell_ranks(struct csv *c, const void *sheet)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	json_write_ranks(&j, sheet);
	if (buf_error(&text) < 0)
		c->out->failed = true;
	csv_text(c, text.data);
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

void csv_sheets_heading(struct csv *c)
{
	csv_add_names(c, &sheet_columns);
	figures_write_csv_names(c, false);
}

static int write_sheets(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < f->n_sheets; i++)
		for (size_t k = 0; r == 0 && k < f->sheets[i].n_tries; k++) {
			const struct sheet_record *sheet = f->sheets[i].tries[k];
			const struct sheet_row row = { f->a->job_id, f->a->attempt_num, *sheet };
			struct figures figures;

			figures_of_sheet(f->a, sheet, &figures);
			csv_add_cells(c, &sheet_columns, &row);
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

	json_init(&j, &text);
	if (*calls)
		json_write_calls(&j, *calls);
	if (buf_error(&text) < 0)
		c->out->failed = true;
	csv_text(c, *calls ? text.data : NULL);
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

void csv_processes_heading(struct csv *c)
{
	csv_add_names(c, &process_columns);
}

static int write_processes(struct csv *c, const struct facts *f, report_row_fn *fn, void *ctx)
{
	const struct attempt *a = f->a;
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];
		const struct process_row row = { a->job_id, a->attempt_num, *p, facts_born_ns(f, p),
						 facts_cpu_evidence(p) };

		csv_add_cells(c, &process_columns, &row);
		csv_end_row(c);
		r = fn(ctx);
	}
	return r;
}

int report_csv_attempt(struct csv *c, enum report_table table, const struct attempt *a,
		       report_row_fn *fn, void *ctx)
{
	static int (*const writers[])(struct csv *, const struct facts *, report_row_fn *,
				      void *) = {
		[REPORT_JOBS] = write_job,
		[REPORT_SHEETS] = write_sheets,
		[REPORT_PROCESSES] = write_processes,
	};
	struct facts f;
	int r = facts_init(&f, a);

	if (r < 0)
		return r;
	r = writers[table](c, &f, fn, ctx);
	facts_release(&f);
	return r;
}
