/*
 * spool_file - records that wait beside the database until it can be written: PATH-spool.
 *
 * The file is made, and filled with zeros, while there is room, so that a record can be
 * put down on a disk that is full. Its beginning says how many bytes of it are records;
 * who appends writes the record first and that number then, so half a record is never one.
 * Whoever writes holds the file's flock, and has looked that it is still the one with the name
 * (another may have set it aside). It is 0600; links are not followed, and a file
 * of somebody else is left alone (root takes that of the database's owner).
 */
#ifndef PROCTOR_STORE_SPOOL_FILE_H
#define PROCTOR_STORE_SPOOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define SPOOL_BYTES 65536	  /* that it has from the beginning */
#define SPOOL_MAX_BYTES (1 << 20) /* that are taken for records at most */

/*
 * Makes it, or fills up what is shorter than it should be. A disk without room for it is no
 * failure of who asks.
 */
void spool_file_prepare(const char *db_path);

/*
 * Durable when it returns, and its name as well. Waits for who has the lock, longer than anybody
 * should have it. -EFBIG: it has more than anybody will take in.
 */
int spool_file_append(const char *db_path, const void *bytes, size_t n);

/* Whether there are records. Takes no lock. */
bool spool_file_has_records(const char *db_path);

/* To take them out. -ENOENT: there is none. -EBUSY: another has it. */
int spool_file_open(const char *db_path, int *ret_fd);

/* All records, one behind the other: the length of each (four bytes) stands before it. */
int spool_file_read(int fd, struct buf *ret); /* -EBADMSG */
int spool_file_clear(int fd);
/* Renames it to PATH-spool.damaged-WALL_NS, and makes a new one. By who has it open. */
int spool_file_set_aside(const char *db_path, uint64_t wall_ns);
char *spool_file_aside_name(const char *db_path, uint64_t wall_ns); /* to be freed; NULL */
/* How many such files there are, and the name of one of them. */
size_t spool_file_find_aside(const char *db_path, struct buf *out);

/*
 * Steps through what was read. 1: the next record. 0: no more. -EBADMSG: what is there was not
 * written so; the next step is behind it, or at the end if its length makes no sense either.
 */
int spool_next(const char **at, const char *end, const void **ret, size_t *ret_len);

#endif
