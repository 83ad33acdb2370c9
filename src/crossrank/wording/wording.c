#include "crossrank/wording/wording.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/macros.h"
#include "crossrank/rank_facts.h"
#include "crossrank/reference/reference.h"

#define MAX_LISTED 16	     /* missing ranks in a sentence */
#define LEAST_INTERVAL_S 0.1 /* that --interval takes */

static const char *const verdicts[] = {
	[VERDICT_NAMED] = "named",
	[VERDICT_CANNOT_TELL] = "cannot_tell",
	[VERDICT_NONE] = "none",
};

#define ITS_LOG "compare the phases and logs of the ranks that rose."
#define FROM_BEFORE "record all ranks from before the rise."
#define OF_OTHERS "record the other ranks, too."
#define LONGER "record for longer."

/*
 * The code in JSON; what would decide it, NULL: it is decided, or a function has it; and the
 * reason, whose letters add_value() explains.
 */
static const struct {
	const char *name, *remedy, *sentence;
} whys[] = {
	[WHY_FIRST] = { "began_first", NULL,
			"The memory of %r began to rise %l before that of any other of %n ranks "
			"(probability %p); %f of the others follow." },
	[WHY_ALONE] = { "rose_alone", NULL,
			"Only the memory of %r rises, of %n ranks: %G[, %s so far] (probability "
			"%p)." },
	[WHY_TOO_CLOSE] = { "onsets_overlap", NULL,
			    "%c of %n ranks rise; %r seems to be first[, by %l], but the onsets "
			    "are not known well enough to name it[ (probability %p)]." },
	[WHY_CLOCKS] = { "clock_not_synchronised",
			 "synchronise the clocks of all hosts (NTP or PTP).",
			 "The clock of the host of %u is not synchronised: its times have no order "
			 "with those of other hosts." },
	[WHY_UNSEEN] = { "beginning_not_recorded", FROM_BEFORE,
			 "Of the ranks that were seen to rise %r is the first, but %u has no "
			 "record of that moment." },
	[WHY_LOADED] = { "load_or_rise", FROM_BEFORE,
			 "The memory of %r rose by %g at once, but most of the others took as much "
			 "at their start: it may be the last to load." },
	[WHY_MISSING] = { "ranks_not_recorded", OF_OTHERS,
			  ", but there is no record of %M, which may have risen before." },
	[WHY_UNRELATED] = { "rises_unrelated", ITS_LOG,
			    "%c of %n ranks rise, %r first, but as far apart as ranks do that have "
			    "nothing to do with each other." },
	[WHY_MAY_PASS] = { "may_be_given_back", LONGER,
			   "The memory of %r rose by %g and is up when its record ends, but spikes "
			   "as large lasted as long before they were given back." },
	[WHY_SMALL] = { "rise_too_small", LONGER,
			"The memory of %r rose by %g, but ranks drifted from each other by about "
			"as much before." },
	[WHY_NEVER_ALIKE] = { "never_together", LONGER,
			      "The ranks never do the same for long enough to be compared." },
	[WHY_ONE_RANK] = { "only_one_rank", OF_OTHERS,
			   "There is one rank only, and nothing to compare it with." },
	[WHY_MIXED] = { "ranks_recorded_twice", "analyse the records of one run alone.",
			"The records of %u are of several processes that take turns: two runs of "
			"the job, or two jobs of one name, are mixed." },
	[WHY_NO_SAMPLES] = { "no_samples", "record samples of the ranks.",
			     "There are no samples." },
	[WHY_FEW] = { "too_few_samples", "sample more often (--interval), or record for longer.",
		      "There %k of %u's process: too few to tell a rise from scatter." },
	[WHY_NO_RISE] = { "no_rise", NULL,
			  "No rank rises apart from the others. A gain below %m would not show." },
	[WHY_SHARED] = { "shared_by_all", NULL,
			 "%c of %n ranks rise together, and none leads by more than %b: that is "
			 "the workload." },
	[WHY_GIVEN_BACK] = { "given_back", NULL,
			     "Only the memory of %r rose, of %n ranks, by %g. Most of what it "
			     "gained was given back %d later, while it went on: that passed." },
};

/* The reason where is_another() is true. */
static const char *const others[] = {
	[WHY_FIRST] = "The memory of %r began to rise %l sooner after its start than that of any "
		      "other of %n ranks (probability %p); %f of the others follow.",
	[WHY_ALONE] = "The memory of %r leaves that of the others, of %n ranks: %G[, %s so far] "
		      "(probability %p).",
	[WHY_CLOCKS] = "The records of %u name neither host nor clock: their times have no order "
		       "with those of other ranks.",
	[WHY_UNSEEN] = "All ranks rise already when their records begin: the records do not show "
		       "which began.",
	[WHY_MISSING] = ", but there is no record of %M, which may have risen.",
	[WHY_FEW] = "There are too few samples.",
};

/* What the ranks do that have records: it stands before the reason of WHY_MISSING. */
static const char *const recorded[] = {
	[WHY_FIRST] = "Of the ranks with a record %r rises first",
	[WHY_ALONE] = "Of the ranks with a record %r alone rises",
	[WHY_NO_RISE] = "No rank with a record rises for good",
	[WHY_SHARED] = "The ranks with a record rise together",
	[WHY_GIVEN_BACK] = "No rank with a record rises for good",
};

static bool is_another(const struct first_cause *f)
{
	switch (f->why) {
	case WHY_FIRST:
		return f->answer.is_since_start;
	case WHY_ALONE:
		return !isnan(f->answer.others_rate);
	case WHY_CLOCKS:
		return f->is_unnamed_host;
	case WHY_UNSEEN:
		return f->n_candidates == 0 || !f->unseen;
	case WHY_MISSING:
		return verdict_of(f->answer.why) != VERDICT_NAMED;
	default:
		return f->why == WHY_FEW && !f->unseen;
	}
}

const char *finding_verdict_name(enum verdict verdict)
{
	return verdicts[verdict];
}

const char *finding_why_name(enum why why)
{
	return whys[why].name;
}

const char *finding_kind(const struct first_cause *f)
{
	return f->why == WHY_ALONE ? "alone" : f->why == WHY_FIRST ? "first" : NULL;
}

void finding_add_seconds(struct buf *out, double seconds)
{
	if (fabs(seconds) < 0.9995)
		buf_printf(out, "%.3g ms", seconds * 1e3);
	else if (fabs(seconds) < 999.5)
		buf_printf(out, "%.3g s", seconds);
	else
		buf_printf(out, "%.0f s", seconds); /* %g would print 3.6e+03 */
}

static void add_mib(struct buf *out, double mib)
{
	num_add_bytes(out, (uint64_t)finding_bytes(fmax(mib, 0)));
}

void finding_add_growth(struct buf *out, const struct culprit_rise *rise)
{
	buf_add_char(out, '+');
	add_mib(out, rise->is_step ? rise->total : rise->rate);
	buf_add_str(out, rise->is_step ? " at once" : "/s");
}

void finding_add_headline(struct buf *out, const struct first_cause *f)
{
	enum verdict verdict = verdict_of(f->why);
	const struct identity *id;

	if (verdict != VERDICT_NAMED && f->why != WHY_GIVEN_BACK) {
		buf_add_str(out, verdict == VERDICT_NONE ? "NO CULPRIT" : "INCONCLUSIVE");
		return;
	}
	id = f->candidates[0].process;
	buf_printf(out, "%s rank %lld (%.*s", verdict == VERDICT_NAMED ? "CULPRIT" : "TRANSIENT",
		   (long long)f->candidates[0].rank->rank, (int)id->host.n,
		   id->host.s ? id->host.s : "");
	if (id->pid >= 0)
		buf_printf(out, ", pid %lld", (long long)id->pid);
	buf_add_char(out, ')');
}

/* ---- the reason ---- */

static void add_rank(struct buf *out, const struct rank *rank)
{
	buf_printf(out, "rank %lld", (long long)rank->rank);
}

static void add_missing(struct buf *out, const struct rank_analysis *a, uint64_t n)
{
	buf_add_str(out, n == 1 ? "rank " : "ranks ");
	for (size_t i = 0; i < a->n_missing && i < n && i < MAX_LISTED; i++)
		buf_printf(out, "%s%lld", i ? ", " : "", (long long)a->missing[i]);
	if (n > MAX_LISTED)
		buf_printf(out, " and %llu more", (unsigned long long)n - MAX_LISTED);
}

static void add_count(struct buf *out, size_t n)
{
	buf_printf(out, "%zu", n);
}

/* Adds what a letter of a sentence stands for. NaN: that is not known. */
static double add_value(struct buf *out, const struct rank_analysis *a, const struct first_cause *f,
			char letter)
{
	static const struct candidate none;
	const struct candidate *first = f->n_candidates > 0 ? f->candidates : &none;
	const struct rank *unseen = f->unseen ? f->unseen : first->rank;
	const struct culprit_rise *rise = &first->rise;

	switch (letter) {
	case 'r': /* the rank that rose first, or alone */
		add_rank(out, first->rank);
		return 0;
	case 'G': /* how it grows */
		finding_add_growth(out, rise);
		return 0;
	case 'g': /* what it gained */
		add_mib(out, rise->total);
		return 0;
	case 's': /* so far: of one that goes on */
		add_mib(out, rise->total);
		return rise->is_step ? NAN : 0;
	case 'd': /* after how long it gave that back */
		finding_add_seconds(out, fmax(rise->given_back - rise->best, 0));
		return 0;
	case 'p':
		buf_printf(out, "%.2f", rise->probability);
		return rise->probability;
	case 'l': /* its lead */
		finding_add_seconds(out, f->answer.lead);
		return f->answer.lead;
	case 'u': /* the rank that is the reason */
		add_rank(out, unseen);
		return 0;
	case 'k': /* how many samples that has */
		buf_add_str(out, unseen->total->n == 1 ? "is " : "are ");
		add_count(out, unseen->total->n);
		buf_add_str(out, unseen->total->n == 1 ? " sample" : " samples");
		return 0;
	case 'c': /* ranks that rose */
		add_count(out, f->n_candidates);
		return 0;
	case 'f': /* without the first */
		add_count(out, f->n_candidates - 1);
		return 0;
	case 'n': /* all ranks */
		add_count(out, f->n_ranks);
		return 0;
	case 'M': /* those without a record */
		add_missing(out, a, f->n_missing);
		return 0;
	case 'm': /* a gain that would have been seen */
		add_mib(out, f->answer.least_mib);
		return 0;
	default: /* b: a lead that would have been seen */
		finding_add_seconds(out, f->answer.lead_below);
		return 0;
	}
}

/* Adds a sentence. A part in brackets is left out where its value is not known. */
static void add_sentence(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f, const char *sentence)
{
	size_t bracket = 0;
	double value = 0;

	while (*sentence) {
		size_t plain = strcspn(sentence, "[]%");

		buf_add(out, sentence, plain);
		sentence += plain;
		if (*sentence == '[')
			bracket = out->len;
		else if (*sentence == ']')
			buf_truncate(out, isnan(value) ? bracket : out->len);
		else if (*sentence == '%')
			value = add_value(out, a, f, *++sentence);
		sentence += *sentence != '\0';
	}
}

void finding_add_caveats(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f)
{
	bool has_several = false;

	/* An order of ranks on several clocks is as good as what was assumed of these. */
	for (size_t i = 1; i < f->n_candidates; i++)
		has_several |= f->candidates[i].clock != f->candidates[0].clock;
	if (f->is_assumed && !f->has_free_clock && has_several) {
		buf_add_str(out, " That holds if the clocks of the hosts are right to ");
		finding_add_seconds(out, f->clock_error);
		buf_add_str(out, ", which is assumed, as not all hosts state it.");
	}
	strays_add_text(out, a);
}

void finding_add_reason(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	if (f->why == WHY_MISSING)
		add_sentence(out, a, f, recorded[f->answer.why]);
	add_sentence(out, a, f, is_another(f) ? others[f->why] : whys[f->why].sentence);
	if (f->why == WHY_ALONE && f->candidates[0].rise.is_censored)
		buf_add_str(out, " It rose already when its record began.");
	finding_add_caveats(out, a, f);
}

/* ---- the remedy ---- */

/* What blurs the order more: the samples, or the clocks. */
static void add_sharper(struct buf *out, const struct first_cause *f)
{
	double lead = isnan(f->answer.lead) ? f->answer.interval : f->answer.lead;
	double better = fmin(lead / 4, f->answer.interval / 2);
	double unit = pow(10, floor(log10(fmax(better, 1e-3))));

	if (f->n_clocks > 1 && f->clock_error > f->candidates[0].rise.sd) {
		buf_add_str(out, "use clocks that agree to well within ");
		finding_add_seconds(out, f->clock_error);
		buf_add_char(out, '.');
		return;
	}
	better = floor(better / unit + 1e-9) * unit;
	if (!(better >= LEAST_INTERVAL_S - 1e-9))
		buf_add_str(out, ITS_LOG);
	else
		buf_printf(out, "sample every %.2g s (--interval %.2g).", better, better);
}

void finding_add_remedy(struct buf *out, const struct first_cause *f)
{
	if (verdict_of(f->why) != VERDICT_CANNOT_TELL)
		return;
	buf_add_str(out, "To decide: ");
	if (f->why == WHY_TOO_CLOSE)
		add_sharper(out, f);
	else if (f->is_unnamed_host)
		buf_add_str(out, "record the names of the hosts, or use --clock-error where the "
				 "clocks are known to agree.");
	else
		buf_add_str(out, whys[f->why].remedy);
}

/* ---- JSON ---- */

static void write_rise(struct json *j, const struct first_cause *f, const struct candidate *c)
{
	json_key_i64(j, "gain_bytes", finding_bytes(c->rise.total));
	json_key_string(j, "shape", c->rise.is_step ? "step" : "ramp");
	json_key_f64(j, "slope_bytes_per_second", c->rise.is_step ? NAN : c->rise.rate * 0x1p20);
	summary_write_known(j, "given_back_ns", !isnan(c->rise.given_back),
			    finding_ns(f, c->rise.given_back));
}

static void write_onset(struct json *j, const struct first_cause *f, const struct candidate *c)
{
	json_key_i64(j, "rank", c->rank->rank);
	json_key_f64(j, "probability", c->rise.probability);
	json_key_i64(j, "onset_ns", finding_ns(f, c->rise.best));
	json_key_array(j, "onset_interval_ns");
	if (c->rise.is_censored)
		json_none(j);
	else
		json_i64(j, finding_ns(f, c->rise.low));
	json_i64(j, finding_ns(f, c->rise.high));
	json_end_array(j);
}

/* NaN is unknown. */
static void write_seconds(struct json *j, const char *key, double seconds)
{
	summary_write_known(j, key, !isnan(seconds),
			    fabs(seconds) < 9e9 ? llround(seconds * 1e9) : INT64_MAX);
}

/* The rank that is named; nulls where none is. */
static void write_named(struct json *j, const struct first_cause *f)
{
	static const char *const nulls[] = { "onset_ns", "onset_interval_ns", "lead_ns",
					     "lead_clock", "phase_attribution" };
	bool has_probability = verdict_of(f->why) == VERDICT_CANNOT_TELL && f->n_candidates > 0;
	double lead = f->answer.lead;

	json_key_string(j, "kind", finding_kind(f));
	if (finding_culprit(f)) {
		write_onset(j, f, &f->candidates[0]);
		write_seconds(j, "lead_ns", lead);
		json_key_string(j, "lead_clock",
				isnan(lead)		   ? NULL
				: f->answer.is_since_start ? "since_start"
							   : "wall");
		write_rise(j, f, &f->candidates[0]);
		summary_write_phase(j, "phase_attribution", &f->phase);
		return;
	}
	json_key_null(j, "rank");
	json_key_f64(j, "probability", has_probability ? f->candidates[0].rise.probability : NAN);
	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
		json_key_null(j, nulls[i]);
}

static void write_finding(struct json *j, const struct rank_analysis *a,
			  const struct first_cause *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	double least_mib = f->answer.least_mib;

	json_key_object(j, "finding");
	json_key_string(j, "verdict", finding_verdict_name(verdict_of(f->why)));
	write_named(j, f);
	json_key_array(j, "candidates");
	for (size_t i = 0; i < f->n_candidates; i++) {
		json_begin_object(j);
		write_onset(j, f, &f->candidates[i]);
		write_rise(j, f, &f->candidates[i]);
		json_end_object(j);
	}
	json_end_array(j);
	finding_add_reason(&text, a, f);
	json_key_string(j, "reason", text.data);
	json_key_string(j, "reason_code", finding_why_name(f->why));
	buf_reset(&text);
	finding_add_remedy(&text, f);
	json_key_string(j, "settled_by", text.len ? text.data : NULL);
	json_key_bool(j, "has_passed", f->why == WHY_GIVEN_BACK);
	write_seconds(j, "lead_below_ns", f->answer.lead_below);
	summary_write_known(j, "least_rise_bytes", !isnan(least_mib), finding_bytes(least_mib));
	json_key_object(j, "clocks");
	json_key_u64(j, "count", f->n_clocks);
	summary_write_known(j, "error_ns", !f->has_free_clock, llround(f->clock_error * 1e9));
	json_key_bool(j, "is_assumed", f->is_assumed);
	json_end_object(j);
	json_key_u64(j, "stray_records", strays_count(a));
	json_key_u64(j, "episodes", f->answer.n_events);
	json_key_u64(j, "episodes_shared", f->answer.n_shared);
	json_end_object(j);
}

void summary_write_all(struct json *j, const struct rank_analysis *a)
{
	summary_write_compat(j, a);
	/* Jobs whose records are there, too, and do not count. */
	json_key_array(j, "left_out_jobs");
	for (size_t i = 0; i < a->n_others; i++) {
		json_begin_object(j);
		summary_write_text(j, "job_id", a->others[i].job_id);
		json_key_u64(j, "samples", a->others[i].n_samples);
		json_end_object(j);
	}
	json_end_array(j);
	if (a->n_others_all > a->n_others)
		json_key_u64(j, "left_out_jobs_count", a->n_others_all);
	write_finding(j, a, a->finding);
	facts_write_json(j, a, a->facts);
}
