#include "store/process.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/read.h"
#include "store/tables.h"

/* What a process was called up to some tick. */
struct process_image {
	int64_t until_tick;
	struct proc_sample process; /* the columns of images alone */
	struct process_image *next;
};

static int read_image(struct query *q, struct arena *arena, struct process_image **ret,
		      struct err *err)
{
	struct process_image *image = arena_alloc(arena, sizeof(*image));

	if (!image)
		return store_no_memory(q->store, err);
	proc_sample_init(&image->process);
	image->until_tick = query_read_i64(q);
	image->next = NULL;
	*ret = image;
	return query_read_columns(q, &image_columns, &image->process, arena, err);
}

static int read_images(struct store *store, struct arena *arena, struct process *p, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct process_image **last = &p->images;
	int r = query_open(store, STATEMENT_WALK_IMAGES, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, p->id);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		r = read_image(&q, arena, last, err);
		if (r == 0)
			last = &(*last)->next;
	}
	return r;
}

int process_read(struct query *q, struct arena *arena, struct process *ret, struct err *err)
{
	bool has_images;
	int r;

	*ret = (struct process){ .id = query_read_i64(q) };
	proc_sample_init(&ret->last);
	has_images = query_read_i64(q);
	ret->attempt_num = (int)query_read_i64(q);
	ret->attempt_id = query_read_i64(q);
	ret->last.job_id = arena_strdup(arena, query_read_text(q));
	if (!ret->last.job_id)
		return store_no_memory(q->store, err);
	r = query_read_columns(q, &sample_process_columns, &ret->last, arena, err);
	return r < 0 || !has_images ? r : read_images(q->store, arena, ret, err);
}

void process_at(const struct process *p, int64_t tick_id, struct proc_sample *ret)
{
	const struct process_image *image = p->images;

	*ret = p->last;
	while (image && image->until_tick < tick_id)
		image = image->next;
	if (!image)
		return;
	ret->sheet_num = image->process.sheet_num;
	ret->rank = image->process.rank;
	memcpy(ret->comm, image->process.comm, sizeof(ret->comm));
	ret->command = image->process.command;
	ret->cgroup = image->process.cgroup;
}

#define SMALL 64

void process_set_release(struct process_set *set)
{
	free(set->ids);
	*set = (struct process_set){ 0 };
}

static int add(struct process_set *set, struct store *store, int64_t process, struct err *err)
{
	if (ARRAY_RESERVE(set->ids, set->cap, set->n + 1) < 0)
		return store_no_memory(store, err);
	set->ids[set->n++] = process;
	return 0;
}

static int list(struct process_set *set, struct store *store, pid_t pid, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(
		store, set->job ? STATEMENT_PROCESSES_OF_JOB : STATEMENT_PROCESSES_OF_PID, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, pid);
	if (set->job)
		query_bind_i64(&q, set->job);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = add(set, store, query_read_i64(&q), err);
	return r;
}

int process_set_find(struct process_set *set, struct store *store, const char *job_id, pid_t pid,
		     struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r;

	set->is_filtered = job_id || pid;
	if (!set->is_filtered)
		return 0;
	r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);
	if (r == 0 && job_id)
		r = job_find_row(store, job_id, &set->job, err);
	return r < 0 ? r : list(set, store, pid, err);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

bool process_set_has(const struct process_set *set, int64_t process)
{
	return !set->is_filtered ||
	       bsearch(&process, set->ids, set->n, sizeof(process), compare_ids);
}

bool process_set_is_small(const struct process_set *set)
{
	return set->is_filtered && set->n <= SMALL;
}
