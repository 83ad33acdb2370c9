#include "report/report.h"

#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "model/anomaly.h"
#include "report/doc/doc.h"
#include "report/facts.h"
#include "report/format.h"
#include "report/page.h"

/* ---- the few lines that "proctor run" ends with, on stderr; plain ASCII but for names ---- */

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

/* " (exact)": ASCII, unlike the marks of the page. */
static void add_label(struct buf *line, const struct figures *f, enum figure id)
{
	buf_add_str(line, " (");
	format_evidence(line, f->evidence[id]);
	buf_add_char(line, ')');
}

static void add_cpu_and_memory(struct buf *line, const struct figures *f)
{
	if (u64_known(f->cpu_ns)) {
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

static void add_counts_and_gpu(struct buf *line, const struct figures *f)
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
	if (figures_used_gpu(f)) {
		buf_add_str(part(line), "GPU memory ");
		report_add_bytes(line, usage->peak_gpu_bytes);
		buf_add_str(line, ", busy for ");
		if (f->evidence[FIGURE_GPU_BUSY] == EVIDENCE_LOWER_BOUND)
			buf_add_str(line, format_mark(EVIDENCE_LOWER_BOUND));
		report_add_duration(line, usage->gpu_busy_ns);
		add_label(line, f, FIGURE_GPU_MEMORY);
	}
}

/* Repeats nothing: "exit code 3" is in the verdict already. */
static void add_evidence(struct buf *line, const struct facts *f)
{
	CLEANUP(buf_release) struct buf sentence = BUF_INIT;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;

	verdict_add_sentence(&sentence, f);
	verdict_add_evidence(&evidence, f);
	if (evidence.len > 0 && !strstr(sentence.data, evidence.data))
		buf_printf(line, "evidence: %s", evidence.data);
}

/* Among equals an OOM kill comes first: what led there is not news any more. */
static bool is_worse(const struct anomaly *a, const struct anomaly *than)
{
	if (a->severity != than->severity)
		return a->severity > than->severity;
	return a->type == ANOMALY_OOM_KILL && than->type != ANOMALY_OOM_KILL;
}

int report_write_summary(const struct attempt *a, struct buf *out)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct facts f;
	int r = facts_init(&f, a);
	struct exit_tally tally;
	bool is_hidden_oom;
	const struct episode *worst;
	size_t n;
	const char *why = NULL;

	if (r < 0)
		return r;
	format_string(&line, a->job_id);
	buf_printf(&line, " %s: ", verdict_word(&f));
	verdict_add_sentence(&line, &f);
	end_line(out, &line, "");
	add_cpu_and_memory(&line, &f.figures);
	end_line(out, &line, "  ");
	add_counts_and_gpu(&line, &f.figures);
	end_line(out, &line, "  ");
	add_evidence(&line, &f);
	end_line(out, &line, "  ");
	/* Nothing where all processes exited 0, or the verdict has it. */
	exit_tally_count(&f, &tally);
	is_hidden_oom = tally.n_oom > 0 && f.a->outcome != OUTCOME_OOM;
	if ((tally.n_all > 1 && tally.n_all > tally.exited[0]) || is_hidden_oom) {
		buf_add_str(&line, "processes: ");
		exit_tally_add(&line, &tally, f.a->is_running);
	}
	end_line(out, &line, "  ");
	/* How many, and the first of the worst. */
	worst = a->anomalies;
	n = a->n_anomalies;
	if (n != 0) {
		for (size_t i = 1; i < n; i++)
			if (is_worse(&a->anomalies[i].worst, &worst->worst))
				worst = &a->anomalies[i];
		buf_printf(&line, "%zu %s %s: ", n, n == 1 ? "anomaly," : "anomalies, worst",
			   severity_name(worst->worst.severity));
		format_string(&line, worst->worst.text);
	}
	end_line(out, &line, "  ");
	/* Where to read more, unless the record is not complete. */
	for (size_t i = 0; !why && i < a->n_unknowns; i++)
		if (a->unknowns[i].what && strcmp(a->unknowns[i].what, REPORT_NOTE_RECORDING) == 0)
			why = a->unknowns[i].why ? a->unknowns[i].why : "";
	if (a->id != 0 && !why)
		buf_printf(&line, "more: proctor report %s", a->job_id ? a->job_id : "-");
	else
		buf_add_str(&line, a->id != 0 ? "not all recorded" : "not recorded");
	if (why && why[0])
		buf_printf(&line, ": %s", why);
	end_line(out, &line, "  ");
	facts_release(&f);
	return buf_error(out);
}

/* ---- formats ---- */

/* The writer of a page; NULL: JSON, which is no page. */
static const struct {
	const char *name;
	const struct doc_writer *writer;
} formats[] = {
	[REPORT_TEXT] = { "text", &text_writer },
	[REPORT_JSON] = { "json", NULL },
	[REPORT_MARKDOWN] = { "md", &markdown_writer },
	[REPORT_HTML] = { "html", &html_writer },
};

const char *report_format_name(enum report_format format)
{
	return formats[format].name;
}

int report_format_from_name(const char *name, enum report_format *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strcmp(formats[i].name, name) == 0) {
			*ret = (enum report_format)i;
			return 0;
		}
	return -EINVAL;
}

int report_write(const struct attempt *a, enum report_format format, struct buf *out)
{
	struct doc d = { .writer = formats[format].writer, .out = out };
	struct facts f;
	int r = facts_init(&f, a);

	if (r < 0)
		return r;
	r = d.writer ? page_write(&d, &f) : json_report_write(out, &f);
	facts_release(&f);
	return r;
}
