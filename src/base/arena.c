#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES (16 * 1024)

struct arena_block {
	struct arena_block *next;
	size_t cap;
	size_t used;
	alignas(max_align_t) char data[];
};

void arena_release(struct arena *a)
{
	struct arena_block *b = a->first;

	while (b) {
		struct arena_block *next = b->next;

		free(b);
		b = next;
	}
	*a = (struct arena)ARENA_INIT;
}

void arena_reset(struct arena *a)
{
	for (struct arena_block *b = a->first; b; b = b->next)
		b->used = 0;
	a->current = a->first;
}

size_t arena_used(const struct arena *a)
{
	size_t n = 0;

	for (const struct arena_block *b = a->first; b; b = b->next)
		n += b->used;
	return n;
}

static struct arena_block *arena_add_block(struct arena *a, size_t n)
{
	size_t cap = n > ARENA_BLOCK_BYTES ? n : ARENA_BLOCK_BYTES;
	struct arena_block *b;

	if (n > SIZE_MAX / 2)
		return NULL;
	b = malloc(sizeof(*b) + cap);
	if (!b)
		return NULL;
	b->cap = cap;
	b->used = 0;
	if (a->current) {
		b->next = a->current->next;
		a->current->next = b;
	} else {
		b->next = NULL;
		a->first = b;
	}
	a->current = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t step = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	struct arena_block *b = a->current;
	void *p;

	if (step < n)
		return NULL;
	/* After a reset the blocks behind current are empty: use them before asking for more. */
	while (b && b->cap - b->used < step && b->next && b->next->used == 0) {
		b = b->next;
		a->current = b;
	}
	if (!b || b->cap - b->used < step)
		b = arena_add_block(a, step);
	if (!b)
		return NULL;
	p = b->data + b->used;
	b->used += step;
	return p;
}

void *arena_memdup(struct arena *a, const void *bytes, size_t n)
{
	void *copy = arena_alloc(a, n);

	return copy ? memcpy(copy, bytes, n) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *copy = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

bool arena_keep(struct arena *a, const char **s)
{
	bool has_any = *s != NULL;

	*s = arena_strdup(a, *s);
	return *s || !has_any;
}
