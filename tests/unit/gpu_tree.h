/*
 * gpu_tree - a captured tree of /proc, /sys and /dev below a folder of its own, with a card of
 * AMD's and processes that hold a GPU's files.
 */
#ifndef PROCTOR_TESTS_GPU_TREE_H
#define PROCTOR_TESTS_GPU_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu/gpu.h"

#define MB (UINT64_C(1) << 20)

struct tree {
	char path[64];
	int fd;
};

static inline void run(const char *format, ...)
{
	char command[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	assert_int_equal(system(command), 0);
}

static inline int open_tree(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	strcpy(t->path, "/tmp/proctor-gpu-XXXXXX");
	assert_non_null(mkdtemp(t->path));
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(t->fd >= 0);
	*state = t;
	return 0;
}

static inline int close_tree(void **state)
{
	struct tree *t = *state;

	close(t->fd);
	run("rm -rf '%s'", t->path);
	free(t);
	return 0;
}

static inline void put(const struct tree *t, const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	run("mkdir -p \"$(dirname '%s/%s')\"", t->path, path);
	snprintf(whole, sizeof(whole), "%s/%s", t->path, path);
	file = fopen(whole, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* A process with that start time, and what its file 5 is. */
static inline void put_process(const struct tree *t, int pid, int inner_pid, const char *target)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	snprintf(
		text, sizeof(text),
		"%d (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
		"0 0 0 0 0 0 0\n",
		pid, pid * 10);
	put(t, path, text);
	snprintf(path, sizeof(path), "proc/%d/status", pid);
	snprintf(text, sizeof(text), "Name:\tp\nNSpid:\t%d\t%d\n", pid, inner_pid);
	put(t, path, text);
	run("mkdir -p '%s/proc/%d/fd' '%s/proc/%d/fdinfo'", t->path, pid, t->path, pid);
	run("ln -s '%s' '%s/proc/%d/fd/5'", target, t->path, pid);
}

/* The first is that user's, the second somebody else's, as far as we may do that. */
static inline void give_away(const struct tree *t, uid_t user)
{
	if (geteuid() == 0)
		run("chown %u '%s'/proc/300 && chown 4242 '%s'/proc/301", (unsigned)user, t->path,
		    t->path);
	else
		run("rm -r '%s'/proc/301", t->path);
}

static const char amd_client[] = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1\n"
				 "drm-driver:\tamdgpu\ndrm-client-id:\t42\n"
				 "drm-pdev:\t0000:03:00.0\n"
				 "drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t512 KiB\n"
				 "drm-engine-gfx:\t123456 ns\ndrm-engine-compute:\t99 ns\n"
				 "drm-engine-capacity-gfx:\t2\n";

static inline void put_card(const struct tree *t)
{
	put(t, "sys/class/drm/card1/device/vendor", "0x1002\n");
	put(t, "sys/class/drm/card1/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
	put(t, "sys/class/drm/card1/device/gpu_busy_percent", "37\n");
	put(t, "sys/class/drm/card1/device/mem_info_vram_used", "1073741824\n");
	put(t, "sys/class/drm/card1/device/mem_info_vram_total", "8589934592\n");
	put(t, "sys/class/drm/card1/device/hwmon/hwmon4/temp1_input", "51000\n");
	put(t, "sys/class/drm/card1/device/hwmon/hwmon4/power1_average", "95000000\n");
	put(t, "sys/class/drm/card1-DP-1/device/vendor", "0x1002\n");
}

#endif
