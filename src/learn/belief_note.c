#include "learn/belief_note.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "learn/unit.h"

/* What two findings have to share to be about the same; the threshold may differ. */
struct subject {
	uint64_t class_key;
	const char *feature;
	bool is_above; /* its opposite is another belief */
};

struct work {
	struct pattern_list *patterns;
	struct map newest; /* from a subject's hash to its newest pattern's place */
	const struct run_record *const *units;
	size_t n_units;
	uint64_t seed, now_wall_ns;
};

/* ---- which pattern is about it ---- */

static struct subject subject_of(const struct pattern *p)
{
	return (struct subject){ p->class_key, p->feature, p->is_above };
}

static bool is_about(const struct pattern *p, struct subject s)
{
	return p->grade && p->class_key == s.class_key && p->is_above == s.is_above &&
	       strcmp(p->feature, s.feature) == 0;
}

static uint64_t hash_subject(struct subject s)
{
	uint64_t h = hash_bytes(HASH_INIT, &s.class_key, sizeof(s.class_key));

	return hash_bytes(h, s.feature, strlen(s.feature)) + s.is_above;
}

/* True and its place, if there is one; *ret_key is where the map has it, or is to have it. */
static bool find_newest(const struct work *w, struct subject s, uint64_t *ret_key, size_t *ret)
{
	uint64_t key = hash_subject(s), place;

	for (; map_get(&w->newest, key, &place); key++)
		if (is_about(&w->patterns->items[place], s)) {
			*ret_key = key;
			*ret = place;
			return true;
		}
	*ret_key = key;
	return false;
}

/* Older rows come first, so the newest of a subject is what stays. */
static int note_place(struct work *w, size_t place)
{
	uint64_t key;
	size_t before;

	find_newest(w, subject_of(&w->patterns->items[place]), &key, &before);
	return map_put(&w->newest, key, place);
}

static int list_places(struct work *w)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->patterns->n; i++)
		if (w->patterns->items[i].grade)
			r = note_place(w, i);
	return r;
}

/* ---- new ones ---- */

/* (failures + 1) / (runs + 2): a side where all failed so far does not predict certainty. */
static double predicted(const struct effect_side *side)
{
	return ((double)side->n_failed + 1) / ((double)side->n + 2);
}

/* Those after the first say which they are: what was retired keeps its row. */
static const char *make_name(struct work *w, struct subject s)
{
	char name[256], round[32] = "";
	size_t n_before = 0;

	for (size_t i = 0; i < w->patterns->n; i++)
		n_before += is_about(&w->patterns->items[i], s);
	if (n_before > 0)
		snprintf(round, sizeof(round), " %zu", n_before + 1);
	snprintf(name, sizeof(name), "%016llx %.200s %s%s", (unsigned long long)s.class_key,
		 s.feature, s.is_above ? "above" : "below", round);
	return arena_strdup(&w->patterns->arena, name);
}

/* The rule as it will be judged, and the sentence about the runs that it was found on. */
static int freeze(struct work *w, const struct finding *f, const char *name, struct pattern *p)
{
	struct arena *arena = &w->patterns->arena;

	p->type = PATTERN_FINDING;
	p->name = name;
	p->first_wall_ns = p->last_wall_ns = w->now_wall_ns;
	p->occurrences = 1;
	p->n_jobs = f->n_runs;
	p->p = f->p;
	p->description = arena_strdup(arena, f->sentence);
	p->grade = grade_name(GRADE_SUPPORTED);
	p->label = arena_strdup(arena, f->label);
	p->class_key = f->class_key;
	p->feature = arena_strdup(arena, f->feature);
	p->is_above = f->effect.is_above;
	p->threshold = f->effect.threshold;
	p->rate_in = predicted(&f->effect.in);
	p->rate_out = predicted(&f->effect.out);
	p->base_rate = ((double)f->n_failed + 1) / ((double)f->n_runs + 2);
	p->frozen_wall_ns = f->newest_wall_ns;
	return p->feature && p->description && (p->label || !f->label) ? 0 : -ENOMEM;
}

static int add(struct work *w, const struct finding *f)
{
	struct pattern p;
	struct subject s = { f->class_key, f->feature, f->effect.is_above };
	const char *name = make_name(w, s);
	struct pattern *added;
	int r;

	pattern_init(&p);
	r = name ? freeze(w, f, name, &p) : -ENOMEM;
	if (r < 0)
		return r;
	added = pattern_list_add(w->patterns);
	if (!added)
		return -ENOMEM;
	*added = p;
	return note_place(w, w->patterns->n - 1);
}

/* ---- what was retired ---- */

/* An analysis of the class's runs that ended later. */
static int analyze_since(const struct work *w, const struct pattern *p, struct analysis *ret)
{
	CLEANUP(free_ptr) struct run_record *later = NULL;
	size_t first, end;

	end = units_of_class(w->units, w->n_units, p->class_key, p->retired_wall_ns, &first);
	later = calloc(end - first + 1, sizeof(*later));
	if (!later)
		return -ENOMEM;
	for (size_t i = first; i < end; i++)
		later[i - first] = *w->units[i];
	return analysis_run(later, end - first, w->seed, ret);
}

/*
 * The runs that it was supported by once are part of the look-back for days: only those
 * since the retirement can bring it back, as a new rule.
 */
static int find_again(struct work *w, const struct pattern *p)
{
	CLEANUP(analysis_release) struct analysis later = { .arena = ARENA_INIT };
	int r = analyze_since(w, p, &later);

	for (size_t i = 0; r == 0 && i < later.n; i++) {
		const struct finding *f = &later.findings[i];

		if (f->grade >= GRADE_SUPPORTED && f->effect.is_above == p->is_above &&
		    strcmp(f->feature, p->feature) == 0)
			return add(w, f);
	}
	return r;
}

/* ---- what is supported, and what no more ---- */

static int note(struct work *w, const struct finding *f)
{
	struct subject s = { f->class_key, f->feature, f->effect.is_above };
	struct pattern *p;
	uint64_t key;
	size_t place;

	if (!find_newest(w, s, &key, &place))
		return add(w, f);
	p = &w->patterns->items[place];
	if (u64_known(p->retired_wall_ns))
		return find_again(w, p);
	p->occurrences++;
	p->last_wall_ns = w->now_wall_ns;
	p->lapsed_wall_ns = U64_UNKNOWN;
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool was_tested(const struct analysis *found, uint64_t class_key)
{
	return found->n_tested > 0 &&
	       bsearch(&class_key, found->tested, found->n_tested, sizeof(class_key), compare_keys);
}

/* Of those that this analysis could have found again, and did not. */
static void lapse(struct work *w, const struct analysis *found)
{
	for (size_t i = 0; i < w->patterns->n; i++) {
		struct pattern *p = &w->patterns->items[i];

		if (p->grade && !u64_known(p->confirmed_wall_ns) && !u64_known(p->lapsed_wall_ns) &&
		    !u64_known(p->retired_wall_ns) && p->last_wall_ns < w->now_wall_ns &&
		    was_tested(found, p->class_key))
			p->lapsed_wall_ns = w->now_wall_ns;
	}
}

int belief_note(struct pattern_list *patterns, const struct analysis *found,
		const struct run_record *const *units, size_t n, uint64_t now_wall_ns)
{
	struct work w = { patterns, MAP_INIT, units, n, found->seed, now_wall_ns };
	int r = list_places(&w);

	for (size_t i = 0; r == 0 && i < found->n; i++)
		if (found->findings[i].grade >= GRADE_SUPPORTED)
			r = note(&w, &found->findings[i]);
	if (r == 0)
		lapse(&w, found);
	map_release(&w.newest);
	return r;
}
