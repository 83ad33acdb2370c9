/*
 * gpu_drm - the cards that the kernel itself drives, and the texts in which it tells of their
 * clients.
 */
#ifndef PROCTOR_SOURCES_GPU_DRM_H
#define PROCTOR_SOURCES_GPU_DRM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/gpu.h"

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

/* ---- cards (gpu_drm_cards.c) ---- */

#define DRM_SENSORS_BYTES 32

struct drm_card {
	char slot[DRM_SLOT_BYTES]; /* of the PCI bus: "0000:03:00.0" */
	char card[32];		   /* "card0" */
	char name[GPU_NAME_BYTES];
	char sensors[DRM_SENSORS_BYTES]; /* "hwmon4"; "": it has none */
	uint64_t came_boot_ns;		 /* 0: it was there from the beginning */
};

/* Those whose clients can be seen, by their place on the bus; how many of at most max, and whether
 * there are more. */
size_t drm_find_cards(int root_fd, struct drm_card *ret, size_t max, bool *ret_has_more);

/* The position of the one in that slot; -1. */
int drm_find_slot(const struct drm_card *cards, size_t n, const char *slot);

/* Adds it to the reading; false: it is gone, and unknown there. */
bool drm_read_card(int root_fd, const struct drm_card *c, struct gpu_reading *ret);

/* ---- who uses them (gpu_drm_users.c) ---- */

struct drm_users;

/* NULL: there is no memory left. */
struct drm_users *drm_users_new(int root_fd);

/* NULL is fine. Returns NULL. */
struct drm_users *drm_users_free(struct drm_users *u);

/* Looks through all processes, if it is time. The cards keep their positions between two looks. */
void drm_users_look(struct drm_users *u, const struct drm_card *cards, size_t n_cards);

/* Adds what was seen at the last look; the cards stand in the reading from first_device on. */
void drm_users_tell(const struct drm_users *u, int first_device, struct gpu_reading *ret);

#endif
