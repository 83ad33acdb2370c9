/*
 * suggest - "did you mean": the known word that a mistyped one was meant to be.
 */
#pragma once

#include <stddef.h>

/*
 * Keeps the nearest of the words it is shown:
 *
 *	struct suggest s = suggest_for("retrys");
 *	for (…)
 *		suggest_offer(&s, known[i]);
 *	if (s.best) …
 *
 * A word is near if few letters are wrong, missing, too many or swapped, or if
 * one is the beginning of the other; case and '-' for '_' are no difference.
 */
struct suggest {
	const char *word;
	const char *best; /* NULL: nothing near enough */
	size_t distance;
};

struct suggest suggest_for(const char *word);
void suggest_offer(struct suggest *s, const char *candidate);
