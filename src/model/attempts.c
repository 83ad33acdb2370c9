#include "model/attempts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"

struct known_attempt {
	int64_t id;
	uint64_t job; /* key_of() its name */
	int num;
	uint64_t uid;
	uint64_t began_ns, ended_ns; /* U64_UNKNOWN */
	uint64_t seen;		     /* the last time that processes of it were there, by n_named */
};

static uint64_t key_of(const char *job_id)
{
	return hash_bytes(HASH_INIT, job_id, strlen(job_id) + 1);
}

void attempts_release(struct attempts *all)
{
	free(all->items);
	*all = (struct attempts){ 0 };
}

int attempts_add(struct attempts *all, const struct attempt *a)
{
	if (ARRAY_RESERVE(all->items, all->cap, all->n + 1) < 0)
		return -ENOMEM;
	all->items[all->n++] = (struct known_attempt){
		.id = a->id,
		.job = key_of(a->job_id),
		.num = a->attempt_num,
		.uid = a->uid,
		.began_ns = a->started_wall_ns,
		.ended_ns = a->ended_wall_ns,
	};
	all->is_sorted = false;
	return 0;
}

static int compare(const void *x, const void *y)
{
	const struct known_attempt *a = x, *b = y;

	return (a->id > b->id) - (a->id < b->id);
}

static struct known_attempt *find(const struct attempts *all, int64_t id)
{
	const struct known_attempt key = { .id = id };

	return id > 0 && all->n > 0
		       ? bsearch(&key, all->items, all->n, sizeof(*all->items), compare)
		       : NULL;
}

static void name(struct job_progress *p, const struct known_attempt *a)
{
	p->attempt_id = a->id;
	p->attempt_num = a->num;
	p->uid = a->uid;
}

/* ---- of several that run ---- */

static bool is_seen(const struct attempts *all, const struct known_attempt *a)
{
	return a->seen == all->n_named;
}

/* Those of one attempt mostly stand together. What it has left behind does not make it run. */
static void mark_seen(const struct attempts *all, const struct snapshot *s)
{
	int64_t last = 0;

	for (size_t i = 0; i < s->n_processes; i++) {
		struct known_attempt *a;

		if (s->processes[i].attempt_id == last)
			continue;
		last = s->processes[i].attempt_id;
		a = find(all, last);
		if (a && a->ended_ns >= s->wall_ns)
			a->seen = all->n_named;
	}
}

static size_t count_seen(const struct attempts *all, uint64_t job)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += all->items[i].job == job && is_seen(all, &all->items[i]);
	return n;
}

static bool is_of(const struct job_progress *p, const char *job_id)
{
	return p->job_id && strcmp(p->job_id, job_id) == 0;
}

/* One without a process is between two of them: the newest that have begun by then. */
static void mark_newest(const struct attempts *all, const struct snapshot *s, uint64_t job,
			size_t n)
{
	for (size_t i = all->n; n > 0 && i-- > 0;) {
		struct known_attempt *a = &all->items[i];

		if (a->job != job || is_seen(all, a) || a->began_ns > s->wall_ns)
			continue;
		a->seen = all->n_named;
		n--;
	}
}

/* As many as there are, the first with the first. */
static void name_job(const struct attempts *all, struct snapshot *s, size_t first)
{
	const char *job_id = s->progress[first].job_id;
	uint64_t job = key_of(job_id);
	size_t n = 0, n_seen = count_seen(all, job), at = 0;

	for (size_t i = 0; i < s->n_progress; i++)
		n += is_of(&s->progress[i], job_id);
	if (n_seen < n)
		mark_newest(all, s, job, n - n_seen);
	if (count_seen(all, job) != n)
		return; /* which of them it is cannot be told */
	for (size_t i = first; i < s->n_progress; i++) {
		if (!is_of(&s->progress[i], job_id))
			continue;
		while (all->items[at].job != job || !is_seen(all, &all->items[at]))
			at++;
		name(&s->progress[i], &all->items[at++]);
	}
}

void attempts_name(struct attempts *all, struct snapshot *s)
{
	const struct known_attempt *own = NULL;

	if (!all->is_sorted && all->n > 1)
		qsort(all->items, all->n, sizeof(*all->items), compare);
	all->is_sorted = true;
	all->n_named++;
	own = find(all, s->recorder);
	if (!own && s->n_progress > 0)
		mark_seen(all, s);
	for (size_t i = 0; i < s->n_progress; i++) {
		struct job_progress *p = &s->progress[i];

		if (!p->job_id || p->attempt_id > 0)
			continue;
		if (own)
			name(p, own);
		else
			name_job(all, s, i);
	}
}

struct job_progress *attempts_tell(struct attempts *all, const struct snapshot *s,
				   const char *job_id, struct snapshot *ret)
{
	struct job_progress *own = calloc(s->n_progress + 1, sizeof(*own));

	if (!own)
		return NULL;
	*ret = *s;
	ret->n_progress = 0;
	for (size_t i = 0; i < s->n_progress; i++)
		if (!job_id || is_of(&s->progress[i], job_id))
			own[ret->n_progress++] = s->progress[i];
	ret->progress = own;
	attempts_name(all, ret);
	return own;
}
