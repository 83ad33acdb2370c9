#include "tui/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/track.h"

#define SECOND_NS UINT64_C(1000000000)
#define FIRST_GAP_NS (10 * SECOND_NS) /* of one that was seen once: nobody knows its interval */
#define MISSED 3		      /* so many looks, and it is not looking any more */

struct merge_part {
	uint64_t gap_ns; /* between its last two */
	struct snapshot snap;
};

void merge_init(struct merge *m)
{
	*m = (struct merge){ .ends = MAP_INIT, .job_ends = MAP_INIT };
	snapshot_init(&m->all);
}

void merge_forget(struct merge *m)
{
	for (size_t i = 0; i < m->n; i++)
		snapshot_release(&m->parts[i].snap);
	m->n = 0;
}

void merge_release(struct merge *m)
{
	merge_forget(m);
	free(m->parts);
	map_release(&m->ends);
	map_release(&m->job_ends);
	attempts_release(&m->attempts);
	snapshot_release(&m->all);
}

int merge_add_attempt(struct merge *m, const struct attempt *a)
{
	if (attempts_add(&m->attempts, a) < 0)
		return -ENOMEM;
	if (map_put(&m->job_ends, track_key_of_job(a->job_id), a->ended_wall_ns) < 0)
		return -ENOMEM;
	return map_put(&m->ends, (uint64_t)a->id, a->ended_wall_ns);
}

/* ---- parts ---- */

/* A daemon writes nothing while no job runs: what knows of none is a closer look at one. */
static bool is_closer(const struct snapshot *s)
{
	return s->recorder < 0 && s->running_jobs == 0;
}

static struct merge_part *find_part(struct merge *m, const struct snapshot *snap)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->parts[i].snap.recorder == snap->recorder &&
		    is_closer(&m->parts[i].snap) == is_closer(snap))
			return &m->parts[i];
	return NULL;
}

static struct merge_part *add_part(struct merge *m)
{
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 8;
		struct merge_part *parts = reallocarray(m->parts, cap, sizeof(*parts));

		if (!parts)
			return NULL;
		m->parts = parts;
		m->cap = cap;
	}
	m->parts[m->n].gap_ns = FIRST_GAP_NS;
	snapshot_init(&m->parts[m->n].snap);
	return &m->parts[m->n++];
}

int merge_add(struct merge *m, const struct snapshot *snap)
{
	struct merge_part *part = find_part(m, snap);

	if (part && snap->wall_ns > part->snap.wall_ns)
		part->gap_ns = snap->wall_ns - part->snap.wall_ns;
	if (!part)
		part = add_part(m);
	if (!part)
		return -ENOMEM;
	if (snapshot_copy(&part->snap, snap, SNAPSHOT_ALL) < 0)
		return -ENOMEM;
	attempts_name(&m->attempts, &part->snap);
	return 0;
}

static bool is_minute(const struct snapshot *s)
{
	return f64_known(s->resolution_seconds);
}

static bool is_fresh(const struct merge *m, const struct merge_part *part, uint64_t from_ns,
		     uint64_t until_ns)
{
	const struct snapshot *s = &part->snap;
	uint64_t ended_ns;

	if (s->wall_ns >= from_ns)
		return true;
	if (is_minute(s))
		return until_ns - s->wall_ns < (uint64_t)(s->resolution_seconds * SECOND_NS);
	if (map_get(&m->ends, (uint64_t)s->recorder, &ended_ns) && ended_ns < from_ns)
		return false;
	return until_ns - s->wall_ns <= MISSED * part->gap_ns + SECOND_NS;
}

static void drop_stale(struct merge *m, uint64_t from_ns, uint64_t until_ns)
{
	for (size_t i = m->n; i-- > 0;) {
		if (is_fresh(m, &m->parts[i], from_ns, until_ns))
			continue;
		snapshot_release(&m->parts[i].snap);
		m->parts[i] = m->parts[--m->n];
	}
}

/* The newest first; minutes, which know nothing of the host, last. */
static int compare_parts(const void *x, const void *y)
{
	const struct snapshot *a = &((const struct merge_part *)x)->snap;
	const struct snapshot *b = &((const struct merge_part *)y)->snap;

	if (is_minute(a) != is_minute(b))
		return is_minute(a) - is_minute(b);
	return (a->wall_ns < b->wall_ns) - (a->wall_ns > b->wall_ns);
}

/* ---- all of them ---- */

/* Of this attempt; one that nobody can tell may be any. */
static bool has_progress(const struct snapshot *s, const struct job_progress *p)
{
	for (size_t i = 0; i < s->n_progress; i++) {
		const struct job_progress *other = &s->progress[i];

		if (other->job_id && strcmp(other->job_id, p->job_id) == 0 &&
		    (other->attempt_id == p->attempt_id || !other->attempt_id || !p->attempt_id))
			return true;
	}
	return false;
}

/* Of an attempt, or of a job, that was over before it. */
static bool is_past(const struct merge *m, const char *job_id, int64_t attempt_id, uint64_t from_ns)
{
	uint64_t ended_ns;

	if (attempt_id)
		return map_get(&m->ends, (uint64_t)attempt_id, &ended_ns) && ended_ns < from_ns;
	return job_id && map_get(&m->job_ends, track_key_of_job(job_id), &ended_ns) &&
	       ended_ns < from_ns;
}

/* Strings stay the part's, which lives as long. */
static int add_progress(struct merge *m, const struct snapshot *part, uint64_t from_ns)
{
	struct snapshot *all = &m->all;
	size_t n = all->n_progress + part->n_progress;
	struct job_progress *items = arena_alloc(&all->arena, (n + 1) * sizeof(*items));

	if (!items)
		return -ENOMEM;
	if (all->n_progress > 0)
		memcpy(items, all->progress, all->n_progress * sizeof(*items));
	all->progress = items;
	all->running_jobs += part->running_jobs;
	all->active_sheets += part->active_sheets;
	for (size_t i = 0; i < part->n_progress; i++) {
		const struct job_progress *p = &part->progress[i];

		if (!p->job_id ||
		    (!has_progress(all, p) && !is_past(m, p->job_id, p->attempt_id, from_ns))) {
			items[all->n_progress++] = *p;
			continue;
		}
		all->running_jobs--;
		all->active_sheets -= p->current_sheet != SHEET_NONE;
	}
	return 0;
}

/* When each was looked at stays known, for rates. */
static int add_processes(struct merge *m, const struct snapshot *part, uint64_t from_ns,
			 struct map *seen)
{
	for (size_t i = 0; i < part->n_processes; i++) {
		const struct proc_sample *from = &part->processes[i];
		uint64_t key = track_key_of_process(&from->key);
		struct proc_sample *p;

		if (map_get(seen, key, NULL) || is_past(m, from->job_id, from->attempt_id, from_ns))
			continue;
		p = snapshot_add_process(&m->all);
		if (!p || map_put(seen, key, 1) < 0)
			return -ENOMEM;
		*p = *from;
		if (!u64_known(p->boot_ns))
			p->boot_ns = part->boot_ns;
	}
	return 0;
}

/* Who knows most of it, and lately: a closer look is of processes alone. */
static const struct snapshot *find_host(const struct merge *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (!is_closer(&m->parts[i].snap) && !is_minute(&m->parts[i].snap))
			return &m->parts[i].snap;
	return &m->parts[0].snap;
}

/* The host as the newest saw it, without its jobs. */
static void take_host(struct snapshot *all, const struct snapshot *newest, uint64_t wall_ns)
{
	struct snapshot own;

	snapshot_reset(all);
	own = *all;
	*all = *newest;
	all->wall_ns = wall_ns;
	all->arena = own.arena;
	all->processes = own.processes;
	all->cap_processes = own.cap_processes;
	all->n_processes = all->n_progress = 0;
	all->progress = NULL;
	all->running_jobs = all->active_sheets = 0;
}

const struct snapshot *merge_make(struct merge *m, uint64_t from_wall_ns, uint64_t until_wall_ns)
{
	struct map seen = MAP_INIT;
	int r = 0;

	drop_stale(m, from_wall_ns, until_wall_ns);
	if (m->n == 0) {
		snapshot_reset(&m->all);
		return &m->all;
	}
	qsort(m->parts, m->n, sizeof(*m->parts), compare_parts);
	take_host(&m->all, find_host(m), until_wall_ns);
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		const struct snapshot *part = &m->parts[i].snap;
		uint64_t past_ns = part->wall_ns < from_wall_ns ? from_wall_ns : 0;

		r = add_progress(m, part, past_ns);
		if (r == 0)
			r = add_processes(m, part, past_ns, &seen);
	}
	map_release(&seen);
	return r == 0 ? &m->all : NULL;
}
