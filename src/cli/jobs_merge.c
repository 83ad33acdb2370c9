#include "cli/jobs_merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

/* Both have the same number, but for what a fraction of seconds has lost on its way. */
#define SAME_START_NS 2000000.0

static double apart_ns(const struct attempt *a, const struct attempt *b)
{
	return (double)a->started_wall_ns - (double)b->started_wall_ns;
}

static bool is_same_job(const struct attempt *a, const struct attempt *b)
{
	return a->uid == b->uid && strcmp(a->job_id, b->job_id) == 0;
}

static bool is_same(const struct attempt *a, const struct attempt *b)
{
	return is_same_job(a, b) && fabs(apart_ns(a, b)) < SAME_START_NS;
}

/* Among the first n. */
static bool is_listed(const struct attempt_list *list, size_t n, const struct attempt *a)
{
	for (size_t i = 0; i < n; i++)
		if (is_same(&list->items[i], a))
			return true;
	return false;
}

static int append(struct attempt_list *list, const struct attempt *a)
{
	struct attempt *items = reallocarray(list->items, list->n + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	list->items = items;
	list->items[list->n++] = *a;
	return 0;
}

int jobs_add_running(const struct live_jobs *live, struct attempt_list *list)
{
	size_t n = list->n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < live->n_running; i++)
		if (!is_listed(list, n, &live->running[i]))
			r = append(list, &live->running[i]);
	return r;
}

/* ---- what a daemon has recorded ---- */

struct adding {
	struct attempt_list *list;
	bool latest_only;
	size_t n_own; /* those of our own database come first */
	bool has_added;
};

/* Of its job and user; NULL: there is none. */
static struct attempt *find_job(const struct adding *adding, const struct attempt *a)
{
	for (size_t i = 0; i < adding->n_own; i++)
		if (is_same_job(&adding->list->items[i], a))
			return &adding->list->items[i];
	return NULL;
}

static int on_attempt(void *ctx, const struct rpc_value *row)
{
	struct adding *adding = ctx;
	struct attempt a, *own;
	int r = live_read_attempt(row, &adding->list->arena, &a);

	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	own = adding->latest_only ? find_job(adding, &a) : NULL;
	if (own && apart_ns(own, &a) > -SAME_START_NS)
		return 0; /* ours is the same, or newer */
	if (!own && is_listed(adding->list, adding->n_own, &a))
		return 0;
	adding->has_added = true;
	if (!own)
		return append(adding->list, &a);
	*own = a;
	return 0;
}

static int compare_start(const void *a, const void *b)
{
	const struct attempt *x = a, *y = b;

	return (x->started_wall_ns > y->started_wall_ns) -
	       (x->started_wall_ns < y->started_wall_ns);
}

int jobs_add_elsewhere(const struct elsewhere_question *question, struct attempt_list *list)
{
	struct adding adding = { list, question->latest_only, list->n, false };
	struct err err = ERR_INIT;
	int r = elsewhere_read(ELSEWHERE_ATTEMPTS, question, on_attempt, &adding, &err);

	if (adding.has_added)
		qsort(list->items, list->n, sizeof(*list->items), compare_start);
	return r == -ENOMEM ? r : 0;
}

/* ---- numbers ---- */

static const struct attempt *find_number(const struct attempt_list *list, int num)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].attempt_num == num)
			return &list->items[i];
	return NULL;
}

/* In a database that is the daemon's own, too, each has the number that it had. */
int jobs_match_number(const struct attempt_list *own, const struct attempt_list *theirs, int num)
{
	const struct attempt *ours = find_number(own, num);
	const struct attempt *same = find_number(theirs, num);

	if (!ours)
		return same && !is_listed(own, own->n, same) ? num : 0;
	if (same && is_same(same, ours))
		return num;
	for (size_t i = 0; i < theirs->n; i++)
		if (is_same(&theirs->items[i], ours))
			return theirs->items[i].attempt_num;
	return 0;
}

int jobs_number_here(const struct attempt_list *own, const struct attempt *told)
{
	for (size_t i = 0; i < own->n; i++)
		if (is_same(&own->items[i], told))
			return own->items[i].attempt_num;
	return told->attempt_num;
}

/* Nothing, where no daemon is there. */
static int read_theirs(const char *job_id, struct attempt_list *ret, struct err *err)
{
	const struct elsewhere_question question = { .job_id = job_id };
	struct adding adding = { .list = ret };
	int r = elsewhere_read(ELSEWHERE_ATTEMPTS, &question, on_attempt, &adding, err);

	return r == -ENOENT ? 0 : r;
}

int jobs_find_elsewhere(const char *job_id, const struct attempt_list *own, int num, int *ret,
			struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list theirs = { 0 };
	int r = read_theirs(job_id, &theirs, err);

	if (r < 0)
		return r;
	*ret = jobs_match_number(own, &theirs, num);
	if (*ret > 0)
		return 0;
	return err_set(err, -ENOENT, "the daemon knows of no attempt %d of a job %s", num, job_id);
}

int jobs_check_only(const char *job_id, uint64_t uid, int num, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list theirs = { 0 };
	bool is_there = false;
	size_t n = 0;
	int r = read_theirs(job_id, &theirs, err);

	for (size_t i = 0; r == 0 && i < theirs.n; i++) {
		n += theirs.items[i].uid == uid;
		is_there = is_there ||
			   (theirs.items[i].uid == uid && theirs.items[i].attempt_num == num);
	}
	if (r < 0 || (n == 1 && is_there))
		return r;
	return err_set(err, -EINVAL,
		       "attempt %d of %s may be another as the daemon counts, which knows of %zu",
		       num, job_id, n);
}
