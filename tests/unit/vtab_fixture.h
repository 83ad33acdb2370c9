/*
 * vtab_fixture - what was recorded as tables of SQL: ticks to read, and how they are asked for.
 */
#ifndef PROCTOR_TESTS_VTAB_FIXTURE_H
#define PROCTOR_TESTS_VTAB_FIXTURE_H

#include "store_host.h"

#include "store/sql/vtab.h"
#include "store_writer.h"

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

#define N_TICKS 300 /* two folds, and 60 that are none yet */

static inline struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

/* Events like those of real runs, and one whose time nobody knows. */
static inline void make_event(struct proc_event *event, const char *job_id, unsigned k,
			      uint64_t wall_ns)
{
	*event = (struct proc_event){
		.wall_ns = k == 77 ? U64_UNKNOWN : wall_ns + k,
		.key = { 100 + (pid_t)k % 3, k % 2 ? 5000 : U64_UNKNOWN },
		.type = (enum event_type)(k / 10 % 5),
		.status = { k / 10 % 5 == EVENT_EXIT ? (int)k % 7 : -1,
			    k / 10 % 5 == EVENT_KILL ? 9 : -1 },
		.job_id = job_id,
		.sheet_num = k % 4 ? 1 : SHEET_NONE,
		.details = k % 6 ? "" : "it's \"so\"",
	};
}

/* Ticks first to last of a job, with a point and every tenth with an event. */
static inline void write_ticks(struct store *store, const struct attempt *a, unsigned first,
			       unsigned last)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (unsigned k = first; k < last; k++) {
		struct series_point point = { .wall_ns = k };
		struct proc_event event;

		make_snapshot(&snap, a->job_id, k);
		make_event(&event, a->job_id, k, snap.wall_ns);
		must(write_tick(store, a, &snap, &point, &event, k % 10 == 7, &err), &err);
	}
}

/* ---- SQL ---- */

static inline void close_db(sqlite3 **db)
{
	/* Not _v2: it says if statements were left behind. */
	assert_int_equal(sqlite3_close(*db), SQLITE_OK);
}

static inline void finalize(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

/* A connection like those of other programs, with the tables. */
static inline sqlite3 *open_db(const char *path)
{
	struct err err = ERR_INIT;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	must(vtab_register(db, NULL, &err), &err);
	return db;
}

static inline sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	return stmt;
}

static inline void add_row(struct buf *out, sqlite3_stmt *stmt)
{
	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		const char *text = (const char *)sqlite3_column_text(stmt, i);

		buf_printf(out, "%s%s", i ? "|" : "", text ? text : "NULL");
	}
	buf_add_char(out, '\n');
}

/* All rows, "a|b\n" each. */
static inline void run(sqlite3 *db, const char *sql, struct buf *ret)
{
	CLEANUP(finalize) sqlite3_stmt *stmt = prepare(db, sql);
	int rc;

	buf_reset(ret);
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
		add_row(ret, stmt);
	if (rc != SQLITE_DONE)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static inline void assert_rows(sqlite3 *db, const char *sql, const char *rows)
{
	CLEANUP(buf_release) struct buf got = BUF_INIT;

	run(db, sql, &got);
	if (strcmp(got.data, rows) != 0)
		fail_msg("%s\ngave\n%swanted\n%s", sql, got.data, rows);
}

/* It fails, also while it is prepared, and says this. */
static inline void assert_fails(sqlite3 *db, const char *sql, int code, const char *says)
{
	CLEANUP(finalize) sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_DONE || !strstr(sqlite3_errmsg(db), says))
		fail_msg("%s gave %d, %s", sql, rc, sqlite3_errmsg(db));
	assert_int_equal(rc & 0xff, code);
}

/* ---- what SQLite makes of ordinary tables is right ---- */

/* Two jobs of the same time and one of another, of runners and of a clock that was set back. */
static inline void write_three_jobs(struct store *store)
{
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "B"),
		       c = must_begin(store, "5");

	write_ticks(store, &a, 0, 130);
	write_ticks(store, &b, 60, 190);
	write_ticks(store, &c, 500, 530);
	write_ticks(store, &a, 130, 140);
	write_ticks(store, &c, 400, 510);
}

/* Ordinary tables with the same rows: what SQLite makes of those is right. */
static inline void copy_tables(sqlite3 *db)
{
	assert_rows(db, "CREATE TEMP TABLE copy_s AS SELECT * FROM snapshots", "");
	assert_rows(db, "CREATE TEMP TABLE copy_m AS SELECT * FROM process_metrics", "");
	assert_rows(db, "CREATE TEMP TABLE copy_e AS SELECT * FROM process_events", "");
}

static const struct {
	char letter;
	const char *table, *copy;
} names[] = {
	{ 's', "snapshots", "copy_s" },
	{ 'm', "process_metrics", "copy_m" },
	{ 'e', "process_events", "copy_e" },
};

/* $s, $m and $e are the tables, $$ is $. */
static inline void write_sql(struct buf *out, const char *template, bool of_copies)
{
	for (const char *p = template; *p; p++) {
		if (*p != '$') {
			buf_add_char(out, *p);
			continue;
		}
		if (*++p == '$')
			buf_add_char(out, '$');
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (names[i].letter == *p)
				buf_add_str(out, of_copies ? names[i].copy : names[i].table);
	}
}

/* Returns how many rows it gives. */
static inline size_t assert_as_copies(sqlite3 *db, const char *template)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	CLEANUP(buf_release) struct buf rows = BUF_INIT;
	size_t n = 0;

	write_sql(&sql, template, true);
	run(db, sql.data, &rows);
	buf_reset(&sql);
	write_sql(&sql, template, false);
	assert_rows(db, sql.data, rows.data);
	for (const char *p = rows.data; *p; p++)
		n += *p == '\n';
	return n;
}

#endif
