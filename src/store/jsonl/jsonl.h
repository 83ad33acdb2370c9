#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/snapshot.h"

/*
 * jsonl - the log of snapshots: one line of JSON each, appended by many at once.
 *
 * Any number of processes append to one file. Lines are never mixed, and none is
 * lost that jsonl_append() said was written. A line that would take the file past
 * max_bytes begins a new one: PATH becomes PATH.1, what that was becomes PATH.2,
 * and what that was is gone. A line that is longer than max_bytes is alone in its file.
 *
 * What a writer leaves that was killed, or ran out of room, in the middle of a line is
 * cut off by the next: a file holds whole lines but for such a tail. Nothing is synced,
 * so a power cut may take the last lines; the database is what lasts.
 *
 * Whoever appends holds the file's flock and has then made sure that it is still
 * PATH. The file is made 0600. Links are not followed, and a file that belongs to
 * somebody else or does not begin like a log is left alone. Root may write the
 * file of a user in a folder of that user, and what it makes there is the user's.
 *
 * No failure is final: each call opens, mends and tries anew. SIGXFSZ must be ignored
 * where files may be limited (the runner does that). Not thread-safe, and not to be
 * carried over a fork, as both sides would hold the same lock.
 */

#define JSONL_LOCK_TIMEOUT_DEFAULT_MS 50
#define JSONL_LINE_MAX_BYTES ((size_t)64 * 1024 * 1024)

struct jsonl;

/* Touches no file yet: the first line does. NULL when memory runs out. */
struct jsonl *jsonl_new(const char *path, uint64_t max_bytes);
struct jsonl *jsonl_free(struct jsonl *log); /* NULL is fine. Returns NULL. */

/* How long a call waits for other writers; 0 tries once. */
void jsonl_set_lock_timeout(struct jsonl *log, unsigned ms);

/* What the log and its rotated files take, or those alone. */
uint64_t jsonl_count_bytes(const char *path, bool only_rotated);

/* The size of the oldest rotated file but for so many; false: there is none. */
bool jsonl_rotated_bytes(const char *path, uint64_t n_older, uint64_t *ret);

/* Removes the oldest of those that were rotated. 1: one is gone. 0: there is none. -EBUSY */
int jsonl_drop_oldest(const char *path);

/* Whether a line could be appended, as far as can be told without making or changing a file. */
int jsonl_check(struct jsonl *log, struct err *err);

/*
 * Appends a line: a JSON object, without a newline in it or after it. If it fails
 * nothing of the line is kept. -EBUSY: others had the lock all the time. -ENOSPC,
 * -EDQUOT, -EFBIG: no room. -EBADMSG: what is there is no log. -EINVAL, -EMSGSIZE: the
 * line is none, or longer than JSONL_LINE_MAX_BYTES.
 */
int jsonl_append(struct jsonl *log, const char *line, size_t len, struct err *err);

/* The same with a snapshot, and those of its processes that belong to jobs. */
int jsonl_append_snapshot(struct jsonl *log, const struct snapshot *snap, struct err *err);
