#include "tui/outline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"

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
static bool may_have_begun(const struct outline *o, const struct queued_job *job,
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
	for (size_t i = 0; r >= 0 && i < options->n_queued; i++) {
		const struct queued_job *job = &options->queued[i];
		/* each user has but one of a name: no attempt has such a number */
		uint64_t id =
			track_key_of_attempt(job->job_id, INT64_MIN + (int64_t)(uint32_t)job->uid);
		struct node node = node_of(NODE_JOB, id, -1, job->job_id);

		node.queued = job;
		node.uid = job->uid;
		if (is_wanted(job->job_id, options) && find_node(o, id) < 0 &&
		    !may_have_begun(o, job, options->starts))
			r = add_job(o, &node, track_key_of_job(job->job_id));
	}
	return r < 0 ? r : 0;
}

/* ---- sums: children come behind their containers, so they are added from the end ---- */

static double add_f64(double a, double b)
{
	return isnan(b) ? a : isnan(a) ? b : a + b;
}

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
		for (size_t k = 0; node->kind == NODE_JOB && k < options->n_held; k++)
			if (options->held[k].key == own)
				node->why_held = options->held[k].why;
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
		parent->cpu_percent = add_f64(parent->cpu_percent, node->kind == NODE_PROCESS
									   ? node->cpu_with_ended
									   : node->cpu_percent);
		parent->has_hidden_io = parent->has_hidden_io || node->has_hidden_io;
		parent->io_rate = add_f64(parent->io_rate, node->io_rate);
		parent->rss_bytes = u64_add_known(parent->rss_bytes, node->rss_bytes);
		parent->gpu_bytes = u64_add_known(parent->gpu_bytes, node->gpu_bytes);
		parent->age_seconds = fmax(parent->age_seconds, node->age_seconds);
	}
	add_knowledge(o, s->wall_ns, options);
	return outline_make_rows(o, options);
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

bool outline_flag(struct outline *o, uint64_t id)
{
	int from = find_node(o, id);

	for (int at = from; at >= 0; at = o->nodes[at].parent)
		o->nodes[at].is_flagged = true;
	return from >= 0;
}

void outline_flag_job(struct outline *o, uint64_t job)
{
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
