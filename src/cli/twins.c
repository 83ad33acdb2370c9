#include "cli/twins.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

void twins_release(struct twins *t)
{
	map_release(&t->nums);
	map_release(&t->jobs);
}

static uint64_t key_of(const char *job_id)
{
	return hash_bytes(HASH_INIT, job_id, strlen(job_id) + 1);
}

int twins_add(struct twins *t, const struct attempt *a)
{
	uint64_t key = key_of(a->job_id), n = 0;
	int r;

	if (map_get(&t->nums, (uint64_t)a->id, &n))
		return 0;
	r = map_put(&t->nums, (uint64_t)a->id, (uint64_t)a->attempt_num);
	if (r < 0)
		return r;
	map_get(&t->jobs, key, &n);
	return map_put(&t->jobs, key, n + 1);
}

int twins_num(const struct twins *t, int64_t attempt_id)
{
	uint64_t num = 0;

	return map_get(&t->nums, (uint64_t)attempt_id, &num) ? (int)num : 0;
}

const char *twins_name(const struct twins *t, const char *job_id, int attempt_num,
		       char room[TWINS_NAME_BYTES])
{
	uint64_t n = 0;

	if (!t || attempt_num <= 0 || !map_get(&t->jobs, key_of(job_id), &n) || n < 2)
		return job_id;
	snprintf(room, TWINS_NAME_BYTES, "%.*s#%d", JOB_ID_MAX, job_id, attempt_num);
	return room;
}
