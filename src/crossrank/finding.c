#include "crossrank/finding.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/map.h"
#include "crossrank/rank_facts.h"
#include "crossrank/reference/reference.h"

/* ---- clocks ---- */

/*
 * Ranks of one boot share a clock, and of one host where no boot is named. A host without a name
 * ("unknown", "localhost") may be any: its ranks share nothing. A host states the error of its
 * clock in the metadata of its records; the worst statement counts.
 */
struct rank_clock {
	size_t number;	 /* ranks with the same number share it */
	double error;	 /* seconds */
	bool is_free;	 /* synchronised with nothing */
	bool is_assumed; /* the host states nothing */
	bool is_unnamed; /* nor its name: free, too */
};

/* For hosts that state nothing: what NTP holds on a local network. */
#define CLOCKS_ASSUMED_NS 10000000

/* Names that any host may have. */
static const char *const no_names[] = { "unknown", "localhost", "localhost.localdomain", "" };

static bool is_unnamed(const struct identity *id)
{
	if (id->clock.boot_id.s)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(no_names); i++)
		if (id->host.n == strlen(no_names[i]) &&
		    strncasecmp(id->host.s, no_names[i], id->host.n) == 0)
			return true;
	return false;
}

/* A name that any host may have is this rank's alone. */
static uint64_t clock_key(const struct identity *id)
{
	bool has_boot = id->clock.boot_id.s != NULL;
	struct text name = has_boot ? id->clock.boot_id : id->host;
	uint64_t h = hash_bytes(HASH_INIT, &has_boot, sizeof(has_boot));

	if (is_unnamed(id))
		return hash_bytes(h, &id->rank, sizeof(id->rank));
	return hash_bytes(h, name.s, name.n);
}

/* What one of a rank's identities says about its clock; the worst of all of them counts. */
static void add_said(struct rank_clock *clock, const struct identity *id, int64_t assumed_ns)
{
	bool is_silent = id->clock.error_ns == EVENT_UNKNOWN;
	int64_t error_ns = id->clock.error_ns;

	if (is_silent)
		error_ns = assumed_ns == EVENT_UNKNOWN ? CLOCKS_ASSUMED_NS : assumed_ns;
	clock->is_assumed |= is_silent;
	clock->is_unnamed |= is_silent && assumed_ns == EVENT_UNKNOWN && is_unnamed(id);
	clock->is_free |= id->clock.is_free || clock->is_unnamed;
	clock->error = fmax(clock->error, (double)error_ns / 1e9);
}

/* How far the clocks of two records may be apart, in seconds; INFINITY: they have no order. */
static double clocks_between(const struct identity *a, const struct identity *b, int64_t assumed_ns)
{
	struct rank_clock x = { 0 }, y = { 0 };

	if (clock_key(a) == clock_key(b))
		return 0;
	add_said(&x, a, assumed_ns);
	add_said(&y, b, assumed_ns);
	return x.is_free || y.is_free ? INFINITY : x.error + y.error;
}

#define BYTES_PER_MIB (1024.0 * 1024.0)
#define LATE_RECORDS 4	     /* a process that was replaced writes so many at most afterwards */
#define MIN_STAMP_NS 1000000 /* coarser timestamps were cut off or rounded */
#define END_INTERVALS 5.0    /* a record that ends so much before its rank does is not whole */
#define HIDDEN_SHARE 0.5     /* of a rise: a peak that no sample shows may have been one */
#define ROUNDED_NS 1000	     /* seconds as a double are right to that */
#define MIN_RECORD 6	     /* samples of a process; fewer are left out beside another one */

/* ---- the input of the method ---- */

struct input {
	struct rank_analysis *a;
	struct first_cause *f;
	int64_t assumed_ns;	      /* the error of clocks that state none; EVENT_UNKNOWN */
	struct rank_clock *clocks;    /* one for each of a->ranks */
	struct culprit_rank *records; /* in the order of ranks, then of time */
	size_t n, cap;
	struct arena arena;
};

/* Ranks on one clock get one number; a rank that has been on several gets one of its own. */
static int find_clocks(struct input *in)
{
	CLEANUP(map_release) struct map numbers = MAP_INIT;
	size_t n_ranks = in->a->n_ranks;
	struct first_cause *f = in->f;

	in->clocks = arena_alloc(&in->arena, n_ranks * sizeof(*in->clocks));
	if (!in->clocks)
		return -ENOMEM;
	for (size_t i = 0; i < n_ranks; i++) {
		const struct stream *s = in->a->ranks[i].total;
		struct rank_clock *clock = &in->clocks[i];
		uint64_t key = 0, seen = 0, number;

		*clock = (struct rank_clock){ 0 };
		for (size_t k = 0; k < s->n; k = stream_run_end(s, k)) {
			const struct identity *id = identity_of(in->a->telemetry, &s->samples[k]);

			if (clock_key(id) != seen) {
				seen = clock_key(id);
				key = k == 0 ? seen : hash_bytes(key, &seen, sizeof(seen));
			}
			add_said(clock, id, in->assumed_ns);
		}
		if (!map_get(&numbers, key, &number)) {
			number = numbers.len;
			if (map_put(&numbers, key, number) < 0)
				return -ENOMEM;
		}
		clock->number = number;
	}
	f->n_clocks = numbers.len;
	for (size_t i = 0; i < n_ranks; i++) {
		struct rank_clock *clock = &in->clocks[i];

		/* One clock is in order with itself, whatever it says. */
		if (f->n_clocks == 1)
			*clock = (struct rank_clock){ .number = 0 };
		f->clock_error = fmax(f->clock_error, clock->error);
		f->is_assumed |= clock->is_assumed;
		f->has_free_clock |= clock->is_free;
	}
	return 0;
}

/* ---- records ---- */

static double seconds_of(const struct first_cause *f, int64_t ns)
{
	return (double)(ns - f->origin_ns) / 1e9;
}

static uint64_t program_of(const struct rank_analysis *a, const struct sample *sample)
{
	const struct identity *id = identity_of(a->telemetry, sample);
	uint64_t h = hash_bytes(HASH_INIT, &id->pid, sizeof(id->pid));

	return hash_bytes(h, id->session_id.s, id->session_id.n);
}

/* Whether another program begins with sample i: another pid or session that is no late record. */
static bool is_restart(const struct rank_analysis *a, const struct stream *s, size_t i)
{
	uint64_t before;

	if (s->samples[i].identity == s->samples[i - 1].identity)
		return false;
	before = program_of(a, &s->samples[i - 1]);
	for (size_t k = i; k < s->n && k <= i + LATE_RECORDS; k++)
		if (program_of(a, &s->samples[k]) == before)
			return false;
	return true;
}

/* The unit that all timestamps are multiples of, in seconds; 0: none that matters. */
static double stamp_unit(const struct sample *samples, size_t n)
{
	int64_t unit = 0;

	for (size_t i = 0; i < n && (unit == 0 || unit >= MIN_STAMP_NS); i++) {
		int64_t a = samples[i].timestamp_ns, b = unit;

		while (b != 0) {
			int64_t rest = a % b;

			a = b;
			b = rest;
		}
		unit = a < 0 ? -a : a;
	}
	return unit >= MIN_STAMP_NS ? (double)unit / 1e9 : 0;
}

/* Samples [from, to) of a rank as one record. -ENOMEM. */
static int add_record(struct input *in, size_t rank, size_t from, size_t to)
{
	const struct rank_analysis *a = in->a;
	const struct stream *s = a->ranks[rank].total;
	const struct rank_moment *start = telemetry_find_moment(&a->telemetry->starts, s->rank,
								s->samples[from].timestamp_ns);
	const struct rank_moment *end =
		telemetry_find_moment(&a->telemetry->ends, s->rank, INT64_MAX);
	double *t = arena_alloc(&in->arena, (to - from) * sizeof(*t));
	double *mib = arena_alloc(&in->arena, (to - from) * sizeof(*mib)), most = 0;
	struct culprit_rank record = { .t = t,
				       .mib = mib,
				       .start = NAN,
				       .end = NAN,
				       .rank = rank,
				       .clock = in->clocks[rank].number,
				       .clock_error = in->clocks[rank].is_free
							      ? INFINITY
							      : in->clocks[rank].error };

	if (!t || !mib || ARRAY_RESERVE(in->records, in->cap, in->n + 1) < 0)
		return -ENOMEM;
	for (size_t i = from; i < to; i++) {
		double at = seconds_of(in->f, s->samples[i].timestamp_ns);

		record.n += record.n == 0 || at > t[record.n - 1];
		t[record.n - 1] = at;
		mib[record.n - 1] = (double)s->samples[i].used_bytes / BYTES_PER_MIB;
		most = fmax(most, mib[record.n - 1]);
	}
	if (start && (from == 0 || start->timestamp_ns >= s->samples[from - 1].timestamp_ns))
		record.start = seconds_of(in->f, start->timestamp_ns);
	if (to < s->n)
		record.end = seconds_of(in->f, s->samples[to].timestamp_ns);
	if (to == s->n && end && record.n > 1) {
		double at = seconds_of(in->f, end->timestamp_ns), last = t[record.n - 1];
		double interval = (last - t[0]) / (double)(record.n - 1);

		if (at >= last && at - last <= END_INTERVALS * interval) {
			record.end = at;
			record.unseen_mib = fmax((double)end->amount / BYTES_PER_MIB - most, 0);
		}
	}
	record.stamp = stamp_unit(s->samples + from, to - from);
	in->records[in->n++] = record;
	return 0;
}

/* A rank is cut where its program was started again; a short record counts where it is all. */
static int add_rank(struct input *in, size_t rank)
{
	const struct stream *s = in->a->ranks[rank].total;
	size_t n_before = in->n, longest = 0, longest_to = 0;
	int r = 0;

	for (size_t from = 0, to; r == 0 && from < s->n; from = to) {
		for (to = from + 1; to < s->n && !is_restart(in->a, s, to);)
			to++;
		if (to - from > longest_to - longest) {
			longest = from;
			longest_to = to;
		}
		if (to - from >= MIN_RECORD)
			r = add_record(in, rank, from, to);
	}
	return r == 0 && in->n == n_before ? add_record(in, rank, longest, longest_to) : r;
}

/* ---- the answer ---- */

int64_t finding_ns(const struct first_cause *f, double seconds)
{
	int64_t ns = fabs(seconds) < 9e9 ? llround(seconds * 1e9) : INT64_MAX, sum;

	return __builtin_add_overflow(f->origin_ns, ns, &sum) ? INT64_MAX : sum;
}

int64_t finding_bytes(double mib)
{
	return (int64_t)fmin(mib * BYTES_PER_MIB, 9.2e18);
}

/* The process whose record has a rise: that of the record's first sample, or of a later onset. */
static const struct identity *process_of(const struct input *in, const struct culprit_rise *rise)
{
	const struct culprit_rank *record = &in->records[rise->record];
	const struct stream *s = in->a->ranks[record->rank].total;
	int64_t ns = finding_ns(in->f, fmax(rise->best, record->t[0])) + ROUNDED_NS;
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->samples[middle].timestamp_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return identity_of(in->a->telemetry, &s->samples[low > 0 ? low - 1 : 0]);
}

static const struct rank *rank_of(const struct input *in, size_t record)
{
	return record == SIZE_MAX ? NULL : &in->a->ranks[in->records[record].rank];
}

static int take_answer(struct input *in)
{
	struct first_cause *f = in->f;
	const struct culprit_answer *answer = &f->answer;
	const struct candidate *first;
	struct phase_time time;

	f->why = answer->why;
	f->unseen = rank_of(in, answer->because);
	f->n_ranks -= answer->n_left_out;
	f->is_unnamed_host = f->why == WHY_CLOCKS && f->unseen &&
			     in->clocks[f->unseen - in->a->ranks].is_unnamed;
	if (answer->n_rises == 0)
		return 0;
	f->candidates = arena_alloc(&in->a->arena, answer->n_rises * sizeof(*f->candidates));
	if (!f->candidates)
		return -ENOMEM;
	f->n_candidates = answer->n_rises;
	for (size_t i = 0; i < answer->n_rises; i++) {
		const struct culprit_rise *rise = &answer->rises[i];

		f->candidates[i] =
			(struct candidate){ *rise, rank_of(in, rise->record), process_of(in, rise),
					    in->records[rise->record].clock };
	}
	first = &f->candidates[0];
	time = (struct phase_time){ finding_ns(f, first->rise.low), finding_ns(f, first->rise.best),
				    finding_ns(f, first->rise.high) };
	return phases_resolve_between(&in->a->phases, &time, first->process->session_id,
				      first->rank->rank, &f->phase);
}

static int compare_to_rank(const void *number, const void *rank)
{
	int64_t a = *(const int64_t *)number, b = ((const struct rank *)rank)->rank;

	return (a > b) - (a < b);
}

/* Ranks without samples that had ended before the first rise, and never held half of it. */
static uint64_t count_ended(const struct input *in)
{
	const struct telemetry *t = in->a->telemetry;
	const struct candidate *first = in->f->candidates;
	const struct identity *own;
	uint64_t n = 0;

	if (in->f->n_candidates == 0)
		return 0;
	own = identity_of(t, &first->rank->total->samples[0]);
	for (size_t i = 0; i < t->ends.n; i++) {
		const struct rank_moment *end = &t->ends.items[i];
		bool is_last = i + 1 == t->ends.n || end[1].rank != end->rank;

		n += is_last && end->rank < in->a->world_size &&
		     !bsearch(&end->rank, in->a->ranks, in->a->n_ranks, sizeof(*in->a->ranks),
			      compare_to_rank) &&
		     (double)end->amount / BYTES_PER_MIB <= HIDDEN_SHARE * first->rise.total &&
		     seconds_of(in->f, end->timestamp_ns) +
				     clocks_between(&t->identities[end->identity], own,
						    in->assumed_ns) <
			     first->rise.low;
	}
	return n;
}

static int make(struct input *in)
{
	struct rank_analysis *a = in->a;
	struct first_cause *f = in->f;
	int r = find_clocks(in);

	f->origin_ns = INT64_MAX;
	for (size_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].total->samples[0].timestamp_ns < f->origin_ns)
			f->origin_ns = a->ranks[i].total->samples[0].timestamp_ns;
	for (size_t i = 0; r == 0 && i < a->n_ranks; i++)
		r = add_rank(in, i);
	if (r == 0 && a->n_ranks == 1)
		f->why = WHY_ONE_RANK;
	if (r < 0 || a->n_ranks == 1)
		return r;
	r = culprit_find(in->records, in->n, &in->arena, &f->answer);
	if (r == 0)
		r = take_answer(in);
	if (r < 0 || verdict_of(f->why) == VERDICT_CANNOT_TELL || f->n_missing <= count_ended(in))
		return r;
	/* A rank without a record may have risen, or led. */
	f->why = WHY_MISSING;
	f->answer.least_mib = f->answer.lead_below = NAN;
	for (size_t i = 0; i < f->n_candidates; i++)
		f->candidates[i].rise.probability = NAN;
	return 0;
}

/* Without the ranks that are stray, which are the last ones. */
static int make_of_own(struct input *in)
{
	struct rank_analysis *a = in->a;
	size_t n_all = a->n_ranks;
	int64_t world_size = a->world_size;
	int r;

	in->f->n_missing = a->n_missing_all;
	in->f->n_ranks = a->n_ranks -= strays_count_ranks(a);
	if (a->n_ranks < n_all) {
		a->world_size = a->declared_size;
		in->f->n_missing = (uint64_t)a->declared_size - a->n_ranks;
	}
	r = make(in);
	a->n_ranks = n_all;
	a->world_size = world_size;
	return r;
}

int rank_analysis_run(struct rank_analysis *a, int64_t clock_error_ns)
{
	struct first_cause *f = arena_alloc(&a->arena, sizeof(*f));
	struct input in = { .a = a, .f = f, .assumed_ns = clock_error_ns, .arena = ARENA_INIT };
	int r = f ? reference_find_suspects(a) : -ENOMEM;

	if (r < 0)
		return r;
	*f = (struct first_cause){
		.why = WHY_NO_SAMPLES,
		.answer = { .probability = NAN,
			    .lead = NAN,
			    .others_rate = NAN,
			    .lead_below = NAN,
			    .least_mib = NAN,
			    .interval = NAN },
		.unseen = mixed_find(a),
	};
	a->finding = f;
	if (f->unseen)
		f->why = WHY_MIXED;
	else if (a->n_ranks > 0)
		r = make_of_own(&in);
	f->answer.rises = NULL; /* the candidates have copies */
	free(in.records);
	arena_release(&in.arena);
	return r < 0 ? r : facts_make(a);
}
