#include "report/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "model/job.h"
#include "report/format.h"
#include "report/report.h"

/* In the JSON. Those from UNIT_PLAIN on are whole numbers; bytes are so only on the page. */
enum unit { UNIT_SECONDS, UNIT_MB, UNIT_PERCENT, UNIT_PLAIN, UNIT_BYTES };

/* How keys of a unit end, and how the same number is called as it was measured. */
static const struct {
	const char *suffix, *exact_suffix;
} units[] = {
	[UNIT_SECONDS] = { "_seconds", "_ns" }, [UNIT_MB] = { "_mb", "_bytes" },
	[UNIT_PERCENT] = { NULL, NULL },	[UNIT_PLAIN] = { NULL, NULL },
	[UNIT_BYTES] = { NULL, NULL },
};

/* What stands behind each kind of evidence, where numbers of one origin can have it. */
struct origin {
	enum evidence evidence; /* of numbers that keep none beside them */
	const char *how[EVIDENCE_UPPER_BOUND + 1];
	const char *of_attached; /* for whose processes nobody waits; NULL: the same */
};

static const struct origin from_clock = {
	.evidence = EVIDENCE_EXACT,
	.how[EVIDENCE_EXACT] = "from start to end",
	.how[EVIDENCE_LOWER_BOUND] = "up to the last record",
	.how[EVIDENCE_UPPER_BOUND] = "until its end was noticed",
};
static const struct origin from_samples = {
	.evidence = EVIDENCE_SAMPLED,
	.how[EVIDENCE_SAMPLED] = "the highest seen",
};
static const struct origin from_gpu_readings = {
	.evidence = EVIDENCE_SAMPLED,
	.how[EVIDENCE_SAMPLED] = "the highest reading",
};
static const struct origin from_shares = {
	.evidence = EVIDENCE_SAMPLED,
	.how[EVIDENCE_SAMPLED] = "shares of the time between readings",
	.how[EVIDENCE_LOWER_BOUND] = "it was not always told",
};
static const struct origin from_processes = {
	.how[EVIDENCE_EXACT] = "every process is listed",
	.how[EVIDENCE_LOWER_BOUND] = "of the processes that are listed",
};
static const struct origin from_wait4 = {
	.how[EVIDENCE_EXACT] = "wait4 of the whole tree",
	.how[EVIDENCE_LOWER_BOUND] = "of what was seen",
	.of_attached = "of what lived since it was attached",
};
static const struct origin from_cpu_and_clock = {
	.how[EVIDENCE_EXACT] = "CPU time over wall time",
	.how[EVIDENCE_LOWER_BOUND] = "CPU time over wall time",
};
static const struct origin from_proc_io = {
	.how[EVIDENCE_EXACT] = "wait4 of the whole tree",
	.how[EVIDENCE_LOWER_BOUND] = "of what was waited for",
	.of_attached = "of what lived since it was attached",
};
static const struct origin from_births = {
	.how[EVIDENCE_EXACT] = "the kernel told of each",
	.how[EVIDENCE_LOWER_BOUND] = "short ones go unseen",
	.of_attached = "of what lived since it was attached",
};
static const struct origin from_tree_memory = {
	.how[EVIDENCE_EXACT] = "kernel's high-water mark",
	.how[EVIDENCE_SAMPLED] = "highest sum seen",
	.how[EVIDENCE_LOWER_BOUND] = "mark of a part of it",
	.how[EVIDENCE_UPPER_BOUND] = "maybe the runner's",
};
static const struct origin from_process_memory = {
	.how[EVIDENCE_EXACT] = "kernel's high-water mark",
	.how[EVIDENCE_LOWER_BOUND] = "the highest mark seen",
	.how[EVIDENCE_UPPER_BOUND] = "maybe the runner's",
	.of_attached = "of what lived since it was attached",
};

#define AT(member) offsetof(struct figures, member)
#define CPU_EVIDENCE AT(usage.cpu_evidence)
#define IO_EVIDENCE AT(usage.io_evidence)

/*
 * label: what it is about; several have the same. evidence_at: where it is
 * kept; 0: it is the origin's. The keys of I/O, faults and switches are those
 * of processes[] in a snapshot, and like there in bytes.
 */
static const struct figure_row {
	const char *key;
	const char *label;
	enum unit unit;
	size_t at;
	size_t evidence_at;
	const struct origin *origin;
} rows[FIGURE_COUNT] = {
	[FIGURE_WALL] = { "wall_seconds", "wall time", UNIT_SECONDS, AT(usage.wall_ns), 0,
			  &from_clock },
	[FIGURE_CPU] = { "total_cpu_seconds", "CPU time", UNIT_SECONDS, AT(cpu_ns), CPU_EVIDENCE,
			 &from_wait4 },
	[FIGURE_USER] = { "user_cpu_seconds", "CPU time", UNIT_SECONDS, AT(usage.user_ns),
			  CPU_EVIDENCE, &from_wait4 },
	[FIGURE_SYSTEM] = { "system_cpu_seconds", "CPU time", UNIT_SECONDS, AT(usage.system_ns),
			    CPU_EVIDENCE, &from_wait4 },
	[FIGURE_AVERAGE_CPU] = { "avg_cpu_pct", "average CPU use", UNIT_PERCENT,
				 AT(average_cpu_percent), CPU_EVIDENCE, &from_cpu_and_clock },
	[FIGURE_MAX_CPU] = { "max_cpu_pct", "highest CPU use", UNIT_PERCENT,
			     AT(usage.peak_cpu_percent), 0, &from_samples },
	[FIGURE_PEAK_RSS] = { "peak_rss_mb", "peak memory of the tree", UNIT_MB,
			      AT(usage.peak_rss_bytes), AT(usage.peak_rss_evidence),
			      &from_tree_memory },
	[FIGURE_MAX_PROCESS_RSS] = { "max_process_rss_mb", "peak memory of one process", UNIT_MB,
				     AT(usage.max_process_rss_bytes),
				     AT(usage.max_process_rss_evidence), &from_process_memory },
	[FIGURE_SPAWNS] = { "process_spawn_count", "number of processes", UNIT_PLAIN,
			    AT(usage.spawn_count), AT(usage.spawn_evidence), &from_births },
	[FIGURE_UNIQUE_PIDS] = { "unique_pid_count", "number of pids", UNIT_PLAIN, AT(unique_pids),
				 AT(unique_pids_evidence), &from_processes },
	[FIGURE_MAX_PROCESSES] = { "max_processes", "processes at once", UNIT_PLAIN,
				   AT(usage.peak_processes), AT(usage.spawn_evidence),
				   &from_births },
	[FIGURE_RCHAR] = { "rchar", "I/O calls", UNIT_BYTES, AT(usage.rchar), IO_EVIDENCE,
			   &from_proc_io },
	[FIGURE_WCHAR] = { "wchar", "I/O calls", UNIT_BYTES, AT(usage.wchar), IO_EVIDENCE,
			   &from_proc_io },
	[FIGURE_SYSCR] = { "syscr", "I/O calls", UNIT_PLAIN, AT(usage.syscr), IO_EVIDENCE,
			   &from_proc_io },
	[FIGURE_SYSCW] = { "syscw", "I/O calls", UNIT_PLAIN, AT(usage.syscw), IO_EVIDENCE,
			   &from_proc_io },
	[FIGURE_READ] = { "read_bytes", "storage I/O", UNIT_BYTES, AT(usage.read_bytes),
			  IO_EVIDENCE, &from_proc_io },
	[FIGURE_WRITE] = { "write_bytes", "storage I/O", UNIT_BYTES, AT(usage.write_bytes),
			   IO_EVIDENCE, &from_proc_io },
	[FIGURE_MINOR_FAULTS] = { "minor_faults", "page faults", UNIT_PLAIN, AT(usage.minor_faults),
				  CPU_EVIDENCE, &from_wait4 },
	[FIGURE_MAJOR_FAULTS] = { "major_faults", "page faults", UNIT_PLAIN, AT(usage.major_faults),
				  CPU_EVIDENCE, &from_wait4 },
	[FIGURE_VOLUNTARY] = { "voluntary_switches", "context switches", UNIT_PLAIN,
			       AT(usage.voluntary_switches), CPU_EVIDENCE, &from_wait4 },
	[FIGURE_INVOLUNTARY] = { "involuntary_switches", "context switches", UNIT_PLAIN,
				 AT(usage.involuntary_switches), CPU_EVIDENCE, &from_wait4 },
	[FIGURE_GPU_MEMORY] = { "peak_gpu_memory_mb", "peak GPU memory", UNIT_MB,
				AT(usage.peak_gpu_bytes), 0, &from_gpu_readings },
	[FIGURE_GPU_BUSY] = { "gpu_seconds", "GPU time", UNIT_SECONDS, AT(usage.gpu_busy_ns), 0,
			      &from_shares },
	[FIGURE_GPU_IDLE] = { "gpu_idle_seconds", "GPU held, but idle", UNIT_SECONDS,
			      AT(usage.gpu_idle_ns), 0, &from_shares },
};

static uint64_t figure_u64(const struct figures *f, enum figure id)
{
	uint64_t v;

	memcpy(&v, (const char *)f + rows[id].at, sizeof(v));
	return v;
}

static double figure_f64(const struct figures *f, enum figure id)
{
	double v;

	if (rows[id].unit == UNIT_SECONDS)
		return u64_to_seconds(figure_u64(f, id));
	if (rows[id].unit == UNIT_MB)
		return u64_to_mb(figure_u64(f, id));
	memcpy(&v, (const char *)f + rows[id].at, sizeof(v));
	return v;
}

bool figure_is_known(const struct figures *f, enum figure id)
{
	return rows[id].unit == UNIT_PERCENT ? isfinite(figure_f64(f, id))
					     : u64_known(figure_u64(f, id));
}

bool figures_used_gpu(const struct figures *f)
{
	return u64_known(f->usage.peak_gpu_bytes) && f->usage.peak_gpu_bytes > 0;
}

const char *figure_key(enum figure id)
{
	return rows[id].key;
}

const char *figure_label(enum figure id)
{
	return rows[id].label;
}

void figures_set_evidence(struct figures *f)
{
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		f->evidence[id] = rows[id].origin->evidence;
		if (!figure_is_known(f, id))
			f->evidence[id] = EVIDENCE_UNKNOWN;
		else if (rows[id].evidence_at)
			memcpy(&f->evidence[id], (const char *)f + rows[id].evidence_at,
			       sizeof(f->evidence[id]));
	}
}

void figure_add_value(struct buf *out, const struct figures *f, enum figure id)
{
	switch (rows[id].unit) {
	case UNIT_SECONDS:
		report_add_duration(out, figure_u64(f, id));
		break;
	case UNIT_MB:
	case UNIT_BYTES:
		report_add_bytes(out, figure_u64(f, id));
		break;
	case UNIT_PERCENT:
		format_percent(out, figure_f64(f, id));
		break;
	case UNIT_PLAIN:
		format_count(out, figure_u64(f, id));
		break;
	}
}

/*
 * Of sampled numbers the time between two samples says more than that it is the highest of them.
 * GPUs have their own: how far apart their drivers were asked, if that was recorded.
 */
void figure_add_source(struct buf *out, const struct figures *f, enum figure id,
		       const struct attempt *a)
{
	const struct origin *origin = rows[id].origin;
	const bool is_of_gpus = origin == &from_gpu_readings || origin == &from_shares;
	const enum evidence evidence = f->evidence[id];
	struct sample_gaps gaps = sample_gaps_of(a, id == FIGURE_MAX_CPU);
	const char *how = origin->how[evidence];

	if (!figure_is_known(f, id)) {
		buf_add_char(out, '-');
		return;
	}
	format_evidence(out, evidence);
	if (a->is_attached && how && origin->of_attached)
		how = origin->of_attached;
	for (size_t i = 0; is_of_gpus && evidence == EVIDENCE_SAMPLED && i < a->n_rungs; i++)
		if (a->rungs[i].measurement && a->rungs[i].rung &&
		    strcmp(a->rungs[i].measurement, RUNG_GPU_READINGS) == 0) {
			how = a->rungs[i].rung;
			break;
		}
	if (!is_of_gpus && evidence == EVIDENCE_SAMPLED && u64_known(gaps.min_ns)) {
		buf_add_str(out, ", ");
		sample_gaps_add(out, &gaps);
	} else if (how) {
		buf_printf(out, ", %s", how);
	}
}

/* The attempt has the number of pids; a sheet has not. */
static bool is_written(enum figure id, bool is_attempt)
{
	return is_attempt || id != FIGURE_UNIQUE_PIDS;
}

void figures_write_json(struct json *j, const struct figures *f, bool is_attempt)
{
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		if (!is_written(id, is_attempt))
			continue;
		if (rows[id].unit >= UNIT_PLAIN)
			json_key_u64(j, rows[id].key, figure_u64(f, id));
		else
			json_key_f64(j, rows[id].key, figure_f64(f, id));
	}
}

void figures_write_evidence(struct json *j, const struct figures *f, bool is_attempt)
{
	for (enum figure id = 0; id < FIGURE_COUNT; id++)
		if (is_written(id, is_attempt))
			json_key_string(j, rows[id].key, evidence_name(f->evidence[id]));
}

/* ---- CSV ---- */

static bool has_exact(enum figure id, bool is_attempt)
{
	return is_written(id, is_attempt) && units[rows[id].unit].suffix;
}

void figures_write_csv_names(struct csv *c, bool is_attempt)
{
	char name[64];

	for (enum figure id = 0; id < FIGURE_COUNT; id++)
		if (is_written(id, is_attempt))
			csv_word(c, rows[id].key);
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		snprintf(name, sizeof(name), "%s_evidence", rows[id].key);
		if (is_written(id, is_attempt))
			csv_word(c, name);
	}
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		const char *key = rows[id].key, *suffix = units[rows[id].unit].suffix;

		if (!has_exact(id, is_attempt))
			continue;
		snprintf(name, sizeof(name), "%.*s%s", (int)(strlen(key) - strlen(suffix)), key,
			 units[rows[id].unit].exact_suffix);
		csv_word(c, name);
	}
}

void figures_write_csv(struct csv *c, const struct figures *f, bool is_attempt)
{
	for (enum figure id = 0; id < FIGURE_COUNT; id++) {
		if (!is_written(id, is_attempt))
			continue;
		if (rows[id].unit >= UNIT_PLAIN)
			csv_u64(c, figure_u64(f, id));
		else
			csv_f64(c, figure_f64(f, id));
	}
	for (enum figure id = 0; id < FIGURE_COUNT; id++)
		if (is_written(id, is_attempt))
			csv_text(c, evidence_name(f->evidence[id]));
	for (enum figure id = 0; id < FIGURE_COUNT; id++)
		if (has_exact(id, is_attempt))
			csv_u64(c, figure_u64(f, id));
}
