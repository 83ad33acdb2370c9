#include <errno.h>
#include <stdio.h>

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

static int add_chunk(struct query *q, const struct folded *f, const struct fold_part *part,
		     struct err *err)
{
	int64_t id;

	if (part->key > CHUNK_PROCESS_MAX)
		return store_damaged(q->store, "tick", err);
	id = f->id << CHUNK_BITS | part->key;
	query_bind_i64(q, id);
	query_bind_blob(q, id, f->bytes.data + part->at, part->len);
	return query_run(q, err);
}

static int add_points(struct query *q, const struct folded *f, const struct fold_part *part,
		      struct err *err)
{
	query_bind_i64(q, part->key);
	query_bind_i64(q, f->id);
	query_bind_i64(q, f->last_ns);
	query_bind_blob(q, points_key(part->key, f->id), f->bytes.data + part->at, part->len);
	return query_run(q, err);
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

		r = part->list == LIST_SAMPLES ? add_chunk(&chunk, f, part, err)
					       : add_points(&points, f, part, err);
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
