/*
 * fold_left - ticks are folded in pieces, between the ticks that who does so has to write in
 * time: his own, or those of a recorder that is quiet.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"

struct left_fold {
	int64_t recorder, newest_id; /* its last tick when this was begun */
	bool is_own;		     /* it writes on, and what it writes begins anew */
	struct folding *folding;
	struct folded folded;
	bool is_worked_out;
};

void left_fold_free(struct left_fold **left)
{
	if (!*left)
		return;
	folding_free(&(*left)->folding);
	folded_release(&(*left)->folded);
	free(*left);
	*left = NULL;
}

/* 0: it has none. */
static int read_newest(struct store *store, int64_t recorder, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_NEWEST_TICK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, recorder);
	r = query_step(&q, err);
	*ret = r > 0 ? query_read_i64(&q) : 0;
	return r < 0 ? r : 0;
}

/* 0: there is nothing to fold. */
static int begin(struct store *store, int64_t recorder, bool is_own, struct left_fold **ret,
		 struct err *err)
{
	CLEANUP(left_fold_free) struct left_fold *left = calloc(1, sizeof(*left));
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = left ? txn_begin(store, STATEMENT_BEGIN_READ, &txn, err)
		     : store_no_memory(store, err);

	if (r < 0)
		return r;
	left->recorder = recorder;
	left->is_own = is_own;
	left->folded = (struct folded)FOLDED_INIT;
	r = read_newest(store, recorder, &left->newest_id, err);
	if (r == 0)
		r = folding_begin(store, recorder, 0, left->newest_id, &left->folding,
				  &left->folded, err);
	if (r > 0)
		*ret = TAKE_PTR(left);
	return r;
}

/* Whoever else has written since may have built on what would be gone. */
static int keep(struct store *store, const struct left_fold *left, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t newest_id = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0 && !left->is_own)
		r = read_newest(store, left->recorder, &newest_id, err);
	if (r == 0 && !left->is_own && newest_id != left->newest_id)
		r = -EAGAIN;
	if (r == 0)
		r = fold_keep(store, left->recorder, &left->folded, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* 1: time is up. */
static int work_out(struct left_fold *left, uint64_t until_boot_ns, struct err *err)
{
	int r = left->is_worked_out
			? 0
			: folding_go_on(left->folding, until_boot_ns, &left->folded, err);

	left->is_worked_out = r == 0;
	return r;
}

/* 1: there is more to do, or what was done came to nothing. 0: there is nothing to fold. */
static int go_on(struct store *store, struct left_fold **left, uint64_t until_boot_ns,
		 struct err *err)
{
	int r = work_out(*left, until_boot_ns, err);

	if (r == 0)
		r = keep(store, *left, err);
	else if (r > 0)
		return 1;
	if (r == -EBUSY) /* what is worked out is good for another try */
		return r;
	left_fold_free(left);
	return r == 0 || r == -EAGAIN ? 1 : r;
}

int fold_left_behind(struct store *store, int64_t recorder, uint64_t until_boot_ns, struct err *err)
{
	int r;

	if (store->left && store->left->recorder != recorder)
		left_fold_free(&store->left);
	r = store->left ? 1 : begin(store, recorder, false, &store->left, err);
	return r <= 0 ? r : go_on(store, &store->left, until_boot_ns, err);
}

int fold_own(struct store *store, int64_t recorder, uint64_t until_boot_ns, struct err *err)
{
	int r = 1;

	if (!store->own) {
		store->writing.before_id = 0; /* what comes next needs none of these */
		r = begin(store, recorder, true, &store->own, err);
	}
	if (r > 0)
		r = go_on(store, &store->own, until_boot_ns, err);
	return r < 0 ? r : store->own != NULL;
}
