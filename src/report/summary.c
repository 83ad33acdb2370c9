#include "report/summary.h"

#include <string.h>

#include "base/unknown.h"
#include "model/anomaly.h"
#include "report/format.h"
#include "report/life.h"
#include "report/report.h"
#include "report/verdict.h"

/* Prints the line, safe, if it holds anything, and empties it for the next. */
static void end_line(struct buf *out, struct buf *line, const char *lead)
{
	if (line->len == 0)
		return;
	buf_printf(out, "proctor: %s", lead);
	format_safe(out, line->data);
	buf_add_char(out, '\n');
	if (buf_error(line) < 0)
		out->failed = true;
	buf_reset(line);
}

/* Begins a part of a line. */
static struct buf *part(struct buf *line)
{
	if (line->len > 0)
		buf_add_str(line, "; ");
	return line;
}

static void add_verdict(struct buf *line, const struct facts *f)
{
	format_string(line, f->a->job_id);
	buf_printf(line, " %s: ", verdict_word(f));
	verdict_add_sentence(line, f);
}

/* " (exact)": ASCII, unlike the marks of the page. */
static void add_label(struct buf *line, const struct figures *f, enum figure id)
{
	buf_add_str(line, " (");
	format_evidence(line, f->evidence[id]);
	buf_add_char(line, ')');
}

static void add_cpu(struct buf *line, const struct figures *f)
{
	if (!u64_known(f->cpu_ns))
		return;
	buf_add_str(part(line), "cpu ");
	report_add_duration(line, f->usage.user_ns);
	buf_add_str(line, " user, ");
	report_add_duration(line, f->usage.system_ns);
	buf_add_str(line, " system");
	if (isfinite(f->average_cpu_percent)) {
		buf_add_str(line, ", ");
		format_percent(line, f->average_cpu_percent);
		buf_add_str(line, " of one core");
	}
	add_label(line, f, FIGURE_CPU);
}

static void add_memory(struct buf *line, const struct figures *f)
{
	if (u64_known(f->usage.peak_rss_bytes)) {
		buf_add_str(part(line), "peak memory ");
		report_add_bytes(line, f->usage.peak_rss_bytes);
		add_label(line, f, FIGURE_PEAK_RSS);
	}
	if (u64_known(f->usage.max_process_rss_bytes)) {
		buf_add_str(part(line), "largest process ");
		report_add_bytes(line, f->usage.max_process_rss_bytes);
		add_label(line, f, FIGURE_MAX_PROCESS_RSS);
	}
}

static void add_counts(struct buf *line, const struct figures *f)
{
	const struct usage *usage = &f->usage;

	if (u64_known(usage->spawn_count)) {
		format_plural(part(line), usage->spawn_count, "process", "es");
		add_label(line, f, FIGURE_SPAWNS);
	}
	if (u64_known(usage->read_bytes) || u64_known(usage->write_bytes)) {
		report_add_bytes(part(line), usage->read_bytes);
		buf_add_str(line, " read, ");
		report_add_bytes(line, usage->write_bytes);
		buf_add_str(line, " written");
		add_label(line, f, u64_known(usage->read_bytes) ? FIGURE_READ : FIGURE_WRITE);
	}
	if (u64_known(usage->major_faults)) {
		format_plural(part(line), usage->major_faults, "major fault", "s");
		add_label(line, f, FIGURE_MAJOR_FAULTS);
	}
}

static void add_gpu(struct buf *line, const struct figures *f)
{
	if (!figures_used_gpu(f))
		return;
	buf_add_str(part(line), "GPU memory ");
	report_add_bytes(line, f->usage.peak_gpu_bytes);
	buf_add_str(line, ", busy for ");
	if (f->evidence[FIGURE_GPU_BUSY] == EVIDENCE_LOWER_BOUND)
		buf_add_str(line, format_mark(EVIDENCE_LOWER_BOUND));
	report_add_duration(line, f->usage.gpu_busy_ns);
	add_label(line, f, FIGURE_GPU_MEMORY);
}

/* Repeats nothing: "exit code 3" is in the verdict already. */
static void add_evidence(struct buf *line, const struct facts *f)
{
	CLEANUP(buf_release) struct buf said = BUF_INIT;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;

	verdict_add_sentence(&said, f);
	verdict_add_evidence(&evidence, f);
	if (evidence.len > 0 && !strstr(said.data, evidence.data))
		buf_printf(line, "evidence: %s", evidence.data);
}

static void add_trouble(struct buf *line, const struct facts *f)
{
	struct life_tally tally;
	bool is_hidden_oom;

	life_count(f, &tally);
	is_hidden_oom = tally.n_oom > 0 && f->a->outcome != OUTCOME_OOM;
	if ((tally.n_all > 1 && life_has_trouble(&tally)) || is_hidden_oom) {
		buf_add_str(line, "processes: ");
		life_add_tally(line, &tally, f->a->is_running);
	}
}

/* Among equals a kill for want of memory comes first: what led there is not news any more. */
static bool is_worse(const struct anomaly *a, const struct anomaly *than)
{
	if (a->severity != than->severity)
		return a->severity > than->severity;
	return a->type == ANOMALY_OOM_KILL && than->type != ANOMALY_OOM_KILL;
}

/* The first of the worst. */
static const struct episode *find_worst(const struct attempt *a)
{
	const struct episode *worst = &a->anomalies[0];

	for (size_t i = 1; i < a->n_anomalies; i++)
		if (is_worse(&a->anomalies[i].worst, &worst->worst))
			worst = &a->anomalies[i];
	return worst;
}

static void add_anomalies(struct buf *line, const struct facts *f)
{
	const struct episode *worst;
	size_t n = f->a->n_anomalies;

	if (n == 0)
		return;
	worst = find_worst(f->a);
	buf_printf(line, "%zu %s %s: ", n, n == 1 ? "anomaly," : "anomalies, worst",
		   severity_name(worst->worst.severity));
	format_string(line, worst->worst.text);
}

static const char *why_not_recorded(const struct attempt *a)
{
	for (size_t i = 0; i < a->n_unknowns; i++)
		if (a->unknowns[i].what && strcmp(a->unknowns[i].what, REPORT_NOTE_RECORDING) == 0)
			return a->unknowns[i].why ? a->unknowns[i].why : "";
	return NULL;
}

/* Where to read more, unless what is there is not the whole. */
static void add_recording(struct buf *line, const struct facts *f)
{
	const char *why = why_not_recorded(f->a);

	if (f->a->id > 0 && !why)
		buf_printf(line, "more: proctor report %s", f->a->job_id ? f->a->job_id : "-");
	else
		buf_add_str(line, f->a->id > 0 ? "not all recorded" : "not recorded");
	if (why && why[0])
		buf_printf(line, ": %s", why);
}

int summary_write(struct buf *out, const struct facts *f)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	add_verdict(&line, f);
	end_line(out, &line, "");
	add_cpu(&line, &f->figures);
	add_memory(&line, &f->figures);
	end_line(out, &line, "  ");
	add_counts(&line, &f->figures);
	add_gpu(&line, &f->figures);
	end_line(out, &line, "  ");
	add_evidence(&line, f);
	end_line(out, &line, "  ");
	add_trouble(&line, f);
	end_line(out, &line, "  ");
	add_anomalies(&line, f);
	end_line(out, &line, "  ");
	add_recording(&line, f);
	end_line(out, &line, "  ");
	return buf_error(out);
}
