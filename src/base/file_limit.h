/*
 * file_limit - how many files may be open: what this process was started with, and all it may have.
 *
 * Kept-open files of /proc make samples cheap, and each client of a daemon is a
 * file. Programs that we start get the limit that we were started with: some go
 * through all numbers up to it, and select() bears no more than 1024.
 */
#ifndef PROCTOR_BASE_FILE_LIMIT_H
#define PROCTOR_BASE_FILE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* Takes all that may be had. ret is what it was, for file_limit_set(); it may be NULL. */
void file_limit_raise(struct rlimit *ret);

/* rlim_max 0: nothing is changed. */
void file_limit_set(const struct rlimit *limit);

/* Whether n more files could be open beside fd, which is one. */
bool file_limit_has_room(int fd, size_t n);

#endif
