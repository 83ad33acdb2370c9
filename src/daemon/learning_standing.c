#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/learning.h"

#define MIN_OTHERS ESTIMATE_ENOUGH

/* What it used, as its report has it; nothing of one that is not over. */
static void take_usage(const struct attempt *a, struct run_record *run)
{
	run_record_init(run);
	run->outcome = a->outcome;
	run->started_wall_ns = a->started_wall_ns;
	if (!u64_known(a->ended_wall_ns))
		return;
	run->wall_seconds = u64_to_seconds(a->usage.wall_ns);
	run->cpu_seconds = u64_to_seconds(u64_add(a->usage.user_ns, a->usage.system_ns));
	run->peak_rss_mb = u64_to_mb(a->usage.peak_rss_bytes);
}

static int compare(struct store *store, const struct attempt *a, const struct run_record *run,
		   uint64_t uid, struct standing *ret, struct err *err)
{
	CLEANUP(run_list_release) struct run_list others = { .arena = ARENA_INIT };
	const struct learning_likeness like = {
		.class = &run->class, .uid = uid, .but = { a->id, 0 }, .n_wanted = MIN_OTHERS
	};
	enum run_rung rung;
	int r = learning_list_others(store, &like, &others, &rung, err);

	if (r < 0)
		return r;
	ret->basis = class_rung_name(rung);
	if (standing_judge(run, others.items, others.n, ret) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static int recall(struct store *store, const struct run_record *run, uint64_t uid,
		  struct standing *ret, struct err *err)
{
	const struct run_kind kind = { &run->class, RUNG_EXACT, uid, run->started_wall_ns,
				       ESTIMATE_MAX_RUNS };
	int r = learning_estimate_kind(store, &kind, &ret->expected, err);

	ret->expected_basis = class_rung_name(ret->expected.rung);
	ret->score = estimate_judge(&ret->expected, run);
	return r;
}

int learning_judge_standing(struct store *store, struct attempt *a, bool is_own, struct err *err)
{
	struct standing *standing = arena_alloc(&a->arena, sizeof(*standing));
	uint64_t uid = is_own ? a->uid : U64_UNKNOWN;
	struct run_record run;
	int r;

	take_usage(a, &run);
	if (!standing || learning_describe_attempt(a, &a->arena, &run.class) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	*standing = (struct standing){ 0 };
	estimate_init(&standing->expected);
	r = compare(store, a, &run, uid, standing, err);
	if (r == 0 && u64_known(run.started_wall_ns))
		r = recall(store, &run, uid, standing, err);
	if (r == 0 && standing->n_others > 0)
		a->standing = standing;
	return r;
}
