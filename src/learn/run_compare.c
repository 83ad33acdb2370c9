#include "learn/run_compare.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "stats/order.h"

#define BEYOND 0.05
#define MAX_SYSCALLS 8

/* What is compared, in the order in which it is told. */
static const struct {
	const char *key, *name;
	enum feature_unit unit;
	bool is_rare; /* told only where one of them has some of it */
} quantities[] = {
	{ "wall_seconds", "duration", UNIT_SECONDS, false },
	{ "cpu_seconds", "CPU time", UNIT_SECONDS, false },
	{ "cpu_share_pct", "CPU share", UNIT_PERCENT, false },
	{ "peak_rss_mb", "peak memory", UNIT_MB, false },
	{ "early_rss_mb@60", "memory in the first minute", UNIT_MB, false },
	{ "rss_slope_mb_s@60", "memory growth in the first minute", UNIT_MB_PER_SECOND, false },
	{ "spawn_count", "processes", UNIT_COUNT, false },
	{ "max_threads", "threads", UNIT_COUNT, false },
	{ "max_fds", "open files", UNIT_COUNT, false },
	{ "io_mb", "read and written", UNIT_MB, false },
	{ "major_faults", "major faults", UNIT_COUNT, false },
	{ "memory_stall_pct", "stalled for memory", UNIT_PERCENT, false },
	{ "io_stall_pct", "stalled for I/O", UNIT_PERCENT, false },
	{ "cpu_stall_pct", "stalled for CPU", UNIT_PERCENT, false },
	{ "gpu_memory_mb", "GPU memory", UNIT_MB, true },
	{ "gpu_utilization_pct", "GPU utilisation", UNIT_PERCENT, true },
};

static const char *const judgement_names[] = {
	[DIFF_UNKNOWN] = "unknown",
	[DIFF_USUAL] = "usual",
	[DIFF_BEYOND] = "beyond",
};

void diff_release(struct diff *d)
{
	free(d->rows);
	arena_release(&d->arena);
	*d = (struct diff){ .arena = ARENA_INIT };
}

struct comparison {
	const struct run_record *before, *after;
	const struct run_record *const *others;
	size_t n_others;
	double *values; /* of the others that have one */
	double *apart;	/* of each pair of them */
};

/* How far each pair of those known lies apart; returns the pairs, sorted. */
static size_t fill_pairs(struct comparison *c, const char *key)
{
	size_t n = 0, n_pairs = 0;

	for (size_t i = 0; i < c->n_others; i++) {
		double value = feature_value(key, c->others[i]);

		if (f64_known(value))
			c->values[n++] = value;
	}
	if (n < DIFF_MIN_OTHERS)
		return 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			c->apart[n_pairs++] = fabs(c->values[i] - c->values[k]);
	order_sort(c->apart, n_pairs);
	return n_pairs;
}

static void judge(struct comparison *c, struct diff_row *row)
{
	double apart = fabs(row->after - row->before);
	size_t n_pairs = fill_pairs(c, row->key), n_below = 0;

	row->usual = row->p = F64_UNKNOWN;
	if (n_pairs == 0 || !f64_known(apart))
		return;
	while (n_below < n_pairs && c->apart[n_below] < apart)
		n_below++;
	row->p = (double)(1 + n_pairs - n_below) / (double)(1 + n_pairs);
	row->usual = c->apart[order_bound(n_pairs, 1 - BEYOND) - 1];
	row->judgement = row->p <= BEYOND ? DIFF_BEYOND : DIFF_USUAL;
}

double diff_expected_by_chance(const struct diff *d)
{
	size_t n_judged = 0;

	for (size_t i = 0; i < d->n; i++)
		n_judged += d->rows[i].judgement != DIFF_UNKNOWN;
	return BEYOND * (double)n_judged;
}

/* What neither has is not told. */
static void compare(struct comparison *c, struct diff *d, const char *key, const char *name,
		    enum feature_unit unit)
{
	struct diff_row row = {
		.key = key,
		.name = name,
		.unit = unit,
		.before = feature_value(key, c->before),
		.after = feature_value(key, c->after),
	};

	if (!f64_known(row.before) && !f64_known(row.after))
		return;
	judge(c, &row);
	d->rows[d->n++] = row;
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
		if (!kept)
			return -ENOMEM;
		compare(c, d, kept, kept, UNIT_PERCENT);
	}
	return r;
}

int diff_runs(const struct run_record *before, const struct run_record *after,
	      const struct run_record *const *others, size_t n_others, struct diff *ret)
{
	size_t first = n_others > DIFF_MAX_OTHERS ? n_others - DIFF_MAX_OTHERS : 0;
	size_t n = n_others - first;
	CLEANUP(free_ptr) double *values = calloc(n + 1, sizeof(*values));
	CLEANUP(free_ptr) double *apart = calloc(n * n / 2 + 1, sizeof(*apart));
	struct comparison c = { before, after, others + first, n, values, apart };
	struct diff d = { .n_others = n, .arena = ARENA_INIT };
	int r;

	d.rows = calloc(ARRAY_SIZE(quantities) + 2 * MAX_SYSCALLS, sizeof(*d.rows));
	r = d.rows && values && apart ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(quantities); i++) {
		const char *key = quantities[i].key;

		/* Most hosts have no GPU, and most jobs use none. */
		if (!quantities[i].is_rare || feature_value(key, before) > 0 ||
		    feature_value(key, after) > 0)
			compare(&c, &d, key, quantities[i].name, quantities[i].unit);
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

#define MIN_SUCCESSES 3
#define UNUSUAL 0.05

#define SAME_SHARE 0.01

/* Where it stands in a run, and how far two of it may lie apart, beside SAME_SHARE, that are the
 * same: nobody does anything about 50 ms or 1 MB. */
static const struct {
	size_t offset;
	double same;
} standings[STANDING_COUNT] = {
	[STANDING_WALL] = { offsetof(struct run_record, wall_seconds), 0.05 },
	[STANDING_CPU] = { offsetof(struct run_record, cpu_seconds), 0.05 },
	[STANDING_PEAK] = { offsetof(struct run_record, peak_rss_mb), 1 },
};

static double value_of(const struct run_record *run, enum standing_quantity quantity)
{
	return *(const double *)(const void *)((const char *)run + standings[quantity].offset);
}

static struct standing_value stand(double value, double same, const double *sorted, size_t n)
{
	struct standing_value v = { value, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, n, 0, 0, false };
	size_t k = order_bound(n, 1 - UNUSUAL / 2), n_nearer;
	double apart = fmax(same, SAME_SHARE * value);

	if (n == 0)
		return v;
	v.median = order_median(sorted, n);
	v.high = sorted[k - 1];
	v.low = sorted[n - k];
	for (size_t i = 0; i < n; i++) {
		v.n_below += sorted[i] < value - apart;
		v.n_above += sorted[i] > value + apart;
	}
	n_nearer = v.n_below > v.n_above ? v.n_below : v.n_above;
	v.is_unusual =
		f64_known(value) && 2.0 * (double)(1 + n - n_nearer) <= UNUSUAL * (double)(n + 1);
	return v;
}

int standing_judge(const struct run_record *run, const struct run_record *others, size_t n,
		   struct standing *ret)
{
	CLEANUP(free_ptr) double *sorted = calloc(n + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	ret->n_others = n;
	ret->n_failed = 0;
	for (size_t i = 0; i < n; i++)
		ret->n_failed += run_has_failed(&others[i]);
	ret->is_by_success = n - ret->n_failed >= MIN_SUCCESSES;
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		size_t n_known = 0;

		/* What is known of those that the usual is taken from, sorted. */
		for (size_t i = 0; i < n; i++) {
			double value = value_of(&others[i], q);

			if (f64_known(value) &&
			    (!ret->is_by_success || !run_has_failed(&others[i])))
				sorted[n_known++] = value;
		}
		order_sort(sorted, n_known);

		ret->values[q] = stand(value_of(run, q), standings[q].same, sorted, n_known);
	}
	return 0;
}
