/*
 * collector_fixture - a collector over a tree that the test rewrites between scans, with clocks
 * that it sets.
 */
#ifndef PROCTOR_TESTS_COLLECTOR_FIXTURE_H
#define PROCTOR_TESTS_COLLECTOR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/sources.h"

#define SECOND UINT64_C(1000000000)

static uint64_t fake_boot_ns, fake_wall_ns;

static inline uint64_t get_boot_ns(void)
{
	return fake_boot_ns;
}

static inline uint64_t get_wall_ns(void)
{
	return fake_wall_ns;
}

struct tree {
	char path[64];
	int root_fd;
	struct collector *collector;
	struct snapshot snap;
};

static inline void write_file(struct tree *t, pid_t pid, const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "proc/%d", pid);
	mkdirat(t->root_fd, path, 0755);
	snprintf(path, sizeof(path), "proc/%d/%s", pid, name);
	fd = openat(t->root_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

struct fake {
	pid_t pid;
	const char *comm;
	unsigned user_ticks, threads, start_ticks;
};

static inline void write_stat(struct tree *t, struct fake f)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 %u 0 0 0 20 0 %u 0 %u 0 0 0 0 0 0 0 0\n", f.pid,
		 f.comm, f.user_ticks, f.threads, f.start_ticks);
	write_file(t, f.pid, "stat", text);
}

static inline void remove_process(struct tree *t, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	assert_int_equal(unlinkat(t->root_fd, path, 0), 0);
}

static inline int setup_tree(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct collector_options options = {
		.clock_ticks = 100,
		.page_bytes = 4096,
		.now_boot_ns = get_boot_ns,
		.now_wall_ns = get_wall_ns,
	};

	strcpy(t->path, "/tmp/proctor-test-XXXXXX");
	assert_non_null(mkdtemp(t->path));
	t->root_fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(t->root_fd, "proc", 0755), 0);
	options.root_fd = t->root_fd;
	assert_int_equal(collector_new(&options, &t->collector, NULL), 0);
	snapshot_init(&t->snap);
	fake_boot_ns = 1000 * SECOND;
	fake_wall_ns = 1700000000 * SECOND;
	*state = t;
	return 0;
}

static inline int teardown_tree(void **state)
{
	struct tree *t = *state;
	char command[128];

	snapshot_release(&t->snap);
	collector_free(t->collector);
	close(t->root_fd);
	snprintf(command, sizeof(command), "rm -rf %s", t->path);
	assert_int_equal(system(command), 0);
	free(t);
	return 0;
}

static inline void scan(struct tree *t)
{
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	collector_fill(t->collector, &t->snap, SNAPSHOT_ALL);
}

static inline const struct proc_sample *find(const struct snapshot *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].key.pid == pid)
			return &s->processes[i];
	return NULL;
}

#define TREE(test) cmocka_unit_test_setup_teardown(test, setup_tree, teardown_tree)

#endif
