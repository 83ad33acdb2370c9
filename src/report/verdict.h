/*
 * verdict - what ended the attempt, in one word, one sentence, and its evidence.
 */
#ifndef PROCTOR_REPORT_VERDICT_H
#define PROCTOR_REPORT_VERDICT_H

#include "base/buf.h"
#include "report/facts.h"

/* "success", "failure", …, "running", "lost"; "unknown" when nobody said. */
const char *verdict_word(const struct facts *f);

/* "sheet 5 (fail) ended with exit code 3 after 204 ms; sheets 1-4 succeeded": no full stop. */
void verdict_add_sentence(struct buf *out, const struct facts *f);

/* Why the verdict is what it is, as the runner wrote it down; "" when it did not. */
void verdict_add_evidence(struct buf *out, const struct facts *f);

#endif
