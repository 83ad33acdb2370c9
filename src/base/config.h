/*
 * config - proctor.yaml: what the user set, with defaults for the rest.
 *
 * Unknown keys, wrong types and values out of range are refused with file,
 * line and what would be right. A file that is not there is the defaults.
 */
#ifndef PROCTOR_BASE_CONFIG_H
#define PROCTOR_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

struct config {
	double interval_seconds;	  /* 0.1 to 300; 1 */
	bool mask_secrets;		  /* true */
	const char *const *mask_patterns; /* further names to mask, see base/mask.h */
	size_t n_mask_patterns;
	bool was_read; /* false: there was no file */
	struct arena arena;
};

void config_init(struct config *c); /* the defaults */
void config_release(struct config *c);

/* Fills c (already initialised) from the file. On failure c holds the defaults. */
int config_load(const char *path, struct config *c, struct err *err);

#endif
