/*
 * gpu_drm - the texts in which the kernel tells of a GPU's clients.
 */
#ifndef PROCTOR_SOURCES_GPU_DRM_H
#define PROCTOR_SOURCES_GPU_DRM_H

#include <stdbool.h>
#include <stdint.h>

#define DRM_SLOT_BYTES 32
#define DRM_MAX_ENGINES 8
#define DRM_ENGINE_BYTES 24

/* One kind of engine, and how much of it a client had. What is not said is U64_UNKNOWN. */
struct drm_engine {
	char name[DRM_ENGINE_BYTES]; /* "render"; "": no such */
	uint64_t busy_ns;
	uint64_t cycles, total_cycles; /* some drivers count in the engine's own clock */
	uint64_t capacity;	       /* how many of this kind there are, if not one */
};

/* What proc/PID/fdinfo/N says of one client of a device. */
struct drm_client {
	char slot[DRM_SLOT_BYTES]; /* of the device on the PCI bus */
	uint64_t id;
	uint64_t memory_bytes; /* of the device's own; U64_UNKNOWN: it has none, or does not say */
	struct drm_engine engines[DRM_MAX_ENGINES];
};

/* False: it is no client, or does not say of which device. */
bool drm_parse_client(const char *text, struct drm_client *ret);

/* How busy it kept its busiest engine between two readings wall_ns apart; NaN: not told. */
double drm_busy_percent(const struct drm_client *now, const struct drm_client *before,
			double wall_ns);

/* PCI_SLOT_NAME of a device's uevent. */
bool drm_parse_slot(const char *text, char ret[DRM_SLOT_BYTES]);

#endif
