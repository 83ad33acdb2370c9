#include "store_writer.h"

#include "base/macros.h"
#include "store/attempt.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"

int store_begin_attempt(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	const struct attempt old = *a;
	int before, restored, r;

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
		a->id = old.id;
		a->attempt_num = old.attempt_num;
	}
	restored = durability_restore(store, before, r < 0 ? NULL : err);
	return r < 0 ? r : restored;
}

int store_finish_attempt(struct store *store, const struct attempt *a,
			 const struct proc_event *events, size_t n_events, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct attempt details = *a;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	details.details.n_syscalls = 0; /* store_add_syscalls() */
	if (r == 0)
		r = attempt_write_end(store, a, err);
	if (r == 0)
		r = attempt_write_details(store, &details, NULL, err);
	if (r == 0)
		r = rows_write(store, STATEMENT_ADD_EVENT, a->id, &event_columns, events, n_events,
			       sizeof(*events), err);
	if (r == 0)
		r = fold_all(store, a->id, err);
	store->writing.recorder = 0; /* its ticks are folded */
	return r < 0 ? r : txn_commit(&txn, err);
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
	return r < 0 ? r : txn_commit(&txn, err);
}
