#include "daemon/call_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

/* As many names as samples can have (store/). */
#define MAX_NAMES 4095

void call_sums_release(struct call_sums *sums)
{
	for (size_t i = 0; i < sums->n; i++)
		free((char *)sums->uses[i].name);
	free(sums->uses);
	free(sums->n_timed);
	map_release(&sums->by_name);
	*sums = (struct call_sums){ 0 };
}

static bool reserve(struct call_sums *sums)
{
	struct syscall_use *uses;
	uint64_t *n_timed;

	if (sums->n < sums->cap)
		return true;
	uses = reallocarray(sums->uses, sums->cap + 64, sizeof(*uses));
	if (uses)
		sums->uses = uses;
	n_timed = reallocarray(sums->n_timed, sums->cap + 64, sizeof(*n_timed));
	if (n_timed)
		sums->n_timed = n_timed;
	if (!uses || !n_timed)
		return false;
	sums->cap += 64;
	return true;
}

static struct syscall_use *append(struct call_sums *sums, const char *name, uint64_t key)
{
	char *copy;

	if (sums->n == MAX_NAMES || !reserve(sums))
		return NULL;
	copy = strdup(name);
	if (!copy || map_put(&sums->by_name, key, sums->n) < 0) {
		free(copy);
		return NULL;
	}
	sums->uses[sums->n] = (struct syscall_use){ .name = copy };
	sums->n_timed[sums->n] = 0;
	return &sums->uses[sums->n++];
}

/* NULL: no memory, or names that a program has made up. */
static struct syscall_use *find(struct call_sums *sums, const char *name)
{
	uint64_t key = hash_bytes(HASH_INIT, name, strlen(name)), at;

	for (; map_get(&sums->by_name, key, &at); key++)
		if (strcmp(sums->uses[at].name, name) == 0)
			return &sums->uses[at];
	return append(sums, name, key);
}

static void add_times(struct call_sums *sums, struct syscall_use *sum,
		      const struct syscall_use *use)
{
	if (sums->is_sampled && !u64_known(use->cpu_ns))
		return;
	sum->cpu_ns = u64_add(sum->cpu_ns, use->cpu_ns);
	sum->wait_ns = u64_add(sum->wait_ns, use->wait_ns);
	sums->n_timed[sum - sums->uses] += use->count;
}

void call_sums_add(struct call_sums *sums, const struct syscall_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct syscall_use *sum = find(sums, uses[i].name);

		if (!sum) {
			sums->n_left_out = u64_add(sums->n_left_out, uses[i].count);
			continue;
		}
		sum->count = u64_add(sum->count, uses[i].count);
		sum->errors = u64_add(sum->errors, uses[i].errors);
		add_times(sums, sum, &uses[i]);
	}
}

static uint64_t scale(uint64_t ns, uint64_t count, uint64_t timed)
{
	__uint128_t scaled = timed ? (__uint128_t)ns * count / timed : U64_UNKNOWN;

	return !u64_known(ns) || scaled >= U64_UNKNOWN ? U64_UNKNOWN : (uint64_t)scaled;
}

void call_sums_settle(struct call_sums *sums)
{
	for (size_t i = 0; sums->is_sampled && i < sums->n; i++) {
		struct syscall_use *sum = &sums->uses[i];

		sum->cpu_ns = scale(sum->cpu_ns, sum->count, sums->n_timed[i]);
		sum->wait_ns = scale(sum->wait_ns, sum->count, sums->n_timed[i]);
	}
	sums->is_sampled = false;
}

/* As the database has it: unknown time last, then the count, then the name. */
static int compare(const void *a, const void *b)
{
	const struct syscall_use *x = a, *y = b;
	uint64_t x_ns = u64_known(x->cpu_ns) ? x->cpu_ns + 1 : 0;
	uint64_t y_ns = u64_known(y->cpu_ns) ? y->cpu_ns + 1 : 0;

	if (x_ns != y_ns)
		return x_ns < y_ns ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->name, y->name);
}

void call_sums_sort(struct call_sums *sums)
{
	call_sums_settle(sums);
	map_clear(&sums->by_name);
	if (sums->n > 0)
		qsort(sums->uses, sums->n, sizeof(*sums->uses), compare);
}
