#include "report/page.h"

#include "base/unknown.h"
#include "report/format.h"
#include "report/report.h"

static void add_wall(struct buf *out, const struct figures *f)
{
	report_add_duration(out, f->usage.wall_ns);
}

static void add_cpu(struct buf *out, const struct figures *f)
{
	report_add_duration(out, f->usage.user_ns);
	buf_add_str(out, " user, ");
	report_add_duration(out, f->usage.system_ns);
	buf_add_str(out, " system");
}

static void add_average_cpu(struct buf *out, const struct figures *f)
{
	format_percent(out, f->average_cpu_percent);
	buf_add_str(out, " of one core");
}

static void add_max_cpu(struct buf *out, const struct figures *f)
{
	format_percent(out, f->usage.peak_cpu_percent);
	buf_add_str(out, " of one core");
}

static void add_peak_rss(struct buf *out, const struct figures *f)
{
	report_add_bytes(out, f->usage.peak_rss_bytes);
}

static void add_max_process_rss(struct buf *out, const struct figures *f)
{
	report_add_bytes(out, f->usage.max_process_rss_bytes);
}

static void add_spawns(struct buf *out, const struct figures *f)
{
	format_count(out, f->usage.spawn_count);
	if (u64_known(f->usage.peak_processes))
		buf_printf(out, " born, %llu at once", (unsigned long long)f->usage.peak_processes);
}

static void add_storage(struct buf *out, const struct figures *f)
{
	report_add_bytes(out, f->usage.read_bytes);
	buf_add_str(out, " read, ");
	report_add_bytes(out, f->usage.write_bytes);
	buf_add_str(out, " written");
}

static void add_calls(struct buf *out, const struct figures *f)
{
	report_add_bytes(out, f->usage.rchar);
	buf_add_str(out, " in ");
	format_plural(out, f->usage.syscr, "read", "s");
	buf_add_str(out, ", ");
	report_add_bytes(out, f->usage.wchar);
	buf_add_str(out, " in ");
	format_plural(out, f->usage.syscw, "write", "s");
}

static void add_faults(struct buf *out, const struct figures *f)
{
	format_count(out, f->usage.major_faults);
	buf_add_str(out, " major, ");
	format_count(out, f->usage.minor_faults);
	buf_add_str(out, " minor");
}

static void add_switches(struct buf *out, const struct figures *f)
{
	format_count(out, f->usage.voluntary_switches);
	buf_add_str(out, " voluntary, ");
	format_count(out, f->usage.involuntary_switches);
	buf_add_str(out, " involuntary");
}

static void add_gpu_memory(struct buf *out, const struct figures *f)
{
	report_add_bytes(out, f->usage.peak_gpu_bytes);
}

static void add_gpu_time(struct buf *out, const struct figures *f)
{
	report_add_duration(out, f->usage.gpu_busy_ns);
	buf_add_str(out, " busy, ");
	report_add_duration(out, f->usage.gpu_idle_ns);
	buf_add_str(out, " held, but idle");
}

/* One line each. of and beside: the row is "-" when both are unknown, and of names its source. */
static const struct {
	const char *label;
	enum figure of, beside;
	void (*add)(struct buf *out, const struct figures *f);
} lines[] = {
	{ "wall time", FIGURE_WALL, FIGURE_WALL, add_wall },
	{ "CPU time", FIGURE_CPU, FIGURE_USER, add_cpu },
	{ "CPU use, average", FIGURE_AVERAGE_CPU, FIGURE_AVERAGE_CPU, add_average_cpu },
	{ "CPU use, highest", FIGURE_MAX_CPU, FIGURE_MAX_CPU, add_max_cpu },
	{ "peak memory, tree", FIGURE_PEAK_RSS, FIGURE_PEAK_RSS, add_peak_rss },
	{ "peak memory, process", FIGURE_MAX_PROCESS_RSS, FIGURE_MAX_PROCESS_RSS,
	  add_max_process_rss },
	{ "processes", FIGURE_SPAWNS, FIGURE_MAX_PROCESSES, add_spawns },
	{ "storage I/O", FIGURE_READ, FIGURE_WRITE, add_storage },
	{ "I/O calls", FIGURE_RCHAR, FIGURE_WCHAR, add_calls },
	{ "page faults", FIGURE_MAJOR_FAULTS, FIGURE_MINOR_FAULTS, add_faults },
	{ "context switches", FIGURE_VOLUNTARY, FIGURE_INVOLUNTARY, add_switches },
	{ "peak GPU memory", FIGURE_GPU_MEMORY, FIGURE_GPU_MEMORY, add_gpu_memory },
	{ "GPU time", FIGURE_GPU_BUSY, FIGURE_GPU_IDLE, add_gpu_time },
};

/* Of GPUs nothing is shown to a job that used none. */
static bool is_shown(const struct figures *f, enum figure of)
{
	if (of != FIGURE_GPU_MEMORY && of != FIGURE_GPU_BUSY)
		return true;
	return figures_used_gpu(f);
}

void page_add_numbers(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
		{ "what", COLUMN_LEFT },
		{ "value", COLUMN_LEFT },
		{ "source", COLUMN_WRAP },
	};
	const struct figures *figures = &f->figures;
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	t.hides_titles = true;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		bool has_first = figure_is_known(figures, lines[i].of);
		bool is_known = has_first || figure_is_known(figures, lines[i].beside);
		struct buf *cell;

		if (!is_shown(figures, lines[i].of))
			continue;
		buf_add_str(table_cell(&t), lines[i].label);
		cell = table_cell(&t);
		if (is_known)
			lines[i].add(cell, figures);
		else
			buf_add_char(cell, '-');
		figure_add_source(table_cell(&t), figures,
				  has_first ? lines[i].of : lines[i].beside, f->a);
	}
	d->writer->section(d, "Numbers");
	d->writer->table(d, &t);
}
