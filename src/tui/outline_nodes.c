#include "tui/outline_nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

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

int outline_at(const struct outline *o, uint64_t id)
{
	uint64_t at;

	return map_get(&o->by_id, id, &at) ? (int)at : -1;
}

int outline_first_attempt(const struct outline *o, uint64_t job)
{
	uint64_t at;

	return map_get(&o->by_job, job, &at) ? (int)at : -1;
}

/* In front of the other attempts of its job. */
static int add_job(struct outline *o, struct node *node, uint64_t job)
{
	int at;

	node->next_attempt = outline_first_attempt(o, job);
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
	int at = attempt_id ? outline_at(o, id) : outline_first_attempt(o, job);

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
	int at = outline_at(o, id);

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

static bool is_wanted(const char *job_id, const struct outline_options *options)
{
	return !options->job_id || (job_id && strcmp(job_id, options->job_id) == 0);
}

/* One of the same user that the list of jobs did not have yet: it may be the one that waited. */
static bool may_have_begun(const struct outline *o, const struct queued_job *job,
			   const struct map *starts)
{
	int at = outline_first_attempt(o, track_key_of_job(job->job_id));

	for (; at >= 0; at = o->nodes[at].next_attempt) {
		const struct node *node = &o->nodes[at];
		uint64_t key = track_key_of_attempt(job->job_id, node->attempt_num), ns;
		bool is_other = u64_known(node->uid) && node->uid != job->uid;

		if (!node->queued && !is_other && !map_get(starts, key, &ns))
			return true;
	}
	return false;
}

/* Each user has but one of a name: no attempt has such a number. */
static uint64_t key_of_queued(const struct queued_job *job)
{
	return track_key_of_attempt(job->job_id, INT64_MIN + (int64_t)(uint32_t)job->uid);
}

/* Behind those that run, and beside others of the same name. */
static int add_queued(struct outline *o, const struct outline_options *options)
{
	for (size_t i = 0; i < options->n_queued; i++) {
		const struct queued_job *job = &options->queued[i];
		uint64_t id = key_of_queued(job);
		struct node node = node_of(NODE_JOB, id, -1, job->job_id);

		node.queued = job;
		node.uid = job->uid;
		if (is_wanted(job->job_id, options) && outline_at(o, id) < 0 &&
		    !may_have_begun(o, job, options->starts) &&
		    add_job(o, &node, track_key_of_job(job->job_id)) < 0)
			return -ENOMEM;
	}
	return 0;
}

int outline_add_nodes(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
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
