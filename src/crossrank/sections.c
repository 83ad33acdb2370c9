#include "crossrank/sections.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"

#define MOST_SHARE 0.5	/* of the other ranks */
#define LIKE_FACTOR 3.0 /* who loads for a third of the time does the same */

void sections_release(struct section_list *list)
{
	free(list->items);
	*list = (struct section_list){ 0 };
}

/* ---- where a rank was started again ---- */

static uint64_t program_key(const struct identity *id)
{
	uint64_t h = hash_bytes(HASH_INIT, &id->pid, sizeof(id->pid));

	return hash_bytes(h, id->session_id.s, id->session_id.n);
}

/* One more than the last sample of each program. */
static int note_ends(const struct rank_analysis *a, const struct stream *s, struct map *ends)
{
	for (size_t i = 0; i < s->n; i++) {
		bool is_last =
			i + 1 == s->n || s->samples[i].identity != s->samples[i + 1].identity;
		const struct identity *id = &a->telemetry->identities[s->samples[i].identity];

		if (is_last && map_put(ends, program_key(id), i + 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The start that was told of the program that has sample `from` first, behind the one before it. */
static int64_t born_ns(const struct rank_analysis *a, const struct stream *s, size_t from)
{
	int64_t first_ns = s->samples[from].timestamp_ns;
	const struct rank_start *start = telemetry_find_start(a->telemetry, s->rank, first_ns);

	if (!start || (from > 0 && start->timestamp_ns < s->samples[from - 1].timestamp_ns))
		return first_ns;
	return start->timestamp_ns;
}

static int add_section(const struct rank_analysis *a, struct section_list *list, size_t rank,
		       size_t from, size_t to)
{
	const struct stream *s = a->ranks[rank].total;
	struct section *items = list->items;

	if ((list->n & (list->n - 1)) == 0)
		items = reallocarray(items, list->n ? 2 * list->n : 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	items[list->n++] = (struct section){
		.rank = rank,
		.stream = { .rank = s->rank, .samples = s->samples + from, .n = to - from },
		.is_again = from > 0,
		.born_ns = born_ns(a, s, from),
	};
	return 0;
}

/* A program that comes back has not been replaced: two write at the same time. */
static int cut(const struct rank_analysis *a, size_t rank, struct section_list *list)
{
	CLEANUP(map_release) struct map ends = MAP_INIT;
	const struct stream *s = a->ranks[rank].total;
	size_t from = 0;
	int r = note_ends(a, s, &ends);

	for (size_t i = 1; r == 0 && i < s->n; i++) {
		const struct identity *ids = a->telemetry->identities;
		uint64_t old, end = 0;

		if (s->samples[i].identity == s->samples[i - 1].identity)
			continue;
		old = program_key(&ids[s->samples[i - 1].identity]);
		map_get(&ends, old, &end);
		if (old == program_key(&ids[s->samples[i].identity]) || end != i)
			continue;
		r = add_section(a, list, rank, from, i);
		from = i;
	}
	return r < 0 ? r : add_section(a, list, rank, from, s->n);
}

/* ---- what is a start-up ---- */

static double loading_seconds(const struct section *s)
{
	const struct sample *samples = s->stream.samples;

	return (double)(samples[s->start.begin].timestamp_ns - samples[0].timestamp_ns) / 1e9;
}

/* How many other ranks take about as long to load, or longer, after a start of that kind. */
static size_t count_alike(const struct section_list *list, const struct section *s)
{
	double least = loading_seconds(s) / LIKE_FACTOR;
	size_t n = 0, last = s->rank;

	for (size_t i = 0; i < list->n; i++) {
		const struct section *other = &list->items[i];

		if (other->rank == s->rank || other->rank == last ||
		    other->is_again != s->is_again || other->start.begin == 0 ||
		    loading_seconds(other) < least)
			continue;
		last = other->rank;
		n++;
	}
	return n;
}

/* Done for all before any is changed: each is compared with what the others seem to be. */
static void doubt(const struct rank_analysis *a, struct section_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		struct section *s = &list->items[i];

		s->start.is_doubtful =
			s->start.begin > s->start.first &&
			(double)count_alike(list, s) < MOST_SHARE * (double)(a->n_ranks - 1);
	}
	for (size_t i = 0; i < list->n; i++) {
		struct startup *start = &list->items[i].start;

		start->loaded = start->begin;
		if (start->is_doubtful)
			start->begin = start->first;
	}
}

int sections_find(const struct rank_analysis *a, struct section_list *ret)
{
	int r = 0;

	*ret = (struct section_list){ 0 };
	for (size_t i = 0; r == 0 && i < a->n_ranks; i++)
		r = cut(a, i, ret);
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		startup_find(&ret->items[i].stream, ret->items[i].is_again, &ret->items[i].start);
	if (r == 0)
		doubt(a, ret);
	return r;
}
