#include "tui/track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

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
	track->io_bytes = track->boot_ns = U64_UNKNOWN;
	track->io_rate = F64_UNKNOWN;
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

/* ---- I/O ---- */

/*
 * Without what it got from children that it waited for. What is less than theirs cannot have it in
 * it: who does not care for their ends (SIGCHLD) gets nothing of them.
 */
static uint64_t own_growth(const struct track *track, const struct proc_sample *p, uint64_t bytes)
{
	uint64_t grown = u64_delta(bytes, track->io_bytes);
	uint64_t waited = track->waited_bytes, doubtful = track->doubtful_bytes;

	if (!u64_known(grown) || p->ignores_sigchld > 0)
		return grown;
	if (p->ignores_sigchld == SIGCHLD_UNKNOWN) {
		doubtful = u64_add(doubtful, waited);
		waited = 0;
	}
	if (grown >= waited)
		grown -= waited;
	return doubtful > 0 && grown >= doubtful ? U64_UNKNOWN : grown;
}

static void set_io_rate(struct track *track, const struct proc_sample *p, uint64_t boot_ns)
{
	uint64_t bytes = u64_add(p->rchar, p->wchar);
	uint64_t grown = own_growth(track, p, bytes);
	uint64_t elapsed_ns = u64_delta(boot_ns, track->boot_ns);

	track->io_rate = u64_known(grown) && u64_known(elapsed_ns) && elapsed_ns > 0
				 ? (double)grown * 1e9 / (double)elapsed_ns
				 : F64_UNKNOWN;
	track->io_bytes = bytes;
	track->waited_bytes = track->doubtful_bytes = 0;
	track->boot_ns = boot_ns;
}

/* The nearest that lives of those that started it, as it was last seen; NULL. */
static struct track *living_ancestor(const struct tracks *t, const struct track *track)
{
	struct track *at = track->parent ? find(t, track->parent) : NULL;

	for (int i = 0; i < MAX_LEVELS && at && at->seen != t->n_snapshots; i++)
		at = at->parent ? find(t, at->parent) : NULL;
	return at && at->seen == t->n_snapshots ? at : NULL;
}

/*
 * What those had that were there the last time and are not now. Of one whose parent is gone too
 * nobody knows which of them ended first: only a parent that outlived it can have handed it on.
 */
static void hand_up(struct tracks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct track *gone = t->items[i];
		struct track *ancestor;
		uint64_t *bytes;

		if (gone->seen + 1 != t->n_snapshots || !u64_known(gone->io_bytes))
			continue;
		ancestor = living_ancestor(t, gone);
		if (!ancestor)
			continue;
		bytes = ancestor->key == gone->parent ? &ancestor->waited_bytes
						      : &ancestor->doubtful_bytes;
		*bytes = u64_add(*bytes, gone->io_bytes);
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
		set_io_rate(track, p, boot_ns);
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
