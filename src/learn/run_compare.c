#include "learn/run_compare.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/time_ledger.h"
#include "stats/order.h"

#define LEVEL 0.05
#define SAME_SHARE 0.01
#define MAX_SYSCALLS 8

/* What is compared, in the order in which it is told. */
static const struct {
	const char *key, *name;
	enum feature_unit unit;
	bool is_rare;  /* told only where one of them has some of it */
	bool explains; /* can be a reason for a longer or larger run */
} quantities[] = {
	{ "wall_seconds", "duration", UNIT_SECONDS, false, false },
	{ "cpu_seconds", "CPU time", UNIT_SECONDS, false, false },
	{ "cpu_share_pct", "CPU share", UNIT_PERCENT, false, true },
	{ "peak_rss_mb", "peak memory", UNIT_MB, false, false },
	{ "early_rss_mb@60", "memory in the first minute", UNIT_MB, false, false },
	{ "rss_slope_mb_s@60", "memory growth in the first minute", UNIT_MB_PER_SECOND, false,
	  false },
	{ "spawn_count", "processes", UNIT_COUNT, false, false },
	{ "max_threads", "threads", UNIT_COUNT, false, false },
	{ "max_fds", "open files", UNIT_COUNT, false, false },
	{ "io_mb", "read and written", UNIT_MB, false, true },
	{ "major_faults", "major faults", UNIT_COUNT, false, true },
	{ "memory_stall_pct", "stalled for memory", UNIT_PERCENT, false, true },
	{ "io_stall_pct", "stalled for I/O", UNIT_PERCENT, false, true },
	{ "cpu_stall_pct", "stalled for CPU", UNIT_PERCENT, false, true },
	{ "gpu_memory_mb", "GPU memory", UNIT_MB, true, false },
	{ "gpu_utilization_pct", "GPU utilisation", UNIT_PERCENT, true, false },
};

/* Where the time went: each of model/time_ledger.h, of which one of them has so much. */
#define LEAST_SECONDS 0.05
#define TIME_KEY_BYTES 32

static void time_key(char ret[TIME_KEY_BYTES], size_t category)
{
	snprintf(ret, TIME_KEY_BYTES, FEATURE_TIME "%s", time_categories[category].key);
}

static const char *const judgement_names[] = {
	[DIFF_UNKNOWN] = "unknown",
	[DIFF_USUAL] = "usual",
	[DIFF_MORE] = "beyond",
	[DIFF_LESS] = "below",
};

DEFINE_SELECT_NTH(select_nth, double)

/* ---- what is usual ---- */

/* The runs that it is taken from. */
struct usual {
	const struct run_record *runs;
	size_t n, n_failed;
	bool is_by_success;
};

static struct usual usual_of(const struct run_record *runs, size_t n)
{
	struct usual u = { .runs = runs, .n = n };

	for (size_t i = 0; i < n; i++)
		u.n_failed += run_has_failed(&runs[i]);
	u.is_by_success = n - u.n_failed >= SIMILAR_MIN_RUNS;
	return u;
}

static bool counts(const struct usual *u, const struct run_record *run)
{
	return !u->is_by_success || !run_has_failed(run);
}

/* Returns how many have a value. */
static size_t list_values(const struct usual *u, const char *key, double *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < u->n; i++) {
		double value = feature_value(key, &u->runs[i]);

		if (f64_known(value) && counts(u, &u->runs[i]))
			ret[n++] = value;
	}
	return n;
}

/* How far two values may lie apart that are the same: nobody does anything about 50 ms or 1 MB. */
static double same_within(double value, enum feature_unit unit)
{
	double least = unit == UNIT_SECONDS ? 0.05 : unit == UNIT_MB ? 1 : 0;

	return fmax(least, SAME_SHARE * fabs(value));
}

/* Sorts the others. */
static struct standing_value stand(double value, enum feature_unit unit, double *others, size_t n)
{
	struct standing_value v = { value, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, .n = n };
	size_t k = order_bound(n, 1 - LEVEL), n_nearer;
	double apart = same_within(value, unit);

	if (n == 0)
		return v;
	order_sort(others, n);
	v.median = order_median(others, n);
	v.high = others[k - 1];
	v.low = others[n - k];
	for (size_t i = 0; i < n; i++) {
		v.n_below += others[i] < value - apart;
		v.n_above += others[i] > value + apart;
	}
	n_nearer = v.n_below > v.n_above ? v.n_below : v.n_above;
	v.is_unusual = f64_known(value) && (double)(1 + n - n_nearer) <= LEVEL * (double)(n + 1);
	if (v.is_unusual || (n >= SIMILAR_MIN_RUNS && n_nearer == n))
		v.side = v.n_below > v.n_above ? 1 : -1;
	return v;
}

/* ---- two runs side by side ---- */

void diff_release(struct diff *d)
{
	free(d->rows);
	arena_release(&d->arena);
	*d = (struct diff){ .arena = ARENA_INIT };
}

struct comparison {
	const struct run_record *before, *after;
	struct usual usual;
	bool has_before; /* among the runs of the usual */
	double *values;	 /* of these, and of the two */
	double *apart;	 /* of each pair of them */
};

static void judge(struct comparison *c, struct diff_row *row)
{
	size_t n = list_values(&c->usual, row->key, c->values), n_pairs = 0, n_as_far = 0;
	size_t n_others = n - (c->has_before && f64_known(row->before));
	double apart = fabs(row->after - row->before);
	struct standing_value v = stand(row->after, row->unit, c->values, n);

	row->usual = row->p = F64_UNKNOWN;
	if (!f64_known(apart) || n_others < SIMILAR_MIN_RUNS)
		return;
	if (!c->has_before)
		c->values[n++] = row->before;
	c->values[n++] = row->after;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++) {
			double between = fabs(c->values[i] - c->values[k]);

			n_as_far += between >= apart;
			c->apart[n_pairs++] = between;
		}
	/* Each pair increases in one order and decreases in the other. */
	row->p = (double)n_as_far / (double)(2 * n_pairs);
	n = n_pairs - 1 - (size_t)(2 * LEVEL * (double)n_pairs);
	select_nth(c->apart, n_pairs, n);
	row->usual = c->apart[n];
	row->judgement = DIFF_USUAL;
	if (row->p <= LEVEL && v.side > 0 && row->after > row->before)
		row->judgement = DIFF_MORE;
	if (row->p <= LEVEL && v.side < 0 && row->after < row->before)
		row->judgement = DIFF_LESS;
}

double diff_expected_by_chance(const struct diff *d)
{
	size_t n_judged = 0;

	for (size_t i = 0; i < d->n; i++)
		n_judged += d->rows[i].judgement != DIFF_UNKNOWN;
	return LEVEL * (double)n_judged;
}

/* What neither has is not told. The key lives as long as the rows; NULL: -ENOMEM. */
static int compare(struct comparison *c, struct diff *d, const char *key, const char *name,
		   enum feature_unit unit)
{
	struct diff_row row = { .key = key, .name = name, .unit = unit };

	if (!key)
		return -ENOMEM;
	row.before = feature_value(key, c->before);
	row.after = feature_value(key, c->after);
	if (!f64_known(row.before) && !f64_known(row.after))
		return 0;
	judge(c, &row);
	d->rows[d->n++] = row;
	return 0;
}

static int by_share(const void *a, const void *b)
{
	const struct syscall_share *x = a, *y = b;

	if (x->pct != y->pct)
		return x->pct < y->pct ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The calls with the largest shares of one of them. */
static int compare_syscalls(struct comparison *c, struct diff *d, const struct run_record *run)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct syscall_share *shares;
	size_t n;
	int r = run_read_shares(run->syscalls, &arena, &shares, &n);

	if (r == 0 && n > 0)
		qsort(shares, n, sizeof(*shares), by_share);
	for (size_t i = 0; r == 0 && i < n && i < MAX_SYSCALLS; i++) {
		CLEANUP(buf_release) struct buf key = BUF_INIT;
		const char *kept;
		size_t k = 0;

		buf_printf(&key, "syscall:%s", shares[i].name);
		if (buf_error(&key) < 0)
			return -ENOMEM;
		while (k < d->n && strcmp(d->rows[k].key, key.data) != 0)
			k++;
		if (k < d->n)
			continue; /* the other run has it too */
		kept = arena_strndup(&d->arena, key.data, key.len);
		r = compare(c, d, kept, kept, UNIT_PERCENT);
	}
	return r;
}

int diff_runs(const struct run_record *before, const struct run_record *after,
	      const struct run_record *similar, size_t n_similar, struct diff *ret)
{
	size_t n = n_similar + 2;
	CLEANUP(free_ptr) double *values = calloc(n, sizeof(*values));
	CLEANUP(free_ptr) double *apart = calloc(n * n / 2, sizeof(*apart));
	struct comparison c = { before, after, usual_of(similar, n_similar), false, values, apart };
	struct diff d = { .arena = ARENA_INIT };
	int r;

	d.rows = calloc(ARRAY_SIZE(quantities) + N_TIME_CATEGORIES + 2 * MAX_SYSCALLS,
			sizeof(*d.rows));
	r = d.rows && values && apart ? 0 : -ENOMEM;
	for (size_t i = 0; i < n_similar; i++) {
		const bool is_before = similar[i].attempt == before->attempt;

		c.has_before |= is_before && counts(&c.usual, &similar[i]);
		d.n_others += !is_before && counts(&c.usual, &similar[i]);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(quantities); i++) {
		const char *key = quantities[i].key;

		/* Most hosts have no GPU, and most jobs use none. */
		if (!quantities[i].is_rare || feature_value(key, before) > 0 ||
		    feature_value(key, after) > 0)
			r = compare(&c, &d, key, quantities[i].name, quantities[i].unit);
	}
	for (size_t i = 0; r == 0 && i < N_TIME_CATEGORIES; i++) {
		char key[TIME_KEY_BYTES];

		time_key(key, i);
		if (feature_value(key, before) >= LEAST_SECONDS ||
		    feature_value(key, after) >= LEAST_SECONDS)
			r = compare(&c, &d, arena_strdup(&d.arena, key), time_categories[i].words,
				    UNIT_SECONDS);
	}
	if (r == 0)
		r = compare_syscalls(&c, &d, before);
	if (r == 0)
		r = compare_syscalls(&c, &d, after);
	if (r < 0) {
		diff_release(&d);
		return r;
	}
	*ret = d;
	return 0;
}

void diff_write_rows(struct json *j, const struct diff *d)
{
	json_begin_array(j);
	for (size_t i = 0; i < d->n; i++) {
		const struct diff_row *row = &d->rows[i];

		json_begin_object(j);
		json_key_string(j, "key", row->key);
		json_key_f64(j, "before", row->before);
		json_key_f64(j, "after", row->after);
		json_key_f64(j, "difference", row->after - row->before);
		json_key_f64(j, "usual_difference", row->usual);
		json_key_f64(j, "p", row->p);
		json_key_string(j, "judgement", judgement_names[row->judgement]);
		json_end_object(j);
	}
	json_end_array(j);
}

/* ---- where a run stands ---- */

int standing_judge(const struct run_record *run, const struct run_record *similar, size_t n,
		   struct standing *ret)
{
	static const struct {
		const char *key;
		enum feature_unit unit;
	} standings[STANDING_COUNT] = {
		[STANDING_WALL] = { "wall_seconds", UNIT_SECONDS },
		[STANDING_CPU] = { "cpu_seconds", UNIT_SECONDS },
		[STANDING_PEAK] = { "peak_rss_mb", UNIT_MB },
	};
	CLEANUP(free_ptr) double *values = calloc(n + 1, sizeof(*values));
	const struct usual usual = usual_of(similar, n);

	if (!values)
		return -ENOMEM;
	ret->n_others = n;
	ret->n_failed = usual.n_failed;
	ret->is_by_success = usual.is_by_success;
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++)
		ret->values[q] = stand(feature_value(standings[q].key, run), standings[q].unit,
				       values, list_values(&usual, standings[q].key, values));
	return 0;
}

int standing_list_reasons(const struct run_record *run, const struct run_record *similar, size_t n,
			  struct standing_reason ret[STANDING_MAX_REASONS])
{
	CLEANUP(free_ptr) double *values = calloc(n + 1, sizeof(*values));
	const struct usual usual = usual_of(similar, n);
	int n_reasons = 0;

	for (size_t i = 0; values && i < N_TIME_CATEGORIES + ARRAY_SIZE(quantities); i++) {
		const bool is_time = i < N_TIME_CATEGORIES;
		const size_t q = is_time ? 0 : i - N_TIME_CATEGORIES;
		const char *name = is_time ? time_categories[i].words : quantities[q].name;
		const enum feature_unit unit = is_time ? UNIT_SECONDS : quantities[q].unit;
		char key[TIME_KEY_BYTES];
		struct standing_value v;

		if (!(is_time ? time_categories[i].is_wait : quantities[q].explains))
			continue;
		if (is_time)
			time_key(key, i);
		else
			snprintf(key, sizeof(key), "%s", quantities[q].key);
		v = stand(feature_value(key, run), unit, values, list_values(&usual, key, values));
		if (v.is_unusual && v.side > 0 && n_reasons < STANDING_MAX_REASONS)
			ret[n_reasons++] = (struct standing_reason){ name, unit, v };
	}
	return values ? n_reasons : -ENOMEM;
}
