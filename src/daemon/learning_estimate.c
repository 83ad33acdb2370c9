#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/learning.h"
#include "jobs/jobs.h"

void learning_answer_init(struct learning_answer *answer)
{
	*answer = (struct learning_answer){ .calibration = { .promised = F64_UNKNOWN } };
	estimate_init(&answer->estimate);
}

/* ---- of a class ---- */

/*
 * The class of one exact command is the same for all users; that of a program is not. So
 * who shares the latter with us is us.
 */
static bool leave_out_others(struct run_list *past, const struct run_class *class)
{
	size_t n = 0, n_all = past->n;

	for (size_t i = 0; i < past->n; i++)
		if (past->items[i].class.rungs[RUNG_PROGRAM] == class->rungs[RUNG_PROGRAM])
			past->items[n++] = past->items[i];
	past->n = n;
	return n < n_all;
}

static int estimate_class(struct store *store, const struct run_class *class, bool only_own,
			  struct learning_answer *ret, struct err *err)
{
	CLEANUP(run_list_release) struct run_list past = { .arena = ARENA_INIT };
	int r = store_list_runs_of_class(store, class, LEARNING_CLASS_RUNS, &past, err);
	bool is_shared;

	if (r < 0)
		return r;
	is_shared = only_own && leave_out_others(&past, class);
	if (estimate_by_class(past.items, past.n, class, &ret->estimate) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (is_shared && ret->estimate.rung == RUNG_EXACT)
		return 0; /* how answers did is kept for all users together */
	return store_read_calibration(store, ret->estimate.rung, class->rungs[ret->estimate.rung],
				      &ret->calibration, err);
}

static int estimate_source(struct store *store, const struct class_source *source, bool only_own,
			   struct learning_answer *ret, struct err *err)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct run_class class;

	if (class_describe(source, &arena, &class) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return estimate_class(store, &class, only_own, ret, err);
}

/* ---- of a job ---- */

/* What a run of the sheet will be called; NULL: of all sheets. */
static int estimate_part(struct store *store, const struct learning_question *q,
			 const struct sheet_spec *sheet, struct learning_answer *ret,
			 struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct job_spec *spec = q->spec;
	const struct sheet_spec *only = spec->n_sheets == 1 ? &spec->sheets[0] : sheet;
	struct class_source source = {
		.n_sheets = only ? 1 : (int)spec->n_sheets,
		.argv_hash = job_spec_hash(spec, q->mask),
		.sheet_num = only ? only->num : 0,
		.uid = q->uid,
		.input_bytes = q->input_bytes, /* recorded of the job as a whole */
	};

	mask_argv(q->mask, only ? only->argv : spec->sheets[0].argv, &text);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	source.command = text.data;
	return estimate_source(store, &source, q->only_own, ret, err);
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
static int estimate_by_sheet(struct store *store, const struct learning_question *q,
			     struct learning_answer *ret, struct err *err)
{
	struct learning_answer part;
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->spec->n_sheets; i++) {
		learning_answer_init(&part);
		r = estimate_part(store, q, &q->spec->sheets[i], &part, err);
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

int learning_estimate(struct store *store, const struct learning_question *question,
		      struct learning_answer *ret, struct err *err)
{
	struct learning_answer answer;
	int r;

	learning_answer_init(&answer);
	r = estimate_part(store, question, NULL, &answer, err);
	if (r == 0 && answer.estimate.n_runs == 0 && question->spec->n_sheets > 1)
		r = estimate_by_sheet(store, question, &answer, err);
	if (r == 0)
		*ret = answer;
	return r;
}

int learning_describe(const struct attempt *a, struct arena *arena, struct run_class *ret)
{
	const struct class_source source = {
		.command = a->n_sheets > 0 ? a->sheets[0].command : a->command,
		.n_sheets = a->total_sheets > 1 ? a->total_sheets : 1,
		.argv_hash = a->argv_hash,
		.sheet_num = a->total_sheets > 1 ? 0
			     : a->n_sheets > 0	 ? a->sheets[0].num
						 : 1,
		.uid = a->uid,
		.input_bytes = a->input_bytes,
	};

	return class_describe(&source, arena, ret);
}

int learning_estimate_attempt(struct store *store, const struct attempt *a, bool only_own,
			      struct learning_answer *ret, struct err *err)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct learning_answer answer;
	struct run_class class;
	int r;

	if (learning_describe(a, &arena, &class) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	learning_answer_init(&answer);
	r = estimate_class(store, &class, only_own, &answer, err);
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
