#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/path.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/handle.h"
#include "store/ingest.h"
#include "store/query.h"
#include "store/store.h"

/*
 * For a database that may be written: -wal and -shm that are ours get its mode. SQLite makes them
 * with the mode that the database has at that moment; a reader of one that is read-only leaves them
 * so, and nothing could be written from then on. They lie beside the file, not beside a link to it.
 * By O_PATH: closing any other descriptor of the file would drop the locks that this process may
 * have on it. A link that somebody has put there is not followed.
 */
static int look_beside(const char *path, bool only_look, struct err *err)
{
	static const char *const suffixes[] = { "-wal", "-shm" };
	CLEANUP(free_ptr) char *file = realpath(path, NULL);

	for (size_t i = 0; file && i < ARRAY_SIZE(suffixes); i++) {
		CLEANUP(free_ptr) char *name = NULL;
		CLEANUP(close_fd) int fd = -1;
		struct stat st, db;
		char link[32];
		int r = 0;

		if (asprintf(&name, "%s%s", file, suffixes[i]) < 0)
			return err_set(err, -ENOMEM, "no memory left to open the database %s",
				       path);
		if (faccessat(AT_FDCWD, name, W_OK, AT_EACCESS) == 0 || errno != EACCES)
			continue; /* what else may be wrong SQLite finds */
		fd = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0 || stat(file, &db) < 0)
			r = errno == ENOENT ? 0 : -errno;
		else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
			r = -EACCES;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (r == 0 && fd >= 0 && !only_look && chmod(link, db.st_mode & 0777) < 0)
			r = -errno;
		if (r < 0)
			return err_set(err, r,
				       "the database cannot be written, as %s beside it cannot "
				       "(%s): give it the owner and the mode that the database "
				       "has, or set PROCTOR_HOME to another folder",
				       name, strerror(-r));
	}
	return 0;
}

/*
 * SQLite would make it with the umask's mode. Its -wal and -shm get the mode and
 * owner of the file. O_EXCL also means that no file is opened and closed here
 * which another handle of this process has locked: closing would drop its locks.
 */
static int make_empty(const char *path, struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	int r = path_refuse_links(path, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return err_set(err, -errno,
			       "cannot make the database %s (%s): set PROCTOR_HOME to a folder "
			       "that can be written",
			       path, strerror(errno));
	path_give_to_folder_owner(path, fd);
	return 0;
}

/* ---- the file ---- */

/*
 * A link is followed (state may live on another disk), but what is written must
 * be a plain file of our own: in a folder that others can write, theirs could
 * stand there to read what we record. Root may write anybody's: the layout
 * check keeps it to proctor's databases, and no link of a user's leads it to another's.
 */
static int check_file(const char *path, enum store_mode mode, struct err *err)
{
	struct wal_found log;
	struct stat st;
	int error, r = path_refuse_links(path, err);

	if (r < 0)
		return r;
	error = stat(path, &st) < 0 ? errno : 0;

	if (error == ENOENT && mode != STORE_WRITE)
		return err_set(err, -ENOENT, "nothing was recorded yet: there is no database %s",
			       path);
	if (error == ENOENT) /* something has the name */
		return err_set(err, -ENOENT, "%s is a link to nothing: remove it", path);
	if (error)
		return err_set(err, -error, "cannot open the database %s: %s", path,
			       strerror(error));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "%s is not a file: move it away", path);
	if (mode == STORE_WRITE && st.st_uid != geteuid() && geteuid() != 0)
		return err_set(err, -EPERM,
			       "the database %s belongs to user %u, not to you: set PROCTOR_HOME "
			       "to a folder of your own",
			       path, (unsigned)st.st_uid);
	/*
	 * SQLite takes the log of an empty file for a stale one and deletes it, even when it only
	 * reads. A file that was cut to nothing has its last rows there. One that is just being
	 * made has no log (layout_create()).
	 */
	if (st.st_size == 0)
		wal_check(path, &log);
	if (st.st_size > 0 || !log.has_commit || stat(path, &st) < 0 || st.st_size > 0)
		return 0;
	return err_set(
		err, -EBADMSG,
		"the database %s is damaged (it is empty, and what is in its -wal cannot be "
		"read): run \"proctor doctor --repair\", which moves both aside so that a new "
		"one can begin",
		path);
}

/* SQLite opens what it may not write for reading only, and would complain late. */
static int check_access(const char *path, enum store_mode mode, struct err *err)
{
	bool is_write = mode == STORE_WRITE;
	int error;

	if (faccessat(AT_FDCWD, path, is_write ? R_OK | W_OK : R_OK, AT_EACCESS) == 0)
		return 0;
	error = errno;
	return err_set(err, -error,
		       "the database %s cannot be %s (%s): %s, or set PROCTOR_HOME to %s", path,
		       is_write ? "written" : "read", strerror(error),
		       error == EROFS ? "mount its file system writable" : "change its mode",
		       error == EROFS ? "a folder on another file system" : "another folder");
}

static int refuse_writing(const char *path, int error, struct err *err)
{
	return err_set(err, -error,
		       "the database %s cannot be written (%s)%s: make it and its folder writable, "
		       "or set PROCTOR_HOME to another folder",
		       path, strerror(error),
		       error == EPERM ? ", as it may be immutable (see lsattr)" : "");
}

int store_check_access(const char *path, struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	int r = check_file(path, STORE_WRITE, err);
	int obstacle;

	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return refuse_writing(path, errno, err);
	obstacle = store_write_obstacle(path); /* the log has to be made beside it */
	return obstacle ? refuse_writing(path, obstacle, err) : look_beside(path, true, err);
}

/* ---- the handle ---- */

/* NULL: no memory. */
static struct store *handle_new(const char *path, unsigned timeout_ms, struct err *err)
{
	struct store *store = calloc(1, sizeof(*store));

	if (store) {
		store->writing.bytes = (struct buf)BUF_INIT;
		store->writing.now = store->writing.before = (struct tick)TICK_INIT;
		store->path = strdup(path);
		store_set_lock_timeout(store, timeout_ms);
	}
	if (store && store->path)
		return store;
	err_set(err, -ENOMEM, "no memory left to open the database %s", path);
	return store_close(store);
}

/* SQLite's own way of waiting sleeps up to 100 ms at a time: too long for a tick. */
static int wait_for_lock(void *ctx, int n_calls)
{
	(void)n_calls; /* counts for one lock; a call may need several */
	return lock_wait(ctx);
}

/* Nothing that is written comes near to it. */
#define VALUE_MAX_BYTES (256 << 20)

static void configure(struct store *store)
{
	sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
	sqlite3_extended_result_codes(store->db, 1);
	sqlite3_busy_handler(store->db, wait_for_lock, store);
	sqlite3_wal_hook(store->db, settle_log, store);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
}

/* ---- on a connection of others ---- */

int store_borrow(sqlite3 *db, struct store **ret, struct err *err)
{
	const char *path = sqlite3_db_filename(db, "main");
	struct store *store = handle_new(path && path[0] ? path : "main", 0, err);

	if (!store)
		return -ENOMEM;
	store->db = db;
	store->is_borrowed = true;
	*ret = store;
	return 0;
}

/*
 * Opens the file; with an option, as a URI. "./" before a relative path: "file:x" and ":memory:"
 * are names of files here.
 */
static int connect_to(struct store *store, int flags, const char *option, struct err *err)
{
	CLEANUP(buf_release) struct buf name = BUF_INIT;

	buf_printf(&name, "%s%s", option ? "file:" : "", store->path[0] == '/' ? "" : "./");
	for (const char *p = store->path; *p; p++) /* what has a meaning in a URI, as its number */
		buf_printf(&name, option && strchr("%?#", *p) ? "%%%02X" : "%c", (unsigned char)*p);
	if (option)
		buf_printf(&name, "?%s", option);
	if (buf_error(&name) < 0)
		return store_no_memory(store, err);
	store_forget_statements(store);
	sqlite3_close(store->db);
	store->db = NULL;
	flags |= SQLITE_OPEN_NOMUTEX | (option ? SQLITE_OPEN_URI : 0);
	if (sqlite3_open_v2(name.data, &store->db, flags, NULL) != SQLITE_OK)
		return store->db ? store_failure(store, err) : store_no_memory(store, err);
	configure(store);
	return 0;
}

static int open_to_write(const char *path, unsigned timeout_ms, struct store **ret, struct err *err)
{
	CLEANUP(store_closep) struct store *store = handle_new(path, timeout_ms, err);
	bool is_empty = false;
	int r = store ? connect_to(store, SQLITE_OPEN_READWRITE, NULL, err) : -ENOMEM;

	if (r == 0)
		r = layout_check(store, &is_empty, err);
	if (r == 0)
		r = is_empty ? layout_create(store, err) : journal_set_up(store, err);
	if (r < 0)
		return r;
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	/* In memory: what a savepoint could undo, which ingest has one of for each record. */
	sqlite3_exec(store->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
	r = durability_raise(store, err);
	if (r < 0)
		return r;
	r = ingest_logs(store, NULL); /* else the next process does */
	store->ingest_error = r < 0 ? r : 0;
	*ret = TAKE_PTR(store);
	return 0;
}

/*
 * A database whose last writer was killed while its rollback journal was in use cannot be read as
 * it is; a process that may write it puts it right.
 */
static int put_right(const char *path, unsigned timeout_ms, struct err *err)
{
	CLEANUP(store_closep) struct store *store = NULL;

	return store_open_timeout(path, STORE_WRITE, timeout_ms, &store, err);
}

static int check_layout(struct store *store, bool *ret_is_empty, struct err *err)
{
	int r = layout_check(store, ret_is_empty, err);

	if (r == 0 || sqlite3_extended_errcode(store->db) != SQLITE_READONLY_ROLLBACK)
		return r;
	r = put_right(store->path, (unsigned)(store->lock_timeout_ns / 1000000), err);
	return r < 0 ? r : layout_check(store, ret_is_empty, err);
}

/* ---- logs that are not ingested yet ---- */

#define INGEST_TIMEOUT_MS 1000
#define COPY_MAX_BYTES (INT64_C(256) << 20)

/* A copy of what the handle has open, or nothing, under SQLite's name for memory or, "", for
 * temporary files. */
static sqlite3 *make_copy(struct store *store, const char *name, int64_t max_bytes)
{
	sqlite3_backup *backup = NULL;
	sqlite3 *copy = NULL;
	int64_t page_bytes = 0, n_pages = 0;
	int rc = sqlite3_open_v2(name, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	if (rc == SQLITE_OK && store->db &&
	    (query_read_number(store, STATEMENT_PAGE_SIZE, 0, &page_bytes, NULL) < 0 ||
	     query_read_number(store, STATEMENT_PAGE_COUNT, 0, &n_pages, NULL) < 0 ||
	     n_pages > max_bytes / (page_bytes > 0 ? page_bytes : 1)))
		rc = SQLITE_TOOBIG;
	if (rc == SQLITE_OK && store->db) {
		backup = sqlite3_backup_init(copy, "main", store->db, "main");
		rc = backup && sqlite3_backup_step(backup, -1) == SQLITE_DONE ? SQLITE_OK
									      : SQLITE_ERROR;
		sqlite3_backup_finish(backup);
	}
	if (rc != SQLITE_OK) {
		sqlite3_close(copy);
		return NULL;
	}
	return copy;
}

int store_open_copy(struct store *of, struct store **ret, struct err *err)
{
	CLEANUP(store_closep)
	struct store *copy = handle_new(of->path, (unsigned)(of->lock_timeout_ns / 1000000), err);

	if (!copy)
		return -ENOMEM;
	copy->db = make_copy(of, "", INT64_MAX);
	if (!copy->db)
		return err_set(
			err, -EIO,
			"the database %s cannot be copied to a temporary file: it is locked, or "
			"there is no room for it in the folder TMPDIR, else /var/tmp",
			of->path);
	copy->is_copy = true;
	copy->alive = of->alive;
	copy->alive_ctx = of->alive_ctx;
	configure(copy);
	sqlite3_db_config(copy->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	*ret = TAKE_PTR(copy);
	return 0;
}

/*
 * The database cannot be written, by us or at all: what is in logs, and not in it, is stored in a
 * copy. It does not see what others write to the database afterwards.
 */
static bool read_copy(struct store *store)
{
	sqlite3 *copy = make_copy(store, ":memory:", COPY_MAX_BYTES);
	bool is_new = !store->db;

	if (!copy)
		return false;
	store_forget_statements(store);
	sqlite3_close(store->db);
	store->db = copy;
	store->is_copy = true;
	store->journal[0] = '\0';
	configure(store);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	if (is_new && layout_create(store, NULL) < 0)
		return false;
	store->ingest_error = ingest_logs(store, NULL);
	return true;
}

/* By a handle that writes, which ingests when it is opened. */
static int ingest_for_reader(struct store *store, unsigned timeout_ms)
{
	CLEANUP(store_closep) struct store *writer = NULL;
	int r = store_open_timeout(store->path, STORE_WRITE,
				   timeout_ms < INGEST_TIMEOUT_MS ? timeout_ms : INGEST_TIMEOUT_MS,
				   &writer, NULL);

	return r < 0 ? r : writer->ingest_error;
}

int store_take_in(struct store *store, struct err *err)
{
	uint64_t lock_timeout_ns = store->lock_timeout_ns;
	int r;

	if (sqlite3_db_readonly(store->db, "main") == 1) {
		r = ingest_has_news(store) ? ingest_for_reader(store, 0) : 0;
		return r == -EBUSY ? 0 : r;
	}
	store->lock_timeout_ns = 0;
	r = ingest_logs(store, err);
	store->lock_timeout_ns = lock_timeout_ns;
	return r == -EBUSY ? 0 : r;
}

/*
 * Who reads shares an index of the log with who writes, in a file beside it. Where nobody can make
 * that SQLite has to be told what to do without: on a full disk, that the file is not its to write,
 * so that it makes one in memory; on a medium that cannot change, that it needs none. NULL:
 * neither.
 */
static const char *option_after(const char *path, int error)
{
	if (error == -ENOSPC || error == -EDQUOT)
		return "readonly_shm=1";
	return error == -EROFS && journal_cannot_change(path) ? "immutable=1" : NULL;
}

static int open_to_read(const char *path, bool as_is, unsigned timeout_ms, struct store **ret,
			struct err *err)
{
	CLEANUP(store_closep) struct store *store = handle_new(path, timeout_ms, err);
	const char *option;
	bool is_empty = false;
	int r = store ? connect_to(store, SQLITE_OPEN_READONLY, NULL, err) : -ENOMEM;

	if (r < 0)
		return r;
	r = check_layout(store, &is_empty, err);
	option = r < 0 ? option_after(path, r) : NULL;
	if (option)
		r = connect_to(store, SQLITE_OPEN_READONLY, option, err);
	if (option && r == 0)
		r = check_layout(store, &is_empty, err);
	if (r == 0 && is_empty && ingest_has_logs(path) && put_right(path, timeout_ms, NULL) == 0)
		r = layout_check(store, &is_empty, err);
	if (r < 0)
		return r;
	if (is_empty)
		return err_set(err, -ENOENT, "nothing was recorded yet: the database %s is empty",
			       path);
	if (!as_is && ingest_has_news(store) && ingest_for_reader(store, timeout_ms) < 0)
		read_copy(store);
	*ret = TAKE_PTR(store);
	return 0;
}

/* Recorders make no database: there are logs alone until somebody reads. */
static int make_for_logs(const char *path, unsigned timeout_ms, struct store **ret, struct err *err)
{
	CLEANUP(store_closep) struct store *store = NULL;
	int r = put_right(path, timeout_ms, err);

	if (r == 0)
		return open_to_read(path, false, timeout_ms, ret, err);
	store = handle_new(path, timeout_ms, NULL);
	if (!store || !read_copy(store))
		return r;
	*ret = TAKE_PTR(store);
	return 0;
}

int store_open_timeout(const char *path, enum store_mode mode, unsigned timeout_ms,
		       struct store **ret, struct err *err)
{
	struct stat st;
	int r = mode == STORE_WRITE && lstat(path, &st) < 0 ? make_empty(path, err) : 0;

	if (r < 0)
		return r;
	if (mode == STORE_READ && lstat(path, &st) < 0 && errno == ENOENT && ingest_has_logs(path))
		return make_for_logs(path, timeout_ms, ret, err);
	r = check_file(path, mode, err);
	if (r < 0)
		return r;
	r = check_access(path, mode, err);
	if (r == 0 && mode == STORE_WRITE)
		r = look_beside(path, false, err);
	if (r < 0)
		return r;
	return mode == STORE_WRITE
		       ? open_to_write(path, timeout_ms, ret, err)
		       : open_to_read(path, mode == STORE_READ_AS_IS, timeout_ms, ret, err);
}

int store_open(const char *path, enum store_mode mode, struct store **ret, struct err *err)
{
	return store_open_timeout(path, mode, LOCK_TIMEOUT_DEFAULT_MS, ret, err);
}

void store_leave_no_log(struct store *store)
{
	store->leaves_no_log = true;
}

void store_forget_statements(struct store *store)
{
	for (size_t i = 0; i < ARRAY_SIZE(store->statements); i++) {
		sqlite3_finalize(store->statements[i]);
		store->statements[i] = NULL;
	}
}

struct store *store_close(struct store *store)
{
	int leaves_log;

	if (!store)
		return NULL;
	settle_before_close(store);
	if (store->log_error) { /* the last chance to bring it to the disk; not for long */
		CLEANUP(txn_abort) struct store *txn = NULL;

		store->lock_timeout_ns = store->mend_boot_ns = 0;
		txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, NULL);
	}
	store_forget_statements(store);
	/*
	 * The last to leave would copy the log into the database and remove it, which takes as long
	 * as all that a short run writes. A short log is left, and one that the disk has refused
	 * (copy_log()).
	 */
	leaves_log =
		store->log_error || (!store->leaves_no_log && store->wal_pages < WAL_LEFT_PAGES &&
				     store->wal_peak_pages < WAL_MAX_PAGES);
	if (store->db && !store->is_borrowed) {
		sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leaves_log, NULL);
		sqlite3_close(store->db);
	}
	process_index_release(&store->process_rows);
	buf_release(&store->writing.bytes);
	tick_release(&store->writing.now);
	tick_release(&store->writing.before);
	call_names_release(&store->writing.call_names);
	free(store->writing.listed);
	for (size_t i = 0; i < LOG_DECODERS; i++)
		tick_decoder_free(store->decoders[i].ticks);
	map_release(&store->phase_counts);
	damages_release(&store->damages);
	free(store->path);
	free(store);
	return NULL;
}

void store_closep(struct store **store)
{
	*store = store_close(*store);
}

struct store_swept store_sweep(const char *path, uint64_t followed_wall_ns)
{
	struct store_swept ret = { 0 };
	struct store *store = NULL;

	ret.result = store_open(path, STORE_WRITE, &store, NULL);
	if (ret.result < 0)
		return ret;
	store->is_unsettled = true; /* by others */
	settle_copy(store, false);
	store->followed_wall_ns = followed_wall_ns;
	(void)ingest_logs(store, NULL); /* removes logs */
	ret.disk_error = store->log_error;
	ret.wait_ns = store->disk_wait_ns;
	store_close(store);
	return ret;
}

void store_set_alive_check(struct store *store, store_alive_fn *fn, void *ctx)
{
	store->alive = fn;
	store->alive_ctx = ctx;
}
