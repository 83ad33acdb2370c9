#include "learn/feature.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/time_ledger.h"

/* ---- numbers ---- */

/* A number: its key, the words for it, its unit, whether the end cuts it short. */
struct feature_number {
	const char *key, *what;
	enum feature_unit unit;
	bool is_censored;
	size_t offset;
	double (*compute)(const struct run_record *run); /* instead of an offset */
	enum outcome outcome; /* that comes of having much of it: OUTCOME_NONE, or one failure */
};

static double value_at(const struct run_record *run, size_t offset)
{
	return *(const double *)(const void *)((const char *)run + offset);
}

static double cpu_share(const struct run_record *run)
{
	return run->wall_seconds > 0 ? 100 * run->cpu_seconds / run->wall_seconds : F64_UNKNOWN;
}

#define NONE OUTCOME_NONE /* that it would tell */
static const struct feature_number numbers[] = {
	{ "peak_rss_mb", "whose peak memory was", UNIT_MB, true,
	  offsetof(struct run_record, peak_rss_mb), NULL, OUTCOME_OOM },
	{ "cpu_seconds", "whose CPU time was", UNIT_SECONDS, true,
	  offsetof(struct run_record, cpu_seconds), NULL, OUTCOME_TIMEOUT },
	{ "cpu_share_pct", "whose CPU share was", UNIT_PERCENT, false, 0, cpu_share, NONE },
	{ "wall_seconds", "that took", UNIT_SECONDS, true,
	  offsetof(struct run_record, wall_seconds), NULL, OUTCOME_TIMEOUT },
	{ "spawn_count", "whose number of processes was", UNIT_COUNT, true,
	  offsetof(struct run_record, spawn_count), NULL, NONE },
	{ "max_threads", "whose number of threads was", UNIT_COUNT, true,
	  offsetof(struct run_record, max_threads), NULL, NONE },
	{ "max_fds", "whose number of open files was", UNIT_COUNT, true,
	  offsetof(struct run_record, max_fds), NULL, NONE },
	{ "io_mb", "that read and wrote", UNIT_MB, true, offsetof(struct run_record, io_mb), NULL,
	  NONE },
	{ "major_faults", "whose number of major faults was", UNIT_COUNT, true,
	  offsetof(struct run_record, major_faults), NULL, NONE },
	{ "memory_stall_pct", "while which the share of time stalled for memory was", UNIT_PERCENT,
	  false, offsetof(struct run_record, memory_stall_pct), NULL, NONE },
	{ "io_stall_pct", "while which the share of time stalled for I/O was", UNIT_PERCENT, false,
	  offsetof(struct run_record, io_stall_pct), NULL, NONE },
	{ "cpu_stall_pct", "while which the share of time stalled for CPU was", UNIT_PERCENT, false,
	  offsetof(struct run_record, cpu_stall_pct), NULL, NONE },
	{ "gpu_memory_mb", "whose GPU memory was", UNIT_MB, true,
	  offsetof(struct run_record, gpu_memory_mb), NULL, NONE },
	{ "gpu_utilization_pct", "whose GPU utilisation was", UNIT_PERCENT, false,
	  offsetof(struct run_record, gpu_utilization_pct), NULL, NONE },
};
#undef NONE

/* A number with a value for each horizon, and the words for these. */
struct feature_early {
	const char *key, *what;
	enum feature_unit unit;
	size_t offset; /* of the values for all horizons */
};

static const struct feature_early earlies[] = {
	{ "early_rss_mb", "whose memory reached", UNIT_MB,
	  offsetof(struct run_record, early_rss_mb) },
	{ "rss_slope_mb_s", "whose memory grew", UNIT_MB_PER_SECOND,
	  offsetof(struct run_record, rss_slope_mb_s) },
};

static const char *const horizons[RUN_HORIZONS] = {
	"in the first 5 s",
	"in the first 15 s",
	"in the first minute",
	"in the first 5 minutes",
};

static bool number_tells_outcome(const struct feature_number *number, const struct run_record *run)
{
	return number->outcome != OUTCOME_NONE && run_measured_outcome(run) == number->outcome;
}

/* ---- shares, anomalies, hosts ---- */

#define MAX_NAMES 12
#define OOM_KILL "anomaly:oom_kill" /* the failure itself */

/* Features with a name of their own: what stands before it in the key, and the words for it. */
struct feature_named {
	const char *prefix, *what;
	enum feature_unit unit;
	bool is_censored; /* it may have come with the end */
	double (*value)(const struct run_record *run, const char *name);
	size_t max; /* names that are looked at */
};

/* The share of a call in the run's time in calls; NaN: nobody looked. */
static double share_of(const struct run_record *run, const char *name)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct syscall_share *shares;
	double total = 0, own = 0;
	size_t n;

	if (!run->syscalls || run_read_shares(run->syscalls, &arena, &shares, &n) < 0)
		return F64_UNKNOWN;
	for (size_t i = 0; i < n; i++) {
		total += shares[i].pct;
		if (strcmp(shares[i].name, name) == 0)
			own = shares[i].pct;
	}
	return total > 0 ? 100 * own / total : F64_UNKNOWN;
}

static double has_anomaly(const struct run_record *run, const char *type)
{
	return run->anomalies ? run_has_anomaly(run->anomalies, type) : F64_UNKNOWN;
}

static double is_on_host(const struct run_record *run, const char *host)
{
	return run->host ? strcmp(run->host, host) == 0 : F64_UNKNOWN;
}

static const struct feature_named nameds[] = {
	{ "syscall:", "whose share of time in calls that went to", UNIT_PERCENT, false, share_of,
	  MAX_NAMES },
	{ "anomaly:", "with the anomaly", UNIT_NONE, true, has_anomaly, MAX_NAMES },
	{ "host:", "on the host", UNIT_NONE, false, is_on_host, 8 },
};

/* Thread-seconds, by the key behind the prefix; NaN: not known. */
static double time_of(const struct run_record *run, const char *key)
{
	struct time_ledger l;

	if (!time_ledger_read(run->time, &l))
		return F64_UNKNOWN;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		if (strcmp(key, time_categories[i].key) == 0)
			return u64_to_seconds(l.ns[i]);
	return F64_UNKNOWN;
}

/* Of a key like "rss_slope_mb_s@60". */
static double value_by_early_key(const char *key, const char *at, const struct run_record *run)
{
	double seconds = strtod(at + 1, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(earlies); i++) {
		const struct feature_early *early = &earlies[i];

		if (strncmp(key, early->key, (size_t)(at - key)) != 0 || early->key[at - key])
			continue;
		for (size_t h = 0; h < RUN_HORIZONS; h++)
			if (run_horizons[h] == seconds)
				return value_at(run, early->offset + h * sizeof(double));
	}
	return F64_UNKNOWN;
}

double feature_value(const char *key, const struct run_record *run)
{
	const char *at = strchr(key, '@');

	if (strncmp(key, FEATURE_TIME, strlen(FEATURE_TIME)) == 0)
		return time_of(run, key + strlen(FEATURE_TIME));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (strcmp(key, numbers[i].key) == 0)
			return numbers[i].compute ? numbers[i].compute(run)
						  : value_at(run, numbers[i].offset);
	for (size_t i = 0; i < ARRAY_SIZE(nameds); i++)
		if (strncmp(key, nameds[i].prefix, strlen(nameds[i].prefix)) == 0)
			return nameds[i].value(run, key + strlen(nameds[i].prefix));
	return at ? value_by_early_key(key, at, run) : F64_UNKNOWN;
}

bool feature_tells_outcome(const char *key, const struct run_record *run)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (strcmp(key, numbers[i].key) == 0)
			return number_tells_outcome(&numbers[i], run);
	return strcmp(key, OOM_KILL) == 0;
}

/* ---- columns ---- */

#define MIN_KNOWN 3	    /* of those that failed, and of those that passed */
#define HORIZON_SHARE 0.9   /* of both must have lived so long */
#define DOMINANT_SHARE 0.35 /* of the time in calls: from then on a call is worth a column */

struct builder {
	const struct run_record *const *runs;
	size_t n_runs, n_failed;
	struct features *out;
	size_t cap;
};

/* The values of a feature, of each run, and how many of those that failed and passed have one. */
struct column {
	const char *key;
	double *values;
	size_t n_failed, n_passed;
	bool varies; /* not all are the same */
};

/* -ENOMEM. */
static int read_column(struct builder *b, const char *key, struct column *ret)
{
	double *values = arena_alloc(&b->out->arena, b->n_runs * sizeof(*values));
	double low = INFINITY, high = -INFINITY;

	*ret = (struct column){ .key = key, .values = values };
	for (size_t i = 0; values && i < b->n_runs; i++) {
		bool has_failed = run_has_failed(b->runs[i]);

		values[i] = feature_value(key, b->runs[i]);
		ret->n_failed += f64_known(values[i]) && has_failed;
		ret->n_passed += f64_known(values[i]) && !has_failed;
		low = fmin(low, values[i]); /* NaN is none */
		high = fmax(high, values[i]);
	}
	ret->varies = low < high;
	return values ? 0 : -ENOMEM;
}

/* Unless there is nothing to compare: too few values on a side, or all the same. */
static int add(struct builder *b, const struct column *c, const char *what, const char *when,
	       enum feature_unit unit, bool is_censored)
{
	const size_t n_passed = b->n_runs - b->n_failed;
	const bool is_small = b->n_failed < MIN_KNOWN || n_passed < MIN_KNOWN; /* then all count */
	struct features *out = b->out;
	const char *key;

	if (!c->varies || c->n_failed < (is_small ? b->n_failed : MIN_KNOWN) ||
	    c->n_passed < (is_small ? n_passed : MIN_KNOWN))
		return 0;
	key = arena_strdup(&out->arena, c->key);
	if (!key || ARRAY_RESERVE(out->items, b->cap, out->n + 1) < 0)
		return -ENOMEM;
	out->items[out->n++] = (struct feature){ key, what, when, unit, is_censored, c->values };
	return 0;
}

static int add_numbers(struct builder *b)
{
	int r = 0;

	for (size_t k = 0; r == 0 && k < ARRAY_SIZE(numbers); k++) {
		const struct feature_number *number = &numbers[k];
		bool tells_a_failure = false;
		struct column c;

		for (size_t i = 0; i < b->n_runs; i++)
			tells_a_failure |= run_has_failed(b->runs[i]) &&
					   number_tells_outcome(number, b->runs[i]);
		if (tells_a_failure)
			continue;
		r = read_column(b, number->key, &c);
		if (r == 0)
			r = add(b, &c, number->what, "", number->unit, number->is_censored);
	}
	return r;
}

/*
 * Of the latest horizon that nearly all lived to see. Those that died earlier have no value: were
 * they few or many, the others may not stand for them.
 */
static int add_early(struct builder *b, const struct feature_early *early)
{
	for (size_t h = RUN_HORIZONS; h-- > 0;) {
		struct column c;
		char key[64];

		snprintf(key, sizeof(key), "%s@%g", early->key, run_horizons[h]);
		if (read_column(b, key, &c) < 0)
			return -ENOMEM;
		if ((double)c.n_failed >= HORIZON_SHARE * (double)b->n_failed &&
		    (double)c.n_passed >= HORIZON_SHARE * (double)(b->n_runs - b->n_failed))
			return add(b, &c, early->what, horizons[h], early->unit, false);
	}
	return 0;
}

/* Names that occur in the runs, each once, at most so many. */
struct names {
	const char *items[MAX_NAMES];
	size_t n, max;
};

static void note_name(struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->items[i], name) == 0)
			return;
	if (names->n < names->max)
		names->items[names->n++] = name;
}

static int note_dominant(struct names *names, const struct run_record *run, struct arena *arena)
{
	struct syscall_share *shares;
	double total = 0;
	size_t n;

	if (run_read_shares(run->syscalls, arena, &shares, &n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		total += shares[i].pct;
	for (size_t i = 0; i < n; i++)
		if (shares[i].pct > DOMINANT_SHARE * total)
			note_name(names, shares[i].name);
	return 0;
}

static int note_anomalies(struct names *names, const struct run_record *run, struct arena *arena)
{
	const char *p = run->anomalies;

	while (p && *p) {
		size_t len = strcspn(p, " ");
		const char *type = arena_strndup(arena, p, len);

		if (!type)
			return -ENOMEM;
		note_name(names, type);
		p += len + (p[len] == ' ');
	}
	return 0;
}

static int note_host(struct names *names, const struct run_record *run, struct arena *arena)
{
	(void)arena;
	if (run->host)
		note_name(names, run->host);
	return 0;
}

static int add_all_named(struct builder *b, size_t which)
{
	static int (*const notes[])(struct names *, const struct run_record *, struct arena *) = {
		note_dominant,
		note_anomalies,
		note_host,
	};
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct names names = { .max = nameds[which].max };
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_runs; i++)
		r = notes[which](&names, b->runs[i], &arena);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const struct feature_named *named = &nameds[which];
		CLEANUP(buf_release) struct buf key = BUF_INIT;
		struct column c;

		buf_printf(&key, "%s%s", named->prefix, names.items[i]);
		r = buf_error(&key) < 0 ? -ENOMEM : read_column(b, key.data, &c);
		if (r == 0 && strcmp(key.data, OOM_KILL) != 0)
			r = add(b, &c, named->what, "", named->unit, named->is_censored);
	}
	return r;
}

void features_release(struct features *f)
{
	free(f->items);
	arena_release(&f->arena);
	*f = (struct features){ .arena = ARENA_INIT };
}

int features_build(const struct run_record *const *runs, size_t n_runs, struct features *ret)
{
	struct features out = { .arena = ARENA_INIT };
	struct builder b = { .runs = runs, .n_runs = n_runs, .out = &out };
	int r;

	for (size_t i = 0; i < n_runs; i++)
		b.n_failed += run_has_failed(runs[i]);
	r = add_numbers(&b);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(earlies); i++)
		r = add_early(&b, &earlies[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(nameds); i++)
		r = add_all_named(&b, i);
	if (r < 0) {
		features_release(&out);
		return r;
	}
	*ret = out;
	return 0;
}

/* ---- words ---- */

static const char *const unit_words[] = {
	[UNIT_MB] = " MB",     [UNIT_MB_PER_SECOND] = " MB/s",
	[UNIT_SECONDS] = " s", [UNIT_PERCENT] = " %",
	[UNIT_COUNT] = "",     [UNIT_NONE] = "",
};

/* As many digits as one reads: 0.043, 4.3, 43, 4321. */
void feature_add_value(struct buf *out, enum feature_unit unit, double value)
{
	double size = fabs(value);
	int digits = size >= 100 || size == floor(size) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;

	if (size > 0 && size < 0.01)
		buf_printf(out, "%.2g%s", value, unit_words[unit]);
	else
		buf_printf(out, "%.*f%s", digits, value, unit_words[unit]);
}

void feature_add_phrase(struct buf *out, const struct feature *f, bool is_above, double threshold)
{
	const char *colon = strchr(f->key, ':');

	if (f->unit == UNIT_NONE && !is_above)
		buf_add_str(out, "not ");
	buf_add_str(out, f->what);
	if (colon)
		buf_printf(out, " %s", colon + 1);
	if (f->unit == UNIT_NONE)
		return;
	if (colon)
		buf_add_str(out, " was");
	if (f->unit == UNIT_MB_PER_SECOND)
		buf_add_str(out, is_above ? " faster than " : " no faster than ");
	else
		buf_add_str(out, is_above ? " more than " : " at most ");
	feature_add_value(out, f->unit, threshold);
	if (f->when[0])
		buf_printf(out, " %s", f->when);
}
