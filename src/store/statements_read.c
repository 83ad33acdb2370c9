/* statements_read - what is read. */
#include "base/macros.h"
#include "store/anomalies.h"
#include "store/anomaly_changes.h"
#include "store/learned_columns.h"
#include "store/statement_rows.h"
#include "store/tables.h"

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

static const struct statement_row rows[] = {
	{
		.id = STATEMENT_LIST_ATTEMPTS,
		ATTEMPT_SELECT
		"WHERE (?1 IS NULL OR job_id = ?1)"
		" AND (a.ended_wall_ns IS NULL OR a.ended_wall_ns > ?2)"
		" AND (NOT ?3 OR NOT EXISTS (SELECT 1 FROM attempts later WHERE later.job = a.job"
		" AND later.attempt_num > a.attempt_num AND later.uid IS a.uid))"
		" AND a.id > ?4 AND (?5 < 0 OR a.uid = ?5) ORDER BY a.id DESC",
		ATTEMPT_PARTS,
	},
	{
		.id = STATEMENT_LIST_RUNNING,
		ATTEMPT_SELECT "WHERE a.ended_wall_ns IS NULL AND (?1 IS NULL OR job_id = ?1)"
			       " ORDER BY a.id DESC",
		ATTEMPT_PARTS,
	},
	/* What was attached has no recorder but a daemon, which would have written its end. */
	{
		.id = STATEMENT_LAST_SIGN,
		"SELECT max(coalesce((SELECT max(wall_ns) FROM ticks WHERE recorder = ?1"
		" OR (recorder < 0 AND (SELECT is_attached FROM attempts WHERE id = ?1))), 0),"
		" coalesce((SELECT max(last_ns) FROM points WHERE attempt = ?1), 0),"
		" coalesce((SELECT max(max(coalesce(started_wall_ns, 0), coalesce(ended_wall_ns, 0)))"
		" FROM sheets WHERE attempt = ?1), 0))",
	},
	{
		.id = STATEMENT_FIND_ATTEMPT,
		ATTEMPT_SELECT
		"WHERE job_id = ?1 AND attempt_num = CASE WHEN ?2 > 0 THEN ?2"
		" ELSE (SELECT max(attempt_num) FROM attempts last WHERE last.job = a.job) END",
		ATTEMPT_PARTS,
	},
	{
		.id = STATEMENT_READ_SHEETS,
		"SELECT @names FROM sheets WHERE attempt = ? ORDER BY num, try_num",
		{ { "", &sheet_columns }, { "", &usage_columns } },
	},
	{
		.id = STATEMENT_READ_RANKS,
		"SELECT @names FROM ranks WHERE attempt = ? AND sheet_num = ? AND try_num = ?"
		" ORDER BY rank",
		{ { "", &rank_columns } },
	},
	{
		.id = STATEMENT_READ_PROCESSES,
		"SELECT @names FROM processes WHERE attempt = ?"
		" ORDER BY born_wall_ns, pid, start_ticks, id",
		{ { "", &process_columns } },
	},
	/* What samples tell is added to it: so_far.c. Of those that are gone the row tells. */
	{
		.id = STATEMENT_READ_PROCESSES_SO_FAR,
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
	{
		.id = STATEMENT_COUNT_PROCESSES,
		"SELECT count(*), coalesce(sum(" IS_UNACCOUNTED "), 0) FROM processes"
		" WHERE attempt = ?",
	},
	{
		.id = STATEMENT_READ_EVENTS,
		"SELECT id, coalesce(wall_ns, 0), @names FROM events WHERE attempt = ?"
		" ORDER BY wall_ns, id",
		{ { "", &event_columns } },
	},
	/*
	 * ?1: the attempt. ?2: the rank. ?3: the process. ?4: the name. ?5: when. Below the phases
	 * of the same process that are open: an index has those alone.
	 */
	{
		.id = STATEMENT_ENTER_PHASE,
		"INSERT INTO phases (attempt, rank, pid, name, path, entered_wall_ns)"
		" SELECT ?1, ?2, ?3, ?4, coalesce((SELECT path || '/' FROM phases WHERE attempt = ?1"
		" AND pid = ?3 AND left_wall_ns IS NULL ORDER BY id DESC LIMIT 1), '') || ?4, ?5"
		" WHERE (SELECT count(*) FROM phases WHERE attempt = ?1 AND pid = ?3"
		" AND left_wall_ns IS NULL) < 32 RETURNING id",
	},
	{
		.id = STATEMENT_COUNT_PHASES,
		"SELECT count(*) FROM phases WHERE attempt = ?1 AND rank IS ?2",
	},
	/* The last one of this process. */
	{
		.id = STATEMENT_EXIT_PHASE,
		"UPDATE phases SET left_wall_ns = max(?4, entered_wall_ns) WHERE id ="
		" (SELECT max(id) FROM phases WHERE attempt = ?1 AND pid = ?2 AND name = ?3"
		" AND left_wall_ns IS NULL) RETURNING id",
	},
	{
		.id = STATEMENT_LIST_OPEN_PHASES,
		"SELECT pid, rank FROM phases WHERE attempt = ?1 AND name = ?2"
		" AND left_wall_ns IS NULL GROUP BY pid ORDER BY max(id)",
	},
	{
		.id = STATEMENT_ADD_LOST_MARKS,
		"UPDATE attempts SET n_lost_marks = coalesce(n_lost_marks, 0) + ?2 WHERE id = ?1",
	},
	{
		.id = STATEMENT_READ_LOST_MARKS,
		"SELECT coalesce(n_lost_marks, 0) FROM attempts WHERE id = ?1",
	},
	{
		.id = STATEMENT_READ_PHASES,
		"SELECT @names FROM " PHASES_AS_TOLD
		" WHERE attempt = ? ORDER BY entered_wall_ns, id",
		{ { "", &phase_columns } },
	},
	/* ?1: entered or left since when. ?2: the job's row, or 0. */
	{
		.id = STATEMENT_WALK_PHASES,
		"SELECT ph.id, jobs.job_id, a.attempt_num, @names FROM " PHASES_AS_TOLD " ph"
		" CROSS JOIN attempts a ON a.id = ph.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE (ph.entered_wall_ns >= ?1 OR ph.left_wall_ns >= ?1) AND (?2 = 0 OR a.job = ?2)"
		" ORDER BY ph.id",
		{ { "ph.", &phase_columns } },
	},
	{
		.id = STATEMENT_READ_ANOMALIES,
		"SELECT @names FROM anomalies WHERE attempt = ? ORDER BY began_wall_ns, id",
		{ { "", &anomaly_place_columns }, { "", &anomaly_columns } },
	},
	{
		.id = STATEMENT_READ_CLOCK,
		"SELECT @names FROM attempts WHERE id = ?",
		{ { "", &clock_columns } },
	},
	{
		.id = STATEMENT_READ_RUNGS,
		"SELECT @names FROM rungs WHERE attempt = ? ORDER BY id",
		{ { "", &rung_columns } },
	},
	{
		.id = STATEMENT_READ_UNKNOWNS,
		"SELECT @names FROM unknowns WHERE attempt = ? ORDER BY id",
		{ { "", &unknown_columns } },
	},
	{
		.id = STATEMENT_READ_SYSCALLS,
		"SELECT @names FROM syscalls WHERE attempt = ?"
		" ORDER BY cpu_ns DESC, count DESC, name",
		{ { "", &syscall_columns } },
	},
	/* One daemon after the other may have counted: unknown and anything is unknown. What a
	 * runner has counted by itself, as its rungs say, is whole; an attached job has none, and
	 * its rungs are the daemon's. */
	{
		.id = STATEMENT_ADD_SYSCALL,
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
	{
		.id = STATEMENT_SET_PROCESS_CALLS,
		"UPDATE processes SET syscalls = ?2 WHERE id = (SELECT id FROM processes"
		" WHERE attempt = ?1 AND pid = ?3 AND (start_ticks = ?4 OR start_ticks IS NULL)"
		" AND syscalls IS NULL ORDER BY start_ticks IS NULL, id LIMIT 1)",
	},
	{
		.id = STATEMENT_READ_POINTS,
		"SELECT fold, last_ns, data, seal FROM points WHERE attempt = ? ORDER BY fold",
	},
	/*
	 * Those of the attempt: so does a fold that the points name have chunks of it. Not those
	 * that are in minutes already: their process's row tells of them.
	 */
	{
		.id = STATEMENT_READ_CHUNKS,
		"SELECT c.id, f.recorder, f.first_ns, f.last_ns, c.process, c.data, c.seal"
		" FROM points o CROSS JOIN folds f ON f.id = o.fold"
		" CROSS JOIN chunks c ON c.id > (f.id << 30) + f.rolled_to"
		" AND c.id <= (f.id << 30) + 1073741823"
		" CROSS JOIN processes p ON p.id = c.process"
		" WHERE o.attempt = ?1 AND p.attempt = ?1",
	},
	/* Recorders with ticks that may be of the attempt: its own, and daemons. */
	{
		.id = STATEMENT_LIST_RECORDERS,
		"SELECT DISTINCT recorder FROM ticks WHERE recorder = ? OR recorder < 0",
	},
	/* The job and the attempt, or the pid of a daemon. */
	{
		.id = STATEMENT_NAME_RECORDER,
		"SELECT job_id, attempt_num FROM attempts a JOIN jobs ON jobs.id = a.job WHERE a.id = ?1"
		" UNION ALL SELECT NULL, pid FROM daemons WHERE id = -?1",
	},
	{
		.id = STATEMENT_LAST_TICK,
		"SELECT max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0))",
	},
	/*
	 * ?1, ?2: from when till when. ?3: the job's row, or 0. ?4: a pid, or 0. Folds that are
	 * all in minutes are not told any more.
	 */
	{
		.id = STATEMENT_WALK_FOLDS,
		"SELECT f.id, f.first_ns, f.last_ns, f.rolled_to FROM folds f"
		" WHERE f.last_ns >= ?1 AND f.first_ns <= ?2 AND f.rolled_to < 1073741823 AND (?3 = 0 OR f.id IN"
		" (SELECT o.fold FROM attempts a JOIN points o ON o.attempt = a.id WHERE a.job = ?3))"
		" AND (?4 = 0 OR f.id IN"
		" (SELECT o.fold FROM processes p JOIN points o ON o.attempt = p.attempt"
		" WHERE p.pid = ?4)) ORDER BY f.first_ns, f.id",
	},
	{
		.id = STATEMENT_WALK_TAILS,
		"SELECT t.recorder, min(t.wall_ns), max(t.wall_ns),"
		" (SELECT coalesce(max(f.id), 0) FROM folds f WHERE f.recorder = t.recorder) FROM ticks t"
		" WHERE (?3 = 0 OR t.recorder < 0 OR t.recorder IN"
		" (SELECT a.id FROM attempts a WHERE a.job = ?3))"
		" AND (?4 = 0 OR t.recorder < 0 OR t.recorder IN"
		" (SELECT p.attempt FROM processes p WHERE p.pid = ?4))"
		" GROUP BY t.recorder HAVING max(t.wall_ns) >= ?1 AND min(t.wall_ns) <= ?2",
	},
	{
		.id = STATEMENT_WALK_TICK_TIMES,
		"SELECT id, wall_ns FROM ticks WHERE recorder = ? AND id > ? AND id <= ?",
	},
	/* Folds that a recorder's ticks became in the meantime. */
	{
		.id = STATEMENT_WALK_NEW_FOLDS,
		"SELECT id FROM folds WHERE recorder = ? AND id > ? ORDER BY id",
	},
	{
		.id = STATEMENT_WALK_FOLD,
		"SELECT f.recorder, f.first_ns, f.last_ns, f.n_ticks, f.data, f.seal FROM folds f"
		" WHERE f.id = ?1 AND (?2 OR f.rolled_to < 1073741823)",
	},
	{
		.id = STATEMENT_WALK_RECORDER,
		"SELECT (SELECT boot_id FROM boots WHERE id = CASE WHEN ?1 > 0"
		" THEN (SELECT boot FROM attempts WHERE id = ?1)"
		" ELSE (SELECT boot FROM daemons WHERE id = -?1) END),"
		" (SELECT j.job_id FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.id = ?1)",
	},
	{
		.id = STATEMENT_WALK_CHUNKS,
		"SELECT c.id, c.data, c.seal, p.id, EXISTS (SELECT 1 FROM images i WHERE i.process = p.id),"
		" a.attempt_num, a.id, jobs.job_id, @names FROM chunks c"
		" CROSS JOIN processes p ON p.id = c.process CROSS JOIN attempts a ON a.id = p.attempt"
		" CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE c.id > (?1 << 30) + ?4 AND c.id <= (?1 << 30) + 1073741823"
		" AND (?2 = 0 OR a.job = ?2) AND (?3 = 0 OR p.pid = ?3) ORDER BY c.id",
		{ { "p.", &sample_process_columns } },
	},
	{
		.id = STATEMENT_WALK_PROCESS,
		"SELECT p.id, EXISTS (SELECT 1 FROM images i WHERE i.process = p.id),"
		" a.attempt_num, a.id, jobs.job_id, @names FROM processes p"
		" CROSS JOIN attempts a ON a.id = p.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE p.id = ?1 AND (?2 = 0 OR a.job = ?2) AND (?3 = 0 OR p.pid = ?3)",
		{ { "p.", &sample_process_columns } },
	},
	{
		.id = STATEMENT_WALK_IMAGES,
		"SELECT until_tick, @names FROM images WHERE process = ? ORDER BY until_tick",
		{ { "", &image_columns } },
	},
	/* ?1, ?2: behind which time and id. ?3, ?4: till when, up to which id. ?5: an attempt. */
	{
		.id = STATEMENT_WALK_EVENTS,
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM events e"
		" CROSS JOIN attempts a ON a.id = e.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE (e.wall_ns, e.id) > (?1, ?2) AND e.wall_ns <= ?3 AND e.id <= ?4"
		" ORDER BY e.wall_ns, e.id",
		{ { "e.", &event_columns } },
	},
	/* Those of the boot ?1, of the attempts from ?2 to ?3, the last first. */
	{
		.id = STATEMENT_WALK_ORPHANS,
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM boots b"
		" CROSS JOIN attempts a ON a.id BETWEEN ?2 AND ?3 AND a.boot = b.id"
		" CROSS JOIN events e ON e.attempt = a.id CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE b.boot_id = ?1 AND e.type = 'orphan'"
		" ORDER BY e.wall_ns DESC, e.id DESC LIMIT ?4",
		{ { "e.", &event_columns } },
	},
	/* ?1: behind which id. ?2: up to which. ?3: a job's row, or 0. */
	{
		.id = STATEMENT_FOLLOW_EVENTS,
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM events e"
		" CROSS JOIN attempts a ON a.id = e.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE e.id > ?1 AND e.id <= ?2 AND (?3 = 0 OR a.job = ?3) ORDER BY e.id",
		{ { "e.", &event_columns } },
	},
	/* ?1: a job's row, or 0. ?2, ?3: of attempts that lived then. */
	{
		.id = STATEMENT_CUT_EVENTS,
		"SELECT jobs.job_id, a.attempt_num, u.why FROM unknowns u"
		" CROSS JOIN attempts a ON a.id = u.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE u.what = 'events' AND (?1 = 0 OR a.job = ?1)"
		" AND coalesce(a.ended_wall_ns, ?2) >= ?2 AND a.started_wall_ns <= ?3 ORDER BY u.id",
	},
	/*
	 * ?1, ?2: behind which time and id. ?3: till when. ?4: a job's row, or 0. ?5: an attempt of
	 * it, or 0. When the attempt ended is for those that nobody saw the end of.
	 */
	{
		.id = STATEMENT_WALK_ANOMALIES,
		"SELECT jobs.job_id, a.attempt_num, a.ended_wall_ns, @names FROM anomalies n"
		" LEFT JOIN attempts a ON a.id = n.attempt LEFT JOIN jobs ON jobs.id = a.job"
		" WHERE (n.began_wall_ns, n.id) > (?1, ?2) AND n.began_wall_ns <= ?3"
		" AND (?4 = 0 OR a.job = ?4) AND (?5 = 0 OR a.attempt_num = ?5)"
		" ORDER BY n.began_wall_ns, n.id",
		{ { "n.", &anomaly_place_columns }, { "n.", &anomaly_columns } },
	},
	/* The same of those that lasted into ?6, or may have: one that nobody saw the end of. */
	{
		.id = STATEMENT_WALK_LASTING_ANOMALIES,
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
	{
		.id = STATEMENT_WALK_ATTEMPT_EVENTS,
		"SELECT e.id, a.id, a.uid, a.is_attached, jobs.job_id, a.attempt_num, @names FROM events e"
		" CROSS JOIN attempts a ON a.id = e.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE (e.wall_ns, e.id) > (?1, ?2) AND e.wall_ns <= ?3 AND e.id <= ?4"
		" AND e.attempt = ?5 ORDER BY e.wall_ns, e.id",
		{ { "e.", &event_columns } },
	},
	/* The attempts of a job, and when the first event of each from ?2 on was. */
	{
		.id = STATEMENT_ATTEMPTS_WITH_EVENTS,
		"SELECT a.id, (SELECT min(e.wall_ns) FROM events e WHERE e.attempt = a.id"
		" AND e.wall_ns >= ?2) AS first_ns FROM jobs CROSS JOIN attempts a ON a.job = jobs.id"
		" WHERE jobs.job_id = ?1 AND first_ns IS NOT NULL ORDER BY first_ns, a.id",
	},
	{ .id = STATEMENT_LAST_EVENT, "SELECT max(id) FROM events" },
	{ .id = STATEMENT_LAST_ANOMALY_CHANGE, "SELECT max(id) FROM anomaly_changes" },
	{
		.id = STATEMENT_FOLLOW_ANOMALIES,
		"SELECT c.id, a.uid, jobs.job_id, @names FROM anomaly_changes c"
		" CROSS JOIN anomalies n ON n.id = c.anomaly"
		" LEFT JOIN attempts a ON a.id = n.attempt LEFT JOIN jobs ON jobs.id = a.job"
		" WHERE c.id > ?1 AND c.id <= ?2 ORDER BY c.id",
		{ { "n.", &anomaly_place_columns },
		  { "n.", &anomaly_columns },
		  { "c.", &anomaly_change_columns } },
	},
	{
		.id = STATEMENT_FIND_FOLDS,
		"SELECT f.id FROM folds f WHERE f.id >= ?1 AND NOT EXISTS (SELECT 1 FROM folds g"
		" WHERE g.recorder = f.recorder AND g.id >= ?1 AND g.id < f.id) ORDER BY f.id",
	},
	/* Without its WHERE: see vtab_events.c. */
	{
		.id = STATEMENT_SQL_EVENTS,
		"SELECT e.id, a.attempt_num, jobs.job_id, e.type, @names FROM events e"
		" JOIN attempts a ON a.id = e.attempt JOIN jobs ON jobs.id = a.job",
		{ { "e.", &event_sql_columns } },
	},
	/* Folds, ticks beside them, chunks of the last fold, events, jobs. */
	{
		.id = STATEMENT_SIZES,
		"SELECT (SELECT count(*) FROM folds), (SELECT count(*) FROM ticks),"
		" (SELECT count(*) FROM chunks WHERE id BETWEEN (SELECT max(id) FROM folds) << 30"
		" AND ((SELECT max(id) FROM folds) << 30) + 1073741823),"
		" (SELECT max(id) FROM events), (SELECT max(id) FROM jobs)",
	},
};

const struct statement_table statements_reading = { rows, ARRAY_SIZE(rows) };
