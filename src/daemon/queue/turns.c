#include "daemon/queue/turns.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"

struct turn {
	struct queued *job;
	uint64_t n_before; /* of the same user: those that run, and those that wait before it */
	uid_t distance;	   /* of the user from whom it was the turn of */
	size_t order;	   /* in the queue */
};

static int compare(const void *left, const void *right)
{
	const struct turn *a = left, *b = right;

	if (a->n_before != b->n_before)
		return a->n_before < b->n_before ? -1 : 1;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static int count_one(struct map *n_of, uid_t uid, uint64_t *ret_before)
{
	*ret_before = 0;
	map_get(n_of, uid, ret_before);
	return map_put(n_of, uid, *ret_before + 1);
}

static size_t count_all(struct queue *q)
{
	size_t n = 0;

	while (queue_at(q, n))
		n++;
	return n;
}

/* First those that run, then those that wait: each has the number of those before it. */
static int number(struct queue *q, uid_t last_uid, struct turn *turns, size_t *ret_n)
{
	CLEANUP(map_release) struct map n_of = MAP_INIT;
	struct queued *job;
	uint64_t n_before;
	size_t n = 0;

	for (size_t i = 0; (job = queue_at(q, i)); i++)
		if (job->is_started && count_one(&n_of, job->uid, &n_before) < 0)
			return -ENOMEM;
	for (size_t i = 0; (job = queue_at(q, i)); i++) {
		if (job->is_started)
			continue;
		if (count_one(&n_of, job->uid, &n_before) < 0)
			return -ENOMEM;
		turns[n++] = (struct turn){ job, n_before, (uid_t)(job->uid - last_uid - 1), i };
	}
	*ret_n = n;
	return 0;
}

int turns_take(struct queue *q, uid_t last_uid, struct queued ***ret, size_t *ret_n)
{
	CLEANUP(free_ptr) struct turn *turns = NULL;
	CLEANUP(free_ptr) struct queued **jobs = NULL;
	size_t n = count_all(q);
	int r;

	turns = reallocarray(NULL, n + 1, sizeof(*turns));
	jobs = reallocarray(NULL, n + 1, sizeof(*jobs));
	if (!turns || !jobs)
		return -ENOMEM;
	r = number(q, last_uid, turns, &n);
	if (r < 0)
		return r;
	qsort(turns, n, sizeof(*turns), compare);
	for (size_t i = 0; i < n; i++)
		jobs[i] = turns[i].job;
	*ret = TAKE_PTR(jobs);
	*ret_n = n;
	return 0;
}
