#include "crossrank/finding.h"

#include <math.h>

#include "base/num.h"
#include "base/macros.h"
#include "crossrank/strays.h"

#define BYTES_PER_MIB 1048576.0
#define MAX_NAMED 16 /* missing ranks in a sentence */
#define LATE_SECONDS 3.0

/* Others may have risen at other times. */
static void add_which(struct buf *out, const struct first_cause *f)
{
	if (f->n_episodes > 1)
		buf_printf(out, " That is one of %zu times at which ranks rose.", f->n_episodes);
}

void finding_add_seconds(struct buf *out, double seconds)
{
	if (fabs(seconds) < 0.9995)
		buf_printf(out, "%.3g ms", seconds * 1e3);
	else if (fabs(seconds) < 999.5)
		buf_printf(out, "%.3g s", seconds);
	else
		buf_printf(out, "%.0f s", seconds); /* %g would say 3.6e+03 */
}

static void add_rank(struct buf *out, const struct rank *rank)
{
	buf_printf(out, "rank %lld", (long long)rank->rank);
}

static void add_probability(struct buf *out, double p)
{
	if (p > 0.9995)
		buf_add_str(out, "a probability above 0.999");
	else
		buf_printf(out, "probability %.3f", p);
}

/* Who rose first may have come down again: that is no leak. */
static void add_given_back(struct buf *out, const struct first_cause *f)
{
	const struct rise *rise = f->candidates[0].rise;

	if (!f->candidates[0].is_given_back)
		return;
	buf_add_str(out, " Most of what it gained was given back ");
	finding_add_seconds(out, fmax(rise->gone - rise->onset.median, 0));
	buf_add_str(out, f->has_passed ? " later, while it went on: that passed." : " later.");
}

static void add_first(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	const struct candidate *first = &f->candidates[0];

	(void)a;
	buf_add_str(out, "The memory of ");
	add_rank(out, first->rank);
	buf_add_str(out, " began to rise ");
	finding_add_seconds(out, f->lead);
	buf_add_str(out, " before that of any other of ");
	buf_printf(out, "%zu ranks (", f->n_ranks);
	add_probability(out, first->probability);
	buf_add_str(out, ").");
	if (f->is_apart)
		buf_add_str(out, " The others rose together, but so long after it that nothing "
				 "shows that it has to do with them.");
	add_given_back(out, f);
	add_which(out, f);
}

static void add_alone(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_printf(out, "Of %zu ranks only the memory of ", f->n_ranks);
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " rose then, by ");
	num_add_bytes(out, (uint64_t)rise_gain_bytes(f->candidates[0].rise));
	buf_add_char(out, '.');
	add_given_back(out, f);
	add_which(out, f);
}

/*
 * Whether it was so much later than the likeliest that it is none of those whose order is asked. Of
 * thousands many are never the first by chance.
 */
static bool is_late(const struct first_cause *f, const struct candidate *c)
{
	return c->probability == 0 &&
	       c->rise->onset.low > f->candidates[0].rise->onset.high + LATE_SECONDS;
}

static size_t count_late(const struct first_cause *f)
{
	size_t n = 0;

	for (size_t i = 1; i < f->n_candidates; i++)
		n += is_late(f, &f->candidates[i]);
	return n;
}

static void add_too_close(struct buf *out, const struct rank_analysis *a,
			  const struct first_cause *f)
{
	const struct candidate *first = &f->candidates[0];
	size_t n_late = count_late(f);

	(void)a;
	buf_printf(out,
		   "The memory of %zu of %zu ranks began to rise within so short a time that their "
		   "order is not sure: ",
		   f->n_candidates - n_late, f->n_ranks);
	add_rank(out, first->rank);
	buf_printf(out, " was the first with probability %.3f, ", first->probability);
	if (first->probability < FINDING_NAMED)
		buf_printf(out, "and is named at %.1f.", FINDING_NAMED);
	else
		buf_add_str(out, "but all of them may have begun at once.");
	if (n_late > 0)
		buf_printf(out, " That of %zu more began to rise later.", n_late);
}

static void add_clocks(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	if (f->is_unnamed_host) {
		buf_add_str(out, "The records of ");
		add_rank(out, f->unseen);
		buf_add_str(out, " do not say which host and clock they are of, so their times and "
				 "those of other ranks have no order.");
		return;
	}
	buf_add_str(out, "The clock of the host of ");
	add_rank(out, f->unseen);
	buf_add_str(out,
		    " is synchronised with nothing, so its times and those of other hosts have "
		    "no order.");
}

static bool may_load(const struct first_cause *f)
{
	for (size_t i = 0; i < f->n_candidates; i++)
		if (f->candidates[i].rank == f->unseen)
			return f->candidates[i].rise->may_load;
	return false;
}

static void add_unseen(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	if (may_load(f)) {
		buf_add_str(out, "The memory of ");
		add_rank(out, f->unseen);
		buf_add_str(out,
			    " multiplied and rested before it rose again, as that of a program "
			    "does that loads; the others do not, so nobody knows which it was.");
		return;
	}
	if (f->unseen == f->candidates[0].rank) {
		buf_add_str(out, "The memory of ");
		add_rank(out, f->unseen);
		buf_add_str(out, " rose already when its record began, so nobody saw it begin.");
		return;
	}
	buf_add_str(out, "The first that was seen to rise is ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, ", but the record of ");
	add_rank(out, f->unseen);
	buf_add_str(out, " does not show when that one did.");
}

static void add_loaded(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	const struct rise_list *list = &f->rises[f->unseen - a->ranks];

	buf_add_str(out, "The first that was seen to rise is ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, ", but the memory of ");
	add_rank(out, f->unseen);
	buf_add_str(out, " rose by ");
	num_add_bytes(out, (uint64_t)(list->loaded_mib * BYTES_PER_MIB));
	buf_add_str(out, " at its start: that may be the same, and first.");
}

static void add_missing(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	for (size_t i = 0; i < a->n_missing && i < f->n_missing && i < MAX_NAMED; i++)
		buf_printf(out, "%s%lld", i ? ", " : "", (long long)a->missing[i]);
	if (f->n_missing > MAX_NAMED)
		buf_printf(out, " and %llu more", (unsigned long long)f->n_missing - MAX_NAMED);
}

static void add_unrecorded(struct buf *out, const struct rank_analysis *a,
			   const struct first_cause *f)
{
	bool has_risen = f->n_candidates > 0;
	bool is_one_first = has_risen && !(f->candidates[0].probability < FINDING_NAMED);

	buf_add_str(out, "Of the ranks with a record ");
	if (is_one_first)
		add_rank(out, f->candidates[0].rank);
	buf_printf(out, "%s, but there is no record of rank%s ",
		   is_one_first ? " rose first"
		   : has_risen	? "none rose before the others"
				: "none rose",
		   f->n_missing == 1 ? "" : "s");
	add_missing(out, a, f);
	buf_add_str(out, has_risen ? ", which may have risen before." : ", which may have.");
}

static const struct candidate *find_largest(const struct first_cause *f)
{
	const struct candidate *large = NULL;

	for (size_t i = 0; i < f->n_candidates; i++) {
		const struct candidate *c = &f->candidates[i];

		if (c->main && (!large || c->main->gain_mib > large->main->gain_mib))
			large = c;
	}
	return large;
}

/* An episode has one that is large. */
static void add_small(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	const struct candidate *large = find_largest(f);

	(void)a;
	if (f->candidates[0].probability < FINDING_NAMED) {
		buf_add_str(out, "Several ranks rise first, ");
		add_rank(out, f->candidates[0].rank);
		buf_add_str(out, " among them");
	} else {
		buf_add_str(out, "The first to rise is ");
		add_rank(out, f->candidates[0].rank);
	}
	buf_add_str(out, ", but by ");
	num_add_bytes(out, (uint64_t)rise_gain_bytes(f->candidates[0].rise));
	buf_add_str(out, " only, which is little beside ");
	num_add_bytes(out, (uint64_t)rise_gain_bytes(large->main));
	buf_add_str(out, " of ");
	add_rank(out, large->rank);
	buf_add_str(out, " that follow, and may have nothing to do with it.");
}

static void add_unrelated(struct buf *out, const struct rank_analysis *a,
			  const struct first_cause *f)
{
	(void)a;
	buf_printf(out, "%zu ranks rose, ", f->n_risen);
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out,
		    " among the first, but as far apart as ranks do that have nothing to do with "
		    "each other: to be the first of them says nothing.");
}

static void add_other_before(struct buf *out, const struct rank_analysis *a,
			     const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The last time the first to rise was ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, ", but the same ranks had risen by about as much before, and the first "
			 "was ");
	add_rank(out, f->unseen);
	buf_add_str(out, " then.");
}

/* "... rank 3 rose by 2 GB, but that of rank 5 ...": what was seen, and who casts doubt. */
static void add_doubted(struct buf *out, const struct first_cause *f, const char *but,
			const char *why)
{
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " rose by ");
	num_add_bytes(out, (uint64_t)rise_gain_bytes(f->candidates[0].rise));
	buf_add_str(out, but);
	add_rank(out, f->unseen);
	buf_add_str(out, why);
}

static void add_may_pass(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The memory of ");
	add_doubted(out, f, " and is up when its record ends, but that of ",
		    " was up as much for as long before it came down again: it may be the "
		    "same, cut by the end.");
}

static void add_usual(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The memory of ");
	add_doubted(out, f, " and came down again, but that of ",
		    " does so again and again: nothing shows that one of them is first.");
}

static void add_thin(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "A sample or two show that the memory of ");
	add_doubted(out, f, ", but samples of ",
		    " stick out about as far, too, and come back at once: it may be one of "
		    "these.");
}

static void add_waves(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The memory of ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, " is the first of those that turned to rise, but ");
	buf_add_str(out, f->candidates[0].rise->lost_mib > 0 ? "it" : "that of the others");
	buf_add_str(out, " had gone down as gently until then: waves turn at a time of their own, "
			 "which is no sign that something went wrong.");
}

static void add_one_rank(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f)
{
	(void)a;
	(void)f;
	buf_add_str(out, "There is one rank only, and nothing to compare it with.");
}

static void add_mixed(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The records of ");
	add_rank(out, f->unseen);
	buf_add_str(out, " are of several processes that take turns: two runs of the job, or two "
			 "jobs of one name, are mixed.");
}

static void add_no_samples(struct buf *out, const struct rank_analysis *a,
			   const struct first_cause *f)
{
	(void)a;
	(void)f;
	buf_add_str(out, "There are no samples.");
}

static void add_few(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	size_t n = f->rises[f->unseen - a->ranks].n_together;

	buf_add_str(out, n < f->unseen->total->n ? "Of each process of " : "Of ");
	add_rank(out, f->unseen);
	buf_printf(out,
		   " there %s %zu sample%s only, which %s too few to tell a rise from scatter.",
		   n == 1 ? "is" : "are", n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
}

static void add_hidden(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	const struct rise_list *list = &f->rises[f->unseen - a->ranks];
	bool is_sure = list->sure_mib > list->clear_mib;

	buf_add_str(out, "No rank is seen to begin to rise, but the memory of ");
	add_rank(out, f->unseen);
	buf_add_str(out, " goes up and down by so much that ");
	num_add_bytes(out,
		      (uint64_t)((is_sure ? list->sure_mib : list->hidden_mib) * BYTES_PER_MIB));
	buf_add_str(out, is_sure ? " and more, which it gained for good, show no beginning."
				 : ", gained for good, would not show.");
}

static void add_no_rise(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "No rank's memory rises and stays up, but for what each loads at its "
			 "start. Less than ");
	num_add_bytes(out, (uint64_t)(f->least_mib * BYTES_PER_MIB));
	buf_add_str(out, " would not show.");
}

static void add_shared(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_printf(out, "The memory of %zu of %zu ranks rises together, that of none by more than ",
		   f->n_candidates, f->n_ranks);
	finding_add_seconds(out, f->lead_below);
	buf_add_str(out, " before the others: that is the workload.");
}

static void add_start(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	(void)a;
	buf_printf(
		out,
		"The memory of %zu of %zu ranks rises, of each as long after its own start as of "
		"the others: that is how the workload begins.",
		f->n_candidates, f->n_ranks);
}

static void add_own_start(struct buf *out, const struct rank_analysis *a,
			  const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The first to rise is ");
	add_rank(out, f->candidates[0].rank);
	buf_add_str(out, ", but it also started as much before the others, which rose together: it "
			 "may have led, or each rises as long after its start.");
}

static void add_in_order(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f)
{
	(void)a;
	buf_add_str(out, "The first to rise is ");
	add_rank(out, f->candidates[0].rank);
	buf_printf(out,
		   ", but %zu of %zu ranks rose in about the order of their starts, each about as "
		   "long after its own: that may be all that makes it the first.",
		   f->n_candidates, f->n_ranks);
}

static void add_collective(struct buf *out, const struct rank_analysis *a,
			   const struct first_cause *f)
{
	(void)a;
	buf_printf(
		out,
		"The memory of %zu of %zu ranks rises around a collective operation, which all of "
		"them take part in: that is the workload.",
		f->n_candidates, f->n_ranks);
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
	buf_add_str(out, ", which is assumed, as not all of them say.");
}

void finding_add_reason(struct buf *out, const struct rank_analysis *a, const struct first_cause *f)
{
	static void (*const add[])(struct buf * out, const struct rank_analysis *a,
				   const struct first_cause *f) = {
		[WHY_FIRST] = add_first,
		[WHY_ALONE] = add_alone,
		[WHY_TOO_CLOSE] = add_too_close,
		[WHY_CLOCKS] = add_clocks,
		[WHY_UNSEEN] = add_unseen,
		[WHY_MISSING] = add_unrecorded,
		[WHY_SMALL] = add_small,
		[WHY_ONE_RANK] = add_one_rank,
		[WHY_NO_RISE] = add_no_rise,
		[WHY_SHARED] = add_shared,
		[WHY_START] = add_start,
		[WHY_COLLECTIVE] = add_collective,
		[WHY_IN_ORDER] = add_in_order,
		[WHY_MIXED] = add_mixed,
		[WHY_OWN_START] = add_own_start,
		[WHY_UNRELATED] = add_unrelated,
		[WHY_OTHER_BEFORE] = add_other_before,
		[WHY_LOADED] = add_loaded,
		[WHY_MAY_PASS] = add_may_pass,
		[WHY_USUAL] = add_usual,
		[WHY_WAVES] = add_waves,
		[WHY_THIN] = add_thin,
		[WHY_NO_SAMPLES] = add_no_samples,
		[WHY_FEW] = add_few,
		[WHY_HIDDEN] = add_hidden,
	};

	add[f->why](out, a, f);
	add_assumed(out, f);
	strays_add_text(out, a);
}
