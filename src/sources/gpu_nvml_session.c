/*
 * gpu_nvml_session - from the beginning to the end of a session with NVIDIA's library.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sources/gpu_nvml.h"

/* From here on it counts the errors that the device reports to the driver. */
static void listen_to_events(struct nvml *n)
{
	if (!n->call.event_set_create || !n->call.event_wait || !n->call.register_events ||
	    !n->call.event_set_free || n->call.event_set_create(&n->events) != NVML_OK)
		n->events = NULL;
	for (unsigned i = 0; n->events && i < n->n_devices; i++)
		if (n->devices[i].handle)
			n->call.register_events(n->devices[i].handle, NVML_EVENT_XID, n->events);
}

static void end_session(struct nvml *n)
{
	if (n->events)
		n->call.event_set_free(n->events);
	if (n->is_initialised)
		n->call.shutdown();
	n->events = NULL;
	n->is_initialised = false;
}

/* How many devices could be opened. */
static int begin_session(struct nvml *n, struct err *err)
{
	int result = n->call.init(), r;

	if (result == NVML_DRIVER_NOT_LOADED)
		return err_set(err, -ENODEV, "NVIDIA's driver is not loaded");
	if (result != NVML_OK)
		return nvml_tell(n, result, "begin", err);
	n->is_initialised = true;
	n->opened_boot_ns = clock_boot_ns();
	r = nvml_find_devices(n, err);
	if (r > 0)
		listen_to_events(n);
	return r;
}

int nvml_begin_anew(struct nvml *n, struct err *err)
{
	struct err none_opened = ERR_INIT;
	int r;

	end_session(n);
	r = begin_session(n, &none_opened);
	if (r < 0 && err)
		*err = none_opened;
	return r < 0 ? r : 0;
}

void nvml_close(void *driver)
{
	struct nvml *n = driver;

	end_session(n);
	for (unsigned i = 0; i < n->n_devices; i++) {
		free(n->devices[i].shares);
		free(n->devices[i].asked);
	}
	nvml_unload(n);
	free(n);
}

/* Of which there is that to tell, though none can be opened. */
static bool has_lost(const struct nvml *n)
{
	for (unsigned i = 0; i < n->n_devices; i++)
		if (nvml_is_lost(n->devices[i].why_closed))
			return true;
	return false;
}

int nvml_open(int root_fd, void **ret, struct err *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	struct err why_not = ERR_INIT;
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	n->root_fd = root_fd;
	r = nvml_load(n, &why_not);
	if (r == 0)
		r = begin_session(n, &why_not);
	if (r < 0 || (r == 0 && !has_lost(n))) {
		bool is_denied = r == 0 && n->n_devices == 0;

		nvml_close(n);
		if (err)
			*err = why_not;
		return r < 0 ? r : is_denied ? -EACCES : -EIO;
	}
	*ret = n;
	return 0;
}
