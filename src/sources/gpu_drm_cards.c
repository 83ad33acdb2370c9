/*
 * gpu_drm_cards - the GPUs whose driver is a part of the kernel, from sysfs.
 *
 * What shows the screen of a server or of a virtual machine is a card too, and computes
 * nothing: only cards are read whose driver tells of its clients in fdinfo.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu_drm.h"

#define FILE_BYTES 4096

/* ---- files ---- */

static ssize_t read_sys(int root_fd, const char *card, const char *file, char *text, size_t size)
{
	char path[512];
	ssize_t n;

	snprintf(path, sizeof(path), "sys/class/drm/%s/device/%s", card, file);
	n = io_read_text_at(root_fd, path, text, size);
	if (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	return n;
}

static uint64_t read_number(int root_fd, const char *card, const char *file)
{
	char text[64];
	uint64_t value;

	if (read_sys(root_fd, card, file, text, sizeof(text)) < 0 ||
	    num_parse_u64(text, &value) < 0)
		return U64_UNKNOWN;
	return value;
}

/* Of the card's sensors. */
static uint64_t read_sensor(int root_fd, const struct drm_card *c, const char *file)
{
	char path[DRM_SENSORS_BYTES + 64];

	if (!c->sensors[0])
		return U64_UNKNOWN;
	snprintf(path, sizeof(path), "hwmon/%s/%s", c->sensors, file);
	return read_number(root_fd, c->card, path);
}

/* ---- which ---- */

static const struct {
	const char *driver, *vendor;
} drivers[] = { { "amdgpu", "AMD" }, { "i915", "Intel" }, { "xe", "Intel" } };

/* NULL: none that tells anything. */
static const char *vendor_of(const char *uevent)
{
	char driver[DRM_SLOT_BYTES];

	if (!drm_parse_driver(uevent, driver))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
		if (strcmp(drivers[i].driver, driver) == 0)
			return drivers[i].vendor;
	return NULL;
}

/* "card0", not "card0-DP-1" (a plug) or "renderD128" (the same again). */
static bool is_card(const char *name)
{
	return strncmp(name, "card", 4) == 0 && name[4] &&
	       !name[4 + strspn(name + 4, "0123456789")];
}

static DIR *open_folder(int root_fd, const char *path)
{
	int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		close_fd(&fd);
	return dir;
}

/* The first of hwmon's; its number is another after each start. */
static void find_sensors(int root_fd, struct drm_card *c)
{
	char path[128];
	const struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "sys/class/drm/%s/device/hwmon", c->card);
	dir = open_folder(root_fd, path);
	while (dir && !c->sensors[0] && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof(c->sensors))
			strcpy(c->sensors, entry->d_name);
	if (dir)
		closedir(dir);
}

static bool describe(int root_fd, const char *card, struct drm_card *ret)
{
	char text[FILE_BYTES];
	const char *vendor;

	*ret = (struct drm_card){ 0 };
	if (strlen(card) >= sizeof(ret->card) ||
	    read_sys(root_fd, card, "uevent", text, sizeof(text)) < 0 ||
	    !drm_parse_slot(text, ret->slot))
		return false;
	vendor = vendor_of(text);
	if (!vendor)
		return false;
	strcpy(ret->card, card);
	snprintf(ret->name, sizeof(ret->name), "%s (%s)", vendor, card);
	find_sensors(root_fd, ret);
	return true;
}

static int compare_cards(const void *a, const void *b)
{
	return strcmp(((const struct drm_card *)a)->slot, ((const struct drm_card *)b)->slot);
}

size_t drm_find_cards(int root_fd, struct drm_card *ret, size_t max, bool *ret_has_more)
{
	DIR *dir = open_folder(root_fd, "sys/class/drm");
	const struct dirent *entry;
	struct drm_card card;
	size_t n = 0;

	*ret_has_more = false;
	while (dir && !*ret_has_more && (entry = readdir(dir))) {
		if (!is_card(entry->d_name) || !describe(root_fd, entry->d_name, &card))
			continue;
		if (n < max)
			ret[n++] = card;
		else
			*ret_has_more = true;
	}
	if (dir)
		closedir(dir);
	qsort(ret, n, sizeof(*ret), compare_cards);
	return n;
}

int drm_find_slot(const struct drm_card *cards, size_t n, const char *slot)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(cards[i].slot, slot) == 0)
			return (int)i;
	return -1;
}

bool gpu_has_drm(int root_fd)
{
	struct drm_card first;
	bool has_more;

	return drm_find_cards(root_fd, &first, 1, &has_more) > 0;
}

/* ---- what they say ---- */

static double scaled(uint64_t value, double scale)
{
	return u64_known(value) ? (double)value / scale : F64_UNKNOWN;
}

/* A card may be pulled out, or lose its driver, and another may have its name then. */
static bool is_there(int root_fd, const struct drm_card *c)
{
	char text[FILE_BYTES], slot[DRM_SLOT_BYTES];

	return read_sys(root_fd, c->card, "uevent", text, sizeof(text)) >= 0 &&
	       drm_parse_slot(text, slot) && strcmp(slot, c->slot) == 0 && vendor_of(text);
}

bool drm_read_card(int root_fd, const struct drm_card *c, struct gpu_reading *ret)
{
	struct gpu_sample *s = gpu_add_device(ret, c->name);

	if (!is_there(root_fd, c)) {
		if (s)
			s->is_lost = true;
		return false;
	}
	if (!s)
		return true;
	s->utilization_pct = gpu_sane_percent(
		ret, s->index, scaled(read_number(root_fd, c->card, "gpu_busy_percent"), 1));
	s->memory_used_mb = scaled(read_number(root_fd, c->card, "mem_info_vram_used"), 1 << 20);
	s->memory_total_mb = scaled(read_number(root_fd, c->card, "mem_info_vram_total"), 1 << 20);
	s->temperature_c = scaled(read_sensor(root_fd, c, "temp1_input"), 1000);
	s->power_watts = scaled(u64_max_known(read_sensor(root_fd, c, "power1_average"),
					      read_sensor(root_fd, c, "power1_input")),
				1e6);
	s->sm_clock_mhz = scaled(read_sensor(root_fd, c, "freq1_input"), 1e6);
	return true;
}
