/*
 * nvml_fixture - a host with NVIDIA's driver, whose library is the stand-in. The processes that
 * are started here, and those that they start, fall to the test when their parents end.
 */
#ifndef PROCTOR_TESTS_NVML_FIXTURE_H
#define PROCTOR_TESTS_NVML_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "nvml_stand_in.h"
#include "sources/gpu/gpu.h"
#include "sources/gpu/nvml.h"

#define HOLDER_PID 100

static struct fixture {
	char root[64];	/* with a proc of its own, in which a process holds a device */
	char path[128]; /* of the file that was last named */
	int root_fd;
	void *library;
	struct nvml_stand_in *told;
	struct gpu_reading reading;
} fixture;

static inline void put(const char *name, const char *text)
{
	int fd = openat(fixture.root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* The path of a file that is there or will be, until another is named. */
static inline const char *name_file(const char *name)
{
	snprintf(fixture.path, sizeof(fixture.path), "%s/%s", fixture.root, name);
	return fixture.path;
}

static inline void remove_file(const char *name)
{
	assert_int_equal(unlinkat(fixture.root_fd, name, 0), 0);
}

/* The driver asks for the library by its name, and gets the one of that name that is loaded. */
static inline void load_stand_in(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	struct nvml_stand_in *(*find)(void);

	assert_true(n > 0);
	path[n] = '\0';
	strcat(dirname(path), "/libnvidia-ml.so.1");
	fixture.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fixture.library)
		fail_msg("%s", dlerror());
	*(void **)&find = dlsym(fixture.library, "nvml_stand_in");
	assert_non_null(find);
	fixture.told = find();
}

static inline int open_all(void **state)
{
	static const char *const folders[] = { "proc",
					       "proc/100",
					       "proc/100/fd",
					       "dev",
					       "proc/driver",
					       "proc/driver/nvidia",
					       "proc/driver/nvidia/gpus" };

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	load_stand_in();
	strcpy(fixture.root, "/tmp/proctor-nvml-XXXXXX");
	assert_non_null(mkdtemp(fixture.root));
	fixture.root_fd = open(fixture.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		assert_int_equal(mkdirat(fixture.root_fd, folders[i], 0700), 0);
	put("proc/100/stat",
	    "100 (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0 0 0 0 0 0 0 0 0 "
	    "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	assert_int_equal(symlinkat("/dev/nvidia0", fixture.root_fd, "proc/100/fd/3"), 0);
	return 0;
}

static inline int close_all(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", fixture.root);
	close(fixture.root_fd);
	dlclose(fixture.library);
	return system(command);
}

static inline int all_is_well(void **state)
{
	(void)state;
	*fixture.told = (struct nvml_stand_in){ .pid = HOLDER_PID, .share = 40 };
	return 0;
}

static inline void *open_driver(void)
{
	struct err err = ERR_INIT;
	void *driver;

	if (gpu_nvml.open(fixture.root_fd, NULL, &driver, &err) < 0)
		fail_msg("%s", err.text);
	return driver;
}

static inline const struct gpu_reading *read_driver(void *driver, int want)
{
	struct err err = ERR_INIT;

	gpu_reading_init(&fixture.reading);
	assert_int_equal(gpu_nvml.read(driver, &fixture.reading, &err), want);
	assert_true((want < 0) == (err.text[0] != '\0'));
	return &fixture.reading;
}

/* A program that answers for one GPU, the only one to be found; returns what PATH was. */
static inline char *put_program(void)
{
	char *path = strdup(getenv("PATH"));

	assert_non_null(path);
	put("proc/driver/nvidia/gpus/0000:01:00.0", "");
	put("nvidia-smi", "#!/bin/sh\n[ \"${1#--query-gpu}\" = \"$1\" ] || "
			  "echo GPU-0, 50, 100, 200, 30\n");
	assert_int_equal(fchmodat(fixture.root_fd, "nvidia-smi", 0700, 0), 0);
	setenv("PATH", fixture.root, 1);
	return path;
}

/* A program that does not list the first GPU, as one that is lost, and begins with the last. */
static inline void put_program_of_others(void)
{
	put("nvidia-smi", "#!/bin/sh\n[ \"${1#--query-gpu}\" = \"$1\" ] || "
			  "{ echo GPU-2, 52, 100, 200, 30; echo GPU-1, 51, 100, 200, 30; }\n");
}

static inline void remove_program(char *path)
{
	unlinkat(fixture.root_fd, "nvidia-smi", 0);
	unlinkat(fixture.root_fd, "proc/driver/nvidia/gpus/0000:01:00.0", 0);
	setenv("PATH", path, 1);
	free(path);
}

static inline struct gpus_options reader_options(void)
{
	return (struct gpus_options){ .root_fd = fixture.root_fd,
				      .at_once = true,
				      .patience_seconds = 5 };
}

/* The next reading that comes within a minute. */
static inline const struct gpu_reading *next_reading(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	assert_true(poll(&wait, 1, 60000) > 0);
	assert_true(recv(fd, &fixture.reading, sizeof(fixture.reading), 0) > 0);
	return &fixture.reading;
}

/* Until one comes from that rung; fails after a minute. */
static inline const struct gpu_reading *await_rung(int fd, const char *rung)
{
	uint64_t deadline_ns = clock_boot_ns() + UINT64_C(60000000000);

	while (strcmp(next_reading(fd)->rung, rung) != 0)
		assert_true(clock_boot_ns() < deadline_ns);
	return &fixture.reading;
}

/* All that was started ends; they fall to us as their parents do. */
static inline void await_all(void)
{
	int left = 6000;

	while (left-- > 0 && waitpid(-1, NULL, WNOHANG) >= 0)
		usleep(10000);
	assert_true(left > 0);
}

#endif
