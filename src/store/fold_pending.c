/*
 * fold_pending - ticks that are not folded yet, read as if they were.
 */
#include "base/macros.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/query.h"

int fold_leave_out(struct store *store, int64_t recorder, const struct folded *f, int64_t since_ns,
		   int64_t until_ns, struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < f->n_lost; i++) {
		const struct fold_lost *lost = &f->lost[i];
		const struct damage d = { DAMAGED_TICKS, lost->id,     recorder, 1,
					  lost->wall_ns, lost->wall_ns };

		if (lost->wall_ns >= since_ns && lost->wall_ns <= until_ns)
			r = damage_leave_out(store, &d, err);
	}
	return r;
}

static int give_parts(const struct folded *f, int64_t attempt_id, enum tick_list list,
		      fold_part_fn *fn, void *ctx, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i];

		if (part->list == list && (list != LIST_POINTS || part->key == attempt_id))
			r = fn(ctx, f->bytes.data + part->at, part->len, part->key, err);
	}
	return r;
}

static int each_of_recorder(struct store *store, int64_t recorder, int64_t attempt_id,
			    enum tick_list list, fold_part_fn *fn, void *ctx, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int64_t after_id = 0;
	int r;

	while ((r = fold_read_pending(store, recorder, after_id, INT64_MAX, &f, err)) > 0) {
		after_id = f.id;
		r = fold_leave_out(store, recorder, &f, INT64_MIN, INT64_MAX, err);
		if (r == 0)
			r = give_parts(&f, attempt_id, list, fn, ctx, err);
		if (r < 0)
			return r;
	}
	return r;
}

int fold_each_pending(struct store *store, int64_t attempt_id, enum tick_list list,
		      fold_part_fn *fn, void *ctx, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_LIST_RECORDERS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = each_of_recorder(store, query_read_i64(&q), attempt_id, list, fn, ctx, err);
	return r;
}
