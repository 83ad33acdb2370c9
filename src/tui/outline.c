#include "tui/outline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/outline_nodes.h"
#include "tui/outline_rows.h"

static const char *const sort_names[SORTS] = {
	[SORT_CPU] = "CPU", [SORT_MEMORY] = "memory", [SORT_IO] = "I/O",
	[SORT_AGE] = "age", [SORT_NAME] = "name",
};

const char *sort_name(enum sort sort)
{
	return sort_names[sort];
}

void outline_release(struct outline *o)
{
	free(o->nodes);
	free(o->rows);
	free(o->order);
	free(o->walk);
	map_release(&o->by_id);
	map_release(&o->by_job);
	*o = (struct outline)OUTLINE_INIT;
}

uint64_t outline_key_of_sheet(const char *job_id, int attempt_num, int num)
{
	return track_key_below(track_key_of_attempt(job_id, attempt_num), TRACK_SHEET, num);
}

/* ---- sums: children come behind their containers, so they are added from the end ---- */

static double add_f64(double a, double b)
{
	return isnan(b) ? a : isnan(a) ? b : a + b;
}

static double summed_cpu(const struct node *node)
{
	return node->kind == NODE_PROCESS ? node->cpu_with_ended : node->cpu_percent;
}

static void add_up(struct outline *o)
{
	for (size_t i = o->n; i-- > 0;) {
		struct node *node = &o->nodes[i];
		struct node *parent = node->parent < 0 ? NULL : &o->nodes[node->parent];

		if (node->has_hidden_io) /* the rest of a sum is not the sum */
			node->io_rate = F64_UNKNOWN;
		if (!parent)
			continue;
		parent->has_children = true;
		parent->n_processes += node->n_processes;
		parent->cpu_percent = add_f64(parent->cpu_percent, summed_cpu(node));
		parent->has_hidden_io = parent->has_hidden_io || node->has_hidden_io;
		parent->io_rate = add_f64(parent->io_rate, node->io_rate);
		parent->rss_bytes = u64_add_known(parent->rss_bytes, node->rss_bytes);
		parent->gpu_bytes = u64_add_known(parent->gpu_bytes, node->gpu_bytes);
		parent->age_seconds = fmax(parent->age_seconds, node->age_seconds);
	}
}

/* Under what it is told of: a job or a sheet. */
static uint64_t told_key(const struct node *node)
{
	return node->kind == NODE_JOB
		       ? track_key_of_attempt(node->job_id, node->attempt_num)
		       : outline_key_of_sheet(node->job_id, node->attempt_num, node->sheet_num);
}

/* Those that began it may be over for long: what is known of its start goes before their age. */
static void set_ages(struct outline *o, uint64_t wall_ns, const struct map *starts)
{
	uint64_t started_ns;

	for (size_t i = 0; i < o->n; i++) {
		struct node *node = &o->nodes[i];

		if ((node->kind == NODE_JOB || node->kind == NODE_SHEET) && node->job_id &&
		    map_get(starts, told_key(node), &started_ns) && started_ns <= wall_ns)
			node->age_seconds = (double)(wall_ns - started_ns) / 1e9;
	}
}

static void set_names(struct outline *o, const struct map *names)
{
	for (size_t i = 0; i < o->n && names->len > 0; i++) {
		struct node *node = &o->nodes[i];
		uint64_t name;

		if (node->job_id && node->sheet_num != SHEET_NONE &&
		    map_get(names,
			    outline_key_of_sheet(node->job_id, node->attempt_num, node->sheet_num),
			    &name))
			node->sheet_name = (const char *)(uintptr_t)name;
	}
}

static void set_held(struct outline *o, const struct outline_options *options)
{
	for (size_t i = 0; i < o->n && options->n_held > 0; i++) {
		struct node *node = &o->nodes[i];
		uint64_t key = node->kind == NODE_JOB && node->job_id ? told_key(node) : 0;

		for (size_t k = 0; key && k < options->n_held; k++)
			if (options->held[k].key == key)
				node->why_held = options->held[k].why;
	}
}

void outline_forget_names(struct outline *o)
{
	for (size_t i = 0; i < o->n; i++)
		o->nodes[i].sheet_name = NULL;
}

/* ---- what is shown ---- */

static void mark_shown(struct outline *o, const char *filter)
{
	for (size_t i = 0; i < o->n; i++) {
		o->nodes[i].is_match = !filter[0] || outline_passes(o, &o->nodes[i], filter);
		if (!o->nodes[i].is_match)
			continue;
		for (int at = (int)i; at >= 0 && !o->nodes[at].is_shown; at = o->nodes[at].parent)
			o->nodes[at].is_shown = true;
	}
}

int outline_make(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
		 const struct outline_options *options)
{
	int r;

	o->n = o->n_rows = o->n_walk = 0;
	o->is_list = !options->is_tree;
	map_clear(&o->by_id);
	map_clear(&o->by_job);
	r = outline_add_nodes(o, s, tracks, options);
	if (r < 0)
		return r;
	add_up(o);
	set_ages(o, s->wall_ns, options->starts);
	set_held(o, options);
	if (options->sheet_names)
		set_names(o, options->sheet_names);
	if (options->is_tree && outline_hang_below_parents(o) < 0)
		return -ENOMEM;
	mark_shown(o, options->filter);
	return options->is_tree ? outline_list_tree(o, options)
				: outline_list_processes(o, options);
}

const struct node *outline_row(const struct outline *o, size_t row)
{
	return row < o->n_rows ? &o->nodes[o->rows[row]] : NULL;
}

const struct node *outline_search(const struct outline *o, uint64_t from_id, const char *text)
{
	size_t from = 0;

	while (from < o->n_walk && o->nodes[o->walk[from]].id != from_id)
		from++;
	for (size_t i = 1; i <= o->n_walk; i++) {
		const struct node *node = &o->nodes[o->walk[(from + i) % o->n_walk]];

		if (outline_shows(o, node, text))
			return node;
	}
	return NULL;
}

static bool is_there(const struct outline *o, int at)
{
	return at >= 0 && at < (int)o->n;
}

bool outline_has(const struct outline *o, uint64_t id)
{
	return is_there(o, outline_at(o, id));
}

bool outline_flag(struct outline *o, uint64_t id)
{
	int from = outline_at(o, id);

	for (int at = from; is_there(o, at); at = o->nodes[at].parent)
		o->nodes[at].is_flagged = true;
	return is_there(o, from);
}

/* As far as it is known. */
static bool is_same_user(const struct node *a, const struct node *b)
{
	return !u64_known(a->uid) || !u64_known(b->uid) || a->uid == b->uid;
}

void outline_flag_job(struct outline *o, uint64_t job)
{
	for (int at = outline_first_attempt(o, job); is_there(o, at);
	     at = o->nodes[at].next_attempt)
		o->nodes[at].is_flagged |= !o->nodes[at].queued;
}

bool outline_has_other(const struct outline *o, uint64_t job, int attempt_num)
{
	for (int at = outline_first_attempt(o, job); is_there(o, at);
	     at = o->nodes[at].next_attempt)
		if (o->nodes[at].attempt_num && o->nodes[at].attempt_num != attempt_num)
			return true;
	return false;
}

bool outline_runs_too(const struct outline *o, const struct node *queued)
{
	for (int at = outline_first_attempt(o, track_key_of_job(queued->job_id)); is_there(o, at);
	     at = o->nodes[at].next_attempt)
		if (!o->nodes[at].queued && is_same_user(&o->nodes[at], queued))
			return true;
	return false;
}

uint64_t outline_nearest(const struct outline *o, uint64_t process, uint64_t job)
{
	if (outline_find(o, process) >= 0)
		return process;
	for (int at = outline_first_attempt(o, job); is_there(o, at);
	     at = o->nodes[at].next_attempt)
		if (outline_find(o, o->nodes[at].id) >= 0)
			return o->nodes[at].id;
	return 0;
}

bool outline_is_below(const struct outline *o, uint64_t id, uint64_t ancestor)
{
	int at = outline_at(o, id);

	while (is_there(o, at) && o->nodes[at].id != ancestor)
		at = o->nodes[at].parent;
	return is_there(o, at);
}

void outline_forget_flags(struct outline *o)
{
	for (size_t i = 0; i < o->n; i++)
		o->nodes[i].is_flagged = false;
}

int outline_find(const struct outline *o, uint64_t id)
{
	for (size_t i = 0; i < o->n_rows; i++)
		if (o->nodes[o->rows[i]].id == id)
			return (int)i;
	return -1;
}
