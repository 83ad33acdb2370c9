/*
 * notes - what could not be measured, and why.
 */
#ifndef PROCTOR_REPORT_NOTES_H
#define PROCTOR_REPORT_NOTES_H

#include <stdbool.h>

struct facts;

/* Whether there is a note about this. */
bool notes_has(const struct facts *f, const char *what);

/*
 * Fills f->notes: what the attempt says itself, then every number of the
 * contract that is missing without a word, and what no part of proctor measured.
 * Reads f->a and f->figures. -ENOMEM.
 */
int notes_collect(struct facts *f);

/* What a note is about, in words: "peak memory of the tree" for "peak_rss_mb"; else what itself. */
const char *notes_in_words(const char *what);

#endif
