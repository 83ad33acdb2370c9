#include "crossrank/merging/rank_phases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* ---- spans ---- */

static int compare_owners(const struct boundary *a, const struct boundary *b)
{
	return text_compare(a->session_id, b->session_id) ?: COMPARE(a->rank, b->rank);
}

/* By owner and thread, then as they are replayed. What is equal stays as it came. */
static int compare_boundaries(const void *l, const void *r)
{
	const struct boundary *a = *(const struct boundary *const *)l;
	const struct boundary *b = *(const struct boundary *const *)r;
	int order = compare_owners(a, b);

	order = order ?: COMPARE(a->thread_id, b->thread_id);
	order = order ?: COMPARE(a->timestamp_ns, b->timestamp_ns);
	order = order ?: COMPARE(a->sequence, b->sequence);
	order = order ?: text_compare(a->scope_id, b->scope_id);
	return order ?: COMPARE(a, b);
}

static int compare_spans(const void *l, const void *r)
{
	const struct span *a = l, *b = r;
	int order = compare_owners(a->opened, b->opened);

	order = order ?: COMPARE(a->opened->timestamp_ns, b->opened->timestamp_ns);
	order = order ?: COMPARE(a->end_ns, b->end_ns);
	return order ?: COMPARE(a->opened, b->opened);
}

/* The records of a rank's session end here. */
struct session_end {
	struct boundary owner; /* only session_id and rank */
	int64_t last_ns;
};

static int compare_ends(const void *l, const void *r)
{
	return compare_owners(&((const struct session_end *)l)->owner,
			      &((const struct session_end *)r)->owner);
}

/* One for each session of each rank, in order; the telemetry's. -ENOMEM. */
static int find_ends(struct telemetry *t, struct session_end **ret, size_t *ret_n)
{
	struct session_end *ends = arena_alloc(&t->arena, (t->n_identities + 1) * sizeof(*ends));
	size_t n = 0, n_kept = 0;

	if (!ends)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_identities; i++)
		if (t->identities[i].session_id.s)
			ends[n++] =
				(struct session_end){ { .session_id = t->identities[i].session_id,
							.rank = t->identities[i].rank },
						      t->identities[i].last_ns };
	qsort(ends, n, sizeof(*ends), compare_ends);
	for (size_t i = 0; i < n; i++) {
		if (n_kept == 0 || compare_ends(&ends[n_kept - 1], &ends[i]) != 0)
			ends[n_kept++] = ends[i];
		else if (ends[i].last_ns > ends[n_kept - 1].last_ns)
			ends[n_kept - 1].last_ns = ends[i].last_ns;
	}
	*ret = ends;
	*ret_n = n_kept;
	return 0;
}

int phases_init(struct phases *p, struct telemetry *t)
{
	size_t n = t->n_boundaries, n_ends;
	CLEANUP(free_ptr) const struct boundary **order = calloc(n + 1, sizeof(*order));
	CLEANUP(free_ptr) const struct boundary **stack = calloc(n + 1, sizeof(*stack));
	struct session_end *ends;

	*p = (struct phases){ .telemetry = t, .spans = calloc(n + 1, sizeof(*p->spans)) };
	if (!order || !stack || !p->spans || find_ends(t, &ends, &n_ends) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = &t->boundaries[i];
	qsort(order, n, sizeof(*order), compare_boundaries);
	/* Replays one thread after the other. */
	for (size_t from = 0, i; from < n; from = i) {
		const struct session_end *end;
		size_t depth = 0;

		for (i = from; i < n && compare_owners(order[from], order[i]) == 0 &&
			       order[from]->thread_id == order[i]->thread_id;
		     i++) {
			if (order[i]->is_enter)
				stack[depth++] = order[i];
			else if (depth > 0 &&
				 text_equals(stack[depth - 1]->scope_id, order[i]->scope_id))
				p->spans[p->n++] =
					(struct span){ stack[--depth], order[i]->thread_name,
						       order[i]->timestamp_ns, false };
		}
		if (depth == 0)
			continue;
		end = bsearch(&(struct session_end){ .owner = *stack[0] }, ends, n_ends,
			      sizeof(*ends), compare_ends);
		for (size_t k = 0; k < depth; k++)
			p->spans[p->n++] =
				(struct span){ stack[k], stack[k]->thread_name,
					       end ? end->last_ns : stack[0]->timestamp_ns, true };
	}
	qsort(p->spans, p->n, sizeof(*p->spans), compare_spans);
	return 0;
}

void phases_release(struct phases *p)
{
	free(p->spans);
	*p = (struct phases){ 0 };
}

const struct span *phases_of(const struct phases *p, struct text session_id, int64_t rank,
			     size_t *ret_n)
{
	struct boundary owner = { .session_id = session_id, .rank = rank };
	size_t low = 0, high = p->n, n = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_owners(p->spans[middle].opened, &owner) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (session_id.s && low + n < p->n &&
	       compare_owners(p->spans[low + n].opened, &owner) == 0)
		n++;
	*ret_n = n;
	return p->spans + low;
}

/* ---- which phase a moment was in ---- */

/* The later one first. */
static int compare_recency(const struct boundary *a, const struct boundary *b)
{
	return COMPARE(b->sequence, a->sequence) ?: text_compare(b->scope_id, a->scope_id);
}

/* By thread; in each the deepest first, and of those the latest. */
static int compare_active(const void *l, const void *r)
{
	const struct span *a = *(const struct span *const *)l, *b = *(const struct span *const *)r;
	int order = COMPARE(a->opened->thread_id, b->opened->thread_id);

	order = order ?: COMPARE(b->opened->depth, a->opened->depth);
	order = order ?: compare_recency(a->opened, b->opened);
	return order ?: COMPARE(a, b);
}

static int compare_labels(const void *l, const void *r)
{
	return text_compare(*(const struct text *)l, *(const struct text *)r);
}

int phases_resolve(const struct phases *p, int64_t timestamp_ns, struct text session_id,
		   int64_t rank, struct phase_place *ret)
{
	size_t n_all, n = 0, n_paths = 0;
	const struct span *spans = phases_of(p, session_id, rank, &n_all), *first = NULL;
	CLEANUP(free_ptr) const struct span **active = calloc(n_all + 1, sizeof(*active));
	const struct boundary *latest;
	bool disagrees = false; /* threads, or equally deep spans of one, have different paths */

	*ret = (struct phase_place){ 0 };
	if (!active)
		return -ENOMEM;
	for (size_t i = 0; i < n_all; i++)
		if (spans[i].opened->timestamp_ns <= timestamp_ns &&
		    timestamp_ns <= spans[i].end_ns)
			active[n++] = &spans[i];
	if (n == 0)
		return 0;
	qsort(active, n, sizeof(*active), compare_active);
	ret->paths = arena_alloc(&p->telemetry->arena, n * sizeof(*ret->paths));
	if (!ret->paths)
		return -ENOMEM;
	latest = active[0]->opened;
	/* The paths of the deepest spans of each thread. */
	for (size_t i = 0; i < n; i++) {
		const struct boundary *b = active[i]->opened;

		if (compare_recency(b, latest) < 0)
			latest = b;
		if (!first || first->opened->thread_id != b->thread_id) {
			disagrees |= first != NULL;
			first = active[i];
		} else if (b->depth != first->opened->depth) {
			continue;
		}
		disagrees |= !text_equals(b->label, first->opened->label);
		ret->paths[n_paths++] = b->label;
	}
	qsort(ret->paths, n_paths, sizeof(*ret->paths), compare_labels);
	for (size_t i = 0; i < n_paths; i++)
		if (i == 0 || !text_equals(ret->paths[ret->n_paths - 1], ret->paths[i]))
			ret->paths[ret->n_paths++] = ret->paths[i];
	if (!disagrees)
		ret->only = first;
	else if (ret->n_paths > 1)
		ret->likely = latest->label;
	return 0;
}

/* Adds a path where it belongs among those of a time, unless it is there or they are too many. */
static void add_path(struct phase_place *place, struct text path)
{
	size_t at = 0;

	while (at < place->n_paths && text_compare(place->paths[at], path) < 0)
		at++;
	if (place->n_paths == PHASES_MAX_BETWEEN ||
	    (at < place->n_paths && text_equals(place->paths[at], path)))
		return;
	memmove(&place->paths[at + 1], &place->paths[at],
		(place->n_paths - at) * sizeof(place->paths[0]));
	place->paths[at] = path;
	place->n_paths++;
}

static uint64_t distance(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static bool has_boundary(const struct span *spans, size_t n, const struct phase_time *time)
{
	for (size_t i = 0; i < n; i++) {
		int64_t from = spans[i].opened->timestamp_ns, to = spans[i].end_ns;

		if ((from > time->low_ns && from <= time->high_ns) ||
		    (to >= time->low_ns && to < time->high_ns))
			return true;
	}
	return false;
}

int phases_resolve_between(const struct phases *p, const struct phase_time *time,
			   struct text session_id, int64_t rank, struct phase_place *ret)
{
	const int64_t moments[] = { time->low_ns, time->middle_ns, time->high_ns };
	struct phase_place places[ARRAY_SIZE(moments)], all = { .is_crossed = true };
	const struct boundary *nearest = NULL; /* of those that begin in it, to the middle */
	size_t n, last = ARRAY_SIZE(moments) - 1;
	const struct span *spans = phases_of(p, session_id, rank, &n);

	if (!has_boundary(spans, n, time))
		return phases_resolve(p, time->middle_ns, session_id, rank, ret);
	all.paths = arena_alloc(&p->telemetry->arena, PHASES_MAX_BETWEEN * sizeof(*all.paths));
	if (!all.paths)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(moments); i++) {
		int r = phases_resolve(p, moments[i], session_id, rank, &places[i]);

		if (r < 0)
			return r;
		all.may_be_none |= places[i].n_paths == 0;
		for (size_t k = 0; k < places[i].n_paths; k++)
			add_path(&all, places[i].paths[k]);
	}
	/* A phase that begins in that time is the deepest of its thread then. */
	for (size_t i = 0; i < n; i++) {
		const struct boundary *opened = spans[i].opened;

		if (opened->timestamp_ns <= time->low_ns || opened->timestamp_ns > time->high_ns)
			continue;
		add_path(&all, opened->label);
		/* Of several that begin at once the last is the deepest. */
		if (!nearest || distance(opened->timestamp_ns, time->middle_ns) <=
					distance(nearest->timestamp_ns, time->middle_ns))
			nearest = opened;
	}
	/* One path: steps of one name, say. */
	*ret = all.n_paths == 1 && !all.may_be_none ? places[1] : all;
	if (!ret->is_crossed || all.n_paths == 0)
		return 0;
	/* Of those that go on the last one's is the better guess, if there is one. */
	while (last > 0 && places[last].n_paths == 0)
		last--;
	ret->likely = nearest		      ? nearest->label
		      : places[last].likely.s ? places[last].likely
					      : places[last].paths[0];
	return 0;
}
