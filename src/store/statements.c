#include "store/statements.h"

#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "store/anomalies.h"
#include "store/anomaly_changes.h"
#include "store/columns.h"
#include "store/tables.h"

/* Columns of a statement, and what stands before their names where it must: "s.". */
struct part {
	const char *prefix;
	const struct columns *columns;
};

/*
 * text, in which for all columns of parts, in their order:
 *	@names   their names
 *	@values  a question mark each
 *	@sets    name = ?
 *	@merged  name = the new value where there is one, else the old
 *	@named   ? AS name
 *	@raised  name = the larger of it and new.name, or the one there is
 */
struct statement_row {
	const char *text;
	struct part parts[5];
};

/* A row of processes that only samples have made: no end of an attempt has told of it. */
#define IS_UNACCOUNTED "(n_samples IS NULL OR is_raised)"

/* A whole attempt, and its columns. */
#define ATTEMPT_SELECT                                               \
	"SELECT @names FROM attempts a JOIN jobs ON jobs.id = a.job" \
	" LEFT JOIN boots ON boots.id = a.boot "
#define ATTEMPT_PARTS                                                                        \
	{                                                                                    \
		{ "", &attempt_name_columns }, { "a.", &attempt_begin_columns },             \
			{ "a.", &attempt_progress_columns }, { "a.", &attempt_end_columns }, \
			{ "a.", &usage_columns },                                            \
	}

/* What a note is about that no run brings, and none replaces. */
#define DAMAGE "damaged ticks"

/* The process that a phase is of: pids are used again, so the last one that was born before, by
 * clocks that are some milliseconds apart. */
#define OF_PHASES_PROCESS(column)                                                          \
	"(SELECT p." column " FROM processes p WHERE p.pid = phases.pid"                   \
	" AND p.attempt = phases.attempt AND coalesce(p.born_wall_ns, p.start_wall_ns, 0)" \
	" <= phases.entered_wall_ns + 100000000"                                           \
	" ORDER BY coalesce(p.born_wall_ns, p.start_wall_ns) DESC LIMIT 1)"

/* A phase ends with its process at the latest, and is of its rank. */
#define PHASES_AS_TOLD                                                                     \
	"(SELECT id, attempt, pid, name, path, entered_wall_ns,"                           \
	" coalesce(rank, " OF_PHASES_PROCESS(                                              \
		"rank") ") AS rank,"                                                       \
			" coalesce(left_wall_ns, max(entered_wall_ns, " OF_PHASES_PROCESS( \
				"died_wall_ns") ")) AS left_wall_ns FROM phases)"

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

/* Each has its row. */
static const struct statement_row rows[STATEMENT_COUNT] = {
	/* ---- what is written ---- */

	[STATEMENT_BEGIN_READ] = { "BEGIN" },
	[STATEMENT_BEGIN_WRITE] = { "BEGIN IMMEDIATE" },
	[STATEMENT_COMMIT] = { "COMMIT" },
	[STATEMENT_ROLLBACK] = { "ROLLBACK" },

	[STATEMENT_FIND_JOB] = { "SELECT id FROM jobs WHERE job_id = ?" },
	[STATEMENT_ADD_JOB] = { "INSERT INTO jobs (job_id) VALUES (?)" },
	[STATEMENT_FIND_BOOT] = { "SELECT id FROM boots WHERE boot_id = ?" },
	[STATEMENT_ADD_BOOT] = { "INSERT INTO boots (boot_id) VALUES (?)" },
	[STATEMENT_ADD_ATTEMPT] = {
		"INSERT INTO attempts (job, boot, attempt_num, @names) VALUES (?1, ?2,"
		" (SELECT coalesce(max(attempt_num), 0) + 1 FROM attempts WHERE job = ?1), @values)"
		" RETURNING id, attempt_num",
		{ { "", &attempt_begin_columns }, { "", &attempt_progress_columns } },
	},
	/* The attempt that this runner began then, and whether it has an end. */
	[STATEMENT_HAS_ATTEMPT] = { "SELECT 1 FROM attempts WHERE id = ?" },
	[STATEMENT_FIND_RUN] = {
		"SELECT id, ended_wall_ns IS NOT NULL FROM attempts WHERE job = ? AND boot IS ?"
		" AND runner_pid IS ? AND runner_start_ticks IS ? AND started_wall_ns IS ?",
	},
	[STATEMENT_ADD_DAEMON] = {
		"INSERT INTO daemons (boot, @names) VALUES (?, @values)",
		{ { "", &daemon_columns } },
	},
	/* Of the host and of who is left of a job, by a daemon before: it lasted until it was last
	 * seen, and nobody knows for how long. Orphans of this boot (?2) may live: who looks for
	 * them goes on. */
	[STATEMENT_END_HOST_ANOMALIES] = {
		"UPDATE anomalies SET ended_wall_ns = max(began_wall_ns, coalesce(peak_wall_ns, 0),"
		" coalesce(seen_wall_ns, 0)), why_cleared = '" EPISODE_UNSEEN "'"
		" WHERE ended_wall_ns IS NULL AND CASE WHEN attempt IS NULL THEN ?1 - 60000000000 > max("
		"coalesce((SELECT wall_ns FROM ticks ORDER BY id DESC LIMIT 1), 0),"
		" coalesce((SELECT last_ns FROM folds ORDER BY id DESC LIMIT 1), 0))"
		" WHEN type = 'orphan' THEN"
		" (SELECT coalesce(a.boot, 0) <> ?2 FROM attempts a WHERE a.id = attempt)"
		" ELSE began_wall_ns > (SELECT a.ended_wall_ns FROM attempts a WHERE a.id = attempt) END",
	},
	[STATEMENT_END_DAEMON] = { "UPDATE daemons SET stopped_wall_ns = ? WHERE id = ?" },
	[STATEMENT_SET_PROGRESS] = {
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &attempt_progress_columns } },
	},
	[STATEMENT_SET_END] = {
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &attempt_progress_columns },
		  { "", &attempt_end_columns },
		  { "", &usage_columns } },
	},
	[STATEMENT_PUT_SHEET] = {
		"INSERT OR REPLACE INTO sheets (attempt, @names) VALUES (?, @values)",
		{ { "", &sheet_columns }, { "", &usage_columns } },
	},
	[STATEMENT_DROP_RANKS] = {
		"DELETE FROM ranks WHERE attempt = ? AND sheet_num = ? AND try_num = ?",
	},
	[STATEMENT_ADD_RANK] = {
		"INSERT INTO ranks (attempt, sheet_num, try_num, @names) VALUES (?, ?, ?, @values)",
		{ { "", &rank_columns } },
	},
	/* Ids go up for ever: a fold has that of its newest tick. */
	[STATEMENT_ADD_TICK] = {
		"INSERT INTO ticks (id, recorder, wall_ns, data, seal) VALUES ("
		"max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0),"
		" coalesce((SELECT value FROM meta WHERE key = 'last_tick'), 0)) + 1, ?, ?, ?, ?)",
	},
	[STATEMENT_FIND_TICK] = { "SELECT recorder FROM ticks WHERE id = ?" },
	[STATEMENT_HAS_TICK] = { "SELECT 1 FROM ticks WHERE id = ? AND recorder = ?" },
	[STATEMENT_NEWEST_TICK] = { "SELECT coalesce(max(id), 0) FROM ticks WHERE recorder = ?" },
	[STATEMENT_COUNT_TICKS] = { "SELECT count(*) FROM ticks WHERE recorder = ?" },
	[STATEMENT_OLDEST_TICKS] = {
		"SELECT id, wall_ns, CASE WHEN length(data) <= ?5 THEN data END, seal FROM ticks"
		" WHERE recorder = ?1 AND id > ?2 AND id <= ?3"
		" ORDER BY id LIMIT ?4",
	},
	[STATEMENT_DROP_TICKS] = { "DELETE FROM ticks WHERE recorder = ? AND id <= ?" },
	[STATEMENT_ADD_FOLD] = {
		"INSERT INTO folds (id, recorder, first_ns, last_ns, n_ticks, data, seal)"
		" VALUES (?, ?, ?, ?, ?, ?, ?)",
	},
	[STATEMENT_ADD_CHUNK] = { "INSERT INTO chunks (id, data, seal) VALUES (?, ?, ?)" },
	[STATEMENT_ADD_POINTS] = {
		"INSERT INTO points (attempt, fold, last_ns, data, seal) SELECT ?1, ?2, ?3, ?4, ?5"
		" WHERE EXISTS (SELECT 1 FROM attempts WHERE id = ?1)", /* it may be removed by now
									 */
	},
	[STATEMENT_NOTE_DAMAGE] = {
		"INSERT INTO unknowns (attempt, what, why) SELECT id, '" DAMAGE "', ?2"
		" FROM attempts WHERE id = ?1",
	},
	/* What an older sample knew and this one does not (a zombie has no cgroup) is kept. */
	[STATEMENT_SEE_PROCESS] = {
		"INSERT INTO processes (attempt, boot, @names)"
		" VALUES (?1, (SELECT boot FROM attempts WHERE id = ?1), @values)"
		" ON CONFLICT (attempt, pid, start_ticks) DO UPDATE SET @merged RETURNING id",
		{ { "", &sample_process_columns }, { "", &sample_shared_columns } },
	},
	/*
	 * When the one started that samples have shown, as they are told by another. A number comes
	 * round again in a second on no host, and clocks differ by less.
	 */
	[STATEMENT_FIND_SAMPLED] = {
		"SELECT start_ticks FROM processes WHERE attempt = ?1 AND pid = ?2"
		" AND start_ticks IS NOT NULL AND " IS_UNACCOUNTED
		" AND abs(coalesce(born_wall_ns, start_wall_ns) - ?3) < 1000000000 LIMIT 1",
	},
	[STATEMENT_PUT_PROCESS] = {
		"INSERT INTO processes (attempt, boot, @names)"
		" VALUES (?1, (SELECT boot FROM attempts WHERE id = ?1), @values)"
		" ON CONFLICT (attempt, pid, start_ticks) DO UPDATE SET @merged, is_raised = 0",
		{ { "", &process_columns } },
	},
	/* The kernel tells a daemon of an OOM kill, and its runner guesses it: it is one. A pid
	 * that is killed again much later is another process. */
	[STATEMENT_ADD_EVENT] = {
		"INSERT INTO events (attempt, @names) SELECT ?1, @values"
		" WHERE ?5 <> 'oom' OR NOT EXISTS (SELECT 1 FROM events"
		" WHERE attempt = ?1 AND pid = ?3 AND type = 'oom'"
		" AND abs(wall_ns - ?2) < 10000000000)",
		{ { "", &event_columns } },
	},
	/* Whom an attempt has left, which is known of each process once. */
	[STATEMENT_MERGE_LEFT] = {
		"INSERT INTO events (attempt, @names) SELECT ?1, @values"
		" WHERE NOT EXISTS (SELECT 1 FROM events"
		" WHERE attempt = ?1 AND pid IS ?3 AND start_ticks IS ?4 AND type = ?5)",
		{ { "", &event_columns } },
	},
	[STATEMENT_SET_CLOCK] = {
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &clock_columns } },
	},
	[STATEMENT_DROP_RUNGS] = { "DELETE FROM rungs WHERE attempt = ?" },
	[STATEMENT_ADD_RUNG] = {
		"INSERT INTO rungs (attempt, @names) VALUES (?, @values)",
		{ { "", &rung_columns } },
	},
	[STATEMENT_MERGE_RUNG] = {
		"INSERT INTO rungs (attempt, @names) SELECT ?1, @values"
		" EXCEPT SELECT attempt, @names FROM rungs WHERE attempt = ?1",
		{ { "", &rung_columns } },
	},
	[STATEMENT_DROP_UNKNOWNS] = {
		"DELETE FROM unknowns WHERE attempt = ? AND what <> '" DAMAGE "'",
	},
	[STATEMENT_ADD_UNKNOWN] = {
		"INSERT INTO unknowns (attempt, @names) VALUES (?, @values)",
		{ { "", &unknown_columns } },
	},
	[STATEMENT_MERGE_UNKNOWN] = {
		"INSERT INTO unknowns (attempt, @names) SELECT ?1, @values"
		" EXCEPT SELECT attempt, @names FROM unknowns WHERE attempt = ?1",
		{ { "", &unknown_columns } },
	},
	/* Evidence is noted when it begins; what is written later has none. */
	[STATEMENT_PUT_ANOMALY] = {
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
	[STATEMENT_FIND_KNOWN_ANOMALY] = {
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
	[STATEMENT_LIST_WATCHERS] = {
		"SELECT id FROM attempts WHERE ended_wall_ns IS NULL",
	},
	/* If it has not said that it stops; its boot, and when anybody was last seen to look. */
	[STATEMENT_LAST_DAEMON] = {
		"SELECT coalesce((SELECT boot_id FROM boots b WHERE b.id = d.boot), ''),"
		" max(coalesce(d.started_wall_ns, 0),"
		" coalesce((SELECT wall_ns FROM ticks ORDER BY id DESC LIMIT 1), 0),"
		" coalesce((SELECT last_ns FROM folds ORDER BY id DESC LIMIT 1), 0)), @names"
		" FROM daemons d WHERE d.id = (SELECT max(id) FROM daemons)"
		" AND d.stopped_wall_ns IS NULL",
		{ { "d.", &daemon_columns } },
	},
	[STATEMENT_SHARE_ANOMALY] = {
		"UPDATE anomalies SET ended_wall_ns = CASE WHEN ?2 IS NULL THEN ended_wall_ns"
		" ELSE max(?2, coalesce(ended_wall_ns, 0)) END,"
		" why_cleared = coalesce(?3, why_cleared), @sets WHERE id = ?1",
		{ { "", &anomaly_shared_columns } },
	},
	[STATEMENT_ADD_ANOMALY_CHANGE] = {
		"INSERT INTO anomaly_changes (anomaly, @names)"
		" WITH of (episode) AS (VALUES (?1))"
		" SELECT n.id, @values FROM of CROSS JOIN anomalies n ON n.episode = of.episode"
		" WHERE (SELECT count(*) FROM anomaly_changes c WHERE c.anomaly = n.id) < ?7",
		{ { "", &anomaly_change_columns } },
	},
	[STATEMENT_DROP_ANOMALY_CLEARED] = {
		"DELETE FROM anomaly_changes WHERE change = 'cleared'"
		" AND anomaly = (SELECT id FROM anomalies WHERE episode = ?)",
	},
	[STATEMENT_READ_ANOMALY_CHANGES] = {
		"SELECT @names FROM anomaly_changes WHERE anomaly = ? ORDER BY wall_ns, id",
		{ { "", &anomaly_change_columns } },
	},
	[STATEMENT_SET_EVIDENCE] = {
		"UPDATE anomalies SET evidence = ?2 WHERE episode = ?1",
	},
	/* The next one behind ?1, ?2, and whether it lacks its seconds and is complete (?3). In a
	 * JSON text no string has the key so. */
	[STATEMENT_NEXT_ANOMALY] = {
		"SELECT began_wall_ns, id, full_until_wall_ns < ?3 AND full_from_wall_ns NOT NULL"
		" AND pid NOT NULL AND start_ticks NOT NULL"
		" AND (evidence IS NULL OR instr(evidence, '\"seconds\":') = 0) IS TRUE,"
		" pid, start_ticks, full_from_wall_ns, full_until_wall_ns, evidence"
		" FROM anomalies WHERE (began_wall_ns, id) > (?1, ?2)"
		" ORDER BY began_wall_ns, id LIMIT 1",
	},
	[STATEMENT_KEEP_SECONDS] = {
		"UPDATE anomalies SET evidence = ?2 WHERE id = ?1 AND evidence IS ?3",
	},
	[STATEMENT_COUNT_PATTERN] = {
		"INSERT INTO patterns (type, name, tags, description, occurrences, first_wall_ns,"
		" last_wall_ns) VALUES ('RESOURCE_ANOMALY', ?1, ?2, ?3, 1, ?4, ?4)"
		" ON CONFLICT (type, name) DO UPDATE SET occurrences = occurrences + 1,"
		" tags = excluded.tags, description = excluded.description,"
		" last_wall_ns = max(last_wall_ns, excluded.last_wall_ns)",
	},
	[STATEMENT_RENEW_PATTERN] = {
		"UPDATE patterns SET tags = ?2, description = ?3"
		" WHERE type = 'RESOURCE_ANOMALY' AND name = ?1",
	},
	/* The name of the job of the attempt ?2, and those it was seen in; none has a line feed. */
	[STATEMENT_READ_PATTERN_JOBS] = {
		"SELECT jobs.job_id, p.jobs FROM patterns p CROSS JOIN attempts a ON a.id = ?2"
		" CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE p.type = 'RESOURCE_ANOMALY' AND p.name = ?1",
	},
	/* Whether an episode other than ?3 is of the job of the attempt ?2. */
	[STATEMENT_HAS_PATTERN_JOB] = {
		"SELECT 1 FROM anomalies n CROSS JOIN attempts a ON a.id = n.attempt"
		" WHERE n.pattern = ?1 AND n.episode <> ?3"
		" AND a.job = (SELECT job FROM attempts WHERE id = ?2) LIMIT 1",
	},
	[STATEMENT_SET_PATTERN_JOBS] = {
		"UPDATE patterns SET jobs = ?2, n_jobs = coalesce(n_jobs, 0) + ?3"
		" WHERE type = 'RESOURCE_ANOMALY' AND name = ?1",
	},

	/* ---- what is read ---- */

	[STATEMENT_LIST_ATTEMPTS] = {
		ATTEMPT_SELECT
		"WHERE (?1 IS NULL OR job_id = ?1)"
		" AND (a.ended_wall_ns IS NULL OR a.ended_wall_ns > ?2)"
		" AND (NOT ?3 OR NOT EXISTS (SELECT 1 FROM attempts later WHERE later.job = a.job"
		" AND later.attempt_num > a.attempt_num AND later.uid IS a.uid))"
		" AND a.id > ?4 AND (?5 < 0 OR a.uid = ?5) ORDER BY a.id DESC",
		ATTEMPT_PARTS,
	},
	[STATEMENT_LIST_RUNNING] = {
		ATTEMPT_SELECT "WHERE a.ended_wall_ns IS NULL AND (?1 IS NULL OR job_id = ?1)"
			       " ORDER BY a.id DESC",
		ATTEMPT_PARTS,
	},
	/* What was attached has no recorder but a daemon, which would have written its end. */
	[STATEMENT_LAST_SIGN] = {
		"SELECT max(coalesce((SELECT max(wall_ns) FROM ticks WHERE recorder = ?1"
		" OR (recorder < 0 AND (SELECT is_attached FROM attempts WHERE id = ?1))), 0),"
		" coalesce((SELECT max(last_ns) FROM points WHERE attempt = ?1), 0),"
		" coalesce((SELECT max(max(coalesce(started_wall_ns, 0), coalesce(ended_wall_ns, 0)))"
		" FROM sheets WHERE attempt = ?1), 0))",
	},
	[STATEMENT_FIND_ATTEMPT] = {
		ATTEMPT_SELECT
		"WHERE job_id = ?1 AND attempt_num = CASE WHEN ?2 > 0 THEN ?2"
		" ELSE (SELECT max(attempt_num) FROM attempts last WHERE last.job = a.job) END",
		ATTEMPT_PARTS,
	},
	[STATEMENT_READ_SHEETS] = {
		"SELECT @names FROM sheets WHERE attempt = ? ORDER BY num, try_num",
		{ { "", &sheet_columns }, { "", &usage_columns } },
	},
	[STATEMENT_READ_RANKS] = {
		"SELECT @names FROM ranks WHERE attempt = ? AND sheet_num = ? AND try_num = ?"
		" ORDER BY rank",
		{ { "", &rank_columns } },
	},
	[STATEMENT_READ_PROCESSES] = {
		"SELECT @names FROM processes WHERE attempt = ?"
		" ORDER BY born_wall_ns, pid, start_ticks, id",
		{ { "", &process_columns } },
	},
	/* What samples tell is added to it: so_far.c. Of those that are gone the row tells. */
	[STATEMENT_READ_PROCESSES_SO_FAR] = {
		"SELECT id, is_unaccounted, @names FROM (SELECT id, " IS_UNACCOUNTED
		" AS is_unaccounted, pid, start_ticks, ppid, sheet_num, rank, local_rank,"
		" world_size, command, uid, coalesce(born_wall_ns, start_wall_ns) AS born_wall_ns,"
		" died_wall_ns, exit_code, signal, user_ns, system_ns, max_rss_bytes,"
		" CASE WHEN " IS_UNACCOUNTED " THEN 'sampled' ELSE evidence END AS evidence,"
		" CASE WHEN " IS_UNACCOUNTED
		" THEN NULL ELSE cpu_evidence END AS cpu_evidence, syscalls,"
		" rchar, wchar, read_bytes, write_bytes, major_faults, max_threads, max_fds,"
		" max_gpu_bytes, gpu_busy_ns, gpu_idle_ns,"
		" coalesce(n_samples, 0) AS n_samples FROM processes WHERE attempt = ?)"
		" ORDER BY born_wall_ns, pid, start_ticks, id",
		{ { "", &process_columns } },
	},
	[STATEMENT_COUNT_PROCESSES] = {
		"SELECT count(*), coalesce(sum(" IS_UNACCOUNTED "), 0) FROM processes"
		" WHERE attempt = ?",
	},
	[STATEMENT_READ_EVENTS] = {
		"SELECT id, coalesce(wall_ns, 0), @names FROM events WHERE attempt = ?"
		" ORDER BY wall_ns, id",
		{ { "", &event_columns } },
	},
	/*
	 * ?1: the attempt. ?2: the rank. ?3: the process. ?4: the name. ?5: when. Below the phases
	 * of the same process that are open: an index has those alone.
	 */
	[STATEMENT_ENTER_PHASE] = {
		"INSERT INTO phases (attempt, rank, pid, name, path, entered_wall_ns)"
		" SELECT ?1, ?2, ?3, ?4, coalesce((SELECT path || '/' FROM phases WHERE attempt = ?1"
		" AND pid = ?3 AND left_wall_ns IS NULL ORDER BY id DESC LIMIT 1), '') || ?4, ?5"
		" WHERE (SELECT count(*) FROM phases WHERE attempt = ?1 AND pid = ?3"
		" AND left_wall_ns IS NULL) < 32 RETURNING id",
	},
	[STATEMENT_COUNT_PHASES] = {
		"SELECT count(*) FROM phases WHERE attempt = ?1 AND rank IS ?2",
	},
	/* The last one of this process. */
	[STATEMENT_EXIT_PHASE] = {
		"UPDATE phases SET left_wall_ns = max(?4, entered_wall_ns) WHERE id ="
		" (SELECT max(id) FROM phases WHERE attempt = ?1 AND pid = ?2 AND name = ?3"
		" AND left_wall_ns IS NULL) RETURNING id",
	},
	[STATEMENT_LIST_OPEN_PHASES] = {
		"SELECT pid, rank FROM phases WHERE attempt = ?1 AND name = ?2"
		" AND left_wall_ns IS NULL GROUP BY pid ORDER BY max(id)",
	},
	[STATEMENT_ADD_LOST_MARKS] = {
		"UPDATE attempts SET n_lost_marks = coalesce(n_lost_marks, 0) + ?2 WHERE id = ?1",
	},
	[STATEMENT_READ_LOST_MARKS] = {
		"SELECT coalesce(n_lost_marks, 0) FROM attempts WHERE id = ?1",
	},
	[STATEMENT_READ_PHASES] = {
		"SELECT @names FROM " PHASES_AS_TOLD
		" WHERE attempt = ? ORDER BY entered_wall_ns, id",
		{ { "", &phase_columns } },
	},
	/* ?1: entered or left since when. ?2: the job's row, or 0. */
	[STATEMENT_WALK_PHASES] = {
		"SELECT ph.id, jobs.job_id, a.attempt_num, @names FROM " PHASES_AS_TOLD " ph"
		" CROSS JOIN attempts a ON a.id = ph.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE (ph.entered_wall_ns >= ?1 OR ph.left_wall_ns >= ?1) AND (?2 = 0 OR a.job = ?2)"
		" ORDER BY ph.id",
		{ { "ph.", &phase_columns } },
	},
	[STATEMENT_READ_ANOMALIES] = {
		"SELECT @names FROM anomalies WHERE attempt = ? ORDER BY began_wall_ns, id",
		{ { "", &anomaly_place_columns }, { "", &anomaly_columns } },
	},
	[STATEMENT_READ_CLOCK] = {
		"SELECT @names FROM attempts WHERE id = ?",
		{ { "", &clock_columns } },
	},
	[STATEMENT_READ_RUNGS] = {
		"SELECT @names FROM rungs WHERE attempt = ? ORDER BY id",
		{ { "", &rung_columns } },
	},
	[STATEMENT_READ_UNKNOWNS] = {
		"SELECT @names FROM unknowns WHERE attempt = ? ORDER BY id",
		{ { "", &unknown_columns } },
	},
	[STATEMENT_READ_SYSCALLS] = {
		"SELECT @names FROM syscalls WHERE attempt = ?"
		" ORDER BY cpu_ns DESC, count DESC, name",
		{ { "", &syscall_columns } },
	},
	/* One daemon after the other may have counted: unknown and anything is unknown. What a
	 * runner has counted by itself, as its rungs say, is whole; an attached job has none, and
	 * its rungs are the daemon's. */
	[STATEMENT_ADD_SYSCALL] = {
		"INSERT INTO syscalls (attempt, @names) SELECT ?, @values"
		" WHERE NOT EXISTS (SELECT 1 FROM rungs WHERE attempt = ?1"
		" AND measurement = '" RUNG_SYSCALLS "' AND rung <> '" RUNG_UNKNOWN "'"
		" AND NOT (SELECT is_attached FROM attempts WHERE id = ?1))"
		" ON CONFLICT (attempt, name) DO UPDATE SET count = count + excluded.count,"
		" errors = errors + excluded.errors, cpu_ns = cpu_ns + excluded.cpu_ns,"
		" wait_ns = wait_ns + excluded.wait_ns",
		{ { "", &syscall_columns } },
	},
	/*
	 * ?1: the attempt. ?2: the text. ?3, ?4: the process. One that no sample saw has no start
	 * time; and what its runner has counted stays.
	 */
	[STATEMENT_SET_PROCESS_CALLS] = {
		"UPDATE processes SET syscalls = ?2 WHERE id = (SELECT id FROM processes"
		" WHERE attempt = ?1 AND pid = ?3 AND (start_ticks = ?4 OR start_ticks IS NULL)"
		" AND syscalls IS NULL ORDER BY start_ticks IS NULL, id LIMIT 1)",
	},
	[STATEMENT_READ_POINTS] = {
		"SELECT fold, last_ns, data, seal FROM points WHERE attempt = ? ORDER BY fold",
	},
	/*
	 * Those of the attempt: so does a fold that the points name have chunks of it. Not those
	 * that are in minutes already: their process's row tells of them.
	 */
	[STATEMENT_READ_CHUNKS] = {
		"SELECT c.id, f.recorder, f.first_ns, f.last_ns, c.process, c.data, c.seal"
		" FROM points o CROSS JOIN folds f ON f.id = o.fold"
		" CROSS JOIN chunks c ON c.id > (f.id << 30) + f.rolled_to"
		" AND c.id <= (f.id << 30) + 1073741823"
		" CROSS JOIN processes p ON p.id = c.process"
		" WHERE o.attempt = ?1 AND p.attempt = ?1",
	},
	/* Recorders with ticks that may be of the attempt: its own, and daemons. */
	[STATEMENT_LIST_RECORDERS] = {
		"SELECT DISTINCT recorder FROM ticks WHERE recorder = ? OR recorder < 0",
	},
	/* The job and the attempt, or the pid of a daemon. */
	[STATEMENT_NAME_RECORDER] = {
		"SELECT job_id, attempt_num FROM attempts a JOIN jobs ON jobs.id = a.job WHERE a.id = ?1"
		" UNION ALL SELECT NULL, pid FROM daemons WHERE id = -?1",
	},
	[STATEMENT_LAST_TICK] = {
		"SELECT max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0))",
	},
	/*
	 * ?1, ?2: from when till when. ?3: the job's row, or 0. ?4: a pid, or 0. Folds that are
	 * all in minutes are not told any more.
	 */
	[STATEMENT_WALK_FOLDS] = {
		"SELECT f.id, f.first_ns, f.last_ns, f.rolled_to FROM folds f"
		" WHERE f.last_ns >= ?1 AND f.first_ns <= ?2 AND f.rolled_to < 1073741823 AND (?3 = 0 OR f.id IN"
		" (SELECT o.fold FROM attempts a JOIN points o ON o.attempt = a.id WHERE a.job = ?3))"
		" AND (?4 = 0 OR f.id IN"
		" (SELECT o.fold FROM processes p JOIN points o ON o.attempt = p.attempt"
		" WHERE p.pid = ?4)) ORDER BY f.first_ns, f.id",
	},
	[STATEMENT_WALK_TAILS] = {
		"SELECT t.recorder, min(t.wall_ns), max(t.wall_ns),"
		" (SELECT coalesce(max(f.id), 0) FROM folds f WHERE f.recorder = t.recorder) FROM ticks t"
		" WHERE (?3 = 0 OR t.recorder < 0 OR t.recorder IN"
		" (SELECT a.id FROM attempts a WHERE a.job = ?3))"
		" AND (?4 = 0 OR t.recorder < 0 OR t.recorder IN"
		" (SELECT p.attempt FROM processes p WHERE p.pid = ?4))"
		" GROUP BY t.recorder HAVING max(t.wall_ns) >= ?1 AND min(t.wall_ns) <= ?2",
	},
	[STATEMENT_WALK_TICK_TIMES] = {
		"SELECT id, wall_ns FROM ticks WHERE recorder = ? AND id > ? AND id <= ?",
	},
	/* Folds that a recorder's ticks became in the meantime. */
	[STATEMENT_WALK_NEW_FOLDS] = {
		"SELECT id FROM folds WHERE recorder = ? AND id > ? ORDER BY id",
	},
	[STATEMENT_WALK_FOLD] = {
		"SELECT f.recorder, f.first_ns, f.last_ns, f.n_ticks, f.data, f.seal FROM folds f"
		" WHERE f.id = ?1 AND (?2 OR f.rolled_to < 1073741823)",
	},
	[STATEMENT_WALK_RECORDER] = {
		"SELECT (SELECT boot_id FROM boots WHERE id = CASE WHEN ?1 > 0"
		" THEN (SELECT boot FROM attempts WHERE id = ?1)"
		" ELSE (SELECT boot FROM daemons WHERE id = -?1) END),"
		" (SELECT j.job_id FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.id = ?1)",
	},
	[STATEMENT_WALK_CHUNKS] = {
		"SELECT c.id, c.data, c.seal, p.id, EXISTS (SELECT 1 FROM images i WHERE i.process = p.id),"
		" a.attempt_num, a.id, jobs.job_id, @names FROM chunks c"
		" CROSS JOIN processes p ON p.id = c.process CROSS JOIN attempts a ON a.id = p.attempt"
		" CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE c.id > (?1 << 30) + ?4 AND c.id <= (?1 << 30) + 1073741823"
		" AND (?2 = 0 OR a.job = ?2) AND (?3 = 0 OR p.pid = ?3) ORDER BY c.id",
		{ { "p.", &sample_process_columns } },
	},
	[STATEMENT_WALK_PROCESS] = {
		"SELECT p.id, EXISTS (SELECT 1 FROM images i WHERE i.process = p.id),"
		" a.attempt_num, a.id, jobs.job_id, @names FROM processes p"
		" CROSS JOIN attempts a ON a.id = p.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE p.id = ?1 AND (?2 = 0 OR a.job = ?2) AND (?3 = 0 OR p.pid = ?3)",
		{ { "p.", &sample_process_columns } },
	},
	[STATEMENT_WALK_IMAGES] = {
		"SELECT until_tick, @names FROM images WHERE process = ? ORDER BY until_tick",
		{ { "", &image_columns } },
	},
	/* ?1, ?2: behind which time and id. ?3, ?4: till when, up to which id. ?5: an attempt. */
	[STATEMENT_WALK_EVENTS] = {
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM events e"
		" CROSS JOIN attempts a ON a.id = e.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE (e.wall_ns, e.id) > (?1, ?2) AND e.wall_ns <= ?3 AND e.id <= ?4"
		" ORDER BY e.wall_ns, e.id",
		{ { "e.", &event_columns } },
	},
	/* Those of the boot ?1, of the attempts from ?2 to ?3, the last first. */
	[STATEMENT_WALK_ORPHANS] = {
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM boots b"
		" CROSS JOIN attempts a ON a.id BETWEEN ?2 AND ?3 AND a.boot = b.id"
		" CROSS JOIN events e ON e.attempt = a.id CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE b.boot_id = ?1 AND e.type = 'orphan'"
		" ORDER BY e.wall_ns DESC, e.id DESC LIMIT ?4",
		{ { "e.", &event_columns } },
	},
	/* ?1: behind which id. ?2: up to which. ?3: a job's row, or 0. */
	[STATEMENT_FOLLOW_EVENTS] = {
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM events e"
		" CROSS JOIN attempts a ON a.id = e.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE e.id > ?1 AND e.id <= ?2 AND (?3 = 0 OR a.job = ?3) ORDER BY e.id",
		{ { "e.", &event_columns } },
	},
	/* ?1: a job's row, or 0. ?2, ?3: of attempts that lived then. */
	[STATEMENT_CUT_EVENTS] = {
		"SELECT jobs.job_id, a.attempt_num, u.why FROM unknowns u"
		" CROSS JOIN attempts a ON a.id = u.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE u.what = 'events' AND (?1 = 0 OR a.job = ?1)"
		" AND coalesce(a.ended_wall_ns, ?2) >= ?2 AND a.started_wall_ns <= ?3 ORDER BY u.id",
	},
	/*
	 * ?1, ?2: behind which time and id. ?3: till when. ?4: a job's row, or 0. ?5: an attempt of
	 * it, or 0. When the attempt ended is for those that nobody saw the end of.
	 */
	[STATEMENT_WALK_ANOMALIES] = {
		"SELECT jobs.job_id, a.attempt_num, a.ended_wall_ns, @names FROM anomalies n"
		" LEFT JOIN attempts a ON a.id = n.attempt LEFT JOIN jobs ON jobs.id = a.job"
		" WHERE (n.began_wall_ns, n.id) > (?1, ?2) AND n.began_wall_ns <= ?3"
		" AND (?4 = 0 OR a.job = ?4) AND (?5 = 0 OR a.attempt_num = ?5)"
		" ORDER BY n.began_wall_ns, n.id",
		{ { "n.", &anomaly_place_columns }, { "n.", &anomaly_columns } },
	},
	/* The same of those that lasted into ?6, or may have: one that nobody saw the end of. */
	[STATEMENT_WALK_LASTING_ANOMALIES] = {
		"SELECT jobs.job_id, a.attempt_num, a.ended_wall_ns, @names FROM anomalies n"
		" LEFT JOIN attempts a ON a.id = n.attempt LEFT JOIN jobs ON jobs.id = a.job"
		" WHERE n.id IN (SELECT id FROM anomalies WHERE began_wall_ns >= ?6"
		" UNION SELECT id FROM anomalies WHERE ended_wall_ns >= ?6"
		" UNION SELECT o.id FROM anomalies o LEFT JOIN attempts b ON b.id = o.attempt"
		" WHERE o.ended_wall_ns IS NULL AND (coalesce(b.ended_wall_ns, ?6) >= ?6"
		" OR o.type = 'orphan' OR o.began_wall_ns > b.ended_wall_ns))"
		" AND (n.began_wall_ns, n.id) > (?1, ?2) AND n.began_wall_ns <= ?3"
		" AND (?4 = 0 OR a.job = ?4) AND (?5 = 0 OR a.attempt_num = ?5)"
		" ORDER BY n.began_wall_ns, n.id",
		{ { "n.", &anomaly_place_columns }, { "n.", &anomaly_columns } },
	},
	[STATEMENT_WALK_ATTEMPT_EVENTS] = {
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM events e"
		" CROSS JOIN attempts a ON a.id = e.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE (e.wall_ns, e.id) > (?1, ?2) AND e.wall_ns <= ?3 AND e.id <= ?4"
		" AND e.attempt = ?5 ORDER BY e.wall_ns, e.id",
		{ { "e.", &event_columns } },
	},
	/* The attempts of a job, and when the first event of each from ?2 on was. */
	[STATEMENT_ATTEMPTS_WITH_EVENTS] = {
		"SELECT a.id, (SELECT min(e.wall_ns) FROM events e WHERE e.attempt = a.id"
		" AND e.wall_ns >= ?2) AS first_ns FROM jobs CROSS JOIN attempts a ON a.job = jobs.id"
		" WHERE jobs.job_id = ?1 AND first_ns IS NOT NULL ORDER BY first_ns, a.id",
	},
	[STATEMENT_LAST_EVENT] = { "SELECT max(id) FROM events" },
	[STATEMENT_LAST_ANOMALY_CHANGE] = { "SELECT max(id) FROM anomaly_changes" },
	[STATEMENT_FOLLOW_ANOMALIES] = {
		"SELECT c.id, a.uid, jobs.job_id, @names FROM anomaly_changes c"
		" CROSS JOIN anomalies n ON n.id = c.anomaly"
		" LEFT JOIN attempts a ON a.id = n.attempt LEFT JOIN jobs ON jobs.id = a.job"
		" WHERE c.id > ?1 AND c.id <= ?2 ORDER BY c.id",
		{ { "n.", &anomaly_place_columns },
		  { "n.", &anomaly_columns },
		  { "c.", &anomaly_change_columns } },
	},
	[STATEMENT_FIND_FOLDS] = {
		"SELECT f.id FROM folds f WHERE f.id >= ?1 AND NOT EXISTS (SELECT 1 FROM folds g"
		" WHERE g.recorder = f.recorder AND g.id >= ?1 AND g.id < f.id) ORDER BY f.id",
	},
	/* Without its WHERE: see vtab_events.c. */
	[STATEMENT_SQL_EVENTS] = {
		"SELECT e.id, a.attempt_num, jobs.job_id, e.type, @names FROM events e"
		" JOIN attempts a ON a.id = e.attempt JOIN jobs ON jobs.id = a.job",
		{ { "e.", &event_sql_columns } },
	},
	/* Folds, ticks beside them, chunks of the last fold, events, jobs. */
	[STATEMENT_SIZES] = {
		"SELECT (SELECT count(*) FROM folds), (SELECT count(*) FROM ticks),"
		" (SELECT count(*) FROM chunks WHERE id BETWEEN (SELECT max(id) FROM folds) << 30"
		" AND ((SELECT max(id) FROM folds) << 30) + 1073741823),"
		" (SELECT max(id) FROM events), (SELECT max(id) FROM jobs)",
	},

	/* ---- minutes, and what becomes of what is old ---- */

	[STATEMENT_PROCESSES_OF_JOB] = {
		"SELECT p.id FROM attempts a CROSS JOIN processes p ON p.attempt = a.id"
		" WHERE (?1 = 0 OR p.pid = ?1) AND a.job = ?2 ORDER BY p.id",
	},
	[STATEMENT_PROCESSES_OF_PID] = { "SELECT id FROM processes WHERE pid = ? ORDER BY id" },
	/* The first time from ?1 on at which there may be something. */
	[STATEMENT_NEXT_RECORDED] = {
		"SELECT min(ns) FROM (SELECT max((min(id) >> 30) * 3600000000000, ?1) AS ns"
		" FROM rollups WHERE id >= (?1 / 3600000000000) << 30"
		" UNION ALL SELECT min(max(first_ns, ?1)) FROM folds WHERE last_ns >= ?1"
		" UNION ALL SELECT min(wall_ns) FROM ticks WHERE wall_ns >= ?1)",
	},
	/* The same, and the last time up to ?1. */
	[STATEMENT_PREVIOUS_RECORDED] = {
		"SELECT max(ns) FROM (SELECT min(((max(id) >> 30) + 1) * 3600000000000 - 1, ?1) AS ns"
		" FROM rollups WHERE id < (?1 / 3600000000000 + 1) << 30"
		" UNION ALL SELECT max(min(last_ns, ?1)) FROM folds WHERE first_ns <= ?1"
		" UNION ALL SELECT max(wall_ns) FROM ticks WHERE wall_ns <= ?1)",
	},
	/* The hour that has some, this one or the next. */
	[STATEMENT_NEXT_HOUR] = { "SELECT min(id) >> 30 FROM rollups WHERE id >= ?1 << 30" },
	[STATEMENT_PREVIOUS_HOUR] = {
		"SELECT max(id) >> 30 FROM rollups WHERE id < (?1 + 1) << 30",
	},
	[STATEMENT_READ_ROLLUPS] = {
		"SELECT process, data, seal FROM rollups WHERE " ID_IS_BEHIND " ORDER BY id",
	},
	[STATEMENT_MINUTE_FOLDS] = {
		"SELECT id, recorder, first_ns, last_ns, n_ticks, rolled_to, data, seal FROM folds"
		" WHERE id IN (SELECT f.id FROM folds f WHERE f.last_ns >= ?1 AND f.first_ns <= ?2"
		" AND (?3 = 0 OR f.id IN (SELECT o.fold FROM attempts a JOIN points o"
		" ON o.attempt = a.id WHERE a.job = ?3))) ORDER BY id",
	},
	/* ?2: of processes behind this one. */
	[STATEMENT_READ_CHUNKS_OF_FOLD] = {
		"SELECT process, data, seal FROM chunks WHERE " ID_IS_BEHIND " ORDER BY id",
	},

	[STATEMENT_LEFT_RECORDER] = {
		"SELECT recorder FROM ticks WHERE recorder > ?2 GROUP BY recorder"
		" HAVING max(wall_ns) < ?1 OR EXISTS (SELECT 1 FROM attempts a"
		" WHERE a.id = recorder AND a.ended_wall_ns IS NOT NULL)"
		" ORDER BY recorder LIMIT 1",
	},
	[STATEMENT_COUNT_OLD_FOLDS] = { "SELECT count(*) FROM folds WHERE last_ns < ?" },
	[STATEMENT_SIZE_OLD_FOLDS] = {
		COUNT_AND_SIZE("length(data)") "folds WHERE last_ns < ?",
	},
	[STATEMENT_SIZE_OLD_ROLLUPS] = {
		COUNT_AND_SIZE("length(data)") "rollups WHERE id < ?",
	},
	[STATEMENT_SIZE_OLD_POINTS] = {
		COUNT_AND_SIZE("length(data)") "points WHERE NOT is_thin AND last_ns < ?",
	},
	[STATEMENT_SIZE_OLD_EVENTS] = {
		COUNT_AND_SIZE("length(details) + 64") "events WHERE wall_ns < ?",
	},
	/* The next ?3 behind the one of ?1 and ?2. */
	[STATEMENT_NEXT_EVENTS] = {
		"SELECT wall_ns, id FROM events WHERE (wall_ns, id) > (?1, ?2)"
		" ORDER BY wall_ns, id LIMIT ?3",
	},
	/* About: with its indices one takes some 100 bytes and its details, of which the newest are
	 * like the others. */
	[STATEMENT_SIZE_OF_EVENT] = {
		"SELECT CAST(100 + coalesce(avg(length(details)), 0) AS INTEGER)"
		" FROM events WHERE id > (SELECT max(id) FROM events) - 100",
	},
	[STATEMENT_SIZE_OLD_ANOMALIES] = {
		COUNT_AND_SIZE(
			"length(description) + length(host) + 256") "anomalies WHERE " ANOMALY_IS_OLD,
	},
	[STATEMENT_OLD_CHUNKS] = {
		"SELECT c.id, c.data, c.seal FROM folds f CROSS JOIN chunks c"
		" ON c.id > (f.id << 30) + f.rolled_to"
		" AND c.id <= (f.id << 30) + 1073741823 WHERE f.last_ns < ?",
	},
	/* What nobody reads, as its owner is not there. 1: which may be as it should, if it is
	 * whole: that of a process goes with its age. */
	[STATEMENT_STRAYS] = {
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
	[STATEMENT_OLDEST_FOLD] = {
		"SELECT recorder, first_ns FROM folds WHERE last_ns < ? OR rolled_to > 0"
		" ORDER BY first_ns LIMIT 1",
	},
	/* ?1, ?2: they begin from when till when. ?3: they end before. ?4: of whom. ?5: how many.
	 */
	[STATEMENT_FOLDS_OF_HOUR] = {
		"SELECT id, rolled_to, data, seal FROM folds WHERE id IN"
		" (SELECT id FROM folds INDEXED BY folds_by_time WHERE first_ns BETWEEN ?1 AND ?2"
		" AND (last_ns < ?3 OR rolled_to > 0) AND recorder = ?4"
		" ORDER BY id LIMIT ?5) ORDER BY id",
	},
	[STATEMENT_MARK_FOLD] = { "UPDATE folds SET rolled_to = ?2 WHERE id = ?1" },
	[STATEMENT_DROP_FOLD] = { "DELETE FROM folds WHERE id = ?" },
	[STATEMENT_NEXT_CHUNK] = {
		"SELECT process FROM chunks WHERE " ID_IS_BEHIND " ORDER BY id LIMIT 1",
	},
	[STATEMENT_READ_CHUNK] = { "SELECT data, seal FROM chunks WHERE id = ?" },
	[STATEMENT_DROP_CHUNKS] = {
		DELETE_SOME("chunks",
			    "id BETWEEN ?1 << 30 AND (?1 << 30) + 1073741823 ORDER BY id"),
	},
	[STATEMENT_READ_FOLD] = { "SELECT data, seal FROM folds WHERE id = ?" },
	[STATEMENT_READ_ROLLUP] = { "SELECT data, seal FROM rollups WHERE id = ?" },
	[STATEMENT_PUT_ROLLUP] = { "INSERT OR REPLACE INTO rollups (id, data, seal) VALUES (?, ?, ?)" },
	[STATEMENT_DROP_ROLLUPS] = {
		DELETE_SOME("rollups", "id < ?1 ORDER BY id") " RETURNING 0",
	},
	/* Whether the end of its attempt has told of a process. */
	[STATEMENT_FIND_OWNER] = {
		"SELECT a.ended_wall_ns IS NOT NULL AND NOT " IS_UNACCOUNTED " FROM processes p"
		" JOIN attempts a ON a.id = p.attempt WHERE p.id = ?",
	},
	[STATEMENT_RAISE_PROCESS] = {
		"UPDATE processes SET @raised, is_raised = 1,"
		" n_samples = coalesce(processes.n_samples, 0) + new.n"
		" FROM (SELECT @named, ? AS n) AS new WHERE id = ?",
		{ { "", &process_total_columns } },
	},
	/* With whether its attempt has an end. A fold is found by its points: they outlive it. */
	[STATEMENT_OLDEST_POINTS] = {
		"SELECT o.attempt, o.fold, o.last_ns, a.ended_wall_ns IS NOT NULL, o.data, o.seal"
		" FROM points o CROSS JOIN attempts a ON a.id = o.attempt"
		" WHERE NOT o.is_thin AND o.last_ns < ?"
		" AND NOT EXISTS (SELECT 1 FROM folds f WHERE f.id = o.fold)"
		" ORDER BY o.last_ns LIMIT 1",
	},
	[STATEMENT_DROP_POINTS] = { "DELETE FROM points WHERE attempt = ? AND fold = ?" },
	[STATEMENT_THIN_POINTS] = {
		"UPDATE points SET data = ?, seal = ?, is_thin = 1 WHERE attempt = ? AND fold = ?",
	},
	[STATEMENT_DROP_EVENTS] = {
		DELETE_SOME("events", "wall_ns < ?1 ORDER BY wall_ns") " RETURNING wall_ns",
	},
	[STATEMENT_DROP_ANOMALIES] = {
		DELETE_SOME("anomalies",
			    ANOMALY_IS_OLD " ORDER BY began_wall_ns") " RETURNING began_wall_ns",
	},
	[STATEMENT_DROP_OVER_ANOMALIES] = {
		DELETE_SOME(
			"anomalies",
			"began_wall_ns < ?1 AND ended_wall_ns NOT NULL ORDER BY began_wall_ns") " RETURNING began_wall_ns",
	},
	/* The key stays, so that nobody looks for them again. */
	[STATEMENT_DROP_SECONDS] = {
		"UPDATE anomalies SET evidence = json_set(evidence, '$.seconds', NULL) WHERE id IN"
		" (SELECT id FROM anomalies WHERE began_wall_ns < ?1"
		" AND instr(evidence, '\"seconds\":{') > 0 AND json_valid(evidence)"
		" ORDER BY began_wall_ns LIMIT ?2) RETURNING 0",
	},
	[STATEMENT_DROP_PHASES] = { DELETE_SOME_OF_ATTEMPT("phases") },
	/* The newest of each stays, so that no row ever gets the id of another. */
	[STATEMENT_NEXT_ATTEMPT] = {
		"SELECT id FROM attempts WHERE id > ? AND id < (SELECT max(id) FROM attempts)"
		" ORDER BY id",
	},
	[STATEMENT_FIND_ATTEMPT_ROW] = {
		ATTEMPT_SELECT "WHERE a.id = ?",
		ATTEMPT_PARTS,
	},
	[STATEMENT_FIND_SUBMISSION] = {
		ATTEMPT_SELECT "WHERE a.submission = ?1 AND a.uid = ?2 ORDER BY a.id DESC",
		ATTEMPT_PARTS,
	},
	[STATEMENT_DROP_PROCESSES] = { DELETE_SOME_OF_ATTEMPT("processes") },
	[STATEMENT_NOTE_UNKNOWN] = {
		"INSERT INTO unknowns (attempt, what, why) SELECT ?1, ?2, ?3 WHERE NOT EXISTS"
		" (SELECT 1 FROM unknowns WHERE attempt = ?1 AND what = ?2 AND why = ?3)",
	},
	[STATEMENT_DROP_ATTEMPT] = {
		"DELETE FROM attempts WHERE id = ?1 AND NOT EXISTS"
		" (SELECT 1 FROM processes WHERE attempt = ?1) RETURNING job",
	},
	[STATEMENT_DROP_JOB] = {
		"DELETE FROM jobs WHERE id = ?1 AND NOT EXISTS"
		" (SELECT 1 FROM attempts WHERE job = ?1)",
	},
	/* ?2: now. ?3, ?4: the latest that is due, and what others find until it is done. */
	[STATEMENT_READ_META] = { "SELECT value FROM meta WHERE key = ?" },
	[STATEMENT_WRITE_META] = { "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)" },
	[STATEMENT_RAISE_META] = {
		"INSERT INTO meta (key, value) VALUES (?, ?)"
		" ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
	},
	[STATEMENT_DATA_VERSION] = { "PRAGMA data_version" },
	[STATEMENT_SYNCHRONOUS] = { "PRAGMA synchronous" },
	[STATEMENT_PAGE_SIZE] = { "PRAGMA page_size" },
	[STATEMENT_PAGE_COUNT] = { "PRAGMA page_count" },
	[STATEMENT_FREE_COUNT] = { "PRAGMA freelist_count" },

	/* ---- what is made of what was recorded ---- */

	[STATEMENT_NEXT_UNNOTED] = {
		"SELECT a.id, job_id, attempt_num, ended_wall_ns FROM attempts a"
		" JOIN jobs ON jobs.id = a.job WHERE ended_wall_ns IS NOT NULL"
		" AND NOT EXISTS (SELECT 1 FROM runs WHERE attempt = a.id)"
		" ORDER BY ended_wall_ns, a.id LIMIT ?",
	},
	[STATEMENT_PUT_RUN] = {
		"INSERT OR REPLACE INTO runs (attempt, outcome, @names) VALUES (?, ?, @values)",
		{ { "", &run_columns } },
	},
	[STATEMENT_LIST_RUNS] = {
		RUN_SELECT "WHERE r.ended_wall_ns > ?1 AND r.ended_wall_ns <= ?2" NEWEST_RUNS("?3"),
		{ { "", &run_owner_columns }, { "r.", &run_columns } },
	},
	[STATEMENT_RUNS_OF_COMMAND] = {
		RUN_SELECT "WHERE r.ended_wall_ns > ?1 AND r.ended_wall_ns <= ?2"
			   " AND r.class_command = ?4" NEWEST_RUNS("?3"),
		{ { "", &run_owner_columns }, { "r.", &run_columns } },
	},
	[STATEMENT_RUNS_BY_EXACT] = { RUNS_BY("class_exact") },
	[STATEMENT_RUNS_BY_MASKED] = { RUNS_BY("class_masked") },
	[STATEMENT_RUNS_BY_PROGRAM] = { RUNS_BY("class_program") },
	[STATEMENT_ANOMALY_TYPES] = {
		"SELECT DISTINCT type FROM anomalies WHERE attempt = ?1"
		" AND (?2 = 0 OR sheet_num = ?2) ORDER BY type",
	},
	[STATEMENT_PUT_PATTERN] = {
		"INSERT OR REPLACE INTO patterns (@names) VALUES (@values)",
		{ { "", &pattern_columns } },
	},
	[STATEMENT_LIST_PATTERNS] = {
		"SELECT @names FROM patterns ORDER BY first_wall_ns, type, name",
		{ { "", &pattern_columns } },
	},
	[STATEMENT_ADD_ESTIMATE] = {
		"INSERT OR REPLACE INTO estimates (attempt, sheet_num, made_wall_ns, rung, @names)"
		" VALUES (?, ?, ?, ?, @values)",
		{ { "", &estimate_columns } },
	},
	[STATEMENT_ADD_SCORE] = {
		"INSERT INTO scores (estimate, @names) VALUES (last_insert_rowid(), @values)",
		{ { "", &score_columns } },
	},
	/* ?1: the rung, ?2: the class on it. */
	[STATEMENT_CALIBRATION_BY_EXACT] = { CALIBRATION_BY("class_exact") },
	[STATEMENT_CALIBRATION_BY_MASKED] = { CALIBRATION_BY("class_masked") },
	[STATEMENT_CALIBRATION_BY_PROGRAM] = { CALIBRATION_BY("class_program") },
	[STATEMENT_SET_OUTCOME] = { "UPDATE attempts SET outcome = ?, reason = ? WHERE id = ?" },
	/* What was measured stays what it was before the first verdict. */
	[STATEMENT_PUT_VERDICT] = {
		"INSERT INTO verdicts (attempt, outcome, note, uid, wall_ns, measured_outcome,"
		" measured_reason) SELECT id, ?2, ?3, ?4, ?5, outcome, reason FROM attempts"
		" WHERE id = ?1 ON CONFLICT (attempt) DO UPDATE SET outcome = excluded.outcome,"
		" note = excluded.note, uid = excluded.uid, wall_ns = excluded.wall_ns",
	},
	[STATEMENT_RESTORE_OUTCOME] = {
		"UPDATE attempts SET outcome = v.measured_outcome, reason = v.measured_reason"
		" FROM verdicts v WHERE v.attempt = ?1 AND attempts.id = ?1",
	},
	[STATEMENT_REMOVE_VERDICT] = { "DELETE FROM verdicts WHERE attempt = ?" },
	[STATEMENT_MEASURED_OUTCOME] = { "SELECT measured_outcome FROM verdicts WHERE attempt = ?" },
	[STATEMENT_VACUUM] = { "PRAGMA incremental_vacuum(32)" },
	[STATEMENT_VACUUM_LITTLE] = { "PRAGMA incremental_vacuum(1)" },
};

/* ---- as SQLite gets them ---- */

static void add_name(struct buf *out, const char *prefix, const char *name)
{
	buf_add_str(out, prefix);
	buf_add_str(out, name);
}

static void add_value(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	(void)name;
	buf_add_char(out, '?');
}

static void add_set(struct buf *out, const char *prefix, const char *name)
{
	add_name(out, prefix, name);
	buf_add_str(out, " = ?");
}

static void add_merged(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "%s = coalesce(excluded.%s, %s)", name, name, name);
}

static void add_named(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "? AS %s", name);
}

static void add_raised(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "%s = coalesce(max(processes.%s, new.%s), processes.%s, new.%s)", name,
		   name, name, name, name);
}

static const struct word {
	const char *text;
	void (*add)(struct buf *out, const char *prefix, const char *name);
} words[] = {
	{ "@named", add_named }, { "@names", add_name },    { "@values", add_value },
	{ "@sets", add_set },	 { "@merged", add_merged }, { "@raised", add_raised },
};

static void add_word(struct buf *out, const struct word *word, const struct statement_row *row)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(row->parts) && row->parts[i].columns; i++) {
		const struct part *part = &row->parts[i];

		for (size_t k = 0; k < part->columns->n; k++) {
			buf_add_str(out, comma);
			word->add(out, part->prefix, part->columns->items[k].name);
			comma = ", ";
		}
	}
}

/* The word that p begins with; NULL: none. */
static const struct word *find_word(const char *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strncmp(p, words[i].text, strlen(words[i].text)) == 0)
			return &words[i];
	return NULL;
}

void statement_write(enum statement id, struct buf *out)
{
	const struct statement_row *row = &rows[id];
	const char *p = row->text;

	while (*p) {
		const struct word *word = *p == '@' ? find_word(p) : NULL;
		size_t plain = word ? 0 : 1 + strcspn(p + 1, "@");

		buf_add(out, p, plain);
		if (word)
			add_word(out, word, row);
		p += word ? strlen(word->text) : plain;
	}
}
