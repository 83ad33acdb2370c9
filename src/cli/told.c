#include "cli/told.h"

#include <errno.h>
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
 * While it lasts it is only written when it begins and when it gets worse, with the worst so far.
 * When it is over its worst may be later than that: then nobody can tell.
 */
static bool has_escalated(const struct episode *e)
{
	return !u64_known(e->ended_wall_ns) && u64_known(e->peak_wall_ns) &&
	       e->peak_wall_ns > e->began_wall_ns;
}

static int on_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct reading *in = ctx;
	struct episode *e = arena_alloc(&in->list->arena, sizeof(*e));
	struct told told = { .change = EPISODE_BEGAN, .attempt_num = row->attempt_num };
	int r;

	if (!e || episode_keep(e, &row->episode, &in->list->arena) < 0)
		return -ENOMEM;
	told.episode = e;
	told.wall_ns = e->began_wall_ns;
	r = add(in, &told);
	if (r == 0 && has_escalated(e)) {
		told.change = EPISODE_ESCALATED;
		told.wall_ns = e->peak_wall_ns;
		r = add(in, &told);
	}
	if (r < 0)
		return r;
	told.change = EPISODE_CLEARED;
	told.wall_ns = e->ended_wall_ns;
	return add(in, &told);
}

static int compare_told(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	if (x->wall_ns != y->wall_ns)
		return x->wall_ns < y->wall_ns ? -1 : 1;
	return (int)x->change - (int)y->change;
}

int told_list_read(struct store *store, const struct event_filter *filter, struct told_list *ret,
		   struct err *err)
{
	const struct anomaly_filter anomalies = { .job_id = filter->job_id,
						  .until_wall_ns = filter->until_wall_ns,
						  .lasting_wall_ns = filter->since_wall_ns };
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
