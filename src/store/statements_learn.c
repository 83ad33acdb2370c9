/* statements_learn - what is made of what was recorded. */
#include "base/macros.h"
#include "store/anomalies.h"
#include "store/anomaly_changes.h"
#include "store/learned_columns.h"
#include "store/statement_rows.h"
#include "store/tables.h"

#define RUN_SELECT                                                      \
	"SELECT @names FROM runs r JOIN attempts a ON a.id = r.attempt" \
	" JOIN jobs ON jobs.id = a.job "

/* clang-format off */
#define NEWEST_RUNS(limit) \
	" ORDER BY r.ended_wall_ns DESC, r.attempt DESC, r.sheet_num DESC LIMIT " limit

/* The newest ?4 of a class that ended by ?2, of the user ?3; NULL: of all. */
#define RUNS_OF_KIND(class) \
	" WHERE r." class " = ?1 AND r.ended_wall_ns <= ?2" \
	" AND (?3 IS NULL OR a.uid = ?3)" NEWEST_RUNS("?4")

#define RUNS_BY(class) \
	RUN_SELECT RUNS_OF_KIND(class), { { "", &run_owner_columns }, { "r.", &run_columns } }

#define CALIBRATION_BY(class) \
		"SELECT count(is_peak_covered), coalesce(sum(is_peak_covered), 0)," \
		" count(is_cpu_covered), coalesce(sum(is_cpu_covered), 0)," \
		" avg(CASE WHEN is_peak_covered IS NOT NULL THEN e.peak_coverage END)" \
		" FROM (SELECT r.attempt, r.sheet_num FROM runs r JOIN attempts a" \
		" ON a.id = r.attempt" RUNS_OF_KIND(class) ") r" \
		" JOIN estimates e ON e.attempt = r.attempt AND e.sheet_num = r.sheet_num" \
		" JOIN scores s ON s.estimate = e.id"
/* clang-format on */

static const struct statement_row rows[] = {
	{
		.id = STATEMENT_NEXT_UNNOTED,
		"SELECT a.id, job_id, attempt_num, ended_wall_ns FROM attempts a"
		" JOIN jobs ON jobs.id = a.job WHERE ended_wall_ns IS NOT NULL"
		" AND NOT EXISTS (SELECT 1 FROM runs WHERE attempt = a.id)"
		" ORDER BY ended_wall_ns, a.id LIMIT ?",
	},
	{
		.id = STATEMENT_PUT_RUN,
		"INSERT OR REPLACE INTO runs (attempt, outcome, @names) VALUES (?, ?, @values)",
		{ { "", &run_columns } },
	},
	{
		.id = STATEMENT_LIST_RUNS,
		RUN_SELECT "WHERE r.ended_wall_ns > ?1 AND r.ended_wall_ns <= ?2" NEWEST_RUNS("?3"),
		{ { "", &run_owner_columns }, { "r.", &run_columns } },
	},
	{
		.id = STATEMENT_RUNS_OF_COMMAND,
		RUN_SELECT "WHERE r.ended_wall_ns > ?1 AND r.ended_wall_ns <= ?2"
			   " AND r.class_command = ?4" NEWEST_RUNS("?3"),
		{ { "", &run_owner_columns }, { "r.", &run_columns } },
	},
	{ .id = STATEMENT_RUNS_BY_EXACT, RUNS_BY("class_exact") },
	{ .id = STATEMENT_RUNS_BY_MASKED, RUNS_BY("class_masked") },
	{ .id = STATEMENT_RUNS_BY_PROGRAM, RUNS_BY("class_program") },
	{
		.id = STATEMENT_ANOMALY_TYPES,
		"SELECT DISTINCT type FROM anomalies WHERE attempt = ?1"
		" AND (?2 = 0 OR sheet_num = ?2) ORDER BY type",
	},
	{
		.id = STATEMENT_PUT_PATTERN,
		"INSERT OR REPLACE INTO patterns (@names) VALUES (@values)",
		{ { "", &pattern_columns } },
	},
	{
		.id = STATEMENT_LIST_PATTERNS,
		"SELECT @names FROM patterns ORDER BY first_wall_ns, type, name",
		{ { "", &pattern_columns } },
	},
	{
		.id = STATEMENT_ADD_ESTIMATE,
		"INSERT OR REPLACE INTO estimates (attempt, sheet_num, made_wall_ns, rung, @names)"
		" VALUES (?, ?, ?, ?, @values)",
		{ { "", &estimate_columns } },
	},
	{
		.id = STATEMENT_ADD_SCORE,
		"INSERT INTO scores (estimate, @names) VALUES (last_insert_rowid(), @values)",
		{ { "", &score_columns } },
	},
	/* ?1: the rung, ?2: the class on it. */
	{ .id = STATEMENT_CALIBRATION_BY_EXACT, CALIBRATION_BY("class_exact") },
	{ .id = STATEMENT_CALIBRATION_BY_MASKED, CALIBRATION_BY("class_masked") },
	{ .id = STATEMENT_CALIBRATION_BY_PROGRAM, CALIBRATION_BY("class_program") },
	{ .id = STATEMENT_SET_OUTCOME, "UPDATE attempts SET outcome = ?, reason = ? WHERE id = ?" },
	/* What was measured stays what it was before the first verdict. */
	{
		.id = STATEMENT_PUT_VERDICT,
		"INSERT INTO verdicts (attempt, outcome, note, uid, wall_ns, measured_outcome,"
		" measured_reason) SELECT id, ?2, ?3, ?4, ?5, outcome, reason FROM attempts"
		" WHERE id = ?1 ON CONFLICT (attempt) DO UPDATE SET outcome = excluded.outcome,"
		" note = excluded.note, uid = excluded.uid, wall_ns = excluded.wall_ns",
	},
	{
		.id = STATEMENT_RESTORE_OUTCOME,
		"UPDATE attempts SET outcome = v.measured_outcome, reason = v.measured_reason"
		" FROM verdicts v WHERE v.attempt = ?1 AND attempts.id = ?1",
	},
	{ .id = STATEMENT_REMOVE_VERDICT, "DELETE FROM verdicts WHERE attempt = ?" },
	{ .id = STATEMENT_MEASURED_OUTCOME,
	  "SELECT measured_outcome FROM verdicts WHERE attempt = ?" },
	{ .id = STATEMENT_VACUUM, "PRAGMA incremental_vacuum(32)" },
	{ .id = STATEMENT_VACUUM_LITTLE, "PRAGMA incremental_vacuum(1)" },
};

const struct statement_table statements_learning = { rows, ARRAY_SIZE(rows) };
