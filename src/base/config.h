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
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

/* How long what is recorded is kept; job summaries and outcomes stay. */
struct config_retention {
	int full_resolution_hours; /* every sample; 24 */
	int downsampled_days;	   /* 1-minute values; 7 */
	int events_days;	   /* process events; 30 */
	uint64_t max_bytes;	   /* of the database; 0: no limit; 1 GiB */
};

struct config {
	double interval_seconds;	  /* 0.1 to 300; 1 */
	bool mask_secrets;		  /* true */
	const char *const *mask_patterns; /* further names to mask, see base/mask.h */
	size_t n_mask_patterns;
	const char *jsonl_path;	  /* for paths_set_jsonl(); NULL: none is written */
	uint64_t jsonl_max_bytes; /* of one file, before it is rotated; 50 MiB */
	struct config_retention retention;
	bool was_read; /* false: there was no file */
	struct arena arena;
};

void config_init(struct config *c); /* the defaults */
void config_release(struct config *c);

/* Fills c (already initialised) from the file. On failure c holds the defaults. */
int config_load(const char *path, struct config *c, struct err *err);

#endif
