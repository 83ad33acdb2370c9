/*
 * What each rank used: sums, hidden gaps and steps, on made-up ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "crossrank/rank_facts.h"
#include "crossrank/reading/event_reader.h"

#define N 100
#define MIB INT64_C(1048576)
#define SECOND_NS INT64_C(1000000000)

static void add_stream(struct telemetry *t, int rank, struct sample *samples, size_t n)
{
	struct telemetry_event like;

	event_init(&like);
	like.rank = rank;
	like.world_size = 8;
	like.host = (struct text){ "n0", 2 };
	like.session_id = (struct text){ "s", 1 };
	like.event_type = (struct text){ "sample", 6 };
	for (size_t i = 0; i < n; i++) {
		like.timestamp_ns = samples[i].timestamp_ns;
		like.device_used_bytes = samples[i].used_bytes;
		like.allocator_reserved_bytes = samples[i].reserved_bytes;
		like.allocator_allocated_bytes = samples[i].allocated_bytes;
		assert_int_equal(telemetry_add(t, &like), 0);
	}
}

/* 1 GiB used and reserved, 900 MiB allocated, every second. */
static void make_quiet(struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		samples[i] = (struct sample){ .timestamp_ns = (int64_t)i * SECOND_NS,
					      .used_bytes = 1024 * MIB,
					      .reserved_bytes = 1024 * MIB,
					      .allocated_bytes = 900 * MIB };
}

static void analyse(struct telemetry *t, struct rank_analysis *a, struct facts **ret)
{
	assert_int_equal(rank_analysis_init(a, t), 0);
	assert_int_equal(facts_make(a), 0);
	*ret = a->facts;
}

static void test_peaks(void **state)
{
	struct telemetry *t = telemetry_new();
	struct sample samples[N];
	struct rank_analysis a;
	struct facts *f;

	(void)state;
	for (int rank = 0; rank < 3; rank++) {
		make_quiet(samples, N);
		samples[20 * (rank + 1)].used_bytes = 5000 * MIB; /* one after the other */
		samples[20 * (rank + 1)].reserved_bytes = 5000 * MIB;
		add_stream(t, rank, samples, N);
	}
	make_quiet(samples, 10);
	for (size_t i = 6; i < 10; i++)
		samples[i].timestamp_ns += 7 * SECOND_NS;
	add_stream(t, 5, samples, 10); /* of which samples are missing, and which ends early */
	analyse(t, &a, &f);
	assert_int_equal(f->sum_of_peaks_bytes, (3 * 5000 + 1024) * MIB);
	assert_int_equal(f->peak_bytes, (5000 + 2 * 1024) * MIB);
	assert_true(f->peak_ns >= 20 * SECOND_NS && f->peak_ns <= 60 * SECOND_NS);
	assert_int_equal(f->ranks[1].peak_ns, 40 * SECOND_NS);
	assert_int_equal(f->ranks[0].n_missed, 0);
	assert_int_equal(f->ranks[3].n_missed, 1);
	assert_int_equal(f->ranks[0].gap_kinds, 0);
	rank_analysis_release(&a);
	telemetry_free(t);
}

static void test_gaps(void **state)
{
	struct telemetry *t = telemetry_new();
	struct sample samples[N];
	struct telemetry_event marker;
	struct rank_analysis a;
	struct facts *f;

	(void)state;
	make_quiet(samples, N);
	samples[50].used_bytes += 300 * MIB;
	add_stream(t, 0, samples, N);
	make_quiet(samples, N);
	for (size_t i = 0; i < N; i++)
		samples[i].used_bytes += (int64_t)i * 3 * MIB;
	add_stream(t, 1, samples, N);
	make_quiet(samples, N);
	for (size_t i = 0; i < N; i++)
		samples[i].allocated_bytes = 300 * MIB;
	add_stream(t, 2, samples, N);
	make_quiet(samples, N); /* a gap that stays is no spike */
	for (size_t i = 50; i < N; i++)
		samples[i].used_bytes += 30 * MIB;
	add_stream(t, 3, samples, N);
	event_init(&marker);
	marker.timestamp_ns = 50 * SECOND_NS + 1000;
	marker.event_type = (struct text){ "AllReduce", 9 };
	marker.host = (struct text){ "n0", 2 };
	assert_int_equal(telemetry_add(t, &marker), 0);
	analyse(t, &a, &f);
	assert_int_equal(f->ranks[0].gap_kinds, GAP_TRANSIENT_SPIKE);
	assert_true(f->ranks[0].is_spike_collective);
	assert_int_equal(f->ranks[0].gap_max_bytes, 300 * MIB);
	assert_int_equal(f->ranks[1].gap_kinds, GAP_PERSISTENT_DRIFT);
	assert_true(fabs(f->ranks[1].drift_bytes_per_second - 3.0 * (double)MIB) < 1);
	assert_true(f->ranks[1].drift_r_squared > 0.999);
	assert_int_equal(f->ranks[2].gap_kinds, GAP_FRAGMENTATION_LIKE);
	assert_int_equal(f->ranks[3].gap_kinds, 0);
	rank_analysis_release(&a);
	telemetry_free(t);
}

/* ---- steps ---- */

static void add_boundary(struct telemetry *t, int rank, const char *action, int step, int64_t ns)
{
	CLEANUP(event_reader_release) struct event_reader reader = { 0 };
	struct telemetry_event ev;
	char line[1024];

	snprintf(
		line, sizeof(line),
		"{\"timestamp_ns\": %lld, \"type\": \"phase_%s\", \"rank\": %d, \"world_size\": 8, "
		"\"host\": \"n0\", \"session_id\": \"s\", \"metadata\": {\"phase_scope\": "
		"{\"action\": \"%s\", \"name\": \"step\", \"path\": [\"train\", \"step %d\"], "
		"\"scope_id\": \"%d\", \"thread_id\": 1, \"thread_name\": \"m\", \"sequence\": %d}}}",
		(long long)ns, action, rank, action, step, step, 2 * step);
	assert_int_equal(event_read(&reader, line, strlen(line), &ev).reason, REASON_NONE);
	assert_int_equal(telemetry_add(t, &ev), 0);
}

/* Ranks 0 to 3 with so many steps of 1 s, those of rank 2 half as long again. */
static void make_steps(struct telemetry *t, int n_steps)
{
	struct sample samples[N];

	make_quiet(samples, N);
	for (int rank = 0; rank < 4; rank++) {
		int64_t length = (rank == 2 ? 15 : 10) * SECOND_NS / 10, at = 0;

		add_stream(t, rank, samples, N);
		for (int step = 0; step < n_steps; step++, at += length) {
			add_boundary(t, rank, "enter", step, at);
			add_boundary(t, rank, "exit", step, at + length - 4 + rank);
		}
	}
}

static void test_stragglers(void **state)
{
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	struct facts *f;

	(void)state;
	make_steps(t, 9);
	analyse(t, &a, &f);
	for (int rank = 0; rank < 4; rank++)
		assert_int_equal(f->ranks[rank].is_straggler, rank == 2);
	assert_int_equal(f->ranks[2].n_steps, 9);
	assert_int_equal(f->ranks[2].n_longest, 9);
	assert_true(fabs(f->ranks[2].straggler_p - 4 * pow(0.25, 9)) < 1e-12);
	assert_true(isnan(f->ranks[1].straggler_p));
	assert_true(fabs(f->ranks[2].step_seconds - 1.5) < 1e-6);
	assert_true(fabs(f->step_seconds - 1) < 1e-6);
	rank_analysis_release(&a);
	telemetry_free(t);
}

/* What three steps show chance shows, too: 4 x (1/4)^3 is more than 0.05. */
static void test_too_few_steps_are_no_claim(void **state)
{
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	struct facts *f;

	(void)state;
	make_steps(t, 3);
	analyse(t, &a, &f);
	assert_true(f->ranks[2].may_straggle);
	for (int rank = 0; rank < 4; rank++)
		assert_false(f->ranks[rank].is_straggler);
	assert_true(fabs(f->ranks[2].straggler_p - 0.0625) < 1e-12);
	rank_analysis_release(&a);
	telemetry_free(t);
}

/* ---- since when a rank is slow ---- */

#define STEPS 120
#define SLOW_FROM 60

static uint64_t dice;

static double uniform(void)
{
	uint64_t z = dice += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/*
 * Eight ranks with steps of about 1 s, one in 20 of which takes up to twice as long. From step
 * SLOW_FROM on, those of the ranks in `slow`, a bit each, take `factor` times as long. Returns the
 * rank that is found; -1: none. ret_since: when, in seconds.
 */
static int find_slow(unsigned slow, double factor, double *ret_since)
{
	struct telemetry *t = telemetry_new();
	struct sample samples[N];
	struct rank_analysis a;
	struct facts *f;
	int found;

	make_quiet(samples, N);
	for (int rank = 0; rank < 8; rank++) {
		int64_t at = (int64_t)(0.5 * uniform() * (double)SECOND_NS);

		add_stream(t, rank, samples, N);
		for (int step = 0; step < STEPS; step++) {
			double seconds = 1 + 0.1 * uniform();

			if (uniform() < 0.05)
				seconds *= 1 + uniform();
			if (step >= SLOW_FROM && (slow >> rank & 1))
				seconds *= factor;
			add_boundary(t, rank, "enter", step, at);
			at += (int64_t)(seconds * (double)SECOND_NS);
			add_boundary(t, rank, "exit", step, at - 1);
		}
	}
	analyse(t, &a, &f);
	found = f->slow.rank ? (int)f->slow.rank->rank : -1;
	if (f->slow.rank && ret_since)
		*ret_since = (double)f->slow.since_ns / (double)SECOND_NS;
	rank_analysis_release(&a);
	telemetry_free(t);
	return found;
}

static void test_one_rank_becomes_slow(void **state)
{
	double since = 0;
	int n_innocent = 0, n_right = 0, n_near = 0;

	(void)state;
	for (dice = 1; dice < 30; dice++) {
		uint64_t seed = dice;

		since = 0;
		n_right += find_slow(1u << 3, 1.5, &since) == 3;
		n_near += since > 55 && since < 75;
		dice = seed + 1000;
		n_innocent += find_slow(0, 1, NULL) >= 0;
		dice = seed + 2000;
		n_innocent += find_slow(0xff, 1.5, NULL) >= 0; /* the workload's */
		dice = seed;
	}
	print_message("# slow: %d of 29 named, %d of them in time, %d of 58 innocents\n", n_right,
		      n_near, n_innocent);
	assert_true(n_right >= 22);
	assert_true(n_near >= 17);
	assert_true(n_innocent <= 2);
}

/* ---- whose CPU or GPU use departs ---- */

#define CPU_FROM 30

/*
 * Eight ranks that use 0.9 to 1 of a core, or 0.4 to 1 of a GPU. From second CPU_FROM of 100 on
 * those of `apart`, a bit each, use `factor` times as much. The records come and go as those of
 * files do: through the reader.
 */
static struct use find_use(enum use_kind kind, unsigned apart, double factor, double until)
{
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	struct use found;
	struct facts *f;

	for (int rank = 0; rank < 8; rank++) {
		struct telemetry_event ev;
		double used = 0;

		event_init(&ev);
		ev.event_type = (struct text){ "sample", 6 };
		ev.host = (struct text){ "n0", 2 };
		ev.session_id = (struct text){ "s", 1 };
		ev.rank = rank;
		ev.world_size = 8;
		for (int i = 0; i < N; i++) {
			bool is_apart = (apart >> rank & 1) && i >= CPU_FROM && i < until;

			ev.timestamp_ns = i * SECOND_NS + rank * 1000000;
			ev.used_ns[kind] = (int64_t)(used * (double)SECOND_NS);
			used += (1 - (kind == USE_GPU ? 0.6 : 0.1) * uniform()) *
				(is_apart ? factor : 1);
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
	}
	analyse(t, &a, &f);
	found = f->uses[kind];
	found.departure.seconds = found.departure.rank ? (double)found.departure.rank->rank : -1;
	assert_null(f->uses[N_USES - 1 - kind].departure.rank);
	rank_analysis_release(&a);
	telemetry_free(t);
	return found;
}

/* Rank 3 uses half as much, or nothing; or all others do, as they wait for it. */
static void test_one_rank_leaves_the_others(void **state)
{
	(void)state;
	for (int kind = 0; kind < N_USES; kind++) {
		double factor = kind == USE_GPU ? 0.02 : 0.5; /* an idle GPU */
		int n_less = 0, n_more = 0, n_near = 0, n_none = 0, n_named = 0;

		for (uint64_t seed = 1; seed < 30; seed++) {
			struct use less, more, none;

			dice = seed;
			less = find_use(kind, 1u << 3, factor, N);
			more = find_use(kind, 0xf7, factor, N);
			n_less += less.departure.seconds == 3 && less.rate < factor + 0.05 &&
				  less.peers_rate > 0.65;
			n_near += fabs((double)less.departure.since_ns / 1e9 - CPU_FROM) < 2;
			n_more += more.departure.seconds == 3 && more.rate > 0.65 &&
				  more.peers_rate < factor + 0.05;
			none = find_use(kind, 0, 1, N);
			n_none += verdict_of(none.departure.why) == VERDICT_NONE;
			n_named += none.departure.seconds >= 0;
			/* The workload's; too little; over. */
			n_named += find_use(kind, 0xff, factor, N).departure.seconds >= 0;
			n_named += find_use(kind, 1u << 3, 0.9, N).departure.seconds >= 0;
			n_named += find_use(kind, 1u << 3, factor, 40).departure.seconds >= 0;
		}
		print_message("# use %d: %d less, %d more of 29, %d in time; none: %d of 29, named "
			      "%d of 116\n",
			      kind, n_less, n_more, n_near, n_none, n_named);
		assert_true(n_less >= 27 && n_more >= (kind == USE_GPU ? 23 : 27));
		assert_true(n_near >= (kind == USE_GPU ? 22 : 26));
		assert_true(n_none >= 25);
		assert_true(n_named <= 2);
	}
}

/* One record per device and tick, a moment apart: what the rank uses is their sum. */
static void test_devices(void **state)
{
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	struct facts *f;

	(void)state;
	for (int i = 0; i < N; i++)
		for (int device = 0; device < 3; device++) {
			struct telemetry_event ev;

			event_init(&ev);
			ev.timestamp_ns = i * SECOND_NS + device * 1000000;
			ev.event_type = (struct text){ "sample", 6 };
			ev.host = (struct text){ "n0", 2 };
			ev.world_size = 1;
			ev.device_id = device;
			ev.device_used_bytes = (device + 1) * 1000 * MIB;
			ev.device_used_bytes += device == 1 && i == 40 ? 700 * MIB : 0;
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
	analyse(t, &a, &f);
	assert_int_equal(a.ranks[0].stream->n, 3 * N);
	assert_int_equal(a.ranks[0].total->n, N);
	assert_int_equal(f->ranks[0].peak_bytes, 6700 * MIB);
	assert_int_equal(f->ranks[0].peak_ns, 40 * SECOND_NS);
	assert_int_equal(f->ranks[0].last_bytes, 6000 * MIB);
	assert_int_equal(f->peak_bytes, 6700 * MIB);
	rank_analysis_release(&a);
	telemetry_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peaks),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_too_few_steps_are_no_claim),
		cmocka_unit_test(test_one_rank_becomes_slow),
		cmocka_unit_test(test_one_rank_leaves_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
