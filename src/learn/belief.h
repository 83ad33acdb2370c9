/*
 * belief - what becomes of findings: they are frozen, confirmed, retired.
 *
 * A supported finding becomes a pattern: a rule with its threshold, the two failure rates that
 * it predicts and the sentence about the runs it was found on, which never change. Runs that
 * began after all of these had ended are unseen, and judge it:
 *  - confirmed: looked at when there are 8, 16, 32… of them, with 3 failures and 3
 *    passes, Fisher's exact test on them alone, to the side that was predicted, gives
 *    p <= 0.025, 0.0125…; and the rule's Brier score is below that of the base rate. The
 *    looks are counted with the pattern: none is spent twice.
 *  - retired: among the newest 20 (at least 10), 40, 80 or 160 the Brier score is no better
 *    than the base rate's, and a rule that held would come out so in one case in 2,000: it has
 *    stopped holding. That all pass now, or all fail, is a reason like any other.
 * Noise is supported in 5 % of analyses, and there are many: so one that was not confirmed,
 * and that an analysis of its class does not find again, has lapsed until one does.
 * What is retired stays listed. What runs that ended later support all by themselves is a new
 * pattern beside it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "learn/failure_analysis.h"
#include "learn/compat_correlation.h"
#include "model/run_record.h"

/*
 * Brings the patterns up to date: judges those there are by the runs that ended
 * since, adds what was found anew. patterns is as it was after the last
 * analysis; strings of new ones go into its arena. -ENOMEM.
 */
int beliefs_update(struct pattern_list *patterns, const struct analysis *found,
		   const struct run_record *runs, size_t n_runs, uint64_t now_wall_ns);

/* The correlations to be stored; others of the list are left alone. -ENOMEM. */
int beliefs_note_compat(struct pattern_list *patterns, const struct compat *compat,
			uint64_t now_wall_ns);

/* "supported", "lapsed", "confirmed", "retired"; of a correlation "correlation", of an anomaly
 * "anomaly". */
const char *belief_state(const struct pattern *p);

void belief_write_json(struct json *j, const struct pattern *p);
