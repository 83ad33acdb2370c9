#include "crossrank/finding.h"

#include <math.h>

#define ITS_LOG "What that rank did then would settle it: its phases, or its log."
#define FROM_BEFORE "Records of all ranks from before the rise would settle it."
#define OF_OTHERS "The records of the other ranks would settle it."
#define TOLD_SDS 3.0	     /* apart: the order of two onsets is sure */
#define LEAST_INTERVAL_S 0.1 /* that --interval takes */
#define LEAST_SHARE 0.1
#define MOST_SHARE 0.5 /* of the interval that was too long */

/* From the last sample before an onset to the one behind it; that of the job where one is not. */
static double interval_at(const struct rank_analysis *a, const struct first_cause *f,
			  const struct candidate *c)
{
	const struct stream *s = c->rank->total;
	int64_t ns = finding_ns(f, c->rise->seen);
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->samples[middle].timestamp_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || low == s->n)
		return (double)a->median_interval_ns / 1e9;
	return (double)(s->samples[low].timestamp_ns - s->samples[low - 1].timestamp_ns) / 1e9;
}

/* Two digits: more say nothing. */
static double rounded(double seconds)
{
	double unit = pow(10, floor(log10(seconds)) - 1);

	return floor(seconds / unit + 1e-9) * unit;
}

/*
 * The interval at which these two onsets would be told apart: a step is known to an interval, what
 * is fitted by the square root of how many samples there are. Where no lead shows at all, one
 * that tells a tenth of what can be told now.
 */
static double better_interval(double interval, const struct candidate *x, const struct candidate *y)
{
	double sd = hypot(x->rise->onset.sd, y->rise->onset.sd);
	double lead = fabs(y->rise->onset.median - x->rise->onset.median);
	double share = lead / (TOLD_SDS * sd);

	if (x->rise->is_fitted && y->rise->is_fitted)
		share *= share;
	return rounded(interval * fmin(fmax(share, LEAST_SHARE), MOST_SHARE));
}

/* One that cannot be had is no advice. */
static void add_interval(struct buf *out, double interval, double better)
{
	bool can_be = better >= LEAST_INTERVAL_S - 1e-9;

	buf_add_str(out, "Samples every ");
	finding_add_seconds(out, better);
	buf_add_str(out, can_be ? " (--interval), where they were " : ", where they were ");
	finding_add_seconds(out, interval);
	buf_add_str(out, " apart, would settle it, or tell that they began at once");
	if (!can_be) {
		buf_add_str(out, ", but --interval takes no less than ");
		finding_add_seconds(out, LEAST_INTERVAL_S);
		buf_add_str(out, ": phases of the ranks, or their logs, may tell");
	}
	buf_add_char(out, '.');
}

/* What blurs the order more: the samples, or the clocks. */
static void add_sharper(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	const struct candidate *x = &f->candidates[0], *y = &f->candidates[f->n_candidates > 1];
	double sampling = hypot(x->rise->onset.sd, y->rise->onset.sd);
	double interval = fmax(interval_at(a, f, x), interval_at(a, f, y));

	if (x->clock != y->clock && f->clock_error > sampling) {
		buf_add_str(out, "Clocks that agree to well within ");
		finding_add_seconds(out, f->clock_error);
		buf_add_str(out, " would settle it.");
		return;
	}
	if (!(interval > 0)) {
		buf_add_str(out, "Samples closer together would settle it.");
		return;
	}
	add_interval(out, interval, better_interval(interval, x, y));
}

void finding_add_remedy(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	static const char *const remedies[] = {
		[WHY_SMALL] = ITS_LOG,
		[WHY_UNRELATED] = ITS_LOG,
		[WHY_OWN_START] = ITS_LOG,
		[WHY_IN_ORDER] = ITS_LOG,
		[WHY_OTHER_BEFORE] = ITS_LOG,
		[WHY_USUAL] = ITS_LOG,
		[WHY_HIDDEN] = ITS_LOG,
		[WHY_WAVES] = ITS_LOG,
		[WHY_THIN] = "Samples closer together (--interval) would settle it.",
		[WHY_MAY_PASS] = "A record that goes on for longer would settle it.",
		[WHY_MIXED] = "The records of one run alone would settle it.",
		[WHY_UNSEEN] = FROM_BEFORE,
		[WHY_LOADED] = FROM_BEFORE,
		[WHY_MISSING] = OF_OTHERS,
		[WHY_ONE_RANK] = OF_OTHERS,
		[WHY_NO_SAMPLES] = "Samples of the ranks would settle it.",
		[WHY_FEW] =
			"Samples closer together (--interval), or a longer record, would settle "
			"it.",
		[WHY_CLOCKS] = "Synchronised clocks (NTP or PTP) on all hosts would settle it.",
	};

	if (f->verdict != VERDICT_CANNOT_TELL)
		return;
	if (f->why == WHY_TOO_CLOSE)
		add_sharper(out, a, f);
	else if (f->is_unnamed_host)
		buf_add_str(out, "Records that name their host would settle it, or --clock-error "
				 "where the clocks are known to agree.");
	else
		buf_add_str(out, remedies[f->why]);
}
