/*
 * pids - which processes there are.
 */
#ifndef PROCTOR_SOURCES_PIDS_H
#define PROCTOR_SOURCES_PIDS_H

#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>

/* Ascending. All zero is an empty one. */
struct pid_list {
	pid_t *items;
	size_t n, cap;
};

void pid_list_release(struct pid_list *list);

/* Replaces the content by the pids that the folder proc shows, from its beginning. */
int pid_list_read(struct pid_list *list, DIR *proc);

/* Replaces the content by these, in ascending order and each once. -ENOMEM. */
int pid_list_set(struct pid_list *list, const pid_t *pids, size_t n);

/* One that is larger than all others. -ENOMEM. */
int pid_list_add(struct pid_list *list, pid_t pid);

#endif
