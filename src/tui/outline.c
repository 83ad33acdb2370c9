#include "tui/outline.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
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

/* ---- nodes ---- */

static int add_node(struct outline *o, const struct node *node)
{
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 256;
		struct node *nodes = reallocarray(o->nodes, cap, sizeof(*nodes));

		if (!nodes)
			return -ENOMEM;
		o->nodes = nodes;
		o->cap = cap;
	}
	if (map_put(&o->by_id, node->id, o->n) < 0)
		return -ENOMEM;
	o->nodes[o->n++] = *node;
	return (int)o->n - 1;
}

uint64_t outline_key_of_sheet(const char *job_id, int attempt_num, int num)
{
	return track_key_below(track_key_of_attempt(job_id, attempt_num), TRACK_SHEET, num);
}

static struct node node_of(enum node_kind kind, uint64_t id, int parent, const char *job_id)
{
	return (struct node){
		.kind = kind,
		.id = id,
		.parent = parent,
		.job_id = job_id,
		.sheet_num = SHEET_NONE,
		.rank = RANK_NONE,
		.next_attempt = -1,
		.cpu_percent = F64_UNKNOWN,
		.io_rate = F64_UNKNOWN,
		.age_seconds = F64_UNKNOWN,
		.rss_bytes = U64_UNKNOWN,
		.gpu_bytes = U64_UNKNOWN,
	};
}

static int find_node(const struct outline *o, uint64_t id)
{
	uint64_t at;

	return map_get(&o->by_id, id, &at) ? (int)at : -1;
}

static int find_job(const struct outline *o, uint64_t job)
{
	uint64_t at;

	return map_get(&o->by_job, job, &at) ? (int)at : -1;
}

/* In front of the other attempts of its job. */
static int add_job(struct outline *o, struct node *node, uint64_t job)
{
	int at;

	node->next_attempt = find_job(o, job);
	node->has_twin = node->next_attempt >= 0;
	if (node->has_twin)
		o->nodes[node->next_attempt].has_twin = true;
	at = add_node(o, node);
	return at >= 0 && map_put(&o->by_job, job, (uint64_t)at) < 0 ? -ENOMEM : at;
}

/* Of an attempt that nobody can tell any is taken: mostly there is but one. */
static int find_or_add_job(struct outline *o, const char *job_id, int64_t attempt_id,
			   const struct job_progress *progress)
{
	uint64_t job = track_key_of_job(job_id ? job_id : "");
	uint64_t id = track_key_of_attempt(job_id ? job_id : "", attempt_id);
	struct node node = node_of(NODE_JOB, id, -1, job_id);
	int at = attempt_id ? find_node(o, id) : find_job(o, job);

	if (at >= 0)
		return at;
	node.progress = progress;
	node.attempt_id = attempt_id;
	node.attempt_num = progress ? progress->attempt_num : 0;
	node.uid = progress ? progress->uid : U64_UNKNOWN;
	return add_job(o, &node, job);
}

static void take_attempt(struct node *node, const struct node *of)
{
	node->attempt_id = of->attempt_id;
	node->attempt_num = of->attempt_num;
	node->uid = of->uid;
}

static int find_or_add_below(struct outline *o, int parent, enum node_kind kind, int number)
{
	uint64_t id = track_key_below(o->nodes[parent].id,
				      kind == NODE_SHEET ? TRACK_SHEET : TRACK_RANK, number);
	struct node node = node_of(kind, id, parent, o->nodes[parent].job_id);
	int at = find_node(o, id);

	if (at >= 0)
		return at;
	node.sheet_num = kind == NODE_SHEET ? number : o->nodes[parent].sheet_num;
	node.rank = kind == NODE_RANK ? number : RANK_NONE;
	take_attempt(&node, &o->nodes[parent]);
	return add_node(o, &node);
}

/* Job, sheet and rank: what a process hangs on if it has no parent among them. */
static int find_place(struct outline *o, const struct proc_sample *p)
{
	int at = find_or_add_job(o, p->job_id, p->job_id ? p->attempt_id : 0, NULL);

	if (at >= 0 && p->sheet_num != SHEET_NONE)
		at = find_or_add_below(o, at, NODE_SHEET, p->sheet_num);
	if (at >= 0 && p->rank != RANK_NONE)
		at = find_or_add_below(o, at, NODE_RANK, p->rank);
	return at;
}

static int add_process(struct outline *o, const struct proc_sample *p, const struct tracks *tracks)
{
	uint64_t id = track_key_of_process(&p->key);
	const struct track *track = tracks_find(tracks, id);
	struct node node = node_of(NODE_PROCESS, id, find_place(o, p), p->job_id);

	if (node.parent < 0)
		return -ENOMEM;
	node.p = p;
	take_attempt(&node, &o->nodes[node.parent]);
	node.sheet_num = p->sheet_num;
	node.rank = p->rank;
	node.n_processes = 1;
	node.cpu_percent = p->cpu_percent;
	node.rss_bytes = p->rss_bytes;
	node.gpu_bytes = p->gpu_memory_bytes;
	node.age_seconds = p->age_seconds;
	node.io_rate = track ? track->io_rate : F64_UNKNOWN;
	return add_node(o, &node);
}

static bool is_wanted(const char *job_id, const struct outline_options *options)
{
	return !options->job_id || (job_id && strcmp(job_id, options->job_id) == 0);
}

/* Behind those that run: one that has begun meanwhile is there already. */
static int add_queued(struct outline *o, const struct outline_options *options)
{
	for (size_t i = 0; i < options->n_queued; i++) {
		const struct queued_job *job = &options->queued[i];
		uint64_t key = track_key_of_job(job->job_id);
		struct node node = node_of(NODE_JOB, key, -1, job->job_id);

		node.queued = job;
		node.uid = job->uid;
		if (is_wanted(job->job_id, options) && find_job(o, key) < 0 &&
		    add_job(o, &node, key) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_all(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
		   const struct outline_options *options)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->n_progress; i++)
		if (is_wanted(s->progress[i].job_id, options))
			r = find_or_add_job(o, s->progress[i].job_id, s->progress[i].attempt_id,
					    &s->progress[i]);
	for (size_t i = 0; r >= 0 && i < s->n_processes; i++)
		if (is_wanted(s->processes[i].job_id, options))
			r = add_process(o, &s->processes[i], tracks);
	return r < 0 ? r : add_queued(o, options);
}

/* ---- sums: children come behind their containers, so they are added from the end ---- */

static double add_f64(double a, double b)
{
	return isnan(b) ? a : isnan(a) ? b : a + b;
}

static void add_up(struct outline *o)
{
	for (size_t i = o->n; i-- > 0;) {
		const struct node *node = &o->nodes[i];
		struct node *parent = node->parent < 0 ? NULL : &o->nodes[node->parent];

		if (!parent)
			continue;
		parent->has_children = true;
		parent->n_processes += node->n_processes;
		parent->cpu_percent = add_f64(parent->cpu_percent, node->cpu_percent);
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

static bool contains(const char *text, const char *part)
{
	return text && strcasestr(text, part);
}

bool node_matches(const struct node *node, const char *text)
{
	char pid[16];

	if (contains(node->job_id, text) || contains(node->sheet_name, text))
		return true;
	if (node->kind != NODE_PROCESS)
		return false;
	snprintf(pid, sizeof(pid), "%d", (int)node->p->key.pid);
	return contains(node->p->command, text) || contains(node->p->comm, text) ||
	       strncmp(pid, text, strlen(text)) == 0;
}

static void mark_shown(struct outline *o, const char *filter)
{
	for (size_t i = 0; i < o->n; i++) {
		o->nodes[i].is_match = !filter[0] || node_matches(&o->nodes[i], filter);
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
	map_clear(&o->by_id);
	map_clear(&o->by_job);
	r = add_all(o, s, tracks, options);
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

		if (node_matches(node, text))
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
	return is_there(o, find_node(o, id));
}

bool outline_flag(struct outline *o, uint64_t id)
{
	int from = find_node(o, id);

	for (int at = from; is_there(o, at); at = o->nodes[at].parent)
		o->nodes[at].is_flagged = true;
	return is_there(o, from);
}

void outline_flag_job(struct outline *o, uint64_t job)
{
	for (int at = find_job(o, job); is_there(o, at); at = o->nodes[at].next_attempt)
		o->nodes[at].is_flagged = true;
}

bool outline_is_below(const struct outline *o, uint64_t id, uint64_t ancestor)
{
	int at = find_node(o, id);

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
