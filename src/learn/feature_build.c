#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/feature.h"
#include "learn/feature_table.h"

#define MIN_KNOWN 3	    /* of those that failed, and of those that passed */
#define HORIZON_SHARE 0.9   /* of both must have lived so long */
#define DOMINANT_SHARE 0.35 /* of the time in calls: from then on a call is worth a column */

struct builder {
	const struct run_record *const *runs;
	size_t n_runs, n_failed;
	struct features *out;
	size_t cap;
};

/* Whether there is something to compare: enough values on both sides, and not all the same. */
static bool is_worth_testing(const struct builder *b, const double *values)
{
	size_t n_failed = 0, n_passed = 0;
	double low = INFINITY, high = -INFINITY;

	for (size_t i = 0; i < b->n_runs; i++) {
		if (!f64_known(values[i]))
			continue;
		low = fmin(low, values[i]);
		high = fmax(high, values[i]);
		if (run_has_failed(b->runs[i]))
			n_failed++;
		else
			n_passed++;
	}
	if (b->n_failed < MIN_KNOWN || b->n_runs - b->n_failed < MIN_KNOWN) /* a small class */
		return n_failed == b->n_failed && n_passed == b->n_runs - b->n_failed && low < high;
	return n_failed >= MIN_KNOWN && n_passed >= MIN_KNOWN && low < high;
}

static double *alloc_values(struct builder *b)
{
	return arena_alloc(&b->out->arena, b->n_runs * sizeof(double));
}

static int add(struct builder *b, const char *key, const char *what, const char *when,
	       enum feature_unit unit, bool is_censored, const double *values)
{
	struct features *out = b->out;

	if (!is_worth_testing(b, values))
		return 0;
	if (out->n == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 32;
		struct feature *more = reallocarray(out->items, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		out->items = more;
		b->cap = cap;
	}
	key = arena_strdup(&out->arena, key);
	if (!key)
		return -ENOMEM;
	out->items[out->n++] = (struct feature){ key, what, when, unit, is_censored, values };
	return 0;
}

static bool tells_a_failure(const struct builder *b, const struct feature_number *number)
{
	for (size_t i = 0; i < b->n_runs; i++)
		if (run_has_failed(b->runs[i]) && feature_number_tells_outcome(number, b->runs[i]))
			return true;
	return false;
}

static int add_numbers(struct builder *b)
{
	int r = 0;

	for (size_t k = 0; r == 0 && k < FEATURE_NUMBERS; k++) {
		const struct feature_number *number = &feature_numbers[k];
		double *values;

		if (tells_a_failure(b, number))
			continue;
		values = alloc_values(b);
		if (!values)
			return -ENOMEM;
		for (size_t i = 0; i < b->n_runs; i++)
			values[i] = feature_number_value(number, b->runs[i]);
		r = add(b, number->key, number->what, "", number->unit, number->is_censored,
			values);
	}
	return r;
}

/* Who died earlier has no value: were they few or many, the others may not stand for them. */
static bool lived_to_see(const struct builder *b, const struct feature_early *early, size_t horizon)
{
	size_t n_failed = 0, n_passed = 0;

	for (size_t i = 0; i < b->n_runs; i++) {
		if (!f64_known(feature_early_value(early, horizon, b->runs[i])))
			continue;
		if (run_has_failed(b->runs[i]))
			n_failed++;
		else
			n_passed++;
	}
	return (double)n_failed >= HORIZON_SHARE * (double)b->n_failed &&
	       (double)n_passed >= HORIZON_SHARE * (double)(b->n_runs - b->n_failed);
}

static int add_early(struct builder *b, const struct feature_early *early)
{
	size_t horizon = RUN_HORIZONS;
	double *values;
	char key[64];

	while (horizon > 0 && !lived_to_see(b, early, horizon - 1))
		horizon--;
	if (horizon == 0)
		return 0;
	horizon--;
	values = alloc_values(b);
	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < b->n_runs; i++)
		values[i] = feature_early_value(early, horizon, b->runs[i]);
	snprintf(key, sizeof(key), "%s@%g", early->key, run_horizons[horizon]);
	return add(b, key, early->what, feature_horizons[horizon], early->unit, false, values);
}

/* Names that occur in the runs, each once, at most so many. */
struct names {
	const char *items[FEATURE_MAX_NAMES];
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

static int add_named(struct builder *b, const struct feature_named *named, const char *name)
{
	double *values = alloc_values(b);
	CLEANUP(buf_release) struct buf key = BUF_INIT;

	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < b->n_runs; i++)
		values[i] = named->value(b->runs[i], name);
	buf_printf(&key, "%s%s", named->prefix, name);
	if (buf_error(&key) < 0)
		return -ENOMEM;
	if (strcmp(key.data, FEATURE_OOM_KILL) == 0)
		return 0;
	return add(b, key.data, named->what, "", named->unit, named->is_censored, values);
}

static int add_all_named(struct builder *b, size_t which)
{
	static int (*const notes[])(struct names *, const struct run_record *, struct arena *) = {
		note_dominant,
		note_anomalies,
		note_host,
	};
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct names names = { .max = feature_nameds[which].max };
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_runs; i++)
		r = notes[which](&names, b->runs[i], &arena);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = add_named(b, &feature_nameds[which], names.items[i]);
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
	for (size_t i = 0; r == 0 && i < FEATURE_EARLIES; i++)
		r = add_early(&b, &feature_earlies[i]);
	for (size_t i = 0; r == 0 && i < FEATURE_NAMEDS; i++)
		r = add_all_named(&b, i);
	if (r < 0) {
		features_release(&out);
		return r;
	}
	*ret = out;
	return 0;
}
