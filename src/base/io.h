/*
 * io - whole small files in, whole buffers out; how many files may be open; folders.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * Reads a file below dirfd into b (which is emptied first). -EFBIG if it is
 * longer than max bytes. Other failures are the errno of open or read.
 */
int io_read_at(int dirfd, const char *path, size_t max, struct buf *b);

/* The same for an open file, from where it stands. */
int io_read_fd(int fd, size_t max, struct buf *b);

/*
 * Reads what a person names as a file of settings or of a job. What could keep us waiting, or has
 * no end, is refused (-EINVAL): a named pipe, a folder, a device but /dev/null. The pipe of a shell
 * ("… |", "<(…)") is read like a file. -EFBIG: it is longer than max bytes. err says it in one
 * sentence.
 */
int io_read_document(const char *path, size_t max, struct buf *b, struct err *err);

/*
 * Reads an open file from its beginning into text, NUL-terminated, retrying
 * EINTR. Returns the length; what does not fit into size - 1 is left out.
 * For files of /proc that are kept open: each call gives fresh content. It reads
 * once, so it is not for files of many records (vmstat, maps, mountinfo), which
 * the kernel hands out a page at a time: those need io_read_at().
 */
ssize_t io_pread_text(int fd, char *text, size_t size);

/* The same for a file that is opened and closed. */
ssize_t io_read_text_at(int dirfd, const char *path, char *text, size_t size);

/* Where a link leads to, as text, cut where it has no room. Returns its length; -errno: it is "".
 */
ssize_t io_read_link_at(int dirfd, const char *path, char *text, size_t size);

/* Writes all n bytes, retrying EINTR and short writes, and waiting where fd does not block. */
int io_write_all(int fd, const void *bytes, size_t n);

/*
 * What was made, renamed or removed in the folder of this file is so after a power cut, too. Where
 * a file system cannot promise that (-EINVAL of fsync) this is no failure.
 */
int io_sync_folder_of(const char *path);

/*
 * The limit of open files. Kept-open files of /proc make samples cheap, and each client of a daemon
 * is a file. Programs that we start get the limit that we were started with: some go through all
 * numbers up to it, and select() bears no more than 1024.
 */

/* Raises it to the maximum. ret is the one before, for file_limit_set(); it may be NULL. */
void file_limit_raise(struct rlimit *ret);

/* rlim_max 0: nothing is changed. */
void file_limit_set(const struct rlimit *limit);

/* Whether n more files could be open. */
bool file_limit_has_room(size_t n);

/* ---- folders ---- */

/* Opens a directory below fd; NULL, with errno. */
DIR *dir_open_at(int fd, const char *path);

/* For CLEANUP(); NULL is fine. */
void dir_close(DIR **dir);

/* The next entry of /proc that is a pid; 0: there is none, with errno if they could not all be
 * read. */
pid_t dir_next_pid(DIR *proc);
