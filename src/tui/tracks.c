#include "tui/tracks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"

#define FORGET_AFTER 30		   /* snapshots */
#define MAX_LEVELS 64		   /* of processes below each other that end at once */
#define TICK_NS UINT64_C(10000000) /* in which the kernel tells of children that have ended */
#define ROUNDED_NS (2 * TICK_NS)   /* user and system time are each rounded down */

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

	if (ARRAY_RESERVE(t->items, t->cap, t->n + 1) < 0)
		return NULL;
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

/*
 * What those had that were there the last time and are not now. I/O goes to the nearest ancestor
 * that lives: only a parent that outlived it can have got it for certain; of one whose parent is
 * gone too it is not known which of them ended first. CPU time of such an orphan each that lives
 * above may have got: it may go to any of them.
 */
static void hand_up(struct tracks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct track *gone = t->items[i];
		struct track *parent = gone->parent ? find(t, gone->parent) : NULL, *at = parent;
		uint64_t cpu_ns = u64_add(gone->cpu_ns, gone->ended_cpu_ns), *bytes;
		bool has_io = u64_known(gone->io_bytes), is_cpu_wanted = u64_known(cpu_ns);

		if (gone->seen + 1 != t->n_snapshots)
			continue;
		for (int level = 0; level < MAX_LEVELS && at && (has_io || is_cpu_wanted);
		     level++) {
			if (at->seen == t->n_snapshots && has_io) {
				bytes = at == parent ? &at->waited_bytes : &at->doubtful_bytes;
				*bytes = u64_add(*bytes, gone->io_bytes);
				has_io = false;
			}
			if (at->seen == t->n_snapshots && is_cpu_wanted) {
				at->told_cpu_ns = u64_add(at->told_cpu_ns, cpu_ns);
				is_cpu_wanted = at != parent;
			}
			at = at->parent ? find(t, at->parent) : NULL;
		}
	}
}

/* ---- rates ---- */

/*
 * Growth without the bytes of children that it waited for. Less than theirs cannot include them: a
 * process that ignores SIGCHLD gets nothing of its children. The record does not say which does;
 * but one that gets their CPU time gets their bytes with it.
 */
static uint64_t own_growth(const struct track *track, const struct proc_sample *p, uint64_t bytes)
{
	uint64_t grown = u64_delta(bytes, track->io_bytes);
	uint64_t waited = track->waited_bytes, doubtful = track->doubtful_bytes;
	bool is_unsure = p->ignores_sigchld == SIGCHLD_UNKNOWN && !track->has_waited;

	if (!u64_known(grown) || p->ignores_sigchld > 0)
		return grown;
	if (is_unsure) {
		doubtful = u64_add(doubtful, waited);
		waited = 0;
	}
	if (grown >= waited)
		grown -= waited;
	return doubtful > 0 && grown >= doubtful ? U64_UNKNOWN : grown;
}

/* Per nanosecond. */
static double rate_of(uint64_t grown, uint64_t elapsed_ns)
{
	return u64_known(grown) && u64_known(elapsed_ns) && elapsed_ns > 0
		       ? (double)grown / (double)elapsed_ns
		       : F64_UNKNOWN;
}

/* What was rounded away may come in the next tick: it is kept back until then. */
static uint64_t ended_growth(struct track *track, uint64_t ended_ns)
{
	uint64_t grown = u64_delta(ended_ns, track->ended_cpu_ns);
	uint64_t told = track->told_cpu_ns;

	track->told_cpu_ns = 0;
	if (!u64_known(grown) || !u64_known(told))
		return grown == 0 ? 0 : U64_UNKNOWN;
	if (grown >= told)
		return grown - told;
	track->told_cpu_ns = told - grown < ROUNDED_NS ? told - grown : ROUNDED_NS;
	return 0;
}

/* How fast its counters grow, from one look at it to the next: before_boot_ns is when the snapshot
 * before was made, or unknown. */
static void set_rates(struct track *track, const struct proc_sample *p, uint64_t boot_ns,
		      uint64_t before_boot_ns)
{
	uint64_t elapsed_ns = u64_delta(boot_ns, track->boot_ns);
	uint64_t since_ns = u64_delta(boot_ns, before_boot_ns);
	uint64_t ended_cpu_ns = u64_add(p->child_user_ns, p->child_system_ns);
	uint64_t ended_ns = u64_delta(ended_cpu_ns, track->ended_cpu_ns);
	uint64_t io_bytes = u64_add(p->rchar, p->wchar);
	double own, ended;

	track->has_waited |= u64_known(ended_ns) && ended_ns > 0;
	if (!u64_known(track->boot_ns) && u64_known(since_ns) && f64_known(p->age_seconds) &&
	    p->age_seconds * 1e9 <= (double)(since_ns + TICK_NS)) {
		/* it began after the snapshot before: all that it did it has done since */
		track->io_bytes = track->cpu_ns = track->ended_cpu_ns = 0;
		elapsed_ns = since_ns;
	}
	track->io_rate = rate_of(own_growth(track, p, io_bytes), elapsed_ns) * 1e9;
	track->io_bytes = io_bytes;
	track->waited_bytes = track->doubtful_bytes = 0;
	own = rate_of(u64_delta(p->cpu_ns, track->cpu_ns), elapsed_ns) * 100;
	if (f64_known(p->cpu_percent))
		own = p->cpu_percent;
	ended = rate_of(ended_growth(track, ended_cpu_ns), elapsed_ns) * 100;
	track->cpu_percent = f64_known(ended) ? own + ended : own;
	track->cpu_ns = p->cpu_ns;
	track->ended_cpu_ns = ended_cpu_ns;
	track->boot_ns = boot_ns;
}

/* ---- a snapshot ---- */

/* Its point is the sum of its processes': the first of a snapshot begins it. */
static int add_to_group(struct tracks *t, uint64_t key, const struct snapshot *s,
			const struct proc_sample *p)
{
	struct track *group = find(t, key);
	unsigned last;

	group = group ? group : add_track(t, key);
	if (!group)
		return -ENOMEM;
	if (group->seen != t->n_snapshots) {
		add_point(group, s->wall_ns, F64_UNKNOWN);
		group->seen = t->n_snapshots;
	}
	last = (group->next + TRACK_POINTS - 1) % TRACK_POINTS;
	group->rss_bytes[last] = f64_add_known(group->rss_bytes[last], known_f64(p->rss_bytes));
	return 0;
}

static int add_process(struct tracks *t, const struct snapshot *s, const struct proc_sample *p)
{
	struct track *track = find(t, track_key_of_process(&p->key));
	uint64_t boot_ns = u64_known(p->boot_ns) ? p->boot_ns : s->boot_ns, key;
	int r;

	if (!track)
		return -ENOMEM;
	track->parent = 0;
	map_get(&t->by_pid, (uint64_t)p->ppid, &track->parent);
	if (!u64_known(boot_ns) ||
	    boot_ns != track->boot_ns) { /* else it was not looked at since */
		add_point(track, s->wall_ns, known_f64(p->rss_bytes));
		set_rates(track, p, boot_ns, t->before_boot_ns);
	}
	if (!p->job_id)
		return 0;
	key = track_key_of_attempt(p->job_id, p->attempt_id);
	r = add_to_group(t, key, s, p);
	if (r == 0 && p->sheet_num != SHEET_NONE) {
		key = track_key_below(key, TRACK_SHEET, p->sheet_num);
		r = add_to_group(t, key, s, p);
	}
	if (r == 0 && p->rank != RANK_NONE)
		r = add_to_group(t, track_key_below(key, TRACK_RANK, p->rank), s, p);
	return r;
}

int tracks_add(struct tracks *t, const struct snapshot *s)
{
	int r = 0;

	t->n_snapshots++;
	t->before_boot_ns = t->boot_ns;
	t->boot_ns = s->boot_ns;
	map_clear(&t->by_pid);
	for (size_t i = 0; i < s->n_processes; i++) { /* those that are there, before all else */
		const struct proc_key *process = &s->processes[i].key;
		uint64_t key = track_key_of_process(process);
		struct track *track = find(t, key);

		track = track ? track : add_track(t, key);
		if (!track || map_put(&t->by_pid, (uint64_t)process->pid, key) < 0)
			r = -ENOMEM;
		if (track)
			track->seen = t->n_snapshots;
	}
	hand_up(t);
	for (size_t i = 0; i < s->n_processes; i++)
		if (add_process(t, s, &s->processes[i]) < 0)
			r = -ENOMEM;
	/* The last one takes the place of one that is gone. */
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
