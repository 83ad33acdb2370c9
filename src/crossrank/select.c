/*
 * Which samples belong together: those of the most common job, by rank, and how
 * many ranks there should be. What is most common is counted over identities, of which
 * there are few; of equals it is the one seen first.
 */
#include "crossrank/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/jtree.h"

typedef int compare_fn(const void *a, const void *b);

static const struct identity *identity_at(const void *p)
{
	return *(const struct identity *const *)p;
}

static int compare_jobs(const void *l, const void *r)
{
	struct text a = identity_at(l)->job_id, b = identity_at(r)->job_id;
	int order = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);

	return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int compare_world_sizes(const void *l, const void *r)
{
	int64_t a = identity_at(l)->world_size, b = identity_at(r)->world_size;

	return (a > b) - (a < b);
}

struct winner {
	const struct identity *identity; /* one of the most common kind; NULL: none */
	uint64_t n_samples, first_sample;
	size_t n_kinds;
};

/* Kinds are runs of equal identities. */
static struct winner most_common(const struct identity **ids, size_t n, compare_fn *compare)
{
	struct winner best = { 0 };

	qsort(ids, n, sizeof(*ids), compare);
	for (size_t i = 0; i < n;) {
		struct winner kind = { .identity = ids[i], .first_sample = UINT64_MAX };
		size_t first = i;

		for (; i < n && compare(&ids[first], &ids[i]) == 0; i++) {
			kind.n_samples += ids[i]->n_samples;
			if (ids[i]->first_sample < kind.first_sample)
				kind.first_sample = ids[i]->first_sample;
		}
		kind.n_kinds = best.n_kinds + 1;
		if (kind.n_samples > best.n_samples ||
		    (kind.n_samples == best.n_samples && kind.first_sample < best.first_sample))
			best = kind;
		best.n_kinds = kind.n_kinds;
	}
	return best;
}

/* ---- the job ---- */

/* ids are in the order of their jobs. */
static void list_others(struct rank_analysis *a, const struct identity **ids, size_t n)
{
	struct other_job *last = NULL;

	for (size_t i = 0; i < n; i++) {
		bool is_next = i > 0 && compare_jobs(&ids[i - 1], &ids[i]) == 0;

		if (text_equals(ids[i]->job_id, a->job_id))
			continue;
		if (!is_next) {
			a->n_others_all++;
			last = a->n_others < ANALYSIS_MAX_OTHERS ? &a->others[a->n_others++] : NULL;
		}
		if (last)
			*last = (struct other_job){ ids[i]->job_id,
						    last->n_samples + ids[i]->n_samples };
	}
}

/* Where jobs are named a sample that names none is nobody's. */
static void list_unnamed(struct rank_analysis *a)
{
	struct other_job unnamed = { 0 };

	for (size_t i = 0; i < a->telemetry->n_identities; i++)
		if (!a->telemetry->identities[i].job_id.s)
			unnamed.n_samples += a->telemetry->identities[i].n_samples;
	if (unnamed.n_samples == 0)
		return;
	a->n_others_all++;
	if (a->n_others < ANALYSIS_MAX_OTHERS)
		a->others[a->n_others++] = unnamed;
}

static int find_job(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;
	CLEANUP(free_ptr) const struct identity **ids = calloc(t->n_identities + 1, sizeof(*ids));
	struct winner job;
	size_t n = 0;

	a->others = arena_alloc(&a->arena, ANALYSIS_MAX_OTHERS * sizeof(*a->others));
	if (!ids || !a->others)
		return -ENOMEM;
	memset(a->others, 0, ANALYSIS_MAX_OTHERS * sizeof(*a->others));
	for (size_t i = 0; i < t->n_identities; i++)
		if (t->identities[i].n_samples > 0 && t->identities[i].job_id.s)
			ids[n++] = &t->identities[i];
	job = most_common(ids, n, compare_jobs);
	a->job_id = job.identity ? job.identity->job_id : (struct text){ NULL, 0 };
	if (job.n_kinds > 1) {
		list_others(a, ids, n);
		list_unnamed(a);
	}
	return 0;
}

static bool is_of_job(const struct identity *id, struct text job_id)
{
	return id->job_id.s && text_equals(id->job_id, job_id);
}

static void keep_starts(struct telemetry *t, struct text job_id)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_starts; i++)
		if (is_of_job(&t->identities[t->starts[i].identity], job_id))
			t->starts[n++] = t->starts[i];
	t->n_starts = n;
}

static void keep_ends(struct telemetry *t, struct text job_id)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_ends; i++)
		if (is_of_job(&t->identities[t->ends[i].identity], job_id))
			t->ends[n++] = t->ends[i];
	t->n_ends = n;
}

/* Takes out the samples of others. */
static void keep_job(struct telemetry *t, struct text job_id)
{
	keep_starts(t, job_id);
	keep_ends(t, job_id);
	for (size_t i = 0; i < t->n_streams; i++) {
		struct stream *s = &t->streams[i];
		size_t n = 0;

		for (size_t k = 0; k < s->n; k++)
			if (is_of_job(&t->identities[s->samples[k].identity], job_id))
				s->samples[n++] = s->samples[k];
		s->n = n;
	}
	for (size_t i = 0; i < t->n_identities; i++)
		if (!is_of_job(&t->identities[i], job_id))
			t->identities[i].n_samples = 0;
}

int select_job(struct rank_analysis *a)
{
	int r = find_job(a);

	if (r == 0 && a->n_others_all > 0)
		keep_job(a->telemetry, a->job_id);
	return r;
}

/* ---- the ranks ---- */

static int compare_ranks(const void *l, const void *r)
{
	const struct rank *a = l, *b = r;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int compare_seen(const void *l, const void *r)
{
	const struct rank *a = *(const struct rank *const *)l, *b = *(const struct rank *const *)r;

	return (a->first_sample > b->first_sample) - (a->first_sample < b->first_sample);
}

/* The first sample of each rank, among all events. */
static void note_first_samples(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;

	for (size_t i = 0; i < t->n_identities; i++) {
		struct rank key = { .rank = t->identities[i].rank };
		struct rank *rank;

		if (t->identities[i].n_samples == 0)
			continue;
		rank = bsearch(&key, a->ranks, a->n_ranks, sizeof(*a->ranks), compare_ranks);
		if (rank && t->identities[i].first_sample < rank->first_sample)
			rank->first_sample = t->identities[i].first_sample;
	}
}

int select_ranks(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;

	a->ranks = calloc(t->n_streams + 1, sizeof(*a->ranks));
	a->seen_order = calloc(t->n_streams + 1, sizeof(*a->seen_order));
	if (!a->ranks || !a->seen_order)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_streams; i++)
		if (t->streams[i].n > 0)
			a->ranks[a->n_ranks++] = (struct rank){ .rank = t->streams[i].rank,
								.stream = &t->streams[i],
								.first_sample = UINT64_MAX };
	qsort(a->ranks, a->n_ranks, sizeof(*a->ranks), compare_ranks);
	note_first_samples(a);
	for (size_t i = 0; i < a->n_ranks; i++)
		a->seen_order[i] = &a->ranks[i];
	qsort(a->seen_order, a->n_ranks, sizeof(*a->seen_order), compare_seen);
	return 0;
}

/* ---- how many there should be ---- */

int select_world_size(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;
	CLEANUP(free_ptr) const struct identity **ids = calloc(t->n_identities + 1, sizeof(*ids));
	int64_t declared = 1, observed;
	struct winner size;
	size_t n = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_identities; i++)
		if (t->identities[i].n_samples > 0 && t->identities[i].world_size > 1)
			ids[n++] = &t->identities[i];
	size = most_common(ids, n, compare_world_sizes);
	if (size.identity)
		declared = size.identity->world_size;
	a->declared_size = declared;
	/* A rank is below its world_size, so this cannot overflow. */
	observed = a->ranks[a->n_ranks - 1].rank + 1;
	a->world_size = declared > observed ? declared : observed;
	return 0;
}

int select_missing(struct rank_analysis *a)
{
	size_t next = 0;

	a->n_missing_all = (uint64_t)a->world_size - a->n_ranks;
	a->missing = calloc(ANALYSIS_MAX_MISSING, sizeof(*a->missing));
	if (!a->missing)
		return -ENOMEM;
	for (int64_t rank = 0; rank < a->world_size && a->n_missing < ANALYSIS_MAX_MISSING &&
			       a->n_missing < a->n_missing_all;
	     rank++) {
		if (next < a->n_ranks && a->ranks[next].rank == rank)
			next++;
		else
			a->missing[a->n_missing++] = rank;
	}
	return 0;
}
