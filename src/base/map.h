/*
 * map - from a 64-bit key to a 64-bit value, open addressing; and a hash for keys that are bytes.
 *
 * Holds pids, indices or pointers; it owns nothing that the values point at.
 * Any key is allowed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
	uint64_t key;
	uint64_t value;
	bool used;
};

struct map {
	struct map_slot *slots;
	size_t cap; /* a power of two, or 0 */
	size_t len;
};

#define MAP_INIT           \
	{                  \
		NULL, 0, 0 \
	}

void map_release(struct map *m);

/* Empties it and keeps its memory. */
void map_clear(struct map *m);

/* Adds or replaces. -ENOMEM leaves the map as it was. */
int map_put(struct map *m, uint64_t key, uint64_t value);

/* True and the value, or false. */
bool map_get(const struct map *m, uint64_t key, uint64_t *ret_value);

/* True if there was such a key. */
bool map_remove(struct map *m, uint64_t key);

/* ---- 64-bit FNV-1a, for grouping and for tables; not for secrets ---- */

#define HASH_INIT UINT64_C(0xcbf29ce484222325)

/* Continues hash h over the bytes: hash_bytes(HASH_INIT, s, n). */
static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < n; i++) {
		h ^= p[i];
		h *= UINT64_C(0x100000001b3);
	}
	return h;
}
