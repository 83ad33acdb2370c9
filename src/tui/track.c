#include "tui/track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "tui/track_rates.h"

#define FORGET_AFTER 30 /* snapshots */
#define MAX_LEVELS 64	/* of processes below each other that end at once */

void tracks_release(struct tracks *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->items[i]);
	free(t->items);
	map_release(&t->by_key);
	map_release(&t->by_pid);
	*t = (struct tracks)TRACKS_INIT;
}

uint64_t track_key_of_process(const struct proc_key *key)
{
	uint64_t h = hash_bytes(HASH_INIT, &key->pid, sizeof(key->pid));

	return hash_bytes(h, &key->start_ticks, sizeof(key->start_ticks));
}

uint64_t track_key_of_job(const char *job_id)
{
	return hash_bytes(HASH_INIT, job_id, strlen(job_id) + 1);
}

uint64_t track_key_of_attempt(const char *job_id, int64_t attempt)
{
	uint64_t job = track_key_of_job(job_id);

	return attempt ? hash_bytes(job, &attempt, sizeof(attempt)) : job;
}

uint64_t track_key_below(uint64_t parent, enum track_part part, int number)
{
	uint64_t h = hash_bytes(HASH_INIT, &parent, sizeof(parent));

	h = hash_bytes(h, &part, sizeof(part));
	return hash_bytes(h, &number, sizeof(number));
}

static struct track *add_track(struct tracks *t, uint64_t key)
{
	struct track *track;

	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;
		struct track **items = reallocarray(t->items, cap, sizeof(*items));

		if (!items)
			return NULL;
		t->items = items;
		t->cap = cap;
	}
	track = calloc(1, sizeof(*track));
	if (!track || map_put(&t->by_key, key, t->n) < 0) {
		free(track);
		return NULL;
	}
	track->key = key;
	track->io_bytes = track->cpu_ns = track->ended_cpu_ns = track->boot_ns = U64_UNKNOWN;
	track->io_rate = track->cpu_percent = F64_UNKNOWN;
	t->items[t->n++] = track;
	return track;
}

static struct track *find(const struct tracks *t, uint64_t key)
{
	uint64_t at;

	return map_get(&t->by_key, key, &at) ? t->items[at] : NULL;
}

const struct track *tracks_find(const struct tracks *t, uint64_t key)
{
	return find(t, key);
}

static struct track *find_or_add(struct tracks *t, uint64_t key)
{
	struct track *found = find(t, key);

	return found ? found : add_track(t, key);
}

static void add_point(struct track *track, uint64_t wall_ns, double rss_bytes)
{
	track->wall_ns[track->next] = wall_ns;
	track->rss_bytes[track->next] = rss_bytes;
	track->next = (track->next + 1) % TRACK_POINTS;
	if (track->n < TRACK_POINTS)
		track->n++;
}

static double known_f64(uint64_t v)
{
	return u64_known(v) ? (double)v : F64_UNKNOWN;
}

/* ---- what parents got of children that have ended ---- */

/* The nearest that lives of those that started it, as it was last seen; NULL. */
static struct track *living_ancestor(const struct tracks *t, const struct track *track)
{
	struct track *at = track->parent ? find(t, track->parent) : NULL;

	for (int i = 0; i < MAX_LEVELS && at && at->seen != t->n_snapshots; i++)
		at = at->parent ? find(t, at->parent) : NULL;
	return at && at->seen == t->n_snapshots ? at : NULL;
}

/*
 * Of one whose parent is gone too nobody knows which of them ended first: only a parent that
 * outlived it can have handed it on.
 */
static void hand_up_io(struct tracks *t, const struct track *gone)
{
	struct track *ancestor = u64_known(gone->io_bytes) ? living_ancestor(t, gone) : NULL;
	uint64_t *bytes;

	if (!ancestor)
		return;
	bytes = ancestor->key == gone->parent ? &ancestor->waited_bytes : &ancestor->doubtful_bytes;
	*bytes = u64_add(*bytes, gone->io_bytes);
}

/* The same, and each that lives above may have got it: an orphan may go to any of them. */
static void hand_up_cpu(struct tracks *t, const struct track *gone)
{
	uint64_t cpu_ns = u64_add(gone->cpu_ns, gone->ended_cpu_ns);
	struct track *at = gone->parent && u64_known(cpu_ns) ? find(t, gone->parent) : NULL;
	bool is_orphan = at && at->seen != t->n_snapshots;

	for (int i = 0; i < MAX_LEVELS && at; i++) {
		if (at->seen == t->n_snapshots)
			at->told_cpu_ns = u64_add(at->told_cpu_ns, cpu_ns);
		at = is_orphan && at->parent ? find(t, at->parent) : NULL;
	}
}

/* What those had that were there the last time and are not now. */
static void hand_up(struct tracks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->items[i]->seen + 1 != t->n_snapshots)
			continue;
		hand_up_io(t, t->items[i]);
		hand_up_cpu(t, t->items[i]);
	}
}

/* ---- a snapshot ---- */

static double add_known(double sum, double v)
{
	return isnan(v) ? sum : isnan(sum) ? v : sum + v;
}

/* Its point is the sum of its processes': the first of a snapshot begins it. */
static int add_to_group(struct tracks *t, uint64_t key, const struct snapshot *s,
			const struct proc_sample *p)
{
	struct track *group = find_or_add(t, key);
	unsigned last;

	if (!group)
		return -ENOMEM;
	if (group->seen != t->n_snapshots) {
		add_point(group, s->wall_ns, F64_UNKNOWN);
		group->seen = t->n_snapshots;
	}
	last = (group->next + TRACK_POINTS - 1) % TRACK_POINTS;
	group->rss_bytes[last] = add_known(group->rss_bytes[last], known_f64(p->rss_bytes));
	return 0;
}

/* The job, the sheet and the rank that it is of. */
static int add_to_groups(struct tracks *t, const struct snapshot *s, const struct proc_sample *p)
{
	uint64_t key = track_key_of_attempt(p->job_id, p->attempt_id);
	int r = add_to_group(t, key, s, p);

	if (r == 0 && p->sheet_num != SHEET_NONE) {
		key = track_key_below(key, TRACK_SHEET, p->sheet_num);
		r = add_to_group(t, key, s, p);
	}
	if (r == 0 && p->rank != RANK_NONE)
		r = add_to_group(t, track_key_below(key, TRACK_RANK, p->rank), s, p);
	return r;
}

/* Who is there, before anything is made of it. */
static int note_process(struct tracks *t, const struct proc_sample *p)
{
	struct track *track = find_or_add(t, track_key_of_process(&p->key));

	if (!track)
		return -ENOMEM;
	track->seen = t->n_snapshots;
	return map_put(&t->by_pid, (uint64_t)p->key.pid, track->key);
}

static int add_process(struct tracks *t, const struct snapshot *s, const struct proc_sample *p)
{
	struct track *track = find(t, track_key_of_process(&p->key));
	uint64_t boot_ns = u64_known(p->boot_ns) ? p->boot_ns : s->boot_ns;

	if (!track)
		return -ENOMEM;
	track->parent = 0;
	map_get(&t->by_pid, (uint64_t)p->ppid, &track->parent);
	if (!u64_known(boot_ns) || boot_ns != track->boot_ns) { /* else nobody has looked since */
		add_point(track, s->wall_ns, known_f64(p->rss_bytes));
		track_set_rates(track, p, boot_ns, t->before_boot_ns);
	}
	return p->job_id ? add_to_groups(t, s, p) : 0;
}

/* The last one takes the place of one that is gone. */
static void forget_gone(struct tracks *t)
{
	for (size_t i = t->n; i-- > 0;) {
		struct track *track = t->items[i];

		if (t->n_snapshots - track->seen <= FORGET_AFTER)
			continue;
		map_remove(&t->by_key, track->key);
		t->items[i] = t->items[--t->n];
		if (i < t->n)
			map_put(&t->by_key, t->items[i]->key,
				i); /* it is there: no memory is needed */
		free(track);
	}
}

int tracks_add(struct tracks *t, const struct snapshot *s)
{
	int r = 0;

	t->n_snapshots++;
	t->before_boot_ns = t->boot_ns;
	t->boot_ns = s->boot_ns;
	map_clear(&t->by_pid);
	for (size_t i = 0; i < s->n_processes; i++)
		if (note_process(t, &s->processes[i]) < 0)
			r = -ENOMEM;
	hand_up(t);
	for (size_t i = 0; i < s->n_processes; i++)
		if (add_process(t, s, &s->processes[i]) < 0)
			r = -ENOMEM;
	forget_gone(t);
	return r;
}

static unsigned place_of(const struct track *t, unsigned i)
{
	return (t->next + TRACK_POINTS - t->n + i) % TRACK_POINTS;
}

void tracks_put_before(struct tracks *t, uint64_t key, const struct track_point *points, size_t n)
{
	struct track *track = find(t, key);

	if (!track)
		return;
	while (n > 0 && track->n > 0 && points[n - 1].wall_ns >= track_wall_ns(track, 0))
		n--;
	while (n > 0 && track->n < TRACK_POINTS) {
		unsigned at;

		track->n++;
		at = place_of(track, 0);
		track->wall_ns[at] = points[--n].wall_ns;
		track->rss_bytes[at] = points[n].rss_bytes;
	}
}

double track_rss(const struct track *t, unsigned i)
{
	return t->rss_bytes[place_of(t, i)];
}

uint64_t track_wall_ns(const struct track *t, unsigned i)
{
	return t->wall_ns[place_of(t, i)];
}
