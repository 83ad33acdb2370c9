#include "recorder/attempt_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/path.h"
#include "model/tick_record.h"
#include "store/store.h"

/* After so many ticks the next is whole: who begins to read there reads no more than this. */
#define KEY_TICKS 60

/* In memory there are ticks up to this, and then only what else happens. */
#define MEMORY_MAX_BYTES ((uint64_t)64 << 20)

/* Room for the end: what it always has, and for each sheet. */
#define END_BYTES 4096
#define END_BYTES_PER_SHEET 768
#define END_MAX_BYTES (LOG_END_MAX / 2)

struct attempt_log {
	struct log_id id;
	size_t end_bytes;
	int folder_fd;		   /* -1: it is in memory */
	struct log_memory *memory; /* NULL: it is not */
	struct log_fs fs;
	struct log_writer *writer;
	struct tick_writer *ticks;
	attempt_log_describe_fn *describe;
	void *ctx;
	enum record_type key_type; /* RECORD_BEGIN, or RECORD_HOST */
	unsigned n_ticks;	   /* since the last of these */
	struct buf bytes;

	/* The other thread, which has only sync until we leave. */
	bool has_thread;
	sem_t is_asked, is_done;
	atomic_bool is_left;
	bool is_busy;
	bool has_end; /* in bytes */
	struct log_sync sync;
	uint64_t synced_to;	/* what the last wait has covered */
	uint64_t began_boot_ns; /* the wait that is under way */
	uint64_t last_wait_ns;
	int sync_error; /* of one that is over, until it is told */

	bool is_waiting_said; /* that the disk has no room, or refuses what is recorded, */
	bool is_disk_said;    /* or to keep it, */
	bool is_slow_said;    /* or takes long for it */
};

/* Its lock is free then. */
static void release_files(struct attempt_log *l)
{
	l->writer = log_writer_free(l->writer);
	l->ticks = tick_writer_free(l->ticks);
	buf_release(&l->bytes);
	close_fd(&l->folder_fd);
	log_memory_free(l->memory);
}

static void release(struct attempt_log *l)
{
	sem_destroy(&l->is_asked);
	sem_destroy(&l->is_done);
	free(l);
}

/* ---- the thread that waits for the disk ---- */

static void *wait_for_disk(void *ctx)
{
	struct attempt_log *l = ctx;

	for (;;) {
		while (sem_wait(&l->is_asked) < 0)
			; /* a signal */
		if (atomic_load(&l->is_left))
			break;
		log_sync_run(&l->sync);
		sem_post(&l->is_done);
	}
	if (l->is_busy) { /* the recorder did not wait for it, which may have begun before the end
			   */
		(void)log_sync_end(l->writer, &l->sync);
		if (l->has_end)
			(void)log_end(l->writer, l->bytes.data, l->bytes.len, NULL);
		release_files(l);
	}
	release(l);
	return NULL;
}

/* Signals are for the loop. Without a thread the caller waits itself. */
static bool start_thread(struct attempt_log *l)
{
	sigset_t all, before;
	pthread_t thread;

	if (l->has_thread)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	l->has_thread = pthread_create(&thread, NULL, wait_for_disk, l) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (l->has_thread)
		pthread_detach(thread);
	return l->has_thread;
}

/* ---- where ---- */

static int open_folder(const char *path, int *ret_fd, struct err *err)
{
	int r = path_make_dir(path, err);

	if (r < 0)
		return r;
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, -errno, "cannot open %s: %s", path, strerror(errno)) : 0;
}

/* The highest number that the database has for this job, which was perhaps made elsewhere. */
static int highest_number(const char *db_path, const struct attempt *a)
{
	const struct attempt_filter filter = { .job_id = a->job_id, .limit = 1 };
	CLEANUP(attempt_list_release) struct attempt_list list = { .arena = ARENA_INIT };
	struct store *store = NULL;
	int n = 0;

	if (access(db_path, F_OK) < 0 || store_open(db_path, STORE_READ_AS_IS, &store, NULL) < 0)
		return 0;
	if (store_list_attempts(store, &filter, &list, NULL) == 0 && list.n > 0)
		n = list.items[list.n - 1].attempt_num;
	store_close(store);
	return n;
}

int attempt_log_take_number(const char *db_path, struct attempt *a, struct err *err)
{
	CLEANUP(buf_release) struct buf numbers = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	int num = 0, above, r;

	buf_printf(&numbers, "%s-logs/numbers", db_path);
	r = buf_error(&numbers) < 0 ? err_set(err, -ENOMEM, "out of memory")
				    : open_folder(numbers.data, &fd, err);

	if (r == 0)
		r = log_take_number(fd, a->job_id, 0, &num, err);
	above = r == 0 && num == 1 ? highest_number(db_path, a) : 0;
	if (above > 0)
		r = log_take_number(fd, a->job_id, above, &num, err);
	if (r == 0)
		a->attempt_num = num;
	return r;
}

/* ---- records ---- */

static int append_key(struct attempt_log *l, struct err *err)
{
	CLEANUP(buf_release) struct buf begin = BUF_INIT;
	int r;

	l->describe(l->ctx, &begin);
	if (buf_error(&begin) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = log_append(l->writer, (uint8_t)l->key_type, LOG_KEY, begin.data, begin.len, err);
	tick_writer_begin_key(l->ticks);
	l->n_ticks = 0;
	return r;
}

/* A disk that has no room, or refuses to write, is named once, and once more when it is well. */
static void note_written(struct attempt_log *l, int r, const struct err *err)
{
	if (r < 0 && !l->is_waiting_said)
		log_warning("recording waits, and the job goes on: %s", err->text);
	else if (r == 0 && l->is_waiting_said && attempt_log_lost(l) > 0)
		log_warning("recording goes on; %llu records are lost",
			    (unsigned long long)attempt_log_lost(l));
	else if (r == 0 && l->is_waiting_said)
		log_warning("recording goes on; nothing is lost");
	l->is_waiting_said = r < 0;
}

void attempt_log_append(struct attempt_log *l, enum record_type type, const struct buf *bytes)
{
	struct err err = ERR_INIT;
	int r;

	if (log_wants_key(l->writer))
		append_key(l, &err);
	if (buf_error(bytes) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	else
		r = log_append(l->writer, (uint8_t)type, 0, bytes->data, bytes->len, &err);
	note_written(l, r, &err);
	if (!l->memory) /* it is there when the end needs it, which waits */
		start_thread(l);
}

void attempt_log_append_tick(struct attempt_log *l, const struct snapshot *snap,
			     const struct series_point *point)
{
	struct err err = ERR_INIT;
	int r;

	if (log_wants_key(l->writer) || l->n_ticks >= KEY_TICKS)
		append_key(l, &err);
	if (l->memory && log_appended(l->writer) > MEMORY_MAX_BYTES)
		return; /* how the job goes on is recorded all the same */
	l->n_ticks++;
	if (tick_writer_write(l->ticks, snap, point, &l->bytes) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	else
		r = log_append(l->writer, RECORD_TICK, LOG_TICK, l->bytes.data, l->bytes.len, &err);
	note_written(l, r, &err);
}

#define RENEW_NS UINT64_C(30000000000)

bool attempt_log_is_renewal_due(uint64_t *renewed_boot_ns)
{
	uint64_t now = clock_boot_ns();

	if (*renewed_boot_ns != 0 && now - *renewed_boot_ns < RENEW_NS)
		return false;
	*renewed_boot_ns = now;
	return true;
}

uint64_t attempt_log_lost(const struct attempt_log *l)
{
	return log_lost_frames(l->writer);
}

bool attempt_log_is_waiting(const struct attempt_log *l)
{
	return l->is_waiting_said;
}

uint64_t attempt_log_bytes(const struct attempt_log *l)
{
	return log_appended(l->writer);
}

/* ---- opening ---- */

void attempt_log_describe_origin(const struct attempt *a, struct log_origin *ret)
{
	*ret = (struct log_origin){ .uid = a->uid,
				    .created_wall_ns = a->started_wall_ns,
				    .runner_pid = a->runner.pid,
				    .runner_start_ticks = a->runner.start_ticks,
				    .pid_ns = a->pid_ns };
	log_boot_id_parse(a->boot_id, ret->boot_id);
}

/* A file that a run on a full disk removes, to have room for its own. */
#define SPARE "spare"
#define SPARE_BYTES (64 << 10)

static void keep_spare(const struct attempt_log *l)
{
	CLEANUP(close_fd) int fd = -1;

	if (faccessat(l->folder_fd, SPARE, F_OK, 0) == 0)
		return;
	fd = openat(l->folder_fd, SPARE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && posix_fallocate(fd, 0, SPARE_BYTES) != 0)
		(void)unlinkat(l->folder_fd, SPARE, 0);
}

static int create(struct attempt_log *l, const struct attempt_log_options *o, struct err *err)
{
	struct log_options options = {
		.end_bytes = END_BYTES + (size_t)o->a->total_sheets * END_BYTES_PER_SHEET,
	};
	const struct log_id *id = o->continues;
	int r;

	r = id ? log_continue(&l->fs, id, &options, err) : log_id_make(&l->id);
	if (id && (r == 0 || r == -ENOENT))
		l->id = *id;
	if (id && r == -ENOENT) { /* it was removed: it goes on where the database has come to */
		options.first_offset = o->stored_to;
		r = 0;
	}
	if (r < 0)
		return id ? r : err_set(err, r, "the kernel gives no random number for a name");
	attempt_log_describe_origin(o->a, &options.origin);
	options.origin.id = l->id;
	if (options.end_bytes > END_MAX_BYTES)
		options.end_bytes = END_MAX_BYTES;
	l->end_bytes = options.end_bytes;
	r = log_create(&l->fs, &options, &l->writer, err);
	if ((r == -ENOSPC || r == -EDQUOT) && unlinkat(l->folder_fd, SPARE, 0) == 0)
		r = log_create(&l->fs, &options, &l->writer, err);
	else if (r == 0 && !l->memory)
		keep_spare(l);
	if (r == -EFBIG)
		err_set(err, r, "the limit on files is too low for a log (ulimit -f)");
	return r;
}

int attempt_log_open(const struct attempt_log_options *o, struct attempt_log **ret, struct err *err)
{
	struct attempt_log *l = calloc(1, sizeof(*l));
	CLEANUP(buf_release) struct buf folder = BUF_INIT;
	int r;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	*l = (struct attempt_log){ .folder_fd = -1,
				   .key_type = o->is_host ? RECORD_HOST : RECORD_BEGIN,
				   .describe = o->describe,
				   .ctx = o->ctx,
				   .bytes = BUF_INIT,
				   .ticks = tick_writer_new() };
	sem_init(&l->is_asked, 0, 0);
	sem_init(&l->is_done, 0, 0);
	buf_printf(&folder, "%s-logs", o->db_path ? o->db_path : "");
	if (!o->db_path)
		l->memory = log_memory_new();
	if (!l->ticks || buf_error(&folder) < 0 || (!o->db_path && !l->memory))
		r = err_set(err, -ENOMEM, "out of memory");
	else
		r = o->db_path ? open_folder(folder.data, &l->folder_fd, err) : 0;
	if (r == 0 && o->db_path && o->a->attempt_num == 0 && !o->is_host)
		r = attempt_log_take_number(o->db_path, o->a, err);
	l->fs = l->memory ? log_fs_memory(l->memory) : log_fs_real(l->folder_fd);
	if (r == 0)
		r = create(l, o, err);
	if (r == 0)
		r = append_key(l, err);
	if (r == 0) {
		*ret = l;
		return 0;
	}
	release_files(l);
	release(l);
	if (r == -EROFS || r == -EACCES || r == -EPERM)
		return err_set(
			err, r,
			"the folder %s cannot be written (%s): %s, or set PROCTOR_HOME to %s",
			folder.data, strerror(-r),
			r == -EROFS ? "mount its file system writable" : "change its mode",
			r == -EROFS ? "a folder on another file system" : "another folder");
	return r;
}

void attempt_log_place(const struct attempt_log *l, dev_t *ret_device, ino_t *ret_inode)
{
	struct stat st;

	if (l->memory || fstat(l->folder_fd, &st) < 0)
		st = (struct stat){ 0 };
	*ret_device = st.st_dev;
	*ret_inode = st.st_ino;
}

const struct log_id *attempt_log_id(const struct attempt_log *l)
{
	return &l->id;
}

bool attempt_log_is_gone(const struct attempt_log *l)
{
	struct stat st;

	return !l->memory && fstat(l->folder_fd, &st) == 0 && st.st_nlink == 0;
}

bool attempt_log_is_stored(const struct attempt_log *l)
{
	return l && !l->memory;
}

int attempt_log_open_sender(const struct attempt_log *l, struct log_sender **ret, struct err *err)
{
	return log_sender_open(&l->fs, &l->id, l->end_bytes, ret, err);
}

/* ---- waiting for the disk ---- */

static void begin_sync(struct attempt_log *l)
{
	l->began_boot_ns = clock_boot_ns();
	l->is_busy = true;
	if (start_thread(l)) {
		sem_post(&l->is_asked);
		return;
	}
	log_sync_run(&l->sync);
	sem_post(&l->is_done);
}

/* A sync is over. */
static void take_sync(struct attempt_log *l)
{
	int r = log_sync_end(l->writer, &l->sync);

	l->is_busy = false;
	l->last_wait_ns = clock_boot_ns() - l->began_boot_ns;
	l->synced_to = r < 0 ? 0 : l->sync.mark;
	l->sync_error = r < 0 ? r : 0;
}

/* A wait for the disk that lasts longer is worth a warning. */
#define SLOW_DISK_NS UINT64_C(2000000000)

static void note_synced(struct attempt_log *l, int r, uint64_t wait_ns)
{
	if (r < 0 && !l->is_disk_said)
		log_warning("recording goes on: the disk refuses what is recorded: %s",
			    strerror(-r));
	else if (r == 0 && l->is_disk_said && wait_ns < SLOW_DISK_NS)
		log_warning("what was recorded is on the disk by now");
	else if (r == 0 && wait_ns >= SLOW_DISK_NS && !l->is_slow_said)
		log_warning(
			"recording goes on: the disk takes %.1f s for what is recorded: a power "
			"cut would lose what was recorded since",
			(double)wait_ns / 1e9);
	l->is_slow_said |= wait_ns >= SLOW_DISK_NS;
	l->is_disk_said = r < 0;
}

uint64_t attempt_log_sync(struct attempt_log *l)
{
	uint64_t wait_ns;

	if (l->is_busy && sem_trywait(&l->is_done) == 0)
		take_sync(l);
	if (!l->is_busy && log_appended(l->writer) > l->synced_to) {
		log_sync_begin(l->writer, &l->sync);
		begin_sync(l);
	}
	wait_ns = l->is_busy ? clock_boot_ns() - l->began_boot_ns : l->last_wait_ns;
	note_synced(l, l->sync_error, wait_ns);
	l->sync_error = 0;
	return wait_ns;
}

bool attempt_log_is_syncing(const struct attempt_log *l)
{
	return l && l->is_busy;
}

/* -ETIMEDOUT: the sync was not over by then. Else what it came to. */
static int await_sync(struct attempt_log *l, uint64_t until_boot_ns, struct err *err)
{
	uint64_t now = clock_boot_ns(), wait_ns = until_boot_ns > now ? until_boot_ns - now : 0;
	struct timespec at;
	int r;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec += (time_t)(wait_ns / 1000000000);
	at.tv_nsec += (long)(wait_ns % 1000000000);
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	while ((r = sem_timedwait(&l->is_done, &at)) < 0 && errno == EINTR)
		;
	if (r < 0)
		return err_set(err, -ETIMEDOUT, "the disk does not answer");
	take_sync(l);
	r = l->sync_error;
	return r < 0 ? err_set(err, r, "cannot write the end of the log: %s", strerror(-r)) : 0;
}

static int write_end(struct attempt_log *l, uint64_t until_boot_ns, struct err *err)
{
	int r = buf_error(&l->bytes);

	if (r < 0)
		return err_set(err, r, "out of memory");
	l->has_end = true;
	if (l->memory)
		return log_end(l->writer, l->bytes.data, l->bytes.len, err);
	if (l->is_busy) { /* what is written outlives us, whatever the disk does */
		r = log_write_end(l->writer, l->bytes.data, l->bytes.len, NULL, err);
		if (r < 0 || await_sync(l, until_boot_ns, err) == -ETIMEDOUT)
			return r < 0 ? r : -ETIMEDOUT;
	}
	for (int tries = 0; tries < LOG_END_TRIES; tries++) {
		r = log_write_end(l->writer, l->bytes.data, l->bytes.len, &l->sync, err);
		if (r < 0)
			continue;
		begin_sync(l);
		r = await_sync(l, until_boot_ns, err);
		if (r == 0 || r == -ETIMEDOUT)
			return r;
	}
	return r;
}

int attempt_log_end(struct attempt_log *l, const struct attempt *a, uint64_t until_boot_ns,
		    struct err *err)
{
	buf_reset(&l->bytes);
	record_write_final(&l->bytes, a, true);
	if (l->bytes.len > log_end_room(l->writer)) {
		buf_reset(&l->bytes);
		record_write_final(&l->bytes, a, false);
	}
	return write_end(l, until_boot_ns, err);
}

int attempt_log_end_host(struct attempt_log *l, uint64_t wall_ns, uint64_t until_boot_ns,
			 struct err *err)
{
	buf_reset(&l->bytes);
	record_write_number(&l->bytes, wall_ns);
	return write_end(l, until_boot_ns, err);
}

static void describe_whole(void *ctx, struct buf *out)
{
	const struct attempt *a = ctx;

	record_write_begin(out, a);
	record_write_sheets(out, a->sheets, a->n_sheets);
}

int attempt_log_write_whole(const char *db_path, struct attempt *a, uint64_t until_boot_ns,
			    struct log_sender **ret_sender, struct err *err)
{
	const struct attempt_log_options options = {
		.db_path = db_path, .a = a, .describe = describe_whole, .ctx = a
	};
	struct attempt_log *log = NULL;
	int r = attempt_log_open(&options, &log, err);

	if (r == 0 && ret_sender && attempt_log_open_sender(log, ret_sender, NULL) < 0)
		*ret_sender = NULL;
	if (r == 0)
		r = attempt_log_end(log, a, until_boot_ns, err);
	attempt_log_close(log);
	return r;
}

struct attempt_log *attempt_log_close(struct attempt_log *l)
{
	if (!l)
		return NULL;
	if (!l->is_busy || !l->has_thread)
		release_files(l);
	if (!l->has_thread) {
		release(l);
		return NULL;
	}
	atomic_store(&l->is_left, true);
	sem_post(&l->is_asked);
	return NULL;
}
