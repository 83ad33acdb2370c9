/*
 * gpu_drm - the texts in which the kernel tells of a GPU's clients.
 */
#ifndef PROCTOR_SOURCES_GPU_DRM_H
#define PROCTOR_SOURCES_GPU_DRM_H

#include <stdbool.h>
#include <stdint.h>

#define DRM_SLOT_BYTES 32
#define DRM_MAX_ENGINES 8

/* What proc/PID/fdinfo/N says of one client of a device. */
struct drm_client {
	char slot[DRM_SLOT_BYTES]; /* of the device on the PCI bus */
	uint64_t id;
	uint64_t memory_bytes; /* of the device's own; U64_UNKNOWN: it has none, or does not say */
	uint64_t engine_ns[DRM_MAX_ENGINES]; /* in the order of the text; U64_UNKNOWN: no such */
};

/* False: it is no client, or does not say of which device. */
bool drm_parse_client(const char *text, struct drm_client *ret);

/* PCI_SLOT_NAME of a device's uevent. */
bool drm_parse_slot(const char *text, char ret[DRM_SLOT_BYTES]);

#endif
