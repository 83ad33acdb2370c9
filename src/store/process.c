#include "store/process.h"

#include <string.h>

#include "base/macros.h"
#include "store/failure.h"
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
