#include "base/suggest.h"

#include <string.h>

#include "base/utf8.h"

#define WORD_MAX 32 /* longer ones are not compared */

static char fold(char c)
{
	return c == '-' ? '_' : ascii_to_lower(c);
}

/* Letters to replace, insert, delete or swap with their neighbour to make b of a. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t d[WORD_MAX + 1][WORD_MAX + 1];

	for (size_t i = 0; i <= na; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= nb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= na; i++)
		for (size_t j = 1; j <= nb; j++) {
			bool is_same = fold(a[i - 1]) == fold(b[j - 1]);
			bool is_swap = i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
				       fold(a[i - 2]) == fold(b[j - 1]);

			d[i][j] = d[i - 1][j - 1] + !is_same;
			if (d[i - 1][j] + 1 < d[i][j])
				d[i][j] = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < d[i][j])
				d[i][j] = d[i][j - 1] + 1;
			if (is_swap && d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = d[i - 2][j - 2] + 1;
		}
	return d[na][nb];
}

static bool begins_with(const char *word, const char *start, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fold(word[i]) != fold(start[i]))
			return false;
	return true;
}

struct suggest suggest_for(const char *word)
{
	return (struct suggest){ word, NULL, 0 };
}

void suggest_offer(struct suggest *s, const char *candidate)
{
	size_t na = strlen(s->word), nb = strlen(candidate), shorter = na < nb ? na : nb;
	size_t distance, limit = (na + nb + 3) / 5;

	if (na == 0 || na > WORD_MAX || nb > WORD_MAX)
		return;
	distance = edit_distance(s->word, na, candidate, nb);
	/* "job" for "job_id": many letters are missing and still it is plain what is meant. */
	if (shorter >= 3 && begins_with(s->word, candidate, shorter))
		distance = 1;
	if (distance > limit || distance >= na || (s->best && s->distance <= distance))
		return;
	s->best = candidate;
	s->distance = distance;
}
