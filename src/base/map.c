#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void map_release(struct map *m)
{
	free(m->slots);
	*m = (struct map)MAP_INIT;
}

void map_clear(struct map *m)
{
	if (m->slots)
		memset(m->slots, 0, m->cap * sizeof(*m->slots));
	m->len = 0;
}

/* Fibonacci hashing: every bit of the key reaches the top bits of the product, which choose the
 * slot. */
static size_t map_home(const struct map *m, uint64_t key)
{
	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - __builtin_ctzll(m->cap)));
}

static struct map_slot *map_find(const struct map *m, uint64_t key)
{
	size_t i = map_home(m, key);

	while (m->slots[i].used && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static int map_grow(struct map *m)
{
	struct map bigger = { .cap = m->cap ? m->cap * 2 : 16 };

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].used)
			*map_find(&bigger, m->slots[i].key) = m->slots[i];
	bigger.len = m->len;
	free(m->slots);
	*m = bigger;
	return 0;
}

int map_put(struct map *m, uint64_t key, uint64_t value)
{
	struct map_slot *slot;

	if (m->len * 4 >= m->cap * 3 && map_grow(m) < 0)
		return -ENOMEM;
	slot = map_find(m, key);
	if (!slot->used)
		m->len++;
	*slot = (struct map_slot){ .key = key, .value = value, .used = true };
	return 0;
}

bool map_get(const struct map *m, uint64_t key, uint64_t *ret_value)
{
	const struct map_slot *slot;

	if (m->len == 0)
		return false;
	slot = map_find(m, key);
	if (!slot->used)
		return false;
	if (ret_value)
		*ret_value = slot->value;
	return true;
}

bool map_remove(struct map *m, uint64_t key)
{
	struct map_slot *slot;
	size_t hole, i;

	if (m->len == 0)
		return false;
	slot = map_find(m, key);
	if (!slot->used)
		return false;

	/* Close the gap: move back every later slot of the run that may not stay behind a hole. */
	hole = (size_t)(slot - m->slots);
	for (i = (hole + 1) & (m->cap - 1); m->slots[i].used; i = (i + 1) & (m->cap - 1)) {
		size_t home = map_home(m, m->slots[i].key);

		if (((i - home) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1))) {
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	}
	m->slots[hole].used = false;
	m->len--;
	return true;
}
