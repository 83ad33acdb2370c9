#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/macros.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/handle.h"
#include "store/retention/retention.h"
#include "store/tables.h"

/* "Pctr", in the file's header: tells our databases from those of others. */
#define APPLICATION_ID 0x50637472

/*
 * Integers are exact (bytes, ns), NULL is unknown; how each type is kept: columns.h.
 *
 * Processes: a process is (boot, pid, start_ticks), with one row for each attempt that it belongs
 * to. The row has the latest names; earlier ones are images, for the ticks up to until_tick (some,
 * not each title that a program gives itself). is_raised: its numbers are those of samples that
 * were removed, as an attempt may find no room at its end to write its processes.
 *
 * Samples: the recorder of ticks is known by the id of its attempt. A tick is one row with all of
 * its samples (codec.h). After 120 of a recorder they become a fold, which is the host's values,
 * with a chunk for each group of 16 processes (codec.h) and points for each attempt. A fold has the
 * id of its newest tick, so no tick ever gets the id of another; meta has last_tick, the largest id
 * that was removed. A chunk's id is its fold and its group (CHUNK_BITS): that is all the index it
 * needs. That of a row of rollups is the hour and the group (rollup.h). A sample is in a chunk or
 * in a rollup, never in both; is_rolled: chunks of the fold are becoming rollups, and it is read as
 * minutes. Points of which only the peak is left are thin. Beside packed bytes stands a seal of
 * them and of their key (query_bind_blob()): a flipped bit mostly unpacks as well as the right one,
 * or gives samples to another process.
 *
 * Attempts: one may be a tree that another program started (is_attached): its runner is the
 * process that was attached. submission: the number of the submission that it runs, as no clock
 * can identify that. clock_error_ns is of its host when it began. log_id: of the log that its
 * recorder appends to (log/log.h); records before log_offset are in these tables, and all of them
 * where log_is_over. Logs are ingested in any order, so the id of an attempt says nothing about
 * when it began.
 *
 * Learning: a run is an attempt (is_whole) or one of its sheets, in numbers that outlive the
 * samples (model/run_record.h). Its outcome is the attempt's, which a verdict of a person may have
 * replaced. An estimate is made by its start, a score compares it with the result. n_looks of a
 * pattern counts the checks of its later runs, as each spends error.
 *
 * An event never gets the id of one that was removed, as readers follow them by id. An anomaly has
 * its latest state, and seen_wall_ns says when that was measured; anomaly_changes has its few
 * changes (anomalies.c).
 */

/* A table with the columns of these structs (tables.h), or whatever else SQL makes. */
#define OWNER " attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE,"
#define LOG                                                           \
	" log_id BLOB UNIQUE, log_offset INTEGER NOT NULL DEFAULT 0," \
	" log_is_over INTEGER NOT NULL DEFAULT 0"

static const struct statement_row tables[] = {
	{ "CREATE TABLE boots (id INTEGER PRIMARY KEY, boot_id TEXT NOT NULL UNIQUE);"
	  "CREATE TABLE jobs (id INTEGER PRIMARY KEY, job_id TEXT NOT NULL UNIQUE);"
	  "CREATE TABLE attempts (id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs,"
	  " attempt_num INTEGER NOT NULL, boot INTEGER REFERENCES boots, @declared,"
	  " n_lost_marks INTEGER," LOG ", UNIQUE (job, attempt_num));"
	  "CREATE INDEX attempts_by_start ON attempts (started_wall_ns);"
	  "CREATE INDEX attempts_without_end ON attempts (id) WHERE ended_wall_ns IS NULL;"
	  "CREATE INDEX attempts_by_submission ON attempts (submission)"
	  " WHERE submission IS NOT NULL;",
	  { { "", &attempt_begin_columns },
	    { "", &clock_columns },
	    { "", &attempt_progress_columns },
	    { "", &attempt_end_columns },
	    { "", &usage_columns } } },
	{ "CREATE TABLE sheets (" OWNER " @declared,"
	  " PRIMARY KEY (attempt, num, try_num)) WITHOUT ROWID;",
	  { { "", &sheet_columns }, { "", &usage_columns } } },
	{ "CREATE TABLE ranks (" OWNER " sheet_num INTEGER NOT NULL, try_num INTEGER NOT NULL,"
	  " @declared, PRIMARY KEY (attempt, sheet_num, try_num, rank)) WITHOUT ROWID;",
	  { { "", &rank_columns } } },
	{ "CREATE TABLE processes (id INTEGER PRIMARY KEY," OWNER " boot INTEGER REFERENCES boots,"
	  " @declared, is_raised INTEGER NOT NULL DEFAULT 0, UNIQUE (attempt, pid, start_ticks));"
	  "CREATE INDEX processes_by_pid ON processes (pid);",
	  { { "", &process_columns },
	    { "", &sample_process_columns },
	    { "", &sample_shared_columns } } },
	{ "CREATE TABLE images (process INTEGER NOT NULL REFERENCES processes ON DELETE CASCADE,"
	  " until_tick INTEGER NOT NULL, @declared, PRIMARY KEY (process, until_tick)) WITHOUT ROWID;",
	  { { "", &image_columns } } },
	{ "CREATE TABLE daemons (id INTEGER PRIMARY KEY, boot INTEGER REFERENCES boots, @declared,"
	  " stopped_wall_ns INTEGER," LOG ");",
	  { { "", &daemon_columns } } },
	{ "CREATE TABLE ticks (id INTEGER PRIMARY KEY, recorder INTEGER NOT NULL,"
	  " wall_ns INTEGER NOT NULL, data BLOB NOT NULL, seal INTEGER NOT NULL);"
	  "CREATE TABLE folds (id INTEGER PRIMARY KEY, recorder INTEGER NOT NULL,"
	  " first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, n_ticks INTEGER NOT NULL,"
	  " is_rolled INTEGER NOT NULL DEFAULT 0, times BLOB NOT NULL, times_seal INTEGER NOT NULL,"
	  " data BLOB NOT NULL, seal INTEGER NOT NULL);"
	  "CREATE INDEX folds_by_recorder ON folds (recorder);"
	  "CREATE INDEX folds_by_time ON folds (first_ns, last_ns, recorder, is_rolled);"
	  "CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL, seal INTEGER NOT NULL);"
	  "CREATE TABLE points (attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE,"
	  " fold INTEGER NOT NULL, last_ns INTEGER NOT NULL, is_thin INTEGER NOT NULL DEFAULT 0,"
	  " data BLOB NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (attempt, fold)) WITHOUT ROWID;"
	  "CREATE INDEX points_by_time ON points (last_ns) WHERE NOT is_thin;"
	  "CREATE TABLE rollups (id INTEGER PRIMARY KEY, data BLOB NOT NULL, seal INTEGER NOT NULL);"
	  "CREATE TRIGGER processes_keep_images"
	  " AFTER UPDATE OF sheet_num, rank, comm, command, cgroup ON processes"
	  " WHEN (OLD.sheet_num IS NOT NEW.sheet_num OR OLD.rank IS NOT NEW.rank OR"
	  " OLD.comm IS NOT NEW.comm OR OLD.command IS NOT NEW.command OR"
	  " OLD.cgroup IS NOT NEW.cgroup)"
	  " AND (SELECT count(*) FROM images WHERE process = OLD.id) < 64 BEGIN"
	  " INSERT OR IGNORE INTO images VALUES (OLD.id,"
	  " max(coalesce((SELECT max(id) FROM ticks), 0), coalesce((SELECT max(id) FROM folds), 0),"
	  " coalesce((SELECT value FROM meta WHERE key = 'last_tick'), 0)),"
	  " OLD.sheet_num, OLD.rank, OLD.comm, OLD.command, OLD.cgroup); END;"
	  "CREATE TRIGGER folds_take_chunks AFTER DELETE ON folds BEGIN"
	  " INSERT INTO meta VALUES ('last_tick', OLD.id)"
	  " ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value);"
	  " DELETE FROM chunks WHERE id BETWEEN OLD.id << 30 AND (OLD.id << 30) + 1073741823; END;"
	  "CREATE TRIGGER attempts_take_ticks AFTER DELETE ON attempts BEGIN"
	  " INSERT INTO meta SELECT 'last_tick', max(id) FROM ticks WHERE recorder = OLD.id"
	  " HAVING max(id) IS NOT NULL"
	  " ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value);"
	  " DELETE FROM ticks WHERE recorder = OLD.id;"
	  " DELETE FROM folds WHERE recorder = OLD.id; END;"
	  "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT," OWNER " @declared);"
	  "CREATE INDEX events_by_attempt ON events (attempt, wall_ns);"
	  "CREATE INDEX events_by_time ON events (wall_ns);",
	  { { "", &event_columns } } },
	{ "CREATE TABLE rungs (id INTEGER PRIMARY KEY," OWNER " @declared);"
	  "CREATE INDEX rungs_by_attempt ON rungs (attempt);",
	  { { "", &rung_columns } } },
	{ "CREATE TABLE unknowns (id INTEGER PRIMARY KEY," OWNER " @declared);"
	  "CREATE INDEX unknowns_by_attempt ON unknowns (attempt);",
	  { { "", &unknown_columns } } },
	{ "CREATE TABLE anomalies (id INTEGER PRIMARY KEY,"
	  " attempt INTEGER REFERENCES attempts ON DELETE CASCADE, @declared,"
	  " pattern TEXT NOT NULL, UNIQUE (episode));"
	  "CREATE INDEX anomalies_by_attempt ON anomalies (attempt, began_wall_ns);"
	  "CREATE INDEX anomalies_by_time ON anomalies (began_wall_ns);"
	  "CREATE INDEX anomalies_by_pattern ON anomalies (pattern);"
	  "CREATE INDEX anomalies_by_end ON anomalies (ended_wall_ns);",
	  { { "", &episode_columns } } },
	{ "CREATE TABLE anomaly_changes (id INTEGER PRIMARY KEY,"
	  " anomaly INTEGER NOT NULL REFERENCES anomalies ON DELETE CASCADE, @declared);"
	  "CREATE INDEX anomaly_changes_by_anomaly ON anomaly_changes (anomaly, wall_ns);",
	  { { "", &moment_columns } } },
	{ "CREATE TABLE syscalls (" OWNER " @declared, PRIMARY KEY (attempt, name)) WITHOUT ROWID;",
	  { { "", &syscall_columns } } },
	{ "CREATE TABLE runs (" OWNER " outcome TEXT, @declared,"
	  " PRIMARY KEY (attempt, sheet_num)) WITHOUT ROWID;"
	  "CREATE INDEX runs_by_exact ON runs (class_exact, ended_wall_ns, class_program);"
	  "CREATE INDEX runs_by_masked ON runs (class_masked, ended_wall_ns);"
	  "CREATE INDEX runs_by_program ON runs (class_program, ended_wall_ns);"
	  "CREATE INDEX runs_by_command ON runs (class_command, ended_wall_ns);"
	  "CREATE INDEX runs_by_end ON runs (ended_wall_ns);",
	  { { "", &run_columns } } },
	{ "CREATE TABLE verdicts (attempt INTEGER PRIMARY KEY REFERENCES attempts ON DELETE CASCADE,"
	  " outcome TEXT NOT NULL, note TEXT, uid INTEGER, wall_ns INTEGER NOT NULL,"
	  " measured_outcome TEXT, measured_reason TEXT);"
	  "CREATE TABLE patterns (@declared, PRIMARY KEY (type, name)) WITHOUT ROWID;",
	  { { "", &pattern_columns } } },
	{ "CREATE VIEW outcomes AS SELECT job_id, attempt_num, outcome, reason, exit_code, signal,"
	  " started_wall_ns, ended_wall_ns FROM attempts a JOIN jobs ON jobs.id = a.job"
	  " WHERE outcome IS NOT NULL;"
	  "CREATE TABLE estimates (id INTEGER PRIMARY KEY,"
	  " attempt INTEGER REFERENCES attempts ON DELETE CASCADE, sheet_num INTEGER NOT NULL,"
	  " made_wall_ns INTEGER, @declared, rung INTEGER NOT NULL);"
	  "CREATE UNIQUE INDEX estimates_by_run ON estimates (attempt, sheet_num);",
	  { { "", &estimate_columns } } },
	{ "CREATE TABLE scores (estimate INTEGER PRIMARY KEY REFERENCES estimates ON DELETE CASCADE,"
	  " @declared);",
	  { { "", &score_columns } } },
	{ "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	  "INSERT INTO meta VALUES ('retained_ns', strftime('%s', 'now') * 1000000000);"
	  "CREATE TABLE phases (id INTEGER PRIMARY KEY," OWNER " @declared);"
	  "CREATE INDEX phases_by_attempt ON phases (attempt, entered_wall_ns);"
	  "CREATE INDEX phases_open ON phases (attempt, pid) WHERE left_wall_ns IS NULL;",
	  { { "", &phase_columns } } },
};

/* Into an empty database, in a transaction where there is one. */
static bool make_tables(sqlite3 *db)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		statement_row_write(&tables[i], &sql);
	return buf_error(&sql) == 0 && sqlite3_exec(db, sql.data, NULL, NULL, NULL) == SQLITE_OK;
}

static int run_sql(struct store *store, const char *sql, struct err *err)
{
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : store_failure(store, err);
}

/* Whose database it is. */
struct identity {
	int64_t id, layout, n_tables;
};

static int read_identity(struct store *store, struct identity *ret, struct err *err)
{
	int r = query_read_number(store, STATEMENT_APPLICATION_ID, 0, &ret->id, err);

	if (r >= 0)
		r = query_read_number(store, STATEMENT_USER_VERSION, 0, &ret->layout, err);
	if (r >= 0 && ret->layout == 0)
		r = query_read_number(store, STATEMENT_COUNT_TABLES, 0, &ret->n_tables, err);
	return r < 0 ? r : 0;
}

static bool is_foreign(const struct identity *identity)
{
	if (identity->id == 0 && identity->layout == 0)
		return identity->n_tables > 0; /* without tables it is not used yet */
	return identity->id != APPLICATION_ID || identity->layout < 1;
}

int layout_check(struct store *store, bool *ret_is_empty, struct err *err)
{
	static const char move_it[] =
		"move it away with its -wal and -shm, or set PROCTOR_HOME to another folder";
	struct identity identity = { 0 };
	int r = read_identity(store, &identity, err);

	/* Half of it may be from before another proctor made the file, and half from after. */
	if (r == 0 && is_foreign(&identity))
		r = read_identity(store, &identity, err);
	if (r < 0)
		return r;
	if (is_foreign(&identity))
		return err_set(err, -EMEDIUMTYPE, "%s is the database of another program: %s",
			       store->path, store->is_borrowed ? "open one of proctor's" : move_it);
	if (identity.layout != 0 && identity.layout != LAYOUT)
		return err_set(err, -EPROTO,
			       "the database %s has layout %d, and this proctor needs layout %d: "
			       "%s",
			       store->path, (int)identity.layout, LAYOUT,
			       store->is_borrowed ? "load the extension of the proctor that made it"
						  : move_it);
	*ret_is_empty = identity.layout == 0;
	return 0;
}

/* Tables and views with each of their columns, indexes and triggers. */
#define PARTS                                                                       \
	" FROM sqlite_schema m LEFT JOIN pragma_table_xinfo(m.name) c ON m.type IN" \
	" ('table', 'view') "
#define LIST_PARTS "SELECT m.type, m.name, c.name" PARTS "WHERE m.name NOT LIKE 'sqlite_%'"
#define FIND_PART "SELECT 1" PARTS "WHERE m.type = ?1 AND m.name = ?2 AND c.name IS ?3"

static void close_db(sqlite3 **db)
{
	sqlite3_close(*db);
}

int layout_check_tables(struct store *store, struct err *err)
{
	CLEANUP(close_db) sqlite3 *model = NULL;
	CLEANUP(statement_finalize) sqlite3_stmt *parts = NULL, *find = NULL;

	if (sqlite3_open(":memory:", &model) != SQLITE_OK || !make_tables(model) ||
	    sqlite3_prepare_v2(model, LIST_PARTS, -1, &parts, NULL) != SQLITE_OK)
		return store_no_memory(store, err);
	if (sqlite3_prepare_v2(store->db, FIND_PART, -1, &find, NULL) != SQLITE_OK)
		return store_failure(store, err);
	while (sqlite3_step(parts) == SQLITE_ROW) {
		const char *column = (const char *)sqlite3_column_text(parts, 2);
		int rc;

		sqlite3_reset(find);
		for (int i = 0; i < 3; i++)
			sqlite3_bind_value(find, i + 1, sqlite3_column_value(parts, i));
		rc = sqlite3_step(find);
		if (rc == SQLITE_ROW)
			continue;
		if (rc != SQLITE_DONE)
			return store_failure(store, err);
		return err_set(err, -EBADMSG,
			       "the database %s does not have the tables that it should (the %s "
			       "%s%s%s is not there): " ADVICE_DAMAGED,
			       store->path, sqlite3_column_text(parts, 0),
			       sqlite3_column_text(parts, 1), column ? " with its column " : "",
			       column ? column : "");
	}
	return 0;
}

/*
 * The tables come into the file itself, and the log after them: an empty file with a log beside it
 * is damaged. auto_vacuum has to be set before the first table. Another process may make the tables
 * while this one waits for its transaction.
 */
int layout_create(struct store *store, struct err *err)
{
	bool is_empty = false;
	char stamp[96];
	int r = run_sql(store, "PRAGMA auto_vacuum = INCREMENTAL", err);

	if (r == 0)
		r = run_sql(store, "BEGIN IMMEDIATE", err);
	if (r < 0)
		return r;
	r = layout_check(store, &is_empty, err);
	if (r == 0 && is_empty &&
	    (!make_tables(store->db) || retention_note_clock(store->db) != SQLITE_OK))
		r = store_failure(store, err);
	snprintf(stamp, sizeof(stamp), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		 APPLICATION_ID, LAYOUT);
	if (r == 0 && is_empty) /* it is ours, and of this layout */
		r = run_sql(store, stamp, err);
	if (r == 0)
		r = run_sql(store, "COMMIT", err);
	if (r < 0 && !sqlite3_get_autocommit(store->db))
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
	return r < 0 ? r : journal_set_up(store, err);
}
