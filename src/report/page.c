#include "report/page.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/unknown.h"
#include "model/job.h"
#include "model/run_record.h"
#include "report/chart.h"
#include "report/format.h"
#include "report/report.h"
#include "report/verdict.h"

static void add_verdict(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf sentence = BUF_INIT;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	char word[16] = "";
	bool is_said;

	for (size_t i = 0; verdict_word(f)[i] && i + 1 < sizeof(word); i++)
		word[i] = (char)toupper((unsigned char)verdict_word(f)[i]);
	verdict_add_sentence(&sentence, f);
	verdict_add_evidence(&evidence, f);
	is_said = strstr(sentence.data, evidence.data) != NULL;
	buf_add_char(&sentence, '.');
	d->writer->verdict(d, word, sentence.data);
	if (!is_said) {
		buf_reset(&sentence);
		buf_printf(&sentence, "Evidence: %s.", evidence.data);
		d->writer->paragraph(d, sentence.data);
	}
}

static void add_identity(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = { { "job", COLUMN_LEFT }, { "", COLUMN_WRAP } };
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	struct buf *out;

	t.hides_titles = true;
	buf_add_str(table_cell(&t), "command");
	format_string(table_cell(&t), f->a->command);
	buf_add_str(table_cell(&t), "when");
	out = table_cell(&t);
	format_time(out, f->a->started_wall_ns);
	if (u64_known(f->a->ended_wall_ns)) {
		buf_add_str(out, " to ");
		format_time(out, f->a->ended_wall_ns);
	}
	buf_add_str(out, " (local time)");
	buf_add_str(table_cell(&t), "where");
	out = table_cell(&t);
	format_string(out, f->a->host);
	buf_add_str(out, ", uid ");
	format_count(out, f->a->uid);
	if (f->a->workdir && f->a->workdir[0])
		buf_printf(out, ", in %s", f->a->workdir);
	d->writer->table(d, &t);
}

static void add_chart(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	struct sample_gaps gaps = sample_gaps_of(f->a, false);

	chart_add(&lines, f->a);
	if (lines.len == 0)
		return;
	buf_add_str(&heading, "Memory and CPU of the tree over time (");
	format_plural(&heading, f->a->n_series, "sample", "s");
	if (u64_known(gaps.min_ns))
		buf_add_str(&heading, ", ");
	sample_gaps_add(&heading, &gaps);
	buf_add_str(&heading, "; 100 % is one core)");
	d->writer->section(d, heading.data);
	d->writer->figure(d, lines.data);
}

static bool same_reason(const struct unknown_note *l, const struct unknown_note *r)
{
	return strcmp(l->why ? l->why : "", r->why ? r->why : "") == 0;
}

/* Everything that is unknown for the same reason, in one line, at the first of them. */
static void add_note(struct doc *d, const struct facts *f, size_t first)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const char *last = NULL;

	for (size_t i = 0; i < first; i++)
		if (same_reason(&f->notes[i], &f->notes[first]))
			return;
	for (size_t i = first; i < f->n_notes; i++) {
		const char *what = f->notes[i].what ? facts_note_label(f->notes[i].what) : "-";

		if (!same_reason(&f->notes[i], &f->notes[first]) ||
		    (last && strcmp(what, last) == 0))
			continue;
		buf_printf(&line, "%s%s", last ? ", " : "", what);
		last = what;
	}
	buf_add_str(&line, ": ");
	format_string(&line, f->notes[first].why);
	d->writer->item(d, line.data);
}

static void add_notes(struct doc *d, const struct facts *f)
{
	bool has_begun = false;

	for (size_t i = 0; i < f->n_notes; i++) {
		if (!attempt_has_ranks(f->a) && f->notes[i].what &&
		    strcmp(f->notes[i].what, "telemetry") == 0)
			continue; /* a job without ranks lacks nothing */
		if (!has_begun)
			d->writer->section(d, "What could not be measured, and why");
		has_begun = true;
		add_note(d, f, i);
	}
}

static void add_rungs(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
		{ "measurement", COLUMN_LEFT },
		{ "by", COLUMN_LEFT },
		{ "why no better", COLUMN_WRAP },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);

	if (f->a->n_rungs == 0)
		return;
	for (size_t i = 0; i < f->a->n_rungs; i++) {
		const struct rung rung = facts_rung(f, i);

		format_string(table_cell(&t), rung.measurement);
		format_string(table_cell(&t), rung.rung);
		buf_add_str(table_cell(&t),
			    rung.reason && rung.reason[0] ? rung.reason : "the best there is");
	}
	d->writer->section(d, "How it was measured");
	d->writer->table(d, &t);
}

/* ---- numbers ---- */

static void add_spawns(struct buf *out, const struct figures *f)
{
	format_count(out, f->usage.spawn_count);
	if (u64_known(f->usage.peak_processes))
		buf_printf(out, " born, %llu at once", (unsigned long long)f->usage.peak_processes);
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

/*
 * One line each. of and beside: the row is "-" when both are unknown, and of names its source.
 * It shows one number or two, each with the words behind it, or what add appends.
 */
static const struct {
	const char *label;
	enum figure of, beside;
	struct {
		enum figure id;
		const char *words; /* NULL: there is no such number */
	} shown[2];
	void (*add)(struct buf *out, const struct figures *f);
} lines[] = {
	{ "wall time", FIGURE_WALL, FIGURE_WALL, { { FIGURE_WALL, "" } }, NULL },
	{ "CPU time",
	  FIGURE_CPU,
	  FIGURE_USER,
	  { { FIGURE_USER, " user, " }, { FIGURE_SYSTEM, " system" } },
	  NULL },
	{ "CPU use, average",
	  FIGURE_AVERAGE_CPU,
	  FIGURE_AVERAGE_CPU,
	  { { FIGURE_AVERAGE_CPU, " of one core" } },
	  NULL },
	{ "CPU use, highest",
	  FIGURE_MAX_CPU,
	  FIGURE_MAX_CPU,
	  { { FIGURE_MAX_CPU, " of one core" } },
	  NULL },
	{ "peak memory, tree",
	  FIGURE_PEAK_RSS,
	  FIGURE_PEAK_RSS,
	  { { FIGURE_PEAK_RSS, "" } },
	  NULL },
	{ "peak memory, process",
	  FIGURE_MAX_PROCESS_RSS,
	  FIGURE_MAX_PROCESS_RSS,
	  { { FIGURE_MAX_PROCESS_RSS, "" } },
	  NULL },
	{ "processes", FIGURE_SPAWNS, FIGURE_MAX_PROCESSES, .add = add_spawns },
	{ "storage I/O",
	  FIGURE_READ,
	  FIGURE_WRITE,
	  { { FIGURE_READ, " read, " }, { FIGURE_WRITE, " written" } },
	  NULL },
	{ "I/O calls", FIGURE_RCHAR, FIGURE_WCHAR, .add = add_calls },
	{ "page faults",
	  FIGURE_MAJOR_FAULTS,
	  FIGURE_MINOR_FAULTS,
	  { { FIGURE_MAJOR_FAULTS, " major, " }, { FIGURE_MINOR_FAULTS, " minor" } },
	  NULL },
	{ "context switches",
	  FIGURE_VOLUNTARY,
	  FIGURE_INVOLUNTARY,
	  { { FIGURE_VOLUNTARY, " voluntary, " }, { FIGURE_INVOLUNTARY, " involuntary" } },
	  NULL },
	{ "peak GPU memory",
	  FIGURE_GPU_MEMORY,
	  FIGURE_GPU_MEMORY,
	  { { FIGURE_GPU_MEMORY, "" } },
	  NULL },
	{ "GPU time",
	  FIGURE_GPU_BUSY,
	  FIGURE_GPU_IDLE,
	  { { FIGURE_GPU_BUSY, " busy, " }, { FIGURE_GPU_IDLE, " held, but idle" } },
	  NULL },
};

static void add_numbers(struct doc *d, const struct facts *f)
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

		if ((lines[i].of == FIGURE_GPU_MEMORY || lines[i].of == FIGURE_GPU_BUSY) &&
		    !figures_used_gpu(figures))
			continue; /* a job that used none is not bothered with GPUs */
		buf_add_str(table_cell(&t), lines[i].label);
		cell = table_cell(&t);
		if (!is_known)
			buf_add_char(cell, '-');
		else if (lines[i].add)
			lines[i].add(cell, figures);
		for (size_t k = 0; is_known && k < 2 && lines[i].shown[k].words; k++) {
			figure_add_value(cell, figures, lines[i].shown[k].id);
			buf_add_str(cell, lines[i].shown[k].words);
		}
		figure_add_source(table_cell(&t), figures,
				  has_first ? lines[i].of : lines[i].beside, f->a);
	}
	d->writer->section(d, "Numbers");
	d->writer->table(d, &t);
}

/* ---- runs like this ---- */

#define NS_PER_SECOND 1e9
#define BYTES_PER_MB 1048576.0

/* A number as the page writes numbers of its kind; far too large ones are unknown. */
static void add_number(struct buf *out, double value, double unit,
		       void (*add)(struct buf *out, uint64_t v))
{
	bool is_sane = value >= 0 && value * unit < 9e18;

	add(out, is_sane ? (uint64_t)(value * unit + 0.5) : U64_UNKNOWN);
}

static void add_seconds(struct buf *out, double value)
{
	add_number(out, value, NS_PER_SECOND, report_add_duration);
}

static void add_mb(struct buf *out, double value)
{
	add_number(out, value, BYTES_PER_MB, report_add_bytes);
}

static const struct {
	const char *label;
	void (*add)(struct buf *out, double value);
} rows[STANDING_COUNT] = {
	[STANDING_WALL] = { "wall time", add_seconds },
	[STANDING_CPU] = { "CPU time", add_seconds },
	[STANDING_PEAK] = { "peak memory, tree", add_mb },
};

#define MIN_ANY 3 /* of fewer it is half of the time the most */

/* Of few others nothing is unusual yet; that it is the most so far can be said. */
static void add_judgement(struct buf *out, const struct standing_value *v)
{
	bool is_more = v->n_below > v->n_above;

	if (!f64_known(v->value) || v->n == 0)
		buf_add_char(out, '-');
	else if (v->is_unusual)
		buf_printf(out, "unusual: %s than %zu of %zu", is_more ? "more" : "less",
			   is_more ? v->n_below : v->n_above, v->n);
	else if (v->n >= MIN_ANY && (v->n_below == v->n || v->n_above == v->n))
		buf_printf(out, "%s than any of %zu", is_more ? "more" : "less", v->n);
	else if (v->n < MIN_ANY)
		buf_add_char(out, '-');
	else
		buf_add_str(out, "as usual");
}

static void add_usual(struct buf *out, const struct standing_value *v,
		      void (*add)(struct buf *out, double value))
{
	add(out, v->median);
	if (v->n < 2)
		return;
	buf_add_str(out, " (");
	add(out, v->low);
	buf_add_str(out, " to ");
	add(out, v->high);
	buf_add_char(out, ')');
}

/* ", which it stayed within": of one that is over, if that can be told. */
static void add_score(struct buf *out, int is_covered)
{
	if (is_covered >= 0)
		buf_printf(out, ", which it %s", is_covered ? "stayed within" : "passed");
}

static void add_expected(struct doc *d, const struct standing *s)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct estimate *e = &s->expected;

	if (e->n_runs == 0) {
		d->writer->paragraph(d, "Nothing like it had ended when it began, so nothing was "
					"expected of it.");
		return;
	}
	buf_add_str(&text, "Expected when it began, from ");
	format_plural(&text, e->n_runs, "run", "s");
	buf_printf(&text, " by %s: peak memory of at most ", s->expected_basis);
	add_mb(&text, e->peak_rss_mb);
	buf_printf(&text, " (probability %.0f %%)", e->peak_coverage * 100);
	add_score(&text, s->score.is_peak_covered);
	if (f64_known(e->cpu_seconds)) {
		buf_add_str(&text, "; CPU time of ");
		add_seconds(&text, e->cpu_seconds);
		buf_add_str(&text, " in the middle and at most ");
		add_seconds(&text, e->cpu_high_seconds);
		buf_printf(&text, " (probability %.0f %%)", e->cpu_coverage * 100);
		add_score(&text, s->score.is_cpu_covered);
	}
	buf_add_char(&text, '.');
	d->writer->paragraph(d, text.data);
}

static void add_standing(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
		{ "what", COLUMN_LEFT },
		{ "this run", COLUMN_RIGHT },
		{ "usual", COLUMN_LEFT },
		{ "so it is", COLUMN_WRAP },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct standing *s = f->a->standing;

	if (!s)
		return;
	buf_add_str(&text, "Runs like this (");
	format_plural(&text, s->n_others, "other", "s");
	buf_printf(&text, " by %s, ", s->basis);
	format_count(&text, s->n_failed);
	buf_printf(&text, " failed; usual: of %s)",
		   s->is_by_success ? "those that succeeded" : "all of them");
	d->writer->section(d, text.data);
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		buf_add_str(table_cell(&t), rows[q].label);
		rows[q].add(table_cell(&t), s->values[q].value);
		add_usual(table_cell(&t), &s->values[q], rows[q].add);
		add_judgement(table_cell(&t), &s->values[q]);
	}
	d->writer->table(d, &t);
	add_expected(d, s);
}

/* ---- ranks ---- */

#define ALMOST_SURE 0.999 /* nothing drawn from samples is sure */

static void add_ranks(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct rank_finding *t = f->a->telemetry;

	if (!t)
		return;
	buf_printf(&text, "Ranks (%llu of %lld, ", (unsigned long long)t->n_ranks,
		   (long long)t->world_size);
	format_plural(&text, t->n_samples, "sample", "s");
	buf_printf(&text, " of %s)", t->measure[0] == 'g' ? "GPU memory" : "resident memory");
	d->writer->section(d, text.data);
	buf_reset(&text);
	if (t->rank >= 0) {
		buf_printf(&text, "Rank %lld was first%s", (long long)t->rank,
			   t->has_passed ? " in what has passed" : "");
		if (u64_known(t->onset_wall_ns)) {
			buf_add_str(&text, ": its memory began to rise ");
			report_add_duration(&text,
					    u64_delta(t->onset_wall_ns, f->a->started_wall_ns));
			buf_add_str(&text, " after the start");
		}
		if (t->phase)
			buf_printf(&text, ", %sin the phase %s",
				   t->is_phase_ambiguous ? "most likely " : "", t->phase);
		if (t->probability > ALMOST_SURE)
			buf_printf(&text, " (probability above %.3f). ", ALMOST_SURE);
		else
			buf_printf(&text, " (probability %.3f). ", t->probability);
	} else if (t->verdict && t->verdict[0] == 'c') {
		buf_add_str(&text, "Cannot tell which was first. ");
	}
	buf_add_str(&text, t->reason);
	if (t->remedy[0])
		buf_printf(&text, " %s", t->remedy);
	d->writer->paragraph(d, text.data);
}

/* ---- system calls ---- */

#define MAX_CALLS 10

static void add_syscalls(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
		{ "call", COLUMN_LEFT }, { "calls", COLUMN_RIGHT }, { "errors", COLUMN_RIGHT },
		{ "CPU", COLUMN_RIGHT }, { "share", COLUMN_RIGHT }, { "waiting", COLUMN_RIGHT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	const struct attempt *a = f->a;
	uint64_t total_ns = 0;

	if (a->n_syscalls == 0)
		return;
	for (size_t i = 0; i < a->n_syscalls; i++)
		total_ns = u64_add_known(total_ns, a->syscalls[i].cpu_ns);
	for (size_t i = 0; i < a->n_syscalls && i < MAX_CALLS; i++) {
		const struct syscall_use *use = &a->syscalls[i];
		struct buf *share;

		format_string(table_cell(&t), use->name);
		format_count(table_cell(&t), use->count);
		format_count(table_cell(&t), use->errors);
		report_add_duration(table_cell(&t), use->cpu_ns);
		share = table_cell(&t);
		if (u64_known(use->cpu_ns) && total_ns > 0)
			buf_printf(share, "%.1f %%",
				   100.0 * (double)use->cpu_ns / (double)total_ns);
		else
			buf_add_char(share, '-');
		report_add_duration(table_cell(&t), use->wait_ns);
	}
	buf_printf(&heading, "System calls (%s",
		   facts_syscall_evidence(f) == EVIDENCE_EXACT
			   ? "all of all processes"
			   : "at least: what is missing is said below");
	if (a->n_syscalls > MAX_CALLS)
		buf_printf(&heading, "; the first %d of %zu", MAX_CALLS, a->n_syscalls);
	buf_add_char(&heading, ')');
	d->writer->section(d, heading.data);
	d->writer->table(d, &t);
}

/* ---- the whole page ---- */

int page_write(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf title = BUF_INIT;

	buf_add_str(&title, "proctor report: job ");
	format_string(&title, f->a->job_id);
	buf_printf(&title, ", attempt %d", f->a->attempt_num);
	d->writer->title(d, title.data);
	add_verdict(d, f);
	add_identity(d, f);
	add_numbers(d, f);
	add_standing(d, f);
	page_add_anomalies(d, f);
	add_ranks(d, f);
	page_add_sheets(d, f);
	page_add_phases(d, f);
	page_add_processes(d, f);
	add_syscalls(d, f);
	add_chart(d, f);
	page_add_exits(d, f);
	add_notes(d, f);
	add_rungs(d, f);
	if (d->writer->end)
		d->writer->end(d);
	return buf_error(d->out);
}
