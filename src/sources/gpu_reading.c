#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "sources/gpu.h"

#define GARBAGE_PERCENT 1000
#define COLDEST_C (-100)
#define HOTTEST_C 300 /* of what is still a GPU */

void gpu_reading_init(struct gpu_reading *r)
{
	memset(r, 0, offsetof(struct gpu_reading, processes));
}

size_t gpu_reading_bytes(const struct gpu_reading *r)
{
	return offsetof(struct gpu_reading, processes) + r->n_processes * sizeof(r->processes[0]);
}

struct gpu_sample *gpu_add_device(struct gpu_reading *r, const char *name)
{
	struct gpu_sample *device;

	if (r->n_devices == GPU_MAX_DEVICES) {
		gpu_note(r, "only the first %d GPUs are read", GPU_MAX_DEVICES);
		return NULL;
	}
	snprintf(r->names[r->n_devices], GPU_NAME_BYTES, "%s", name ? name : "");
	device = &r->devices[r->n_devices];
	gpu_sample_init(device);
	device->index = (int)r->n_devices++;
	return device;
}

static struct gpu_process *find_same(struct gpu_reading *r, const struct gpu_process *p)
{
	for (uint32_t i = 0; i < r->n_processes; i++)
		if (r->processes[i].key.pid == p->key.pid &&
		    r->processes[i].key.start_ticks == p->key.start_ticks &&
		    r->processes[i].device == p->device)
			return &r->processes[i];
	return NULL;
}

void gpu_add_process(struct gpu_reading *r, const struct gpu_process *p)
{
	struct gpu_process *same = find_same(r, p);

	if (same) {
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

double gpu_sane_percent(struct gpu_reading *r, int device, double percent)
{
	if (!isfinite(percent) || percent < 0 || percent > GARBAGE_PERCENT)
		return F64_UNKNOWN;
	if (percent <= 100)
		return percent;
	gpu_note(r, "GPU %d says that it is %g %% busy: taken for 100 %%", device, percent);
	return 100;
}

static void check_device(struct gpu_reading *r, struct gpu_sample *s)
{
	if (s->temperature_c < COLDEST_C || s->temperature_c > HOTTEST_C) {
		gpu_note(r, "GPU %d says that it has %g degrees C: not taken for true", s->index,
			 s->temperature_c);
		s->temperature_c = F64_UNKNOWN;
	}
	if (s->memory_used_mb > s->memory_total_mb) {
		gpu_note(r, "GPU %d says that %g of %g MB are in use: not taken for true", s->index,
			 s->memory_used_mb, s->memory_total_mb);
		s->memory_used_mb = F64_UNKNOWN;
	}
}

void gpu_check_devices(struct gpu_reading *r, uint32_t first)
{
	for (uint32_t i = first; i < r->n_devices; i++)
		check_device(r, &r->devices[i]);
}
