/*
 * compat: the reference's rule. A rank is a suspect when its memory rose without a pause
 * by 64 MiB and by a tenth of its peak, at or before the second rank that did so.
 */
#include "crossrank/analysis.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"

#define SPIKE_MIN_BYTES (INT64_C(64) * 1024 * 1024)
#define SPIKE_SHARE 0.10

static int64_t spike_threshold(const struct stream *s)
{
	int64_t max = 0, share;

	for (size_t i = 0; i < s->n; i++)
		max = s->samples[i].used_bytes > max ? s->samples[i].used_bytes : max;
	/* Through a double on purpose: a tenth of a whole number differs above 2^53. */
	share = (int64_t)((double)max * SPIKE_SHARE);
	return share > SPIKE_MIN_BYTES ? share : SPIKE_MIN_BYTES;
}

static bool find_spike(const struct rank *rank, struct suspect *ret)
{
	const struct stream *s = rank->stream;
	int64_t threshold = spike_threshold(s), rise = 0, n_window = 0;

	for (size_t i = 1; i < s->n; i++) {
		int64_t delta = s->samples[i].used_bytes - s->samples[i - 1].used_bytes;

		if (delta <= 0) {
			rise = n_window = 0;
			continue;
		}
		rise += delta;
		n_window++;
		if (rise < threshold)
			continue;
		*ret = (struct suspect){ .rank = rank,
					 .at = &s->samples[i],
					 .aligned_ns = (__int128)s->samples[i].timestamp_ns -
						       rank->offset_ns,
					 .delta_bytes = rise,
					 .n_window = n_window };
		return true;
	}
	return false;
}

/* The earliest first; of those the largest rise, then the lowest rank. */
static int compare_suspects(const void *l, const void *r)
{
	const struct suspect *a = l, *b = r;

	if (a->aligned_ns != b->aligned_ns)
		return a->aligned_ns < b->aligned_ns ? -1 : 1;
	if (a->delta_bytes != b->delta_bytes)
		return a->delta_bytes > b->delta_bytes ? -1 : 1;
	return (a->rank->rank > b->rank->rank) - (a->rank->rank < b->rank->rank);
}

/* Ranks with one sample can show no rise. */
static int note_insufficient(struct rank_analysis *a, size_t *ret_n)
{
	int64_t *ranks = arena_alloc(&a->arena, a->n_ranks * sizeof(*ranks));
	size_t n = 0;

	if (!ranks)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].stream->n < 2)
			ranks[n++] = a->ranks[i].rank;
	*ret_n = n;
	if (n == 0)
		return 0;
	return analysis_add_note(a, &(struct note){ .code = NOTE_INSUFFICIENT_SAMPLES,
						    .ranks = ranks,
						    .n_ranks = n,
						    .n_ranks_all = n });
}

static const char *confidence_of(const struct rank_analysis *a, const struct suspect *s,
				 bool is_sparse, bool is_alone)
{
	const struct suspect *first = &a->suspects[0];

	if (!a->has_cluster_onset || s->aligned_ns != first->aligned_ns)
		return "low";
	if (is_alone && !is_sparse &&
	    (a->median_interval_ns <= 0 || s->lead_ns >= a->median_interval_ns))
		return "high";
	return is_sparse ? "low" : "medium";
}

static int fill_suspects(struct rank_analysis *a, bool is_sparse)
{
	size_t n_first = 0;
	int r = 0;

	for (size_t i = 0; i < a->n_suspects; i++)
		n_first += a->suspects[i].aligned_ns == a->suspects[0].aligned_ns;
	for (size_t i = 0; r == 0 && i < a->n_suspects; i++) {
		struct suspect *s = &a->suspects[i];
		const struct identity *id = &a->telemetry->identities[s->at->identity];

		s->lead_ns = a->has_cluster_onset ? a->cluster_onset_ns - s->aligned_ns : 0;
		s->confidence = confidence_of(a, s, is_sparse, n_first == 1);
		r = phases_resolve(&a->phases, s->at->timestamp_ns, id->session_id, s->rank->rank,
				   &s->phase);
	}
	return r;
}

/* Only those at or before the onset of the second are suspects. */
static void keep_first(struct rank_analysis *a)
{
	__int128 cutoff = a->suspects[0].aligned_ns;
	size_t n = 0;

	if (a->n_suspects >= 2) {
		a->has_cluster_onset = true;
		a->cluster_onset_ns = cutoff = a->suspects[1].aligned_ns;
	}
	while (n < a->n_suspects && a->suspects[n].aligned_ns <= cutoff)
		n++;
	a->n_suspects = n;
}

int analysis_find_suspects(struct rank_analysis *a)
{
	size_t n_insufficient = 0;
	int r;

	if (a->n_ranks == 0)
		return 0;
	if (a->n_ranks == 1)
		return analysis_add_note(a, &(struct note){ .code = NOTE_SINGLE_RANK });
	r = note_insufficient(a, &n_insufficient);
	a->suspects = calloc(a->n_ranks, sizeof(*a->suspects));
	if (r < 0 || !a->suspects)
		return r < 0 ? r : -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		a->n_suspects += find_spike(&a->ranks[i], &a->suspects[a->n_suspects]);
	if (a->n_suspects == 0)
		return analysis_add_note(a, &(struct note){ .code = NOTE_NO_SPIKES });
	qsort(a->suspects, a->n_suspects, sizeof(*a->suspects), compare_suspects);
	if (a->n_suspects == 1)
		r = analysis_add_note(a, &(struct note){ .code = NOTE_ONLY_ONE_SPIKE });
	keep_first(a);
	return r < 0 ? r : fill_suspects(a, a->n_missing_all > 0 || n_insufficient > 0);
}
