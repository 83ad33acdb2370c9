/*
 * arena - many small pieces that are all released together.
 *
 * A snapshot keeps its strings in one. Pieces are aligned for any type and
 * never move. arena_reset() keeps the memory for the next round.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *first;
	struct arena_block *current;
};

#define ARENA_INIT         \
	{                  \
		NULL, NULL \
	}

void arena_release(struct arena *a);

/* Everything handed out becomes invalid; the memory is kept. */
void arena_reset(struct arena *a);

/* How many bytes of it are in use. */
size_t arena_used(const struct arena *a);

/* n bytes, not cleared; NULL when memory runs out. */
void *arena_alloc(struct arena *a, size_t n);

/* A copy of n bytes; NULL when memory runs out. */
void *arena_memdup(struct arena *a, const void *bytes, size_t n);

/* A copy of s[0..n) with a NUL; NULL when memory runs out. */
char *arena_strndup(struct arena *a, const char *s, size_t n);

/* A copy of s; NULL when s is NULL or memory runs out. */
char *arena_strdup(struct arena *a, const char *s);

/* Puts a copy in the place of *s, if that is not NULL. False when memory runs out. */
bool arena_keep(struct arena *a, const char **s);
