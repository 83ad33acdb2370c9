/*
 * drm - GPUs of all vendors whose driver is a part of the kernel: AMD's, Intel's.
 *
 * What shows the screen of a server or of a virtual machine is a card too, and computes
 * nothing: only cards are read whose driver tells of its clients in fdinfo.
 */
#include "sources/gpu/gpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"

/* If the line begins with the key: what is behind it, without the blanks before it. */
static const char *value_of(const char *line, const char *key)
{
	size_t n = strlen(key);

	if (strncmp(line, key, n) != 0)
		return NULL;
	return line + n + strspn(line + n, " \t");
}

static bool copy_slot(const char *value, char ret[DRM_SLOT_BYTES])
{
	size_t n = strcspn(value, " \t\r\n");

	if (n == 0 || n >= DRM_SLOT_BYTES)
		return false;
	memcpy(ret, value, n);
	ret[n] = '\0';
	return true;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : NULL;
}

bool drm_find_value(const char *text, const char *key, char ret[DRM_SLOT_BYTES])
{
	for (const char *line = text; line; line = next_line(line)) {
		const char *value = value_of(line, key);

		if (value)
			return copy_slot(value, ret);
	}
	return false;
}

/* "12 KiB", "12 MiB", "12"; U64_UNKNOWN. */
static uint64_t parse_size(const char *value)
{
	static const struct {
		const char *unit;
		unsigned shift;
	} units[] = { { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	uint64_t n;

	if (num_scan_u64(&value, &n) < 0)
		return U64_UNKNOWN;
	value += strspn(value, " \t");
	for (size_t i = 0; i < 3; i++)
		if (strncmp(value, units[i].unit, 3) == 0)
			return n <= (UINT64_MAX - 1) >> units[i].shift ? n << units[i].shift
								       : U64_UNKNOWN;
	return *value == '\n' || *value == '\0' ? n : U64_UNKNOWN;
}

static const char *const memory_keys[] = { "drm-resident-", "drm-memory-", "drm-total-" };

/* Regions of the device's own memory: AMD's and Intel's newer driver's, Intel's older one's. */
static bool is_vram(const char *region)
{
	return strncmp(region, "vram", 4) == 0 || strncmp(region, "local", 5) == 0;
}

/* ---- engines ---- */

/* Longer keys stand before those that they begin with. */
static const struct {
	const char *key;
	size_t offset;
} engine_keys[] = {
	{ "drm-engine-capacity-", offsetof(struct drm_engine, capacity) },
	{ "drm-engine-", offsetof(struct drm_engine, busy_ns) },
	{ "drm-cycles-", offsetof(struct drm_engine, cycles) },
	{ "drm-total-cycles-", offsetof(struct drm_engine, total_cycles) },
};

/* The one of that name, which may be new; NULL: there is no room. */
static struct drm_engine *find_engine(struct drm_client *c, const char *name, size_t n)
{
	if (n == 0 || n >= DRM_ENGINE_BYTES)
		return NULL;
	for (size_t i = 0; i < DRM_MAX_ENGINES; i++) {
		struct drm_engine *e = &c->engines[i];

		if (e->name[0] == '\0')
			memcpy(e->name, name, n);
		if (strncmp(e->name, name, n) == 0 && e->name[n] == '\0')
			return e;
	}
	return NULL;
}

/* "drm-engine-gfx:\t123 ns". False: the line is of something else. */
static bool parse_engine(const char *line, struct drm_client *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(engine_keys); i++) {
		const char *name = value_of(line, engine_keys[i].key), *value;
		struct drm_engine *engine;
		uint64_t number;

		if (!name)
			continue;
		value = name + strcspn(name, ":\n");
		engine = *value == ':' ? find_engine(ret, name, (size_t)(value - name)) : NULL;
		value += *value == ':';
		value += strspn(value, " \t");
		if (engine && num_scan_u64(&value, &number) == 0)
			memcpy((char *)engine + engine_keys[i].offset, &number, sizeof(number));
		return true;
	}
	return false;
}

/* In the time or in the clock of the engine, whichever its driver counts in. */
static double engine_percent(const struct drm_engine *now, const struct drm_engine *before,
			     double wall_ns)
{
	uint64_t ns = u64_delta(now->busy_ns, before->busy_ns);
	uint64_t cycles = u64_delta(now->cycles, before->cycles);
	uint64_t total = u64_delta(now->total_cycles, before->total_cycles);
	double n = u64_known(now->capacity) && now->capacity > 0 ? (double)now->capacity : 1;

	if (u64_known(ns))
		return (double)ns * 100 / wall_ns / n;
	if (u64_known(cycles) && u64_known(total) && total > 0)
		return (double)cycles * 100 / (double)total / n;
	return F64_UNKNOWN;
}

/* Of the same engine before; one that was not told then had done nothing. */
static struct drm_engine engine_before(const struct drm_client *before, const char *name)
{
	for (size_t i = 0; before && i < DRM_MAX_ENGINES; i++)
		if (strcmp(before->engines[i].name, name) == 0)
			return before->engines[i];
	/* But the engine's own clock began long before. */
	return (struct drm_engine){ .total_cycles = U64_UNKNOWN };
}

static void add_percent(struct drm_use *sum, const char *name, double percent)
{
	size_t i = 0;

	while (i < sum->n && strcmp(sum->engines[i].name, name) != 0)
		i++;
	if (!f64_known(percent) || i == DRM_MAX_ENGINES)
		return;
	if (i == sum->n) {
		memcpy(sum->engines[i].name, name, DRM_ENGINE_BYTES);
		sum->engines[sum->n++].percent = 0;
	}
	sum->engines[i].percent += percent;
}

/* The higher of two, as far as they are known; falls says whether it was the one before. */
static uint64_t highest(uint64_t now, uint64_t before, bool *falls)
{
	if (!u64_known(now) || !u64_known(before) || now >= before)
		return now;
	*falls = true;
	return before;
}

void drm_keep_highest(struct drm_client *now, const struct drm_client *before)
{
	for (size_t i = 0; i < DRM_MAX_ENGINES && now->engines[i].name[0]; i++) {
		struct drm_engine *e = &now->engines[i];
		struct drm_engine old = engine_before(before, e->name);

		e->busy_ns = highest(e->busy_ns, old.busy_ns, &e->has_fallen);
		e->cycles = highest(e->cycles, old.cycles, &e->has_fallen);
	}
}

void drm_add_use(struct drm_use *sum, const struct drm_client *now, const struct drm_client *before,
		 double wall_ns)
{
	for (size_t i = 0; i < DRM_MAX_ENGINES && now->engines[i].name[0]; i++) {
		struct drm_engine old = engine_before(before, now->engines[i].name);

		if (now->engines[i].has_fallen || old.has_fallen)
			sum->is_part = true;
		else
			add_percent(sum, now->engines[i].name,
				    engine_percent(&now->engines[i], &old, wall_ns));
	}
}

double drm_busiest_percent(const struct drm_use *use)
{
	double most = F64_UNKNOWN;

	for (size_t i = 0; i < use->n; i++)
		most = f64_max_known(most, use->engines[i].percent);
	return use->is_part ? F64_UNKNOWN : most;
}

/* ---- a client ---- */

/*
 * Added up over all regions of the device's own memory. A client that lists regions, but none of
 * the device's, has none of it.
 */
static void parse_memory(const char *line, uint64_t sums[ARRAY_SIZE(memory_keys)])
{
	for (size_t i = 0; i < ARRAY_SIZE(memory_keys); i++) {
		const char *region = value_of(line, memory_keys[i]), *colon = strchr(line, ':');
		uint64_t bytes = U64_UNKNOWN;

		if (!region)
			continue;
		if (!is_vram(region))
			bytes = 0;
		else if (colon)
			bytes = parse_size(colon + 1 + strspn(colon + 1, " \t"));
		sums[i] = u64_add_known(sums[i], bytes);
	}
}

bool drm_parse_client(const char *text, struct drm_client *ret)
{
	uint64_t sums[ARRAY_SIZE(memory_keys)] = { U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN };
	bool has_slot = false, has_id = false;

	for (size_t i = 0; i < DRM_MAX_ENGINES; i++)
		ret->engines[i] = (struct drm_engine){ "",	    U64_UNKNOWN, U64_UNKNOWN,
						       U64_UNKNOWN, U64_UNKNOWN, false };
	for (const char *line = text; line; line = next_line(line)) {
		const char *value;

		if ((value = value_of(line, "drm-pdev:")))
			has_slot = copy_slot(value, ret->slot);
		else if ((value = value_of(line, "drm-client-id:")))
			has_id = num_scan_u64(&value, &ret->id) == 0;
		else if (!parse_engine(line, ret))
			parse_memory(line, sums);
	}
	/* What of it is really there; else all of it, which is what older kernels know. */
	ret->memory_bytes = U64_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(sums) && !u64_known(ret->memory_bytes); i++)
		ret->memory_bytes = sums[i];
	return has_slot && has_id;
}

#define FILE_BYTES 4096
#define SLOT_KEY "PCI_SLOT_NAME="
#define DRM_SENSORS_BYTES 32

struct drm_card {
	char slot[DRM_SLOT_BYTES]; /* of the PCI bus: "0000:03:00.0" */
	char card[32];		   /* "card0" */
	char name[GPU_NAME_BYTES];
	char sensors[DRM_SENSORS_BYTES]; /* "hwmon4"; "": it has none */
	uint64_t came_boot_ns;		 /* 0: it was there from the beginning */
};

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

	if (!drm_find_value(uevent, "DRIVER=", driver))
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

static bool describe(int root_fd, const char *card, struct drm_card *ret)
{
	char text[FILE_BYTES], path[128];
	const char *vendor;
	const struct dirent *entry;
	CLEANUP(dir_close) DIR *dir = NULL;

	*ret = (struct drm_card){ 0 };
	if (strlen(card) >= sizeof(ret->card) ||
	    read_sys(root_fd, card, "uevent", text, sizeof(text)) < 0 ||
	    !drm_find_value(text, SLOT_KEY, ret->slot))
		return false;
	vendor = vendor_of(text);
	if (!vendor)
		return false;
	strcpy(ret->card, card);
	snprintf(ret->name, sizeof(ret->name), "%s (%s)", vendor, card);
	/* The first of hwmon's; its number is another after each start. */
	snprintf(path, sizeof(path), "sys/class/drm/%s/device/hwmon", ret->card);
	dir = dir_open_at(root_fd, path);
	while (dir && !ret->sensors[0] && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof(ret->sensors))
			strcpy(ret->sensors, entry->d_name);
	return true;
}

static int compare_cards(const void *a, const void *b)
{
	return strcmp(((const struct drm_card *)a)->slot, ((const struct drm_card *)b)->slot);
}

/* Those whose clients can be seen, by their place on the bus; how many of at most max, and whether
 * there are more. */
static size_t drm_find_cards(int root_fd, struct drm_card *ret, size_t max, bool *ret_has_more)
{
	CLEANUP(dir_close) DIR *dir = dir_open_at(root_fd, "sys/class/drm");
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
	if (n > 0)
		qsort(ret, n, sizeof(*ret), compare_cards);
	return n;
}

/* The position of the one in that slot; -1. */
static int drm_find_slot(const struct drm_card *cards, size_t n, const char *slot)
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
	       drm_find_value(text, SLOT_KEY, slot) && strcmp(slot, c->slot) == 0 &&
	       vendor_of(text);
}

/* Adds it to the reading; false: it is gone, and unknown there. */
static bool drm_read_card(int root_fd, const struct drm_card *c, struct gpu_reading *ret)
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

/*
 * ---- who uses them ----
 *
 * That stands in proc/PID/fdinfo of each open file of the device: how long each engine has worked
 * for that client, and how much memory it holds. A client's file may be shared or inherited, so
 * clients are told apart by their number. Only files whose link names a device are opened; all
 * processes that this user may look into are looked at, every few seconds.
 */

#define EVERY_NS UINT64_C(5000000000)
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

struct drm {
	int root_fd;
	struct drm_card cards[GPU_MAX_DEVICES];
	size_t n_cards;
	bool has_more; /* that had no room */
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
static void add_client(struct drm *d, const struct proc_key *key, const char *text)
{
	struct client client = { .key = *key };
	const struct client *before;

	if (!drm_parse_client(text, &client.now))
		return;
	client.device = drm_find_slot(d->cards, d->n_cards, client.now.slot);
	if (client.device < 0 || find_client(d->now, client.device, client.now.id))
		return;
	before = find_client(d->before, client.device, client.now.id);
	if (before)
		drm_keep_highest(&client.now, &before->now);
	if (d->now->n < MAX_CLIENTS)
		d->now->items[d->now->n++] = client;
	else
		d->n_left_out++;
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

static void look_into(struct drm *d, int proc_fd, uint64_t pid)
{
	char path[300], text[FILE_BYTES];
	const struct dirent *entry;
	struct proc_key key;
	CLEANUP(dir_close) DIR *files = NULL;

	snprintf(path, sizeof(path), "%llu/fd", (unsigned long long)pid);
	files = dir_open_at(proc_fd, path);
	if (!files && errno != EACCES && errno != EPERM)
		return; /* it has ended */
	if (!files) {
		/* Others' are not known as a whole, our own (one with more rights) one by one. */
		if (gpu_is_own(d->root_fd, pid))
			note_unseen(d, pid);
		else
			d->only_own = true;
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
}

/* Clients of one process on one device stand together. */
static int compare_clients(const void *a, const void *b)
{
	const struct client *x = a, *y = b;

	return COMPARE(x->device, y->device) ?: COMPARE(x->key.pid, y->key.pid);
}

/* Adds what was seen at the last look; the cards stand in the reading from first_device on. */
static void tell_users(const struct drm *d, int first_device, struct gpu_reading *ret)
{
	double wall_ns = d->before->boot_ns ? (double)(d->now->boot_ns - d->before->boot_ns) : 0;

	for (size_t i = 0; i < d->now->n;) {
		const struct client *first = &d->now->items[i], *c = first;
		struct gpu_process p = { .key = first->key, .device = first->device };
		struct drm_use use = { 0 };

		/* The sum over the clients that are of one process. */
		for (; i < d->now->n && c->device == first->device &&
		       proc_key_is(&c->key, &first->key);
		     c = &d->now->items[++i]) {
			const struct client *old = find_client(d->before, c->device, c->now.id);

			p.memory_bytes = u64_add(p.memory_bytes, c->now.memory_bytes);
			/* A client that was not there before has used nothing until then. */
			if (wall_ns > 0 && (old || d->before->n < MAX_CLIENTS))
				drm_add_use(&use, &c->now, old ? &old->now : NULL, wall_ns);
		}
		p.utilization_pct = drm_busiest_percent(&use);
		p.device += first_device;
		/* Times are read one after the other: a little too much is usual, and no news. */
		if (p.utilization_pct > 100 && p.utilization_pct <= USUAL_PERCENT)
			p.utilization_pct = 100;
		p.utilization_pct =
			gpu_sane_share(ret, p.device, (uint64_t)p.key.pid, p.utilization_pct);
		gpu_add_process(ret, &p);
	}
	/* Their share is unknown; their memory too, where no client of a card tells it. */
	for (size_t i = 0; i < d->n_unseen; i++) {
		struct gpu_process p = { .key = d->unseen[i],
					 .device = GPU_DEVICE_UNKNOWN,
					 .memory_bytes = U64_UNKNOWN,
					 .utilization_pct = F64_UNKNOWN };

		for (size_t k = 0; k < d->now->n; k++)
			if (d->now->items[k].key.pid == p.key.pid)
				p.memory_bytes = 0;
		gpu_add_process(ret, &p);
	}
	gpu_note_asked(ret, d->now->boot_ns);
	ret->n_left_out += d->n_left_out;
	ret->only_own |= d->only_own;
}

/* Through all processes, if it is time. The cards keep their positions between two looks. */
static void look_at_users(struct drm *d)
{
	CLEANUP(dir_close) DIR *proc = NULL;
	struct clients *old = d->before;
	pid_t pid;

	if (d->now->boot_ns != 0 && clock_boot_ns() - d->now->boot_ns < EVERY_NS)
		return;
	d->before = d->now;
	d->now = old;
	d->now->n = 0;
	d->now->boot_ns = clock_boot_ns();
	d->n_left_out = 0;
	d->n_unseen = 0;
	d->only_own = false;
	proc = dir_open_at(d->root_fd, "proc");
	if (!proc)
		d->n_left_out++; /* whoever it is */
	while (proc && (pid = dir_next_pid(proc)) > 0)
		look_into(d, dirfd(proc), (uint64_t)pid);
	qsort(d->now->items, d->now->n, sizeof(d->now->items[0]), compare_clients);
}

/* ---- the driver ---- */

#define NEWS_NS UINT64_C(60000000000) /* for so long a card is said to be new */

static void drm_close(void *driver)
{
	struct drm *d = driver;

	free(d->now);
	free(d->before);
	free(d);
}

/* New ones stand behind the others; one that is back may have another name and other sensors.
 * How many there are. */
static size_t find_cards(struct drm *d, uint64_t came_boot_ns)
{
	struct drm_card found[GPU_MAX_DEVICES];
	size_t n = drm_find_cards(d->root_fd, found, GPU_MAX_DEVICES, &d->has_more);

	for (size_t i = 0; i < n; i++) {
		int known = drm_find_slot(d->cards, d->n_cards, found[i].slot);

		found[i].came_boot_ns = known < 0 ? came_boot_ns : d->cards[known].came_boot_ns;
		if (known >= 0)
			d->cards[known] = found[i];
		else if (d->n_cards < GPU_MAX_DEVICES)
			d->cards[d->n_cards++] = found[i];
		else
			d->has_more = true;
	}
	return n;
}

static int drm_open(int root_fd, const struct gpu_places *places, void **ret, struct err *err)
{
	struct drm *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	d->root_fd = root_fd;
	d->now = calloc(1, sizeof(*d->now));
	d->before = calloc(1, sizeof(*d->before));
	for (; places && d->n_cards < places->n; d->n_cards++) {
		struct drm_card *card = &d->cards[d->n_cards];

		snprintf(card->slot, sizeof(card->slot), "%s", places->ids[d->n_cards]);
		snprintf(card->name, sizeof(card->name), "%s", places->names[d->n_cards]);
	}
	if (find_cards(d, 0) > 0 && d->now && d->before) {
		*ret = d;
		return 0;
	}
	drm_close(d);
	return err_set(err, -ENODEV, "no GPU has a driver in the kernel");
}

static int drm_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct drm *d = driver;
	int first_device = (int)ret->n_devices;

	(void)err; /* a card that is gone is looked for again */
	find_cards(d, clock_boot_ns());
	/* One that is gone hides no other: it keeps its place, and who holds it is not known. */
	for (size_t i = 0; i < d->n_cards; i++) {
		int index = (int)ret->n_devices;

		if (drm_read_card(d->root_fd, &d->cards[i], ret)) {
			if (d->cards[i].came_boot_ns &&
			    clock_boot_ns() - d->cards[i].came_boot_ns < NEWS_NS)
				gpu_remark(ret, "%s at %s was added: it is GPU %d",
					   d->cards[i].name, d->cards[i].slot, index);
			continue;
		}
		gpu_note(ret, "%s at %s is gone", d->cards[i].name, d->cards[i].slot);
		ret->n_left_out++;
	}
	if (d->has_more)
		gpu_note_more_devices(ret);
	look_at_users(d);
	tell_users(d, first_device, ret);
	return 0;
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
	.id = drm_id,
	.close = drm_close,
};
