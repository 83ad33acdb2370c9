/*
 * gpu_drm - GPUs of all vendors whose driver is a part of the kernel: AMD's, Intel's.
 */
#include "sources/gpu_drm.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define NEWS_NS UINT64_C(60000000000) /* for so long a card is said to be new */

struct drm {
	int root_fd;
	struct drm_card cards[GPU_MAX_DEVICES];
	size_t n_cards;
	bool has_more; /* that had no room */
	struct drm_users *users;
};

static void drm_close(void *driver)
{
	struct drm *d = driver;

	drm_users_free(d->users);
	free(d);
}

static int drm_open(int root_fd, void **ret, struct err *err)
{
	struct drm *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	d->root_fd = root_fd;
	d->users = drm_users_new(root_fd);
	d->n_cards = drm_find_cards(root_fd, d->cards, GPU_MAX_DEVICES, &d->has_more);
	if (d->users && d->n_cards > 0) {
		*ret = d;
		return 0;
	}
	drm_close(d);
	return err_set(err, -ENODEV, "no GPU has a driver in the kernel");
}

/* New ones stand behind the others; one that is back may have another name and other sensors. */
static void look_for_cards(struct drm *d)
{
	struct drm_card found[GPU_MAX_DEVICES];
	size_t n = drm_find_cards(d->root_fd, found, GPU_MAX_DEVICES, &d->has_more);

	for (size_t i = 0; i < n; i++) {
		int known = drm_find_slot(d->cards, d->n_cards, found[i].slot);

		found[i].came_boot_ns = known < 0 ? clock_boot_ns() : d->cards[known].came_boot_ns;
		if (known >= 0)
			d->cards[known] = found[i];
		else if (d->n_cards < GPU_MAX_DEVICES)
			d->cards[d->n_cards++] = found[i];
		else
			d->has_more = true;
	}
}

static void note_news(const struct drm_card *c, int index, struct gpu_reading *ret)
{
	if (c->came_boot_ns && clock_boot_ns() - c->came_boot_ns < NEWS_NS)
		gpu_remark(ret, "%s at %s was added: it is GPU %d", c->name, c->slot, index);
}

/* One that is gone hides no other: it keeps its place, and who holds it is not known. */
static void read_cards(const struct drm *d, struct gpu_reading *ret)
{
	for (size_t i = 0; i < d->n_cards; i++) {
		int index = (int)ret->n_devices;

		if (drm_read_card(d->root_fd, &d->cards[i], ret)) {
			note_news(&d->cards[i], index, ret);
			continue;
		}
		gpu_note(ret, "%s at %s is gone", d->cards[i].name, d->cards[i].slot);
		ret->n_left_out++;
	}
}

static int drm_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct drm *d = driver;
	int first_device = (int)ret->n_devices;

	(void)err; /* a card that is gone is looked for again */
	look_for_cards(d);
	read_cards(d, ret);
	if (d->has_more)
		gpu_note_more_devices(ret);
	drm_users_look(d->users, d->cards, d->n_cards);
	drm_users_tell(d->users, first_device, ret);
	return 0;
}

static void make_gone(void *item, const char *id, const char *name)
{
	struct drm_card *card = item;

	*card = (struct drm_card){ 0 };
	snprintf(card->slot, sizeof(card->slot), "%s", id);
	snprintf(card->name, sizeof(card->name), "%s", name);
}

static void drm_keep_places(void *driver, const struct gpu_places *places)
{
	struct drm *d = driver;
	const struct gpu_items items = { d->cards, sizeof(d->cards[0]),
					 offsetof(struct drm_card, slot), make_gone };

	d->n_cards = gpu_keep_places(places, &items, d->n_cards);
}

static const char *drm_id(const void *driver, size_t i)
{
	return ((const struct drm *)driver)->cards[i].slot;
}

const struct gpu_driver gpu_drm = {
	.name = "DRM fdinfo",
	.vendor = GPU_DRM,
	.open = drm_open,
	.read = drm_read,
	.keep_places = drm_keep_places,
	.id = drm_id,
	.close = drm_close,
};
