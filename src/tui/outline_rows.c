/*
 * The rows of an outline: which nodes pass the filter, and in which order.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/outline.h"

/* ---- which nodes a text that was typed is about ---- */

static bool contains(const char *text, const char *part)
{
	return text && strcasestr(text, part);
}

/* A number alone is that of a process. */
static bool is_number(const char *text)
{
	return text[strspn(text, "0123456789")] == '\0';
}

static bool matches_sheet(const struct node *node, const char *text)
{
	char name[256]; /* one that is kept is shorter */

	if (node->sheet_num == SHEET_NONE)
		return false;
	snprintf(name, sizeof(name), "sheet %d %s", node->sheet_num,
		 node->sheet_name ? node->sheet_name : "");
	return contains(is_number(text) ? node->sheet_name : name, text);
}

static bool matches_rank(const struct node *node, const char *text)
{
	char name[32];

	snprintf(name, sizeof(name), "rank %d", node->rank);
	return node->rank != RANK_NONE && !is_number(text) && contains(name, text);
}

bool outline_shows(const struct outline *o, const struct node *node, const char *text)
{
	char pid[16];

	switch (node->kind) {
	case NODE_JOB:
		return contains(node->job_id ? node->job_id : "no job", text);
	case NODE_SHEET:
		return matches_sheet(node, text);
	case NODE_RANK:
		return matches_rank(node, text);
	default:
		snprintf(pid, sizeof(pid), "%d", (int)node->p->key.pid);
		return contains(node->p->command, text) || contains(node->p->comm, text) ||
		       strncmp(pid, text, strlen(text)) == 0 ||
		       (o->is_list && contains(node->job_id, text));
	}
}

/* Of the filter that of its job, sheet or rank will do too. What a match is below is shown. */
static void mark_shown(struct outline *o, const char *filter)
{
	for (size_t i = 0; i < o->n; i++) {
		struct node *node = &o->nodes[i];

		node->is_match = !filter[0] || outline_shows(o, node, filter) ||
				 contains(node->job_id, filter) || matches_sheet(node, filter) ||
				 matches_rank(node, filter);
		if (!node->is_match)
			continue;
		for (int at = (int)i; at >= 0 && !o->nodes[at].is_shown; at = o->nodes[at].parent)
			o->nodes[at].is_shown = true;
	}
}

/* ---- processes below their parents ---- */

/* Whether it can have started the other: it began before it, or with it. So no process is its own
 * ancestor, whatever the numbers say. */
static bool is_older(const struct proc_key *a, const struct proc_key *b)
{
	return a->start_ticks < b->start_ticks ||
	       (a->start_ticks == b->start_ticks && a->pid < b->pid);
}

/* After the sums, which are of containers alone: processes below those of the same job, sheet and
 * rank that started them. */
static int hang_below_parents(struct outline *o)
{
	struct map by_pid = MAP_INIT;
	CLEANUP(free_ptr) int *parents = reallocarray(NULL, o->n + 1, sizeof(*parents));
	int r = parents ? 0 : -ENOMEM;
	uint64_t at;

	for (size_t i = 0; r == 0 && i < o->n; i++)
		if (o->nodes[i].kind == NODE_PROCESS)
			r = map_put(&by_pid, (uint64_t)o->nodes[i].p->key.pid, i);
	for (size_t i = 0; r == 0 && i < o->n; i++) {
		const struct node *node = &o->nodes[i];

		parents[i] = node->parent;
		if (node->kind == NODE_PROCESS && map_get(&by_pid, (uint64_t)node->p->ppid, &at) &&
		    o->nodes[at].parent == node->parent &&
		    is_older(&o->nodes[at].p->key, &node->p->key))
			parents[i] = (int)at;
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

/* What hangs deeper is shown at this level: a name wants room. */
#define MAX_DEPTH 64

/*
 * Down to the children, on to the next, and up again where there is none: however deep it is, no
 * frame of the stack is taken. own: where in order[] each node stands. first[i + 1]: where the
 * children of node i begin, which stand together; first[0]: the roots.
 */
static void add_rows(struct outline *o, const int *own, const int *first)
{
	int parent = -1, depth = 0, i = first[0];
	int folded_at = INT_MAX; /* the depth of what is folded: below it nothing is a row */

	for (;;) {
		struct node *node = i >= 0 && i < (int)o->n ? &o->nodes[o->order[i]] : NULL;

		if (!node || node->parent != parent) {
			if (parent < 0)
				return;
			i = own[parent] + 1;
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
		i = first[parent + 1];
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

/* What is folded has no rows below it, and is walked through all the same. */
static int list_tree(struct outline *o, const struct outline_options *options)
{
	CLEANUP(free_ptr) int *own = reallocarray(NULL, o->n + 1, sizeof(*own));
	CLEANUP(free_ptr) int *first = reallocarray(NULL, o->n + 1, sizeof(*first));
	struct order order = { o, options->sort };

	if (!own || !first)
		return -ENOMEM;
	for (size_t i = 0; i < o->n; i++) {
		o->order[i] = (int)i;
		o->nodes[i].is_folded =
			o->nodes[i].is_match && map_get(options->folded, o->nodes[i].id, NULL);
	}
	qsort_r(o->order, o->n, sizeof(*o->order), compare_siblings, &order);
	for (size_t i = 0; i <= o->n; i++)
		first[i] = -1;
	for (size_t i = o->n; i-- > 0;) {
		own[o->order[i]] = (int)i;
		first[o->nodes[o->order[i]].parent + 1] = (int)i;
	}
	add_rows(o, own, first);
	return 0;
}

int outline_make_rows(struct outline *o, const struct outline_options *options)
{
	int **const lists[] = { &o->rows, &o->order, &o->walk };
	struct order order = { o, options->sort };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		int *list = reallocarray(*lists[i], o->n + 1, sizeof(*list));

		if (!list)
			return -ENOMEM;
		*lists[i] = list;
	}
	if (options->is_tree && hang_below_parents(o) < 0)
		return -ENOMEM;
	mark_shown(o, options->filter);
	if (options->is_tree)
		return list_tree(o, options);
	for (size_t i = 0; i < o->n; i++) /* processes, without what they belong to */
		if (o->nodes[i].kind == NODE_PROCESS && o->nodes[i].is_shown)
			o->rows[o->n_rows++] = (int)i;
	qsort_r(o->rows, o->n_rows, sizeof(*o->rows), compare_processes, &order);
	memcpy(o->walk, o->rows, o->n_rows * sizeof(*o->rows));
	o->n_walk = o->n_rows;
	return 0;
}
