/* statements_retain - minutes, and what becomes of what is old. */
#include "base/macros.h"
#include "store/anomalies.h"
#include "store/anomaly_changes.h"
#include "store/learned_columns.h"
#include "store/statement_rows.h"
#include "store/tables.h"

/* Before ?1, and over: one that lasts is of an attempt that runs. */
#define ANOMALY_IS_OLD                                                                       \
	"began_wall_ns < ?1 AND coalesce(ended_wall_ns, 0) < ?1 AND (ended_wall_ns NOT NULL" \
	" OR NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = attempt"                      \
	" AND a.ended_wall_ns IS NULL))"

/* Of rows whose ids are ?1 << 30 | process: those behind the process ?2. */
#define ID_IS_BEHIND "id > (?1 << 30) + ?2 AND id <= (?1 << 30) + 1073741823"

/* How many, and about how many bytes. */
#define COUNT_AND_SIZE(bytes) "SELECT count(*), sum(" bytes ") FROM "

/* A slice of what is to go; which may order them. */
#define DELETE_SOME(table, which) \
	"DELETE FROM " table " WHERE id IN (SELECT id FROM " table " WHERE " which " LIMIT ?2)"

/* The same of one attempt; the newest row stays, so that no row ever gets the id of another. */
#define DELETE_SOME_OF_ATTEMPT(table) \
	DELETE_SOME(table, "attempt = ?1 AND id < (SELECT max(id) FROM " table ")")

static const struct statement_row rows[] = {
	{
		.id = STATEMENT_PROCESSES_OF_JOB,
		"SELECT p.id FROM attempts a CROSS JOIN processes p ON p.attempt = a.id"
		" WHERE (?1 = 0 OR p.pid = ?1) AND a.job = ?2 ORDER BY p.id",
	},
	{ .id = STATEMENT_PROCESSES_OF_PID, "SELECT id FROM processes WHERE pid = ? ORDER BY id" },
	/* The first time from ?1 on at which there may be something. */
	{
		.id = STATEMENT_NEXT_RECORDED,
		"SELECT min(ns) FROM (SELECT max((min(id) >> 30) * 3600000000000, ?1) AS ns"
		" FROM rollups WHERE id >= (?1 / 3600000000000) << 30"
		" UNION ALL SELECT min(max(first_ns, ?1)) FROM folds WHERE last_ns >= ?1"
		" UNION ALL SELECT min(wall_ns) FROM ticks WHERE wall_ns >= ?1)",
	},
	/* The same, and the last time up to ?1. */
	{
		.id = STATEMENT_PREVIOUS_RECORDED,
		"SELECT max(ns) FROM (SELECT min(((max(id) >> 30) + 1) * 3600000000000 - 1, ?1) AS ns"
		" FROM rollups WHERE id < (?1 / 3600000000000 + 1) << 30"
		" UNION ALL SELECT max(min(last_ns, ?1)) FROM folds WHERE first_ns <= ?1"
		" UNION ALL SELECT max(wall_ns) FROM ticks WHERE wall_ns <= ?1)",
	},
	/* The hour that has some, this one or the next. */
	{ .id = STATEMENT_NEXT_HOUR, "SELECT min(id) >> 30 FROM rollups WHERE id >= ?1 << 30" },
	{
		.id = STATEMENT_PREVIOUS_HOUR,
		"SELECT max(id) >> 30 FROM rollups WHERE id < (?1 + 1) << 30",
	},
	{
		.id = STATEMENT_READ_ROLLUPS,
		"SELECT process, data, seal FROM rollups WHERE " ID_IS_BEHIND " ORDER BY id",
	},
	{
		.id = STATEMENT_MINUTE_FOLDS,
		"SELECT id, recorder, first_ns, last_ns, n_ticks, rolled_to, data, seal FROM folds"
		" WHERE id IN (SELECT f.id FROM folds f WHERE f.last_ns >= ?1 AND f.first_ns <= ?2"
		" AND (?3 = 0 OR f.id IN (SELECT o.fold FROM attempts a JOIN points o"
		" ON o.attempt = a.id WHERE a.job = ?3))) ORDER BY id",
	},
	/* ?2: of processes behind this one. */
	{
		.id = STATEMENT_READ_CHUNKS_OF_FOLD,
		"SELECT process, data, seal FROM chunks WHERE " ID_IS_BEHIND " ORDER BY id",
	},

	{
		.id = STATEMENT_LEFT_RECORDER,
		"SELECT recorder FROM ticks WHERE recorder > ?2 GROUP BY recorder"
		" HAVING max(wall_ns) < ?1 OR EXISTS (SELECT 1 FROM attempts a"
		" WHERE a.id = recorder AND a.ended_wall_ns IS NOT NULL)"
		" ORDER BY recorder LIMIT 1",
	},
	{ .id = STATEMENT_COUNT_OLD_FOLDS, "SELECT count(*) FROM folds WHERE last_ns < ?" },
	{
		.id = STATEMENT_SIZE_OLD_FOLDS,
		COUNT_AND_SIZE("length(data)") "folds WHERE last_ns < ?",
	},
	{
		.id = STATEMENT_SIZE_OLD_ROLLUPS,
		COUNT_AND_SIZE("length(data)") "rollups WHERE id < ?",
	},
	{
		.id = STATEMENT_SIZE_OLD_POINTS,
		COUNT_AND_SIZE("length(data)") "points WHERE NOT is_thin AND last_ns < ?",
	},
	{
		.id = STATEMENT_SIZE_OLD_EVENTS,
		COUNT_AND_SIZE("length(details) + 64") "events WHERE wall_ns < ?",
	},
	/* The next ?3 behind the one of ?1 and ?2. */
	{
		.id = STATEMENT_NEXT_EVENTS,
		"SELECT wall_ns, id FROM events WHERE (wall_ns, id) > (?1, ?2)"
		" ORDER BY wall_ns, id LIMIT ?3",
	},
	/* About: with its indices one takes some 100 bytes and its details, of which the newest are
	 * like the others. */
	{
		.id = STATEMENT_SIZE_OF_EVENT,
		"SELECT CAST(100 + coalesce(avg(length(details)), 0) AS INTEGER)"
		" FROM events WHERE id > (SELECT max(id) FROM events) - 100",
	},
	{
		.id = STATEMENT_SIZE_OLD_ANOMALIES,
		COUNT_AND_SIZE(
			"length(description) + length(host) + 256") "anomalies WHERE " ANOMALY_IS_OLD,
	},
	{
		.id = STATEMENT_OLD_CHUNKS,
		"SELECT c.id, c.data, c.seal FROM folds f CROSS JOIN chunks c"
		" ON c.id > (f.id << 30) + f.rolled_to"
		" AND c.id <= (f.id << 30) + 1073741823 WHERE f.last_ns < ?",
	},
	/* What nobody reads, as its owner is not there. 1: which may be as it should, if it is
	 * whole: that of a process goes with its age. */
	{
		.id = STATEMENT_STRAYS,
		"SELECT ?1, c.id, f.id IS NOT NULL, c.data, c.seal FROM chunks c"
		" LEFT JOIN folds f ON f.id = c.fold LEFT JOIN processes p ON p.id = c.process"
		" WHERE f.id IS NULL OR p.id IS NULL"
		" UNION ALL SELECT ?2, id, 1, data, seal FROM rollups WHERE NOT EXISTS"
		" (SELECT 1 FROM processes p WHERE p.id = process)"
		" OR hour > 9223372036854775807 / 3600000000000" /* no time is as late */
		" UNION ALL SELECT ?3, fold, 0, data, seal FROM points WHERE NOT EXISTS"
		" (SELECT 1 FROM attempts a WHERE a.id = attempt)",
	},
	/* What was begun is brought to its end, however old it is. */
	{
		.id = STATEMENT_OLDEST_FOLD,
		"SELECT recorder, first_ns FROM folds WHERE last_ns < ? OR rolled_to > 0"
		" ORDER BY first_ns LIMIT 1",
	},
	/* ?1, ?2: they begin from when till when. ?3: they end before. ?4: of whom. ?5: how many.
	 */
	{
		.id = STATEMENT_FOLDS_OF_HOUR,
		"SELECT id, rolled_to, data, seal FROM folds WHERE id IN"
		" (SELECT id FROM folds INDEXED BY folds_by_time WHERE first_ns BETWEEN ?1 AND ?2"
		" AND (last_ns < ?3 OR rolled_to > 0) AND recorder = ?4"
		" ORDER BY id LIMIT ?5) ORDER BY id",
	},
	{ .id = STATEMENT_MARK_FOLD, "UPDATE folds SET rolled_to = ?2 WHERE id = ?1" },
	{ .id = STATEMENT_DROP_FOLD, "DELETE FROM folds WHERE id = ?" },
	{
		.id = STATEMENT_NEXT_CHUNK,
		"SELECT process FROM chunks WHERE " ID_IS_BEHIND " ORDER BY id LIMIT 1",
	},
	{ .id = STATEMENT_READ_CHUNK, "SELECT data, seal FROM chunks WHERE id = ?" },
	{
		.id = STATEMENT_DROP_CHUNKS,
		DELETE_SOME("chunks",
			    "id BETWEEN ?1 << 30 AND (?1 << 30) + 1073741823 ORDER BY id"),
	},
	{ .id = STATEMENT_READ_FOLD, "SELECT data, seal FROM folds WHERE id = ?" },
	{ .id = STATEMENT_READ_ROLLUP, "SELECT data, seal FROM rollups WHERE id = ?" },
	{ .id = STATEMENT_PUT_ROLLUP,
	  "INSERT OR REPLACE INTO rollups (id, data, seal) VALUES (?, ?, ?)" },
	{
		.id = STATEMENT_DROP_ROLLUPS,
		DELETE_SOME("rollups", "id < ?1 ORDER BY id") " RETURNING 0",
	},
	/* Whether the end of its attempt has told of a process. */
	{
		.id = STATEMENT_FIND_OWNER,
		"SELECT a.ended_wall_ns IS NOT NULL AND NOT " IS_UNACCOUNTED " FROM processes p"
		" JOIN attempts a ON a.id = p.attempt WHERE p.id = ?",
	},
	{
		.id = STATEMENT_RAISE_PROCESS,
		"UPDATE processes SET @raised, is_raised = 1,"
		" n_samples = coalesce(processes.n_samples, 0) + new.n"
		" FROM (SELECT @named, ? AS n) AS new WHERE id = ?",
		{ { "", &process_total_columns } },
	},
	/* With whether its attempt has an end. A fold is found by its points: they outlive it. */
	{
		.id = STATEMENT_OLDEST_POINTS,
		"SELECT o.attempt, o.fold, o.last_ns, a.ended_wall_ns IS NOT NULL, o.data, o.seal"
		" FROM points o CROSS JOIN attempts a ON a.id = o.attempt"
		" WHERE NOT o.is_thin AND o.last_ns < ?"
		" AND NOT EXISTS (SELECT 1 FROM folds f WHERE f.id = o.fold)"
		" ORDER BY o.last_ns LIMIT 1",
	},
	{ .id = STATEMENT_DROP_POINTS, "DELETE FROM points WHERE attempt = ? AND fold = ?" },
	{
		.id = STATEMENT_THIN_POINTS,
		"UPDATE points SET data = ?, seal = ?, is_thin = 1 WHERE attempt = ? AND fold = ?",
	},
	{
		.id = STATEMENT_DROP_EVENTS,
		DELETE_SOME("events", "wall_ns < ?1 ORDER BY wall_ns") " RETURNING wall_ns",
	},
	{
		.id = STATEMENT_DROP_ANOMALIES,
		DELETE_SOME("anomalies",
			    ANOMALY_IS_OLD " ORDER BY began_wall_ns") " RETURNING began_wall_ns",
	},
	{
		.id = STATEMENT_DROP_OVER_ANOMALIES,
		DELETE_SOME(
			"anomalies",
			"began_wall_ns < ?1 AND ended_wall_ns NOT NULL ORDER BY began_wall_ns") " RETURNING began_wall_ns",
	},
	/* The key stays, so that nobody looks for them again. */
	{
		.id = STATEMENT_DROP_SECONDS,
		"UPDATE anomalies SET evidence = json_set(evidence, '$.seconds', NULL) WHERE id IN"
		" (SELECT id FROM anomalies WHERE began_wall_ns < ?1"
		" AND instr(evidence, '\"seconds\":{') > 0 AND json_valid(evidence)"
		" ORDER BY began_wall_ns LIMIT ?2) RETURNING 0",
	},
	{ .id = STATEMENT_DROP_PHASES, DELETE_SOME_OF_ATTEMPT("phases") },
	/* The newest of each stays, so that no row ever gets the id of another. */
	{
		.id = STATEMENT_NEXT_ATTEMPT,
		"SELECT id FROM attempts WHERE id > ? AND id < (SELECT max(id) FROM attempts)"
		" ORDER BY id",
	},
	{
		.id = STATEMENT_FIND_ATTEMPT_ROW,
		ATTEMPT_SELECT "WHERE a.id = ?",
		ATTEMPT_PARTS,
	},
	{
		.id = STATEMENT_FIND_SUBMISSION,
		ATTEMPT_SELECT "WHERE a.submission = ?1 AND a.uid = ?2 ORDER BY a.id DESC",
		ATTEMPT_PARTS,
	},
	{ .id = STATEMENT_DROP_PROCESSES, DELETE_SOME_OF_ATTEMPT("processes") },
	{
		.id = STATEMENT_NOTE_UNKNOWN,
		"INSERT INTO unknowns (attempt, what, why) SELECT ?1, ?2, ?3 WHERE NOT EXISTS"
		" (SELECT 1 FROM unknowns WHERE attempt = ?1 AND what = ?2 AND why = ?3)",
	},
	{
		.id = STATEMENT_DROP_ATTEMPT,
		"DELETE FROM attempts WHERE id = ?1 AND NOT EXISTS"
		" (SELECT 1 FROM processes WHERE attempt = ?1) RETURNING job",
	},
	{
		.id = STATEMENT_DROP_JOB,
		"DELETE FROM jobs WHERE id = ?1 AND NOT EXISTS"
		" (SELECT 1 FROM attempts WHERE job = ?1)",
	},
	/* ?2: now. ?3, ?4: the latest that is due, and what others find until it is done. */
	{ .id = STATEMENT_READ_META, "SELECT value FROM meta WHERE key = ?" },
	{ .id = STATEMENT_WRITE_META, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)" },
	{
		.id = STATEMENT_RAISE_META,
		"INSERT INTO meta (key, value) VALUES (?, ?)"
		" ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
	},
	{ .id = STATEMENT_DATA_VERSION, "PRAGMA data_version" },
	{ .id = STATEMENT_SYNCHRONOUS, "PRAGMA synchronous" },
	{ .id = STATEMENT_PAGE_SIZE, "PRAGMA page_size" },
	{ .id = STATEMENT_PAGE_COUNT, "PRAGMA page_count" },
	{ .id = STATEMENT_FREE_COUNT, "PRAGMA freelist_count" },
};

const struct statement_table statements_retention = { rows, ARRAY_SIZE(rows) };
