/*
 * Which samples belong together: those of the most common job, by rank, and how
 * many ranks there should be. What is most common is counted over identities, of which
 * there are few; of equals it is the one seen first.
 */
#include "crossrank/merging/merging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"

typedef int compare_fn(const void *a, const void *b);

static const struct identity *identity_at(const void *p)
{
	return *(const struct identity *const *)p;
}

/* By name; those that name none are last. */
static int compare_jobs(const void *l, const void *r)
{
	struct text a = identity_at(l)->job_id, b = identity_at(r)->job_id;

	return COMPARE(!a.s, !b.s) ?: text_compare(a, b);
}

static int compare_world_sizes(const void *l, const void *r)
{
	return COMPARE(identity_at(l)->world_size, identity_at(r)->world_size);
}

/* Of n in order one of the most common kind; NULL: there are none. Kinds are runs of equal ones. */
static const struct identity *most_common(const struct identity **ids, size_t n,
					  compare_fn *compare, size_t *ret_n_kinds)
{
	const struct identity *best = NULL;
	uint64_t most = 0, first = 0;

	*ret_n_kinds = 0;
	for (size_t from = 0, i = 0; i < n; from = i, ++*ret_n_kinds) {
		uint64_t n_samples = 0, seen = UINT64_MAX;

		for (; i < n && compare(&ids[from], &ids[i]) == 0; i++) {
			n_samples += ids[i]->n_samples;
			seen = ids[i]->first_sample < seen ? ids[i]->first_sample : seen;
		}
		if (best && (n_samples < most || (n_samples == most && seen > first)))
			continue;
		best = ids[from];
		most = n_samples;
		first = seen;
	}
	return best;
}

/* ---- the job ---- */

/* ids are in the order of their jobs. Where jobs are named a sample that names none belongs to
 * none. */
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

static bool is_of_job(const struct identity *id, struct text job_id)
{
	return id->job_id.s && text_equals(id->job_id, job_id);
}

static void keep_moments(struct rank_moments *m, const struct telemetry *t, struct text job_id)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		if (is_of_job(&t->identities[m->items[i].identity], job_id))
			m->items[n++] = m->items[i];
	m->n = n;
}

/* Takes out the samples of others. */
static void keep_job(struct telemetry *t, struct text job_id)
{
	keep_moments(&t->starts, t, job_id);
	keep_moments(&t->ends, t, job_id);
	for (size_t i = 0; i < N_USES; i++)
		keep_moments(&t->uses[i], t, job_id);
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
	const struct telemetry *t = a->telemetry;
	CLEANUP(free_ptr) const struct identity **ids = calloc(t->n_identities + 1, sizeof(*ids));
	size_t n = 0, n_named = 0, n_kinds;
	const struct identity *job;

	a->others = arena_alloc(&a->arena, ANALYSIS_MAX_OTHERS * sizeof(*a->others));
	if (!ids || !a->others)
		return -ENOMEM;
	memset(a->others, 0, ANALYSIS_MAX_OTHERS * sizeof(*a->others));
	for (size_t i = 0; i < t->n_identities; i++)
		if (t->identities[i].n_samples > 0) {
			n_named += t->identities[i].job_id.s != NULL;
			ids[n++] = &t->identities[i];
		}
	qsort(ids, n, sizeof(*ids), compare_jobs);
	job = most_common(ids, n_named, compare_jobs, &n_kinds);
	a->job_id = job ? job->job_id : (struct text){ NULL, 0 };
	if (n_kinds > 1) {
		list_others(a, ids, n);
		keep_job(a->telemetry, a->job_id);
	}
	return 0;
}

/* ---- the ranks ---- */

static int compare_ranks(const void *l, const void *r)
{
	return COMPARE(((const struct rank *)l)->rank, ((const struct rank *)r)->rank);
}

static int compare_seen(const void *l, const void *r)
{
	return COMPARE((*(const struct rank *const *)l)->first_sample,
		       (*(const struct rank *const *)r)->first_sample);
}

/* How many most samples say there are; 1: none does. */
static int find_declared_size(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;
	CLEANUP(free_ptr) const struct identity **ids = calloc(t->n_identities + 1, sizeof(*ids));
	const struct identity *id;
	size_t n = 0, n_kinds;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_identities; i++)
		if (t->identities[i].n_samples > 0 && t->identities[i].world_size > 1)
			ids[n++] = &t->identities[i];
	qsort(ids, n, sizeof(*ids), compare_world_sizes);
	id = most_common(ids, n, compare_world_sizes, &n_kinds);
	a->declared_size = id ? id->world_size : 1;
	return 0;
}

int select_ranks(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;
	size_t next = 0;
	int r;

	a->ranks = calloc(t->n_streams + 1, sizeof(*a->ranks));
	a->seen_order = calloc(t->n_streams + 1, sizeof(*a->seen_order));
	a->missing = calloc(ANALYSIS_MAX_MISSING, sizeof(*a->missing));
	if (!a->ranks || !a->seen_order || !a->missing)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_streams; i++)
		if (t->streams[i].n > 0)
			a->ranks[a->n_ranks++] = (struct rank){ .rank = t->streams[i].rank,
								.stream = &t->streams[i],
								.first_sample = UINT64_MAX };
	qsort(a->ranks, a->n_ranks, sizeof(*a->ranks), compare_ranks);
	for (size_t i = 0; i < t->n_identities; i++) {
		const struct identity *id = &t->identities[i];
		struct rank key = { .rank = id->rank }, *rank = NULL;

		if (id->n_samples > 0)
			rank = bsearch(&key, a->ranks, a->n_ranks, sizeof(key), compare_ranks);
		if (rank && id->first_sample < rank->first_sample)
			rank->first_sample = id->first_sample;
	}
	for (size_t i = 0; i < a->n_ranks; i++)
		a->seen_order[i] = &a->ranks[i];
	qsort(a->seen_order, a->n_ranks, sizeof(*a->seen_order), compare_seen);
	r = find_declared_size(a);
	if (r < 0)
		return r;
	/* A rank is below its world_size, so this cannot overflow. */
	a->world_size = a->ranks[a->n_ranks - 1].rank + 1;
	if (a->declared_size > a->world_size)
		a->world_size = a->declared_size;
	a->n_missing_all = (uint64_t)a->world_size - a->n_ranks;
	for (int64_t rank = 0;
	     a->n_missing < ANALYSIS_MAX_MISSING && a->n_missing < a->n_missing_all; rank++) {
		if (next < a->n_ranks && a->ranks[next].rank == rank)
			next++;
		else
			a->missing[a->n_missing++] = rank;
	}
	return 0;
}

/* ---- the sum over devices ---- */

#define MAX_DEVICES 64 /* of one rank; more share the last place */

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

static int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static void sum_up(const struct sample *last, size_t n, struct sample *ret)
{
	*ret = (struct sample){ .timestamp_ns = ret->timestamp_ns, .identity = ret->identity };
	for (size_t i = 0; i < n; i++, last++) {
		ret->used_bytes = add_saturated(ret->used_bytes, last->used_bytes);
		ret->reserved_bytes = add_saturated(ret->reserved_bytes, last->reserved_bytes);
		ret->allocated_bytes = add_saturated(ret->allocated_bytes, last->allocated_bytes);
		ret->change_bytes = add_saturated(ret->change_bytes, last->change_bytes);
	}
}

/* A device that comes again, and later, begins the next sum; one that does not keeps what it had.
 */
static void add_up(const struct stream *from, struct stream *to)
{
	struct sample last[MAX_DEVICES]; /* of each device */
	bool is_seen[MAX_DEVICES] = { false };
	size_t n = 0;

	for (const struct sample *s = from->samples; s < from->samples + from->n; s++) {
		size_t i = 0;

		while (i < n && last[i].device != s->device)
			i++;
		i = i < MAX_DEVICES ? i : MAX_DEVICES - 1;
		if (to->n == 0 || (is_seen[i] && !is_repeat(s, &last[i]))) {
			memset(is_seen, 0, sizeof(is_seen));
			to->samples[to->n++] = *s;
		}
		n += i == n;
		is_seen[i] = true;
		last[i] = *s;
		sum_up(last, n, &to->samples[to->n - 1]);
	}
}

/* Another stream of a rank, with room for as many samples as it has. NULL: no memory. */
static struct stream *add_stream(struct rank_analysis *a, const struct rank *rank)
{
	struct stream *s = arena_alloc(&a->arena, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct stream){ .rank = rank->rank };
	s->samples = arena_alloc(&a->arena, rank->stream->n * sizeof(*s->samples));
	return s->samples ? s : NULL;
}

int devices_add_up(struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++) {
		struct rank *rank = &a->ranks[i];
		struct stream *total;

		rank->total = rank->own;
		if (!has_several(rank->own))
			continue;
		total = add_stream(a, rank);
		if (!total)
			return -ENOMEM;
		add_up(rank->own, total);
		rank->total = total;
	}
	return 0;
}

/* ---- which records are stray ---- */

#define MAX_PROCESSES 16 /* of one rank; where there are more none is stray */
#define PER_STRAY 100	 /* records of a rank: so many for each that is stray */
#define MAX_STRAYS 16	 /* of one rank */

/* By its host and number: sessions may change while one goes on. */
static uint64_t strays_process(const struct identity *id)
{
	uint64_t h = hash_bytes(HASH_INIT, &id->pid, sizeof(id->pid));

	return hash_bytes(h, id->host.s, id->host.n);
}

/* A process of a rank, with its first and last record. */
struct process {
	uint64_t key;
	size_t n, first, last;
};

struct processes {
	const struct stream *s;
	struct process items[MAX_PROCESSES];
	size_t n;
	const struct process *main; /* the one with most records */
};

/* NULL: it is not there. */
static struct process *find_process(struct processes *p, uint64_t key)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].key == key)
			return &p->items[i];
	return NULL;
}

/* False: there are too many. */
static bool list_processes(const struct telemetry *t, struct processes *p)
{
	for (size_t from = 0, to; from < p->s->n; from = to) {
		uint64_t key = strays_process(identity_of(t, &p->s->samples[from]));
		struct process *found = find_process(p, key);

		if (!found && p->n == MAX_PROCESSES)
			return false;
		if (!found) {
			found = &p->items[p->n++];
			*found = (struct process){ .key = key, .first = from };
		}
		to = stream_run_end(p->s, from);
		found->last = to - 1;
		found->n += to - from;
	}
	p->main = p->items;
	for (size_t i = 1; i < p->n; i++)
		p->main = p->items[i].n > p->main->n ? &p->items[i] : p->main;
	return true;
}

/*
 * One that was there before or is there after the main one is a program that was started again,
 * but for a time between them as long as all of the main one: that is another run.
 */
static bool is_stray(const struct processes *p, const struct process *process)
{
	const struct sample *samples = p->s->samples;
	double from = (double)samples[p->main->first].timestamp_ns;
	double to = (double)samples[p->main->last].timestamp_ns;

	return process != p->main &&
	       ((process->first > p->main->first && process->last < p->main->last) ||
		from - (double)samples[process->last].timestamp_ns > to - from ||
		(double)samples[process->first].timestamp_ns - to > to - from);
}

/* How many records are stray; 0, too, where they are so many that two runs are mixed. */
static size_t count_strays(const struct processes *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += is_stray(p, &p->items[i]) ? p->items[i].n : 0;
	return n <= MAX_STRAYS && n * PER_STRAY <= p->main->n ? n : 0;
}

int strays_leave_out(struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++) {
		struct rank *rank = &a->ranks[i];
		struct processes p = { .s = rank->stream };
		struct stream *own;

		rank->own = rank->stream;
		if (!list_processes(a->telemetry, &p) || count_strays(&p) == 0)
			continue;
		own = add_stream(a, rank);
		if (!own)
			return -ENOMEM;
		for (size_t k = 0; k < p.s->n; k++) {
			const struct identity *id = identity_of(a->telemetry, &p.s->samples[k]);

			if (!is_stray(&p, find_process(&p, strays_process(id))))
				own->samples[own->n++] = p.s->samples[k];
		}
		rank->own = own;
	}
	return 0;
}

static size_t strays_of(const struct rank *rank)
{
	return rank->stream->n - rank->own->n;
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
		n += strays_of(&a->ranks[i]);
	return n;
}

void strays_add_text(struct buf *out, const struct rank_analysis *a)
{
	size_t n_ranks = strays_count_ranks(a);
	uint64_t n = strays_count(a);
	const struct rank *rank = a->ranks;

	if (n_ranks == 1)
		buf_printf(out, " Rank %lld, which has a few records only and is",
			   (long long)a->ranks[a->n_ranks - 1].rank);
	else if (n_ranks > 0)
		buf_printf(out, " %zu ranks, which have a few records only and are", n_ranks);
	if (n_ranks > 0)
		buf_printf(out, " none of the %lld that most records tell of, %s left out.",
			   (long long)a->declared_size, n_ranks == 1 ? "is" : "are");
	if (n == 0)
		return;
	while (strays_of(rank) == 0)
		rank++;
	buf_printf(out, " %llu record%s of other processes, which stand%s with those of rank %lld",
		   (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "s" : "",
		   (long long)rank->rank);
	buf_printf(out, "%s, %s left out.", strays_of(rank) < n ? " and others" : "",
		   n == 1 ? "was" : "were");
}

/* ---- which ranks are mixed ---- */

#define MAX_SEEN 8    /* processes that are remembered; more take turns only if these do */
#define MIN_RETURNS 3 /* a process that ends writes one or two of its records late */

/* By one device: each may have a process that looks after it. */
static bool is_mixed(const struct telemetry *t, const struct stream *s)
{
	uint64_t seen[MAX_SEEN], last = 0; /* the processes that began last; the last one */
	size_t n_seen = 0, n_returns = 0;

	for (size_t i = 0; i < s->n && n_returns < MIN_RETURNS; i = stream_run_end(s, i)) {
		size_t from = n_seen < MAX_SEEN ? 0 : n_seen - MAX_SEEN, k = from;
		uint64_t process;

		while (i < s->n && s->samples[i].device != s->samples[0].device)
			i++;
		if (i == s->n)
			break;
		process = strays_process(identity_of(t, &s->samples[i]));
		if (i > 0 && process == last)
			continue;
		last = process;
		while (k < n_seen && seen[k % MAX_SEEN] != process)
			k++;
		if (k < n_seen)
			n_returns++;
		else
			seen[n_seen++ % MAX_SEEN] = process;
	}
	return n_returns >= MIN_RETURNS;
}

const struct rank *mixed_find(const struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++)
		if (is_mixed(a->telemetry, a->ranks[i].own))
			return &a->ranks[i];
	return NULL;
}
