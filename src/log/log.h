/*
 * log - the records of one attempt, as the file that its recorder appends to.
 *
 * A log is a sequence of frames. A frame is opaque here: a type, flags and bytes; model/record.h
 * encodes them. Each frame has an offset in the sequence, which never changes, and a sequence
 * number. The log is kept in segments, the files ID.0, ID.1, ... of one folder:
 *
 *	header | slot for the end | frames
 *
 * A segment begins with a frame that is flagged LOG_KEY: a reader needs nothing from before it.
 * Segments that are stored elsewhere may be removed while the log grows.
 *
 * The recorder is the only writer. It holds a lock on the last segment for its whole life, and
 * readers test that lock to see whether it lives. Any number of processes read at the same time. A
 * reader gets whole frames in order or nothing; it never changes a log.
 *
 * Guarantees:
 * - A frame for which log_append() has returned 0 outlives the recorder (kill -9). One before the
 *   mark of a successful log_sync() outlives a power cut.
 * - After a failed sync the kernel may have dropped frames that it had accepted. So the writer
 *   keeps all frames that no sync has covered, and writes them again, into a new segment.
 * - The end has room of its own, which is reserved before the job begins: log_end() works on a
 *   full disk. (Not on file systems where preallocating reserves nothing: btrfs, ZFS, most network
 *   file systems.)
 * - A bad frame costs that frame, and frames that refer to it. Sequence numbers show how many.
 *
 * Everything that touches a file goes through struct log_fs, so that tests/simulate can crash it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define LOG_ID_BYTES 16
#define LOG_ID_TEXT_BYTES (2 * LOG_ID_BYTES + 1)
#define LOG_SEGMENT_BYTES ((size_t)4 << 20) /* at which a new one begins */
#define LOG_FRAME_MAX ((size_t)16 << 20)    /* bytes of a frame */
#define LOG_END_MAX ((size_t)1 << 20)	    /* bytes of the end */
#define LOG_QUEUE_BYTES ((size_t)8 << 20)   /* kept in memory for a disk that is full or fails */

/* Of one attempt: random, the same in every log, database and fleet. */
struct log_id {
	uint8_t bytes[LOG_ID_BYTES];
};

/* -EIO: the kernel gives no random bytes. */
int log_id_make(struct log_id *ret);
void log_id_format(const struct log_id *id, char ret[LOG_ID_TEXT_BYTES]);
int log_id_parse(const char *text, struct log_id *ret); /* -EINVAL: it is none */

/* "01234567-89ab-…" as 16 bytes; what is none leaves them as they are. */
void log_boot_id_parse(const char *text, uint8_t ret[16]);

/* ---- files ---- */

typedef int log_name_fn(void *ctx, const char *name); /* non-zero stops, and is returned */

/*
 * The files of one folder. Functions return a negative errno on failure. A file is a number >= 0.
 * sync and sync_folder may be called by another thread than the rest.
 */
struct log_fs {
	void *ctx;
	int (*create)(void *ctx, const char *name); /* -EEXIST */
	int (*open)(void *ctx, const char *name);   /* to read */
	void (*close)(void *ctx, int file);
	ssize_t (*pread)(void *ctx, int file, void *ret, size_t n, uint64_t at);
	ssize_t (*pwrite)(void *ctx, int file, const void *bytes, size_t n, uint64_t at);
	int (*reserve)(void *ctx, int file, size_t n); /* room for the first n bytes */
	int (*sync)(void *ctx, int file);
	int (*sync_folder)(void *ctx); /* names that were created or removed */
	int (*remove)(void *ctx, const char *name);
	int (*list)(void *ctx, log_name_fn *fn, void *fn_ctx);
	/* For this process alone until it is closed; does not wait. -ENOENT: its name is gone. */
	int (*lock)(void *ctx, int file);
	int (*is_locked)(void *ctx, int file);	    /* 1, 0: by another holder */
	double (*age_seconds)(void *ctx, int file); /* since it was last changed */
};

/* A real folder. The caller keeps folder_fd open for as long as the result is used. */
struct log_fs log_fs_real(int folder_fd);

/*
 * No folder at all: for a recorder that has none to write to. It goes with the process. The caller
 * keeps it until all that use it are closed. NULL: no memory.
 */
struct log_memory;
struct log_memory *log_memory_new(void);
struct log_memory *log_memory_free(struct log_memory *m); /* NULL is fine. Returns NULL. */
struct log_fs log_fs_memory(struct log_memory *m);

/* ---- writing ---- */

enum log_flag {
	LOG_KEY = 1,  /* readers may begin here */
	LOG_TICK = 2, /* may be dropped when neither disk nor memory has room for it */
};

/*
 * Whose the attempt is and who runs it: by the kernel's word, where another writes a copy. In each
 * segment's header.
 */
struct log_origin {
	struct log_id id;
	uint64_t uid;
	uint64_t created_wall_ns;
	uint8_t boot_id[16]; /* all 0: unknown */
	int32_t runner_pid;  /* 0: nobody runs it */
	uint64_t runner_start_ticks, pid_ns;
	int32_t attempt_num; /* of a copy, which has a number of its own here; else 0 */
	bool is_copy; /* its writer gets the frames from the recorder of another log: the lock says
		       * nothing about that one */
};

struct log_options {
	struct log_origin origin;
	size_t end_bytes;     /* room for the end */
	size_t segment_bytes; /* at which a new segment begins; 0: LOG_SEGMENT_BYTES */
	size_t queue_bytes;   /* of frames that are not on the disk; 0: LOG_QUEUE_BYTES */
	/* Where another recorder's log goes on (log_continue()); 0: it is a new one. */
	uint32_t first_index;
	uint64_t first_offset, first_seq;
	uint64_t key_offset; /* of log_continue() alone: the last segment's first frame */
};

struct log_writer;

/*
 * Makes the first segment, locks it and reserves room for the end. The first frame must be LOG_KEY.
 * fs is copied; its ctx is borrowed.
 */
int log_create(const struct log_fs *fs, const struct log_options *options, struct log_writer **ret,
	       struct err *err);

/*
 * For a recorder that goes on with a log whose recorder is gone: sets where, and the origin, in
 * options for log_create(). The next frame stands behind the last whole one. -EBUSY: its recorder
 * lives. -EEXIST: it has an end. -ENOENT: there is no such log.
 */
int log_continue(const struct log_fs *fs, const struct log_id *id, struct log_options *options,
		 struct err *err);

/* Lets go of the lock and of memory, and writes nothing. NULL is fine. Returns NULL. */
struct log_writer *log_writer_free(struct log_writer *w);

/*
 * 0: the kernel has it, with all before it. -ENOSPC and other errors: it is kept in memory and
 * written with the next call. -ENOBUFS: it is lost, as there is no room in memory either, and
 * counted; ticks are lost first. -EMSGSIZE: larger than LOG_FRAME_MAX. -EINVAL: the first frame is
 * not LOG_KEY.
 */
int log_append(struct log_writer *w, uint8_t type, unsigned flags, const void *bytes, size_t n,
	       struct err *err);

/*
 * A frame of the log that this is a copy of. -EINVAL: it does not stand where the next one does,
 * or its number was there before. Else as log_append().
 */
struct log_frame;
int log_append_frame(struct log_writer *w, const struct log_frame *frame, struct err *err);

/* Whether the next frame should be LOG_KEY: at the beginning, after a loss, for a new segment. */
bool log_wants_key(const struct log_writer *w);

uint64_t log_lost_frames(const struct log_writer *w);

/*
 * A sync in three steps, of which log_sync_run() may run on another thread while the writer is
 * used: it waits for the disk. One at a time. The first also tries again to write what could not be
 * written before.
 */
#define LOG_SYNC_FILES 4
struct log_sync {
	const struct log_fs *fs;
	int files[LOG_SYNC_FILES];
	size_t n_files;
	bool with_folder;
	unsigned n_made; /* segments that the folder has */
	uint64_t mark;	 /* the offset behind the last frame that this covers */
	int result;	 /* 0, or what the disk refused it with */
};
void log_sync_begin(struct log_writer *w, struct log_sync *ret);
void log_sync_run(struct log_sync *sync);
/* Returns sync->result. After a failure the frames are written again with the next call. */
int log_sync_end(struct log_writer *w, const struct log_sync *sync);

/*
 * The last call: the end takes its slot and is brought to the disk, and with it all frames that
 * have room. 0: the end is on the disk (frames may have been lost: the end knows how many).
 * -EMSGSIZE: larger than log_end_room().
 */
size_t log_end_room(const struct log_writer *w);
int log_end(struct log_writer *w, const void *bytes, size_t n, struct err *err);

/*
 * The parts of it, for who waits for the disk elsewhere. 0: the end outlives the recorder; ret_sync
 * is for log_sync_run() and log_sync_end(), after whose failure the end is written once more, into
 * a new segment. A sync may be under way where ret_sync is NULL: then this follows again.
 */
#define LOG_END_TRIES 2
int log_write_end(struct log_writer *w, const void *bytes, size_t n, struct log_sync *ret_sync,
		  struct err *err);

/*
 * Offsets behind the last frame: that was appended, that is on the disk with all before it. The
 * second stays where it is for good once a disk has failed and memory was too short to
 * write everything again.
 */
uint64_t log_appended(const struct log_writer *w);
uint64_t log_durable(const struct log_writer *w);

/* ---- reading ---- */

struct log_frame {
	uint64_t offset, next; /* of this frame, of the one behind it */
	uint64_t seq;
	uint8_t type;
	unsigned flags;
	const uint8_t *bytes; /* valid during the call only */
	size_t n;
};
typedef int log_frame_fn(void *ctx, const struct log_frame *frame); /* non-zero stops */

struct log_reader;

/* -ENOENT: there is no such log, or nothing of it can be read (yet). */
int log_reader_open(const struct log_fs *fs, const struct log_id *id, struct log_reader **ret,
		    struct err *err);
struct log_reader *log_reader_close(struct log_reader *r); /* NULL is fine. Returns NULL. */

const struct log_origin *log_reader_origin(const struct log_reader *r);

/* Sees segments that were added since. What was removed can still be read until it is closed. */
int log_refresh(struct log_reader *r);

/*
 * The offset of the key frame from which on the frame at this offset can be decoded; that of the
 * first frame there is, if that comes later.
 */
uint64_t log_key_before(const struct log_reader *r, uint64_t offset);

struct log_read_result {
	uint64_t next;	     /* where to go on */
	uint64_t lost_bytes; /* that make no sense, or whose segment is gone */
	bool is_waiting;     /* what stands at next is not whole, and the recorder lives */
};

/*
 * Calls fn for each frame from this offset on, in order. Returns 0 at the end of what there is,
 * else what fn returned, or an error of reading. While the recorder lives a frame that is not whole
 * is one that is being written; else it is skipped. is_alive is log_is_alive()'s answer, taken
 * before.
 */
int log_read(struct log_reader *r, uint64_t from, bool is_alive, log_frame_fn *fn, void *ctx,
	     struct log_read_result *ret);

/* All that it has is on the disk by the return: it waits for that. Any thread may do so. */
int log_reader_sync(const struct log_reader *r);

/* The files that it holds open, up to max. */
size_t log_reader_files(const struct log_reader *r, int *ret, size_t max);

/*
 * For frames that are sent elsewhere: the bytes of one, with its header; and the next of some.
 * *ret borrows; its offset and next count from the beginning of the bytes. -EBADMSG: what stands
 * there is no frame.
 */
void log_frame_write(const struct log_frame *frame, struct buf *out);
int log_frame_read(const void *bytes, size_t n, struct log_frame *ret);

/* 1: its recorder holds the lock. 0: it does not. Sees new segments (log_refresh()). */
int log_is_alive(struct log_reader *r);

/*
 * The end, with next = offset = where the frames end. 1: fn was called; 0: there is no end.
 * is_alive as for log_read(); all frames that come before the end are there to be read afterwards,
 * as long as log_refresh() is not called in between.
 */
int log_read_end(struct log_reader *r, bool is_alive, log_frame_fn *fn, void *ctx);

/*
 * Removes segments of which nothing is needed from this offset on. The last one stays unless
 * is_over: its recorder has ended, and the store has recorded that.
 */
int log_remove(const struct log_fs *fs, const struct log_id *id, uint64_t below, bool is_over);

/*
 * Removes files of recorders that died before they had written a header, after an hour, and those
 * whose header makes no sense, after 30 days.
 */
int log_sweep(const struct log_fs *fs);

/* ---- a folder with many logs ---- */

/* A log of a folder: its segments are n names from first on. */
struct log_listed {
	struct log_id id; /* all 0: the name is of no log */
	size_t first, n;
	bool is_alive; /* as the caller has found, before log_folder_judge() */
};

#define LOG_NAME_BYTES 48

/*
 * The logs of a real folder, as they were listed once: to list the folder for each of 10,000 logs
 * would take a minute. fs is for functions that take a struct log_fs and read: its folder has the
 * segments of *current alone, which the caller sets before.
 */
struct log_folder {
	struct log_fs real, fs;
	char (*names)[LOG_NAME_BYTES]; /* sorted */
	size_t n_names, cap_names;
	struct log_listed *logs; /* sorted by id */
	size_t n, cap;
	const struct log_listed *current;
	bool is_judged; /* what is known of each log is the answer of log_is_alive() */
};

/* The caller keeps folder_fd open. It is not listed yet. f must not move while fs is used. */
void log_folder_init(struct log_folder *f, int folder_fd);
void log_folder_release(struct log_folder *f);
int log_folder_list(struct log_folder *f);

/* Lists their segments once more, and judges which recorders live. No log is added. */
int log_folder_judge(struct log_folder *f);

/* ---- into a store ---- */

struct log_cursor {
	uint64_t offset; /* frames before it are stored */
	bool is_over;	 /* the end is stored, or that it has none */
	bool is_ready;	 /* of log_sink.find: to decode what follows no frame before it is needed */
};

/*
 * Where frames go. All calls of one log_ingest() are within one transaction of the sink.
 */
struct log_sink {
	void *ctx;
	/* 0, or -ENOENT: nothing of this attempt is stored. */
	int (*find)(void *ctx, const struct log_origin *origin, struct log_cursor *ret);
	/* is_new false: it is stored already, and only needed to decode what follows. */
	int (*frame)(void *ctx, const struct log_frame *frame, bool is_new);
	int (*end)(void *ctx, const struct log_frame *end);
	/* No lock, and no end. 1: its recorder is gone. 0: it may go on (another host's, a copy),
	 * or another continues it. */
	int (*is_gone)(void *ctx, const struct log_origin *origin);
	int (*lost)(void *ctx); /* it is, and nothing follows */
	/* -EAGAIN: the cursor is not from any more. */
	int (*move)(void *ctx, const struct log_origin *origin, const struct log_cursor *from,
		    const struct log_cursor *to, uint64_t lost_bytes);
};

/*
 * Stores what is new in one log. max_bytes bounds one call (0: no bound). 1: there is more. 0: not
 * for now; *ret is where the cursor stands after the transaction is committed, and what
 * log_remove() may be called with once that is on the disk. -ENOENT: it has nothing to read.
 */
int log_ingest(const struct log_fs *fs, const struct log_id *id, const struct log_sink *sink,
	       size_t max_bytes, struct log_cursor *ret, struct err *err);

/* ---- numbers of attempts ---- */

/*
 * A number that no attempt of this job has had: one more than the highest, and above this. The
 * folder (of all jobs' numbers) has a folder for each job, where the last one taken stays as the
 * name of an empty file.
 */
int log_take_number(int folder_fd, const char *job_id, int above, int *ret, struct err *err);
