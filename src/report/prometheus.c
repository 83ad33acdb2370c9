#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "report/report.h"

#define MB (1.0 / (1024 * 1024)) /* bytes: what a unit of them is divided by */
#define NS 1e9

enum kind { U64, F64, INT };

/* One line of a metric: where its number lies in the thing it is about, and its unit. */
struct metric {
	const char *name, *type, *help;
	const char *label; /* one of its own, "mode=\"user\""; NULL: none */
	size_t offset;
	enum kind kind;
	double per; /* how many of the model's unit make one of the metric's; 0: it is the same */
};

/* What the processes of one job use together. Any that cannot be read makes the sum unknown. */
struct job_use {
	const char *job_id;
	uint64_t processes, threads, rss_bytes, open_fds, gpu_memory_bytes;
	double cpu_percent; /* of those that were seen twice: the others have just begun */
	int total_sheets, last_completed_sheet;
};

#define METRIC(type_, of_, field_, kind_, per_, name_, help_)                                   \
	{                                                                                       \
		"proctor_" name_, type_, help_, NULL, offsetof(struct of_, field_), kind_, per_ \
	}
#define GAUGE(...) METRIC("gauge", __VA_ARGS__)
#define COUNTER(...) METRIC("counter", __VA_ARGS__)
#define HOST_CPU(mode, field)                                                                 \
	{                                                                                     \
		"proctor_cpu_seconds_total", "counter", "CPU time of the host since boot.",   \
			"mode=\"" mode "\"", offsetof(struct snapshot, system.field), U64, NS \
	}
#define STALLED(what, share, field)                                                      \
	{                                                                                \
		"proctor_pressure_stalled_seconds_total", "counter",                     \
			"Time for which some or all tasks waited for a resource (PSI).", \
			"resource=\"" what "\",kind=\"" share "\"",                      \
			offsetof(struct snapshot, system.field.total_us), U64, 1e6       \
	}

static const struct metric host_metrics[] = {
	GAUGE(snapshot, wall_ns, U64, NS, "snapshot_timestamp_seconds",
	      "When this was read, unix time."),
	GAUGE(snapshot, running_jobs, INT, 0, "running_jobs", "Jobs that run."),
	GAUGE(snapshot, active_sheets, INT, 0, "active_sheets", "Sheets that run."),
	GAUGE(snapshot, system.memory_total_bytes, U64, 0, "memory_total_bytes",
	      "Memory of the host."),
	GAUGE(snapshot, system.memory_available_bytes, U64, 0, "memory_available_bytes",
	      "Memory that can be had without swapping."),
	GAUGE(snapshot, system.swap_total_bytes, U64, 0, "swap_total_bytes", "Swap of the host."),
	GAUGE(snapshot, system.swap_free_bytes, U64, 0, "swap_free_bytes", "Swap that is free."),
	GAUGE(snapshot, system.load1, F64, 0, "load1", "Load average of a minute."),
	GAUGE(snapshot, system.load5, F64, 0, "load5", "Load average of five minutes."),
	GAUGE(snapshot, system.load15, F64, 0, "load15", "Load average of fifteen minutes."),
	HOST_CPU("user", cpu_user_ns),
	HOST_CPU("system", cpu_system_ns),
	HOST_CPU("idle", cpu_idle_ns),
	HOST_CPU("iowait", cpu_iowait_ns),
	HOST_CPU("steal", cpu_steal_ns),
	STALLED("cpu", "some", psi_cpu.some),
	STALLED("memory", "some", psi_memory.some),
	STALLED("memory", "full", psi_memory.full),
	STALLED("io", "some", psi_io.some),
	STALLED("io", "full", psi_io.full),
	GAUGE(snapshot, system.process_count, U64, 0, "processes", "Processes of the host."),
	COUNTER(snapshot, system.forks_total, U64, 0, "forks_total",
		"Processes and threads born since boot."),
	COUNTER(snapshot, system.oom_kills_total, U64, 0, "oom_kills_total",
		"Processes killed for lack of memory since boot."),
};

static const struct metric gpu_metrics[] = {
	GAUGE(gpu_sample, utilization_pct, F64, 100, "gpu_utilization_ratio",
	      "Share of time in which the GPU worked."),
	GAUGE(gpu_sample, memory_used_mb, F64, MB, "gpu_memory_used_bytes",
	      "Memory of the GPU in use."),
	GAUGE(gpu_sample, memory_total_mb, F64, MB, "gpu_memory_total_bytes", "Memory of the GPU."),
	GAUGE(gpu_sample, temperature_c, F64, 0, "gpu_temperature_celsius",
	      "Temperature of the GPU."),
	GAUGE(gpu_sample, power_watts, F64, 0, "gpu_power_watts", "Power that the GPU draws."),
	COUNTER(gpu_sample, energy_joules, F64, 0, "gpu_energy_joules_total",
		"Energy that the GPU used since its driver was loaded."),
	GAUGE(gpu_sample, sm_clock_mhz, F64, 1e-6, "gpu_sm_clock_hertz",
	      "Clock of the GPU's multiprocessors."),
	COUNTER(gpu_sample, ecc_errors, U64, 0, "gpu_ecc_errors_total",
		"Memory errors of the GPU that could not be corrected."),
	GAUGE(gpu_sample, last_xid, U64, 0, "gpu_last_xid", "Number of the driver's latest error."),
};

static const struct metric job_metrics[] = {
	GAUGE(job_use, processes, U64, 0, "job_processes", "Processes of the job."),
	GAUGE(job_use, threads, U64, 0, "job_threads", "Threads of the job."),
	GAUGE(job_use, cpu_percent, F64, 100, "job_cpu_cores",
	      "Cores' worth of CPU that the job uses now."),
	GAUGE(job_use, rss_bytes, U64, 0, "job_rss_bytes",
	      "Sum of the resident memory of the job's processes."),
	GAUGE(job_use, open_fds, U64, 0, "job_open_fds", "File descriptors that the job has open."),
	GAUGE(job_use, gpu_memory_bytes, U64, 0, "job_gpu_memory_bytes",
	      "GPU memory that the job holds."),
	GAUGE(job_use, total_sheets, INT, 0, "job_sheets", "Sheets that the job has."),
	GAUGE(job_use, last_completed_sheet, INT, 0, "job_last_completed_sheet",
	      "Number of the sheet completed last."),
};

/* ---- one line ---- */

/* of: the label of the thing, complete; NULL: the host has none. */
static void add_line(struct buf *out, const struct metric *m, const void *thing, const char *of)
{
	const char *at = (const char *)thing + m->offset;
	struct json j;
	double v;

	if (m->kind == U64)
		v = u64_known(*(const uint64_t *)at) ? (double)*(const uint64_t *)at : F64_UNKNOWN;
	else
		v = m->kind == F64 ? *(const double *)at : (double)*(const int *)at;
	v = m->per == 0 ? v : v / m->per;
	if (!f64_known(v))
		return;
	buf_add_str(out, m->name);
	if (of || m->label)
		buf_printf(out, "{%s%s%s}", of ? of : "", of && m->label ? "," : "",
			   m->label ? m->label : "");
	buf_add_char(out, ' ');
	json_init(&j, out);
	json_f64(&j, v);
	buf_add_char(out, '\n');
}

/* A metric none of whose values is known is not named at all. */
static void add_lines(struct buf *out, const struct metric *m, const struct buf *lines)
{
	if (lines->len == 0)
		return;
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
	buf_add(out, lines->data, lines->len);
}

/* ---- a table of metrics over an array of things ---- */

struct things {
	const void *items;
	size_t n, size;
	/* Appends the label that tells one from the others; NULL: there is but one. */
	void (*label)(struct buf *out, const void *thing);
};

static void add_metrics(struct buf *out, const struct metric *metrics, size_t n,
			const struct things *things)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < things->n; k++) {
			CLEANUP(buf_release) struct buf label = BUF_INIT;
			const void *thing = (const char *)things->items + k * things->size;

			if (things->label)
				things->label(&label, thing);
			add_line(&lines, &metrics[i], thing, label.len > 0 ? label.data : NULL);
		}
		if (i + 1 < n && strcmp(metrics[i].name, metrics[i + 1].name) == 0)
			continue; /* it goes on in the next row */
		add_lines(out, &metrics[i], &lines);
		buf_reset(&lines);
	}
}

static void add_gpu_label(struct buf *out, const void *thing)
{
	buf_printf(out, "gpu=\"%d\"", ((const struct gpu_sample *)thing)->index);
}

static void add_gpus(struct buf *out, const struct snapshot *snap)
{
	static const struct metric throttled = {
		.name = "proctor_gpu_throttled",
		.type = "gauge",
		.help = "Whether the GPU runs slower than it could for this reason.",
	};
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	struct things gpus = { snap->gpus, snap->n_gpus, sizeof(*snap->gpus), add_gpu_label };

	add_metrics(out, gpu_metrics, ARRAY_SIZE(gpu_metrics), &gpus);
	for (size_t i = 0; i < snap->n_gpus; i++) {
		const struct gpu_sample *gpu = &snap->gpus[i];
		const char *name;
		uint64_t bit;

		for (size_t k = 0; u64_known(gpu->throttle) && (name = gpu_throttle_name(k, &bit));
		     k++)
			buf_printf(&lines, "proctor_gpu_throttled{gpu=\"%d\",reason=\"%s\"} %d\n",
				   gpu->index, name, (gpu->throttle & bit) != 0);
	}
	add_lines(out, &throttled, &lines);
}

/* Prometheus calls what it scrapes "job". The characters of an id need no escape (job_id_is_valid).
 */
static void add_job_label(struct buf *out, const void *thing)
{
	buf_printf(out, "job_id=\"%s\"", ((const struct job_use *)thing)->job_id);
}

/* ---- what a job uses ---- */

static struct job_use use_of_job(const struct snapshot *snap, const struct job_progress *job)
{
	bool gpus_known = snap->n_gpus > 0;
	struct job_use use = {
		.job_id = job->job_id,
		.gpu_memory_bytes = gpus_known ? 0 : U64_UNKNOWN,
		.total_sheets = job->total_sheets,
		.last_completed_sheet = job->last_completed_sheet,
	};

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];

		if (!p->job_id || strcmp(p->job_id, job->job_id) != 0)
			continue;
		use.processes++;
		if (p->state == 'Z' || p->state == 'X')
			continue; /* has nothing any more */
		use.threads = u64_add(use.threads, p->threads);
		use.rss_bytes = u64_add(use.rss_bytes, p->rss_bytes);
		use.open_fds = u64_add(use.open_fds, p->open_fds);
		if (gpus_known)
			use.gpu_memory_bytes = u64_add(use.gpu_memory_bytes, p->gpu_memory_bytes);
		if (f64_known(p->cpu_percent))
			use.cpu_percent += p->cpu_percent;
	}
	return use;
}

static int add_jobs(struct buf *out, const struct snapshot *snap)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct job_use *uses = arena_alloc(&arena, snap->n_progress * sizeof(*uses));
	struct things jobs = { uses, snap->n_progress, sizeof(*uses), add_job_label };

	if (!uses)
		return -ENOMEM;
	for (size_t i = 0; i < snap->n_progress; i++)
		uses[i] = use_of_job(snap, &snap->progress[i]);
	add_metrics(out, job_metrics, ARRAY_SIZE(job_metrics), &jobs);
	return 0;
}

int report_prometheus(struct buf *out, const struct snapshot *snap)
{
	struct things host = { snap, 1, sizeof(*snap), NULL };
	int r;

	add_metrics(out, host_metrics, ARRAY_SIZE(host_metrics), &host);
	add_gpus(out, snap);
	r = add_jobs(out, snap);
	return r < 0 ? r : buf_error(out);
}
