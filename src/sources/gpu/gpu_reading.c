#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu/gpu.h"

#define GARBAGE_PERCENT 1000
#define COLDEST_C (-100)
#define HOTTEST_C 300 /* of what is still a GPU */
#define MOST_WATTS 10e3
#define FASTEST_MHZ 10e3
#define LARGEST_MB (64.0 * (1 << 20)) /* 64 TiB */

void gpu_reading_init(struct gpu_reading *r)
{
	memset(r, 0, offsetof(struct gpu_reading, processes));
}

size_t gpu_reading_bytes(const struct gpu_reading *r)
{
	return offsetof(struct gpu_reading, processes) + r->n_processes * sizeof(r->processes[0]);
}

void gpu_note_more_devices(struct gpu_reading *r)
{
	gpu_note(r, "only the first %d GPUs are read", GPU_MAX_DEVICES);
	r->n_left_out++; /* who uses the others */
}

struct gpu_sample *gpu_add_device(struct gpu_reading *r, const char *name)
{
	struct gpu_sample *device;

	if (r->n_devices == GPU_MAX_DEVICES) {
		gpu_note_more_devices(r);
		return NULL;
	}
	snprintf(r->names[r->n_devices], GPU_NAME_BYTES, "%s", name ? name : "");
	device = &r->devices[r->n_devices];
	gpu_sample_init(device);
	device->index = (int)r->n_devices++;
	return device;
}

void gpu_add_process(struct gpu_reading *r, const struct gpu_process *p)
{
	for (uint32_t i = 0; i < r->n_processes; i++) {
		struct gpu_process *same = &r->processes[i];

		if (same->key.pid != p->key.pid || same->key.start_ticks != p->key.start_ticks ||
		    same->device != p->device)
			continue;
		same->memory_bytes = u64_max_known(same->memory_bytes, p->memory_bytes);
		same->utilization_pct = f64_max_known(same->utilization_pct, p->utilization_pct);
		return;
	}
	if (r->n_processes == GPU_MAX_PROCESSES) {
		r->n_left_out++;
		return;
	}
	r->processes[r->n_processes++] = *p;
}

void gpu_note_asked(struct gpu_reading *r, uint64_t boot_ns)
{
	if (r->asked_boot_ns == 0 || boot_ns < r->asked_boot_ns)
		r->asked_boot_ns = boot_ns;
}

void gpu_note(struct gpu_reading *r, const char *format, ...)
{
	va_list args;

	if (r->note[0])
		return;
	va_start(args, format);
	vsnprintf(r->note, sizeof(r->note), format, args);
	va_end(args);
}

void gpu_remark(struct gpu_reading *r, const char *format, ...)
{
	va_list args;

	if (r->remark[0])
		return;
	va_start(args, format);
	vsnprintf(r->remark, sizeof(r->remark), format, args);
	va_end(args);
}

static double or_unknown(double percent)
{
	return isfinite(percent) && percent >= 0 && percent <= GARBAGE_PERCENT ? percent
									       : F64_UNKNOWN;
}

double gpu_sane_percent(struct gpu_reading *r, int device, double percent)
{
	percent = or_unknown(percent);
	if (percent > 100)
		gpu_remark(r, "GPU %d says that it is %g %% busy: taken for 100 %%", device,
			   percent);
	return percent > 100 ? 100 : percent;
}

double gpu_sane_share(struct gpu_reading *r, int device, uint64_t pid, double percent)
{
	percent = or_unknown(percent);
	if (percent > 100)
		gpu_remark(r, "process %llu is said to keep GPU %d %g %% busy: taken for 100 %%",
			   (unsigned long long)pid, device, percent);
	return percent > 100 ? 100 : percent;
}

static const struct {
	size_t offset; /* in struct gpu_sample */
	double least, most;
	const char *unit;
} bounds[] = {
	{ offsetof(struct gpu_sample, temperature_c), COLDEST_C, HOTTEST_C, "degrees C" },
	{ offsetof(struct gpu_sample, power_watts), 0, MOST_WATTS, "W" },
	{ offsetof(struct gpu_sample, sm_clock_mhz), 0, FASTEST_MHZ, "MHz" },
	{ offsetof(struct gpu_sample, memory_used_mb), 0, LARGEST_MB, "MB in use" },
	{ offsetof(struct gpu_sample, memory_total_mb), 0, LARGEST_MB, "MB" },
};

static void check_device(struct gpu_reading *r, struct gpu_sample *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		double *value = (double *)(void *)((char *)s + bounds[i].offset);

		if (*value >= bounds[i].least && *value <= bounds[i].most)
			continue;
		if (f64_known(*value))
			gpu_note(r, "GPU %d says that it has %g %s: not taken for true", s->index,
				 *value, bounds[i].unit);
		*value = F64_UNKNOWN;
	}
	if (s->memory_used_mb > s->memory_total_mb) {
		gpu_note(r, "GPU %d says that %g of %g MB are in use: not taken for true", s->index,
			 s->memory_used_mb, s->memory_total_mb);
		s->memory_used_mb = F64_UNKNOWN;
	}
}

/* Where the device does not say how much it has, of any. */
static void check_process(struct gpu_reading *r, struct gpu_process *p)
{
	double total_mb = F64_UNKNOWN, mb = (double)p->memory_bytes / (1 << 20);

	if (p->device >= 0 && (uint32_t)p->device < r->n_devices)
		total_mb = r->devices[p->device].memory_total_mb;
	if (!u64_known(p->memory_bytes) || mb <= fmin(total_mb, LARGEST_MB)) /* skips NaN */
		return;
	gpu_note(r, "process %d is said to hold %g MB of GPU %d: not taken for true",
		 (int)p->key.pid, mb, p->device);
	p->memory_bytes = U64_UNKNOWN;
}

void gpu_check_devices(struct gpu_reading *r, uint32_t first)
{
	for (uint32_t i = first; i < r->n_devices; i++)
		check_device(r, &r->devices[i]);
	for (uint32_t i = 0; i < r->n_processes; i++)
		if (r->processes[i].device >= (int)first)
			check_process(r, &r->processes[i]);
}

/* ---- which GPU has which number, whoever tells of it ---- */

void gpu_make_places_safe(struct gpu_places *p)
{
	if (p->n > GPU_MAX_DEVICES)
		p->n = 0;
	for (uint32_t i = 0; i < GPU_MAX_DEVICES; i++) {
		p->ids[i][GPU_ID_BYTES - 1] = '\0';
		p->names[i][GPU_NAME_BYTES - 1] = '\0';
	}
}

/* Those between move by one. */
static void move(char *items, size_t size, size_t from, size_t to)
{
	for (; from > to; from--) {
		char *a = items + from * size;
		char *b = items + (from - 1) * size;

		for (size_t i = 0; i < size; i++) {
			char kept = a[i];

			a[i] = b[i];
			b[i] = kept;
		}
	}
}

static const char *id_of(const struct gpu_items *items, size_t k)
{
	return (const char *)items->first + k * items->size + items->id_offset;
}

static bool has_place(const struct gpu_places *p, const char *id)
{
	for (size_t i = 0; id[0] && i < p->n; i++)
		if (strcmp(p->ids[i], id) == 0)
			return true;
	return false;
}

/*
 * Which of those from the i-th on has the i-th place; n: none. A place whose GPU was never told
 * is that of one which has no other.
 */
static size_t find_item(const struct gpu_places *p, const struct gpu_items *items, size_t n,
			size_t i)
{
	for (size_t k = i; k < n; k++)
		if (p->ids[i][0] ? strcmp(id_of(items, k), p->ids[i]) == 0
				 : !has_place(p, id_of(items, k)))
			return k;
	return n;
}

size_t gpu_keep_places(const struct gpu_places *p, const struct gpu_items *items, size_t n)
{
	char *first = items->first;

	for (size_t i = 0; i < p->n; i++) {
		size_t k = find_item(p, items, n, i);

		if (k == GPU_MAX_DEVICES)
			return n;
		if (k == n)
			items->make(first + n++ * items->size, p->ids[i], p->names[i]);
		move(first, items->size, k, i);
	}
	return n;
}
