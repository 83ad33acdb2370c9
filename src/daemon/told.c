#include "daemon/told.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/unknown.h"

struct reading {
	const struct event_filter *filter;
	struct told_list *list;
};

void told_list_release(struct told_list *list)
{
	free(list->items);
	arena_release(&list->arena);
	*list = (struct told_list){ 0 };
}

static int add(struct reading *in, const struct told *told)
{
	struct told_list *list = in->list;
	uint64_t until = in->filter->until_wall_ns;

	if (!u64_known(told->wall_ns) || told->wall_ns < in->filter->since_wall_ns ||
	    (until != 0 && told->wall_ns > until))
		return 0;
	if (list->n == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 32;
		struct told *grown = reallocarray(list->items, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		list->items = grown;
		list->cap = cap;
	}
	list->items[list->n++] = *told;
	return 0;
}

/*
 * Of a record that has only how it was last: while it lasts that was written when it began or got
 * worse. When it is over its worst may be later than that: then nobody can tell.
 */
static bool has_escalated(const struct episode *e)
{
	return !u64_known(e->ended_wall_ns) && u64_known(e->peak_wall_ns) &&
	       e->peak_wall_ns > e->began_wall_ns;
}

static int add_change(struct reading *in, struct told told, enum episode_change change,
		      uint64_t wall_ns)
{
	told.change = change;
	told.wall_ns = wall_ns;
	return add(in, &told);
}

static int add_by_row(struct reading *in, const struct told *told)
{
	const struct episode *e = told->episode;
	int r = add_change(in, *told, EPISODE_BEGAN, e->began_wall_ns);

	if (r == 0 && has_escalated(e))
		r = add_change(in, *told, EPISODE_ESCALATED, e->peak_wall_ns);
	return r;
}

/* Whether the end is among them. */
static int add_noted(struct reading *in, const struct told *told, const struct anomaly_row *row)
{
	struct episode_moment *moments = arena_memdup(&in->list->arena, row->changes,
						      row->n_changes * sizeof(*row->changes));
	bool has_end = false;
	int r = moments ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < row->n_changes; i++) {
		struct told noted = *told;

		noted.moment = &moments[i];
		has_end |= moments[i].change == EPISODE_CLEARED;
		r = add_change(in, noted, moments[i].change, moments[i].wall_ns);
	}
	return r < 0 ? r : has_end;
}

static int on_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct reading *in = ctx;
	struct episode *e = arena_alloc(&in->list->arena, sizeof(*e));
	struct told told = { .attempt_num = row->attempt_num, .episode = e };
	int r;

	if (!e || episode_keep(e, &row->episode, &in->list->arena) < 0)
		return -ENOMEM;
	r = row->n_changes > 0 ? add_noted(in, &told, row) : add_by_row(in, &told);
	return r != 0 ? (r < 0 ? r : 0) : add_change(in, told, EPISODE_CLEARED, e->ended_wall_ns);
}

void told_episode(const struct told *told, struct episode *ret)
{
	episode_copy(ret, told->episode);
	if (told->moment)
		episode_recall(ret, told->moment);
}

static int compare_told(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	if (x->wall_ns != y->wall_ns)
		return x->wall_ns < y->wall_ns ? -1 : 1;
	return (int)x->change - (int)y->change;
}

/* So long after an end it may be told: what flaps has to be clear for as long. */
#define END_TOLD_LATE_NS UINT64_C(3600000000000)

int told_list_read(struct store *store, const struct event_filter *filter, struct told_list *ret,
		   struct err *err)
{
	const uint64_t since = filter->since_wall_ns;
	const struct anomaly_filter anomalies = {
		.job_id = filter->job_id,
		.until_wall_ns = filter->until_wall_ns,
		.lasting_wall_ns = since > END_TOLD_LATE_NS ? since - END_TOLD_LATE_NS : since,
		.with_changes = true
	};
	struct reading in = { filter, ret };
	int r = store_read_anomalies(store, &anomalies, on_anomaly, &in, err);

	if (r == -ENOMEM)
		return err_set(err, r, "out of memory");
	if (r == 0 && ret->n > 1)
		qsort(ret->items, ret->n, sizeof(*ret->items), compare_told);
	return r;
}

const struct told *told_take(struct told_list *list, uint64_t until_wall_ns)
{
	if (list->next == list->n || list->items[list->next].wall_ns > until_wall_ns)
		return NULL;
	return &list->items[list->next++];
}
