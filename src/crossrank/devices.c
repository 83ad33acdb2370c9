#include "crossrank/devices.h"

#include <errno.h>

#include "base/macros.h"

#define MAX_DEVICES 64 /* of one rank; more share the last place */

/* What each device had last, and which were seen in this tick. */
struct tick {
	int32_t devices[MAX_DEVICES];
	struct sample last[MAX_DEVICES];
	bool is_seen[MAX_DEVICES];
	size_t n;
	struct sample first; /* of this tick */
	bool has_first;
};

/* The same record once more: files that are given twice make nothing surer. */
static bool is_repeat(const struct sample *a, const struct sample *b)
{
	return a->timestamp_ns == b->timestamp_ns && a->identity == b->identity;
}

/* Whether there is anything to add up, or to leave out. */
static bool has_several(const struct stream *s)
{
	for (size_t i = 1; i < s->n; i++)
		if (s->samples[i].device != s->samples[0].device ||
		    is_repeat(&s->samples[i], &s->samples[i - 1]))
			return true;
	return false;
}

static size_t place_of(struct tick *t, int32_t device)
{
	size_t i = 0;

	while (i < t->n && t->devices[i] != device)
		i++;
	if (i < t->n)
		return i;
	if (t->n == MAX_DEVICES)
		return MAX_DEVICES - 1;
	t->devices[t->n++] = device;
	return i;
}

static int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static struct sample sum_of(const struct tick *t)
{
	struct sample sum = { .timestamp_ns = t->first.timestamp_ns,
			      .identity = t->first.identity };

	for (size_t i = 0; i < t->n; i++) {
		const struct sample *last = &t->last[i];

		sum.used_bytes = add_saturated(sum.used_bytes, last->used_bytes);
		sum.reserved_bytes = add_saturated(sum.reserved_bytes, last->reserved_bytes);
		sum.allocated_bytes = add_saturated(sum.allocated_bytes, last->allocated_bytes);
		sum.change_bytes = add_saturated(sum.change_bytes, last->change_bytes);
	}
	return sum;
}

static void end_tick(struct tick *t, struct stream *to)
{
	if (t->has_first)
		to->samples[to->n++] = sum_of(t);
	for (size_t i = 0; i < t->n; i++)
		t->is_seen[i] = false;
	t->has_first = false;
}

/* A device that comes again, and later, begins the next tick; one that does not keeps what it had.
 */
static void add_up(const struct stream *from, struct stream *to)
{
	struct tick t = { .n = 0 };

	for (size_t i = 0; i < from->n; i++) {
		const struct sample *s = &from->samples[i];
		size_t place = place_of(&t, s->device);

		if (t.is_seen[place] && !is_repeat(s, &t.last[place]))
			end_tick(&t, to);
		if (!t.has_first)
			t.first = *s;
		t.has_first = t.is_seen[place] = true;
		t.last[place] = *s;
	}
	end_tick(&t, to);
}

int devices_add_up(struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++) {
		struct rank *rank = &a->ranks[i];
		struct stream *total;

		rank->total = rank->own;
		if (!has_several(rank->own))
			continue;
		total = arena_alloc(&a->arena, sizeof(*total));
		if (!total)
			return -ENOMEM;
		*total = (struct stream){ .rank = rank->rank, .is_sorted = true };
		total->samples = arena_alloc(&a->arena, rank->own->n * sizeof(struct sample));
		if (!total->samples)
			return -ENOMEM;
		add_up(rank->own, total);
		rank->total = total;
	}
	return 0;
}
