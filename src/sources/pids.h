/*
 * pids - directories of /proc, and the processes that it shows.
 */
#ifndef PROCTOR_SOURCES_PIDS_H
#define PROCTOR_SOURCES_PIDS_H

#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>

/* Opens a directory below fd; NULL, with errno. */
DIR *dir_open_at(int fd, const char *path);

/* For CLEANUP(); NULL is fine. */
void dir_close(DIR **dir);

/* The next entry that is a pid; 0: there is none, with errno if they could not all be read. */
pid_t dir_next_pid(DIR *proc);

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
