/*
 * gpu_places - which GPU has which number, whoever tells of it.
 */
#include <string.h>

#include "sources/gpu.h"

void gpu_make_places_safe(struct gpu_places *p)
{
	if (p->n > GPU_MAX_DEVICES)
		p->n = 0;
	for (uint32_t i = 0; i < GPU_MAX_DEVICES; i++) {
		p->ids[i][GPU_ID_BYTES - 1] = '\0';
		p->names[i][GPU_NAME_BYTES - 1] = '\0';
	}
}

static void swap_bytes(char *a, char *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char kept = a[i];

		a[i] = b[i];
		b[i] = kept;
	}
}

/* Those between move by one. */
static void move(char *items, size_t size, size_t from, size_t to)
{
	for (; from > to; from--)
		swap_bytes(items + from * size, items + (from - 1) * size, size);
}

static const char *id_of(const struct gpu_items *items, size_t k)
{
	return (const char *)items->first + k * items->size + items->id_offset;
}

static bool has_place(const struct gpu_places *p, const char *id)
{
	for (size_t i = 0; id[0] && i < p->n; i++)
		if (strcmp(p->ids[i], id) == 0)
			return true;
	return false;
}

/*
 * Which of those from the i-th on has the i-th place; n: none. A place whose GPU was never told
 * is that of one which has no other.
 */
static size_t find_item(const struct gpu_places *p, const struct gpu_items *items, size_t n,
			size_t i)
{
	for (size_t k = i; k < n; k++)
		if (p->ids[i][0] ? strcmp(id_of(items, k), p->ids[i]) == 0
				 : !has_place(p, id_of(items, k)))
			return k;
	return n;
}

size_t gpu_keep_places(const struct gpu_places *p, const struct gpu_items *items, size_t n)
{
	char *first = items->first;

	for (size_t i = 0; i < p->n; i++) {
		size_t k = find_item(p, items, n, i);

		if (k == GPU_MAX_DEVICES)
			return n;
		if (k == n)
			items->make(first + n++ * items->size, p->ids[i], p->names[i]);
		move(first, items->size, k, i);
	}
	return n;
}
