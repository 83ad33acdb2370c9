/*
 * gpu_drm - GPUs of all vendors whose driver is a part of the kernel: AMD's, Intel's.
 *
 * Who uses a device stands in proc/PID/fdinfo of each open
 * file of the device: how long each engine has worked for that client, and how much
 * memory it holds. A client's file may be shared or inherited, so clients are told apart by
 * their number. Only files whose link names a device are opened; all processes that
 * this user may look into are looked at, every few seconds.
 */
#include "sources/gpu_drm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu.h"

#define EVERY_NS UINT64_C(5000000000)
#define NEWS_NS UINT64_C(60000000000) /* for so long a card is said to be new */
#define FILE_BYTES 4096
#define MAX_CLIENTS 1024
#define MAX_UNSEEN 256
#define USUAL_PERCENT 105

/* A client of a device, as it was at the last reading. */
struct client {
	struct proc_key key;
	struct drm_client now;
	int device; /* position in cards[] */
};

struct clients {
	struct client items[MAX_CLIENTS];
	size_t n;
	uint64_t boot_ns;
};

struct drm {
	int root_fd;
	struct drm_card cards[GPU_MAX_DEVICES];
	size_t n_cards;
	struct clients *now, *before;
	struct proc_key unseen[MAX_UNSEEN]; /* through AMD's other file, or not to be looked into */
	size_t n_unseen;
	uint32_t n_left_out; /* at the last look */
	bool only_own;	     /* others' processes could not be looked into then */
};

/* Its number is another on each host: inside a chroot it is not recognised. */
static const struct gpu_files kfd_file = { "/dev/kfd", 0 };

/* ---- who uses them ---- */

static int find_device(const struct drm *d, const char *slot)
{
	for (size_t i = 0; i < d->n_cards; i++)
		if (strcmp(d->cards[i].slot, slot) == 0)
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

static DIR *open_folder(int proc_fd, uint64_t pid, const char *name)
{
	char path[64];
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%llu/%s", (unsigned long long)pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		close_fd(&fd);
	return dir;
}

/* It may use a GPU, and no fdinfo tells of it. */
static void note_unseen(struct drm *d, uint64_t pid)
{
	struct proc_key key;

	if (d->n_unseen > 0 && (uint64_t)d->unseen[d->n_unseen - 1].pid == pid)
		return; /* one file says it */
	if (!gpu_read_key(d->root_fd, pid, &key))
		return;
	if (d->n_unseen < MAX_UNSEEN)
		d->unseen[d->n_unseen++] = key;
	else
		d->n_left_out++;
}

/* Others' are not known as a whole, our own (one with more rights than we have) one by one. */
static void note_closed(struct drm *d, uint64_t pid, int reason)
{
	if (reason != EACCES && reason != EPERM)
		return; /* it has ended */
	if (gpu_is_own(d->root_fd, pid))
		note_unseen(d, pid);
	else
		d->only_own = true;
}

static void look_into(struct drm *d, int proc_fd, uint64_t pid)
{
	DIR *files = open_folder(proc_fd, pid, "fd");
	char path[300], text[FILE_BYTES];
	const struct dirent *entry;
	struct proc_key key;

	if (!files) {
		note_closed(d, pid, errno);
		return;
	}
	while ((entry = readdir(files))) {
		if (entry->d_name[0] == '.')
			continue;
		if (gpu_is_device_file(dirfd(files), entry->d_name, &kfd_file))
			note_unseen(d, pid);
		if (!gpu_is_device_file(dirfd(files), entry->d_name, &gpu_drm_files))
			continue;
		snprintf(path, sizeof(path), "%llu/fdinfo/%s", (unsigned long long)pid,
			 entry->d_name);
		if (io_read_text_at(proc_fd, path, text, sizeof(text)) > 0 &&
		    gpu_read_key(d->root_fd, pid, &key))
			add_client(d, &key, text);
	}
	closedir(files);
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

/* Since the reading before. A client that was not there then has used nothing until then. */
static void add_use(const struct drm *d, const struct client *c, struct drm_use *sum)
{
	const struct client *old = find_client(d->before, c->device, c->now.id);
	double wall_ns = (double)(d->now->boot_ns - d->before->boot_ns);

	if (d->before->boot_ns == 0 || wall_ns <= 0)
		return;
	if (old || d->before->n < MAX_CLIENTS)
		drm_add_use(sum, &c->now, old ? &old->now : NULL, wall_ns);
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
	struct drm_use use = { 0 };

	for (; *i < d->now->n && is_same_user(first, c); c = &d->now->items[++*i]) {
		p.memory_bytes = u64_add(p.memory_bytes, c->now.memory_bytes);
		add_use(d, c, &use);
	}
	p.utilization_pct = drm_busiest_percent(&use);
	return p; /* its share as it was counted */
}

static bool is_client(const struct drm *d, const struct proc_key *key)
{
	for (size_t i = 0; i < d->now->n; i++)
		if (d->now->items[i].key.pid == key->pid)
			return true;
	return false;
}

/* Their share is unknown; their memory too, where no client of a card tells it. */
static void tell_unseen(const struct drm *d, struct gpu_reading *ret)
{
	for (size_t i = 0; i < d->n_unseen; i++) {
		const struct gpu_process p = {
			.key = d->unseen[i],
			.device = GPU_DEVICE_UNKNOWN,
			.memory_bytes = is_client(d, &d->unseen[i]) ? 0 : U64_UNKNOWN,
			.utilization_pct = F64_UNKNOWN,
		};

		gpu_add_process(ret, &p);
	}
}

/* Times are read one after the other: a little too much is usual, and no news. */
static double drm_share(struct gpu_reading *ret, const struct gpu_process *p)
{
	if (p->utilization_pct > 100 && p->utilization_pct <= USUAL_PERCENT)
		return 100;
	return gpu_sane_share(ret, p->device, (uint64_t)p->key.pid, p->utilization_pct);
}

static void tell_processes(const struct drm *d, int first_device, struct gpu_reading *ret)
{
	for (size_t i = 0; i < d->now->n;) {
		struct gpu_process p = sum_up(d, &i);

		p.device += first_device;
		p.utilization_pct = drm_share(ret, &p);
		gpu_add_process(ret, &p);
	}
	tell_unseen(d, ret);
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
	d->n_cards = drm_find_cards(root_fd, d->cards, GPU_MAX_DEVICES);
	if (d->now && d->before && d->n_cards > 0) {
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
	d->n_unseen = 0;
	d->only_own = false;
	look_at_all(d);
	qsort(d->now->items, d->now->n, sizeof(d->now->items[0]), compare_clients);
}

/* New ones stand behind the others; one that is back may have another name and other sensors. */
static void look_for_cards(struct drm *d)
{
	struct drm_card found[GPU_MAX_DEVICES];
	size_t n = drm_find_cards(d->root_fd, found, GPU_MAX_DEVICES);

	for (size_t i = 0; i < n; i++) {
		int known = find_device(d, found[i].slot);

		found[i].came_boot_ns = known < 0 ? clock_boot_ns() : d->cards[known].came_boot_ns;
		if (known >= 0)
			d->cards[known] = found[i];
		else if (d->n_cards < GPU_MAX_DEVICES)
			d->cards[d->n_cards++] = found[i];
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
	bool is_due = d->now->boot_ns == 0 || clock_boot_ns() - d->now->boot_ns >= EVERY_NS;
	int first_device = (int)ret->n_devices;

	(void)err; /* a card that is gone is looked for again */
	look_for_cards(d);
	read_cards(d, ret);
	if (is_due)
		read_all(d);
	tell_processes(d, first_device, ret);
	gpu_note_asked(ret, d->now->boot_ns);
	ret->n_left_out += d->n_left_out;
	ret->only_own |= d->only_own;
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
