/*
 * gpu - whether this host has graphics processors that somebody could ask about.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "sources/sources.h"

/* One of these is there when a driver has found one: NVIDIA's own, and the kernel's for all others.
 */
static const char *const gpu_folders[] = { "proc/driver/nvidia/gpus", "dev/dri" };

static bool has_entries(int root_fd, const char *path)
{
	CLEANUP(close_fd) int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return false;
	fd = -1; /* the DIR has it now */
	while (!found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.';
	closedir(dir);
	return found;
}

bool sources_has_gpu(int root_fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(gpu_folders); i++)
		if (has_entries(root_fd, gpu_folders[i]))
			return true;
	return false;
}
