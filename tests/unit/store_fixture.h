/*
 * store_fixture - a database in a folder of its own, and things to put into it.
 */
#ifndef PROCTOR_TESTS_STORE_FIXTURE_H
#define PROCTOR_TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/store.h"

#include "child_check.h"

struct fixture {
	char dir[128];
	char db[160];
};

static inline int fixture_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->dir, sizeof(f->dir), "%.90s/proctor-store-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->db, sizeof(f->db), "%s/proctor.db", f->dir);
	*state = f;
	return 0;
}

static inline int fixture_remove_one(const char *path, const struct stat *st, int type,
				     struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	nftw(f->dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

static inline void store_cleanup(struct store **store)
{
	*store = store_close(*store);
}

/* Opens or fails the test. */
static inline struct store *must_open(const char *path, enum store_mode mode)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	if (store_open(path, mode, &store, &err) < 0)
		fail_msg("%s", err.text);
	return store;
}

/* Fails the test with the sentence, if there is one. */
static inline void must(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s (%d)", err->text, r);
}

/* Runs SQL beside the store. Returns the first number of the result, or -1. */
static inline int64_t raw_sql(const char *path, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	int64_t v = -1;

	if (sqlite3_open(path, &db) == SQLITE_OK &&
	    sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		v = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return v;
}

/* The same for text, into a buffer of 256 bytes. */
static inline const char *raw_text(const char *path, const char *sql, char *ret)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;

	ret[0] = '\0';
	if (sqlite3_open(path, &db) == SQLITE_OK &&
	    sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
		snprintf(ret, 256, "%s", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return ret;
}

/* The same for bytes, in memory of exactly their size; the caller frees it. */
static inline char *raw_blob(const char *path, const char *sql, size_t *ret_len)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	char *copy = NULL;

	*ret_len = 0;
	if (sqlite3_open(path, &db) == SQLITE_OK &&
	    sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW) {
		const void *data = sqlite3_column_blob(stmt, 0);

		*ret_len = (size_t)sqlite3_column_bytes(stmt, 0);
		copy = malloc(*ret_len);
		if (copy)
			memcpy(copy, data, *ret_len);
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return copy;
}

static inline void assert_is_sound(const char *path)
{
	char text[256];

	assert_string_equal(raw_text(path, "PRAGMA integrity_check", text), "ok");
	assert_string_equal(raw_text(path, "PRAGMA foreign_key_check", text), "");
}

/* Ticks of all attempts, folded or not. */
#define COUNT_TICKS \
	"SELECT (SELECT count(*) FROM ticks) + (SELECT coalesce(sum(n_ticks), 0) FROM folds)"

static inline int count_row(void *ctx, const struct history_row *row)
{
	(void)row;
	++*(int64_t *)ctx;
	return 0;
}

/* Samples of all attempts, as they are read; -1: they cannot be. */
static inline int64_t count_samples(const char *path)
{
	struct store *store = NULL;
	int64_t n = 0;
	int r = store_open(path, STORE_READ, &store, NULL);

	if (r == 0)
		r = store_read_history(store, &(struct history_filter){ 0 }, count_row, &n, NULL);
	store_close(store);
	return r < 0 ? -1 : n;
}

/* What "proctor run" knows when it begins. */
static inline struct attempt make_attempt(const char *job_id)
{
	struct attempt a;

	attempt_init(&a);
	a.job_id = job_id;
	a.command = "sleep 1";
	a.argv_hash = UINT64_C(0xfedcba9876543210); /* beyond what is positive in SQL */
	a.input_bytes = 4096;
	a.input_hash = UINT64_C(0x8000000000000001);
	a.uid = 1000;
	a.submission = 4711;
	a.host = "host";
	a.workdir = "/tmp";
	a.pid_ns = 4026531836;
	a.clock = (struct clock_quality){ 1500000, 1 };
	snprintf(a.boot_id, sizeof(a.boot_id), "6b8a4f1e-0000-4000-8000-123456789abc");
	a.runner = (struct proc_key){ 4711, 99 };
	a.interval_seconds = 0.25;
	a.started_wall_ns = UINT64_C(1700000000123456789);
	a.total_sheets = 3;
	return a;
}

/* As the runner of an attempt does. point may be NULL. */
static inline int write_tick(struct store *store, const struct attempt *a,
			     const struct snapshot *snap, const struct series_point *point,
			     const struct proc_event *events, size_t n_events, struct err *err)
{
	int r = store_write_tick(store, a, snap, point, err);

	return r < 0 || n_events == 0 ? r : store_write_events(store, a, events, n_events, err);
}

/* n processes of the job with pids from 100, at tick number k. */
static inline void fill_snapshot(struct snapshot *s, const char *job_id, int n, unsigned k)
{
	snapshot_reset(s);
	s->wall_ns = UINT64_C(1700000001000000000) + k * UINT64_C(250000000);
	s->boot_ns = UINT64_C(5000000000) + k * UINT64_C(250000000);
	for (int i = 0; i < n; i++) {
		struct proc_sample *p = snapshot_add_process(s);

		assert_non_null(p);
		p->key = (struct proc_key){ 100 + i, 5000 + (uint64_t)i };
		p->ppid = 1;
		p->state = 'S';
		p->command = arena_strdup(&s->arena, "worker --fast");
		p->job_id = job_id;
		p->sheet_num = 1;
		p->user_ns = k * UINT64_C(1000000);
		p->rss_bytes = 4096 * (uint64_t)(i + 1);
	}
}

/*
 * Runs fn in a child that is an ordinary user (root may do everything).
 * Returns the child's status, 0 when all of its asserts held.
 */
static inline int run_as_user(void (*fn)(struct fixture *), struct fixture *f)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(99);
		fn(f);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

/* The episode as it is, by an observer that takes over. */
static inline int write_anomaly(struct store *store, int64_t attempt_id, const struct episode *e,
				enum episode_change change, struct err *err)
{
	const struct anomaly_news news = { attempt_id, e, change };

	return store_tell_anomaly(store, &news, err);
}

#endif
