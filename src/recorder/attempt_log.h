/*
 * attempt_log - the log of one attempt (log/log.h), as its recorder appends records to it.
 *
 * The logs of a database are in the folder DATABASE-logs beside it. Nothing here opens the
 * database: whoever does so next stores what the log has (store_take_in()). What the disk does not
 * take now is kept in memory and written with what comes next, ticks as long as there is room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "recorder/log_sender.h"
#include "log/log.h"
#include "model/job.h"
#include "model/record.h"
#include "model/snapshot.h"

struct attempt_log;

/* Writes the attempt as it is by now, with its sheets: RECORD_BEGIN. */
typedef void attempt_log_describe_fn(void *ctx, struct buf *out);

struct attempt_log_options {
	const char *db_path; /* NULL: the log is in memory, for a daemon that keeps a copy */
	struct attempt *a;
	attempt_log_describe_fn *describe;
	void *ctx;
	/* The log of a daemon itself (RECORD_HOST): a has its process and boot, describe writes the
	 * daemon's record, and attempt_log_end_host() ends it. */
	bool is_host;
	/* For a recorder that takes over from one that is gone: it goes on with the log of this id,
	 * which stored_to is stored of. NULL: a new log. */
	const struct log_id *continues;
	uint64_t stored_to;
};

/*
 * Takes a number for the attempt (a->attempt_num), which no other of its user's has for this job,
 * unless it has one; makes the log and appends how the attempt begins. Waits for no disk. Of a log
 * that is continued -EBUSY: its recorder lives. -EEXIST: it has an end.
 */
int attempt_log_open(const struct attempt_log_options *options, struct attempt_log **ret,
		     struct err *err);

/*
 * One that is over as soon as it begins: its log with its end, as attempt_log_end(). ret_sender
 * (NULL: none is needed) is for a daemon that does not read the folder of logs.
 */
int attempt_log_write_whole(const char *db_path, struct attempt *a, uint64_t until_boot_ns,
			    struct log_sender **ret_sender, struct err *err);

/* A number for an attempt of this job (a->attempt_num): no other beside this database has it. */
int attempt_log_take_number(const char *db_path, struct attempt *a, struct err *err);

/* Writes nothing. A wait for the disk that lasts is left to its thread. NULL is fine. */
struct attempt_log *attempt_log_close(struct attempt_log *log);

/* The folder of its log, for a daemon that may have the same. */
void attempt_log_place(const struct attempt_log *log, dev_t *ret_device, ino_t *ret_inode);

const struct log_id *attempt_log_id(const struct attempt_log *log);

/* Whether somebody will find it in a folder of logs. NULL: nobody will. */
bool attempt_log_is_stored(const struct attempt_log *log);

/* To send it to a daemon. */
int attempt_log_open_sender(const struct attempt_log *log, struct log_sender **ret,
			    struct err *err);

/* Whose the log of this attempt is, and who runs it. */
void attempt_log_describe_origin(const struct attempt *a, struct log_origin *ret);

/*
 * What the disk does not take now waits in memory as long as there is room. That it waits, is lost
 * or is written again is logged once each.
 */
void attempt_log_append(struct attempt_log *log, enum record_type type, const struct buf *bytes);
void attempt_log_append_tick(struct attempt_log *log, const struct snapshot *snap,
			     const struct series_point *point);

/*
 * Each 30 s a recorder appends what lasts as it is by then (RECORD_RENEWED), for its peak and its
 * count: whoever takes over needs them, and if nobody sees its end it lasted until then. True: it
 * is time. *renewed_boot_ns is 0 at first.
 */
bool attempt_log_is_renewal_due(uint64_t *renewed_boot_ns);

/*
 * After some of these: another thread waits for the disk, unless it does already. What the disk
 * refuses, and a wait that lasts, are logged once. Returns how long the wait that is under way, or
 * the last one, has taken.
 */
uint64_t attempt_log_sync(struct attempt_log *log);

/* Whether the other thread waits: its I/O is ours. */
bool attempt_log_is_syncing(const struct attempt_log *log);

/* Whether somebody has removed the folder under us: nobody finds what we append. */
bool attempt_log_is_gone(const struct attempt_log *log);

/* Whether the last record waits in memory for a disk that did not take it. */
bool attempt_log_is_waiting(const struct attempt_log *log);

/* How many records were lost for want of room. */
uint64_t attempt_log_lost(const struct attempt_log *log);

/* How many bytes were appended; what is stored of them may be removed by others meanwhile. */
uint64_t attempt_log_bytes(const struct attempt_log *log);

/*
 * The last call: a->is_running is false, and what it has of sheets and ends is written; where that
 * is more than there is room for, without its sheets. -ETIMEDOUT: the disk had not taken it by
 * then; it will, unless there is a power cut before.
 */
int attempt_log_end(struct attempt_log *log, const struct attempt *a, uint64_t until_boot_ns,
		    struct err *err);
int attempt_log_end_host(struct attempt_log *log, uint64_t wall_ns, uint64_t until_boot_ns,
			 struct err *err);
