/*
 * wording - the finding as sentences and as JSON.
 */
#pragma once

#include "base/json.h"
#include "crossrank/finding.h"

const char *finding_verdict_name(enum verdict verdict);
const char *finding_why_name(enum why why);
const char *finding_kind(const struct first_cause *f); /* "alone", "first"; NULL: none is named */

/* "CULPRIT rank 5 (node3, pid 1234)", "INCONCLUSIVE", "NO CULPRIT", "TRANSIENT rank 5 (…)". */
void finding_add_headline(struct buf *out, const struct first_cause *f);

/* One sentence, or two: the answer and its evidence. */
void finding_add_reason(struct buf *out, const struct rank_analysis *a,
			const struct first_cause *f);

/* What the answer rests on, if anything: " That holds if …". Part of the reason. */
void finding_add_caveats(struct buf *out, const struct rank_analysis *a,
			 const struct first_cause *f);

/* What would decide it; nothing unless the verdict is "cannot tell". */
void finding_add_remedy(struct buf *out, const struct first_cause *f);

/* "+2.1 MB/s", or "+1.4 GB at once". */
void finding_add_growth(struct buf *out, const struct culprit_rise *rise);

/* "12 ms" or "2.1 s": in a sentence one unit is enough. */
void finding_add_seconds(struct buf *out, double seconds);

/* The members of an object: the summary of the reference, then finding, ranks, memory and steps. */
void summary_write_all(struct json *j, const struct rank_analysis *a);
