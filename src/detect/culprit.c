#include "detect/culprit.h"

#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

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
