#include <errno.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/learning.h"
#include "jobs/jobs.h"

#define SHEET_MIN_RUNS 20 /* the fewest that give 95 % */

void learning_answer_init(struct learning_answer *answer)
{
	*answer = (struct learning_answer){ .calibration = { .promised = F64_UNKNOWN } };
	estimate_init(&answer->estimate);
}

/* ---- of a class ---- */

static int try_rung(struct store *store, const struct run_kind *kind, struct estimate *e,
		    struct err *err)
{
	CLEANUP(run_list_release) struct run_list past = { .arena = ARENA_INIT };
	int r = store_list_runs_of_kind(store, kind, &past, err);

	if (r == 0 && estimate_try_rung(past.items, past.n, kind->rung, e) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	return r;
}

int learning_estimate_kind(struct store *store, const struct run_kind *kind, struct estimate *ret,
			   struct err *err)
{
	struct run_kind at = *kind;
	struct estimate e;
	int r = 0;

	estimate_init(&e);
	at.rung = RUNG_EXACT;
	for (; r == 0 && at.rung < RUNG_COUNT && !estimate_is_enough(&e); at.rung++)
		r = try_rung(store, &at, &e, err);
	if (r == 0)
		*ret = e;
	return r;
}

uint64_t learning_scope(uint64_t uid)
{
	return uid == geteuid() ? U64_UNKNOWN : uid;
}

/* Whose runs are looked at (U64_UNKNOWN: all users'), and how many of them. */
struct scope {
	uint64_t uid;
	size_t limit;
};

static uint64_t whose(bool only_own, uint64_t uid)
{
	return only_own ? uid : U64_UNKNOWN;
}

static int answer_source(struct store *store, const struct class_source *source, struct scope scope,
			 struct learning_answer *ret, struct err *err)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct run_class class;
	struct run_kind kind = { &class, RUNG_EXACT, scope.uid, U64_UNKNOWN, scope.limit };
	int r;

	if (class_describe(source, &arena, &class) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = learning_estimate_kind(store, &kind, &ret->estimate, err);
	kind.rung = ret->estimate.rung;
	kind.uid = source->uid; /* answers that others were given are theirs */
	return r < 0 ? r : store_read_calibration(store, &kind, &ret->calibration, err);
}

/* ---- of a job ---- */

/* A question, with what is the same for all parts of its answer. */
struct asked {
	const struct learning_question *q;
	uint64_t argv_hash;
};

/* What a run of the sheet will be called; NULL: of all sheets. */
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
	return answer_source(store, &source, (struct scope){ whose(q->only_own, q->uid), limit },
			     ret, err);
}

static void add_calibration(struct calibration *all, const struct calibration *part)
{
	all->n_peak += part->n_peak;
	all->n_peak_covered += part->n_peak_covered;
	all->n_cpu += part->n_cpu;
	all->n_cpu_covered += part->n_cpu_covered;
	all->promised = F64_UNKNOWN; /* promises for parts are none for the whole */
}

static void add_part(struct learning_answer *all, const struct learning_answer *part)
{
	estimate_add_step(&all->estimate, &part->estimate);
	add_calibration(&all->calibration, &part->calibration);
}

/* No data of one sheet is no data of the job: so it ends with the first. */
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
		else
			add_part(ret, &part);
		if (part.estimate.n_runs == 0)
			break;
	}
	ret->is_by_sheet = true;
	return r;
}

static bool may_ask_by_sheet(const struct learning_question *q)
{
	size_t n = q->spec->n_sheets;

	return n > 1 && (q->max_sheets == 0 || n <= q->max_sheets);
}

int learning_estimate(struct store *store, const struct learning_question *question,
		      struct learning_answer *ret, struct err *err)
{
	const struct asked asked = { question, job_spec_hash(question->spec, question->mask) };
	struct learning_answer answer;
	int r;

	learning_answer_init(&answer);
	r = estimate_part(store, &asked, NULL, ESTIMATE_MAX_RUNS, &answer, err);
	if (r == 0 && answer.estimate.n_runs == 0 && may_ask_by_sheet(question))
		r = estimate_by_sheet(store, &asked, &answer, err);
	if (r == 0)
		*ret = answer;
	return r;
}

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

int learning_describe_attempt(const struct attempt *a, struct arena *arena, struct run_class *ret)
{
	const struct class_source source = source_of(a);

	return class_describe(&source, arena, ret);
}

int learning_estimate_attempt(struct store *store, const struct attempt *a, bool only_own,
			      struct learning_answer *ret, struct err *err)
{
	const struct class_source source = source_of(a);
	struct learning_answer answer;
	int r;

	learning_answer_init(&answer);
	r = answer_source(store, &source,
			  (struct scope){ whose(only_own, a->uid), ESTIMATE_MAX_RUNS }, &answer,
			  err);
	if (r == 0)
		*ret = answer;
	return r;
}

void learning_write_answer(struct json *j, const struct learning_answer *answer)
{
	json_begin_object(j);
	estimate_write_fields(j, &answer->estimate, &answer->calibration);
	json_key_bool(j, "by_sheet", answer->is_by_sheet);
	json_end_object(j);
}
