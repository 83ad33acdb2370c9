/* fold_keep - what was folded is written instead of its ticks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/retain.h"

static int add_fold(struct store *store, int64_t recorder, const struct folded *f, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_FOLD, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, f->id);
	query_bind_i64(&q, recorder);
	query_bind_i64(&q, f->first_ns);
	query_bind_i64(&q, f->last_ns);
	query_bind_i64(&q, f->n_ticks);
	query_bind_blob(&q, f->id, f->head.data, f->head.len);
	return query_run(&q, err);
}

static int add_parts(struct store *store, const struct folded *f, struct err *err)
{
	CLEANUP(query_close) struct query chunk = QUERY_INIT;
	CLEANUP(query_close) struct query points = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_CHUNK, &chunk, err);

	if (r == 0)
		r = query_open(store, STATEMENT_ADD_POINTS, &points, err);
	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i];
		const char *data = f->bytes.data + part->at;
		int64_t id = f->id << CHUNK_BITS | part->key;

		if (part->list == LIST_POINTS) {
			query_bind_i64(&points, part->key);
			query_bind_i64(&points, f->id);
			query_bind_i64(&points, f->last_ns);
			query_bind_blob(&points, points_key(part->key, f->id), data, part->len);
			r = query_run(&points, err);
		} else if (part->key <= CHUNK_PROCESS_MAX) {
			query_bind_i64(&chunk, id);
			query_bind_blob(&chunk, id, data, part->len);
			r = query_run(&chunk, err);
		} else {
			r = store_damaged(store, "tick", err);
		}
	}
	return r;
}

/* -EAGAIN: somebody else has folded them by now. */
static int drop_ticks(struct store *store, int64_t recorder, const struct folded *f,
		      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_DROP_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, recorder);
	query_bind_i64(&q, f->id);
	r = query_run(&q, err);
	if (r == 0 && sqlite3_changes(store->db) != (int)(f->n_ticks + f->n_lost))
		r = -EAGAIN;
	return r;
}

/* ---- what could not be read is missed in the report ---- */

static void write_why(const struct folded *f, char *ret, size_t size)
{
	char first[32], last[32];

	clock_format_local((uint64_t)f->lost[0].wall_ns, first, sizeof(first));
	clock_format_local((uint64_t)f->lost[f->n_lost - 1].wall_ns, last, sizeof(last));
	snprintf(ret, size, "%u ticks from %s to %s were damaged in the database, and are left out",
		 f->n_lost, first, last);
}

static int note_for(struct store *store, int64_t attempt, const char *why, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_NOTE_DAMAGE, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt);
	query_bind_text(&q, why);
	return query_run(&q, err);
}

/* Of a daemon's ticks: to whoever it watched in those that could be read. */
static int note_damage(struct store *store, int64_t recorder, const struct folded *f,
		       struct err *err)
{
	char why[160];
	int r = 0;

	if (f->n_lost == 0)
		return 0;
	write_why(f, why, sizeof(why));
	if (recorder > 0)
		return note_for(store, recorder, why, err);
	for (size_t i = 0; r == 0 && f->n_ticks > 0 && i < f->n_parts; i++)
		if (f->parts[i].list == LIST_POINTS)
			r = note_for(store, f->parts[i].key, why, err);
	return r;
}

int fold_keep(struct store *store, int64_t recorder, const struct folded *f, struct err *err)
{
	int r = drop_ticks(store, recorder, f, err);

	if (r == 0 && f->n_ticks > 0)
		r = add_fold(store, recorder, f, err);
	if (r == 0 && f->n_ticks > 0)
		r = add_parts(store, f, err);
	else if (r == 0) /* there is no fold to keep the last id: nobody gets it again */
		r = meta_raise(store, META_LAST_TICK, f->id, err);
	return r < 0 ? r : note_damage(store, recorder, f, err);
}

int fold_all(struct store *store, int64_t recorder, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int r;

	while ((r = fold_read_pending(store, recorder, 0, INT64_MAX, &f, err)) > 0) {
		r = fold_keep(store, recorder, &f, err);
		if (r < 0)
			return r;
	}
	return r;
}

/*
 * ---- in pieces, between the ticks that the caller has to write in time: its own, or those of a
 * recorder that is quiet ----
 */

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

/* 0: there is nothing to fold. */
static int begin_left(struct store *store, int64_t recorder, bool is_own, struct left_fold **ret,
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
	r = query_read_number(store, STATEMENT_NEWEST_TICK, recorder, &left->newest_id, err);
	if (r >= 0)
		r = folding_begin(store, recorder, 0, left->newest_id, &left->folding,
				  &left->folded, err);
	if (r > 0)
		*ret = TAKE_PTR(left);
	return r;
}

/* Whoever else has written since may have built on what would be gone. */
static int keep_left(struct store *store, const struct left_fold *left, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t newest_id = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0 && !left->is_own)
		r = query_read_number(store, STATEMENT_NEWEST_TICK, left->recorder, &newest_id,
				      err);
	if (r >= 0 && !left->is_own && newest_id != left->newest_id)
		r = -EAGAIN;
	if (r >= 0)
		r = fold_keep(store, left->recorder, &left->folded, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* 1: there is more to do, or what was done came to nothing. 0: there is nothing to fold. */
static int go_on(struct store *store, struct left_fold **left, uint64_t until_boot_ns,
		 struct err *err)
{
	int r = 0;

	if (!(*left)->is_worked_out)
		r = folding_go_on((*left)->folding, until_boot_ns, &(*left)->folded, err);
	if (r > 0) /* time is up */
		return 1;
	(*left)->is_worked_out = r == 0;
	if (r == 0)
		r = keep_left(store, *left, err);
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
	r = store->left ? 1 : begin_left(store, recorder, false, &store->left, err);
	return r <= 0 ? r : go_on(store, &store->left, until_boot_ns, err);
}

int fold_own(struct store *store, int64_t recorder, uint64_t until_boot_ns, struct err *err)
{
	int r = 1;

	if (!store->own) {
		store->writing.before_id = 0; /* what comes next needs none of these */
		r = begin_left(store, recorder, true, &store->own, err);
	}
	if (r > 0)
		r = go_on(store, &store->own, until_boot_ns, err);
	return r < 0 ? r : store->own != NULL;
}
