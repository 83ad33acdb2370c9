/*
 * gpu_drm - GPUs of all vendors whose driver is a part of the kernel: AMD's, Intel's.
 *
 * The device comes from sysfs. Who uses it stands in proc/PID/fdinfo of each open
 * file of the device: how long each engine has worked for that client, and how much
 * memory it holds. A client's file may be shared or inherited, so clients are told apart by
 * their number. Only files whose link names a device are opened; all processes that
 * this user may look into are looked at, every few seconds.
 */
#include "sources/gpu_drm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu.h"

#define EVERY_NS UINT64_C(5000000000)
#define DEVICE_FILES "/dev/dri/"
#define FILE_BYTES 4096
#define MAX_CLIENTS 1024
#define NVIDIA_VENDOR UINT64_C(0x10de)

struct device {
	char slot[DRM_SLOT_BYTES]; /* of the PCI bus: "0000:03:00.0" */
	char card[32];		   /* "card0" */
	char name[GPU_NAME_BYTES];
};

/* A client of a device, as it was at the last reading. */
struct client {
	struct proc_key key;
	struct drm_client now;
	int device; /* position in devices[] */
};

struct clients {
	struct client items[MAX_CLIENTS];
	size_t n;
	uint64_t boot_ns;
};

struct drm {
	int root_fd;
	struct device devices[GPU_MAX_DEVICES];
	size_t n_devices;
	struct clients *now, *before;
	uint32_t n_left_out; /* at the last look */
	bool only_own;	     /* others' processes could not be looked into then */
};

/* ---- devices ---- */

static ssize_t read_sys(const struct drm *d, const char *card, const char *file, char *text,
			size_t size)
{
	char path[512];
	ssize_t n;

	snprintf(path, sizeof(path), "sys/class/drm/%s/device/%s", card, file);
	n = io_read_text_at(d->root_fd, path, text, size);
	if (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	return n;
}

static uint64_t read_number(const struct drm *d, const char *card, const char *file)
{
	char text[64];
	uint64_t value;

	if (read_sys(d, card, file, text, sizeof(text)) < 0 || num_parse_u64(text, &value) < 0)
		return U64_UNKNOWN;
	return value;
}

/* "0x1002"; U64_UNKNOWN. */
static uint64_t read_vendor(const struct drm *d, const char *card)
{
	char text[64], *end;
	unsigned long value;

	if (read_sys(d, card, "vendor", text, sizeof(text)) < 0)
		return U64_UNKNOWN;
	value = strtoul(text, &end, 16);
	return *end == '\0' && end != text ? value : U64_UNKNOWN;
}

static const struct {
	uint64_t id;
	const char *name;
} vendors[] = { { 0x1002, "AMD" }, { 0x8086, "Intel" } };

static const char *vendor_name(uint64_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(vendors); i++)
		if (vendors[i].id == id)
			return vendors[i].name;
	return "GPU";
}

/* "card0", not "card0-DP-1" (a plug) or "renderD128" (the same again). */
static bool is_card(const char *name)
{
	return strncmp(name, "card", 4) == 0 && name[4] &&
	       !name[4 + strspn(name + 4, "0123456789")];
}

static void add_card(struct drm *d, const char *card)
{
	struct device *device = &d->devices[d->n_devices];
	uint64_t vendor = read_vendor(d, card);
	char text[FILE_BYTES];

	/* NVIDIA's answer to nothing here, and have a driver of their own. */
	if (d->n_devices == GPU_MAX_DEVICES || !u64_known(vendor) || vendor == NVIDIA_VENDOR ||
	    read_sys(d, card, "uevent", text, sizeof(text)) < 0 ||
	    !drm_parse_slot(text, device->slot))
		return;
	snprintf(device->card, sizeof(device->card), "%s", card);
	snprintf(device->name, sizeof(device->name), "%s (%s)", vendor_name(vendor), card);
	d->n_devices++;
}

static int compare_cards(const void *a, const void *b)
{
	return strcmp(((const struct device *)a)->slot, ((const struct device *)b)->slot);
}

static void find_devices(struct drm *d)
{
	int fd = openat(d->root_fd, "sys/class/drm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (is_card(entry->d_name))
			add_card(d, entry->d_name);
	closedir(dir);
	qsort(d->devices, d->n_devices, sizeof(d->devices[0]), compare_cards);
}

/* The first of hwmon's that has the file; its value in thousandths or millionths. */
static uint64_t read_sensor(const struct drm *d, const char *card, const char *file)
{
	char path[64];
	uint64_t value = U64_UNKNOWN;

	for (int i = 0; i < 64 && !u64_known(value); i++) {
		snprintf(path, sizeof(path), "hwmon/hwmon%d/%s", i, file);
		value = read_number(d, card, path);
	}
	return value;
}

static double scaled(uint64_t value, double scale)
{
	return u64_known(value) ? (double)value / scale : F64_UNKNOWN;
}

static void read_device(const struct drm *d, const struct device *device, struct gpu_reading *ret)
{
	struct gpu_sample *s = gpu_add_device(ret, device->name);
	const char *card = device->card;

	if (!s)
		return;
	s->utilization_pct = gpu_sane_percent(ret, s->index,
					      scaled(read_number(d, card, "gpu_busy_percent"), 1));
	s->memory_used_mb = scaled(read_number(d, card, "mem_info_vram_used"), 1 << 20);
	s->memory_total_mb = scaled(read_number(d, card, "mem_info_vram_total"), 1 << 20);
	s->temperature_c = scaled(read_sensor(d, card, "temp1_input"), 1000);
	s->power_watts = scaled(u64_max_known(read_sensor(d, card, "power1_average"),
					      read_sensor(d, card, "power1_input")),
				1e6);
	s->sm_clock_mhz = scaled(read_sensor(d, card, "freq1_input"), 1e6);
}

/* ---- who uses them ---- */

static int find_device(const struct drm *d, const char *slot)
{
	for (size_t i = 0; i < d->n_devices; i++)
		if (strcmp(d->devices[i].slot, slot) == 0)
			return (int)i;
	return -1;
}

static const struct client *find_client(const struct clients *list, int device, uint64_t id)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].device == device && list->items[i].now.id == id)
			return &list->items[i];
	return NULL;
}

/* A client that several processes hold counts for the first of them. */
static void add_client(struct drm *d, const struct proc_key *key, const char *text)
{
	struct client client = { .key = *key };

	if (!drm_parse_client(text, &client.now))
		return;
	client.device = find_device(d, client.now.slot);
	if (client.device < 0 || find_client(d->now, client.device, client.now.id))
		return;
	if (d->now->n < MAX_CLIENTS)
		d->now->items[d->now->n++] = client;
	else
		d->n_left_out++;
}

static bool is_device_file(int proc_fd, uint64_t pid, const char *file)
{
	char path[300], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%llu/fd/%s", (unsigned long long)pid, file);
	n = readlinkat(proc_fd, path, target, sizeof(target));
	return n > (ssize_t)strlen(DEVICE_FILES) &&
	       memcmp(target, DEVICE_FILES, strlen(DEVICE_FILES)) == 0;
}

static bool read_key(int proc_fd, uint64_t pid, struct proc_key *ret)
{
	char path[64], text[2048], state;

	snprintf(path, sizeof(path), "%llu/stat", (unsigned long long)pid);
	ret->pid = (pid_t)pid;
	return io_read_text_at(proc_fd, path, text, sizeof(text)) > 0 &&
	       alive_parse_stat(text, &state, &ret->start_ticks) == 0;
}

static void look_into(struct drm *d, int proc_fd, uint64_t pid)
{
	char path[300], text[FILE_BYTES];
	const struct dirent *entry;
	struct proc_key key;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%llu/fdinfo", (unsigned long long)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		d->only_own = true;
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && is_device_file(proc_fd, pid, entry->d_name) &&
		    io_read_text_at(fd, entry->d_name, text, sizeof(text)) > 0 &&
		    read_key(proc_fd, pid, &key))
			add_client(d, &key, text);
	closedir(dir);
}

static void look_at_all(struct drm *d)
{
	int fd = openat(d->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t pid;

	if (!dir) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (num_parse_u64(entry->d_name, &pid) == 0 && pid <= INT32_MAX)
			look_into(d, fd, pid);
	closedir(dir);
}

/* Of its busiest engine, since the reading before. */
static double busy_percent(const struct drm *d, const struct client *c)
{
	const struct client *old = find_client(d->before, c->device, c->now.id);
	double wall_ns = (double)(d->now->boot_ns - d->before->boot_ns);

	if (!old || d->before->boot_ns == 0 || wall_ns <= 0)
		return F64_UNKNOWN;
	return drm_busy_percent(&c->now, &old->now, wall_ns);
}

static bool is_same_user(const struct client *a, const struct client *b)
{
	return a->device == b->device && a->key.pid == b->key.pid &&
	       a->key.start_ticks == b->key.start_ticks;
}

/* Clients of one process on one device stand together. */
static int compare_clients(const void *a, const void *b)
{
	const struct client *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->key.pid > y->key.pid) - (x->key.pid < y->key.pid);
}

/* The sum over the clients from i on that are of one process; i is behind them then. */
static struct gpu_process sum_up(const struct drm *d, size_t *i)
{
	const struct client *first = &d->now->items[*i], *c = first;
	struct gpu_process p = { .key = first->key, .device = first->device };

	for (; *i < d->now->n && is_same_user(first, c); c = &d->now->items[++*i]) {
		p.memory_bytes = u64_add(p.memory_bytes, c->now.memory_bytes);
		p.utilization_pct += busy_percent(d, c);
	}
	if (p.utilization_pct > 100)
		p.utilization_pct = 100;
	return p;
}

static void tell_processes(const struct drm *d, int first_device, struct gpu_reading *ret)
{
	for (size_t i = 0; i < d->now->n;) {
		struct gpu_process p = sum_up(d, &i);

		p.device += first_device;
		gpu_add_process(ret, &p);
	}
}

/* ---- the driver ---- */

static void drm_close(void *driver)
{
	struct drm *d = driver;

	free(d->now);
	free(d->before);
	free(d);
}

static int drm_open(int root_fd, void **ret, struct err *err)
{
	struct drm *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	d->root_fd = root_fd;
	d->now = calloc(1, sizeof(*d->now));
	d->before = calloc(1, sizeof(*d->before));
	find_devices(d);
	if (d->now && d->before && d->n_devices > 0) {
		*ret = d;
		return 0;
	}
	drm_close(d);
	return err_set(err, -ENODEV, "no GPU has a driver in the kernel");
}

static void read_all(struct drm *d)
{
	struct clients *old = d->before;

	d->before = d->now;
	d->now = old;
	d->now->n = 0;
	d->now->boot_ns = clock_boot_ns();
	d->n_left_out = 0;
	d->only_own = false;
	look_at_all(d);
	qsort(d->now->items, d->now->n, sizeof(d->now->items[0]), compare_clients);
}

static int drm_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct drm *d = driver;
	int first_device = (int)ret->n_devices;

	(void)err;
	for (size_t i = 0; i < d->n_devices; i++)
		read_device(d, &d->devices[i], ret);
	if (d->now->boot_ns == 0 || clock_boot_ns() - d->now->boot_ns >= EVERY_NS)
		read_all(d);
	tell_processes(d, first_device, ret);
	ret->n_left_out += d->n_left_out;
	ret->only_own |= d->only_own;
	return 0;
}

const struct gpu_driver gpu_drm = {
	.name = "DRM fdinfo",
	.vendor = GPU_DRM,
	.open = drm_open,
	.read = drm_read,
	.close = drm_close,
};
