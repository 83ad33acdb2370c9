/*
 * Answers that rest on past runs: estimates, how an attempt compares with others, and what is
 * usual.
 */
#include "query/query.h"

#include <errno.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/jobs.h"
#include "model/anomaly.h"

#define SHEET_MIN_RUNS 20 /* the fewest that give 95 % */
#define USUAL_RUNS 10	  /* the newest of its kind */

void learning_answer_init(struct learning_answer *answer)
{
	*answer = (struct learning_answer){ .calibration = { .promised = F64_UNKNOWN } };
	estimate_init(&answer->estimate);
}

/* ---- estimates of a class ---- */

int learning_estimate_kind(struct store *store, const struct run_kind *kind, struct estimate *ret,
			   struct err *err)
{
	struct run_kind at = *kind;
	struct estimate e;
	int r = 0;

	estimate_init(&e);
	at.rung = RUNG_EXACT;
	for (; r == 0 && at.rung < RUNG_COUNT && !estimate_is_enough(&e); at.rung++) {
		CLEANUP(run_list_release) struct run_list past = { .arena = ARENA_INIT };

		r = store_list_runs_of_kind(store, &at, &past, err);
		if (r == 0 && estimate_try_rung(past.items, past.n, at.rung, &e) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	}
	if (r == 0)
		*ret = e;
	return r;
}

uint64_t learning_scope(uint64_t uid)
{
	return uid == geteuid() ? U64_UNKNOWN : uid;
}

static uint64_t whose(bool only_own, uint64_t uid)
{
	return only_own ? uid : U64_UNKNOWN;
}

/* uid: of whose runs; U64_UNKNOWN: of all users. */
static int answer_source(struct store *store, const struct class_source *source, uint64_t uid,
			 size_t limit, struct learning_answer *ret, struct err *err)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct run_class class;
	struct run_kind kind = { &class, RUNG_EXACT, uid, U64_UNKNOWN, limit };
	int r;

	if (class_describe(source, &arena, &class) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = learning_estimate_kind(store, &kind, &ret->estimate, err);
	kind.rung = ret->estimate.rung;
	kind.uid = source->uid; /* answers for other users do not count */
	return r < 0 ? r : store_read_calibration(store, &kind, &ret->calibration, err);
}

/* ---- estimates of a job ---- */

/* A question, with a hash that is the same for all parts of its answer. */
struct asked {
	const struct learning_question *q;
	uint64_t argv_hash;
};

/* Of one sheet; NULL: of all sheets. */
static int estimate_part(struct store *store, const struct asked *asked,
			 const struct sheet_spec *sheet, size_t limit, struct learning_answer *ret,
			 struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct learning_question *q = asked->q;
	const struct job_spec *spec = q->spec;
	const struct sheet_spec *only = spec->n_sheets == 1 ? &spec->sheets[0] : sheet;
	struct class_source source = {
		.n_sheets = only ? 1 : (int)spec->n_sheets,
		.argv_hash = asked->argv_hash,
		.sheet_num = only ? only->num : 0,
		.uid = q->uid,
		.input_bytes = q->input_bytes, /* recorded of the job as a whole */
	};

	mask_argv(q->mask, only ? only->argv : spec->sheets[0].argv, &text);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	source.command = text.data;
	return answer_source(store, &source, whose(q->only_own, q->uid), limit, ret, err);
}

/* No data for one sheet is no data for the job: the first such sheet ends it. */
static int estimate_by_sheet(struct store *store, const struct asked *asked,
			     struct learning_answer *ret, struct err *err)
{
	const struct job_spec *spec = asked->q->spec;
	size_t n = spec->n_sheets, limit = ESTIMATE_MAX_RUNS / n;
	struct learning_answer part;
	int r = 0;

	if (limit < SHEET_MIN_RUNS)
		limit = SHEET_MIN_RUNS;
	for (size_t i = 0; r == 0 && i < n; i++) {
		learning_answer_init(&part);
		r = estimate_part(store, asked, &spec->sheets[i], limit, &part, err);
		if (i == 0)
			*ret = part;
		else {
			struct calibration *sum = &ret->calibration;

			estimate_add_step(&ret->estimate, &part.estimate);
			sum->n_peak += part.calibration.n_peak;
			sum->n_peak_covered += part.calibration.n_peak_covered;
			sum->n_cpu += part.calibration.n_cpu;
			sum->n_cpu_covered += part.calibration.n_cpu_covered;
			sum->promised = F64_UNKNOWN; /* promises for parts are none for the whole */
		}
		if (part.estimate.n_runs == 0)
			break;
	}
	ret->is_by_sheet = true;
	return r;
}

int learning_estimate(struct store *store, const struct learning_question *question,
		      struct learning_answer *ret, struct err *err)
{
	const struct asked asked = { question, job_spec_hash(question->spec, question->mask) };
	size_t n = question->spec->n_sheets, max = question->max_sheets;
	int r;

	learning_answer_init(ret);
	r = estimate_part(store, &asked, NULL, ESTIMATE_MAX_RUNS, ret, err);
	if (r == 0 && ret->estimate.n_runs == 0 && n > 1 && (max == 0 || n <= max))
		r = estimate_by_sheet(store, &asked, ret, err);
	if (r < 0)
		learning_answer_init(ret); /* of some of its sheets it would be too little */
	return r;
}

/* Of the attempt as a whole; it need not have ended. */
static struct class_source source_of(const struct attempt *a)
{
	return (struct class_source){
		.command = a->n_sheets > 0 ? a->sheets[0].command : a->command,
		.n_sheets = a->total_sheets > 1 ? a->total_sheets : 1,
		.argv_hash = a->argv_hash,
		.sheet_num = a->total_sheets > 1 ? 0
			     : a->n_sheets > 0	 ? a->sheets[0].num
						 : 1,
		.uid = a->uid,
		.input_bytes = a->input_bytes,
	};
}

int learning_estimate_attempt(struct store *store, const struct attempt *a, bool only_own,
			      struct learning_answer *ret, struct err *err)
{
	const struct class_source source = source_of(a);

	learning_answer_init(ret);
	return answer_source(store, &source, whose(only_own, a->uid), ESTIMATE_MAX_RUNS, ret, err);
}

void learning_write_answer(struct json *j, const struct learning_answer *answer)
{
	json_begin_object(j);
	estimate_write_fields(j, &answer->estimate, &answer->calibration);
	json_key_bool(j, "by_sheet", answer->is_by_sheet);
	json_end_object(j);
}

/* ---- runs of the same class ---- */

int learning_list_similar(struct store *store, const struct learning_likeness *like,
			  struct run_list *ret, enum run_rung *ret_rung, struct err *err)
{
	struct run_kind kind = { like->class, like->finest, like->uid, like->started_wall_ns,
				 LEARNING_MAX_SIMILAR };

	for (;; kind.rung++) {
		CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
		int r = store_list_runs_of_kind(store, &kind, &list, err);
		size_t n = 0;

		if (r < 0)
			return r;
		for (size_t i = 0; i < list.n; i++) {
			const struct run_record *run = &list.items[i];

			if (run->is_whole && run_is_decided(run) && run->attempt != like->attempt &&
			    (!like->succeeded || run->outcome == OUTCOME_SUCCESS))
				list.items[n++] = *run;
		}
		list.n = n;
		if (n < SIMILAR_MIN_RUNS && kind.rung + 1 < RUNG_COUNT)
			continue;
		*ret = list;
		*ret_rung = kind.rung;
		list = (struct run_list){ .arena = ARENA_INIT };
		return 0;
	}
}

static int describe_attempt(const struct attempt *a, struct arena *arena, struct run_class *ret,
			    struct err *err)
{
	const struct class_source source = source_of(a);

	return class_describe(&source, arena, ret) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* The similar runs before the attempt. */
static int list_before(struct store *store, const struct attempt *a, const struct run_class *class,
		       uint64_t uid, struct run_list *ret, enum run_rung *ret_rung, struct err *err)
{
	const struct learning_likeness like = {
		.class = class,
		.uid = uid,
		.attempt = a->id,
		.started_wall_ns = a->started_wall_ns,
	};

	return learning_list_similar(store, &like, ret, ret_rung, err);
}

static int compare_with_others(struct store *store, const struct attempt *a,
			       const struct run_record *run, uint64_t uid, struct standing *ret,
			       struct err *err)
{
	CLEANUP(run_list_release) struct run_list others = { .arena = ARENA_INIT };
	enum run_rung rung;
	int r = list_before(store, a, &run->class, uid, &others, &rung, err);

	if (r < 0)
		return r;
	ret->basis = class_rung_name(rung);
	if (standing_judge(run, others.items, others.n, ret) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* With the estimate that it would have had at its start. */
static int compare_with_estimate(struct store *store, const struct run_record *run, uint64_t uid,
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
	uint64_t uid = whose(is_own, a->uid);
	struct run_record run;
	int r;

	run_record_init(&run);
	r = standing ? describe_attempt(a, &a->arena, &run.class, err)
		     : err_set(err, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	run.outcome = a->outcome;
	run.started_wall_ns = a->started_wall_ns;
	if (u64_known(a->ended_wall_ns)) { /* else its usage is not final */
		run.wall_seconds = u64_to_seconds(a->usage.wall_ns);
		run.cpu_seconds = u64_to_seconds(u64_add(a->usage.user_ns, a->usage.system_ns));
		run.peak_rss_mb = u64_to_mb(usage_memory_bytes(&a->usage));
	}
	*standing = (struct standing){ 0 };
	estimate_init(&standing->expected);
	r = compare_with_others(store, a, &run, uid, standing, err);
	if (r == 0 && u64_known(run.started_wall_ns))
		r = compare_with_estimate(store, &run, uid, standing, err);
	if (r == 0 && standing->n_others > 0)
		a->details.standing = standing;
	return r;
}

int learning_list_reasons(struct store *store, const struct attempt *a,
			  struct standing_reason ret[STANDING_MAX_REASONS], struct err *err)
{
	CLEANUP(run_list_release) struct run_list own = { .arena = ARENA_INIT };
	CLEANUP(run_list_release) struct run_list others = { .arena = ARENA_INIT };
	enum run_rung rung;
	int r = learning_gather(store, a, &own, err);

	if (r == 0)
		r = list_before(store, a, &own.items[0].class, U64_UNKNOWN, &others, &rung, err);
	if (r < 0)
		return r;
	r = standing_list_reasons(&own.items[0], others.items, others.n, ret);
	return r < 0 ? err_set(err, r, "out of memory") : r;
}

static bool has(const struct run_record *run, enum anomaly_type type)
{
	return run->anomalies && run_has_anomaly(run->anomalies, anomaly_type_name(type));
}

/* Usage that was an anomaly then is not usual now. */
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

int learning_usual(struct store *store, const struct attempt *a, struct detect_usual *ret,
		   struct err *err)
{
	CLEANUP(run_list_release) struct run_list runs = { .arena = ARENA_INIT };
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct run_class class;
	const struct learning_likeness like = {
		.class = &class,
		.uid = learning_scope(a->uid),
		.attempt = a->id,
		.started_wall_ns = a->started_wall_ns,
		.succeeded = true,
	};
	enum run_rung rung;
	int r = describe_attempt(a, &arena, &class, err);

	*ret = (struct detect_usual){ .job_id = a->job_id,
				      .cpu_percent = F64_UNKNOWN,
				      .wall_seconds = F64_UNKNOWN,
				      .cpu_seconds = F64_UNKNOWN,
				      .rss_bytes = U64_UNKNOWN };
	if (r == 0)
		r = learning_list_similar(store, &like, &runs, &rung, err);
	if (r < 0 || runs.n < SIMILAR_MIN_RUNS)
		return r;
	for (size_t i = runs.n > USUAL_RUNS ? runs.n - USUAL_RUNS : 0; i < runs.n; i++)
		add_example(store, &runs.items[i], ret);
	return 0;
}
