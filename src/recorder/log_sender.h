/*
 * log_sender - the frames of a runner's log on their way to a daemon that has another folder of
 * logs and keeps a copy (daemon/methods/service_guest.c).
 *
 * Frames are read back from the log, in order and in messages of bounded size, each of which waits
 * for the answer to the one before. It holds the log's files open: what others have stored and
 * removed can still be sent.
 */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "log/log.h"
#include "model/job.h"
#include "rpc/rpc.h"

struct log_sender;

/* fs is copied; its ctx is borrowed for as long as log_sender_next() has to look for files. */
int log_sender_open(const struct log_fs *fs, const struct log_id *id, size_t end_bytes,
		    struct log_sender **ret, struct err *err);
struct log_sender *log_sender_close(struct log_sender *s); /* NULL is fine. Returns NULL. */

/* The members of runner.hello that are about the log, with its first frames. */
void log_sender_write_hello(struct log_sender *s, struct json *j);

/* The answer: from where on the daemon wants frames. */
void log_sender_begin(struct log_sender *s, uint64_t from);

/*
 * The params of the next runner.frames; false: there is nothing to send. appended is where the log
 * ends: it may have new files (0: it has not). The same again until log_sender_accept().
 */
bool log_sender_next(struct log_sender *s, uint64_t appended, struct buf *ret);
void log_sender_accept(struct log_sender *s);

/*
 * The rest and the end, after log_sender_hold(). 0: the daemon has stored it. -ETIMEDOUT: not by
 * then.
 */
int log_sender_finish(struct log_sender *s, struct rpc_client *client, uint64_t until_boot_ns);

/* The log has its end: all its files are held from now on. */
void log_sender_hold(struct log_sender *s);

/*
 * ---- a process that stays when a run is over ----
 *
 * In a child: the process becomes one of its own, with this name, and keeps no file open but the
 * standard ones, which are /dev/null, and these: the user who reads the run's output, or unmounts
 * its folder, does not wait for it. Ends the process where that fails.
 */
void become_background(const char *name, int *files, size_t n);

/*
 * ---- to a daemon that comes back ----
 *
 * The daemon that keeps a copy was killed, or did not answer, when the job ended: in its own record
 * the job would stay without an end. So a small process holds the log and asks for a daemon every
 * second, and ends when that has it, or after an hour. In the user's own record the end is in any
 * case.
 *
 * Leaves it with a process that holds no other files and folders than the log's. Of a submitted job
 * (stays) that process is ourselves, and this returns when it is done: nobody waits for us, and a
 * service manager would end what we leave behind. sender is taken over; NULL: the log is gone.
 */
void late_word_leave(const struct attempt *a, struct log_sender *sender, bool stays);
