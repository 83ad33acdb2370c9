#include "learn/belief.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/feature.h"
#include "learn/unit.h"
#include "stats/fisher.h"

#define CONFIRM_FIRST_LOOK 8
#define CONFIRM_MIN_EACH 3
#define RETIRE_WINDOW 20
#define RETIRE_MIN_RUNS 10
#define RETIRE_MIN_EACH 2

const char *belief_state(const struct pattern *p)
{
	if (u64_known(p->retired_wall_ns))
		return "retired";
	return p->grade ? p->grade : "correlation";
}

/* ---- judging by later runs ---- */

/* What the rule predicted for some runs, and what came of them. */
struct score {
	size_t n, n_failed;
	size_t n_in, n_in_failed;
	double brier_sum, base_sum;
};

static void score_add(struct score *s, const struct pattern *p, double value, bool has_failed)
{
	bool is_in = (value > p->threshold) == p->is_above;
	double came = has_failed, rule = came - (is_in ? p->rate_in : p->rate_out);
	double base = came - p->base_rate;

	s->n++;
	s->n_failed += has_failed;
	s->n_in += is_in;
	s->n_in_failed += is_in && has_failed;
	s->brier_sum += rule * rule;
	s->base_sum += base * base;
}

static bool has_each(const struct score *s, size_t least)
{
	return s->n_failed >= least && s->n - s->n_failed >= least;
}

static double confirm_p(const struct score *s)
{
	size_t n_out = s->n - s->n_in, n_out_failed = s->n_failed - s->n_in_failed;

	return fisher_at_least(s->n_in_failed, s->n_in - s->n_in_failed, n_out_failed,
			       n_out - n_out_failed);
}

/* The unseen runs of the class among the units: [*ret_first, end). */
static size_t find_unseen(const struct pattern *p, const struct run_record *const *units, size_t n,
			  size_t *ret_first)
{
	size_t first = 0, end;

	while (first < n && (units[first]->class.command != p->class_key ||
			     units[first]->ended_wall_ns <= p->frozen_wall_ns))
		first++;
	for (end = first; end < n && units[end]->class.command == p->class_key;)
		end++;
	*ret_first = first;
	return end;
}

/*
 * The later runs are looked at when there are 8, 16, 32… of them, each time with half
 * of what is left of the error: however often, noise is confirmed in at most 5 %.
 */
struct looks {
	size_t next;
	double level;
};

static void look(struct pattern *p, const struct score *so_far, struct looks *looks, uint64_t now)
{
	if (so_far->n < looks->next)
		return;
	looks->next *= 2;
	looks->level /= 2;
	if (u64_known(p->confirmed_wall_ns) || !has_each(so_far, CONFIRM_MIN_EACH) ||
	    so_far->brier_sum >= so_far->base_sum || confirm_p(so_far) > looks->level)
		return;
	p->confirmed_wall_ns = now;
	p->grade = grade_name(GRADE_CONFIRMED);
}

static void tell_score(struct pattern *p, const struct score *all)
{
	p->n_later = all->n;
	p->n_later_failed = all->n_failed;
	if (all->n == 0)
		return;
	p->brier = all->brier_sum / (double)all->n;
	p->brier_base = all->base_sum / (double)all->n;
	p->later_p = confirm_p(all);
}

static int judge_retirement(struct pattern *p, const struct score *recent, uint64_t now,
			    struct arena *arena)
{
	char why[160];

	if (recent->n < RETIRE_MIN_RUNS || !has_each(recent, RETIRE_MIN_EACH) ||
	    recent->brier_sum < recent->base_sum)
		return 0;
	snprintf(why, sizeof(why),
		 "of the last %zu runs it had not seen it told no better than the base rate "
		 "(Brier score %.3f, base rate %.3f)",
		 recent->n, recent->brier_sum / (double)recent->n,
		 recent->base_sum / (double)recent->n);
	p->retired_wall_ns = now;
	p->retired_why = arena_strdup(arena, why);
	return p->retired_why ? 0 : -ENOMEM;
}

/* The newest of those with a value. */
static void score_recent(const struct pattern *p, const struct run_record *const *units,
			 size_t first, size_t end, struct score *ret)
{
	for (size_t i = end; i > first && ret->n < RETIRE_WINDOW; i--) {
		double value = feature_value(p->feature, units[i - 1]);

		if (f64_known(value))
			score_add(ret, p, value, run_has_failed(units[i - 1]));
	}
}

static int judge(struct pattern *p, const struct run_record *const *units, size_t n, uint64_t now,
		 struct arena *arena)
{
	struct looks looks = { CONFIRM_FIRST_LOOK, ANALYSIS_LEVEL };
	struct score all = { 0 }, recent = { 0 };
	size_t first, end = find_unseen(p, units, n, &first);

	for (size_t i = first; i < end; i++) {
		double value = feature_value(p->feature, units[i]);

		if (!f64_known(value))
			continue;
		score_add(&all, p, value, run_has_failed(units[i]));
		look(p, &all, &looks, now);
	}
	tell_score(p, &all);
	score_recent(p, units, first, end, &recent);
	return judge_retirement(p, &recent, now, arena);
}

/* ---- new ones ---- */

static struct pattern *find_pattern(struct pattern_list *list, const char *type, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->items[i].type, type) == 0 &&
		    strcmp(list->items[i].name, name) == 0)
			return &list->items[i];
	return NULL;
}

/* (failures + 1) / (runs + 2): a side where all failed so far does not predict certainty. */
static double predicted(const struct effect_side *side)
{
	return ((double)side->n_failed + 1) / ((double)side->n + 2);
}

/* The rule as it will be judged. A side is part of the name: its opposite is another belief. */
static int freeze(struct pattern *p, const struct finding *f, const char *name, uint64_t now,
		  struct arena *arena)
{
	pattern_init(p);
	p->type = PATTERN_FINDING;
	p->name = arena_strdup(arena, name);
	p->first_wall_ns = now;
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
	return p->name && p->feature && (p->label || !f->label) ? 0 : -ENOMEM;
}

/* A retired one begins anew once there are runs that it was not retired on. */
static bool begins_anew(const struct pattern *p, const struct finding *f)
{
	return u64_known(p->retired_wall_ns) && f->newest_wall_ns > p->retired_wall_ns;
}

static int note(struct pattern_list *list, const struct finding *f, uint64_t now)
{
	struct pattern *p;
	char name[256];
	int r = 0;

	snprintf(name, sizeof(name), "%016llx %s %s", (unsigned long long)f->class_key, f->feature,
		 f->effect.is_above ? "above" : "below");
	p = find_pattern(list, PATTERN_FINDING, name);
	if (!p) {
		p = pattern_list_add(list);
		r = p ? freeze(p, f, name, now, &list->arena) : -ENOMEM;
	} else if (begins_anew(p, f)) {
		r = freeze(p, f, name, now, &list->arena);
	}
	if (r < 0 || u64_known(p->retired_wall_ns))
		return r;
	p->occurrences++;
	p->last_wall_ns = now;
	p->n_jobs = f->n_runs;
	p->p = f->p;
	p->description = arena_strdup(&list->arena, f->sentence);
	return p->description ? 0 : -ENOMEM;
}

int beliefs_update(struct pattern_list *patterns, const struct analysis *found,
		   const struct run_record *runs, size_t n_runs, uint64_t now_wall_ns)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	size_t n_units, n_retries, n_undecided;
	int r = units_list(runs, n_runs, &units, &n_units, &n_retries, &n_undecided);

	for (size_t i = 0; r == 0 && i < patterns->n; i++) {
		struct pattern *p = &patterns->items[i];

		if (p->grade && !u64_known(p->retired_wall_ns))
			r = judge(p, units, n_units, now_wall_ns, &patterns->arena);
	}
	for (size_t i = 0; r == 0 && i < found->n; i++)
		if (found->findings[i].grade >= GRADE_SUPPORTED)
			r = note(patterns, &found->findings[i], now_wall_ns);
	return r;
}

/* ---- correlations ---- */

static const char *join_tags(const struct compat_result *result, struct arena *arena)
{
	CLEANUP(buf_release) struct buf tags = BUF_INIT;

	for (size_t i = 0; i < COMPAT_TAGS; i++)
		buf_printf(&tags, "%s%s", i ? "\n" : "", result->tags[i]);
	return buf_error(&tags) < 0 ? NULL : arena_strndup(arena, tags.data, tags.len);
}

static int note_correlation(struct pattern_list *list, const struct compat_result *result,
			    uint64_t now)
{
	CLEANUP(buf_release) struct buf name = BUF_INIT;
	struct pattern *p;

	buf_printf(&name, "%s %s", result->type, result->tags[0]);
	if (buf_error(&name) < 0)
		return -ENOMEM;
	p = find_pattern(list, PATTERN_CORRELATION, name.data);
	if (!p) {
		p = pattern_list_add(list);
		if (!p)
			return -ENOMEM;
		p->type = PATTERN_CORRELATION;
		p->name = arena_strndup(&list->arena, name.data, name.len);
		p->first_wall_ns = now;
	}
	p->tags = join_tags(result, &list->arena);
	p->confidence = result->confidence;
	p->n_jobs = result->n_jobs;
	p->occurrences++;
	p->last_wall_ns = now;
	return p->name && p->tags ? 0 : -ENOMEM;
}

int beliefs_note_compat(struct pattern_list *patterns, const struct compat *compat,
			uint64_t now_wall_ns)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < compat->n; i++)
		if (compat->results[i].is_stored)
			r = note_correlation(patterns, &compat->results[i], now_wall_ns);
	return r;
}

/* ---- JSON ---- */

static void key_time(struct json *j, const char *key, uint64_t wall_ns)
{
	json_key_f64(j, key, u64_to_seconds(wall_ns));
}

static void write_tags(struct json *j, const char *tags)
{
	json_key(j, "context_tags");
	json_begin_array(j);
	while (tags && *tags) {
		size_t len = strcspn(tags, "\n");

		json_str_n(j, tags, len);
		tags += len + (tags[len] == '\n');
	}
	json_end_array(j);
}

static void write_rule(struct json *j, const struct pattern *p)
{
	json_key_string(j, "grade", p->grade);
	json_key_string(j, "class", p->label);
	json_key_string(j, "feature", p->feature);
	json_key_string(j, "direction", p->is_above ? "above" : "at most");
	json_key_f64(j, "threshold", p->threshold);
	json_key_f64(j, "p_adjusted", p->p);
	json_key_f64(j, "predicted_inside", p->rate_in);
	json_key_f64(j, "predicted_others", p->rate_out);
	json_key_f64(j, "base_rate", p->base_rate);
	json_key_u64(j, "later_runs", p->n_later);
	json_key_u64(j, "later_failures", p->n_later_failed);
	json_key_f64(j, "later_p", p->later_p);
	json_key_f64(j, "brier", p->brier);
	json_key_f64(j, "brier_base_rate", p->brier_base);
	key_time(j, "confirmed", p->confirmed_wall_ns);
	key_time(j, "retired", p->retired_wall_ns);
	json_key_string(j, "retired_why", p->retired_why);
}

void belief_write_json(struct json *j, const struct pattern *p)
{
	json_begin_object(j);
	json_key_string(j, "type", p->type);
	json_key_string(j, "name", p->name);
	json_key_string(j, "state", belief_state(p));
	json_key_string(j, "description", p->description);
	json_key_u64(j, "runs", p->n_jobs);
	json_key_u64(j, "occurrences", p->occurrences);
	key_time(j, "since", p->first_wall_ns);
	key_time(j, "last_seen", p->last_wall_ns);
	if (p->grade) {
		write_rule(j, p);
	} else {
		json_key_f64(j, "confidence", p->confidence);
		write_tags(j, p->tags);
	}
	json_end_object(j);
}
