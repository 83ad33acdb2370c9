/*
 * gpu_slots - one driver for each vendor's GPUs, opened, asked and replaced.
 *
 * A driver that fails is closed and opened again after a while; if it only ever opens, the
 * next one of its vendor gets its turn. Meanwhile its GPUs are there, and nothing is known of
 * them: they keep their numbers, and nobody is said to use none.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "sources/gpu.h"

#define REOPEN_NS UINT64_C(10000000000)	       /* until a driver that failed is tried again */
#define BETTER_AGAIN_NS UINT64_C(300000000000) /* until a better one than the one in use is */
#define FAILURES_EACH 2			       /* in a row, then it is the next one's turn */

const struct gpu_driver *const gpu_drivers[] = { &gpu_nvml, &gpu_smi, &gpu_drm };
const size_t gpu_n_drivers = ARRAY_SIZE(gpu_drivers);

/* ---- opening ---- */

/* The i-th of a vendor's, counted round and round. */
static const struct gpu_driver *driver_of(enum gpu_vendor vendor, size_t i)
{
	const struct gpu_driver *of_vendor[ARRAY_SIZE(gpu_drivers)] = { NULL };
	size_t n = 0;

	for (size_t k = 0; k < gpu_n_drivers; k++)
		if (gpu_drivers[k]->vendor == vendor)
			of_vendor[n++] = gpu_drivers[k];
	return of_vendor[i % n];
}

static void close_slot(struct gpu_slot *slot)
{
	if (slot->driver)
		slot->driver->close(slot->opened);
	slot->driver = NULL;
}

/* Why the best one is not used says more than why the last one is not. */
static void keep_reason(struct gpu_slot *slot, const struct err *err)
{
	if (slot->err.code == 0 || slot->err.code == -ENODEV)
		slot->err = *err;
}

static void try_to_open(struct gpu_slot *slot, int root_fd, enum gpu_vendor vendor)
{
	size_t first = slot->n_failures / FAILURES_EACH;

	slot->err = (struct err)ERR_INIT;
	for (size_t i = 0; !slot->driver && i < gpu_n_drivers; i++) {
		const struct gpu_driver *driver = driver_of(vendor, first + i);
		struct err err = ERR_INIT;
		int r;

		if (i > 0 && driver == driver_of(vendor, first))
			return;
		r = driver->open(root_fd, &slot->opened, &err);
		if (r == 0)
			slot->driver = driver;
		else
			keep_reason(slot, &err);
	}
}

static void open_slot(struct gpu_slot *slot, int root_fd, enum gpu_vendor vendor)
{
	uint64_t now = clock_boot_ns(), since = now - slot->tried_boot_ns;

	if (slot->driver && slot->driver != driver_of(vendor, 0) && since >= BETTER_AGAIN_NS)
		close_slot(slot);
	if (slot->driver || (slot->tried_boot_ns && since < REOPEN_NS))
		return;
	slot->tried_boot_ns = now;
	try_to_open(slot, root_fd, vendor);
}

/* ---- reading ---- */

static void note_rung(struct gpu_reading *r, const char *name)
{
	size_t n = strlen(r->rung);

	snprintf(r->rung + n, sizeof(r->rung) - n, "%s%s", n ? " + " : "", name);
}

/* What is in a reading before a driver adds to it. */
struct mark {
	uint32_t n_devices, n_processes, n_left_out, only_own;
	bool has_note;
};

static void roll_back(struct gpu_reading *r, const struct mark *to)
{
	r->n_devices = to->n_devices;
	r->n_processes = to->n_processes;
	r->n_left_out = to->n_left_out;
	r->only_own = to->only_own;
	if (!to->has_note)
		r->note[0] = '\0';
}

/* How many it has, for when it does not answer. */
static void keep_devices(struct gpu_slot *slot, const struct gpu_reading *r, uint32_t first)
{
	slot->n_devices = r->n_devices - first;
	memcpy(slot->names, r->names[first], slot->n_devices * sizeof(slot->names[0]));
}

/* False: nothing was read. */
static bool read_slot(struct gpu_slot *slot, struct gpu_reading *ret)
{
	struct mark before = { ret->n_devices, ret->n_processes, ret->n_left_out, ret->only_own,
			       ret->note[0] != '\0' };
	struct err err = ERR_INIT;

	if (!slot->driver)
		return false;
	if (slot->driver->read(slot->opened, ret, &err) < 0) {
		roll_back(ret, &before);
		slot->err = err;
		slot->n_failures++;
		close_slot(slot);
		return false;
	}
	slot->err = (struct err)ERR_INIT;
	slot->n_failures = 0;
	gpu_check_devices(ret, before.n_devices);
	keep_devices(slot, ret, before.n_devices);
	note_rung(ret, slot->driver->name);
	return true;
}

/* That a vendor has none is no news; that those which are there do not answer is. */
static void add_absent(const struct gpu_slot *slot, uint32_t n_found, struct gpu_reading *ret)
{
	uint32_t n = slot->n_devices > 0 ? slot->n_devices : n_found;

	if (n == 0 && (slot->err.code == 0 || slot->err.code == -ENODEV))
		return;
	if (slot->n_devices == 0 && slot->err.code == -EACCES) {
		ret->is_denied = 1; /* there may be some, but not for us */
		n = 0;
	}
	for (uint32_t i = 0; i < n; i++)
		gpu_add_device(ret, i < slot->n_devices ? slot->names[i] : "");
	ret->n_left_out++;
	gpu_note(ret, "%s", slot->err.text);
}

void gpu_read_all(struct gpu_slot slots[GPU_VENDORS], int root_fd, struct gpu_reading *ret)
{
	gpu_reading_init(ret);
	for (int i = 0; i < GPU_VENDORS; i++) {
		open_slot(&slots[i], root_fd, (enum gpu_vendor)i);
		if (!read_slot(&slots[i], ret))
			add_absent(&slots[i], i == GPU_NVIDIA ? gpu_count_nvidia(root_fd) : 0, ret);
	}
	ret->boot_ns = clock_boot_ns();
}

void gpu_close_all(struct gpu_slot slots[GPU_VENDORS])
{
	for (int i = 0; i < GPU_VENDORS; i++)
		close_slot(&slots[i]);
}
