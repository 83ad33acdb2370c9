#include "crossrank/phases.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/jtree.h"

/* What is gathered of all moments that are looked at. */
struct between {
	struct text paths[PHASES_MAX_BETWEEN]; /* each once, in order */
	size_t n_paths;
	const struct span *nearest; /* of those that begin in it, to the middle; NULL: none does */
	bool may_be_none;
};

static int compare(struct text a, struct text b)
{
	int r = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);

	return r ? r : (a.n > b.n) - (a.n < b.n);
}

static void add_path(struct between *b, struct text path)
{
	size_t at = 0;

	while (at < b->n_paths && compare(b->paths[at], path) < 0)
		at++;
	if (b->n_paths == PHASES_MAX_BETWEEN ||
	    (at < b->n_paths && text_equals(b->paths[at], path)))
		return;
	memmove(&b->paths[at + 1], &b->paths[at], (b->n_paths - at) * sizeof(b->paths[0]));
	b->paths[at] = path;
	b->n_paths++;
}

static void add_place(struct between *b, const struct phase_place *place)
{
	b->may_be_none |= place->n_paths == 0;
	for (size_t i = 0; i < place->n_paths; i++)
		add_path(b, place->paths[i]);
}

static uint64_t distance(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* A phase that begins in that time is the deepest of its thread then. */
static void add_entered(struct between *b, const struct span *spans, size_t n,
			const struct phase_time *time)
{
	for (size_t i = 0; i < n; i++) {
		const struct boundary *opened = spans[i].opened;

		if (opened->timestamp_ns <= time->low_ns || opened->timestamp_ns > time->high_ns)
			continue;
		add_path(b, opened->label);
		/* Of several that begin at once the last is the deepest. */
		if (!b->nearest ||
		    distance(opened->timestamp_ns, time->middle_ns) <=
			    distance(b->nearest->opened->timestamp_ns, time->middle_ns))
			b->nearest = &spans[i];
	}
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

/* Of those that go on: the last one's is the better guess, if there is one. */
static struct text likely_of(const struct between *b, const struct phase_place *places, size_t n)
{
	if (b->nearest)
		return b->nearest->opened->label;
	while (n > 1 && places[n - 1].n_paths == 0)
		n--;
	return places[n - 1].likely.s ? places[n - 1].likely : places[n - 1].paths[0];
}

int phases_resolve_between(const struct phases *p, const struct phase_time *time,
			   struct text session_id, int64_t rank, struct phase_place *ret)
{
	const int64_t moments[] = { time->low_ns, time->middle_ns, time->high_ns };
	struct phase_place places[ARRAY_SIZE(moments)];
	struct between b = { .n_paths = 0 };
	size_t n;
	const struct span *spans = phases_of(p, session_id, rank, &n);

	if (!has_boundary(spans, n, time))
		return phases_resolve(p, time->middle_ns, session_id, rank, ret);
	for (size_t i = 0; i < ARRAY_SIZE(moments); i++) {
		int r = phases_resolve(p, moments[i], session_id, rank, &places[i]);

		if (r < 0)
			return r;
		add_place(&b, &places[i]);
	}
	add_entered(&b, spans, n, time);
	*ret = places[1];
	if (b.n_paths == 1 && !b.may_be_none)
		return 0; /* steps of one name, say */
	*ret = (struct phase_place){ .is_crossed = true, .may_be_none = b.may_be_none };
	if (b.n_paths == 0)
		return 0;
	ret->paths = arena_alloc(&p->telemetry->arena, b.n_paths * sizeof(*ret->paths));
	if (!ret->paths)
		return -ENOMEM;
	memcpy(ret->paths, b.paths, b.n_paths * sizeof(*ret->paths));
	ret->n_paths = b.n_paths;
	ret->likely = likely_of(&b, places, ARRAY_SIZE(moments));
	return 0;
}
