#include "crossrank/finding.h"

static const char *const verdicts[] = {
	[VERDICT_NAMED] = "named",
	[VERDICT_CANNOT_TELL] = "cannot_tell",
	[VERDICT_NONE] = "none",
};

static const char *const whys[] = {
	[WHY_FIRST] = "began_first",
	[WHY_ALONE] = "rose_alone",
	[WHY_TOO_CLOSE] = "onsets_overlap",
	[WHY_CLOCKS] = "clock_not_synchronised",
	[WHY_UNSEEN] = "beginning_not_recorded",
	[WHY_LOADED] = "load_or_rise",
	[WHY_MISSING] = "ranks_not_recorded",
	[WHY_SMALL] = "first_rise_is_smaller",
	[WHY_UNRELATED] = "rises_unrelated",
	[WHY_OTHER_BEFORE] = "another_rank_before",
	[WHY_MAY_PASS] = "may_be_given_back",
	[WHY_USUAL] = "others_do_that_often",
	[WHY_THIN] = "samples_stick_out",
	[WHY_WAVES] = "memory_in_waves",
	[WHY_ONE_RANK] = "only_one_rank",
	[WHY_OWN_START] = "started_first_too",
	[WHY_IN_ORDER] = "in_order_of_starts",
	[WHY_MIXED] = "ranks_recorded_twice",
	[WHY_NO_SAMPLES] = "no_samples",
	[WHY_FEW] = "too_few_samples",
	[WHY_HIDDEN] = "rise_may_be_hidden",
	[WHY_NO_RISE] = "no_rise",
	[WHY_SHARED] = "shared_by_all",
	[WHY_START] = "start_of_each_rank",
	[WHY_COLLECTIVE] = "collective_operation",
};

const char *finding_verdict_name(enum verdict verdict)
{
	return verdicts[verdict];
}

const char *finding_why_name(enum why why)
{
	return whys[why];
}
