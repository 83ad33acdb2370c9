/*
 * gpu_smi - NVIDIA's own program, where its library cannot be used.
 *
 * A call takes some 50 ms of CPU time and may hang with the driver: it is given a
 * few seconds and asked rarely. It tells nothing of the share of each process, nor of
 * processes that only draw.
 */
#include "sources/gpu_smi.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu.h"

#define EVERY_NS UINT64_C(10000000000)
#define ASK_DEVICES \
	"--query-gpu=uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,index"
#define ASK_PROCESSES "--query-compute-apps=gpu_uuid,pid,used_memory"

struct smi {
	int root_fd;
	struct smi_device devices[GPU_MAX_DEVICES]; /* each keeps its place */
	int n_devices;
	bool has_more;	 /* than there is room for */
	struct err lost; /* what it said the last time of one that has fallen off the bus */
	struct gpu_owners owners;
	struct gpu_reading last; /* while it is not asked */
	uint64_t asked_boot_ns;	 /* 0: never */
};

/* ---- devices ---- */

/* GPU_DEVICE_UNKNOWN: of none that is known. */
static int find_device(const struct smi *smi, const char *uuid)
{
	for (int i = 0; i < smi->n_devices; i++)
		if (strcmp(smi->devices[i].uuid, uuid) == 0)
			return i;
	return GPU_DEVICE_UNKNOWN;
}

static void make_unlisted(void *item, const char *id, const char *name)
{
	struct smi_device *device = item;

	(void)name;
	*device = (struct smi_device){ .is_listed = false };
	snprintf(device->uuid, sizeof(device->uuid), "%s", id);
}

/* One that is lost, and was so from the beginning: its number is free until it is back. */
static bool is_hole(const struct smi_device *device)
{
	return !device->uuid[0];
}

/* Where a new one stands: behind the others, but for those whose rows are missing. */
static int find_place(struct smi *smi, const struct smi_device *device, bool is_one_lost)
{
	uint64_t index = device->index;

	if (index < GPU_MAX_DEVICES && is_one_lost)
		while ((uint64_t)smi->n_devices < index)
			make_unlisted(&smi->devices[smi->n_devices++], "", "");
	if (index < (uint64_t)smi->n_devices && is_hole(&smi->devices[index]))
		return (int)index;
	return smi->n_devices < GPU_MAX_DEVICES ? smi->n_devices++ : GPU_DEVICE_UNKNOWN;
}

static void keep_device(struct smi *smi, const struct smi_device *device, bool is_one_lost)
{
	int i = find_device(smi, device->uuid);

	if (i == GPU_DEVICE_UNKNOWN)
		i = find_place(smi, device, is_one_lost);
	if (i != GPU_DEVICE_UNKNOWN)
		smi->devices[i] = *device;
	else
		smi->has_more = true;
}

/* How many it lists. */
static size_t take_devices(struct smi *smi, char *text, bool is_one_lost)
{
	struct smi_device device;
	char *rest = NULL;
	size_t n = 0;

	smi->has_more = false;
	for (int i = 0; i < smi->n_devices; i++)
		smi->devices[i].is_listed = false;
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (!smi_parse_device(line, &device))
			continue;
		keep_device(smi, &device, is_one_lost);
		n++;
	}
	return n;
}

/* -ENODEV: it lists none. */
static int ask_devices(struct smi *smi, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct err why = ERR_INIT;
	int r = smi_run(ASK_DEVICES, &text, &why);
	size_t n = r == 0 || r == -ENXIO ? take_devices(smi, text.data, r == -ENXIO) : 0;

	smi->lost = why;
	if (n > 0)
		return 0;
	return r < 0 ? err_set(err, r, "%s", why.text)
		     : err_set(err, -ENODEV, SMI_PROGRAM " lists no GPU");
}

static double known_or_not(double value)
{
	return isfinite(value) && value >= 0 ? value : F64_UNKNOWN;
}

static void note_lost(const struct smi_device *device, struct gpu_sample *s,
		      struct gpu_reading *ret)
{
	s->is_lost = true;
	gpu_note(ret,
		 device->is_listed || is_hole(device) ? SMI_PROGRAM " says that GPU %d is lost"
						      : SMI_PROGRAM
			 " does not list GPU %d any more",
		 s->index);
	ret->n_left_out++; /* who holds it */
}

static void add_device(const struct smi_device *device, struct gpu_reading *ret)
{
	struct gpu_sample *s = gpu_add_device(ret, "NVIDIA");
	const struct smi_line *line = &device->line;

	if (!s)
		return;
	if (device->is_lost || !device->is_listed) {
		note_lost(device, s, ret);
		return;
	}
	s->utilization_pct = gpu_sane_percent(ret, s->index, line->values[SMI_UTILIZATION]);
	s->memory_used_mb = known_or_not(line->values[SMI_MEMORY_USED]);
	s->memory_total_mb = known_or_not(line->values[SMI_MEMORY_TOTAL]);
	s->temperature_c = isfinite(line->values[SMI_TEMPERATURE]) ? line->values[SMI_TEMPERATURE]
								   : F64_UNKNOWN;
}

/* ---- processes ---- */

static void add_process(struct smi *smi, const struct smi_process *p, struct gpu_reading *ret)
{
	struct gpu_process process = { .device = find_device(smi, p->uuid),
				       .memory_bytes = p->memory_bytes,
				       .utilization_pct = F64_UNKNOWN };

	if (process.device != GPU_DEVICE_UNKNOWN &&
	    gpu_owners_find(&smi->owners, smi->root_fd, p->pid, &gpu_nvidia_files, &process.key))
		gpu_add_process(ret, &process);
	else
		ret->n_left_out++;
}

/* What is known of the devices stands, whatever becomes of this. */
static void read_processes(struct smi *smi, struct gpu_reading *ret)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct err err = ERR_INIT;
	struct smi_process process;
	char *rest = NULL;

	if (smi_run(ASK_PROCESSES, &text, &err) < 0) {
		gpu_note(ret, "%s", err.text);
		ret->n_left_out++;
	}
	for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		if (smi_parse_process(line, &process))
			add_process(smi, &process, ret);
	gpu_add_holders(smi->root_fd, &gpu_nvidia_files, ret); /* who draws is not listed */
}

/* ---- the driver ---- */

static int smi_open(int root_fd, void **ret, struct err *err)
{
	struct smi *smi;
	int r;

	if (!gpu_has_nvidia(root_fd))
		return err_set(err, -ENODEV, "NVIDIA's driver has found no GPU");
	smi = calloc(1, sizeof(*smi));
	if (!smi)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	smi->root_fd = root_fd;
	r = ask_devices(smi, err);
	if (r < 0)
		free(smi);
	else
		*ret = smi;
	return r;
}

static int ask_again(struct smi *smi, struct err *err)
{
	int r = ask_devices(smi, err);

	if (r < 0)
		return r;
	gpu_reading_init(&smi->last);
	for (int i = 0; i < smi->n_devices; i++)
		add_device(&smi->devices[i], &smi->last);
	if (smi->has_more)
		gpu_note_more_devices(&smi->last);
	if (smi->lost.code < 0) {
		gpu_note(&smi->last, "%s", smi->lost.text);
		smi->last.n_left_out++; /* who holds it */
	}
	read_processes(smi, &smi->last);
	return 0;
}

static int smi_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct smi *smi = driver;
	uint64_t now = clock_boot_ns();
	int r;

	if (smi->asked_boot_ns == 0 || now - smi->asked_boot_ns >= EVERY_NS) {
		smi->asked_boot_ns = now;
		r = ask_again(smi, err);
		if (r < 0)
			return r;
	}
	memcpy(ret, &smi->last, gpu_reading_bytes(&smi->last));
	gpu_note_asked(ret, smi->asked_boot_ns);
	gpu_note(ret, SMI_PROGRAM
		 " tells no share (utilisation) of a process, and lists none that only draws");
	return 0;
}

static void smi_measure(void *driver, gpu_cost_fn *fn, void *ctx)
{
	struct err err = ERR_INIT;
	uint64_t before = clock_boot_ns();
	int r = ask_again(driver, &err);

	fn(ctx, r < 0 ? err.text : "both calls of " SMI_PROGRAM,
	   r < 0 ? U64_UNKNOWN : clock_boot_ns() - before);
}

static void drop_holes(struct smi *smi)
{
	int n = 0;

	for (int i = 0; i < smi->n_devices; i++)
		if (!is_hole(&smi->devices[i]))
			smi->devices[n++] = smi->devices[i];
	smi->n_devices = n;
}

static void smi_keep_places(void *driver, const struct gpu_places *places)
{
	struct smi *smi = driver;
	const struct gpu_items items = { smi->devices, sizeof(smi->devices[0]),
					 offsetof(struct smi_device, uuid), make_unlisted };

	if (places->n > 0)
		drop_holes(smi); /* what was known before says where they are */
	smi->n_devices = (int)gpu_keep_places(places, &items, (size_t)smi->n_devices);
}

static const char *smi_id(const void *driver, size_t i)
{
	return ((const struct smi *)driver)->devices[i].uuid;
}

static void smi_close(void *driver)
{
	free(driver);
}

const struct gpu_driver gpu_smi = {
	.name = SMI_PROGRAM,
	.vendor = GPU_NVIDIA,
	.open = smi_open,
	.read = smi_read,
	.keep_places = smi_keep_places,
	.id = smi_id,
	.measure = smi_measure,
	.close = smi_close,
};
