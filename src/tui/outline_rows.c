#include "tui/outline_rows.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

/* ---- who hangs below whom ---- */

/* A process of the same job whose child it is; -1. */
static int find_parent(const struct outline *o, const struct map *by_pid, const struct node *node)
{
	uint64_t at;

	if (!map_get(by_pid, (uint64_t)node->p->ppid, &at) || o->nodes[at].parent != node->parent)
		return -1;
	return (int)at;
}

/*
 * After the sums, which are of containers alone. A parent began before its child, or
 * with it: so nobody is their own ancestor, whatever the numbers say.
 */
int outline_hang_below_parents(struct outline *o)
{
	struct map by_pid = MAP_INIT;
	CLEANUP(free_ptr) int *parents = reallocarray(NULL, o->n + 1, sizeof(*parents));
	int r = parents ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < o->n; i++)
		if (o->nodes[i].kind == NODE_PROCESS)
			r = map_put(&by_pid, (uint64_t)o->nodes[i].p->key.pid, i);
	for (size_t i = 0; r == 0 && i < o->n; i++) {
		const struct node *node = &o->nodes[i];
		int parent = node->kind == NODE_PROCESS ? find_parent(o, &by_pid, node) : -1;

		parents[i] = node->parent;
		if (parent >= 0 && o->nodes[parent].p->key.pid != node->p->key.pid &&
		    o->nodes[parent].p->key.start_ticks <= node->p->key.start_ticks &&
		    (o->nodes[parent].p->key.start_ticks < node->p->key.start_ticks ||
		     o->nodes[parent].p->key.pid < node->p->key.pid))
			parents[i] = parent;
	}
	for (size_t i = 0; r == 0 && i < o->n; i++) {
		o->nodes[i].parent = parents[i];
		if (parents[i] >= 0)
			o->nodes[parents[i]].has_children = true;
	}
	map_release(&by_pid);
	return r;
}

/* ---- order ---- */

static int by_f64(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b); /* unknown is last */
	return (a < b) - (a > b);
}

static int by_u64(uint64_t a, uint64_t b)
{
	if (!u64_known(a) || !u64_known(b))
		return !u64_known(a) - !u64_known(b);
	return (a < b) - (a > b);
}

static const char *name_of(const struct node *node)
{
	if (node->kind != NODE_PROCESS)
		return node->job_id ? node->job_id : "~"; /* processes of no job are last */
	return node->p->command ? node->p->command : node->p->comm;
}

static int compare(const struct node *a, const struct node *b, enum sort sort)
{
	switch (sort) {
	case SORT_CPU:
		return by_f64(a->cpu_percent, b->cpu_percent);
	case SORT_MEMORY:
		return by_u64(a->rss_bytes, b->rss_bytes);
	case SORT_IO:
		return by_f64(a->io_rate, b->io_rate);
	case SORT_AGE:
		return by_f64(a->age_seconds, b->age_seconds);
	default:
		return strcmp(name_of(a), name_of(b));
	}
}

/* Of those that are alike: processes by their number. */
static int by_identity(const struct node *a, const struct node *b)
{
	if (a->p && b->p && a->p->key.pid != b->p->key.pid)
		return a->p->key.pid < b->p->key.pid ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

struct order {
	const struct outline *o;
	enum sort sort;
};

/* Siblings together; sheets and ranks by their number, all else as asked for. */
static int compare_siblings(const void *x, const void *y, void *ctx)
{
	const struct order *order = ctx;
	const struct node *a = &order->o->nodes[*(const int *)x];
	const struct node *b = &order->o->nodes[*(const int *)y];
	int r;

	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind == NODE_SHEET)
		return a->sheet_num - b->sheet_num;
	if (a->kind == NODE_RANK)
		return a->rank - b->rank;
	if (!a->job_id != !b->job_id)
		return a->job_id ? -1 : 1;
	r = compare(a, b, order->sort);
	return r ? r : by_identity(a, b);
}

/* ---- rows ---- */

static int reserve(struct outline *o)
{
	int **const lists[] = { &o->rows, &o->order, &o->walk };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		int *list = reallocarray(*lists[i], o->n + 1, sizeof(*list));

		if (!list)
			return -ENOMEM;
		*lists[i] = list;
	}
	return 0;
}

/* Where in order[] each stands, and where its children begin: they stand together. */
struct places {
	int *own;   /* of each node */
	int *first; /* of each but for one: of its children; that of the roots is the first */
};

static void places_release(struct places *p)
{
	free(p->own);
	free(p->first);
}

static int find_places(const struct outline *o, struct places *p)
{
	p->own = reallocarray(NULL, o->n + 1, sizeof(*p->own));
	p->first = reallocarray(NULL, o->n + 1, sizeof(*p->first));
	if (!p->own || !p->first)
		return -ENOMEM;
	for (size_t i = 0; i <= o->n; i++)
		p->first[i] = -1;
	for (size_t i = o->n; i-- > 0;) {
		p->own[o->order[i]] = (int)i;
		p->first[o->nodes[o->order[i]].parent + 1] = (int)i;
	}
	return 0;
}

/* What hangs deeper is shown at this level: a name wants room. */
#define MAX_DEPTH 64

/* Down to the children, on to the next, and up again where there is none: however deep it is, no
 * frame of the stack is taken. */
static void add_rows(struct outline *o, const struct places *p)
{
	int parent = -1, depth = 0, i = p->first[0];
	int folded_at = INT_MAX; /* the depth of what is folded: below it nothing is a row */

	for (;;) {
		struct node *node = i >= 0 && i < (int)o->n ? &o->nodes[o->order[i]] : NULL;

		if (!node || node->parent != parent) {
			if (parent < 0)
				return;
			i = p->own[parent] + 1;
			parent = o->nodes[parent].parent;
			depth--;
			continue;
		}
		if (depth <= folded_at)
			folded_at = node->is_folded ? depth : INT_MAX;
		if (node->is_shown) {
			node->depth = depth < MAX_DEPTH ? depth : MAX_DEPTH;
			o->walk[o->n_walk++] = o->order[i];
			if (depth <= folded_at)
				o->rows[o->n_rows++] = o->order[i];
		}
		if (!node->is_shown || !node->has_children) {
			i++;
			continue;
		}
		parent = o->order[i];
		i = p->first[parent + 1];
		depth++;
	}
}

static int compare_processes(const void *x, const void *y, void *ctx)
{
	const struct order *order = ctx;
	const struct node *a = &order->o->nodes[*(const int *)x];
	const struct node *b = &order->o->nodes[*(const int *)y];
	int r = compare(a, b, order->sort);

	return r ? r : by_identity(a, b);
}

/* Without what they belong to. */
int outline_list_processes(struct outline *o, const struct outline_options *options)
{
	struct order order = { o, options->sort };

	if (reserve(o) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < o->n; i++)
		if (o->nodes[i].kind == NODE_PROCESS && o->nodes[i].is_shown)
			o->rows[o->n_rows++] = (int)i;
	qsort_r(o->rows, o->n_rows, sizeof(*o->rows), compare_processes, &order);
	memcpy(o->walk, o->rows, o->n_rows * sizeof(*o->rows));
	o->n_walk = o->n_rows;
	return 0;
}

int outline_list_tree(struct outline *o, const struct outline_options *options)
{
	CLEANUP(places_release) struct places places = { NULL, NULL };
	struct order order = { o, options->sort };

	if (reserve(o) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < o->n; i++) {
		o->order[i] = (int)i;
		o->nodes[i].is_folded =
			o->nodes[i].is_match && map_get(options->folded, o->nodes[i].id, NULL);
	}
	qsort_r(o->order, o->n, sizeof(*o->order), compare_siblings, &order);
	if (find_places(o, &places) < 0)
		return -ENOMEM;
	add_rows(o, &places);
	return 0;
}
