#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"

/* The id of the row with this text, which is added where there is none. */
static int text_intern(struct store *store, enum statement find, enum statement add,
		       const char *text, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query found = QUERY_INIT;
	int r = query_find(store, find, &found, err, V_TEXT(text));

	if (r > 0)
		*ret = query_read_i64(&found);
	if (r != 0)
		return r < 0 ? r : 0;
	r = query_put(store, add, err, V_TEXT(text));
	*ret = sqlite3_last_insert_rowid(store->db);
	return r;
}

int daemon_begin(struct store *store, const struct daemon_record *d, const struct log_id *log,
		 int64_t *ret_id, struct err *err)
{
	int64_t boot = 0;
	int r = d->boot_id[0] ? text_intern(store, STATEMENT_FIND_BOOT, STATEMENT_ADD_BOOT,
					    d->boot_id, &boot, err)
			      : 0;

	if (r == 0)
		r = query_put(store, STATEMENT_ADD_DAEMON, err, V_I64_IF(boot != 0, boot),
			      V_BYTES(log ? log->bytes : NULL, log ? sizeof(log->bytes) : 0),
			      V_COLUMNS(&daemon_columns, d));
	*ret_id = sqlite3_last_insert_rowid(store->db);
	return r < 0 ? r
		     : query_exec(store, STATEMENT_END_HOST_ANOMALIES, err,
				  query_as_i64(d->started_wall_ns), boot ? boot : -1);
}

static int put_sheets(struct store *store, int64_t attempt_id, const struct sheet_record *sheets,
		      size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct sheet_record *sheet = &sheets[i];

		r = query_put(store, STATEMENT_PUT_SHEET, err, V_I64(attempt_id),
			      V_COLUMNS(&sheet_columns, sheet),
			      V_COLUMNS(&usage_columns, &sheet->usage));
		if (sheet->total_ranks <= 1 && sheet->n_ranks == 0) /* it never had any */
			continue;
		if (r == 0)
			r = query_exec(store, STATEMENT_DROP_RANKS, err, attempt_id, sheet->num,
				       sheet->try_num);
		for (size_t k = 0; r == 0 && k < sheet->n_ranks; k++)
			r = query_put(store, STATEMENT_ADD_RANK, err, V_I64(attempt_id),
				      V_I64(sheet->num), V_I64(sheet->try_num),
				      V_COLUMNS(&rank_columns, &sheet->ranks[k]));
	}
	return r;
}

int attempt_begin(struct store *store, struct attempt *a, const struct log_id *log, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job = 0, boot = 0, id = 0;
	int num = 0,
	    r = text_intern(store, STATEMENT_FIND_JOB, STATEMENT_ADD_JOB, a->job_id, &job, err);

	if (r == 0 && a->boot_id[0])
		r = text_intern(store, STATEMENT_FIND_BOOT, STATEMENT_ADD_BOOT, a->boot_id, &boot,
				err);
	if (r == 0)
		r = query_find(store, STATEMENT_ADD_ATTEMPT, &q, err, V_I64(job),
			       V_I64_IF(boot != 0, boot), V_I64(log ? a->attempt_num : 0),
			       V_BYTES(log ? log->bytes : NULL, log ? sizeof(log->bytes) : 0),
			       V_COLUMNS(&attempt_begin_columns, a), V_COLUMNS(&clock_columns, a),
			       V_COLUMNS(&attempt_progress_columns, a));
	if (r < 0)
		return r;
	id = query_read_i64(&q);
	num = (int)query_read_i64(&q);
	r = query_run(&q, err);
	if (r == 0)
		r = put_sheets(store, id, a->sheets, a->n_sheets, err);
	if (r < 0)
		return r;
	a->id = id;
	a->attempt_num = num;
	return 0;
}

int store_write_sheets(struct store *store, const struct attempt *a,
		       const struct sheet_record *sheets, size_t n, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = put_sheets(store, a->id, sheets, n, err);
	if (r == 0)
		r = query_put(store, STATEMENT_SET_PROGRESS, err,
			      V_COLUMNS(&attempt_progress_columns, a), V_I64(a->id));
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
	return query_put(store, STATEMENT_NOTE_UNKNOWN, err, V_I64(attempt_id), V_TEXT("syscalls"),
			 V_TEXT(why));
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

int attempt_write_end(struct store *store, const struct attempt *a, struct err *err)
{
	int r = query_put(store, STATEMENT_SET_END, err, V_COLUMNS(&attempt_progress_columns, a),
			  V_COLUMNS(&attempt_end_columns, a), V_COLUMNS(&usage_columns, &a->usage),
			  V_I64(a->id));

	if (r == 0 && sqlite3_changes(store->db) != 1)
		return err_set(err, -ENOENT, "the attempt that ends is not in the database %s",
			       store->path);
	return r < 0 ? r : put_sheets(store, a->id, a->sheets, a->n_sheets, err);
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
	for (size_t i = 0; r >= 0 && i < a->n_processes; i++) {
		CLEANUP(query_close) struct query q = QUERY_INIT;
		struct proc_record *p = &joined[i];

		/* The kernel's news of births and deaths may not say when a process started, and
		 * so not which of the sampled ones it is: by its number and its time it is one. */
		if (u64_known(p->key.start_ticks) || !u64_known(p->born_wall_ns))
			continue;
		r = query_first(store, STATEMENT_FIND_SAMPLED, &q, err, a->id, p->key.pid,
				query_as_i64(p->born_wall_ns));
		if (r > 0)
			p->key.start_ticks = (uint64_t)query_read_i64(&q);
	}
	return r < 0 ? r
		     : rows_write(store, STATEMENT_PUT_PROCESS, a->id, &process_columns, joined,
				  a->n_processes, sizeof(*joined), err);
}

int attempt_write_details(struct store *store, const struct attempt *a,
			  const char *why_not_all_calls, struct err *err)
{
	/* Before the rungs, which say that a runner's own counts are whole. */
	int r = rows_write(store, STATEMENT_ADD_SYSCALL, a->id, &syscall_columns,
			   a->details.syscalls, a->details.n_syscalls, sizeof(*a->details.syscalls),
			   err);

	if (r == 0)
		r = write_processes(store, a, err);
	if (r == 0) /* once more is no harm: what is there is replaced */
		r = query_exec(store, STATEMENT_DROP_RUNGS, err, a->id);
	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_RUNG, a->id, &rung_columns, a->details.rungs,
			       a->details.n_rungs, sizeof(*a->details.rungs), err);
	if (r == 0)
		r = query_exec(store, STATEMENT_DROP_UNKNOWNS, err, a->id);
	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_UNKNOWN, a->id, &unknown_columns,
			       a->details.unknowns, a->details.n_unknowns,
			       sizeof(*a->details.unknowns), err);
	if (r == 0 && why_not_all_calls)
		r = note_missing_calls(store, a->id, why_not_all_calls, err);
	return r;
}
