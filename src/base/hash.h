/*
 * hash - 64-bit FNV-1a, for grouping and for tables; not for secrets.
 */
#ifndef PROCTOR_BASE_HASH_H
#define PROCTOR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

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

#endif
