#include "learn/compat_correlation.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"

#define MIN_GROUP 3
#define MIN_DEVIATION 0.1
#define MIN_STORED 0.6
#define MAX_CONFIDENCE 0.95
#define DOMINANT_SHARE 0.35
#define SHORT_SPAWNS 3

/* What a kind of group is called, and how much its deviation weighs. */
struct kind {
	const char *type, *tag;
	double weight;
};
static const struct kind by_memory = { "memory_vs_failure", "memory_bin", 0.5 };
static const struct kind by_syscall = { "syscall_vs_failure", "syscall_dominant", 0.4 };
static const struct kind by_duration = { "duration_vs_failure", "duration_class", 0.4 };

struct group {
	const char *name;
	size_t n, n_failed;
};

struct analysis {
	size_t n_jobs;
	double base_rate;
	struct compat *out;
	size_t cap;
};

void compat_release(struct compat *c)
{
	free(c->results);
	arena_release(&c->arena);
	*c = (struct compat){ .arena = ARENA_INIT };
}

static void count(struct group *g, const struct compat_profile *p)
{
	g->n++;
	g->n_failed += p->has_failed;
}

/* ---- results ---- */

static const char *format_tag(struct arena *arena, const char *name, const char *text)
{
	CLEANUP(buf_release) struct buf tag = BUF_INIT;

	buf_printf(&tag, "%s:%s", name, text);
	return buf_error(&tag) < 0 ? NULL : arena_strndup(arena, tag.data, tag.len);
}

static int judge(struct analysis *a, const struct kind *kind, const struct group *g)
{
	double rate, deviation, share;
	struct compat_result *result;
	char rate_text[32], size_text[32];

	if (g->n < MIN_GROUP)
		return 0;
	rate = (double)g->n_failed / (double)g->n;
	deviation = fabs(rate - a->base_rate);
	if (deviation < MIN_DEVIATION)
		return 0;
	if (ARRAY_RESERVE(a->out->results, a->cap, a->out->n + 1) < 0)
		return -ENOMEM;
	result = &a->out->results[a->out->n++];
	share = (double)g->n / (double)a->n_jobs;
	/* In this order: the last digits depend on it. */
	*result = (struct compat_result){
		.type = kind->type,
		.confidence = fmin(MAX_CONFIDENCE, 0.5 + share * 0.2 + deviation * kind->weight),
		.n_jobs = g->n,
	};
	result->is_stored = result->confidence >= MIN_STORED;
	snprintf(rate_text, sizeof(rate_text), "%.2f", rate);
	snprintf(size_text, sizeof(size_text), "%zu", g->n);
	result->tags[0] = format_tag(&a->out->arena, kind->tag, g->name);
	result->tags[1] = format_tag(&a->out->arena, "failure_rate", rate_text);
	result->tags[2] = format_tag(&a->out->arena, "sample_size", size_text);
	return result->tags[0] && result->tags[1] && result->tags[2] ? 0 : -ENOMEM;
}

static int judge_all(struct analysis *a, const struct kind *kind, const struct group *groups,
		     size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = judge(a, kind, &groups[i]);
	return r;
}

/* ---- groups ---- */

static const struct {
	const char *name;
	double below_mb;
} bins[] = {
	{ "<256MB", 256 }, { "256-512MB", 512 }, { "512MB-1GB", 1024 },
	{ "1-2GB", 2048 }, { ">2GB", INFINITY },
};

/* In the order in which they were first seen: few, as a call that dominates is one of few. */
struct named_groups {
	struct group *items;
	size_t n, cap;
};

/* The group with this name, which is added if there is none. NULL: no memory. */
static struct group *find_group(struct named_groups *g, const char *name)
{
	for (size_t i = 0; i < g->n; i++)
		if (strcmp(g->items[i].name, name) == 0)
			return &g->items[i];
	if (ARRAY_RESERVE(g->items, g->cap, g->n + 1) < 0)
		return NULL;
	g->items[g->n] = (struct group){ .name = name };
	return &g->items[g->n++];
}

static int count_dominant(struct named_groups *groups, const struct compat_profile *p)
{
	double total = 0;

	for (size_t k = 0; k < p->n_hotspots; k++)
		total += p->hotspots[k].pct;
	if (!(total > 0))
		return 0;
	for (size_t k = 0; k < p->n_hotspots; k++) {
		struct group *g;

		if (!(p->hotspots[k].pct / total > DOMINANT_SHARE))
			continue;
		g = find_group(groups, p->hotspots[k].name);
		if (!g)
			return -ENOMEM;
		count(g, p);
	}
	return 0;
}

static int group_by_syscall(struct analysis *a, const struct compat_profile *profiles)
{
	struct named_groups groups = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n_jobs; i++)
		r = count_dominant(&groups, &profiles[i]);
	if (r == 0)
		r = judge_all(a, &by_syscall, groups.items, groups.n);
	free(groups.items);
	return r;
}

int compat_analyze(const struct compat_profile *profiles, size_t n, size_t min_jobs,
		   struct compat *ret)
{
	struct compat out = { .arena = ARENA_INIT };
	struct analysis a = { .n_jobs = n, .out = &out };
	size_t n_failed = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		n_failed += profiles[i].has_failed;
	if (n > 0 && n >= min_jobs) {
		struct group groups[ARRAY_SIZE(bins)];
		struct group durations[] = { { .name = "long (>3 spawns)" },
					     { .name = "short (<=3 spawns)" } };

		a.base_rate = (double)n_failed / (double)n;
		for (size_t k = 0; k < ARRAY_SIZE(bins); k++)
			groups[k] = (struct group){ .name = bins[k].name };
		for (size_t i = 0; i < a.n_jobs; i++) {
			size_t k = 0;

			while (k + 1 < ARRAY_SIZE(bins) &&
			       !(profiles[i].peak_rss_mb < bins[k].below_mb))
				k++;
			count(&groups[k], &profiles[i]);
			count(&durations[profiles[i].process_spawn_count > SHORT_SPAWNS ? 0 : 1],
			      &profiles[i]);
		}
		r = judge_all(&a, &by_memory, groups, ARRAY_SIZE(groups));
		if (r == 0)
			r = group_by_syscall(&a, profiles);
		if (r == 0)
			r = judge_all(&a, &by_duration, durations, ARRAY_SIZE(durations));
	}
	if (r < 0) {
		compat_release(&out);
		return r;
	}
	*ret = out;
	return 0;
}

void compat_write_json(struct json *j, const struct compat *c)
{
	json_begin_array(j);
	for (size_t i = 0; i < c->n; i++) {
		const struct compat_result *result = &c->results[i];

		json_begin_object(j);
		json_key_string(j, "type", result->type);
		json_key_f64(j, "confidence", result->confidence);
		json_key_array(j, "context_tags");
		for (size_t k = 0; k < COMPAT_TAGS; k++)
			json_str(j, result->tags[k]);
		json_end_array(j);
		json_key_bool(j, "stored", result->is_stored);
		json_end_object(j);
	}
	json_end_array(j);
}
