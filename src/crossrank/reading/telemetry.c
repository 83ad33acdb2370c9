#include "crossrank/reading/telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/macros.h"
#include "crossrank/reading/jtree.h"

/* ---- collective operations ---- */

static const char *const names[] = {
	"nccl",		  "collective",	   "all_reduce", "allreduce", "all_gather", "allgather",
	"reduce_scatter", "reducescatter", "all_to_all", "alltoall",  "broadcast",  "barrier",
};

static bool names_one(struct text t)
{
	for (size_t i = 0; t.s && i < ARRAY_SIZE(names); i++)
		if (text_contains(t, names[i]))
			return true;
	return false;
}

/* Collective operations are named by the type, the context, or the phase that begins. */
static bool is_collective(const struct telemetry_event *ev, bool is_sample)
{
	const struct jnode *name = ev->phase_scope ? jtree_find(ev->phase_scope, "name") : NULL;

	return names_one(ev->context) ||
	       (!is_sample && (names_one(ev->event_type) ||
			       (name && name->kind == JKIND_TEXT && names_one(name->text))));
}

/* ---- memory ---- */

#define MAX_IDENTITIES (UINT32_MAX - 1)
#define FIRST_SAMPLES 64

struct telemetry *telemetry_new(void)
{
	return calloc(1, sizeof(struct telemetry));
}

struct telemetry *telemetry_free(struct telemetry *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_streams; i++)
		free(t->streams[i].samples);
	free(t->streams);
	free(t->identities);
	free(t->boundaries);
	free(t->markers);
	free(t->starts.items);
	free(t->ends.items);
	for (size_t i = 0; i < N_USES; i++)
		free(t->uses[i].items);
	map_release(&t->by_hash);
	map_release(&t->by_rank);
	arena_release(&t->arena);
	free(t);
	return NULL;
}

void telemetry_cleanup(struct telemetry **t)
{
	*t = telemetry_free(*t);
}

/* ---- identities ---- */

static bool is_same(const struct identity *id, const struct telemetry_event *ev)
{
	return id->rank == ev->rank && id->pid == ev->pid && id->world_size == ev->world_size &&
	       id->sampling_interval_ms == ev->sampling_interval_ms &&
	       text_equals(id->host, ev->host) && text_equals(id->job_id, ev->job_id) &&
	       text_equals(id->session_id, ev->session_id) && !id->job_id.s == !ev->job_id.s &&
	       !id->session_id.s == !ev->session_id.s && id->clock.error_ns == ev->clock.error_ns &&
	       id->clock.is_free == ev->clock.is_free &&
	       text_equals(id->clock.boot_id, ev->clock.boot_id);
}

static uint64_t hash_identity(const struct telemetry_event *ev)
{
	const int64_t numbers[] = { ev->rank, ev->pid, ev->world_size, ev->sampling_interval_ms,
				    ev->clock.error_ns };
	uint64_t h = hash_bytes(HASH_INIT, numbers, sizeof(numbers));

	h = hash_bytes(h, ev->host.s, ev->host.n);
	h = hash_bytes(h, ev->job_id.s, ev->job_id.n);
	h = hash_bytes(h, ev->session_id.s, ev->session_id.n);
	return hash_bytes(h, ev->clock.boot_id.s, ev->clock.boot_id.n);
}

static int copy_text(struct telemetry *t, struct text *text)
{
	if (!text->s)
		return 0;
	text->s = arena_strndup(&t->arena, text->s, text->n);
	return text->s ? 0 : -ENOMEM;
}

static int add_identity(struct telemetry *t, const struct telemetry_event *ev)
{
	struct identity id = { .rank = ev->rank,
			       .world_size = ev->world_size,
			       .pid = ev->pid,
			       .sampling_interval_ms = ev->sampling_interval_ms,
			       .job_id = ev->job_id,
			       .host = ev->host,
			       .session_id = ev->session_id,
			       .clock = ev->clock,
			       .last_ns = ev->timestamp_ns,
			       .total_bytes = EVENT_UNKNOWN };

	if (t->n_identities >= MAX_IDENTITIES)
		return -E2BIG;
	if (copy_text(t, &id.job_id) < 0 || copy_text(t, &id.host) < 0 ||
	    copy_text(t, &id.session_id) < 0 || copy_text(t, &id.clock.boot_id) < 0 ||
	    ARRAY_RESERVE(t->identities, t->identities_cap, t->n_identities + 1) < 0)
		return -ENOMEM;
	t->identities[t->n_identities++] = id;
	return 0;
}

/* Different identities with one hash lie under hash, hash + 1, … */
static int find_identity(struct telemetry *t, const struct telemetry_event *ev, uint32_t *ret)
{
	uint32_t *recent = &t->recent[(uint64_t)ev->rank % ARRAY_SIZE(t->recent)];
	uint64_t hash, found;
	int r = 0;

	if (*recent == 0 || !is_same(&t->identities[*recent - 1], ev)) {
		hash = hash_identity(ev);
		while (map_get(&t->by_hash, hash, &found) && !is_same(&t->identities[found], ev))
			hash++;
		if (!map_get(&t->by_hash, hash, &found)) {
			found = t->n_identities;
			r = add_identity(t, ev);
			if (r == 0)
				r = map_put(&t->by_hash, hash, found);
		}
		*recent = r == 0 ? (uint32_t)found + 1 : 0;
	}
	*ret = *recent - 1;
	return r;
}

/* ---- streams ---- */

static int find_stream(struct telemetry *t, struct identity *id)
{
	uint64_t found;

	if (id->stream > 0)
		return 0;
	if (!map_get(&t->by_rank, (uint64_t)id->rank, &found)) {
		if (ARRAY_RESERVE(t->streams, t->streams_cap, t->n_streams + 1) < 0 ||
		    map_put(&t->by_rank, (uint64_t)id->rank, t->n_streams) < 0)
			return -ENOMEM;
		found = t->n_streams;
		t->streams[t->n_streams++] = (struct stream){ .rank = id->rank };
	}
	id->stream = found + 1;
	return 0;
}

/* <0, 0, >0: by time, pid and host. */
static int compare_samples(const struct telemetry *t, const struct sample *a,
			   const struct sample *b)
{
	const struct identity *x, *y;

	if (a->timestamp_ns != b->timestamp_ns)
		return a->timestamp_ns < b->timestamp_ns ? -1 : 1;
	if (a->identity == b->identity)
		return 0;
	x = identity_of(t, a);
	y = identity_of(t, b);
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return text_compare(x->host, y->host);
}

static int add_sample(struct telemetry *t, const struct sample *from)
{
	struct identity *id = &t->identities[from->identity];
	struct stream *s;
	struct sample *to;

	if (find_stream(t, id) < 0)
		return -ENOMEM;
	s = &t->streams[id->stream - 1];
	if (s->n == s->cap) { /* by a half: a job may have hundreds of millions */
		size_t cap = s->cap ? s->cap + s->cap / 2 : FIRST_SAMPLES;

		to = reallocarray(s->samples, cap, sizeof(*to));
		if (!to)
			return -ENOMEM;
		s->samples = to;
		s->cap = cap;
	}
	to = &s->samples[s->n++];
	*to = *from;
	if (id->n_samples++ == 0)
		id->first_sample = t->n_events;
	t->n_samples++;
	return 0;
}

/* ---- phases ---- */

/*
 * A record of the type phase_enter or phase_exit, as far as it is whole. What is not is no
 * boundary, and no fault: the reference has it so.
 */
#define PART_SEPARATOR " / "

/* Booleans are numbers there: the reference's language has it so. */
static bool is_int(const struct jnode *node)
{
	return node && (node->kind == JKIND_INT || node->kind == JKIND_BOOL);
}

static bool is_text_node(const struct jnode *node)
{
	return node && node->kind == JKIND_TEXT;
}

/* The path as one text; parts that are empty or no texts do not count. */
static int join_path(const struct jnode *path, struct arena *arena, struct boundary *ret)
{
	CLEANUP(buf_release) struct buf label = BUF_INIT;

	for (const struct jnode *c = path->first; c; c = c->next) {
		if (c->kind != JKIND_TEXT || c->text.n == 0)
			continue;
		buf_add_str(&label, ret->depth++ > 0 ? PART_SEPARATOR : "");
		buf_add(&label, c->text.s, c->text.n);
	}
	ret->label = (struct text){ arena_strndup(arena, label.data, label.len), label.len };
	return ret->label.s ? buf_error(&label) : -ENOMEM;
}

static int add_boundary(struct telemetry *t, const struct telemetry_event *ev, uint32_t identity)
{
	bool is_enter = text_is(ev->event_type, "phase_enter");
	const struct jnode *scope = ev->phase_scope, *action, *name, *path, *id, *parent,
			   *thread_id, *thread_name, *sequence;
	struct boundary b = { .timestamp_ns = ev->timestamp_ns,
			      .rank = ev->rank,
			      .session_id = t->identities[identity].session_id,
			      .is_enter = is_enter };

	if ((!is_enter && !text_is(ev->event_type, "phase_exit")) || !ev->session_id.s || !scope)
		return 0;
	action = jtree_find(scope, "action");
	name = jtree_find(scope, "name");
	path = jtree_find(scope, "path");
	id = jtree_find(scope, "scope_id");
	parent = jtree_find(scope, "parent_scope_id");
	thread_id = jtree_find(scope, "thread_id");
	thread_name = jtree_find(scope, "thread_name");
	sequence = jtree_find(scope, "sequence");
	if (!is_text_node(action) || !is_text_node(name) || !is_text_node(id) ||
	    !is_text_node(thread_name) || !path || path->kind != JKIND_ARRAY ||
	    !is_int(thread_id) || !is_int(sequence) ||
	    (parent && parent->kind != JKIND_NULL && !is_text_node(parent)) ||
	    text_is_blank(name->text.s, name->text.n) ||
	    !text_is(action->text, is_enter ? "enter" : "exit"))
		return 0;
	b.sequence = sequence->integer;
	b.thread_id = thread_id->integer;
	b.scope_id = id->text;
	b.thread_name = thread_name->text;
	if (join_path(path, &t->arena, &b) < 0 || copy_text(t, &b.scope_id) < 0 ||
	    copy_text(t, &b.thread_name) < 0)
		return -ENOMEM;
	if (b.depth == 0)
		return 0;
	if (ARRAY_RESERVE(t->boundaries, t->boundaries_cap, t->n_boundaries + 1) < 0)
		return -ENOMEM;
	t->boundaries[t->n_boundaries++] = b;
	return 0;
}

/* ---- events ---- */

static int add_moment(struct rank_moments *m, const struct telemetry_event *ev, int64_t amount,
		      uint32_t identity)
{
	if (ARRAY_RESERVE(m->items, m->cap, m->n + 1) < 0)
		return -ENOMEM;
	m->items[m->n++] = (struct rank_moment){ ev->rank, ev->timestamp_ns, amount, identity };
	return 0;
}

/* What is no sample: a phase, a start or end, or something else. */
static int add_other(struct telemetry *t, const struct telemetry_event *ev, uint32_t identity)
{
	struct rank_moments *m = text_is(ev->event_type, "rank_start") ? &t->starts
				 : text_is(ev->event_type, "rank_end") ? &t->ends
								       : NULL;

	return m ? add_moment(m, ev, ev->device_used_bytes, identity)
		 : add_boundary(t, ev, identity);
}

int telemetry_add(struct telemetry *t, const struct telemetry_event *ev)
{
	struct sample s = { ev->timestamp_ns,
			    ev->device_used_bytes,
			    ev->allocator_reserved_bytes,
			    ev->allocator_allocated_bytes,
			    ev->allocator_change_bytes,
			    0,
			    ev->device_id <= INT32_MAX ? (int32_t)ev->device_id : INT32_MAX };
	bool is_sample = text_is_sample(ev->event_type);
	struct identity *id;
	int r = find_identity(t, ev, &s.identity);

	if (r < 0)
		return r;
	id = &t->identities[s.identity];
	if (ev->timestamp_ns > id->last_ns)
		id->last_ns = ev->timestamp_ns;
	if (ev->device_total_bytes != EVENT_UNKNOWN)
		id->total_bytes = ev->device_total_bytes;
	r = is_sample ? add_sample(t, &s) : add_other(t, ev, s.identity);
	for (size_t i = 0; r == 0 && is_sample && i < N_USES; i++)
		if (ev->used_ns[i] != EVENT_UNKNOWN)
			r = add_moment(&t->uses[i], ev, ev->used_ns[i], s.identity);
	t->n_events++;
	if (r < 0 || !is_collective(ev, is_sample))
		return r;
	if (ARRAY_RESERVE(t->markers, t->markers_cap, t->n_markers + 1) < 0)
		return -ENOMEM;
	t->markers[t->n_markers++] = ev->timestamp_ns;
	return 0;
}

/* ---- order ---- */

/* Merges a[from..middle) and a[middle..to) through spare, equal ones of the first before. */
static void merge_runs(const struct telemetry *t, struct sample *a, struct sample *spare,
		       size_t from, size_t middle, size_t to)
{
	size_t left = 0, n_left = middle - from, right = middle, at = from;

	memcpy(spare, a + from, n_left * sizeof(*a));
	while (left < n_left && right < to)
		a[at++] = compare_samples(t, &a[right], &spare[left]) < 0 ? a[right++]
									  : spare[left++];
	memcpy(a + at, spare + left, (n_left - left) * sizeof(*a));
}

/* The end of the ordered run that begins at from. */
static size_t run_end(const struct telemetry *t, const struct stream *s, size_t from)
{
	size_t end = from + 1;

	while (end < s->n && compare_samples(t, &s->samples[end - 1], &s->samples[end]) <= 0)
		end++;
	return end < s->n ? end : s->n;
}

/* Files come one after the other and each is mostly in order: runs are long. */
static int sort_stream(const struct telemetry *t, struct stream *s)
{
	CLEANUP(free_ptr) struct sample *spare = NULL;

	while (run_end(t, s, 0) < s->n) {
		if (!spare)
			spare = malloc(s->n * sizeof(*spare));
		if (!spare)
			return -ENOMEM;
		for (size_t from = 0, middle, to; from < s->n; from = to) {
			middle = run_end(t, s, from);
			to = middle < s->n ? run_end(t, s, middle) : middle;
			if (to > middle)
				merge_runs(t, s->samples, spare, from, middle, to);
		}
	}
	return 0;
}

static int compare_times(const void *l, const void *r)
{
	return COMPARE(*(const int64_t *)l, *(const int64_t *)r);
}

/* A range has its two ends. */
static int compare_to_range(const void *range, const void *time)
{
	const int64_t *ends = range, *t = time;

	return (ends[0] > *t) - (ends[1] < *t);
}

bool telemetry_has_marker(const struct telemetry *t, int64_t from_ns, int64_t to_ns)
{
	const int64_t range[] = { from_ns, to_ns };

	return t->n_markers > 0 &&
	       bsearch(range, t->markers, t->n_markers, sizeof(*t->markers), compare_to_range);
}

static int compare_moments(const void *l, const void *r)
{
	const struct rank_moment *a = l, *b = r;

	return COMPARE(a->rank, b->rank) ?: COMPARE(a->timestamp_ns, b->timestamp_ns);
}

const struct rank_moment *telemetry_find_moment(const struct rank_moments *moments, int64_t rank,
						int64_t ns)
{
	const struct rank_moment key = { .rank = rank, .timestamp_ns = ns };
	size_t low = 0, high = moments->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_moments(&moments->items[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && moments->items[low - 1].rank == rank ? &moments->items[low - 1] : NULL;
}

int telemetry_sort(struct telemetry *t)
{
	struct rank_moments *moments[] = { &t->starts, &t->ends, &t->uses[USE_CPU],
					   &t->uses[USE_GPU] };

	for (size_t i = 0; i < ARRAY_SIZE(moments); i++)
		if (moments[i]->n > 0)
			qsort(moments[i]->items, moments[i]->n, sizeof(struct rank_moment),
			      compare_moments);
	if (t->n_markers > 0)
		qsort(t->markers, t->n_markers, sizeof(*t->markers), compare_times);
	for (size_t i = 0; i < t->n_streams; i++) {
		int r = sort_stream(t, &t->streams[i]);

		if (r < 0)
			return r;
	}
	return 0;
}
