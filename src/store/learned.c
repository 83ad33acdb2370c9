#include "store/learned.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/tables.h"
#include "store/query.h"
#include "store/store.h"

/* ---- runs ---- */

int store_list_unnoted(struct store *store, struct unnoted *ret, size_t max, size_t *ret_n,
		       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	size_t n = 0;
	int r = query_ask(store, STATEMENT_NEXT_UNNOTED, &q, err, (int64_t)max);

	if (r < 0)
		return r;
	while (n < max && (r = query_step(&q, err)) > 0) {
		const char *job_id;

		ret[n].attempt = query_read_i64(&q);
		job_id = query_read_text(&q);
		snprintf(ret[n].job_id, sizeof(ret[n].job_id), "%s", job_id ? job_id : "");
		ret[n++].attempt_num = (int)query_read_i64(&q);
	}
	*ret_n = n;
	return r < 0 ? r : 0;
}

int store_put_runs(struct store *store, const struct run_record *runs,
		   const struct run_estimate *estimates, size_t n, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int before = 0, restored, r = durability_lower(store, &before, err);

	if (r < 0)
		return r;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct run_record *run = &runs[i];
		const struct run_estimate *e = estimates ? &estimates[i] : NULL;

		r = query_put(store, STATEMENT_PUT_RUN, err, V_I64(run->attempt),
			      V_TEXT(outcome_name(run->outcome)), V_COLUMNS(&run_columns, run));
		if (r < 0 || !e || e->estimate.n_runs == 0)
			continue;
		r = query_put(store, STATEMENT_ADD_ESTIMATE, err, V_I64(run->attempt),
			      V_I64(run->sheet_num), V_I64((int64_t)run->started_wall_ns),
			      V_I64(e->estimate.rung), V_COLUMNS(&estimate_columns, &e->estimate));
		if (r == 0)
			r = query_put(store, STATEMENT_ADD_SCORE, err,
				      V_COLUMNS(&score_columns, &e->score));
	}
	if (r == 0)
		r = txn_commit(&txn, err);
	txn_abort(&txn);
	restored = durability_restore(store, before, r < 0 ? NULL : err);
	return r < 0 ? r : restored;
}

/* All rows of a query that is bound, which come newest first. */
static int read_runs(struct query *q, struct run_list *ret, struct err *err)
{
	static const struct row_part parts[] = { { &run_owner_columns, 0 }, { &run_columns, 0 } };
	const size_t before = ret->n;
	int r;

	while ((r = query_step(q, err)) > 0) {
		struct run_record *run = run_list_add(ret);

		r = run ? row_read(q, parts, ARRAY_SIZE(parts), run, &ret->arena, err)
			: store_no_memory(q->store, err);
		if (r < 0)
			break;
	}
	if (r < 0)
		ret->n = before;
	for (size_t i = before, k = ret->n; i + 1 < k; i++) {
		struct run_record run = ret->items[i];

		ret->items[i] = ret->items[--k];
		ret->items[k] = run;
	}
	return r;
}

int store_list_runs(struct store *store, const struct run_span *span, struct run_list *ret,
		    struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_ask(store,
			      span->command ? STATEMENT_RUNS_OF_COMMAND : STATEMENT_LIST_RUNS, &q,
			      err, query_as_i64(span->after_wall_ns),
			      query_as_i64(span->until_wall_ns), (int64_t)span->limit);
	if (r < 0)
		return r;
	if (span->command)
		query_bind_i64(&q, (int64_t)*span->command);
	return read_runs(&q, ret, err);
}

/* by_exact: of those for each rung the first. */
static int open_kind(struct store *store, enum statement by_exact, const struct run_kind *kind,
		     struct query *q, struct err *err)
{
	int r = query_ask(store, (enum statement)(by_exact + kind->rung), q, err,
			  (int64_t)kind->class->rungs[kind->rung],
			  query_as_i64(kind->until_wall_ns));

	if (r < 0)
		return r;
	query_bind_i64_if(q, u64_known(kind->uid), (int64_t)kind->uid);
	query_bind_i64(q, (int64_t)kind->limit);
	return 0;
}

int store_list_runs_of_kind(struct store *store, const struct run_kind *kind, struct run_list *ret,
			    struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = open_kind(store, STATEMENT_RUNS_BY_EXACT, kind, &q, err);
	return r < 0 ? r : read_runs(&q, ret, err);
}

int store_read_anomaly_types(struct store *store, int64_t attempt, int sheet_num, struct buf *out,
			     struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *blank = "";
	int r = query_ask(store, STATEMENT_ANOMALY_TYPES, &q, err, attempt, sheet_num);

	if (r < 0)
		return r;
	while ((r = query_step(&q, err)) > 0) {
		const char *type = query_read_text(&q);

		if (!type || !type[0] || strpbrk(type, " \t\r\n"))
			continue;
		buf_printf(out, "%s%s", blank, type);
		blank = " ";
	}
	return r;
}

/* ---- estimates ---- */

int store_read_calibration(struct store *store, const struct run_kind *kind,
			   struct calibration *ret, struct err *err)
{
	static const struct column items[] = {
		COLUMN(calibration, n_peak, COLUMN_BITS),
		COLUMN(calibration, n_peak_covered, COLUMN_BITS),
		COLUMN(calibration, n_cpu, COLUMN_BITS),
		COLUMN(calibration, n_cpu_covered, COLUMN_BITS),
		COLUMN(calibration, promised, COLUMN_F64),
	};
	static const struct columns columns = COLUMNS(items);
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_kind(store, STATEMENT_CALIBRATION_BY_EXACT, kind, &q, err);

	if (r < 0)
		return r;
	r = query_step(&q, err);
	return r > 0 ? query_read_columns(&q, &columns, ret, NULL, err) : r;
}

/* ---- patterns ---- */

int store_list_patterns(struct store *store, struct pattern_list *ret, struct err *err)
{
	CLEANUP(pattern_list_release) struct pattern_list list = { .arena = ARENA_INIT };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_LIST_PATTERNS, &q, err);

	if (r < 0)
		return r;
	while ((r = query_step(&q, err)) > 0) {
		struct pattern *p = pattern_list_add(&list);

		if (!p)
			return store_no_memory(store, err);
		r = query_read_columns(&q, &pattern_columns, p, &list.arena, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	*ret = list;
	list = (struct pattern_list){ .arena = ARENA_INIT };
	return 0;
}

int store_put_patterns(struct store *store, const struct pattern_list *patterns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r;

	if (patterns->n == 0)
		return 0;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = query_open(store, STATEMENT_PUT_PATTERN, &q, err);
	for (size_t i = 0; r == 0 && i < patterns->n; i++) {
		if (strcmp(patterns->items[i].type, PATTERN_ANOMALY) == 0)
			continue; /* counted where they come, and maybe since */
		query_bind_columns(&q, &pattern_columns, &patterns->items[i]);
		r = query_run(&q, err);
	}
	query_close(&q);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* ---- verdicts ---- */

/* An attempt that has ended, in a transaction that was begun. */
static int begin_verdict(struct store *store, const char *job_id, int num, struct store **txn,
			 int64_t *ret_attempt, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_progress(store, job_id, num, &a, err);
	if (r < 0)
		return r;
	*ret_attempt = a.id;
	if (a.is_running)
		return err_set(err, -EAGAIN, "job %s still runs: its outcome is not known yet",
			       a.job_id);
	if (!u64_known(a.ended_wall_ns))
		return err_set(err, -ENODATA,
			       "job %s was lost: how it ended and what it used is not known",
			       a.job_id);
	return txn_begin(store, STATEMENT_BEGIN_WRITE, txn, err);
}

/* One without a verdict has what was measured already. */
int store_restore_outcome(struct store *store, const char *job_id, int num, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t attempt;
	int r = begin_verdict(store, job_id, num, &txn, &attempt, err);

	if (r == 0)
		r = query_exec(store, STATEMENT_RESTORE_OUTCOME, err, attempt);
	if (r == 0)
		r = query_exec(store, STATEMENT_REMOVE_VERDICT, err, attempt);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_set_outcome(struct store *store, const char *job_id, int num,
		      const struct store_verdict *v, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(buf_release) struct buf reason = BUF_INIT;
	int64_t attempt;
	int r = begin_verdict(store, job_id, num, &txn, &attempt, err);

	buf_printf(&reason, "user %llu says so%s%s", (unsigned long long)v->uid,
		   v->note ? ": " : "", v->note ? v->note : "");
	if (r == 0 && buf_error(&reason) < 0)
		r = store_no_memory(store, err);
	if (r == 0)
		r = query_put(store, STATEMENT_PUT_VERDICT, err, V_I64(attempt),
			      V_TEXT(outcome_name(v->outcome)), V_TEXT(v->note),
			      V_I64((int64_t)v->uid), V_I64((int64_t)v->wall_ns));
	if (r == 0)
		r = query_put(store, STATEMENT_SET_OUTCOME, err, V_TEXT(outcome_name(v->outcome)),
			      V_TEXT(reason.data), V_I64(attempt));
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_read_measured_outcome(struct store *store, int64_t attempt, enum outcome *ret,
				struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_first(store, STATEMENT_MEASURED_OUTCOME, &q, err, attempt);

	if (r < 0)
		return r;
	*ret = r > 0 ? outcome_from_name(query_read_text(&q)) : OUTCOME_NONE;
	return 0;
}
