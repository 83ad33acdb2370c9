/*
 * bench_first_cause - how often `finding` is right on made-up jobs whose truth is known.
 *
 *	bench_first_cause [JOBS [SEED]]		so many of each class (20), from that seed on (1)
 *	bench_first_cause CLASS SEED		that one job as telemetry, for `proctor ranks
 *analyze -`
 *
 * The jobs are those of the project's generator in Python: ranks, interval, noise, teeth, start-up
 * and warm-up are drawn from the seed alike for all classes. A line for each class, for each
 *sampling interval (with the share of onsets inside their interval of 90 %) and for each stated
 *probability. Nothing is asserted.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "crossrank/crossrank.h"

#define MAX_RANKS 64
#define MAX_BLOCKS 9
#define T0_NS INT64_C(1700000000000000000)
#define MIB 1048576.0

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench_first_cause: %s: %s\n", what, strerror(-r));
	exit(1);
}

/* ---- random numbers ---- */

static uint64_t state;

static double uniform(double from, double to)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return from + (to - from) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal(double sd)
{
	return sd * sqrt(-2 * log(uniform(1e-300, 1))) * cos(6.283185307179586 * uniform(0, 1));
}

static double pick(const double *of, size_t n)
{
	return of[(size_t)uniform(0, (double)n)];
}

#define PICK(...)                             \
	pick((const double[]){ __VA_ARGS__ }, \
	     sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))

static int compare_doubles(const void *l, const void *r)
{
	double a = *(const double *)l, b = *(const double *)r;

	return (a > b) - (a < b);
}

/* ---- a job ---- */

enum class {
	SOLO_RAMP,
	SOLO_STEP,
	SOLO_ON_GROWTH,
	SOLO_LATE,
	LEAD_RAMP,
	LEAD_STEP,
	LEAD_SLOWFOLLOW,
	LEAD_VARFOLLOW,
	LEAD_DIES,
	LEAD_START_GAP,
	NONE_FLAT,
	NONE_COMMON,
	NONE_COMMON_STEP,
	NONE_STARTORDER,
	NONE_CKPT,
	NONE_CKPT_GROWTH,
	NONE_RANK0_MORE,
	NONE_STAGGERED_LOAD,
	NONE_GROWTH_SCALE,
	TRANSIENT_SOLO,
	N_CLASSES
};

static const char *const names[N_CLASSES] = {
	"solo_ramp",	    "solo_step",	   "solo_on_growth",	"solo_late",
	"lead_ramp",	    "lead_step",	   "lead_slowfollow",	"lead_varfollow",
	"lead_dies",	    "lead_start_gap",	   "none_flat",		"none_common",
	"none_common_step", "none_startorder",	   "none_ckpt",		"none_ckpt_growth",
	"none_rank0_more",  "none_staggered_load", "none_growth_scale", "transient_solo",
};

enum noise { NOISE_NONE, NOISE_WHITE, NOISE_HEAVY, NOISE_AR, NOISE_WALK };

struct job {
	int n, culprit; /* -1: none */
	double interval, onset, lead;
	struct telemetry *telemetry;
	struct json *json; /* NULL: it is not printed */
};

static void add(struct job *job, int rank, const char *type, double at, double mib)
{
	struct telemetry_event ev;

	event_init(&ev);
	ev.timestamp_ns = T0_NS + (int64_t)(at * 1e9);
	ev.event_type = (struct text){ type, strlen(type) };
	ev.collector = (struct text){ "sim", 3 };
	ev.host = (struct text){ "h", 1 };
	ev.session_id = (struct text){ "s", 1 };
	ev.sampling_interval_ms = (int64_t)(job->interval * 1000);
	ev.pid = 100 + rank;
	ev.rank = ev.local_rank = ev.device_id = rank;
	ev.world_size = job->n;
	ev.clock.boot_id = (struct text){ "b", 1 };
	ev.device_used_bytes = ev.allocator_reserved_bytes = ev.allocator_allocated_bytes =
		(int64_t)(mib * MIB);
	must(telemetry_add(job->telemetry, &ev), "telemetry_add");
	if (job->json)
		event_write_json(job->json, &ev);
}

/* Memory that a rank loads in blocks after its first sample. */
struct load {
	double at[MAX_BLOCKS], mib[MAX_BLOCKS];
	int n;
};

static struct load draw_load(double first, double seconds, double mib)
{
	struct load load = { .n = 1 + (int)uniform(1, 8) };
	double sum = 0;

	for (int i = 1; i + 1 < load.n; i++)
		load.at[i] = uniform(0, seconds);
	load.at[load.n - 1] = seconds;
	qsort(load.at, (size_t)load.n, sizeof(*load.at), compare_doubles);
	for (int i = 0; i < load.n; i++) {
		load.at[i] += first;
		sum += load.mib[i] = -log(uniform(1e-300, 1));
	}
	for (int i = 0; i < load.n; i++)
		load.mib[i] *= mib / sum;
	return load;
}

static void make_job(struct job *job, enum class class, uint64_t seed)
{
	static const int counts[] = { 2, 2, 4, 4, 4, 8, 8, 8, 8, 64 };
	double first[MAX_RANKS], program[MAX_RANKS], scale[MAX_RANKS], teeth[MAX_RANKS];
	double onset[MAX_RANKS], slopes[MAX_RANKS], done = 0, common = 0;
	struct load loads[MAX_RANKS];
	double unit, stagger, base, seconds, warm_at, warm_mib, sigma, tooth, tooth_period, slope;
	double step, after, end, jitter, phase, missing, save_period, save_seconds, save_mib, rest;
	bool is_same, is_same_load, has_warmup, is_in_step, is_step;
	bool is_lead = class >= LEAD_RAMP && class <= LEAD_START_GAP;
	enum noise noise;
	int n, culprit, saver;

	state = seed * UINT64_C(0x9e3779b97f4a7c15) ^ ((uint64_t) class + 1) << 56;
	job->n = n = counts[(size_t)uniform(0, ARRAY_SIZE(counts))];
	job->interval = PICK(.25, .5, 1, 1, 2, 5);
	unit = fmax(1, job->interval);
	stagger = PICK(0, .5, 2, 5);
	base = uniform(500, 8000);
	is_same = uniform(0, 1) < .5;
	is_same_load = uniform(0, 1) < .5;
	seconds = uniform(.3, 5);
	for (int r = 0; r < n; r++) {
		double mib = base * (is_same ? 1 : uniform(.6, 1.4));
		double own = is_same_load ? seconds : uniform(.3, 5);

		program[r] = uniform(0, .5);
		first[r] = program[r] + 4 + uniform(0, stagger);
		if (r == 0 && (uniform(0, 1) < .3 || class == NONE_RANK0_MORE))
			mib *= uniform(1.1, 2);
		loads[r] = draw_load(first[r], own, mib);
		done = fmax(done, first[r] + own);
		scale[r] = uniform(.97, 1.03);
		teeth[r] = uniform(.25, 1);
		onset[r] = INFINITY;
	}
	has_warmup = uniform(0, 1) < .5; /* the first step of training, all together */
	warm_at = done + uniform(1, 4) * unit;
	warm_mib = has_warmup ? uniform(50, 400) : 0;
	noise = (enum noise)PICK(NOISE_NONE, NOISE_NONE, NOISE_WHITE, NOISE_HEAVY, NOISE_AR,
				 NOISE_WALK);
	sigma = PICK(2, 8, 20);
	tooth = PICK(0, 0, 20, 60, 200);
	tooth_period = uniform(2, 9) * unit;
	is_in_step = uniform(0, 1) < .5;
	rest = class == LEAD_START_GAP ? uniform(2, 8) * unit : uniform(8, 40) * unit;
	job->onset = fmax(done, warm_at) + rest;
	slope = PICK(30, 60, 120, 250, 500) / (job->interval <= 1 ? 1 : job->interval / 1.5);
	slope = fmax(slope, tooth / (3 * unit));
	step = PICK(300, 800, 3000);
	job->lead = PICK(.5, 1, 2, 3, 5, 10);
	if (job->interval > 1)
		job->lead = fmax(job->lead, job->interval * PICK(.5, 1, 2));
	culprit = (int)uniform(0, n);
	after = uniform(15, 40) * unit + job->lead;
	end = job->onset + after;
	jitter = PICK(0, .1, .3);
	is_step = class == SOLO_STEP || class == LEAD_STEP || class == NONE_COMMON_STEP ||
		  class == NONE_STAGGERED_LOAD;
	job->culprit = class <= LEAD_START_GAP ? culprit : -1;
	if (class == SOLO_ON_GROWTH)
		common = slope * uniform(.05, .4);
	if (class == SOLO_LATE)
		end = job->onset + fmax(6 * job->interval, 4) + uniform(0, 2);
	for (int r = 0; r < n; r++) {
		slopes[r] = slope;
		if (is_lead || class == NONE_COMMON || class == NONE_RANK0_MORE ||
		    class == NONE_GROWTH_SCALE || class == NONE_COMMON_STEP ||
		    class == NONE_CKPT_GROWTH)
			onset[r] = job->onset + (is_lead ? job->lead : 0) + uniform(0, jitter);
		if (class == LEAD_SLOWFOLLOW)
			slopes[r] = slope * (r > 0 ? slopes[0] / slope : PICK(.2, .5));
		if (class == LEAD_VARFOLLOW)
			slopes[r] = slope * uniform(.7, 1.5);
		if (class == NONE_GROWTH_SCALE)
			slopes[r] = slope * uniform(.85, 1.15);
		if (class == NONE_STARTORDER)
			onset[r] = first[r] + job->onset - 4.5 + normal(jitter / 2);
		if (class == NONE_STAGGERED_LOAD)
			onset[r] = done + uniform(1, 12) * unit;
	}
	if (job->culprit >= 0) {
		onset[culprit] = job->onset;
		slopes[culprit] = class == LEAD_VARFOLLOW ? slopes[culprit] : slope;
	}
	phase = uniform(0, 1) < .6 ? uniform(0, job->interval) : NAN;
	missing = PICK(0, 0, 0, .1, .25);
	save_period = uniform(8, 25) * unit;
	save_seconds = uniform(1, 4) * unit;
	save_mib = uniform(100, 1500);
	saver = uniform(0, 1) < .8 ? 0 : culprit;
	for (int r = 0; r < n; r++) {
		double tooth_phase = is_in_step ? 0 : uniform(0, 1),
		       own_warm = warm_at + uniform(0, .1);
		double passes = job->onset + uniform(2, 8) * unit, walked = 0, kept = 0, last = -1;

		add(job, r, "rank_start", program[r], 0);
		for (double tick = isnan(phase) ? uniform(0, job->interval) : phase; tick < end;
		     tick += job->interval) {
			double t = tick + normal(.002), mib = warm_mib * scale[r] * (t >= own_warm);

			if (t < first[r] || (last >= 0 && uniform(0, 1) < missing) || t <= last ||
			    (class == LEAD_DIES && r == culprit &&
			     t >= onset[r] + fmax(job->lead, 5 * job->interval) +
					     3 * job->interval))
				continue;
			last = t;
			for (int i = 0; i < loads[r].n; i++)
				mib += loads[r].mib[i] * (t >= loads[r].at[i]);
			if (t > onset[r])
				mib += scale[r] * (is_step ? step : slopes[r] * (t - onset[r]));
			mib += common * fmax(t - done, 0);
			if (t > done)
				mib += tooth * teeth[r] * fmod(t / tooth_period + tooth_phase, 1);
			if ((class == NONE_CKPT || class == NONE_CKPT_GROWTH) && r == saver &&
			    t > done && fmod(t - done, save_period) < save_seconds)
				mib += save_mib;
			if (class == TRANSIENT_SOLO && r == culprit && t >= job->onset &&
			    t < passes)
				mib += step;
			walked += normal(sigma / 5);
			kept = .9 * kept + normal(sigma * .44);
			mib += noise == NOISE_WHITE ? normal(sigma)
			       : noise == NOISE_HEAVY
				       ? normal(sigma) / sqrt(-log(uniform(1e-300, 1)))
			       : noise == NOISE_WALK ? walked
			       : noise == NOISE_AR   ? kept
						     : 0;
			add(job, r, "sample", t, fmax(mib, 1));
		}
	}
}

/* ---- counting ---- */

struct tally {
	int right, wrong, none, unclear, covered;
};

static void print_tally(const char *key, const char *value, const struct tally *t)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "first_cause");
	json_key_string(&j, key, value);
	json_key_i64(&j, "right", t->right);
	json_key_i64(&j, "wrong", t->wrong);
	json_key_i64(&j, "none", t->none);
	json_key_i64(&j, "cannot_tell", t->unclear);
	json_key_i64(&j, "onset_covered", t->covered);
	json_end_object(&j);
	printf("%s\n", out.data);
	fflush(stdout);
}

static void count(struct tally *t, const struct job *job, const struct first_cause *f)
{
	double origin = (double)(f->origin_ns - T0_NS) / 1e9;

	t->none += verdict_of(f->why) == VERDICT_NONE;
	t->unclear += verdict_of(f->why) == VERDICT_CANNOT_TELL;
	if (verdict_of(f->why) != VERDICT_NAMED)
		return;
	if (finding_culprit(f)->rank != job->culprit) {
		t->wrong++;
		return;
	}
	t->right++;
	t->covered += f->candidates[0].rise.low + origin <= job->onset &&
		      job->onset <= f->candidates[0].rise.high + origin;
}

static void count_all(int n_jobs, uint64_t seed)
{
	static const double intervals[] = { .25, .5, 1, 2, 5 };
	static const double stated[] = { .8, .9, 1 };
	struct tally with = { 0 }, without = { 0 }, by_interval[5] = { 0 }, by_stated[5] = { 0 };
	char text[32];

	for (int class = 0; class < N_CLASSES; class ++) {
		struct tally own = { 0 };

		for (int i = 0; i < n_jobs; i++) {
			struct job job = { .telemetry = telemetry_new() };
			const struct first_cause *f;
			struct rank_analysis a;

			make_job(&job, (enum class) class, seed + (uint64_t)i);
			must(rank_analysis_init(&a, job.telemetry), "rank_analysis_init");
			must(rank_analysis_run(&a, EVENT_UNKNOWN), "rank_analysis_run");
			f = a.finding;
			count(&own, &job, f);
			count(job.culprit >= 0 ? &with : &without, &job, f);
			for (size_t k = 0; k < ARRAY_SIZE(intervals); k++)
				if (job.interval == intervals[k])
					count(&by_interval[k], &job, f);
			for (size_t k = 0; finding_culprit(f) && k + 1 < ARRAY_SIZE(stated); k++)
				if (f->candidates[0].rise.probability >= stated[k] &&
				    f->candidates[0].rise.probability < stated[k + 1])
					count(&by_stated[k], &job, f);
			if (getenv("VERBOSE"))
				printf("# %s %llu n=%d dt=%g lead=%g culprit=%d: %s %s %lld p=%.3f below %.2f\n",
				       names[class], (unsigned long long)seed + (unsigned)i, job.n,
				       job.interval, job.lead, job.culprit,
				       finding_verdict_name(verdict_of(f->why)),
				       finding_why_name(f->why),
				       finding_culprit(f) ? (long long)finding_culprit(f)->rank
							  : -1LL,
				       f->n_candidates ? f->candidates[0].rise.probability : NAN,
				       f->answer.lead_below);
			rank_analysis_release(&a);
			telemetry_free(job.telemetry);
		}
		print_tally("class", names[class], &own);
	}
	for (size_t k = 0; k < ARRAY_SIZE(intervals); k++) {
		snprintf(text, sizeof(text), "%g s", intervals[k]);
		print_tally("interval", text, &by_interval[k]);
	}
	for (size_t k = 0; k + 1 < ARRAY_SIZE(stated); k++) {
		snprintf(text, sizeof(text), "from %g", stated[k]);
		print_tally("probability", text, &by_stated[k]);
	}
	print_tally("all", "with a culprit", &with);
	print_tally("all", "without", &without);
}

int main(int argc, char **argv)
{
	for (int class = 0; argc == 3 && class < N_CLASSES; class ++) {
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct json j;
		struct job job = { .json = &j };

		if (strcmp(argv[1], names[class]) != 0)
			continue;
		job.telemetry = telemetry_new();
		json_init(&j, &out);
		json_begin_array(&j);
		make_job(&job, (enum class) class, strtoull(argv[2], NULL, 10));
		json_end_array(&j);
		puts(out.data);
		telemetry_free(job.telemetry);
		return 0;
	}
	count_all(argc > 1 ? atoi(argv[1]) : 20, argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
	return 0;
}
