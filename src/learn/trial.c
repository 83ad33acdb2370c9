#include "learn/trial.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/macros.h"

void trial_release(struct trial *t)
{
	features_release(&t->features);
	free(t->has_failed);
	free(t->columns);
	free(t->is_binary);
	free(t->results);
	*t = (struct trial)TRIAL_INIT;
}

static int alloc_columns(struct trial *t)
{
	size_t n = t->features.n + 1; /* none is no reason to fail */

	t->has_failed = calloc(t->n_runs, sizeof(*t->has_failed));
	t->columns = calloc(n, sizeof(*t->columns));
	t->is_binary = calloc(n, sizeof(*t->is_binary));
	t->results = calloc(n, sizeof(*t->results));
	return t->has_failed && t->columns && t->is_binary && t->results ? 0 : -ENOMEM;
}

int trial_set_out(struct trial *t, const struct run_record *const *runs, size_t n_runs)
{
	int r = features_build(runs, n_runs, &t->features);

	t->runs = runs;
	t->n_runs = n_runs;
	if (r == 0)
		r = alloc_columns(t);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_runs; i++) {
		t->has_failed[i] = run_has_failed(runs[i]);
		t->n_failed += t->has_failed[i];
	}
	for (size_t i = 0; i < t->features.n; i++) {
		t->columns[i] = t->features.items[i].values;
		t->is_binary[i] = t->features.items[i].unit == UNIT_NONE;
	}
	return 0;
}

int trial_run(struct trial *t, uint64_t seed, uint64_t n_deals)
{
	const struct maxt_input in = {
		.columns = t->columns,
		.is_binary = t->is_binary,
		.n_features = t->features.n,
		.has_failed = t->has_failed,
		.n_runs = t->n_runs,
		.seed = seed ^ t->runs[0]->class.command ^ n_deals,
		.n_deals = n_deals,
	};

	return maxt_test(&in, t->results, &t->summary);
}

double trial_smallest_p(const struct trial *t)
{
	double p = 1;

	for (size_t i = 0; i < t->features.n; i++)
		p = fmin(p, t->results[i].p);
	return p;
}

static int describe(const struct feature *feature, struct arena *arena, struct finding *f)
{
	CLEANUP(buf_release) struct buf phrase = BUF_INIT;
	const char *label = f->label;

	feature_add_phrase(&phrase, feature, f->effect.is_above, f->effect.threshold);
	f->label = arena_strdup(arena, label);
	f->feature = arena_strdup(arena, feature->key);
	f->phrase = arena_strndup(arena, phrase.data, phrase.len);
	return buf_error(&phrase) == 0 && f->feature && f->phrase && (f->label || !label) ? 0
											  : -ENOMEM;
}

/*
 * Less of it is what being cut short would do by itself, more of it what having been given
 * all the time there was would; an anomaly may come with the end.
 */
static bool may_follow(const struct trial *t, const struct feature *feature, bool is_above)
{
	bool has_timeouts = false;

	for (size_t i = 0; i < t->n_runs; i++)
		has_timeouts |=
			t->has_failed[i] && run_measured_outcome(t->runs[i]) == OUTCOME_TIMEOUT;
	return feature->is_censored && (!is_above || has_timeouts || feature->unit == UNIT_NONE);
}

int trial_find(const struct trial *t, size_t i, struct arena *arena, struct finding *ret)
{
	const struct feature *feature = &t->features.items[i];
	const struct maxt_feature *result = &t->results[i];
	int r;

	*ret = (struct finding){
		.label = t->runs[0]->class.label,
		.class_key = t->runs[0]->class.command,
		.is_censored = feature->is_censored,
		.p = result->p,
		.p_alone = result->p_alone,
		.p_floor = t->summary.p_floor,
		.auc = result->auc,
		.n_deals = t->summary.n_deals,
		.is_exact = t->summary.is_exact,
		.n_runs = t->n_runs,
		.n_failed = t->n_failed,
		.newest_wall_ns = t->runs[t->n_runs - 1]->ended_wall_ns,
	};
	r = effect_measure(feature->values, t->has_failed, t->n_runs, result->auc > 0.5,
			   &ret->effect);
	if (r < 0)
		return r;
	ret->may_follow = may_follow(t, feature, ret->effect.is_above);
	return describe(feature, arena, ret);
}
