#include "store/minute_sums.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"

#define ROWS_MAX 32768 /* about 20 MB */

void minute_sums_release(struct minute_sums *s)
{
	free(s->rows);
	free(s->sorted);
	map_release(&s->row_of);
}

void minute_sums_begin(struct minute_sums *s, uint64_t from, uint64_t to)
{
	s->from = from;
	s->to = to;
	s->n = 0;
	map_clear(&s->row_of);
}

static uint64_t row_key(const struct minute_sums *s, int64_t process, uint64_t minute)
{
	return (uint64_t)process * ROLLUP_MINUTES + (minute - s->from);
}

static int grow(struct minute_sums *s)
{
	size_t cap = s->cap ? s->cap * 2 : 256;
	struct minute_sum *rows = reallocarray(s->rows, cap, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	s->rows = rows;
	s->cap = cap;
	return 0;
}

int minute_sums_find(struct minute_sums *s, int64_t process, uint64_t minute,
		     struct minute_sum **ret)
{
	uint64_t key = row_key(s, process, minute), place;

	if (!map_get(&s->row_of, key, &place)) {
		if (s->n >= ROWS_MAX && s->to - s->from > 1)
			return -EOVERFLOW;
		if ((s->n == s->cap && grow(s) < 0) || map_put(&s->row_of, key, s->n) < 0)
			return -ENOMEM;
		place = s->n++;
		s->rows[place].process = process;
		s->rows[place].minute = minute;
		s->rows[place].sums.n = 0;
	}
	*ret = &s->rows[place];
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct minute_sum *x = *(const struct minute_sum *const *)a;
	const struct minute_sum *y = *(const struct minute_sum *const *)b;

	if (x->minute != y->minute)
		return x->minute < y->minute ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

int minute_sums_sort(struct minute_sums *s)
{
	if (s->n > s->cap_sorted) {
		const struct minute_sum **sorted =
			reallocarray(s->sorted, s->cap, sizeof(struct minute_sum *));

		if (!sorted)
			return -ENOMEM;
		s->sorted = sorted;
		s->cap_sorted = s->cap;
	}
	for (size_t i = 0; i < s->n; i++)
		s->sorted[i] = &s->rows[i];
	if (s->n > 0)
		qsort(s->sorted, s->n, sizeof(struct minute_sum *), compare_rows);
	return 0;
}
