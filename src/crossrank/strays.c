#include "crossrank/strays.h"

#include <errno.h>

#include "base/hash.h"
#include "base/macros.h"

#define MAX_PROCESSES 16 /* of one rank; where there are more none is stray */
#define PER_STRAY 100	 /* records of a rank: so many for each that is stray */
#define MAX_STRAYS 16	 /* of one rank */

uint64_t strays_process(const struct identity *id)
{
	uint64_t h = hash_bytes(HASH_INIT, &id->pid, sizeof(id->pid));

	return hash_bytes(h, id->host.s, id->host.n);
}

/* A process of a rank, with its first and last record. */
struct process {
	uint64_t key;
	size_t n, first, last;
	double from, to; /* when these were */
};

struct processes {
	struct process items[MAX_PROCESSES];
	size_t n;
	bool is_full; /* there are more */
};

static struct process *find_process(struct processes *p, uint64_t key)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].key == key)
			return &p->items[i];
	p->is_full |= p->n == MAX_PROCESSES;
	if (p->is_full)
		return NULL;
	p->items[p->n] = (struct process){ .key = key };
	return &p->items[p->n++];
}

static void list_processes(const struct telemetry *t, const struct stream *s, struct processes *ret)
{
	for (size_t from = 0, to; from < s->n && !ret->is_full; from = to) {
		uint32_t identity = s->samples[from].identity;
		struct process *p = find_process(ret, strays_process(&t->identities[identity]));

		for (to = from + 1; to < s->n && s->samples[to].identity == identity;)
			to++;
		if (!p)
			return;
		p->first = p->n ? p->first : from;
		p->last = to - 1;
		p->from = (double)s->samples[p->first].timestamp_ns;
		p->to = (double)s->samples[p->last].timestamp_ns;
		p->n += to - from;
	}
}

static const struct process *find_main(const struct processes *p)
{
	const struct process *main = &p->items[0];

	for (size_t i = 1; i < p->n; i++)
		main = p->items[i].n > main->n ? &p->items[i] : main;
	return main;
}

/*
 * One that was there before or is there after the main one is a program that was started again,
 * but for a time between them as long as all of the main one: that is another run.
 */
static bool is_stray(const struct process *p, const struct process *main)
{
	double length = main->to - main->from;

	if (p == main)
		return false;
	return (p->first > main->first && p->last < main->last) || main->from - p->to > length ||
	       p->from - main->to > length;
}

/* How many records are stray; 0, too, where they are so many that two runs are mixed. */
static size_t count_strays(const struct processes *p)
{
	const struct process *main = find_main(p);
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += is_stray(&p->items[i], main) ? p->items[i].n : 0;
	return n <= MAX_STRAYS && n * PER_STRAY <= main->n ? n : 0;
}

static int copy_own(struct rank_analysis *a, struct rank *rank, struct processes *p)
{
	const struct process *main = find_main(p);
	struct stream *own = arena_alloc(&a->arena, sizeof(*own));
	const struct stream *s = rank->stream;

	if (!own)
		return -ENOMEM;
	*own = (struct stream){ .rank = rank->rank, .is_sorted = true };
	own->samples = arena_alloc(&a->arena, s->n * sizeof(*own->samples));
	if (!own->samples)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		const struct identity *id = &a->telemetry->identities[s->samples[i].identity];

		if (!is_stray(find_process(p, strays_process(id)), main))
			own->samples[own->n++] = s->samples[i];
	}
	rank->own = own;
	return 0;
}

int strays_leave_out(struct rank_analysis *a)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n_ranks; i++) {
		struct rank *rank = &a->ranks[i];
		struct processes processes = { .n = 0 };

		rank->own = rank->stream;
		list_processes(a->telemetry, rank->stream, &processes);
		rank->n_strays = processes.is_full ? 0 : count_strays(&processes);
		if (rank->n_strays > 0)
			r = copy_own(a, rank, &processes);
	}
	return r;
}

size_t strays_count_ranks(const struct rank_analysis *a)
{
	size_t n = 0, n_records = 0;

	while (n < a->n_ranks && a->declared_size > 1 &&
	       a->ranks[a->n_ranks - 1 - n].rank >= a->declared_size)
		n_records += a->ranks[a->n_ranks - 1 - n++].stream->n;
	/* All others have that many each, or it is no stray. */
	for (size_t i = 0; i + n < a->n_ranks; i++)
		if (n_records * PER_STRAY > a->ranks[i].stream->n)
			return 0;
	return n < a->n_ranks && n_records <= MAX_STRAYS ? n : 0;
}

uint64_t strays_count(const struct rank_analysis *a)
{
	uint64_t n = 0;

	for (size_t i = 0; i < a->n_ranks; i++)
		n += a->ranks[i].n_strays;
	return n;
}

static void add_records(struct buf *out, const struct rank_analysis *a)
{
	uint64_t n = strays_count(a);
	const struct rank *rank = a->ranks;

	if (n == 0)
		return;
	while (rank->n_strays == 0)
		rank++;
	buf_printf(out, " %llu record%s of other processes, which stand%s with those of rank %lld",
		   (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "s" : "",
		   (long long)rank->rank);
	buf_printf(out, "%s, %s left out.", rank->n_strays < n ? " and others" : "",
		   n == 1 ? "was" : "were");
}

static void add_ranks(struct buf *out, const struct rank_analysis *a, size_t n)
{
	if (n == 1)
		buf_printf(out, " Rank %lld, which has a few records only and is",
			   (long long)a->ranks[a->n_ranks - 1].rank);
	else
		buf_printf(out, " %zu ranks, which have a few records only and are", n);
	buf_printf(out, " none of the %lld that most records tell of, %s left out.",
		   (long long)a->declared_size, n == 1 ? "is" : "are");
}

void strays_add_text(struct buf *out, const struct rank_analysis *a)
{
	if (strays_count_ranks(a) > 0)
		add_ranks(out, a, strays_count_ranks(a));
	add_records(out, a);
}
