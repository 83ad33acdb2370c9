#include "tui/outline.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"

const char *const sort_names[SORTS] = {
	[SORT_CPU] = "CPU", [SORT_MEMORY] = "memory", [SORT_IO] = "I/O",
	[SORT_AGE] = "age", [SORT_NAME] = "name",
};

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

/* Where the node is; -1: nowhere. */
static int find_node(const struct outline *o, uint64_t id)
{
	uint64_t at;

	return map_get(&o->by_id, id, &at) && at < o->n ? (int)at : -1;
}

/* Of a job (track_key_of_job()); the others are behind it by next_attempt. */
static int first_attempt(const struct outline *o, uint64_t job)
{
	uint64_t at;

	return map_get(&o->by_job, job, &at) && at < o->n ? (int)at : -1;
}

/* ---- nodes: what one hangs on comes before it ---- */

static int add_node(struct outline *o, const struct node *node)
{
	if (ARRAY_RESERVE(o->nodes, o->cap, o->n + 1) < 0 || map_put(&o->by_id, node->id, o->n) < 0)
		return -ENOMEM;
	o->nodes[o->n++] = *node;
	return (int)o->n - 1;
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

/* In front of the other attempts of its job. */
static int add_job(struct outline *o, struct node *node, uint64_t job)
{
	int at;

	node->next_attempt = first_attempt(o, job);
	node->has_twin = node->next_attempt >= 0;
	if (node->has_twin)
		o->nodes[node->next_attempt].has_twin = true;
	at = add_node(o, node);
	return at >= 0 && map_put(&o->by_job, job, (uint64_t)at) < 0 ? -ENOMEM : at;
}

/* For an unknown attempt any is taken: mostly there is but one. */
static int find_or_add_job(struct outline *o, const char *job_id, int64_t attempt_id,
			   const struct job_progress *progress)
{
	uint64_t job = track_key_of_job(job_id ? job_id : "");
	uint64_t id = track_key_of_attempt(job_id ? job_id : "", attempt_id);
	struct node node = node_of(NODE_JOB, id, -1, job_id);
	int at = attempt_id ? find_node(o, id) : first_attempt(o, job);

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

/* Below its job, sheet and rank. */
static int add_process(struct outline *o, const struct proc_sample *p, const struct tracks *tracks)
{
	uint64_t id = track_key_of_process(&p->key);
	const struct track *track = tracks_find(tracks, id);
	int at = find_or_add_job(o, p->job_id, p->job_id ? p->attempt_id : 0, NULL);
	struct node node;

	if (at >= 0 && p->sheet_num != SHEET_NONE)
		at = find_or_add_below(o, at, NODE_SHEET, p->sheet_num);
	if (at >= 0 && p->rank != RANK_NONE)
		at = find_or_add_below(o, at, NODE_RANK, p->rank);
	if (at < 0)
		return -ENOMEM;
	node = node_of(NODE_PROCESS, id, at, p->job_id);
	node.p = p;
	take_attempt(&node, &o->nodes[at]);
	node.sheet_num = p->sheet_num;
	node.rank = p->rank;
	node.n_processes = 1;
	node.cpu_percent = node.cpu_with_ended = p->cpu_percent;
	if (track && f64_known(track->cpu_percent))
		node.cpu_with_ended = track->cpu_percent;
	node.rss_bytes = p->rss_bytes;
	node.gpu_bytes = p->gpu_memory_bytes;
	node.age_seconds = p->age_seconds;
	node.io_rate = track ? track->io_rate : F64_UNKNOWN;
	node.has_hidden_io = !f64_known(node.io_rate);
	return add_node(o, &node);
}

/* One of the same user that the list of jobs did not have yet: it may be the one that waited. */
static bool may_have_begun(const struct outline *o, const struct waiting_job *job,
			   const struct map *starts)
{
	int at = first_attempt(o, track_key_of_job(job->job_id));

	for (; at >= 0; at = o->nodes[at].next_attempt) {
		const struct node *node = &o->nodes[at];
		uint64_t key = track_key_of_attempt(job->job_id, node->attempt_num), ns;
		bool is_other = u64_known(node->uid) && node->uid != job->uid;

		if (!node->queued && !is_other && !map_get(starts, key, &ns))
			return true;
	}
	return false;
}

static bool is_wanted(const char *job_id, const struct outline_options *options)
{
	return !options->job_id || (job_id && strcmp(job_id, options->job_id) == 0);
}

/* All that a snapshot has, and behind it the jobs that wait, beside others of the same name. */
static int add_nodes(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
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
	for (size_t i = 0; r >= 0 && i < options->n_waiting; i++) {
		const struct waiting_job *job = &options->waiting[i];
		/* each user has but one of a name: no attempt has such a number */
		uint64_t id =
			track_key_of_attempt(job->job_id, INT64_MIN + (int64_t)(uint32_t)job->uid);
		struct node node = node_of(NODE_JOB, id, -1, job->job_id);

		node.queued = job;
		node.uid = job->uid;
		if (!job->key && is_wanted(job->job_id, options) && find_node(o, id) < 0 &&
		    !may_have_begun(o, job, options->starts))
			r = add_job(o, &node, track_key_of_job(job->job_id));
	}
	return r < 0 ? r : 0;
}

/* ---- sums: children come behind their containers, so they are added from the end ---- */

/*
 * What is known of jobs and sheets besides the snapshot: since when they run, which goes before the
 * age of their processes (those that began it may be over for long), names, and why they wait.
 */
static void add_knowledge(struct outline *o, uint64_t wall_ns,
			  const struct outline_options *options)
{
	uint64_t started_ns, name;

	for (size_t i = 0; i < o->n; i++) {
		struct node *node = &o->nodes[i];
		uint64_t sheet, own;

		if (!node->job_id)
			continue;
		sheet = outline_key_of_sheet(node->job_id, node->attempt_num, node->sheet_num);
		own = node->kind == NODE_JOB ? track_key_of_attempt(node->job_id, node->attempt_num)
					     : sheet;
		if ((node->kind == NODE_JOB || node->kind == NODE_SHEET) &&
		    map_get(options->starts, own, &started_ns) && started_ns <= wall_ns)
			node->age_seconds = (double)(wall_ns - started_ns) / 1e9;
		for (size_t k = 0; node->kind == NODE_JOB && k < options->n_waiting; k++)
			if (options->waiting[k].key == own)
				node->why_held = options->waiting[k].why;
		if (options->sheet_names && node->sheet_num != SHEET_NONE &&
		    map_get(options->sheet_names, sheet, &name))
			node->sheet_name = (const char *)(uintptr_t)name;
	}
}

void outline_forget_names(struct outline *o)
{
	for (size_t i = 0; i < o->n; i++)
		o->nodes[i].sheet_name = NULL;
}

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
		return by_f64(u64_to_mb(a->rss_bytes), u64_to_mb(b->rss_bytes));
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
	return (a->p && b->p ? COMPARE(a->p->key.pid, b->p->key.pid) : 0) ?: COMPARE(a->id, b->id);
}

struct order {
	const struct outline *o;
	enum sort sort;
	bool is_tree;
};

/* In a tree siblings together; sheets and ranks by their number, all else as asked for. */
static int compare_nodes(const void *x, const void *y, void *ctx)
{
	const struct order *order = ctx;
	const struct node *a = &order->o->nodes[*(const int *)x];
	const struct node *b = &order->o->nodes[*(const int *)y];
	int r = 0;

	if (order->is_tree) {
		r = COMPARE(a->parent, b->parent) ?: COMPARE(a->kind, b->kind);
		if (r == 0 && a->kind == NODE_SHEET)
			return a->sheet_num - b->sheet_num;
		if (r == 0 && a->kind == NODE_RANK)
			return a->rank - b->rank;
		r = r ?: !a->job_id - !b->job_id;
	}
	return r ?: compare(a, b, order->sort) ?: by_identity(a, b);
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

/* What is folded has no rows below it, and is walked through all the same. */
static int list_tree(struct outline *o, const struct outline_options *options)
{
	CLEANUP(free_ptr) int *own = reallocarray(NULL, o->n + 1, sizeof(*own));
	CLEANUP(free_ptr) int *first = reallocarray(NULL, o->n + 1, sizeof(*first));
	struct order order = { o, options->sort, true };

	if (!own || !first)
		return -ENOMEM;
	for (size_t i = 0; i < o->n; i++) {
		o->order[i] = (int)i;
		o->nodes[i].is_folded =
			o->nodes[i].is_match && map_get(options->folded, o->nodes[i].id, NULL);
	}
	qsort_r(o->order, o->n, sizeof(*o->order), compare_nodes, &order);
	for (size_t i = 0; i <= o->n; i++)
		first[i] = -1;
	for (size_t i = o->n; i-- > 0;) {
		own[o->order[i]] = (int)i;
		first[o->nodes[o->order[i]].parent + 1] = (int)i;
	}
	add_rows(o, own, first);
	return 0;
}

static int make_rows(struct outline *o, const struct outline_options *options)
{
	int **const lists[] = { &o->rows, &o->order, &o->walk };
	struct order order = { o, options->sort, false };

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
	qsort_r(o->rows, o->n_rows, sizeof(*o->rows), compare_nodes, &order);
	memcpy(o->walk, o->rows, o->n_rows * sizeof(*o->rows));
	o->n_walk = o->n_rows;
	return 0;
}

/* ---- all of it ---- */

int outline_make(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
		 const struct outline_options *options)
{
	int r;

	o->n = o->n_rows = o->n_walk = 0;
	o->is_list = !options->is_tree;
	map_clear(&o->by_id);
	map_clear(&o->by_job);
	r = add_nodes(o, s, tracks, options);
	if (r < 0)
		return r;
	for (size_t i = o->n; i-- > 0;) {
		struct node *node = &o->nodes[i];
		struct node *parent = node->parent < 0 ? NULL : &o->nodes[node->parent];

		if (node->has_hidden_io) /* the rest of a sum is not the sum */
			node->io_rate = F64_UNKNOWN;
		if (!parent)
			continue;
		parent->has_children = true;
		parent->n_processes += node->n_processes;
		parent->cpu_percent = f64_add_known(
			parent->cpu_percent,
			node->kind == NODE_PROCESS ? node->cpu_with_ended : node->cpu_percent);
		parent->has_hidden_io = parent->has_hidden_io || node->has_hidden_io;
		parent->io_rate = f64_add_known(parent->io_rate, node->io_rate);
		parent->rss_bytes = u64_add_known(parent->rss_bytes, node->rss_bytes);
		parent->gpu_bytes = u64_add_known(parent->gpu_bytes, node->gpu_bytes);
		parent->age_seconds = fmax(parent->age_seconds, node->age_seconds);
	}
	add_knowledge(o, s->wall_ns, options);
	return make_rows(o, options);
}

/* ---- what is there ---- */

const struct node *outline_row(const struct outline *o, size_t row)
{
	return row < o->n_rows ? &o->nodes[o->rows[row]] : NULL;
}

int outline_find(const struct outline *o, uint64_t id)
{
	for (size_t i = 0; i < o->n_rows; i++)
		if (o->nodes[o->rows[i]].id == id)
			return (int)i;
	return -1;
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

bool outline_has(const struct outline *o, uint64_t id)
{
	return find_node(o, id) >= 0;
}

bool outline_is_below(const struct outline *o, uint64_t id, uint64_t ancestor)
{
	int at = find_node(o, id);

	while (at >= 0 && o->nodes[at].id != ancestor)
		at = o->nodes[at].parent;
	return at >= 0;
}

void outline_flag(struct outline *o, uint64_t process, uint64_t job)
{
	int from = find_node(o, process);

	for (int at = from; at >= 0; at = o->nodes[at].parent)
		o->nodes[at].is_flagged = true;
	if (from >= 0)
		return;
	for (int at = first_attempt(o, job); at >= 0; at = o->nodes[at].next_attempt)
		o->nodes[at].is_flagged |= !o->nodes[at].queued;
}

void outline_forget_flags(struct outline *o)
{
	for (size_t i = 0; i < o->n; i++)
		o->nodes[i].is_flagged = false;
}

bool outline_has_other(const struct outline *o, uint64_t job, int attempt_num)
{
	for (int at = first_attempt(o, job); at >= 0; at = o->nodes[at].next_attempt)
		if (o->nodes[at].attempt_num && o->nodes[at].attempt_num != attempt_num)
			return true;
	return false;
}

bool outline_runs_too(const struct outline *o, const struct node *queued)
{
	for (int at = first_attempt(o, track_key_of_job(queued->job_id)); at >= 0;
	     at = o->nodes[at].next_attempt) {
		uint64_t uid = o->nodes[at].uid;

		if (!o->nodes[at].queued &&
		    (!u64_known(uid) || !u64_known(queued->uid) || uid == queued->uid))
			return true;
	}
	return false;
}

uint64_t outline_nearest(const struct outline *o, uint64_t process, uint64_t job)
{
	if (outline_find(o, process) >= 0)
		return process;
	for (int at = first_attempt(o, job); at >= 0; at = o->nodes[at].next_attempt)
		if (outline_find(o, o->nodes[at].id) >= 0)
			return o->nodes[at].id;
	return 0;
}

/* ---- commands ---- */

/* Behind the last slash of a word that begins with one. */
static const char *without_folder(const char *word, size_t len)
{
	const char *slash = len > 0 && word[0] == '/' ? memrchr(word, '/', len) : NULL;

	return slash && slash + 1 < word + len ? slash + 1 : word;
}

/* Whatever its version: python3.11 is a python. */
static bool is_interpreter(const char *name, size_t len)
{
	static const char *const names[] = { "bash",	"dash", "julia", "ksh",	  "lua",
					     "node",	"perl", "php",	 "pypy",  "python",
					     "Rscript", "ruby", "sh",	 "tclsh", "zsh" };

	while (len > 0 && strchr("0123456789.", name[len - 1]))
		len--;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && memcmp(name, names[i], len) == 0)
			return true;
	return false;
}

/* Returns how many bytes there are by now. */
static size_t append(char *ret, size_t size, size_t at, const char *text, size_t len)
{
	size_t n = utf8_cut(text, len, size - 1 - at);

	memcpy(ret + at, text, n);
	ret[at + n] = '\0';
	return at + n;
}

void outline_command(const struct proc_sample *p, char *ret, size_t size)
{
	const char *command = p->command ? p->command : p->comm;
	size_t len = strcspn(command, " "), at;
	const char *program = without_folder(command, len), *rest = command + len;
	size_t name_len = (size_t)(rest - program);

	at = append(ret, size, 0, program, name_len);
	if (rest[0] == ' ' && is_interpreter(program, name_len)) {
		at = append(ret, size, at, " ", 1);
		rest++;
		rest = without_folder(rest, strcspn(rest, " "));
	}
	append(ret, size, at, rest, strlen(rest));
}
