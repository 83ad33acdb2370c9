#include "store/tick_fill.h"

#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "store/fold_calls.h"

static int fill_head(struct tick *t, const struct snapshot *s)
{
	host_to_words(s, t->head);
	t->head[HEAD_LEVEL] = tick_add_string(t, s->pressure_level);
	t->head[HEAD_HAS_GPUS] = s->gpus ? 1 : U64_UNKNOWN;
	for (size_t i = 0; i < s->n_gpus; i++) {
		uint64_t *words = tick_add(t, LIST_GPUS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		gpu_to_words(&s->gpus[i], words);
	}
	for (size_t i = 0; i < s->n_progress; i++) {
		uint64_t *words = tick_add(t, LIST_PROGRESS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		progress_to_words(&s->progress[i], words);
		words[PROGRESS_JOB] = tick_add_string(t, s->progress[i].job_id);
		words[PROGRESS_STATUS] = tick_add_string(t, s->progress[i].status);
	}
	return 0;
}

/* Where somebody looked and there was none, a row without a path says so. */
static int fill_cgroups(struct tick *t, const struct snapshot *s)
{
	size_t n = s->cgroups && s->n_cgroups == 0 ? 1 : s->n_cgroups;

	for (size_t i = 0; i < n; i++) {
		uint64_t *words = tick_add(t, LIST_CGROUPS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		memset(words, 0xff, CGROUP_WORDS * sizeof(*words)); /* all unknown */
		if (i == s->n_cgroups)
			continue;
		words[CGROUP_PATH] = tick_add_string(t, s->cgroups[i].path);
		cgroup_to_words(&s->cgroups[i], words);
	}
	return 0;
}

/* Also of attempts without a point: that they have rows tells that they were watched. */
static int fill_points(struct tick *t, const struct tick_owners *owners,
		       const struct tick_record *record)
{
	for (size_t k = 0; k < owners->n; k++) {
		size_t i = owners->by_id[k].index;
		uint64_t *words = tick_add(t, LIST_POINTS, owners->by_id[k].id);

		if (!words)
			return -ENOMEM;
		if (record->points)
			point_to_words(&record->points[i], words);
		else
			memset(words, 0xff, POINT_WORDS * sizeof(*words)); /* all unknown */
	}
	return 0;
}

static int fill_samples(struct tick *t, const struct snapshot *s,
			const struct listed_process *listed, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t *words = tick_add(t, LIST_SAMPLES, listed[i].id);

		if (!words)
			return -ENOMEM;
		sample_to_words(&s->processes[listed[i].index], s->boot_ns, words);
	}
	return 0;
}

static int fill_calls(struct tick *t, struct call_names *names, const struct snapshot *s,
		      const struct listed_process *listed, size_t n)
{
	int r = 0;

	call_names_begin_tick(names);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = tick_add_calls(t, names, listed[i].id, &s->processes[listed[i].index]);
	return r;
}

int tick_fill(struct tick_writing *w, const struct tick_record *record, size_t n)
{
	int r = fill_head(&w->now, record->snap);

	if (r == 0)
		r = fill_points(&w->now, &w->owners, record);
	if (r == 0)
		r = fill_samples(&w->now, record->snap, w->listed, n);
	if (r == 0)
		r = fill_calls(&w->now, &w->call_names, record->snap, w->listed, n);
	return r < 0 ? r : fill_cgroups(&w->now, record->snap);
}
