#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/path.h"
#include "store/beside.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/journal.h"
#include "store/make.h"
#include "store/layout.h"
#include "store/patience.h"
#include "store/query.h"
#include "store/seen.h"
#include "store/settle.h"
#include "store/spool_file.h"
#include "store/sqlite.h"
#include "store/vfs.h"
#include "store/wal.h"

/* ---- the file ---- */

static int refuse_lost_log(const char *path, struct err *err)
{
	return err_set(
		err, -EBADMSG,
		"the database %s is damaged (it is empty, and what is in its -wal cannot be "
		"read): run \"proctor doctor --repair\", which moves both aside so that a new "
		"one can begin",
		path);
}

/*
 * SQLite takes the log of an empty file for a stale one and deletes it, even when
 * it only reads. A file that was cut to nothing has its last rows there. The log is
 * looked at first: of a database that is just being made it comes second.
 */
static int check_log(const char *path, struct err *err)
{
	struct stat st;
	struct wal_found log;

	wal_check(path, &log);
	if (!log.has_commit || stat(path, &st) < 0 || st.st_size > 0)
		return 0;
	return refuse_lost_log(path, err);
}

/*
 * A link is followed (state may live on another disk), but what is written must
 * be a plain file of our own: in a folder that others can write, theirs could
 * stand there to read what we record. Root may write anybody's: the layout
 * check keeps it to proctor's databases.
 */
static int check_file(const char *path, enum store_mode mode, struct err *err)
{
	struct stat st;
	int error = stat(path, &st) < 0 ? errno : 0;

	if (error == ENOENT && mode == STORE_READ)
		return err_set(err, -ENOENT, "nothing was recorded yet: there is no database %s",
			       path);
	if (error == ENOENT) /* make_database() found something there */
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
	return st.st_size == 0 ? check_log(path, err) : 0;
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
	return obstacle ? refuse_writing(path, obstacle, err) : beside_check(path, err);
}

/* ---- the handle ---- */

static void close_handle(struct store **store)
{
	*store = store_close(*store);
}

static int handle_init(struct store *store, const char *path)
{
	store->writing.bytes = (struct buf)BUF_INIT;
	store->writing.slice_ns = FOLD_SLICE_NS;
	store->writing.now = store->writing.before = (struct tick)TICK_INIT;
	store->path = strdup(path);
	return store->path ? 0 : -ENOMEM;
}

/* SQLite's own way of waiting sleeps up to 100 ms at a time: too long for a tick. */
static int wait_for_lock(void *ctx, int n_calls)
{
	(void)n_calls; /* counts for one lock; a call may need several */
	return patience_wait(ctx);
}

/* Nothing that is written comes near to it. */
#define VALUE_MAX_BYTES (256 << 20)

static void configure(struct store *store, unsigned patience_ms)
{
	sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
	store_set_patience(store, patience_ms);
	sqlite3_extended_result_codes(store->db, 1);
	sqlite3_busy_handler(store->db, wait_for_lock, store);
	sqlite3_wal_hook(store->db, settle_log, store);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
}

/* ---- on a connection of others ---- */

int store_borrow(sqlite3 *db, struct store **ret, struct err *err)
{
	CLEANUP(close_handle) struct store *store = calloc(1, sizeof(*store));
	const char *path = sqlite3_db_filename(db, "main");

	if (!store || handle_init(store, path && path[0] ? path : "main") < 0)
		return err_set(err, -ENOMEM, "no memory left to use a database");
	store->db = db;
	store->is_borrowed = true;
	*ret = TAKE_PTR(store);
	return 0;
}

/* ---- opening ---- */

static int connect_to(struct store *store, const char *name, int flags, unsigned patience_ms,
		      struct err *err)
{
	if (sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, vfs_name()) != SQLITE_OK)
		return store->db ? store_failure(store, err)
				 : err_set(err, -ENOMEM, "no memory left to open the database %s",
					   store->path);
	configure(store, patience_ms);
	return 0;
}

/* "./" before a relative path: "file:x" and ":memory:" are names of files here. */
static int open_handle(const char *path, enum store_mode mode, unsigned patience_ms,
		       struct store *store, struct err *err)
{
	int flags = mode == STORE_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
	CLEANUP(free_ptr) char *name = NULL;

	if (handle_init(store, path) < 0 ||
	    asprintf(&name, "%s%s", path[0] == '/' ? "" : "./", path) < 0)
		return err_set(err, -ENOMEM, "no memory left to open the database %s", path);
	return connect_to(store, name, flags, patience_ms, err);
}

static int configure_writing(struct store *store, struct err *err)
{
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	return durability_raise(store, err);
}

/*
 * A young database is all in its log. If that is damaged the file looks as if it
 * had just been made, and the log would be overwritten. Who is just making it has
 * the lock that this waits for.
 */
static int check_empty(struct store *store, bool *is_empty, struct err *err)
{
	struct wal_found log;
	int r = 0;

	wal_check(store->path, &log);
	if (!log.has_commit)
		return 0;
	if (sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return store_failure(store, err);
	r = layout_check(store, is_empty, err);
	if (r == 0 && *is_empty)
		r = refuse_lost_log(store->path, err);
	sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

static int open_to_write(const char *path, bool is_new, unsigned patience_ms, struct store **ret,
			 struct err *err)
{
	CLEANUP(close_handle) struct store *store = calloc(1, sizeof(*store));
	bool is_empty = false;
	int r;

	if (!store)
		return err_set(err, -ENOMEM, "no memory left to open the database %s", path);
	r = open_handle(path, STORE_WRITE, patience_ms, store, err);
	if (r < 0)
		return r;
	r = layout_check(store, &is_empty, err);
	if (r == 0 && is_empty)
		r = check_empty(store, &is_empty, err);
	if (r < 0)
		return r;
	r = is_empty ? layout_create(store, err) : journal_set_up(store, err);
	if (r < 0)
		return r;
	r = configure_writing(store, err);
	if (r == 0 && is_new)
		r = layout_begin_log(store, err);
	if (r < 0)
		return r;
	spool_file_prepare(path);
	store_take_in(store, NULL); /* else who comes next does */
	*ret = TAKE_PTR(store);
	return 0;
}

/*
 * A database whose last writer was killed while its rollback journal was in use cannot be read as
 * it is; a process that may write it puts it right.
 */
static int put_right(const char *path, unsigned patience_ms, struct err *err)
{
	CLEANUP(close_handle) struct store *store = NULL;

	return store_open_patient(path, STORE_WRITE, patience_ms, &store, err);
}

static int check_layout(struct store *store, bool *ret_is_empty, struct err *err)
{
	int r = layout_check(store, ret_is_empty, err);

	if (r == 0 || sqlite3_extended_errcode(store->db) != SQLITE_READONLY_ROLLBACK)
		return r;
	r = put_right(store->path, (unsigned)(store->patience_ns / 1000000), err);
	return r < 0 ? r : layout_check(store, ret_is_empty, err);
}

/* What looks empty, and has a log, is being made or damaged; who may write it can tell. */
static int look_again(struct store *store, bool *is_empty, struct err *err)
{
	struct wal_found log;
	int r;

	wal_check(store->path, &log);
	if (!log.has_commit)
		return 0;
	r = put_right(store->path, (unsigned)(store->patience_ns / 1000000), err);
	return r < 0 ? r : layout_check(store, is_empty, err);
}

/* Ends of attempts that wait beside it: by who may write, not for long, and not for certain. */
#define TAKE_IN_PATIENCE_MS 100

static void take_in_kept(struct store *store, unsigned patience_ms)
{
	CLEANUP(close_handle) struct store *writer = NULL;
	unsigned ms = patience_ms < TAKE_IN_PATIENCE_MS ? patience_ms : TAKE_IN_PATIENCE_MS;

	if (!store_has_kept(store->path) ||
	    store_open_patient(store->path, STORE_WRITE, ms, &writer, NULL) < 0)
		return;
	damages_add(&store->damages, &writer->damages);
	store->aside_wall_ns = writer->aside_wall_ns;
}

/* As a URI: what has a meaning in one is written as its number. */
static void add_uri_path(struct buf *out, const char *path)
{
	for (; *path; path++)
		if (strchr("%?#", *path))
			buf_printf(out, "%%%02X", (unsigned char)*path);
		else
			buf_add_char(out, *path);
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

static int check_layout_with(struct store *store, const char *option, unsigned patience_ms,
			     bool *ret_is_empty, struct err *err)
{
	CLEANUP(buf_release) struct buf uri = BUF_INIT;
	int r;

	buf_add_str(&uri, store->path[0] == '/' ? "file:" : "file:./");
	add_uri_path(&uri, store->path);
	buf_printf(&uri, "?%s", option);
	if (buf_error(&uri) < 0)
		return err_set(err, -ENOMEM, "no memory left to open the database %s", store->path);
	store_forget_statements(store);
	sqlite3_close(store->db);
	store->db = NULL;
	r = connect_to(store, uri.data, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, patience_ms, err);
	return r < 0 ? r : check_layout(store, ret_is_empty, err);
}

static int open_to_read(const char *path, unsigned patience_ms, struct store **ret, struct err *err)
{
	CLEANUP(close_handle) struct store *store = calloc(1, sizeof(*store));
	const char *option;
	bool is_empty = false;
	int r;

	if (!store)
		return err_set(err, -ENOMEM, "no memory left to open the database %s", path);
	r = open_handle(path, STORE_READ, patience_ms, store, err);
	if (r < 0)
		return r;
	r = check_layout(store, &is_empty, err);
	option = r < 0 ? option_after(path, r) : NULL;
	if (option)
		r = check_layout_with(store, option, patience_ms, &is_empty, err);
	if (r == 0 && is_empty)
		r = look_again(store, &is_empty, err);
	if (r < 0)
		return r;
	if (is_empty && store_has_kept(path) && put_right(path, patience_ms, NULL) == 0)
		r = layout_check(store, &is_empty, err);
	if (r < 0)
		return r;
	if (is_empty)
		return err_set(err, -ENOENT, "nothing was recorded yet: the database %s is empty",
			       path);
	take_in_kept(store, patience_ms);
	*ret = TAKE_PTR(store);
	return 0;
}

int store_open_patient(const char *path, enum store_mode mode, unsigned patience_ms,
		       struct store **ret, struct err *err)
{
	int r = mode == STORE_WRITE ? make_database(path, err) : 0;
	bool is_new = r > 0;

	if (r < 0)
		return r;
	r = check_file(path, mode, err);
	if (r < 0)
		return r;
	r = check_access(path, mode, err);
	if (r == 0 && mode == STORE_WRITE)
		r = beside_make_writable(path, err);
	if (r < 0)
		return r;
	return mode == STORE_WRITE ? open_to_write(path, is_new, patience_ms, ret, err)
				   : open_to_read(path, patience_ms, ret, err);
}

int store_open(const char *path, enum store_mode mode, struct store **ret, struct err *err)
{
	return store_open_patient(path, mode, PATIENCE_DEFAULT_MS, ret, err);
}

/*
 * The last to leave would copy the log into the database and remove it, which
 * takes as long as all that "proctor run -- true" writes. A short log is left.
 */
static bool may_leave_log(const struct store *store)
{
	if (store->log_error || store->leaves_unsettled) /* see copy_log() in settle.c */
		return true;
	return !store->leaves_no_log && store->wal_pages < WAL_LEFT_PAGES &&
	       store->wal_peak_pages < WAL_MAX_PAGES;
}

/* The last chance to bring to the disk what it has refused; not for long. */
static void mend_log(struct store *store)
{
	CLEANUP(txn_abort) struct store *txn = NULL;

	store->patience_ns = 0;
	store->mend_boot_ns = 0;
	txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, NULL);
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

static void close_connection(struct store *store)
{
	if (!store->db || store->is_borrowed)
		return;
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)may_leave_log(store),
			  NULL);
	sqlite3_close(store->db);
}

struct store *store_close(struct store *store)
{
	if (!store)
		return NULL;
	settle_before_close(store);
	if (store->log_error)
		mend_log(store);
	store_forget_statements(store);
	close_connection(store);
	seen_release(store);
	map_release(&store->phase_counts);
	buf_release(&store->writing.bytes);
	tick_release(&store->writing.now);
	tick_release(&store->writing.before);
	call_names_release(&store->writing.call_names);
	tick_owners_release(&store->writing.owners);
	left_fold_free(&store->left);
	left_fold_free(&store->own);
	damages_release(&store->damages);
	free(store->writing.listed);
	free(store->path);
	free(store);
	return NULL;
}

void store_set_alive_check(struct store *store, store_alive_fn *fn, void *ctx)
{
	store->alive = fn;
	store->alive_ctx = ctx;
}
