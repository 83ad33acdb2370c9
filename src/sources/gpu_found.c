/*
 * gpu_found - whether a driver has found a GPU, without asking it anything.
 */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/macros.h"
#include "sources/gpu.h"

#define NVIDIA_GPUS "proc/driver/nvidia/gpus"

static uint32_t count_entries(int root_fd, const char *path)
{
	CLEANUP(close_fd) int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;
	uint32_t n = 0;
	DIR *dir;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return 0;
	fd = -1; /* the DIR has it now */
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

uint32_t gpu_count_nvidia(int root_fd)
{
	return count_entries(root_fd, NVIDIA_GPUS);
}

bool gpu_has_nvidia(int root_fd)
{
	return gpu_count_nvidia(root_fd) > 0 || faccessat(root_fd, "dev/nvidiactl", F_OK, 0) == 0;
}

bool sources_has_gpu(int root_fd)
{
	return gpu_has_nvidia(root_fd) ||
	       (count_entries(root_fd, "dev/dri") > 0 && gpu_has_drm(root_fd));
}
