/*
 * drm - the cards that the kernel itself drives, and the texts in which it tells of their
 * clients.
 */
#ifndef PROCTOR_SOURCES_GPU_DRM_H
#define PROCTOR_SOURCES_GPU_DRM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/gpu/gpu.h"

#define DRM_SLOT_BYTES 32
#define DRM_MAX_ENGINES 8
#define DRM_ENGINE_BYTES 24

/* One kind of engine, and how much of it a client had. What is not said is U64_UNKNOWN. */
struct drm_engine {
	char name[DRM_ENGINE_BYTES]; /* "render"; "": no such */
	uint64_t busy_ns;
	uint64_t cycles, total_cycles; /* some drivers count in the engine's own clock */
	uint64_t capacity;	       /* how many of this kind there are, if not one */
	bool has_fallen;	       /* since the reading before, whose values stand */
};

/* What proc/PID/fdinfo/N says of one client of a device. */
struct drm_client {
	char slot[DRM_SLOT_BYTES]; /* of the device on the PCI bus */
	uint64_t id;
	uint64_t memory_bytes; /* of the device's own; U64_UNKNOWN: it does not say */
	struct drm_engine engines[DRM_MAX_ENGINES];
};

/* False: it is no client, or does not say of which device. */
bool drm_parse_client(const char *text, struct drm_client *ret);

/* How busy each engine was kept by the clients that were added up; {0}: by nobody yet. */
struct drm_use {
	struct {
		char name[DRM_ENGINE_BYTES];
		double percent;
	} engines[DRM_MAX_ENGINES];
	size_t n;
	bool is_part; /* one of an engine is not known, and may be more than the others */
};

/*
 * Of a later reading; a counter may fall for a while, and then it catches up: how busy it was is
 * unknown at both, since what it comes to then is of a longer time.
 */
void drm_keep_highest(struct drm_client *now, const struct drm_client *before);

/* Adds a client's, between two readings wall_ns apart; before NULL: it began between them. */
void drm_add_use(struct drm_use *sum, const struct drm_client *now, const struct drm_client *before,
		 double wall_ns);

/* That of the busiest, which may be a little above 100; NaN: not told. */
double drm_busiest_percent(const struct drm_use *use);

/* PCI_SLOT_NAME of a device's uevent. */
bool drm_parse_slot(const char *text, char ret[DRM_SLOT_BYTES]);

/* DRIVER of it. */
bool drm_parse_driver(const char *text, char ret[DRM_SLOT_BYTES]);

#endif
