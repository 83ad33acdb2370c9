/*
 * rank_jobs - made-up jobs of which it is known who was first, and what is answered about them.
 */
#ifndef PROCTOR_TESTS_RANK_JOBS_H
#define PROCTOR_TESTS_RANK_JOBS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/finding.h"

#include "rounds.h"

#ifndef RANKS
#define RANKS 8
#endif
#define MAX_SAMPLES 400
#define MAX_ARRIVALS 256
#define MIB 1048576.0
#define T0_NS INT64_C(1700000040000000000)
#define ODD_NS 12347 /* clocks do not stop at whole numbers, though times below do */

/* ---- random numbers that are the same in every run ---- */

static uint64_t state;

static double uniform(double from, double to)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return from + (to - from) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform(1e-300, 1))) * cos(6.283185307179586 * uniform(0, 1));
}

/* ---- a job ---- */

/* What is different in one rank; 0: nothing. */
struct job_rank {
	double interval, slope, rise, stair;
	double slow_seconds, slow_slope; /* it begins so much earlier than its onset, and slower */
	double again;			 /* when it rises once more, as steeply */
	double drop_at, drop;		 /* when it gives back so many MiB */
	double spike_at;		 /* for 5 s, 1500 MiB */
	double hole_from, hole_to;	 /* no samples in between */
	double end;			 /* of its record */
	double restart_at, loads_at;	 /* begins with 300 MiB, loads up to 8 times as much */
	bool is_missing;
	double clock_error; /* as it says; seconds */
	bool is_free;
	double lost_at, jump; /* when it loses its synchronisation, and by how much it jumps */
};

struct job {
	int n_ranks;	     /* 0: RANKS */
	double onset[RANKS]; /* seconds; INFINITY: never */
	double start[RANKS]; /* of the record */
	double born[RANKS];  /* when its program was started, as is told; 0: nobody tells */
	double clock[RANKS]; /* how far its clock is off */
	double base;	     /* MiB before it; 0: 1000 */
	double slope;	     /* MiB per second; INFINITY: a step of `rise` at once */
	double rise;	     /* MiB, at most */
	double noise, interval, length;
	double slower; /* each interval is so many times the one before; 0: they are equal */
	bool one_host, is_saw;
	bool is_startup;     /* all rise by 800 MiB between 10 s and 14 s */
	bool has_free_clock; /* rank 1 says that its clock follows nothing */
	double marker;	     /* when a collective operation was; 0: none */
	double loads[RANKS]; /* seconds that a rank loads for after its start; 0: none */
	double idle[RANKS];  /* seconds from its start until it loads */
	double loaded;	     /* MiB, by then */
	double pause;	     /* seconds without any in the middle of it */
	double early[RANKS]; /* when a first rise that stays up begins; 0: none */
	double early_rise;   /* MiB, at once */
	double wander;	     /* MiB that each rank wanders by, each sample near the one before */
	double shared;	     /* the same, for all ranks alike */
	double quake;	     /* MiB that all ranks go up by at one moment, and stay */
	double quake_at;
	double stair;	      /* seconds from one step of a rise to the next; 0: it is even */
	double power;	      /* a rise goes by this power of the time; 0: by the time */
	double tau[RANKS];    /* it goes by slope * tau * (e^(t / tau) - 1); 0: by the time */
	double block;	      /* MiB that an allocator takes at once; 0: what is needed */
	double filled[RANKS]; /* the share of a block that is filled before the rise */
	double chance_gap;    /* seconds between blocks that come as chance has it, on average */
	double arrivals[RANKS][MAX_ARRIVALS]; /* of these */
	double walk;	 /* MiB from one sample to the next, either way, for good */
	double stamp;	 /* seconds that timestamps are whole multiples of; 0: any */
	bool is_rounded; /* up or down; else they are cut off */
	bool is_twice;	 /* the records are given twice */
	struct job_rank own[RANKS];
	bool is_unnamed; /* no host has a name */
	double teeth;	 /* MiB per second of a saw below all of it; 0: none */
	double tooth;	 /* seconds of one */
	double phase[RANKS];
};

/* So long after its start: half of it, a pause, the other half. */
static double load_at(const struct job *job, int rank, double since)
{
	double half = job->loads[rank] / 2, before = fmax(fmin(since, half), 0);
	double after = fmax(since - half - job->pause, 0);

	return job->loaded * (before + fmin(after, half)) / (2 * half);
}

static double own_level(const struct job *job, const struct job_rank *own, double onset, double t)
{
	double slope = own->slope > 0 ? own->slope : job->slope, level = 0;

	if (own->slow_seconds > 0)
		level += own->slow_slope *
			 fmin(fmax(t - onset + own->slow_seconds, 0), own->slow_seconds);
	if (own->again > 0)
		level += slope * fmax(t - own->again, 0);
	if (own->spike_at > 0 && t >= own->spike_at && t < own->spike_at + 5)
		level += 1500;
	if (own->drop_at > 0 && t >= own->drop_at)
		level -= own->drop;
	return level;
}

static double restarted(const struct job_rank *own, double t)
{
	return 300 + fmin(fmax(t - own->loads_at, 0) * 700, 2100);
}

static double in_blocks(const struct job *job, int rank, double mib)
{
	return job->block > 0 ? job->block * floor(mib / job->block + job->filled[rank]) : mib;
}

static __attribute__((unused)) void draw_arrivals(struct job *job, double gap)
{
	job->chance_gap = gap;
	for (int i = 0; i < RANKS; i++) {
		double at = job->onset[i];

		for (int k = 0; k < MAX_ARRIVALS; k++)
			job->arrivals[i][k] = at -= gap * log(uniform(1e-300, 1));
	}
}

static double arrived(const struct job *job, int rank, double t)
{
	int n = 0;

	while (n < MAX_ARRIVALS && job->arrivals[rank][n] <= t)
		n++;
	return n * job->block;
}

static double level_at(const struct job *job, int rank, double t)
{
	const struct job_rank *own = &job->own[rank];
	double since = t - job->onset[rank], rise = own->rise > 0 ? own->rise : job->rise;
	double slope = own->slope > 0 ? own->slope : job->slope;
	double stair = own->stair > 0 ? own->stair : job->stair;
	double base = job->base > 0 ? job->base : 1000;

	base += job->is_saw ? 300 * fmod(t, 10) / 10 : 0;
	base += job->teeth > 0 ? job->teeth * fmod(t + job->phase[rank], job->tooth) : 0;
	if (own->restart_at > 0 && t >= own->restart_at)
		return restarted(own, t);
	base += own_level(job, own, job->onset[rank], t);

	if (job->is_startup)
		base += fmin(fmax(t - 10, 0) * 200, 800);
	if (job->loads[rank] > 0)
		base += load_at(job, rank, t - job->start[rank] - job->idle[rank]) - 1000 + 10;
	if (job->early[rank] > 0 && t >= job->early[rank])
		base += job->early_rise;
	if (job->quake_at > 0 && t >= job->quake_at)
		base += job->quake;
	if (!(since > 0))
		return base;
	if (job->chance_gap > 0)
		return base + arrived(job, rank, t);
	if (stair > 0)
		since = ceil(since / stair) * stair;
	if (job->power > 0)
		since = pow(since, job->power);
	if (job->tau[rank] > 0)
		since = job->tau[rank] * expm1(fmin(since / job->tau[rank], 30));
	return base + in_blocks(job, rank, fmin(isinf(slope) ? rise : since * slope, rise));
}

/* ---- a disturbance that is the same for all ---- */

#define SHARED_POINTS 4096
#define SHARED_STEP 0.25
#define WANDER_KEPT 0.9

static double shared[SHARED_POINTS];

static void draw_shared(void)
{
	shared[0] = normal();
	for (int i = 1; i < SHARED_POINTS; i++)
		shared[i] = 0.97 * shared[i - 1] + sqrt(1 - 0.97 * 0.97) * normal();
}

static double shared_at(double t)
{
	size_t i = (size_t)(fmax(t, 0) / SHARED_STEP);

	return shared[i < SHARED_POINTS ? i : SHARED_POINTS - 1];
}

static int count_ranks(const struct job *job)
{
	return job->n_ranks > 0 ? job->n_ranks : RANKS;
}

/* What a rank says of itself at that moment. */
static void say(const struct job *job, int rank, double at, const char *host,
		struct telemetry_event *ret)
{
	const struct job_rank *own = &job->own[rank];
	bool is_lost = own->lost_at > 0 && at >= own->lost_at;

	event_init(ret);
	ret->rank = rank;
	ret->world_size = count_ranks(job);
	ret->host = (struct text){ host, strlen(host) };
	ret->pid = own->restart_at > 0 && at >= own->restart_at ? 200 + rank : 100 + rank;
	ret->clock.error_ns = own->clock_error > 0 ? (int64_t)(own->clock_error * 1e9) : 2000000;
	if (job->is_unnamed)
		ret->clock.error_ns = EVENT_UNKNOWN;
	ret->clock.is_free = (job->has_free_clock && rank == 1) || own->is_free || is_lost;
}

static bool is_recorded(const struct job_rank *own, double at)
{
	return !(own->hole_to > 0 && at > own->hole_from && at < own->hole_to) &&
	       !(own->end > 0 && at >= own->end);
}

static double stamp_of(const struct job *job, double at)
{
	if (!(job->stamp > 0))
		return at;
	return job->stamp * (job->is_rounded ? round(at / job->stamp) : floor(at / job->stamp));
}

static void add_rank(struct telemetry *t, const struct job *job, int rank)
{
	const struct job_rank *own = &job->own[rank];
	double wander = normal(), walked = 0,
	       interval = own->interval > 0 ? own->interval : job->interval;
	char host[16];
	size_t n = 0;

	snprintf(host, sizeof(host), "n%d", job->one_host ? 0 : rank);
	if (job->is_unnamed)
		strcpy(host, "unknown");
	for (double at = job->start[rank]; at < job->length && n < MAX_SAMPLES; at += interval) {
		double mib = level_at(job, rank, at) + job->noise * normal(), clock;
		struct telemetry_event sample;

		interval *= job->slower > 0 ? job->slower : 1;
		wander = WANDER_KEPT * wander + sqrt(1 - WANDER_KEPT * WANDER_KEPT) * normal();
		walked += job->walk > 0 ? job->walk * normal() : 0;
		mib += job->wander * wander + job->shared * shared_at(at) + walked;
		if (!is_recorded(own, at))
			continue;
		say(job, rank, at, host, &sample);
		clock = job->clock[rank] + (own->lost_at > 0 && at >= own->lost_at ? own->jump : 0);
		sample.event_type = (struct text){ "sample", 6 };
		sample.timestamp_ns = T0_NS + (job->stamp > 0 ? 0 : ODD_NS) +
				      llround(stamp_of(job, at + clock) * 1e9);
		sample.device_used_bytes = (int64_t)(fmax(mib, 0) * MIB);
		for (int i = job->is_twice ? 2 : 1; i > 0; i--)
			assert_int_equal(telemetry_add(t, &sample), 0);
		n++;
	}
}

static void add_birth(struct telemetry *t, const struct job *job, int rank)
{
	struct telemetry_event ev;

	say(job, rank, job->born[rank], "n0", &ev);
	ev.timestamp_ns = T0_NS + (int64_t)(job->born[rank] * 1e9);
	ev.event_type = (struct text){ "rank_start", 10 };
	assert_int_equal(telemetry_add(t, &ev), 0);
}

static void add_marker(struct telemetry *t, double at)
{
	struct telemetry_event ev;

	event_init(&ev);
	ev.timestamp_ns = T0_NS + (int64_t)(at * 1e9);
	ev.event_type = (struct text){ "nccl_all_reduce", 15 };
	ev.host = (struct text){ "n0", 2 };
	assert_int_equal(telemetry_add(t, &ev), 0);
}

/* As the bars have it: 8 ranks at 1 Hz, 20 MB of noise, ramps of 200 MB/s, starts up to 15 s apart.
 */
static __attribute__((unused)) void make_job(struct job *job, int leader, double lead)
{
	double at = uniform(25, 35);

	*job = (struct job){
		.slope = 200, .rise = INFINITY, .noise = 20, .interval = 1, .length = 60
	};
	for (int i = 0; i < RANKS; i++) {
		job->onset[i] = at + (i == leader ? 0 : lead);
		job->start[i] = uniform(0, 15);
		job->clock[i] = uniform(-0.002, 0.002);
	}
}

struct answer {
	enum verdict verdict;
	enum why why;
	int64_t rank;
	double probability, onset, low, high;
	double lead_below;	 /* NaN: not said */
	int n_onsets, n_covered; /* of all ranks that are candidates, and were to rise */
};

/* How many of the true onsets are inside of what is said of them. */
static void count_covered(const struct job *job, const struct first_cause *f, struct answer *ret)
{
	double origin = (double)(f->origin_ns - T0_NS) / 1e9;

	for (size_t i = 0; i < f->n_candidates; i++) {
		const struct candidate *o = &f->candidates[i];
		double at = job->onset[o->rank->rank];

		if (isinf(at) || o->rise.is_censored)
			continue;
		ret->n_onsets++;
		ret->n_covered += o->rise.low + origin <= at && at <= o->rise.high + origin;
	}
}

static struct answer ask(const struct job *job)
{
	struct telemetry *t = telemetry_new();
	struct answer answer = { .rank = -1, .onset = NAN };
	struct first_cause *f = NULL;
	struct rank_analysis a;

	assert_non_null(t);
	if (job->shared > 0)
		draw_shared();
	for (int i = 0; i < count_ranks(job); i++)
		if (!job->own[i].is_missing)
			add_rank(t, job, i);
	for (int i = 0; i < count_ranks(job); i++)
		if (job->born[i] > 0)
			add_birth(t, job, i);
	if (job->marker > 0)
		add_marker(t, job->marker);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	f = a.finding;
	answer.verdict = verdict_of(f->why);
	answer.why = f->why;
	answer.lead_below = f->answer.lead_below;
	count_covered(job, f, &answer);
	if (finding_culprit(f)) {
		const struct candidate *o = &f->candidates[0];
		double origin = (double)(f->origin_ns - T0_NS) / 1e9;

		answer.rank = finding_culprit(f)->rank;
		answer.probability = f->candidates[0].rise.probability;
		answer.onset = o->rise.best + origin;
		answer.low = o->rise.low + origin;
		answer.high = o->rise.high + origin;
	}
	rank_analysis_release(&a);
	telemetry_free(t);
	return answer;
}

#endif
