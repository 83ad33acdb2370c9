#include "detect/relations.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"

/* Whoever did something so long ago, or at the last two ticks, goes on; never one that is still. */
#define MOVING_SECONDS 30
#define STILL_SHARE 0.9

void relations_release(struct relations *r)
{
	map_release(&r->by_kin);
	free(r->kin);
	*r = (struct relations){ 0 };
}

static bool is_old_zombie(const struct tick *t, const struct track *p)
{
	return p->state == 'Z' && t->now - p->in_state >= t->config->zombie_duration_seconds;
}

static bool is_still(const struct tick *t, const struct track *p)
{
	return p->state != 'Z' && u64_known(p->cpu_ns) &&
	       t->now - p->progressed >= t->config->stuck_duration_seconds;
}

static uint64_t kin_key(const struct track *p, const struct proc_sample *s)
{
	uint64_t h = hash_bytes(HASH_INIT, &p->ppid, sizeof(p->ppid));

	return hash_bytes(h, s->comm, strnlen(s->comm, sizeof(s->comm)));
}

static int find_kin(struct relations *r, uint64_t key, struct kin **ret)
{
	uint64_t i;

	if (!map_get(&r->by_kin, key, &i)) {
		i = r->n_kin;
		if (ARRAY_RESERVE(r->kin, r->cap_kin, r->n_kin + 1) < 0 ||
		    map_put(&r->by_kin, key, i) < 0)
			return -ENOMEM;
		r->kin[r->n_kin++] = (struct kin){ 0 };
	}
	*ret = &r->kin[i];
	return 0;
}

static bool is_moving(const struct tick *t, const struct track *p)
{
	double still = t->config->stuck_duration_seconds;
	double recent = fmin(MOVING_SECONDS, still / 2);

	if (f64_known(t->step))
		recent = fmax(recent, 2 * t->step);
	return t->now - p->progressed <= fmin(recent, still * STILL_SHARE);
}

int relations_find(struct relations *r, struct tracks *ts, const struct tick *t,
		   const size_t *track_of)
{
	const struct snapshot *s = t->snap;
	bool is_needed = false;
	struct kin *kin;

	for (size_t i = 0; !is_needed && i < ts->n; i++)
		is_needed = ts->items[i].seen_tick == ts->tick &&
			    (is_old_zombie(t, &ts->items[i]) || is_still(t, &ts->items[i]));
	if (!is_needed)
		return 0;
	map_clear(&r->by_kin);
	r->n_kin = 0;
	for (size_t i = 0; i < s->n_processes; i++) {
		struct track *p = track_of[i] == TRACK_NONE ? NULL : &ts->items[track_of[i]];
		struct track *parent = p ? detect_tracks_by_pid(ts, p->ppid) : NULL;
		bool has_parent = parent && parent->seen_tick == ts->tick;

		if (!p)
			continue;
		/* The parent of a zombie is to blame; of one outside, the job has the count. */
		if (is_old_zombie(t, p) && has_parent) {
			parent->n_zombies++;
		} else if (is_old_zombie(t, p) && p->job) {
			p->job->n_zombies++;
			p->job->zombie_parent = p->ppid;
		} else if (p->state != 'Z' && has_parent) {
			parent->n_children++;
		}
		/* One that is new has not gone on while others stood still. */
		if (p->state == 'Z' || t->now - p->born < t->config->stuck_duration_seconds)
			continue;
		if (find_kin(r, kin_key(p, &s->processes[i]), &kin) < 0)
			return -ENOMEM;
		kin->n++;
		kin->n_moving += is_moving(t, p);
	}
	for (size_t i = 0; i < s->n_processes; i++) {
		struct track *p = track_of[i] == TRACK_NONE ? NULL : &ts->items[track_of[i]];

		if (!p || !is_still(t, p) || find_kin(r, kin_key(p, &s->processes[i]), &kin) < 0)
			continue;
		p->n_like = kin->n > 0 ? kin->n - 1 : 0; /* without itself, which does not move */
		p->n_like_moving = kin->n_moving;
	}
	return 0;
}

/* ---- culprits ---- */

static bool is_there(const struct tracks *ts, const struct track *p)
{
	return p->seen_tick == ts->tick && p->state != 'Z';
}

/* Without memory some are not counted. */
static uint64_t count_child(struct map *children, pid_t parent)
{
	uint64_t n = 0;

	map_get(children, (uint64_t)parent, &n);
	return map_put(children, (uint64_t)parent, n + 1) < 0 ? 0 : n + 1;
}

const struct track *culprit_of_processes(struct tracks *ts, const struct job_track *job)
{
	CLEANUP(map_release) struct map children = MAP_INIT;
	const struct track *worst = NULL;
	uint64_t most = 1;

	for (size_t i = 0; i < ts->n; i++) {
		const struct track *p = &ts->items[i], *parent;
		uint64_t n = p->job == job && is_there(ts, p) ? count_child(&children, p->ppid) : 0;

		if (n <= most)
			continue;
		parent = detect_tracks_by_pid(ts, p->ppid);
		if (!parent || parent->job != job || !is_there(ts, parent))
			continue;
		worst = parent;
		most = n;
	}
	return worst;
}

static bool is_inside(const char *cgroup, const char *path)
{
	size_t n = strlen(path);

	return cgroup && strncmp(cgroup, path, n) == 0 &&
	       (cgroup[n] == '\0' || cgroup[n] == '/' || (n > 0 && path[n - 1] == '/'));
}

const struct track *culprit_of_cgroup(const struct tracks *ts, const struct snapshot *snap,
				      const size_t *track_of, const char *path)
{
	const struct track *worst = NULL;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct track *p = track_of[i] == TRACK_NONE ? NULL : &ts->items[track_of[i]];

		if (!p || !f64_known(p->memory_mb) || !is_inside(snap->processes[i].cgroup, path))
			continue;
		if (!worst || p->memory_mb > worst->memory_mb)
			worst = p;
	}
	return worst;
}
