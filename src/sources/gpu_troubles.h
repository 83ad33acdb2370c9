/*
 * gpu_troubles - what kept GPUs from being read, and for how long.
 *
 * Only of the time in which somebody wanted to know: from one look to the next.
 */
#ifndef PROCTOR_SOURCES_GPU_TROUBLES_H
#define PROCTOR_SOURCES_GPU_TROUBLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/gpu.h"

#define GPU_MAX_TROUBLES 4

/* One that went wrong, and for how long it did. */
struct gpu_trouble {
	char note[GPU_NOTE_BYTES];
	uint64_t ns;
};

struct gpu_troubles {
	uint64_t looked_boot_ns; /* the last time; at first, when readings began */
	uint64_t all_ns;
	struct gpu_trouble of[GPU_MAX_TROUBLES];
	size_t n;
	uint64_t ns; /* of all, with those that had no room */
};

/* What was wrong since the look before; NULL: nothing. A look from before that one is ignored. */
void gpu_troubles_add(struct gpu_troubles *t, const char *note, uint64_t boot_ns);

/* The one that lasted longest, and how long all others did; false: there was none. */
bool gpu_troubles_tell(const struct gpu_troubles *t, char *ret, size_t size);

#endif
