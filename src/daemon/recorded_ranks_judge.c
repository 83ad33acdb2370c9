#include <errno.h>
#include <math.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "crossrank/crossrank.h"
#include "daemon/recorded_ranks.h"
#include "model/job.h"

/* Several paths at once are told as the likely one. */
static struct text phase_of(const struct phase_place *place)
{
	if (place->n_paths == 0)
		return (struct text){ NULL, 0 };
	return place->likely.s ? place->likely : place->paths[0];
}

static int copy_named(const struct first_cause *f, struct attempt *a, struct rank_finding *ret)
{
	struct text phase = phase_of(&f->phase);
	int64_t onset_ns = finding_ns(f, f->candidates[0].onset);

	ret->rank = f->rank->rank;
	ret->probability = f->candidates[0].probability;
	ret->has_passed = f->has_passed;
	ret->onset_wall_ns = onset_ns >= 0 ? (uint64_t)onset_ns : U64_UNKNOWN;
	if (!phase.s)
		return 0;
	ret->is_phase_ambiguous = !f->phase.only;
	ret->phase = arena_strndup(&a->arena, phase.s, phase.n);
	return ret->phase ? 0 : -ENOMEM;
}

/* What outlives the analysis. */
static int copy_finding(const struct rank_analysis *analysis, struct attempt *a,
			struct rank_finding *ret)
{
	CLEANUP(buf_release) struct buf reason = BUF_INIT;
	CLEANUP(buf_release) struct buf remedy = BUF_INIT;
	const struct first_cause *f = analysis->finding;

	finding_add_reason(&reason, analysis, f);
	finding_add_remedy(&remedy, analysis, f);
	if (buf_error(&reason) < 0 || buf_error(&remedy) < 0)
		return -ENOMEM;
	ret->verdict = finding_verdict_name(f->verdict);
	ret->reason = arena_strdup(&a->arena, reason.data);
	ret->remedy = arena_strdup(&a->arena, remedy.len > 0 ? remedy.data : "");
	if (!ret->reason || !ret->remedy)
		return -ENOMEM;
	return f->verdict == VERDICT_NAMED ? copy_named(f, a, ret) : 0;
}

static int analyse(struct recorded_ranks *r, struct attempt *a, struct rank_finding *ret)
{
	const struct rank_analysis_options options = { .clock_error_ns = EVENT_UNKNOWN };
	CLEANUP(telemetry_cleanup) struct telemetry *t = telemetry_new();
	struct rank_analysis analysis;
	int result = t ? recorded_ranks_gather(r, t) : -ENOMEM;

	if (result < 0)
		return result;
	result = rank_analysis_init(&analysis, t);
	if (result == 0)
		result = rank_analysis_run(&analysis, &options);
	if (result == 0)
		result = copy_finding(&analysis, a, ret);
	rank_analysis_release(&analysis);
	return result;
}

static uint64_t count_sampled(const struct recorded_ranks *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->n_ranks; i++)
		n += r->ranks[i].n > 0;
	return n;
}

static int judge(struct recorded_ranks *r, struct attempt *a)
{
	struct rank_finding *finding = arena_alloc(&a->arena, sizeof(*finding));
	int result;

	if (!finding)
		return -ENOMEM;
	*finding = (struct rank_finding){
		.n_ranks = count_sampled(r),
		.world_size = r->world_size,
		.n_samples = r->n_points,
		.measure = r->is_gpu ? "gpu_memory" : "rss",
		.rank = -1,
		.probability = F64_UNKNOWN,
		.onset_wall_ns = U64_UNKNOWN,
		.reason = "no samples of its ranks are kept any more",
		.remedy = "",
	};
	result = r->n_points > 0 ? analyse(r, a, finding) : 0;
	if (result == 0)
		a->telemetry = finding;
	return result;
}

int recorded_ranks_judge(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks r = { .arena = ARENA_INIT };
	int result;

	if (!attempt_has_ranks(a))
		return 0;
	result = recorded_ranks_read(store, a, &r, err);
	if (result < 0)
		return result;
	result = judge(&r, a);
	return result < 0 ? err_set(err, result, "out of memory") : 0;
}
