/*
 * cgroups - the memory of the cgroups that jobs' processes are in, and how many may be there.
 */
#ifndef PROCTOR_SOURCES_CGROUPS_H
#define PROCTOR_SOURCES_CGROUPS_H

#include "model/snapshot.h"

#define CGROUPS_MAX 64 /* the first so many of a snapshot are read */

/*
 * Fills s->cgroups from files below root_fd's sys/fs/cgroup, of v2 or of v1's memory
 * controller: one for each cgroup of a process that belongs to a job. One of which nothing can be
 * read is left out. NULL stays where memory runs out.
 */
void cgroups_read(int root_fd, struct snapshot *s);

/* A number of bytes; "max", and what v1 writes instead, is MEMORY_UNLIMITED. */
uint64_t cgroup_bytes_parse(const char *text);

/* "/../x": outside of the namespace whose tree is below sys/fs/cgroup. */
bool cgroup_is_outside(const char *path, size_t n);

#endif
