#include "crossrank/sections.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"

#define STRAY 2		/* records of another process are no process of the rank's */
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

/* By program_key(). */
struct programs {
	struct map ends;   /* one more than its last sample */
	struct map counts; /* of its samples */
};

static void programs_release(struct programs *p)
{
	map_release(&p->ends);
	map_release(&p->counts);
}

static int note_programs(const struct rank_analysis *a, const struct stream *s, struct programs *p)
{
	for (size_t from = 0, to; from < s->n; from = to) {
		uint32_t identity = s->samples[from].identity;
		uint64_t key = program_key(&a->telemetry->identities[identity]), count = 0;

		for (to = from + 1; to < s->n && s->samples[to].identity == identity;)
			to++;
		map_get(&p->counts, key, &count);
		if (map_put(&p->ends, key, to) < 0 ||
		    map_put(&p->counts, key, count + to - from) < 0)
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

static uint64_t program_at(const struct rank_analysis *a, const struct stream *s, size_t i)
{
	return program_key(&a->telemetry->identities[s->samples[i].identity]);
}

/* Whether a record or two of another one, before sample i, stand among those of one program. */
static bool is_stray(const struct rank_analysis *a, const struct stream *s, size_t i,
		     const struct programs *p)
{
	uint64_t count = 0, key = program_at(a, s, i);

	map_get(&p->counts, program_at(a, s, i - 1), &count);
	for (size_t k = 2; count <= STRAY && k <= STRAY + 1 && k <= i; k++)
		if (program_at(a, s, i - k) == key)
			return true;
	return false;
}

/* Whether another program begins with sample i. One that comes back has not been replaced: two
 * write at the same time. */
static bool begins(const struct rank_analysis *a, const struct stream *s, size_t i,
		   const struct programs *p)
{
	uint64_t old, end = 0;

	if (s->samples[i].identity == s->samples[i - 1].identity)
		return false;
	old = program_at(a, s, i - 1);
	map_get(&p->ends, old, &end);
	return old != program_at(a, s, i) && end == i && !is_stray(a, s, i, p);
}

static int cut(const struct rank_analysis *a, size_t rank, struct section_list *list)
{
	CLEANUP(programs_release) struct programs programs = { MAP_INIT, MAP_INIT };
	const struct stream *s = a->ranks[rank].total;
	size_t from = 0;
	int r = note_programs(a, s, &programs);

	for (size_t i = 1; r == 0 && i < s->n; i++)
		if (begins(a, s, i, &programs)) {
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
