#include "learn/diff.h"

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

const char *diff_judgement_name(enum diff_judgement judgement)
{
	static const char *const names[] = {
		[DIFF_UNKNOWN] = "unknown",
		[DIFF_USUAL] = "usual",
		[DIFF_BEYOND] = "beyond",
	};

	return names[judgement];
}

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

static int compare_syscall(struct comparison *c, struct diff *d, const char *name)
{
	CLEANUP(buf_release) struct buf key = BUF_INIT;
	const char *kept;

	buf_printf(&key, "syscall:%s", name);
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->rows[i].key, key.data) == 0)
			return 0;
	kept = buf_error(&key) < 0 ? NULL : arena_strndup(&d->arena, key.data, key.len);
	if (!kept)
		return -ENOMEM;
	compare(c, d, kept, kept, UNIT_PERCENT);
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
	for (size_t i = 0; r == 0 && i < n && i < MAX_SYSCALLS; i++)
		r = compare_syscall(c, d, shares[i].name);
	return r;
}

/* Most hosts have no GPU, and most jobs use none. */
static bool is_used(const struct comparison *c, const char *key)
{
	return feature_value(key, c->before) > 0 || feature_value(key, c->after) > 0;
}

static int compare_all(struct comparison *c, struct diff *d)
{
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(quantities); i++)
		if (!quantities[i].is_rare || is_used(c, quantities[i].key))
			compare(c, d, quantities[i].key, quantities[i].name, quantities[i].unit);
	r = compare_syscalls(c, d, c->before);
	return r < 0 ? r : compare_syscalls(c, d, c->after);
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
	int r = -ENOMEM;

	d.rows = calloc(ARRAY_SIZE(quantities) + 2 * MAX_SYSCALLS, sizeof(*d.rows));
	if (d.rows && values && apart)
		r = compare_all(&c, &d);
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
		json_key_string(j, "judgement", diff_judgement_name(row->judgement));
		json_end_object(j);
	}
	json_end_array(j);
}
