/*
 * oom - how often the kernel killed for lack of memory: here, and on the host.
 */
#ifndef PROCTOR_SOURCES_OOM_H
#define PROCTOR_SOURCES_OOM_H

#include <stdbool.h>
#include <stdint.h>

/* See sources_read_oom(). *ret_is_v1: which cgroup version the cgroup's count is from. */
uint64_t oom_read_host(int root_fd);
uint64_t oom_read_cgroup(int root_fd, bool *ret_is_v1);

#endif
