/* statements_write - what is written. */
#include "base/macros.h"
#include "store/anomalies.h"
#include "store/anomaly_changes.h"
#include "store/learned_columns.h"
#include "store/statement_rows.h"
#include "store/tables.h"

/* What a note is about that no run brings, and none replaces. */
#define DAMAGE "damaged ticks"

static const struct statement_row rows[] = {
	{ .id = STATEMENT_BEGIN_READ, "BEGIN" },
	{ .id = STATEMENT_BEGIN_WRITE, "BEGIN IMMEDIATE" },
	{ .id = STATEMENT_COMMIT, "COMMIT" },
	{ .id = STATEMENT_ROLLBACK, "ROLLBACK" },

	{ .id = STATEMENT_FIND_JOB, "SELECT id FROM jobs WHERE job_id = ?" },
	{ .id = STATEMENT_ADD_JOB, "INSERT INTO jobs (job_id) VALUES (?)" },
	{ .id = STATEMENT_FIND_BOOT, "SELECT id FROM boots WHERE boot_id = ?" },
	{ .id = STATEMENT_ADD_BOOT, "INSERT INTO boots (boot_id) VALUES (?)" },
	{
		.id = STATEMENT_ADD_ATTEMPT,
		"INSERT INTO attempts (job, boot, attempt_num, @names) VALUES (?1, ?2,"
		" (SELECT coalesce(max(attempt_num), 0) + 1 FROM attempts WHERE job = ?1), @values)"
		" RETURNING id, attempt_num",
		{ { "", &attempt_begin_columns }, { "", &attempt_progress_columns } },
	},
	/* The attempt that this runner began then, and whether it has an end. */
	{ .id = STATEMENT_HAS_ATTEMPT, "SELECT 1 FROM attempts WHERE id = ?" },
	{
		.id = STATEMENT_FIND_RUN,
		"SELECT id, ended_wall_ns IS NOT NULL FROM attempts WHERE job = ? AND boot IS ?"
		" AND runner_pid IS ? AND runner_start_ticks IS ? AND started_wall_ns IS ?",
	},
	{
		.id = STATEMENT_ADD_DAEMON,
		"INSERT INTO daemons (boot, @names) VALUES (?, @values)",
		{ { "", &daemon_columns } },
	},
	/* Of the host and of who is left of a job, by a daemon before: it lasted until it was last
	 * seen, and nobody knows for how long. Orphans of this boot (?2) may live: who looks for
	 * them goes on. */
	{
		.id = STATEMENT_END_HOST_ANOMALIES,
		"UPDATE anomalies SET ended_wall_ns = max(began_wall_ns, coalesce(peak_wall_ns, 0),"
		" coalesce(seen_wall_ns, 0)), why_cleared = '" EPISODE_UNSEEN "'"
		" WHERE ended_wall_ns IS NULL AND CASE WHEN attempt IS NULL THEN ?1 - 60000000000 > max("
		"coalesce((SELECT wall_ns FROM ticks ORDER BY id DESC LIMIT 1), 0),"
		" coalesce((SELECT last_ns FROM folds ORDER BY id DESC LIMIT 1), 0))"
		" WHEN type = 'orphan' THEN"
		" (SELECT coalesce(a.boot, 0) <> ?2 FROM attempts a WHERE a.id = attempt)"
		" ELSE began_wall_ns > (SELECT a.ended_wall_ns FROM attempts a WHERE a.id = attempt) END",
	},
	{ .id = STATEMENT_END_DAEMON, "UPDATE daemons SET stopped_wall_ns = ? WHERE id = ?" },
	{
		.id = STATEMENT_SET_PROGRESS,
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &attempt_progress_columns } },
	},
	{
		.id = STATEMENT_SET_END,
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &attempt_progress_columns },
		  { "", &attempt_end_columns },
		  { "", &usage_columns } },
	},
	{
		.id = STATEMENT_PUT_SHEET,
		"INSERT OR REPLACE INTO sheets (attempt, @names) VALUES (?, @values)",
		{ { "", &sheet_columns }, { "", &usage_columns } },
	},
	{
		.id = STATEMENT_DROP_RANKS,
		"DELETE FROM ranks WHERE attempt = ? AND sheet_num = ? AND try_num = ?",
	},
	{
		.id = STATEMENT_ADD_RANK,
		"INSERT INTO ranks (attempt, sheet_num, try_num, @names) VALUES (?, ?, ?, @values)",
		{ { "", &rank_columns } },
	},
	/* Ids go up for ever: a fold has that of its newest tick. */
	{
		.id = STATEMENT_ADD_TICK,
		"INSERT INTO ticks (id, recorder, wall_ns, data, seal) VALUES ("
		"max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0),"
		" coalesce((SELECT value FROM meta WHERE key = 'last_tick'), 0)) + 1, ?, ?, ?, ?)",
	},
	{ .id = STATEMENT_FIND_TICK, "SELECT recorder FROM ticks WHERE id = ?" },
	{ .id = STATEMENT_HAS_TICK, "SELECT 1 FROM ticks WHERE id = ? AND recorder = ?" },
	{ .id = STATEMENT_NEWEST_TICK,
	  "SELECT coalesce(max(id), 0) FROM ticks WHERE recorder = ?" },
	{ .id = STATEMENT_COUNT_TICKS, "SELECT count(*) FROM ticks WHERE recorder = ?" },
	{
		.id = STATEMENT_OLDEST_TICKS,
		"SELECT id, wall_ns, CASE WHEN length(data) <= ?5 THEN data END, seal FROM ticks"
		" WHERE recorder = ?1 AND id > ?2 AND id <= ?3"
		" ORDER BY id LIMIT ?4",
	},
	{ .id = STATEMENT_DROP_TICKS, "DELETE FROM ticks WHERE recorder = ? AND id <= ?" },
	{
		.id = STATEMENT_ADD_FOLD,
		"INSERT INTO folds (id, recorder, first_ns, last_ns, n_ticks, data, seal)"
		" VALUES (?, ?, ?, ?, ?, ?, ?)",
	},
	{ .id = STATEMENT_ADD_CHUNK, "INSERT INTO chunks (id, data, seal) VALUES (?, ?, ?)" },
	{
		.id = STATEMENT_ADD_POINTS,
		"INSERT INTO points (attempt, fold, last_ns, data, seal) SELECT ?1, ?2, ?3, ?4, ?5"
		" WHERE EXISTS (SELECT 1 FROM attempts WHERE id = ?1)", /* it may be removed by now
									 */
	},
	{
		.id = STATEMENT_NOTE_DAMAGE,
		"INSERT INTO unknowns (attempt, what, why) SELECT id, '" DAMAGE "', ?2"
		" FROM attempts WHERE id = ?1",
	},
	/* What an older sample knew and this one does not (a zombie has no cgroup) is kept. */
	{
		.id = STATEMENT_SEE_PROCESS,
		"INSERT INTO processes (attempt, boot, @names)"
		" VALUES (?1, (SELECT boot FROM attempts WHERE id = ?1), @values)"
		" ON CONFLICT (attempt, pid, start_ticks) DO UPDATE SET @merged RETURNING id",
		{ { "", &sample_process_columns }, { "", &sample_shared_columns } },
	},
	/*
	 * When the one started that samples have shown, as they are told by another. A number comes
	 * round again in a second on no host, and clocks differ by less.
	 */
	{
		.id = STATEMENT_FIND_SAMPLED,
		"SELECT start_ticks FROM processes WHERE attempt = ?1 AND pid = ?2"
		" AND start_ticks IS NOT NULL AND " IS_UNACCOUNTED
		" AND abs(coalesce(born_wall_ns, start_wall_ns) - ?3) < 1000000000 LIMIT 1",
	},
	{
		.id = STATEMENT_PUT_PROCESS,
		"INSERT INTO processes (attempt, boot, @names)"
		" VALUES (?1, (SELECT boot FROM attempts WHERE id = ?1), @values)"
		" ON CONFLICT (attempt, pid, start_ticks) DO UPDATE SET @merged, is_raised = 0",
		{ { "", &process_columns } },
	},
	/* The kernel tells a daemon of an OOM kill, and its runner guesses it: it is one. A pid
	 * that is killed again much later is another process. */
	{
		.id = STATEMENT_ADD_EVENT,
		"INSERT INTO events (attempt, @names) SELECT ?1, @values"
		" WHERE ?5 <> 'oom' OR NOT EXISTS (SELECT 1 FROM events"
		" WHERE attempt = ?1 AND pid = ?3 AND type = 'oom'"
		" AND abs(wall_ns - ?2) < 10000000000)",
		{ { "", &event_columns } },
	},
	/* Whom an attempt has left, which is known of each process once. */
	{
		.id = STATEMENT_MERGE_LEFT,
		"INSERT INTO events (attempt, @names) SELECT ?1, @values"
		" WHERE NOT EXISTS (SELECT 1 FROM events"
		" WHERE attempt = ?1 AND pid IS ?3 AND start_ticks IS ?4 AND type = ?5)",
		{ { "", &event_columns } },
	},
	{
		.id = STATEMENT_SET_CLOCK,
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &clock_columns } },
	},
	{ .id = STATEMENT_DROP_RUNGS, "DELETE FROM rungs WHERE attempt = ?" },
	{
		.id = STATEMENT_ADD_RUNG,
		"INSERT INTO rungs (attempt, @names) VALUES (?, @values)",
		{ { "", &rung_columns } },
	},
	{
		.id = STATEMENT_MERGE_RUNG,
		"INSERT INTO rungs (attempt, @names) SELECT ?1, @values"
		" EXCEPT SELECT attempt, @names FROM rungs WHERE attempt = ?1",
		{ { "", &rung_columns } },
	},
	{
		.id = STATEMENT_DROP_UNKNOWNS,
		"DELETE FROM unknowns WHERE attempt = ? AND what <> '" DAMAGE "'",
	},
	{
		.id = STATEMENT_ADD_UNKNOWN,
		"INSERT INTO unknowns (attempt, @names) VALUES (?, @values)",
		{ { "", &unknown_columns } },
	},
	{
		.id = STATEMENT_MERGE_UNKNOWN,
		"INSERT INTO unknowns (attempt, @names) SELECT ?1, @values"
		" EXCEPT SELECT attempt, @names FROM unknowns WHERE attempt = ?1",
		{ { "", &unknown_columns } },
	},
	/* Evidence is noted when it begins; what is written later has none. */
	{
		.id = STATEMENT_PUT_ANOMALY,
		"INSERT INTO anomalies (attempt, @names) VALUES (nullif(?, 0), @values)"
		" ON CONFLICT (episode) DO UPDATE SET @merged, before_value = excluded.before_value,"
		" after_value = excluded.after_value, seconds_to_limit = excluded.seconds_to_limit",
		{ { "", &anomaly_columns } },
	},
	/* ?1: its name. ?2, ?3: those of the same fault are from here to there. ?4: the attempt, or
	 * 0. ?5, ?6: from when to when it lasted. A process is killed once: by its pid (?7), where
	 * not all know when it began (?8), and within half a minute, after which the pid may be
	 * another's. Who ends one of nobody known, without a row of its own, has told it as that
	 * of another, which may be over by now. */
	{
		.id = STATEMENT_FIND_KNOWN_ANOMALY,
		"SELECT id, episode, began_wall_ns, ended_wall_ns, @names FROM anomalies WHERE id IN ("
		"SELECT id FROM anomalies"
		" WHERE episode >= ?2 AND episode < ?3 AND (episode = ?1"
		" OR (attempt IS nullif(?4, 0) AND ((began_wall_ns <= ?6"
		" AND (ended_wall_ns IS NULL OR ended_wall_ns > ?5))"
		" OR (type = 'oom_kill' AND (start_ticks NOT NULL OR (?6 < 9223372036854775807"
		" AND began_wall_ns BETWEEN ?5 - 30000000000 AND ?5 + 30000000000))))))"
		" UNION ALL SELECT id FROM anomalies"
		" WHERE attempt = ?4 AND began_wall_ns BETWEEN ?5 - 30000000000 AND ?5 + 30000000000"
		" AND type = 'oom_kill' AND pid = ?7 AND (start_ticks IS NULL OR ?8 IS NULL))"
		" ORDER BY episode = ?1 DESC, began_wall_ns DESC LIMIT 1",
		{ { "", &anomaly_known_columns } },
	},
	/* Attempts without an end; 0 is a daemon that has not said that it stops. */
	{
		.id = STATEMENT_LIST_WATCHERS,
		"SELECT id FROM attempts WHERE ended_wall_ns IS NULL",
	},
	/* If it has not said that it stops; its boot, and when anybody was last seen to look. */
	{
		.id = STATEMENT_LAST_DAEMON,
		"SELECT coalesce((SELECT boot_id FROM boots b WHERE b.id = d.boot), ''),"
		" max(coalesce(d.started_wall_ns, 0),"
		" coalesce((SELECT wall_ns FROM ticks ORDER BY id DESC LIMIT 1), 0),"
		" coalesce((SELECT last_ns FROM folds ORDER BY id DESC LIMIT 1), 0)), @names"
		" FROM daemons d WHERE d.id = (SELECT max(id) FROM daemons)"
		" AND d.stopped_wall_ns IS NULL",
		{ { "d.", &daemon_columns } },
	},
	{
		.id = STATEMENT_SHARE_ANOMALY,
		"UPDATE anomalies SET ended_wall_ns = CASE WHEN ?2 IS NULL THEN ended_wall_ns"
		" ELSE max(?2, coalesce(ended_wall_ns, 0)) END,"
		" why_cleared = coalesce(?3, why_cleared), @sets WHERE id = ?1",
		{ { "", &anomaly_shared_columns } },
	},
	{
		.id = STATEMENT_ADD_ANOMALY_CHANGE,
		"INSERT INTO anomaly_changes (anomaly, @names)"
		" WITH of (episode) AS (VALUES (?1))"
		" SELECT n.id, @values FROM of CROSS JOIN anomalies n ON n.episode = of.episode"
		" WHERE (SELECT count(*) FROM anomaly_changes c WHERE c.anomaly = n.id) < ?7",
		{ { "", &anomaly_change_columns } },
	},
	{
		.id = STATEMENT_DROP_ANOMALY_CLEARED,
		"DELETE FROM anomaly_changes WHERE change = 'cleared'"
		" AND anomaly = (SELECT id FROM anomalies WHERE episode = ?)",
	},
	{
		.id = STATEMENT_READ_ANOMALY_CHANGES,
		"SELECT @names FROM anomaly_changes WHERE anomaly = ? ORDER BY wall_ns, id",
		{ { "", &anomaly_change_columns } },
	},
	{
		.id = STATEMENT_SET_EVIDENCE,
		"UPDATE anomalies SET evidence = ?2 WHERE episode = ?1",
	},
	/* The next one behind ?1, ?2, and whether it lacks its seconds and is complete (?3). In a
	 * JSON text no string has the key so. */
	{
		.id = STATEMENT_NEXT_ANOMALY,
		"SELECT began_wall_ns, id, full_until_wall_ns < ?3 AND full_from_wall_ns NOT NULL"
		" AND pid NOT NULL AND start_ticks NOT NULL"
		" AND (evidence IS NULL OR instr(evidence, '\"seconds\":') = 0) IS TRUE,"
		" pid, start_ticks, full_from_wall_ns, full_until_wall_ns, evidence"
		" FROM anomalies WHERE (began_wall_ns, id) > (?1, ?2)"
		" ORDER BY began_wall_ns, id LIMIT 1",
	},
	{
		.id = STATEMENT_KEEP_SECONDS,
		"UPDATE anomalies SET evidence = ?2 WHERE id = ?1 AND evidence IS ?3",
	},
	{
		.id = STATEMENT_COUNT_PATTERN,
		"INSERT INTO patterns (type, name, tags, description, occurrences, first_wall_ns,"
		" last_wall_ns) VALUES ('RESOURCE_ANOMALY', ?1, ?2, ?3, 1, ?4, ?4)"
		" ON CONFLICT (type, name) DO UPDATE SET occurrences = occurrences + 1,"
		" tags = excluded.tags, description = excluded.description,"
		" last_wall_ns = max(last_wall_ns, excluded.last_wall_ns)",
	},
	{
		.id = STATEMENT_RENEW_PATTERN,
		"UPDATE patterns SET tags = ?2, description = ?3"
		" WHERE type = 'RESOURCE_ANOMALY' AND name = ?1",
	},
	/* The name of the job of the attempt ?2, and those it was seen in; none has a line feed. */
	{
		.id = STATEMENT_READ_PATTERN_JOBS,
		"SELECT jobs.job_id, p.jobs FROM patterns p CROSS JOIN attempts a ON a.id = ?2"
		" CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE p.type = 'RESOURCE_ANOMALY' AND p.name = ?1",
	},
	/* Whether an episode other than ?3 is of the job of the attempt ?2. */
	{
		.id = STATEMENT_HAS_PATTERN_JOB,
		"SELECT 1 FROM anomalies n CROSS JOIN attempts a ON a.id = n.attempt"
		" WHERE n.pattern = ?1 AND n.episode <> ?3"
		" AND a.job = (SELECT job FROM attempts WHERE id = ?2) LIMIT 1",
	},
	{
		.id = STATEMENT_SET_PATTERN_JOBS,
		"UPDATE patterns SET jobs = ?2, n_jobs = coalesce(n_jobs, 0) + ?3"
		" WHERE type = 'RESOURCE_ANOMALY' AND name = ?1",
	},
};

const struct statement_table statements_writing = { rows, ARRAY_SIZE(rows) };
