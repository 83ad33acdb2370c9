/*
 * holder - which process has a database that another waits for.
 *
 * It is read from /proc and never by opening the database: when a process closes
 * any file of it, all POSIX locks that it has there are gone. Only what this
 * user may see in /proc is found, and nobody on another host.
 */
#ifndef PROCTOR_STORE_HOLDER_H
#define PROCTOR_STORE_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * The bytes that SQLite locks. Of the database: pending, reserved, and the range
 * that readers share; a database with a write-ahead log is locked for reading there
 * by all who have it open. Of its -shm: one byte for each kind of lock on the log.
 */
#define HOLDER_PENDING UINT64_C(0x40000000)
#define HOLDER_SHARED (HOLDER_PENDING + 2)
#define HOLDER_LAST (HOLDER_PENDING + 511)
#define HOLDER_LOG_WRITER 120
#define HOLDER_LOG_RECOVERY 122
#define HOLDER_LOG_SETUP 128

/* Bytes of a file where somebody's lock may stand in the way. */
struct holder_place {
	char file[48]; /* as /proc/locks names it: "fe:00:11010061" */
	uint64_t first, last;
	bool by_readers; /* a lock for reading is in the way too */
};

/*
 * Who has a lock on one of the places, in the text of /proc/locks; of several the
 * one of the earlier place. Those who wait, and own_pid, are not meant. 0: nobody,
 * or a process that has no pid here (OFD locks, another pid namespace).
 */
pid_t holder_parse_locks(const char *text, const struct holder_place *places, size_t n,
			 pid_t own_pid);

#define HOLDER_BYTES 96

/* "process 4711 (sqlite3)", without the name if that cannot be read; "another process" for 0. */
void holder_describe(pid_t pid, char ret[HOLDER_BYTES]);

/* Who has a lock on the database that keeps others waiting. 0: nobody that can be named. */
pid_t holder_find(const char *db_path);

/* Another process that has the file open, locked or not; 0: none that can be seen. */
pid_t holder_find_opener(const struct stat *file);

#endif
