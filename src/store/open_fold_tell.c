#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/failure.h"
#include "store/fold_calls.h"
#include "store/open_fold_internal.h"

int64_t open_fold_process_id(const struct open_fold *fold, size_t i)
{
	return fold->processes[i].process.id;
}

int open_fold_sample(struct store *store, const struct open_fold *fold, size_t i,
		     struct proc_sample *ret, int *ret_attempt_num, struct err *err)
{
	const struct fold_tick *tick = &fold->ticks[fold->current];
	const struct fold_process *p = &fold->processes[i];
	uint8_t row = p->row_of[tick->index];

	if (row == NO_ROW)
		return 0;
	process_at(&p->process, tick->id, ret);
	*ret_attempt_num = p->process.attempt_num;
	fold_calls_tell(p->calls, tick->index, ret);
	if (sample_from_words(p->rows[row], fold->head.columns[HOST_BOOT_NS][tick->index], ret) ==
	    0)
		return 1;
	return open_fold_leave_out(store, fold, DAMAGED_SAMPLES,
				   fold->id << CHUNK_BITS | p->process.id, 1, err);
}

/* The words of a thing at a tick; false: it was not there. */
static bool words_at(const struct table *t, unsigned tick, unsigned n_words, uint64_t *ret)
{
	for (unsigned i = 0; i < t->n; i++) {
		if (t->tick[i] != tick)
			continue;
		for (unsigned k = 0; k < n_words; k++)
			ret[k] = t->columns[k][i];
		return true;
	}
	return false;
}

static const char *string_at(const struct open_fold *fold, uint64_t number, struct arena *arena)
{
	return number < fold->strings.n ? arena_strdup(arena, fold->strings.items[number]) : NULL;
}

/* Items with room for one more; they have as much as the next power of two says. */
static void *make_room(struct arena *arena, void *items, size_t n, size_t size)
{
	void *more;

	if (n > 0 && (n & (n - 1)) != 0)
		return items;
	more = arena_alloc(arena, (n ? n * 2 : 1) * size);
	if (more && n > 0)
		memcpy(more, items, n * size);
	return more;
}

static int add_gpu(struct snapshot *s, const uint64_t *words)
{
	struct gpu_sample *gpus = make_room(&s->arena, s->gpus, s->n_gpus, sizeof(*gpus));

	if (!gpus)
		return -ENOMEM;
	s->gpus = gpus;
	return gpu_from_words(words, &gpus[s->n_gpus++]);
}

static int add_progress(const struct open_fold *fold, struct snapshot *s, const uint64_t *words)
{
	struct job_progress *items =
		make_room(&s->arena, s->progress, s->n_progress, sizeof(*items));

	if (!items)
		return -ENOMEM;
	s->progress = items;
	items += s->n_progress++;
	*items = (struct job_progress){
		.job_id = string_at(fold, words[PROGRESS_JOB], &s->arena),
		.status = string_at(fold, words[PROGRESS_STATUS], &s->arena),
	};
	return progress_from_words(words, items);
}

/* The one without a path says that somebody looked. */
static int add_cgroup(const struct open_fold *fold, struct snapshot *s, const uint64_t *words)
{
	struct cgroup_sample *items =
		make_room(&s->arena, s->cgroups, s->n_cgroups, sizeof(*items));

	if (!items)
		return -ENOMEM;
	s->cgroups = items;
	if (!u64_known(words[CGROUP_PATH]))
		return 0;
	items += s->n_cgroups++;
	cgroup_sample_init(items); /* not all of it is in the record */
	items->path = string_at(fold, words[CGROUP_PATH], &s->arena);
	return cgroup_from_words(words, items);
}

static int add_thing(const struct open_fold *fold, enum tick_list list, struct snapshot *s,
		     const uint64_t *words)
{
	switch (list) {
	case LIST_GPUS:
		return add_gpu(s, words);
	case LIST_PROGRESS:
		return add_progress(fold, s, words);
	default:
		return add_cgroup(fold, s, words);
	}
}

static int tell_things(const struct open_fold *fold, enum tick_list list,
		       struct fold_reader *things, struct table *t, struct snapshot *ret)
{
	unsigned tick = fold->ticks[fold->current].index;
	uint64_t words[WORDS_MAX];
	int r;

	while ((r = fold_read_thing(things, list, t)) > 0) {
		if (!words_at(t, tick, list_words[list], words))
			continue;
		r = add_thing(fold, list, ret, words);
		if (r < 0)
			return r;
	}
	return r;
}

static int tell_all_things(const struct open_fold *fold, struct snapshot *ret)
{
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	struct fold_reader things = fold->things;
	unsigned tick = fold->ticks[fold->current].index;
	int r = t ? 0 : -ENOMEM;

	if (r == 0 && u64_known(fold->head.columns[HEAD_HAS_GPUS][tick])) {
		ret->gpus = arena_alloc(&ret->arena, sizeof(*ret->gpus)); /* none is not unknown */
		r = ret->gpus ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = tell_things(fold, LIST_GPUS, &things, t, ret);
	if (r == 0)
		r = tell_things(fold, LIST_PROGRESS, &things, t, ret);
	return r < 0 ? r : tell_things(fold, LIST_CGROUPS, &things, t, ret);
}

/*
 * A tick of a daemon names the daemon: one that does not is a closer look at one job. Looks are
 * few, so where all names are lost to damage it is taken for one of the host.
 */
static enum snapshot_covers covers_of(const struct open_fold *fold, const struct snapshot *s)
{
	if (fold->recorder > 0)
		return COVERS_JOB;
	return s->daemon_pid > 0 || !fold->is_whole ? COVERS_HOST : COVERS_LOOK;
}

static int tell_host(const struct open_fold *fold, struct snapshot *ret)
{
	int r;

	unsigned tick = fold->ticks[fold->current].index;
	uint64_t words[HEAD_WORDS];

	for (unsigned k = 0; k < HEAD_WORDS; k++)
		words[k] = fold->head.columns[k][tick];
	memcpy(ret->boot_id, fold->boot_id, sizeof(ret->boot_id));
	ret->pressure_level = string_at(fold, words[HEAD_LEVEL], &ret->arena);
	r = host_from_words(words, ret);
	ret->covers = covers_of(fold, ret);
	return r;
}

static int tell_processes(struct store *store, const struct open_fold *fold, unsigned parts,
			  struct snapshot *ret, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < fold->n_processes; i++) {
		struct proc_sample sample;
		int num;

		r = open_fold_sample(store, fold, i, &sample, &num, err);
		if (r > 0) {
			struct proc_sample *p = snapshot_add_process(ret);

			if (p)
				*p = sample;
			if (p && parts & FOLD_ATTEMPTS)
				p->attempt_id = fold->processes[i].process.attempt_id;
			r = p ? 0 : store_no_memory(store, err);
		}
	}
	return r;
}

/* What of the tick makes no sense is left out, and nothing else of it. */
static int settle(struct store *store, const struct open_fold *fold, int r, struct err *err)
{
	if (r == -ENOMEM)
		return store_no_memory(store, err);
	return r < 0 ? open_fold_leave_out(store, fold, DAMAGED_THINGS,
					   fold->ticks[fold->current].id, 1, err)
		     : 0;
}

int open_fold_snapshot(struct store *store, const struct open_fold *fold, unsigned parts,
		       struct snapshot *ret, struct err *err)
{
	int r = parts & FOLD_HOST ? settle(store, fold, tell_host(fold, ret), err) : 0;

	ret->recorder = fold->recorder;
	if (r == 0 && parts & FOLD_THINGS && fold->is_whole)
		r = settle(store, fold, tell_all_things(fold, ret), err);
	if (r == 0 && parts & FOLD_PROCESSES)
		r = tell_processes(store, fold, parts, ret, err);
	if (r == 0 && ret->covers == COVERS_JOB)
		ret->covered_job = fold->job_id;
	else if (r == 0 && ret->covers == COVERS_LOOK && ret->n_processes > 0 && fold->is_whole)
		ret->covered_job = ret->processes[0].job_id;
	return r;
}
