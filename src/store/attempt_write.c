#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"

/* The id of the row with this text, which is added where there is none. */
static int text_intern(struct store *store, enum statement find, enum statement add,
		       const char *text, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query found = QUERY_INIT, added = QUERY_INIT;
	int r = query_open(store, find, &found, err);

	if (r < 0)
		return r;
	query_bind_text(&found, text);
	r = query_step(&found, err);
	if (r > 0)
		*ret = query_read_i64(&found);
	if (r != 0)
		return r < 0 ? r : 0;
	r = query_open(store, add, &added, err);
	if (r < 0)
		return r;
	query_bind_text(&added, text);
	r = query_run(&added, err);
	*ret = sqlite3_last_insert_rowid(store->db);
	return r;
}

static int add_attempt(struct store *store, const struct attempt *a, const struct log_id *log,
		       int64_t *ret_id, int *ret_num, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job = 0, boot = 0;
	int r = text_intern(store, STATEMENT_FIND_JOB, STATEMENT_ADD_JOB, a->job_id, &job, err);

	if (r == 0 && a->boot_id[0])
		r = text_intern(store, STATEMENT_FIND_BOOT, STATEMENT_ADD_BOOT, a->boot_id, &boot,
				err);
	if (r == 0)
		r = query_ask(store, STATEMENT_ADD_ATTEMPT, &q, err, job);
	if (r < 0)
		return r;
	query_bind_i64_if(&q, boot != 0, boot);
	query_bind_i64(&q, log ? a->attempt_num : 0);
	query_bind_bytes(&q, log ? log->bytes : NULL, log ? sizeof(log->bytes) : 0);
	query_bind_columns(&q, &attempt_begin_columns, a);
	query_bind_columns(&q, &attempt_progress_columns, a);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	*ret_id = query_read_i64(&q);
	*ret_num = (int)query_read_i64(&q);
	return query_run(&q, err);
}

int daemon_begin(struct store *store, const struct daemon_record *d, const struct log_id *log,
		 int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t boot = 0;
	int r = d->boot_id[0] ? text_intern(store, STATEMENT_FIND_BOOT, STATEMENT_ADD_BOOT,
					    d->boot_id, &boot, err)
			      : 0;

	if (r == 0)
		r = query_open(store, STATEMENT_ADD_DAEMON, &q, err);
	if (r < 0)
		return r;
	query_bind_i64_if(&q, boot != 0, boot);
	query_bind_bytes(&q, log ? log->bytes : NULL, log ? sizeof(log->bytes) : 0);
	query_bind_columns(&q, &daemon_columns, d);
	r = query_run(&q, err);
	*ret_id = sqlite3_last_insert_rowid(store->db);
	return r < 0 ? r
		     : query_exec(store, STATEMENT_END_HOST_ANOMALIES, err,
				  query_as_i64(d->started_wall_ns), boot ? boot : -1);
}

int store_begin_daemon(struct store *store, struct daemon_record *d, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t id = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = daemon_begin(store, d, NULL, &id, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r == 0)
		d->id = id;
	return r;
}

int store_end_daemon(struct store *store, const struct daemon_record *d, uint64_t wall_ns,
		     struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = query_exec(store, STATEMENT_END_DAEMON, err, (int64_t)wall_ns, d->id);
	if (r == 0)
		r = fold_all(store, -d->id, err);
	store->writing.recorder = 0; /* its ticks are folded */
	return r < 0 ? r : txn_commit(&txn, err);
}

static int replace_ranks(struct store *store, int64_t attempt_id, const struct sheet_record *sheet,
			 struct err *err)
{
	CLEANUP(query_close) struct query drop = QUERY_INIT, add = QUERY_INIT;
	int r;

	if (sheet->total_ranks <= 1 && sheet->n_ranks == 0) /* it never had any */
		return 0;
	r = query_ask(store, STATEMENT_DROP_RANKS, &drop, err, attempt_id, sheet->num,
		      sheet->try_num);
	if (r < 0)
		return r;
	r = query_run(&drop, err);
	if (r == 0 && sheet->n_ranks > 0)
		r = query_open(store, STATEMENT_ADD_RANK, &add, err);
	for (size_t i = 0; r == 0 && i < sheet->n_ranks; i++) {
		query_bind_i64(&add, attempt_id);
		query_bind_i64(&add, sheet->num);
		query_bind_i64(&add, sheet->try_num);
		query_bind_columns(&add, &rank_columns, &sheet->ranks[i]);
		r = query_run(&add, err);
	}
	return r;
}

static int put_sheet(struct store *store, int64_t attempt_id, const struct sheet_record *sheet,
		     struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_PUT_SHEET, &q, err, attempt_id);

	if (r < 0)
		return r;
	query_bind_columns(&q, &sheet_columns, sheet);
	query_bind_columns(&q, &usage_columns, &sheet->usage);
	r = query_run(&q, err);
	return r < 0 ? r : replace_ranks(store, attempt_id, sheet, err);
}

static int put_sheets(struct store *store, int64_t attempt_id, const struct sheet_record *sheets,
		      size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_sheet(store, attempt_id, &sheets[i], err);
	return r;
}

static int set_clock(struct store *store, int64_t id, const struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SET_CLOCK, &q, err);

	if (r < 0)
		return r;
	query_bind_columns(&q, &clock_columns, a);
	query_bind_i64(&q, id);
	return query_run(&q, err);
}

int attempt_begin(struct store *store, struct attempt *a, const struct log_id *log, struct err *err)
{
	int64_t id = 0;
	int num = 0, r = add_attempt(store, a, log, &id, &num, err);

	store->n_attempt_writes++;
	if (r == 0)
		r = put_sheets(store, id, a->sheets, a->n_sheets, err);
	if (r == 0 && a->clock.is_synchronised >= 0)
		r = set_clock(store, id, a, err);
	if (r < 0)
		return r;
	a->id = id;
	a->attempt_num = num;
	return 0;
}

/* A command that is over in a moment has one thing that must not be lost: how it ended. */
int store_begin_attempt(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	const int64_t old_id = a->id;
	const int old_num = a->attempt_num;
	int before, restored, r;

	if (!a->job_id)
		return err_set(err, -EINVAL, "an attempt without a job id cannot be recorded");
	r = durability_lower(store, &before, err);
	if (r < 0)
		return r;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = attempt_begin(store, a, NULL, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	txn_abort(&txn);
	if (r < 0) {
		a->id = old_id;
		a->attempt_num = old_num;
	}
	restored = durability_restore(store, before, r < 0 ? NULL : err);
	return r < 0 ? r : restored;
}

static int set_progress(struct store *store, const struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SET_PROGRESS, &q, err);

	if (r < 0)
		return r;
	query_bind_columns(&q, &attempt_progress_columns, a);
	query_bind_i64(&q, a->id);
	return query_run(&q, err);
}

int store_write_sheets(struct store *store, const struct attempt *a,
		       const struct sheet_record *sheets, size_t n, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	store->n_attempt_writes++;
	if (r == 0)
		r = put_sheets(store, a->id, sheets, n, err);
	if (r == 0)
		r = set_progress(store, a, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_write_events(struct store *store, const struct attempt *a,
		       const struct proc_event *events, size_t n, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_EVENT, a->id, &event_columns, events, n,
			       sizeof(*events), err);
	return r < 0 ? r : txn_commit(&txn, err);
}

static int note_missing_calls(struct store *store, int64_t attempt_id, const char *why,
			      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_NOTE_UNKNOWN, &q, err, attempt_id);

	if (r < 0)
		return r;
	query_bind_text(&q, "syscalls");
	query_bind_text(&q, why);
	return query_run(&q, err);
}

int store_add_syscalls(struct store *store, const struct attempt *a, const struct syscall_use *uses,
		       size_t n, const char *why_not_all, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_SYSCALL, a->id, &syscall_columns, uses, n,
			       sizeof(*uses), err);
	if (r == 0)
		r = rows_write(store, STATEMENT_SET_PROCESS_CALLS, a->id, &process_call_columns,
			       a->processes, a->n_processes, sizeof(*a->processes), err);
	if (r == 0 && why_not_all)
		r = note_missing_calls(store, a->id, why_not_all, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

static int set_end(struct store *store, const struct attempt *a, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SET_END, &q, err);

	if (r < 0)
		return r;
	query_bind_columns(&q, &attempt_progress_columns, a);
	query_bind_columns(&q, &attempt_end_columns, a);
	query_bind_columns(&q, &usage_columns, &a->usage);
	query_bind_i64(&q, a->id);
	r = query_run(&q, err);
	if (r == 0 && sqlite3_changes(store->db) != 1)
		r = err_set(err, -ENOENT, "the attempt that ends is not in the database %s",
			    store->path);
	return r;
}

/* Once more is no harm: what is there is replaced. */
static int write_notes(struct store *store, const struct attempt *a, struct err *err)
{
	int r = query_exec(store, STATEMENT_DROP_RUNGS, err, a->id);

	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_RUNG, a->id, &rung_columns, a->rungs,
			       a->n_rungs, sizeof(*a->rungs), err);
	if (r == 0)
		r = query_exec(store, STATEMENT_DROP_UNKNOWNS, err, a->id);
	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_UNKNOWN, a->id, &unknown_columns, a->unknowns,
			       a->n_unknowns, sizeof(*a->unknowns), err);
	return r;
}

int attempt_write_end(struct store *store, const struct attempt *a, struct err *err)
{
	int r = set_end(store, a, err);

	return r < 0 ? r : put_sheets(store, a->id, a->sheets, a->n_sheets, err);
}

/*
 * The kernel's news of births and deaths may not say when a process started, and so not which of
 * the sampled ones it is: by its number and its time it is one of them, and not two.
 */
static int find_sampled(struct store *store, int64_t attempt_id, struct proc_record *p,
			struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_first(store, STATEMENT_FIND_SAMPLED, &q, err, attempt_id, p->key.pid,
			    query_as_i64(p->born_wall_ns));

	if (r > 0)
		p->key.start_ticks = (uint64_t)query_read_i64(&q);
	return r < 0 ? r : 0;
}

static int write_processes(struct store *store, const struct attempt *a, struct err *err)
{
	size_t bytes = a->n_processes * sizeof(*a->processes);
	CLEANUP(free_ptr) struct proc_record *joined = bytes > 0 ? malloc(bytes) : NULL;
	int r = 0;

	if (bytes == 0)
		return 0;
	if (!joined)
		return store_no_memory(store, err);
	memcpy(joined, a->processes, bytes);
	for (size_t i = 0; r == 0 && i < a->n_processes; i++)
		if (!u64_known(joined[i].key.start_ticks) && u64_known(joined[i].born_wall_ns))
			r = find_sampled(store, a->id, &joined[i], err);
	return r < 0 ? r
		     : rows_write(store, STATEMENT_PUT_PROCESS, a->id, &process_columns, joined,
				  a->n_processes, sizeof(*joined), err);
}

int attempt_write_details(struct store *store, const struct attempt *a,
			  const char *why_not_all_calls, struct err *err)
{
	/* Before the rungs, which say that a runner's own counts are whole. */
	int r = rows_write(store, STATEMENT_ADD_SYSCALL, a->id, &syscall_columns, a->syscalls,
			   a->n_syscalls, sizeof(*a->syscalls), err);

	if (r == 0)
		r = write_processes(store, a, err);
	if (r == 0)
		r = write_notes(store, a, err);
	if (r == 0 && why_not_all_calls)
		r = note_missing_calls(store, a->id, why_not_all_calls, err);
	return r;
}

/* is_bare: no more than how it ended. */
static int finish_attempt(struct store *store, const struct attempt *a,
			  const struct proc_event *events, size_t n_events, bool is_bare,
			  struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = attempt_write_end(store, a, err);
	if (r == 0 && !is_bare)
		r = write_processes(store, a, err);
	if (r == 0 && !is_bare)
		r = rows_write(store, STATEMENT_ADD_EVENT, a->id, &event_columns, events, n_events,
			       sizeof(*events), err);
	if (r == 0 && !is_bare)
		r = write_notes(store, a, err);
	if (r == 0 && !is_bare)
		r = fold_all(store, a->id, err);
	store->writing.recorder = 0; /* its ticks are folded */
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_finish_attempt(struct store *store, const struct attempt *a,
			 const struct proc_event *events, size_t n_events, struct err *err)
{
	int r = finish_attempt(store, a, events, n_events, false, err);

	store->n_attempt_writes++;
	if (r < 0 && r != -EBUSY) /* all of the patience is used up then */
		finish_attempt(store, a, NULL, 0, true, NULL); /* err has the first failure */
	return r;
}
