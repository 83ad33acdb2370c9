#include <errno.h>
#include <math.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/learning.h"
#include "model/anomaly.h"

#define USUAL_RUNS 10 /* the newest of its kind */

/* Those that went well show how it is done. Later ones could not have been known. */
static bool is_example(const struct run_record *run, const struct attempt *a)
{
	return run->is_whole && run->attempt != a->id && run->outcome == OUTCOME_SUCCESS &&
	       run->ended_wall_ns <= a->started_wall_ns;
}

/* The newest examples, at most USUAL_RUNS. */
static size_t list_examples(const struct run_list *runs, const struct attempt *a,
			    const struct run_record **ret)
{
	size_t n = 0;

	for (size_t i = runs->n; n < USUAL_RUNS && i-- > 0;)
		if (is_example(&runs->items[i], a))
			ret[n++] = &runs->items[i];
	return n;
}

static bool has(const struct run_record *run, enum anomaly_type type)
{
	return run->anomalies && run_has_anomaly(run->anomalies, anomaly_type_name(type));
}

/* What was out of the ordinary then is not usual now. */
static void add_example(struct store *store, const struct run_record *run,
			struct detect_usual *usual)
{
	CLEANUP(attempt_release) struct attempt past;
	uint64_t rss_bytes = U64_UNKNOWN;

	attempt_init(&past);
	if (run->max_process_rss_mb >= 0 && run->max_process_rss_mb < 0x1p40)
		rss_bytes = (uint64_t)(run->max_process_rss_mb * 1048576);
	if (!has(run, ANOMALY_MEMORY_SPIKE) && !has(run, ANOMALY_MEMORY_LEAK))
		usual->rss_bytes = u64_max_known(usual->rss_bytes, rss_bytes);
	if (has(run, ANOMALY_RUNAWAY_PROCESS))
		return;
	usual->wall_seconds = f64_max_known(usual->wall_seconds, run->wall_seconds);
	usual->cpu_seconds = f64_max_known(usual->cpu_seconds, run->cpu_seconds);
	if (store_read_progress(store, run->job_id, run->attempt_num, &past, NULL) == 0)
		usual->cpu_percent = f64_max_known(usual->cpu_percent, past.usage.peak_cpu_percent);
}

/* 1: there were enough of them on this rung. */
static int try_rung(struct store *store, const struct run_kind *kind, const struct attempt *a,
		    struct detect_usual *ret, struct err *err)
{
	CLEANUP(run_list_release) struct run_list runs = { .arena = ARENA_INIT };
	const struct run_record *examples[USUAL_RUNS];
	int r = store_list_runs_of_kind(store, kind, &runs, err);
	size_t n = r < 0 ? 0 : list_examples(&runs, a, examples);

	if (r < 0 || n < ESTIMATE_ENOUGH)
		return r;
	for (size_t i = 0; i < n; i++)
		add_example(store, examples[i], ret);
	return 1;
}

int learning_usual(struct store *store, const struct attempt *a, struct detect_usual *ret,
		   struct err *err)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct run_class class;
	struct run_kind kind = {
		.class = &class,
		.uid = learning_scope(a->uid),
		.until_wall_ns = a->started_wall_ns,
		.limit = ESTIMATE_MAX_RUNS,
	};
	int r = 0;

	*ret = (struct detect_usual){ .job_id = a->job_id,
				      .cpu_percent = F64_UNKNOWN,
				      .wall_seconds = F64_UNKNOWN,
				      .cpu_seconds = F64_UNKNOWN,
				      .rss_bytes = U64_UNKNOWN };
	if (learning_describe_attempt(a, &arena, &class) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	for (kind.rung = 0; r == 0 && kind.rung < RUNG_COUNT; kind.rung++)
		r = try_rung(store, &kind, a, ret, err);
	return r < 0 ? r : 0;
}
