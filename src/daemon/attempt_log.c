#include "daemon/attempt_log.h"

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
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "model/tick_record.h"
#include "store/store.h"

/* After so many ticks the next is whole: who begins to read there reads no more than this. */
#define KEY_TICKS 60

/* In memory there are ticks up to this, and then only what else happens. */
#define MEMORY_MAX_BYTES ((uint64_t)64 << 20)

/* Room for the end: what it always has, and for each sheet. */
#define END_BYTES 4096
#define END_BYTES_PER_SHEET 512
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
	unsigned n_ticks; /* since the last RECORD_BEGIN */
	struct buf bytes;

	/* The other thread. It has the writer while it ends the log, and else only sync. */
	bool has_thread;
	sem_t is_asked, is_done;
	atomic_bool is_left;
	bool is_busy;
	bool is_ending;
	struct log_sync sync;
	uint64_t synced_to;	/* what the last wait has covered */
	uint64_t began_boot_ns; /* the wait that is under way */
	uint64_t last_wait_ns;
	int sync_error; /* of one that is over, until it is told */
	int end_result;
	struct err end_err;
};

static void release(struct attempt_log *l)
{
	l->writer = log_writer_free(l->writer);
	l->ticks = tick_writer_free(l->ticks);
	buf_release(&l->bytes);
	close_fd(&l->folder_fd);
	log_memory_free(l->memory);
	sem_destroy(&l->is_asked);
	sem_destroy(&l->is_done);
	free(l);
}

/* ---- where ---- */

static int open_folder(const char *path, int *ret_fd, struct err *err)
{
	int r = path_make_dir(path, err);

	if (r < 0)
		return r;
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, -errno, "cannot open %s: %s", path, strerror(errno)) : 0;
}

/* The highest number that the database has for this job, which was perhaps made elsewhere. */
static int highest_number(const char *db_path, const struct attempt *a)
{
	const struct attempt_filter filter = { .job_id = a->job_id, .uid = &a->uid, .limit = 1 };
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

static int take_number(const char *db_path, const char *numbers, struct attempt *a, struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	int num = 0, above, r = open_folder(numbers, &fd, err);

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
	r = log_append(l->writer, RECORD_BEGIN, LOG_KEY, begin.data, begin.len, err);
	tick_writer_begin_key(l->ticks);
	l->n_ticks = 0;
	return r;
}

static int append(struct attempt_log *l, enum record_type type, unsigned flags,
		  const struct buf *bytes, struct err *err)
{
	if (buf_error(bytes) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return log_append(l->writer, (uint8_t)type, flags, bytes->data, bytes->len, err);
}

int attempt_log_append(struct attempt_log *l, enum record_type type, const struct buf *bytes,
		       struct err *err)
{
	if (log_wants_key(l->writer))
		append_key(l, err);
	return append(l, type, 0, bytes, err);
}

int attempt_log_append_tick(struct attempt_log *l, const struct snapshot *snap,
			    const struct series_point *point, struct err *err)
{
	if (log_wants_key(l->writer) || l->n_ticks >= KEY_TICKS)
		append_key(l, err);
	if (l->memory && log_appended(l->writer) > MEMORY_MAX_BYTES)
		return 0; /* how the job goes on is told all the same */
	l->n_ticks++;
	if (tick_writer_write(l->ticks, snap, point, &l->bytes) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return append(l, RECORD_TICK, LOG_TICK, &l->bytes, err);
}

uint64_t attempt_log_lost(const struct attempt_log *l)
{
	return log_lost_frames(l->writer);
}

uint64_t attempt_log_bytes(const struct attempt_log *l)
{
	return log_appended(l->writer);
}

bool attempt_log_is_one_in(const struct attempt_log *l, unsigned n)
{
	return l->id.bytes[0] % n == 0;
}

/* ---- opening ---- */

/* "01234567-89ab-…" as 16 bytes; what is none stays all 0. */
static void read_boot_id(const char *text, uint8_t ret[16])
{
	uint8_t bytes[16] = { 0 };
	size_t n = 0;

	for (; *text && n < 32; text++) {
		const char *digits = "0123456789abcdef", *digit = strchr(digits, *text);

		if (*text == '-')
			continue;
		if (!digit)
			return;
		bytes[n / 2] |= (uint8_t)((digit - digits) << (n % 2 ? 0 : 4));
		n++;
	}
	if (n == 32)
		memcpy(ret, bytes, sizeof(bytes));
}

void attempt_log_describe_origin(const struct attempt *a, struct log_origin *ret)
{
	*ret = (struct log_origin){ .uid = a->uid,
				    .created_wall_ns = a->started_wall_ns,
				    .runner_pid = a->runner.pid,
				    .runner_start_ticks = a->runner.start_ticks,
				    .pid_ns = a->pid_ns };
	read_boot_id(a->boot_id, ret->boot_id);
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

static int create(struct attempt_log *l, const struct attempt *a, struct err *err)
{
	struct log_options options = {
		.end_bytes = END_BYTES + (size_t)a->total_sheets * END_BYTES_PER_SHEET,
	};
	int r;

	attempt_log_describe_origin(a, &options.origin);
	r = log_id_make(&options.origin.id);

	if (r < 0)
		return err_set(err, r, "the kernel gives no random number for a name");
	l->id = options.origin.id;
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

int attempt_log_open(const char *db_path, struct attempt *a, attempt_log_describe_fn *describe,
		     void *ctx, struct attempt_log **ret, struct err *err)
{
	struct attempt_log *l = calloc(1, sizeof(*l));
	CLEANUP(buf_release) struct buf folder = BUF_INIT, numbers = BUF_INIT;
	int r;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	*l = (struct attempt_log){ .folder_fd = -1,
				   .describe = describe,
				   .ctx = ctx,
				   .bytes = BUF_INIT,
				   .ticks = tick_writer_new() };
	sem_init(&l->is_asked, 0, 0);
	sem_init(&l->is_done, 0, 0);
	buf_printf(&folder, "%s-logs", db_path ? db_path : "");
	buf_printf(&numbers, "%s/numbers", folder.data);
	if (!db_path)
		l->memory = log_memory_new();
	if (!l->ticks || buf_error(&folder) < 0 || buf_error(&numbers) < 0 ||
	    (!db_path && !l->memory))
		r = err_set(err, -ENOMEM, "out of memory");
	else
		r = db_path ? open_folder(folder.data, &l->folder_fd, err) : 0;
	if (r == 0 && db_path && a->attempt_num == 0)
		r = take_number(db_path, numbers.data, a, err);
	l->fs = l->memory ? log_fs_memory(l->memory) : log_fs_real(l->folder_fd);
	if (r == 0)
		r = create(l, a, err);
	if (r == 0)
		r = append_key(l, err);
	if (r == 0) {
		*ret = l;
		return 0;
	}
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

/* The one who leaves last frees it. */
static void *wait_for_disk(void *ctx)
{
	struct attempt_log *l = ctx;

	for (;;) {
		while (sem_wait(&l->is_asked) < 0)
			; /* a signal */
		if (atomic_load(&l->is_left))
			break;
		if (l->is_ending)
			l->end_result =
				log_end(l->writer, l->bytes.data, l->bytes.len, &l->end_err);
		else
			log_sync_run(&l->sync);
		sem_post(&l->is_done);
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

/* A sync is over. */
static void take_sync(struct attempt_log *l)
{
	int r = log_sync_end(l->writer, &l->sync);

	l->is_busy = false;
	l->last_wait_ns = clock_boot_ns() - l->began_boot_ns;
	l->synced_to = r < 0 ? 0 : l->sync.mark;
	l->sync_error = r < 0 ? r : 0;
}

static bool is_done(struct attempt_log *l)
{
	return l->is_busy && sem_trywait(&l->is_done) == 0;
}

int attempt_log_sync(struct attempt_log *l, uint64_t *ret_wait_ns, struct err *err)
{
	int r;

	if (is_done(l))
		take_sync(l);
	if (!l->is_busy && log_appended(l->writer) > l->synced_to) {
		log_sync_begin(l->writer, &l->sync);
		l->began_boot_ns = clock_boot_ns();
		l->is_busy = true;
		if (start_thread(l)) {
			sem_post(&l->is_asked);
		} else {
			log_sync_run(&l->sync);
			take_sync(l);
		}
	}
	*ret_wait_ns = l->is_busy ? clock_boot_ns() - l->began_boot_ns : l->last_wait_ns;
	r = l->sync_error;
	l->sync_error = 0;
	return r < 0 ? err_set(err, r, "the disk refuses what is recorded: %s", strerror(-r)) : 0;
}

bool attempt_log_is_syncing(const struct attempt_log *l)
{
	return l && l->is_busy;
}

/* False: it was not over by then. */
static bool await_thread(struct attempt_log *l, uint64_t until_boot_ns)
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
	return r == 0;
}

int attempt_log_end(struct attempt_log *l, const struct attempt *a, uint64_t until_boot_ns,
		    struct err *err)
{
	int r;

	buf_reset(&l->bytes);
	record_write_final(&l->bytes, a, true);
	if (l->bytes.len > log_end_room(l->writer)) {
		buf_reset(&l->bytes);
		record_write_final(&l->bytes, a, false);
	}
	if (buf_error(&l->bytes) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	/* What is written outlives us, whatever the disk does. */
	r = log_write_end(l->writer, l->bytes.data, l->bytes.len, err);
	if (r < 0)
		return r;
	if (l->is_busy) {
		if (!await_thread(l, until_boot_ns))
			return err_set(err, -ETIMEDOUT, "the disk does not answer");
		take_sync(l);
	}
	if (l->memory || !start_thread(l))
		return log_end(l->writer, l->bytes.data, l->bytes.len, err);
	l->is_ending = l->is_busy = true;
	sem_post(&l->is_asked);
	if (!await_thread(l, until_boot_ns))
		return err_set(err, -ETIMEDOUT, "the disk does not answer");
	l->is_busy = false;
	r = l->end_result;
	if (r < 0 && err)
		*err = l->end_err;
	return r;
}

struct attempt_log *attempt_log_close(struct attempt_log *l)
{
	if (!l)
		return NULL;
	if (!l->has_thread) {
		release(l);
		return NULL;
	}
	atomic_store(&l->is_left, true);
	sem_post(&l->is_asked);
	return NULL;
}
