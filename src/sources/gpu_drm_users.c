/*
 * gpu_drm_users - who uses the GPUs whose driver is a part of the kernel.
 *
 * That stands in proc/PID/fdinfo of each open file of the device: how long each engine has worked
 * for that client, and how much memory it holds. A client's file may be shared or inherited, so
 * clients are told apart by their number. Only files whose link names a device are opened; all
 * processes that this user may look into are looked at, every few seconds.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu_drm.h"

#define EVERY_NS UINT64_C(5000000000)
#define FILE_BYTES 4096
#define MAX_CLIENTS 1024
#define MAX_UNSEEN 256
#define USUAL_PERCENT 105

/* A client of a device, as it was at the last reading. */
struct client {
	struct proc_key key;
	struct drm_client now;
	int device; /* position among the cards */
};

struct clients {
	struct client items[MAX_CLIENTS];
	size_t n;
	uint64_t boot_ns;
};

struct drm_users {
	int root_fd;
	const struct drm_card *cards; /* borrowed, during a look */
	size_t n_cards;
	struct clients *now, *before;
	struct proc_key unseen[MAX_UNSEEN]; /* through AMD's other file, or not to be looked into */
	size_t n_unseen;
	uint32_t n_left_out; /* at the last look */
	bool only_own;	     /* others' processes could not be looked into then */
};

/* Its number is another on each host: inside a chroot it is not recognised. */
static const struct gpu_files kfd_file = { "/dev/kfd", 0 };

/* ---- clients ---- */

static const struct client *find_client(const struct clients *list, int device, uint64_t id)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].device == device && list->items[i].now.id == id)
			return &list->items[i];
	return NULL;
}

/* A client that several processes hold counts for the first of them. */
static void add_client(struct drm_users *u, const struct proc_key *key, const char *text)
{
	struct client client = { .key = *key };
	const struct client *before;

	if (!drm_parse_client(text, &client.now))
		return;
	client.device = drm_find_slot(u->cards, u->n_cards, client.now.slot);
	if (client.device < 0 || find_client(u->now, client.device, client.now.id))
		return;
	before = find_client(u->before, client.device, client.now.id);
	if (before)
		drm_keep_highest(&client.now, &before->now);
	if (u->now->n < MAX_CLIENTS)
		u->now->items[u->now->n++] = client;
	else
		u->n_left_out++;
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
static void note_unseen(struct drm_users *u, uint64_t pid)
{
	struct proc_key key;

	if (u->n_unseen > 0 && (uint64_t)u->unseen[u->n_unseen - 1].pid == pid)
		return; /* one file says it */
	if (!gpu_read_key(u->root_fd, pid, &key))
		return;
	if (u->n_unseen < MAX_UNSEEN)
		u->unseen[u->n_unseen++] = key;
	else
		u->n_left_out++;
}

/* Others' are not known as a whole, our own (one with more rights than we have) one by one. */
static void note_closed(struct drm_users *u, uint64_t pid, int reason)
{
	if (reason != EACCES && reason != EPERM)
		return; /* it has ended */
	if (gpu_is_own(u->root_fd, pid))
		note_unseen(u, pid);
	else
		u->only_own = true;
}

static void look_into(struct drm_users *u, int proc_fd, uint64_t pid)
{
	DIR *files = open_folder(proc_fd, pid, "fd");
	char path[300], text[FILE_BYTES];
	const struct dirent *entry;
	struct proc_key key;

	if (!files) {
		note_closed(u, pid, errno);
		return;
	}
	while ((entry = readdir(files))) {
		if (entry->d_name[0] == '.')
			continue;
		if (gpu_is_device_file(dirfd(files), entry->d_name, &kfd_file))
			note_unseen(u, pid);
		if (!gpu_is_device_file(dirfd(files), entry->d_name, &gpu_drm_files))
			continue;
		snprintf(path, sizeof(path), "%llu/fdinfo/%s", (unsigned long long)pid,
			 entry->d_name);
		if (io_read_text_at(proc_fd, path, text, sizeof(text)) > 0 &&
		    gpu_read_key(u->root_fd, pid, &key))
			add_client(u, &key, text);
	}
	closedir(files);
}

static void look_at_all(struct drm_users *u)
{
	int fd = openat(u->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t pid;

	if (!dir) {
		close_fd(&fd);
		u->n_left_out++; /* whoever it is */
		return;
	}
	while ((entry = readdir(dir)))
		if (num_parse_u64(entry->d_name, &pid) == 0 && pid <= INT32_MAX)
			look_into(u, fd, pid);
	closedir(dir);
}

/* Since the reading before. A client that was not there then has used nothing until then. */
static void add_use(const struct drm_users *u, const struct client *c, struct drm_use *sum)
{
	const struct client *old = find_client(u->before, c->device, c->now.id);
	double wall_ns = (double)(u->now->boot_ns - u->before->boot_ns);

	if (u->before->boot_ns == 0 || wall_ns <= 0)
		return;
	if (old || u->before->n < MAX_CLIENTS)
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
static struct gpu_process sum_up(const struct drm_users *u, size_t *i)
{
	const struct client *first = &u->now->items[*i], *c = first;
	struct gpu_process p = { .key = first->key, .device = first->device };
	struct drm_use use = { 0 };

	for (; *i < u->now->n && is_same_user(first, c); c = &u->now->items[++*i]) {
		p.memory_bytes = u64_add(p.memory_bytes, c->now.memory_bytes);
		add_use(u, c, &use);
	}
	p.utilization_pct = drm_busiest_percent(&use);
	return p; /* its share as it was counted */
}

static bool is_client(const struct drm_users *u, const struct proc_key *key)
{
	for (size_t i = 0; i < u->now->n; i++)
		if (u->now->items[i].key.pid == key->pid)
			return true;
	return false;
}

/* Their share is unknown; their memory too, where no client of a card tells it. */
static void tell_unseen(const struct drm_users *u, struct gpu_reading *ret)
{
	for (size_t i = 0; i < u->n_unseen; i++) {
		const struct gpu_process p = {
			.key = u->unseen[i],
			.device = GPU_DEVICE_UNKNOWN,
			.memory_bytes = is_client(u, &u->unseen[i]) ? 0 : U64_UNKNOWN,
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

void drm_users_tell(const struct drm_users *u, int first_device, struct gpu_reading *ret)
{
	for (size_t i = 0; i < u->now->n;) {
		struct gpu_process p = sum_up(u, &i);

		p.device += first_device;
		p.utilization_pct = drm_share(ret, &p);
		gpu_add_process(ret, &p);
	}
	tell_unseen(u, ret);
	gpu_note_asked(ret, u->now->boot_ns);
	ret->n_left_out += u->n_left_out;
	ret->only_own |= u->only_own;
}

/* ---- looking ---- */

struct drm_users *drm_users_new(int root_fd)
{
	struct drm_users *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->root_fd = root_fd;
	u->now = calloc(1, sizeof(*u->now));
	u->before = calloc(1, sizeof(*u->before));
	return u->now && u->before ? u : drm_users_free(u);
}

struct drm_users *drm_users_free(struct drm_users *u)
{
	if (!u)
		return NULL;
	free(u->now);
	free(u->before);
	free(u);
	return NULL;
}

static bool is_due(const struct drm_users *u)
{
	return u->now->boot_ns == 0 || clock_boot_ns() - u->now->boot_ns >= EVERY_NS;
}

void drm_users_look(struct drm_users *u, const struct drm_card *cards, size_t n_cards)
{
	struct clients *old = u->before;

	if (!is_due(u))
		return;
	u->cards = cards;
	u->n_cards = n_cards;
	u->before = u->now;
	u->now = old;
	u->now->n = 0;
	u->now->boot_ns = clock_boot_ns();
	u->n_left_out = 0;
	u->n_unseen = 0;
	u->only_own = false;
	look_at_all(u);
	qsort(u->now->items, u->now->n, sizeof(u->now->items[0]), compare_clients);
}
