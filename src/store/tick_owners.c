#include "store/tick_owners.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void tick_owners_release(struct tick_owners *owners)
{
	free(owners->by_id);
	map_release(&owners->by_key);
}

/* ---- by row ---- */

static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* One that has no row, or is there twice, is not there again. */
static int sort_attempts(struct tick_owners *owners, const struct tick_record *record)
{
	size_t n = 0;

	owners->n = 0;
	if (ARRAY_RESERVE(owners->by_id, owners->cap, record->n_attempts) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < record->n_attempts; i++)
		if (record->attempts[i]->id > 0)
			owners->by_id[n++] = (struct owner){ record->attempts[i]->id, i };
	if (n > 1)
		qsort(owners->by_id, n, sizeof(*owners->by_id), compare_owners);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || owners->by_id[i].id != owners->by_id[i - 1].id)
			owners->by_id[owners->n++] = owners->by_id[i];
	return 0;
}

static const struct attempt *find_id(const struct tick_owners *owners,
				     const struct tick_record *record, int64_t id)
{
	size_t low = 0, high = owners->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (owners->by_id[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == owners->n || owners->by_id[low].id != id)
		return NULL;
	return record->attempts[owners->by_id[low].index];
}

/* ---- by the job, whose address comes before its name ---- */

static uint64_t address_key(const char *job_id)
{
	return (uint64_t)(uintptr_t)job_id;
}

static uint64_t name_key(const char *job_id)
{
	return hash_bytes(HASH_INIT, job_id, strlen(job_id));
}

/* The first counts. */
static int add_key(struct map *m, uint64_t key, size_t index)
{
	uint64_t first;

	return map_get(m, key, &first) ? 0 : map_put(m, key, index);
}

int tick_owners_fill(struct tick_owners *owners, const struct tick_record *record)
{
	int r = sort_attempts(owners, record);

	map_clear(&owners->by_key);
	for (size_t i = 0; r == 0 && i < record->n_attempts; i++) {
		const char *job_id = record->attempts[i]->job_id;

		r = add_key(&owners->by_key, address_key(job_id), i);
		if (r == 0 && record->owner == TICK_BY_NAME)
			r = add_key(&owners->by_key, name_key(job_id), i);
	}
	return r;
}

/* Two names of one hash: the map has the first of them. */
static const struct attempt *search(const struct tick_record *record, const char *job_id)
{
	for (size_t i = 0; i < record->n_attempts; i++)
		if (strcmp(record->attempts[i]->job_id, job_id) == 0)
			return record->attempts[i];
	return NULL;
}

static bool is_job(const struct tick_record *record, const struct attempt *a, const char *job_id)
{
	return a->job_id == job_id ||
	       (record->owner == TICK_BY_NAME && strcmp(a->job_id, job_id) == 0);
}

static const struct attempt *find_job(const struct tick_owners *owners,
				      const struct tick_record *record, const char *job_id)
{
	const struct attempt *a;
	uint64_t i;

	if (!job_id)
		return NULL;
	if (record->n_attempts == 1)
		return is_job(record, record->attempts[0], job_id) ? record->attempts[0] : NULL;
	if (map_get(&owners->by_key, address_key(job_id), &i) &&
	    record->attempts[i]->job_id == job_id)
		return record->attempts[i];
	if (record->owner != TICK_BY_NAME || !map_get(&owners->by_key, name_key(job_id), &i))
		return NULL;
	a = record->attempts[i];
	return strcmp(a->job_id, job_id) == 0 ? a : search(record, job_id);
}

const struct attempt *tick_owner_of_process(const struct tick_owners *owners,
					    const struct tick_record *record,
					    const struct proc_sample *p)
{
	if (record->owner != TICK_BY_ID)
		return find_job(owners, record, p->job_id);
	return p->job_id ? find_id(owners, record, p->attempt_id) : NULL;
}

const struct attempt *tick_owner_of_event(const struct tick_owners *owners,
					  const struct tick_record *record,
					  const struct proc_event *ev)
{
	const struct attempt *a = find_job(owners, record, ev->job_id);

	return !a && record->n_attempts == 1 ? record->attempts[0] : a;
}
