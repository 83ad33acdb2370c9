#include "crossrank/wording/wording.h"

#include <math.h>

#include "base/num.h"
#include "base/macros.h"
#include "crossrank/rank_facts.h"
#include "crossrank/reference/reference.h"

#define BYTES_PER_MIB 1048576.0
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

/* The code in JSON, and what would decide it; NULL: it is decided, or a function has it. */
static const struct {
	const char *name, *remedy;
} whys[] = {
	[WHY_FIRST] = { "began_first", NULL },
	[WHY_ALONE] = { "rose_alone", NULL },
	[WHY_TOO_CLOSE] = { "onsets_overlap", NULL },
	[WHY_CLOCKS] = { "clock_not_synchronised",
			 "synchronise the clocks of all hosts (NTP or PTP)." },
	[WHY_UNSEEN] = { "beginning_not_recorded", FROM_BEFORE },
	[WHY_LOADED] = { "load_or_rise", FROM_BEFORE },
	[WHY_MISSING] = { "ranks_not_recorded", OF_OTHERS },
	[WHY_UNRELATED] = { "rises_unrelated", ITS_LOG },
	[WHY_MAY_PASS] = { "may_be_given_back", LONGER },
	[WHY_SMALL] = { "rise_too_small", LONGER },
	[WHY_NEVER_ALIKE] = { "never_together", LONGER },
	[WHY_ONE_RANK] = { "only_one_rank", OF_OTHERS },
	[WHY_MIXED] = { "ranks_recorded_twice", "analyse the records of one run alone." },
	[WHY_NO_SAMPLES] = { "no_samples", "record samples of the ranks." },
	[WHY_FEW] = { "too_few_samples", "sample more often (--interval), or record for longer." },
	[WHY_NO_RISE] = { "no_rise", NULL },
	[WHY_SHARED] = { "shared_by_all", NULL },
	[WHY_GIVEN_BACK] = { "given_back", NULL },
};

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

static void add_rank(struct buf *out, const struct rank *rank)
{
	buf_printf(out, "rank %lld", (long long)rank->rank);
}

static void add_mib(struct buf *out, double mib)
{
	num_add_bytes(out, (uint64_t)fmin(fmax(mib, 0) * BYTES_PER_MIB, 9.2e18));
}

void finding_add_growth(struct buf *out, const struct candidate *c)
{
	buf_add_char(out, '+');
	if (c->is_step) {
		add_mib(out, c->gain_mib);
		buf_add_str(out, " at once");
	} else {
		add_mib(out, c->mib_per_second);
		buf_add_str(out, "/s");
	}
}

/* ---- the headline ---- */

void finding_add_headline(struct buf *out, const struct first_cause *f)
{
	const struct identity *id;

	if (f->verdict == VERDICT_CANNOT_TELL) {
		buf_add_str(out, "INCONCLUSIVE");
		return;
	}
	if (f->verdict == VERDICT_NONE && f->why != WHY_GIVEN_BACK) {
		buf_add_str(out, "NO CULPRIT");
		return;
	}
	buf_add_str(out, f->verdict == VERDICT_NAMED ? "CULPRIT " : "TRANSIENT ");
	add_rank(out, f->candidates[0].rank);
	id = f->candidates[0].process;
	buf_printf(out, " (%.*s", (int)id->host.n, id->host.s ? id->host.s : "");
	if (id->pid >= 0)
		buf_printf(out, ", pid %lld", (long long)id->pid);
	buf_add_char(out, ')');
}

/* ---- the reason ---- */

static void add_first(struct buf *out, const struct first_cause *f)
{
	buf_add_str(out, "The memory of ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " began to rise ");
	finding_add_seconds(out, f->lead);
	buf_printf(out,
		   f->is_since_start
			   ? " sooner after its start than that of any other of %zu ranks ("
			   : " before that of any other of %zu ranks (",
		   f->n_ranks);
	buf_printf(out, "probability %.2f); %zu of the others follow.",
		   f->candidates[0].probability, f->n_candidates - 1);
}

static void add_alone(struct buf *out, const struct first_cause *f)
{
	const struct candidate *c = &f->candidates[0];

	buf_add_str(out, isnan(f->others_rate) ? "Only the memory of " : "The memory of ");
	add_rank(out, c->rank);
	buf_printf(out,
		   isnan(f->others_rate) ? " rises, of %zu ranks: "
					 : " leaves that of the others, of %zu ranks: ",
		   f->n_ranks);
	finding_add_growth(out, c);
	if (!c->is_step) {
		buf_add_str(out, ", ");
		add_mib(out, c->gain_mib);
		buf_add_str(out, " so far");
	}
	buf_printf(out, " (probability %.2f).%s", c->probability,
		   c->is_censored ? " It rose already when its record began." : "");
}

static void add_too_close(struct buf *out, const struct first_cause *f)
{
	buf_printf(out, "%zu of %zu ranks rise; ", f->n_candidates, f->n_ranks);
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " seems to be first");
	if (!isnan(f->lead)) {
		buf_add_str(out, ", by ");
		finding_add_seconds(out, f->lead);
	}
	buf_add_str(out, ", but the onsets are not known well enough to name it");
	if (!isnan(f->candidates[0].probability))
		buf_printf(out, " (probability %.2f)", f->candidates[0].probability);
	buf_add_char(out, '.');
}

static void add_clocks(struct buf *out, const struct first_cause *f)
{
	const struct rank *rank = f->unseen ? f->unseen : f->candidates[0].rank;

	if (f->is_unnamed_host) {
		buf_add_str(out, "The records of ");
		add_rank(out, rank);
		buf_add_str(out, " name neither host nor clock: their times have no order with "
				 "those of other ranks.");
		return;
	}
	buf_add_str(out, "The clock of the host of ");
	add_rank(out, rank);
	buf_add_str(out, " is not synchronised: its times have no order with those of other "
			 "hosts.");
}

static void add_unseen(struct buf *out, const struct first_cause *f)
{
	if (f->n_candidates == 0 || !f->unseen) {
		buf_add_str(out, "All ranks rise already when their records begin: the records "
				 "do not show which began.");
		return;
	}
	buf_add_str(out, "Of the ranks that were seen to rise ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " is the first, but ");
	add_rank(out, f->unseen);
	buf_add_str(out, " has no record of that moment.");
}

static void add_unrecorded(struct buf *out, const struct rank_analysis *a,
			   const struct first_cause *f)
{
	bool is_one = f->of_recorded == WHY_FIRST || f->of_recorded == WHY_ALONE;

	if (is_one) {
		buf_add_str(out, "Of the ranks with a record ");
		add_rank(out, f->candidates[0].rank);
		buf_add_str(out, f->of_recorded == WHY_FIRST ? " rises first" : " alone rises");
	} else {
		buf_add_str(out, f->of_recorded == WHY_SHARED
					 ? "The ranks with a record rise together"
					 : "No rank with a record rises for good");
	}
	buf_printf(out, ", but there is no record of rank%s ", f->n_missing == 1 ? "" : "s");
	for (size_t i = 0; i < a->n_missing && i < f->n_missing && i < MAX_LISTED; i++)
		buf_printf(out, "%s%lld", i ? ", " : "", (long long)a->missing[i]);
	if (f->n_missing > MAX_LISTED)
		buf_printf(out, " and %llu more", (unsigned long long)f->n_missing - MAX_LISTED);
	buf_add_str(out, is_one ? ", which may have risen before." : ", which may have risen.");
}

/* "Rank 3 rose by 2 GB …": the rank that would be named, and what speaks against it. */
static void add_doubt(struct buf *out, const struct first_cause *f, const char *but)
{
	buf_add_str(out, "The memory of ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " rose by ");
	add_mib(out, f->candidates[0].gain_mib);
	buf_add_str(out, but);
}

static void add_few(struct buf *out, const struct first_cause *f)
{
	size_t n = f->unseen ? f->unseen->total->n : 0;

	if (!f->unseen) {
		buf_add_str(out, "There are too few samples.");
		return;
	}
	buf_add_str(out, "There ");
	buf_printf(out, n == 1 ? "is %zu sample of " : "are %zu samples of ", n);
	add_rank(out, f->unseen);
	buf_add_str(out, "'s process: too few to tell a rise from scatter.");
}

static void add_shared(struct buf *out, const struct first_cause *f)
{
	buf_printf(out, "%zu of %zu ranks rise together, and none leads by more than ",
		   f->n_candidates, f->n_ranks);
	finding_add_seconds(out, f->lead_below);
	buf_add_str(out, ": that is the workload.");
}

static void add_given_back(struct buf *out, const struct first_cause *f)
{
	const struct candidate *c = &f->candidates[0];

	buf_add_str(out, "Only the memory of ");
	add_rank(out, c->rank);
	buf_printf(out, " rose, of %zu ranks, by ", f->n_ranks);
	add_mib(out, c->gain_mib);
	buf_add_str(out, ". Most of what it gained was given back ");
	finding_add_seconds(out, fmax(c->given_back - c->onset, 0));
	buf_add_str(out, " later, while it went on: that passed.");
}

/* An order of ranks on several clocks is as good as what was assumed of these. */
static void add_assumed(struct buf *out, const struct first_cause *f)
{
	bool is_one = true;

	for (size_t i = 1; i < f->n_candidates; i++)
		is_one &= f->candidates[i].clock == f->candidates[0].clock;
	if (!f->is_assumed || f->has_free_clock || is_one)
		return;
	buf_add_str(out, " That holds if the clocks of the hosts are right to ");
	finding_add_seconds(out, f->clock_error);
	buf_add_str(out, ", which is assumed, as not all hosts state it.");
}

void finding_add_caveats(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f)
{
	add_assumed(out, f);
	strays_add_text(out, a);
}

void finding_add_reason(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	switch (f->why) {
	case WHY_FIRST:
		add_first(out, f);
		break;
	case WHY_ALONE:
		add_alone(out, f);
		break;
	case WHY_TOO_CLOSE:
		add_too_close(out, f);
		break;
	case WHY_CLOCKS:
		add_clocks(out, f);
		break;
	case WHY_UNSEEN:
		add_unseen(out, f);
		break;
	case WHY_MISSING:
		add_unrecorded(out, a, f);
		break;
	case WHY_LOADED:
		add_doubt(out, f,
			  " at once, but most of the others took as much at their start: "
			  "it may be the last to load.");
		break;
	case WHY_MAY_PASS:
		add_doubt(out, f,
			  " and is up when its record ends, but spikes as large lasted as "
			  "long before they were given back.");
		break;
	case WHY_SMALL:
		add_doubt(out, f, ", but ranks drifted from each other by about as much before.");
		break;
	case WHY_UNRELATED:
		buf_printf(out, "%zu of %zu ranks rise, ", f->n_candidates, f->n_ranks);
		add_rank(out, f->candidates[0].rank);
		buf_add_str(out, " first, but as far apart as ranks do that have nothing to do "
				 "with each other.");
		break;
	case WHY_NEVER_ALIKE:
		buf_add_str(out, "The ranks never do the same for long enough to be compared.");
		break;
	case WHY_ONE_RANK:
		buf_add_str(out, "There is one rank only, and nothing to compare it with.");
		break;
	case WHY_MIXED:
		buf_add_str(out, "The records of ");
		add_rank(out, f->unseen);
		buf_add_str(out, " are of several processes that take turns: two runs of the job, "
				 "or two jobs of one name, are mixed.");
		break;
	case WHY_NO_SAMPLES:
		buf_add_str(out, "There are no samples.");
		break;
	case WHY_FEW:
		add_few(out, f);
		break;
	case WHY_NO_RISE:
		buf_add_str(out, "No rank rises apart from the others. A gain below ");
		add_mib(out, f->least_mib);
		buf_add_str(out, " would not show.");
		break;
	case WHY_SHARED:
		add_shared(out, f);
		break;
	case WHY_GIVEN_BACK:
		add_given_back(out, f);
		break;
	}
	finding_add_caveats(out, a, f);
}

/* ---- the remedy ---- */

/* What blurs the order more: the samples, or the clocks. */
static void add_sharper(struct buf *out, const struct first_cause *f)
{
	double lead = isnan(f->lead) ? f->interval : f->lead;
	double better = fmin(lead / 4, f->interval / 2);
	double unit = pow(10, floor(log10(fmax(better, 1e-3))));

	if (f->n_clocks > 1 && f->clock_error > f->candidates[0].sd) {
		buf_add_str(out, "use clocks that agree to well within ");
		finding_add_seconds(out, f->clock_error);
		buf_add_char(out, '.');
		return;
	}
	better = floor(better / unit + 1e-9) * unit;
	if (!(better >= LEAST_INTERVAL_S - 1e-9)) {
		buf_add_str(out, ITS_LOG);
		return;
	}
	buf_printf(out, "sample every %.2g s (--interval %.2g).", better, better);
}

void finding_add_remedy(struct buf *out, const struct first_cause *f)
{
	if (f->verdict != VERDICT_CANNOT_TELL)
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

static void write_onset(struct json *j, const struct first_cause *f, const struct candidate *c)
{
	json_key_i64(j, "onset_ns", finding_ns(f, c->onset));
	json_key_array(j, "onset_interval_ns");
	if (c->is_censored)
		json_none(j);
	else
		json_i64(j, finding_ns(f, c->low));
	json_i64(j, finding_ns(f, c->high));
	json_end_array(j);
}

static void write_rise(struct json *j, const struct first_cause *f, const struct candidate *c)
{
	json_key_i64(j, "gain_bytes", finding_gain_bytes(c));
	json_key_string(j, "shape", c->is_step ? "step" : "ramp");
	json_key_f64(j, "slope_bytes_per_second", c->mib_per_second * BYTES_PER_MIB);
	json_key(j, "given_back_ns");
	if (isnan(c->given_back))
		json_none(j);
	else
		json_i64(j, finding_ns(f, c->given_back));
}

/* NaN is unknown. */
static void write_seconds(struct json *j, const char *key, double seconds)
{
	json_key(j, key);
	if (isnan(seconds))
		json_none(j);
	else
		json_i64(j, fabs(seconds) < 9e9 ? llround(seconds * 1e9) : INT64_MAX);
}

/* The rank that is named; nulls where none is. */
static void write_named(struct json *j, const struct first_cause *f)
{
	json_key_string(j, "kind", finding_kind(f));
	if (f->rank) {
		json_key_i64(j, "rank", f->rank->rank);
		json_key_f64(j, "probability", f->candidates[0].probability);
		write_onset(j, f, &f->candidates[0]);
		write_seconds(j, "lead_ns", f->lead);
		json_key_string(j, "lead_clock",
				isnan(f->lead)	    ? NULL
				: f->is_since_start ? "since_start"
						    : "wall");
		write_rise(j, f, &f->candidates[0]);
		json_key(j, "phase_attribution");
		phase_write_json(j, &f->phase);
		return;
	}
	json_key_null(j, "rank");
	json_key_f64(j, "probability",
		     f->verdict == VERDICT_CANNOT_TELL && f->n_candidates
			     ? f->candidates[0].probability
			     : NAN);
	json_key_null(j, "onset_ns");
	json_key_null(j, "onset_interval_ns");
	json_key_null(j, "lead_ns");
	json_key_null(j, "lead_clock");
	json_key_null(j, "phase_attribution");
}

void finding_write_json(struct json *j, const struct rank_analysis *a, const struct first_cause *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	json_begin_object(j);
	json_key_string(j, "verdict", finding_verdict_name(f->verdict));
	write_named(j, f);
	json_key_array(j, "candidates");
	for (size_t i = 0; i < f->n_candidates; i++) {
		const struct candidate *c = &f->candidates[i];

		json_begin_object(j);
		json_key_i64(j, "rank", c->rank->rank);
		json_key_f64(j, "probability", c->probability);
		write_onset(j, f, c);
		write_rise(j, f, c);
		json_end_object(j);
	}
	json_end_array(j);
	finding_add_reason(&text, a, f);
	json_key_string(j, "reason", text.data);
	json_key_string(j, "reason_code", finding_why_name(f->why));
	buf_reset(&text);
	finding_add_remedy(&text, f);
	json_key_string(j, "settled_by", text.len ? text.data : NULL);
	json_key_bool(j, "has_passed", f->has_passed);
	write_seconds(j, "lead_below_ns", f->lead_below);
	json_key(j, "least_rise_bytes");
	if (isnan(f->least_mib))
		json_none(j);
	else
		json_i64(j, (int64_t)fmin(f->least_mib * BYTES_PER_MIB, 9.2e18));
	json_key_object(j, "clocks");
	json_key_u64(j, "count", f->n_clocks);
	if (f->has_free_clock)
		json_key_null(j, "error_ns");
	else
		json_key_i64(j, "error_ns", llround(f->clock_error * 1e9));
	json_key_bool(j, "is_assumed", f->is_assumed);
	json_end_object(j);
	json_key_u64(j, "stray_records", strays_count(a));
	json_key_u64(j, "episodes", f->n_episodes);
	json_key_u64(j, "episodes_shared", f->n_shared);
	json_end_object(j);
}

void summary_write_all(struct json *j, const struct rank_analysis *a)
{
	summary_write_compat(j, a);
	/* Jobs whose records are there, too, and do not count. */
	json_key_array(j, "left_out_jobs");
	for (size_t i = 0; i < a->n_others; i++) {
		json_begin_object(j);
		json_key(j, "job_id");
		if (a->others[i].job_id.s)
			json_str_n(j, a->others[i].job_id.s, a->others[i].job_id.n);
		else
			json_none(j);
		json_key_u64(j, "samples", a->others[i].n_samples);
		json_end_object(j);
	}
	json_end_array(j);
	if (a->n_others_all > a->n_others)
		json_key_u64(j, "left_out_jobs_count", a->n_others_all);
	json_key(j, "finding");
	finding_write_json(j, a, a->finding);
	facts_write_json(j, a, a->facts);
}
