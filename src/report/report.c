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
	if (u64_known(f->memory_bytes)) {
		buf_add_str(part(line), "peak memory ");
		report_add_bytes(line, f->memory_bytes);
		add_label(line, f, FIGURE_PEAK_MEMORY);
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
	const struct unknown_note *note;

	if (r < 0)
		return r;
	format_string(&line, a->job_id);
	buf_printf(&line, " %s: ", verdict_word(&f));
	verdict_add_sentence(&line, &f);
	end_line(out, &line, "");
	add_evidence(&line, &f);
	end_line(out, &line, "  ");
	add_cpu_and_memory(&line, &f.figures);
	end_line(out, &line, "  ");
	add_counts_and_gpu(&line, &f.figures);
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
	worst = a->details.anomalies;
	n = a->details.n_anomalies;
	if (n != 0) {
		for (size_t i = 1; i < n; i++)
			if (is_worse(&a->details.anomalies[i].worst, &worst->worst))
				worst = &a->details.anomalies[i];
		buf_printf(&line, "%zu %s %s: ", n, n == 1 ? "anomaly," : "anomalies, worst",
			   severity_name(worst->worst.severity));
		format_string(&line, worst->worst.text);
	}
	end_line(out, &line, "  ");
	note = attempt_find_note(a, REPORT_NOTE_ELSEWHERE);
	if (note)
		format_string(&line, note->why);
	end_line(out, &line, "  ");
	/* Where to read more, unless the record is not complete. */
	note = attempt_find_note(a, REPORT_NOTE_RECORDING);
	if (a->id != 0 && !note)
		buf_printf(&line, "more: proctor report %s", a->job_id ? a->job_id : "-");
	else
		buf_add_str(&line, a->id != 0 ? "not all recorded" : "not recorded");
	if (note && note->why && note->why[0])
		buf_printf(&line, ": %s", note->why);
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

const char *verdict_word(const struct facts *f)
{
	if (f->a->outcome != OUTCOME_NONE)
		return outcome_name(f->a->outcome);
	if (f->a->is_running)
		return "running";
	return f->a->is_lost ? "lost" : "unknown";
}

static size_t total_sheets(const struct facts *f)
{
	size_t asked = f->a->total_sheets > 0 ? (size_t)f->a->total_sheets : 0;

	return asked > f->n_sheets ? asked : f->n_sheets;
}

/* "sheet 5 (fail)"; "the command" where there is only one, without a name. */
static void verdict_add_subject(struct buf *out, const struct facts *f,
				const struct sheet_record *sheet)
{
	if (total_sheets(f) <= 1 && !sheet->name) {
		buf_add_str(out, "the command");
		return;
	}
	buf_printf(out, "sheet %d", sheet->num);
	if (sheet->name)
		buf_printf(out, " (%s)", sheet->name);
}

/* "ended with exit code 3", "was killed by SIGSEGV (11)" */
static void add_ending(struct buf *out, struct exit_status status)
{
	if (status.signal < 0 && status.exit_code < 0) {
		buf_add_str(out, "ended, and nobody saw how");
		return;
	}
	buf_add_str(out, status.signal >= 0 ? "was killed by " : "ended with ");
	format_status(out, status);
}

/* What happened, for outcomes that say more than the exit status. */
static const char *const outcome_phrases[] = {
	[OUTCOME_CANCELLED] = "was cancelled",
	[OUTCOME_TIMEOUT] = "ran into its timeout",
	[OUTCOME_OOM] = "ran out of memory",
};

static void add_happening(struct buf *out, enum outcome outcome, const struct cause *cause,
			  struct exit_status status)
{
	const char *phrase =
		outcome < ARRAY_SIZE(outcome_phrases) ? outcome_phrases[outcome] : NULL;

	if (!phrase || cause->kind == CAUSE_MEMORY_LIKELY) {
		add_ending(out, status);
		return;
	}
	buf_add_str(out, phrase);
	if (exit_status_to_shell(status) >= 0) {
		buf_add_str(out, " and ");
		add_ending(out, status);
	}
}

static void add_guess(struct buf *out, const struct cause *cause)
{
	if (cause->kind == CAUSE_MEMORY_LIKELY)
		buf_add_str(out, ", probably for lack of memory");
}

static void add_after(struct buf *out, const char *word, uint64_t ns)
{
	if (!u64_known(ns))
		return;
	buf_printf(out, " %s ", word);
	report_add_duration(out, ns);
}

/* How sheets are told that are not the point of the sentence. */
static const struct other_sheets {
	enum outcome outcome;
	bool is_guess;
	const char *phrase;
} other_sheets[] = {
	{ OUTCOME_SUCCESS, false, "succeeded" },
	{ OUTCOME_FAILURE, false, "failed" },
	{ OUTCOME_TIMEOUT, false, "timed out" },
	{ OUTCOME_OOM, false, "ran out of memory" },
	{ OUTCOME_OOM, true, "probably ran out of memory" },
	{ OUTCOME_CANCELLED, false, "got cancelled" },
};

/* "; sheets 1-4 succeeded": all sheets but the one named, by how they ended. */
static void add_other_sheets(struct buf *out, const struct facts *f, const struct sheet_fact *named)
{
	size_t missing = total_sheets(f) - f->n_sheets;

	for (size_t k = 0; k < ARRAY_SIZE(other_sheets); k++) {
		CLEANUP(buf_release) struct buf numbers = BUF_INIT;
		struct ranges r = { .out = &numbers };

		for (size_t i = 0; i < f->n_sheets; i++) {
			const struct sheet_record *sheet = f->sheets[i].last;

			if (&f->sheets[i] != named && sheet->outcome == other_sheets[k].outcome &&
			    (sheet->cause.kind == CAUSE_MEMORY_LIKELY) == other_sheets[k].is_guess)
				ranges_add(&r, sheet->num);
		}
		ranges_end(&r);
		if (r.n > 0)
			buf_printf(out, "; sheet%s %s %s", r.n == 1 ? "" : "s", numbers.data,
				   other_sheets[k].phrase);
	}
	if (missing > 0 && total_sheets(f) > 1)
		buf_printf(out, "; %zu sheet%s %s", missing, missing == 1 ? "" : "s",
			   f->a->is_running ? "to come" : "did not run");
}

/* "; sheet 2 needed 3 tries" */
static void add_retried(struct buf *out, const struct facts *f)
{
	for (size_t i = 0; i < f->n_sheets; i++)
		if (f->sheets[i].n_tries > 1 && f->sheets[i].last->outcome == OUTCOME_SUCCESS)
			buf_printf(out, "; sheet %d needed %zu tries", f->sheets[i].last->num,
				   f->sheets[i].n_tries);
}

static void add_running(struct buf *out, const struct facts *f)
{
	const struct sheet_fact *now = facts_current(f);

	if (now) {
		verdict_add_subject(out, f, now->last);
		buf_add_str(out, " has been running");
		add_after(out, "for at least", now->figures.usage.wall_ns);
		if (now->n_tries > 1)
			buf_printf(out, ", on try %d", now->last->try_num);
	} else {
		buf_add_str(out, "the attempt has not ended");
		add_after(out, "after at least", f->figures.usage.wall_ns);
	}
	add_other_sheets(out, f, now);
}

static void add_lost(struct buf *out, const struct facts *f)
{
	const struct sheet_fact *now = facts_current(f);

	buf_add_str(out, "the runner vanished without a word");
	if (now) {
		buf_add_str(out, " during ");
		verdict_add_subject(out, f, now->last);
	}
	add_other_sheets(out, f, now);
	buf_add_str(out, "; the last sign of it is from ");
	format_time(out, figures_last_seen(f->a));
}

static void add_success(struct buf *out, const struct facts *f)
{
	bool is_plain = !facts_culprit(f) && f->n_sheets == total_sheets(f);

	if (total_sheets(f) <= 1) {
		buf_add_str(out, "the command ");
		add_ending(out, f->a->status);
		add_after(out, "after", f->figures.usage.wall_ns);
	} else if (is_plain) {
		buf_printf(out, "all %zu sheets succeeded", f->n_sheets);
		add_after(out, "in", f->figures.usage.wall_ns);
	} else {
		buf_add_str(out, "the job succeeded");
		add_after(out, "in", f->figures.usage.wall_ns);
		add_other_sheets(out, f, NULL);
	}
	add_retried(out, f);
}

static void add_failure(struct buf *out, const struct facts *f)
{
	const struct sheet_fact *culprit = facts_culprit(f);

	if (culprit) {
		verdict_add_subject(out, f, culprit->last);
		buf_add_char(out, ' ');
		add_happening(out, culprit->last->outcome, &culprit->last->cause,
			      culprit->last->status);
		add_after(out, "after", culprit->figures.usage.wall_ns);
		if (culprit->n_tries > 1)
			buf_printf(out, ", on try %d", culprit->last->try_num);
		add_guess(out, &culprit->last->cause);
	} else {
		buf_add_str(out, total_sheets(f) <= 1 ? "the command " : "the job ");
		add_happening(out, f->a->outcome, &f->a->cause, f->a->status);
		add_after(out, "after", f->figures.usage.wall_ns);
		add_guess(out, &f->a->cause);
	}
	add_other_sheets(out, f, culprit);
	add_retried(out, f);
}

void verdict_add_sentence(struct buf *out, const struct facts *f)
{
	if (f->a->outcome != OUTCOME_NONE &&
	    (!attempt_has_begun(f->a) && f->a->n_sheets == 0 && u64_known(f->a->ended_wall_ns) &&
	     f->a->ended_wall_ns == f->a->started_wall_ns &&
	     exit_status_to_shell(f->a->status) < 0))
		buf_add_str(out, "it never began");
	else if (f->a->outcome == OUTCOME_SUCCESS)
		add_success(out, f);
	else if (f->a->outcome != OUTCOME_NONE)
		add_failure(out, f);
	else if (f->a->is_running)
		add_running(out, f);
	else if (f->a->is_lost)
		add_lost(out, f);
	else
		buf_add_str(out, "nobody recorded how it ended");
}

/* "rank 2 of 4 was the first to fail: exit code 1 after 3.20 s" */
static void add_first_rank(struct buf *out, const struct sheet_record *sheet)
{
	const struct rank_record *rank = facts_first_failed_rank(sheet);

	/* At its time limit all of them were ended. */
	if (!rank || sheet->outcome == OUTCOME_TIMEOUT)
		return;
	buf_printf(out, "%srank %d of %d was the first to fail: ", out->len ? "; " : "", rank->rank,
		   sheet->total_ranks);
	format_status(out, rank->status);
	add_after(out, "after", u64_delta(rank->ended_wall_ns, sheet->started_wall_ns));
}

/* The sheet's own reason where the attempt's only repeats it with the sheet's name before it. */
void verdict_add_evidence(struct buf *out, const struct facts *f)
{
	const struct sheet_fact *culprit = facts_culprit(f);
	const char *reason = f->a->reason ? f->a->reason : "";
	const char *of_sheet = culprit && culprit->last->reason ? culprit->last->reason : "";

	if (!of_sheet[0] || !strstr(reason, of_sheet))
		buf_add_str(out, reason);
	if (of_sheet[0])
		buf_printf(out, "%s%s", out->len ? "; " : "", of_sheet);
	if (culprit && !strstr(out->data, "rank"))
		add_first_rank(out, culprit->last);
}
